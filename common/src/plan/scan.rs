//! The leaf of every query: a scan of partitions, each read by the executor that owns it.
//!
//! The node lives through three forms. Planned: it names all partitions the query reads of one table, with their
//! owners. Stamped: it also carries the query's slot list, the same in every leaf of the query, so that task `i` of
//! every stage runs on slot `i`'s executor. Variant: what one slot's executor is to read; this form travels, and it
//! refuses to run anywhere else.
//!
//! It claims no order and no hash partitioning, since neither would survive a shuffle between processes; only the
//! bucketed form ([`CayenneScanExec::bucketed`]) claims a hash on the bucket column, for joins of tables that are
//! bucketed alike.
use std::{
    fmt::{self, Formatter},
    sync::Arc,
};

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::{
    common::{
        Statistics,
        config::ConfigOptions,
        stats::Precision,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, expressions::Column, utils::collect_columns},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, apply_expression_roots,
        execution_plan::{Boundedness, EmissionType},
        filter_pushdown::{ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown},
        metrics::{ExecutionPlanMetricsSet, MetricsSet},
        projection::{ProjectionExec, ProjectionExpr},
        statistics::StatisticsArgs,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use super::{
    figures::{Figures, counted},
    host::{HostExtension, LocalScan, ScanHost, ScanPartition},
    pacing::pace,
    row_ids,
};
use crate::{error::Error, ids::TableId};

/// One position of the query's executor list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// Executor id.
    pub executor: String,
    /// Where it is reached.
    pub url: String,
}

/// A partition and the executor that is to read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacedPartition {
    /// What to read.
    pub scan: ScanPartition,
    /// Its owner.
    pub owner: Slot,
    /// Bucket number, for tables whose only partition expression is a bucket.
    pub bucket: Option<u32>,
}

/// How a table is bucketed, as far as co-located joins need it. Two scans with equal layouts keep equal keys in equal
/// streams of equal slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketLayout {
    /// Number of buckets.
    pub buckets: u32,
    /// Version of the hash.
    pub hash_version: u32,
    /// Index of the bucket column in the table's schema.
    pub column: usize,
}

/// What a scan reads: fixed when the query is planned.
#[derive(Debug, Clone)]
pub struct ScanSource {
    /// Table.
    pub table_id: TableId,
    /// Name, for people.
    pub table: String,
    /// Schema of the whole table.
    pub schema: SchemaRef,
    /// Partitions to read, after pruning.
    pub partitions: Vec<PlacedPartition>,
    /// Partitions of the table before pruning.
    pub total_partitions: usize,
    /// Present for tables partitioned by one bucket expression.
    pub layout: Option<BucketLayout>,
    /// Estimates over `partitions`, one entry per column of `schema`.
    pub statistics: Statistics,
}

/// The part of one slot.
#[derive(Debug, Clone)]
struct Variant {
    slot: Slot,
    partitions: Vec<ScanPartition>,
    /// Stream of each partition, in bucketed mode.
    stream_of: Option<Vec<usize>>,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct CayenneScanExec {
    source: Arc<ScanSource>,
    projection: Vec<usize>,
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    limit: Option<usize>,
    streams: usize,
    slots: Option<Arc<[Slot]>>,
    /// Claims a hash on these output columns: every stream holds whole buckets.
    bucketed: Option<Vec<usize>>,
    variant: Option<Variant>,
    host: Option<Arc<dyn ScanHost>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    local: Arc<OnceCell<Arc<dyn ExecutionPlan>>>,
}

/// The fields that travel; see [`CayenneScanExec::encode_parts`].
#[derive(Debug, Clone)]
pub struct VariantParts {
    /// Slot it is for.
    pub slot: Slot,
    /// What to read there.
    pub partitions: Vec<ScanPartition>,
    /// Stream of each partition, in bucketed mode.
    pub stream_of: Option<Vec<usize>>,
    /// Columns of the table.
    pub projection: Vec<usize>,
    /// Conjuncts over the table's schema.
    pub predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// Rows needed of each stream.
    pub limit: Option<usize>,
    /// Output streams.
    pub streams: usize,
    /// Output columns whose hash is claimed.
    pub bucketed: Option<Vec<usize>>,
}

/// Bytes that one value takes in memory, roughly.
#[must_use]
pub fn estimated_width(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(match data_type {
        DataType::Boolean => 1,
        DataType::Dictionary(_, _) => 8,
        _ => 32,
    })
}

fn properties(schema: SchemaRef, streams: usize, bucketed: Option<&[usize]>) -> Arc<PlanProperties> {
    let partitioning = match bucketed {
        Some(columns) => {
            let column = |i: &usize| Arc::new(Column::new(schema.field(*i).name(), *i)) as Arc<dyn PhysicalExpr>;
            Partitioning::Hash(columns.iter().map(column).collect(), streams)
        }
        None => Partitioning::UnknownPartitioning(streams),
    };
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(schema),
        partitioning,
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl CayenneScanExec {
    /// A planned scan. `streams` is at least 2: a leaf with a single stream could end up in the coordinator's own
    /// stage, where no partition is.
    ///
    /// # Errors
    /// The projection names a column that does not exist.
    pub fn try_new(
        source: Arc<ScanSource>,
        projection: Option<Vec<usize>>,
        limit: Option<usize>,
        streams: usize,
    ) -> Result<Self> {
        let projection = projection.unwrap_or_else(|| (0..source.schema.fields().len()).collect());
        let schema = Arc::new(source.schema.project(&projection)?);
        let streams = streams.max(2);
        Ok(Self {
            properties: properties(schema, streams, None),
            source,
            projection,
            predicates: Vec::new(),
            limit,
            streams,
            slots: None,
            bucketed: None,
            variant: None,
            host: None,
            metrics: ExecutionPlanMetricsSet::new(),
            local: Arc::default(),
        })
    }

    /// A variant as it arrives on an executor.
    ///
    /// # Errors
    /// The projection names a column that does not exist.
    pub fn from_parts(
        table_id: TableId,
        table: String,
        schema: SchemaRef,
        parts: VariantParts,
        host: Option<Arc<dyn ScanHost>>,
    ) -> Result<Self> {
        let statistics = Statistics::new_unknown(&schema);
        let source = ScanSource {
            table_id,
            table,
            schema,
            partitions: Vec::new(),
            total_partitions: parts.partitions.len(),
            layout: None,
            statistics,
        };
        let mut scan = Self::try_new(Arc::new(source), Some(parts.projection), parts.limit, parts.streams)?;
        scan.streams = parts.streams;
        scan.predicates = parts.predicates;
        scan.bucketed = parts.bucketed;
        scan.properties = properties(scan.schema(), scan.streams, scan.bucketed.as_deref());
        scan.variant = Some(Variant { slot: parts.slot, partitions: parts.partitions, stream_of: parts.stream_of });
        scan.host = host;
        Ok(scan)
    }

    /// What travels of a variant; `None` if this is not one.
    #[must_use]
    pub fn encode_parts(&self) -> Option<VariantParts> {
        let variant = self.variant.as_ref()?;
        Some(VariantParts {
            slot: variant.slot.clone(),
            partitions: variant.partitions.clone(),
            stream_of: variant.stream_of.clone(),
            projection: self.projection.clone(),
            predicates: self.predicates.clone(),
            limit: self.limit,
            streams: self.streams,
            bucketed: self.bucketed.clone(),
        })
    }

    /// What is read.
    #[must_use]
    pub fn source(&self) -> &Arc<ScanSource> {
        &self.source
    }

    /// Columns of the table, in output order.
    #[must_use]
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// The query's slot list, once stamped.
    #[must_use]
    pub fn slots(&self) -> Option<&Arc<[Slot]>> {
        self.slots.as_ref()
    }

    /// The slot that a variant is for.
    #[must_use]
    pub fn variant_slot(&self) -> Option<&Slot> {
        self.variant.as_ref().map(|v| &v.slot)
    }

    /// Output columns whose hash this scan claims.
    #[must_use]
    pub fn bucketed_columns(&self) -> Option<&[usize]> {
        self.bucketed.as_deref()
    }

    /// Output streams of each slot.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// The same scan with the query's slot list.
    #[must_use]
    pub fn stamped(&self, slots: Arc<[Slot]>) -> Self {
        Self { slots: Some(slots), ..self.clone() }
    }

    /// The same scan, its streams made of whole buckets, claiming a hash on `columns` (output indices that include the
    /// bucket column).
    #[must_use]
    pub fn with_buckets(&self, columns: Vec<usize>) -> Self {
        Self {
            properties: properties(self.schema(), self.streams, Some(&columns)),
            bucketed: Some(columns),
            ..self.clone()
        }
    }

    /// The same scan with fewer columns; `columns` are output indices. Predicates may be over columns that do not come out.
    fn narrowed(&self, columns: &[usize]) -> Result<Self> {
        let projection =
            columns.iter().map(|c| self.projection.get(*c).copied()).collect::<Option<Vec<usize>>>().ok_or_else(
                || DataFusionError::Internal(format!("a column past those of table {}", self.source.table)),
            )?;
        let schema = Arc::new(self.source.schema.project(&projection)?);
        Ok(Self { properties: properties(schema, self.streams, None), projection, ..self.clone() })
    }

    /// A condition over the output as one over the table.
    fn over_table(&self, predicate: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        Arc::clone(predicate)
            .transform(|expr| {
                let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
                let index = *self.projection.get(column.index()).ok_or_else(|| {
                    DataFusionError::Internal(format!(
                        "table {}: predicate column {column} is not read",
                        self.source.table
                    ))
                })?;
                Ok(Transformed::yes(Arc::new(Column::new(column.name(), index)) as Arc<dyn PhysicalExpr>))
            })
            .data()
    }

    /// Pushed conjuncts over the table's schema.
    #[must_use]
    pub fn predicates(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.predicates
    }

    /// The part of slot `index`. Padding slots (a repeated executor, or an index past the list) read nothing.
    ///
    /// # Errors
    /// The scan is not stamped.
    pub fn variant_for(&self, index: usize) -> Result<Self> {
        let slots = self.slots.as_ref().ok_or_else(|| {
            DataFusionError::Internal(format!("scan of table {} has no slot list", self.source.table))
        })?;
        // An index past the list keeps the URL of some slot: it reads nothing there.
        let slot = slots[index % slots.len()].clone();
        let first = slots.iter().position(|s| s.executor == slot.executor) == Some(index);
        let mine: Vec<&PlacedPartition> = if first {
            self.source.partitions.iter().filter(|p| p.owner.executor == slot.executor).collect()
        } else {
            Vec::new()
        };
        let stream_of = self.bucketed.as_ref().map(|_| bucket_streams(&mine, slots, self.streams));
        let partitions = mine.iter().map(|p| p.scan).collect();
        Ok(Self {
            variant: Some(Variant { slot, partitions, stream_of }),
            metrics: ExecutionPlanMetricsSet::new(),
            local: Arc::default(),
            ..self.clone()
        })
    }

    /// Whether a condition is about the names of rows.
    fn names_rows(&self, predicate: &Arc<dyn PhysicalExpr>) -> bool {
        let own = row_ids::own_columns(&self.source.schema);
        let hidden = |c: &Column| self.projection.get(c.index()).is_none_or(|column| *column >= own);
        own < self.source.schema.fields().len() && collect_columns(predicate).iter().any(hidden)
    }

    fn host(&self, context: &TaskContext) -> Result<Arc<dyn ScanHost>> {
        let extension = context.session_config().get_extension::<HostExtension>();
        self.host.clone().or_else(|| extension.map(|h| Arc::clone(&h.0))).ok_or_else(|| {
            Error::internal(format!(
                "the scan of table {} was to run in a process that holds no partitions",
                self.source.table
            ))
            .into()
        })
    }

    fn request(&self, variant: &Variant) -> LocalScan {
        LocalScan {
            table: self.source.table.clone(),
            schema: Arc::clone(&self.source.schema),
            partitions: variant.partitions.clone(),
            projection: Some(self.projection.clone()),
            predicates: self.predicates.clone(),
            limit: self.limit,
            streams: self.streams,
            stream_of: variant.stream_of.clone(),
        }
    }
}

/// Metrics of the storage engine that say how much of what is stored was read.
const READING: [&str; 13] = [
    "candidate_files",
    "candidate_rows",
    "uncovered_files",
    "files_total",
    "files_pruned",
    "file_pieces_skipped",
    "rows_total",
    "rows_pruned",
    "rows_deleted",
    "bytes_total",
    "bytes_read",
    "reads",
    "rows_by_key",
];
/// Begin those that say which secondary index served, and what the index of the primary key did.
const LOOKUPS: [&str; 2] = ["lookup_index", "key_lookup"];

/// Takes over what the leaves of the engine's plan say about reading.
fn add_reading(plan: &dyn ExecutionPlan, metrics: &mut MetricsSet) {
    for child in plan.children() {
        add_reading(child.as_ref(), metrics);
    }
    if plan.children().is_empty() {
        let leaf = plan.metrics().unwrap_or_default();
        let is_shown = |name: &str| READING.contains(&name) || LOOKUPS.iter().any(|begin| name.starts_with(begin));
        leaf.iter().filter(|metric| is_shown(metric.value().name())).for_each(|m| metrics.push(Arc::clone(m)));
    }
}

/// Stream of each partition: a function of its bucket and of what all scans of the query share, so that a bucket is read
/// by the same stream in every scan. Where buckets are dealt out in turn, neighbours on an executor get different streams.
fn bucket_streams(partitions: &[&PlacedPartition], slots: &[Slot], streams: usize) -> Vec<usize> {
    let mut executors: Vec<&str> = slots.iter().map(|s| s.executor.as_str()).collect();
    executors.sort_unstable();
    executors.dedup();
    let stream = |bucket: u32| (bucket as usize / executors.len().max(1)) % streams.max(1);
    partitions.iter().map(|p| p.bucket.map_or(0, stream)).collect()
}

impl DisplayAs for CayenneScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "CayenneScanExec: table={}", self.source.table)?;
        if let Some(variant) = &self.variant {
            write!(f, ", owner={}, partitions={}", variant.slot.url, variant.partitions.len())?;
        } else {
            write!(f, ", partitions={}/{}", self.source.partitions.len(), self.source.total_partitions)?;
            let mut owners: Vec<&str> = self.source.partitions.iter().map(|p| p.owner.url.as_str()).collect();
            owners.sort_unstable();
            owners.dedup();
            write!(f, ", owners=[{}]", owners.join(", "))?;
        }
        let names: Vec<&str> = self.projection.iter().map(|i| self.source.schema.field(*i).name().as_str()).collect();
        write!(f, ", projection=[{}]", names.join(", "))?;
        if !self.predicates.is_empty() {
            let texts: Vec<String> = self.predicates.iter().map(ToString::to_string).collect();
            write!(f, ", predicate={}", texts.join(" AND "))?;
        }
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        if self.bucketed.is_some() {
            write!(f, ", by_bucket")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for CayenneScanExec {
    fn name(&self) -> &'static str {
        "CayenneScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        // Joins feed a dynamic filter only if they find it in the probe side this way.
        apply_expression_roots(&self.predicates, f)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, stream: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(variant) = &self.variant else {
            return Err(Error::internal(format!(
                "the scan of table {} was not routed to an owner; this plan is unsafe to run",
                self.source.table
            ))
            .into());
        };
        let host = self.host(&context)?;
        if host.executor_id() != variant.slot.executor {
            return Err(Error::stale_route(format!(
                "a scan of table {} meant for executor {} reached executor {}",
                self.source.table,
                variant.slot.executor,
                host.executor_id()
            ))
            .into());
        }
        let figures = Figures::of_source(&self.metrics, stream);
        let request = self.request(variant);
        let local = Arc::clone(&self.local);
        let (opener, table) = (Arc::clone(&host), self.source.table.clone());
        let opened = async move {
            let open = || async { pace(opener.scan(request).await?) };
            let plan = local.get_or_try_init(open).await?;
            plan.execute(stream, context)
        };
        let rows = futures::stream::once(opened).try_flatten().map(move |batch| {
            let batch = batch.map_err(|error| host.failure(&table, error))?;
            ::metrics::counter!("ancho_scan_rows_total").increment(batch.num_rows() as u64);
            Ok(batch)
        });
        Ok(counted(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)), figures))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut metrics = self.metrics.clone_inner();
        if let Some(reading) = self.local.get() {
            add_reading(reading.as_ref(), &mut metrics);
        }
        Some(metrics)
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        if args.partition().is_some() {
            return Ok(Arc::new(Statistics::new_unknown(&self.schema())));
        }
        let projection = Some(&self.projection);
        let mut statistics = self.source.statistics.clone().project(projection);
        // What is read of a row decides which side of a join is the smaller one.
        let schema = self.schema();
        let width = schema.fields().iter().map(|f| estimated_width(f.data_type())).sum();
        statistics.total_byte_size = statistics.num_rows.multiply(&Precision::Inexact(width));
        if !self.predicates.is_empty() {
            statistics = statistics.to_inexact();
        }
        Ok(Arc::new(statistics))
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let column = |shown: &ProjectionExpr| {
            shown.expr.downcast_ref::<Column>().filter(|c| c.name() == shown.alias).map(Column::index)
        };
        let Some(columns) = projection.expr().iter().map(column).collect::<Option<Vec<usize>>>() else {
            return Ok(None);
        };
        // The claim of a hash names output columns.
        if self.bucketed.is_some() {
            return Ok(None);
        }
        Ok(Some(Arc::new(self.narrowed(&columns)?)))
    }

    fn handle_child_pushdown_result(
        &self,
        _: FilterPushdownPhase,
        pushed: ChildPushdownResult,
        _: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut answers = Vec::with_capacity(pushed.parent_filters.len());
        let mut predicates = self.predicates.clone();
        for filter in &pushed.parent_filters {
            // A volatile filter must be computed once per row, where the plan put it; and the names of rows are known only
            // when a row has been read.
            if datafusion::physical_expr_common::physical_expr::is_volatile(&filter.filter)
                || self.names_rows(&filter.filter)
            {
                answers.push(PushedDown::No);
            } else {
                predicates.push(self.over_table(&filter.filter)?);
                answers.push(PushedDown::Yes);
            }
        }
        // With a filter in place, a limit on scanned rows would cut rows that pass it.
        let limit = if predicates.is_empty() { self.limit } else { None };
        let node = Self { predicates, limit, ..self.clone() };
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(answers)
            .with_updated_node(Arc::new(node) as Arc<dyn ExecutionPlan>))
    }
}

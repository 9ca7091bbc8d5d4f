//! The file source of a scan: Vortex's, plus what happened to the files before it came to them.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result as DFResult};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{DynamicFilterTracking, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::pruning::FilePruner;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPropagation;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use futures::{FutureExt, StreamExt, stream};
use object_store::ObjectStore;

use super::reader::PinnedFile;
use crate::keyed::lookup::KeyFacts;
use crate::lookup_index::narrow::LookupFacts;
use crate::verify::verify_file;

/// How many files the versions have, and how many of them their statistics excluded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pruning {
    pub(crate) total: usize,
    pub(crate) pruned: usize,
    /// How many rows are read, if the primary key says which.
    pub(crate) rows_by_key: Option<u64>,
    /// What the index of the primary key did, if the conditions fix the key.
    pub(crate) key: Option<KeyFacts>,
    /// What the files hold.
    pub(crate) stored: Stored,
    /// What an index did, in tables that have some.
    pub(crate) lookup: Option<LookupFacts>,
}

/// What the files of a scan hold, and how much of it was ruled out before anything was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Rows of all files, deleted ones included.
    pub(crate) rows: u64,
    /// Rows of the files that statistics excluded.
    pub(crate) rows_pruned: u64,
    /// Deleted rows of the others.
    pub(crate) rows_deleted: u64,
    /// Bytes of the others.
    pub(crate) bytes: u64,
}

/// Delegates to Vortex's source. Reports the pruning in `EXPLAIN` and in metrics:
///
/// | metric | what |
/// |---|---|
/// | `files_total`, `files_pruned` | files of the versions, and those that statistics (or the primary key) excluded |
/// | `rows_total`, `rows_pruned` | their rows |
/// | `rows_deleted` | rows of the other files that are deleted, and left out by position |
/// | `bytes_total`, `bytes_read` | of the other files, and what was read of them: zones and columns that nobody needs are not |
/// | `reads` | in how many pieces |
/// | `key_lookup(exact)`, `…(filter)`, `…(none)` | partitions in which the index of the primary key knew the rows, knew files in which they may be, or knew nothing of the version |
/// | `rows_by_key` | rows that it named |
/// | `lookup_index(a, b)` | scans that the index over `(a, b)` served; `lookup_index_none(reason)` those that none did |
/// | `candidate_files`, `candidate_rows` | files in which an index found rows that may match, and these rows |
/// | `uncovered_files` | files that are read in full because the index does not have them yet |
/// | `file_pieces_skipped` | pieces of files that dynamic filters excluded |
#[derive(Clone)]
pub(crate) struct CayenneSource {
    vortex: Arc<dyn FileSource>,
    pruning: Pruning,
}

impl CayenneSource {
    pub(crate) fn new(vortex: Arc<dyn FileSource>, pruning: Pruning) -> Self {
        let Pruning { total, pruned, rows_by_key, key, stored, ref lookup } = pruning;
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        for (name, count) in [
            ("files_total", total),
            ("files_pruned", pruned),
            ("rows_total", number(stored.rows)),
            ("rows_pruned", number(stored.rows_pruned)),
            ("rows_deleted", number(stored.rows_deleted)),
            ("bytes_total", number(stored.bytes)),
        ] {
            MetricBuilder::new(vortex.metrics()).global_counter(name).add(count);
        }
        for (how, count) in key.iter().flat_map(KeyFacts::counts) {
            MetricBuilder::new(vortex.metrics()).global_counter(format!("key_lookup({how})")).add(count);
        }
        if let Some(rows) = rows_by_key {
            MetricBuilder::new(vortex.metrics()).global_counter("rows_by_key").add(number(rows));
        }
        if let Some(facts) = lookup {
            // Metrics are all that comes back from another process: so the name says which index it was.
            let name = match (&facts.index, facts.reason) {
                (Some(index), _) => format!("lookup_index{index}"),
                (None, reason) => format!("lookup_index_none({})", reason.unwrap_or_default()),
            };
            MetricBuilder::new(vortex.metrics()).global_counter(name).add(1);
            let counts = [
                ("candidate_files", facts.candidate_files),
                ("candidate_rows", number(facts.candidate_rows)),
                ("uncovered_files", facts.uncovered_files),
            ];
            for (name, count) in counts.into_iter().filter(|_| facts.index.is_some()) {
                MetricBuilder::new(vortex.metrics()).global_counter(name).add(count);
            }
        }
        Self { vortex, pruning }
    }

    /// The same facts about a changed source.
    fn around(&self, vortex: Arc<dyn FileSource>) -> Arc<dyn FileSource> {
        Arc::new(Self { vortex, pruning: self.pruning.clone() })
    }
}

/// Says which file is damaged when one cannot be read. A failure to read a file that still holds what was written to it
/// is something else, such as an expression that fails on a value, and stays as it is.
struct DamageFinder(Arc<dyn FileOpener>);

impl FileOpener for DamageFinder {
    fn open(&self, file: PartitionedFile) -> DFResult<FileOpenFuture> {
        let Some(pinned) = file.extension::<PinnedFile>().cloned() else { return self.0.open(file) };
        let opening = match self.0.open(file) {
            Ok(opening) => opening,
            Err(error) => return Ok(async move { Err(named(error, pinned).await) }.boxed()),
        };
        Ok(async move {
            let rows = match opening.await {
                Ok(rows) => rows,
                Err(error) => return Err(named(error, pinned).await),
            };
            let rows = rows.then(move |batch| {
                let pinned = pinned.clone();
                async move {
                    match batch {
                        Ok(batch) => Ok(batch),
                        Err(error) => Err(named(error, pinned).await),
                    }
                }
            });
            Ok(rows.boxed())
        }
        .boxed())
    }
}

/// The damage of a file that could not be read, or else what the reader said.
async fn named(error: DataFusionError, pinned: PinnedFile) -> DataFusionError {
    let looking = tokio::task::spawn_blocking(move || verify_file(pinned.pin.inner(), &pinned.entry.file));
    match looking.await {
        Ok(Err(damage)) => damage.into(),
        _ => error,
    }
}

/// Skips a file, or a piece of one, that a dynamic filter excludes by the time it would be opened, and counts it.
/// Vortex's opener does the same without counting.
struct DynamicPruner {
    vortex: Arc<dyn FileOpener>,
    predicate: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    skipped: Count,
    errors: Count,
}

impl FileOpener for DynamicPruner {
    fn open(&self, file: PartitionedFile) -> DFResult<FileOpenFuture> {
        let pruner = FilePruner::try_new(Arc::clone(&self.predicate), &self.schema, &file, self.errors.clone());
        if let Some(mut pruner) = pruner
            && pruner.should_prune()?
        {
            self.skipped.add(1);
            return Ok(async { Ok(stream::empty().boxed()) }.boxed());
        }
        self.vortex.open(file)
    }
}

impl FileSource for CayenneSource {
    fn create_file_opener(
        &self,
        object_store: Arc<dyn ObjectStore>,
        config: &FileScanConfig,
        stream: usize,
    ) -> DFResult<Arc<dyn FileOpener>> {
        let vortex = self.vortex.create_file_opener(object_store, config, stream)?;
        let vortex: Arc<dyn FileOpener> = Arc::new(DamageFinder(vortex));
        let Some(predicate) = self.vortex.filter() else {
            return Ok(vortex);
        };
        if !DynamicFilterTracking::classify(&predicate).contains_dynamic_filter() {
            return Ok(vortex);
        }
        let metrics = self.vortex.metrics();
        Ok(Arc::new(DynamicPruner {
            vortex,
            predicate,
            schema: Arc::clone(self.vortex.table_schema().file_schema()),
            skipped: MetricBuilder::new(metrics).counter("file_pieces_skipped", stream),
            errors: MetricBuilder::new(metrics).counter("num_predicate_creation_errors", stream),
        }))
    }

    fn table_schema(&self) -> &TableSchema {
        self.vortex.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        self.around(self.vortex.with_batch_size(batch_size))
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.vortex.filter()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.vortex.projection()
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.vortex.metrics()
    }

    fn file_type(&self) -> &str {
        "cayenne"
    }

    fn fmt_extra(&self, format: DisplayFormatType, f: &mut Formatter) -> fmt::Result {
        let Pruning { total, pruned, rows_by_key, key, ref lookup, .. } = self.pruning;
        match format {
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, ", files_total={total}, files_pruned={pruned}")?;
                if let Some(rows) = rows_by_key {
                    write!(f, ", rows_by_key={rows}")?;
                }
                for (how, _) in key.iter().flat_map(KeyFacts::counts) {
                    write!(f, ", key_lookup={how}")?;
                }
                if let Some(lookup) = lookup {
                    write!(f, "{lookup}")?;
                }
            }
            DisplayFormatType::TreeRender => writeln!(f, "files_pruned={pruned} of {total}")?,
        }
        self.vortex.fmt_extra(format, f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.vortex.supports_repartitioning()
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> DFResult<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let mut result = self.vortex.try_pushdown_filters(filters, config)?;
        result.updated_node = result.updated_node.map(|vortex| self.around(vortex));
        Ok(result)
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        properties: &EquivalenceProperties,
    ) -> DFResult<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        Ok(match self.vortex.try_pushdown_sort(order, properties)? {
            SortOrderPushdownResult::Exact { inner } => SortOrderPushdownResult::Exact { inner: self.around(inner) },
            SortOrderPushdownResult::Inexact { inner } => {
                SortOrderPushdownResult::Inexact { inner: self.around(inner) }
            }
            SortOrderPushdownResult::Unsupported => SortOrderPushdownResult::Unsupported,
        })
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> DFResult<Option<Arc<dyn FileSource>>> {
        let pushed = self.vortex.try_pushdown_projection(projection)?;
        Ok(pushed.map(|vortex| self.around(vortex)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DFResult<TreeNodeRecursion>,
    ) -> DFResult<TreeNodeRecursion> {
        self.vortex.apply_expressions(f)
    }
}

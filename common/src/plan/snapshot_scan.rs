//! The leaf of a plan that reads a snapshot: partitions in an object store, each read by one executor, whichever.
//!
//! As in a [scan](super::scan) of a table the node is planned with everything there is to read, and cut into variants, one per
//! task; only those travel. What is read of a partition is installed on the executor's disk first, so that nothing of it comes
//! out before all of it was checked.
use std::{
    fmt::{self, Formatter},
    sync::Arc,
};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::SchemaRef,
};
use datafusion::{
    common::{Statistics, stats::Precision, tree_node::TreeNodeRecursion},
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        statistics::StatisticsArgs,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt};

use super::host::{HostExtension, ScanHost, StoredScan};
use crate::{error::Error, ids::PartitionId, snapshot::StoredObject};

/// A partition in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotPart {
    /// Its id in the cluster that made the snapshot.
    pub partition: PartitionId,
    /// Its version there.
    pub version: u64,
    /// Its rows.
    pub rows: u64,
    /// Its manifest.
    pub manifest: StoredObject,
}

/// What is read: fixed when the statement is planned.
#[derive(Debug, Clone, PartialEq)]
pub struct SnapshotSource {
    /// Name of the table, for people.
    pub table: String,
    /// Where the snapshot is, as JSON of a [`SnapshotLocation`](crate::snapshot::SnapshotLocation).
    pub location: String,
    /// The folder of the table there.
    pub folder: String,
    /// Columns of the snapshot.
    pub schema: SchemaRef,
    /// What is to be read of it.
    pub parts: Vec<SnapshotPart>,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct SnapshotScanExec {
    source: Arc<SnapshotSource>,
    projection: Vec<usize>,
    streams: usize,
    /// It is what one task reads.
    variant: bool,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SnapshotScanExec {
    /// A planned scan. `streams` is at least 2, as in a scan of a table and for the same reason.
    ///
    /// # Errors
    /// The projection names a column that does not exist.
    pub fn try_new(source: Arc<SnapshotSource>, projection: Option<Vec<usize>>, streams: usize) -> Result<Self> {
        let projection = projection.unwrap_or_else(|| (0..source.schema.fields().len()).collect());
        let schema = Arc::new(source.schema.project(&projection)?);
        let streams = streams.max(2);
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(streams),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Ok(Self { source, projection, streams, variant: false, properties, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// What one task is to read; to be planned and sent as such.
    #[must_use]
    pub fn variant_of(&self, parts: Vec<SnapshotPart>) -> Self {
        let source = Arc::new(SnapshotSource { parts, ..self.source.as_ref().clone() });
        Self { source, variant: true, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() }
    }

    /// The parts in as many groups of about the same number of rows.
    #[must_use]
    pub fn spread(&self, tasks: usize) -> Vec<Vec<SnapshotPart>> {
        let mut parts = self.source.parts.clone();
        parts.sort_by_key(|part| std::cmp::Reverse(part.rows));
        let mut groups = vec![(0_u64, Vec::new()); tasks.max(1)];
        for part in parts {
            if let Some((rows, group)) = groups.iter_mut().min_by_key(|(rows, group)| (*rows, group.len())) {
                *rows += part.rows;
                group.push(part);
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// What is read.
    #[must_use]
    pub fn source(&self) -> &Arc<SnapshotSource> {
        &self.source
    }

    /// Columns of the snapshot, in output order.
    #[must_use]
    pub fn projection(&self) -> &[usize] {
        &self.projection
    }

    /// Output streams of each task.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.streams
    }

    /// Whether it is what one task reads.
    #[must_use]
    pub fn is_variant(&self) -> bool {
        self.variant
    }

    fn request(&self, part: &SnapshotPart) -> StoredScan {
        StoredScan {
            table: self.source.table.clone(),
            location: self.source.location.clone(),
            folder: self.source.folder.clone(),
            schema: Arc::clone(&self.source.schema),
            projection: self.projection.clone(),
            part: part.clone(),
        }
    }
}

impl DisplayAs for SnapshotScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "SnapshotScanExec: table={}, partitions={}", self.source.table, self.source.parts.len())
    }
}

impl ExecutionPlan for SnapshotScanExec {
    fn name(&self) -> &'static str {
        "SnapshotScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, stream: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if !self.variant {
            return Err(Error::internal(format!(
                "the snapshot of table {} was not spread over tasks; this plan is unsafe to run",
                self.source.table
            ))
            .into());
        }
        let host = context.session_config().get_extension::<HostExtension>().map(|host| Arc::clone(&host.0));
        let host: Arc<dyn ScanHost> = host.ok_or_else(|| {
            Error::internal(format!(
                "the snapshot of table {} was to be read in a process that has no disk for it",
                self.source.table
            ))
        })?;
        let mine = self.source.parts.iter().skip(stream).step_by(self.streams).map(|part| self.request(part));
        let baseline = BaselineMetrics::new(&self.metrics, stream);
        let schema = self.schema();
        let rows = futures::stream::iter(mine.collect::<Vec<_>>())
            .then(move |request| {
                let (host, context) = (Arc::clone(&host), Arc::clone(&context));
                async move { Ok::<_, DataFusionError>(host.read_snapshot(request, context).await?) }
            })
            .try_flatten();
        let declared = Arc::clone(&schema);
        let rows = rows.map(move |batch| {
            let batch: RecordBatch = batch?;
            baseline.record_output(batch.num_rows());
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            Ok(RecordBatch::try_new_with_options(Arc::clone(&declared), batch.columns().to_vec(), &options)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if args.partition().is_none() {
            let rows: u64 = self.source.parts.iter().map(|part| part.rows).sum();
            statistics.num_rows = Precision::Inexact(usize::try_from(rows).unwrap_or(usize::MAX));
        }
        Ok(Arc::new(statistics))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;

    use super::*;

    #[test]
    fn every_part_is_in_one_group() {
        let part = |id, rows| SnapshotPart {
            partition: PartitionId(id),
            version: 1,
            rows,
            manifest: StoredObject::of(id.to_string(), b""),
        };
        let source = SnapshotSource {
            table: "t".into(),
            location: "{}".into(),
            folder: "f".into(),
            schema: Arc::new(Schema::empty()),
            parts: vec![part(1, 10), part(2, 100), part(3, 0), part(4, 60), part(5, 30)],
        };
        let scan = SnapshotScanExec::try_new(Arc::new(source), None, 1).unwrap();
        assert_eq!((scan.streams(), scan.is_variant()), (2, false));
        for tasks in [1, 2, 3, 7] {
            let groups = scan.spread(tasks);
            assert_eq!(groups.len(), tasks);
            let mut ids: Vec<u64> = groups.iter().flatten().map(|part| part.partition.0).collect();
            ids.sort_unstable();
            assert_eq!(ids, [1, 2, 3, 4, 5], "{tasks} tasks");
        }
        let rows: Vec<u64> = scan.spread(2).iter().map(|group| group.iter().map(|part| part.rows).sum()).collect();
        assert_eq!(rows, [100, 100]);
    }
}

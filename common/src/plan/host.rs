//! What an executor offers to the scans that reach it.
use std::{fmt::Debug, sync::Arc, time::Duration};

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::{
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::ExecutionPlan,
};

use super::snapshot_scan::SnapshotPart;
use crate::{
    error::Result,
    ids::{PartitionId, WriteId},
};

/// How long owners keep a version that a newer one has superseded.
pub const VERSION_RETENTION: Duration = Duration::from_secs(600);

/// A partition at the version that a query reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanPartition {
    /// Which.
    pub partition: PartitionId,
    /// Epoch of the owner that was asked.
    pub epoch: u64,
    /// Committed version to read; 0 is empty.
    pub version: u64,
    /// The write that made that version, so that an owner that has it staged can publish it first.
    pub write_id: Option<WriteId>,
    /// What the reader's own transaction has staged on that version.
    pub staged: Option<WriteId>,
}

/// One executor's part of a scan.
#[derive(Debug, Clone)]
pub struct LocalScan {
    /// Name, for messages.
    pub table: String,
    /// Schema of the whole table, and behind it the [names](super::row_ids) of rows if they may be asked for.
    pub schema: SchemaRef,
    /// What to read.
    pub partitions: Vec<ScanPartition>,
    /// Columns by index; all if `None`.
    pub projection: Option<Vec<usize>>,
    /// Conjuncts over the schema of the whole table; exactly the rows that pass all are wanted.
    pub predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// No more rows than these are needed from each stream.
    pub limit: Option<usize>,
    /// Number of output streams of the plan.
    pub streams: usize,
    /// If given: stream `stream_of[i]` reads `partitions[i]`. Otherwise files are spread freely.
    pub stream_of: Option<Vec<usize>>,
}

/// A partition of a snapshot that is to be read.
#[derive(Debug, Clone)]
pub struct StoredScan {
    /// Name of the table, for messages.
    pub table: String,
    /// Where the snapshot is, as JSON.
    pub location: String,
    /// The folder of the table there.
    pub folder: String,
    /// Columns of the snapshot.
    pub schema: SchemaRef,
    /// Columns wanted, by index.
    pub projection: Vec<usize>,
    /// The partition.
    pub part: SnapshotPart,
}

/// The partitions of this process.
#[async_trait]
pub trait ScanHost: Debug + Send + Sync {
    /// Which executor this is.
    fn executor_id(&self) -> &str;

    /// A plan with exactly `streams` output streams and the projected schema.
    ///
    /// # Errors
    /// `StaleRoute` where a partition is not held at that epoch or version, `Unavailable` while the session has lapsed,
    /// `Corrupt` where a file is damaged or missing.
    async fn scan(&self, request: LocalScan) -> Result<Arc<dyn ExecutionPlan>>;

    /// The rows of a partition of a snapshot: all of them, or an error.
    ///
    /// # Errors
    /// `Unavailable` where the store does not answer, `Corrupt` where it holds something else than the snapshot names,
    /// `Exhausted` where there is no room on the disk. They may come with the rows.
    async fn read_snapshot(&self, request: StoredScan, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream>;

    /// What went wrong while such a plan ran, in a form that keeps its kind on the way to other processes.
    fn failure(&self, table: &str, error: DataFusionError) -> DataFusionError;
}

/// The host in a session, for nodes that are decoded there.
#[derive(Debug, Clone)]
pub struct HostExtension(pub Arc<dyn ScanHost>);

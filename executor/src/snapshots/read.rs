//! The rows of a partition of a snapshot, for a statement: the partition is installed in a directory of its own, so that all of
//! it is checked before a row comes out, and goes with the last row.
use std::{
    fs,
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use ancho_common::{
    error::{Error, Result},
    plan::host::StoredScan,
};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use cayenne::{InstallOptions, Partition, PartitionManifest, PartitionOptions, ScanRequest};
use datafusion::{
    error::DataFusionError,
    execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext},
};
use futures::{Stream, StreamExt};
use tokio::sync::OwnedSemaphorePermit;
use uuid::Uuid;

use super::{source::StoredFiles, stored::check_part};
use crate::host::{PartitionHost, failure, from_storage};

impl PartitionHost {
    /// See [`ScanHost::read_snapshot`].
    pub(crate) async fn read_stored(
        &self,
        request: StoredScan,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let snapshots = self.snapshots();
        let permit = Arc::clone(&snapshots.reads).acquire_owned().await.map_err(|e| Error::internal(e.to_string()))?;
        let store = snapshots.store(&request.location)?;
        let bytes = store.read_checked(&request.part.manifest).await?;
        let manifest = PartitionManifest::decode(&bytes).map_err(|e| from_storage("reading a manifest", e))?;
        check_part(&request, &manifest)?;
        let install = InstallOptions { limit: Some(snapshots.memory.clone()), ..InstallOptions::default() };
        let source = Arc::new(StoredFiles { store, folder: request.folder.clone() });
        let mut copy =
            Scratch { dir: snapshots.scratch.join(Uuid::new_v4().to_string()), partition: None, _permit: permit };
        let doing = format!("reading a snapshot of table {}", request.table);
        let options: PartitionOptions = self.partition_options().clone();
        let installed = Partition::install(&copy.dir, &manifest, source, options, &install).await;
        let partition = installed.map_err(|e| from_storage(&doing, e))?;
        copy.partition = Some(partition.clone());
        let pin = partition.pin(None).map_err(|e| from_storage(&doing, e))?;
        let scan = ScanRequest { projection: Some(request.projection.clone()), streams: 1, ..ScanRequest::default() };
        let plan = cayenne::scan(&[pin], &scan).map_err(|e| from_storage(&doing, e))?;
        let rows = plan.execute(0, context)?;
        Ok(Box::pin(StoredRows { rows, expected: request.part.rows, seen: 0, request, _copy: copy }))
    }
}

/// A directory that goes with whoever reads it.
struct Scratch {
    dir: PathBuf,
    partition: Option<Partition>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(partition) = self.partition.take() {
            partition.close();
        }
        let dir = std::mem::take(&mut self.dir);
        // What cannot be removed now goes when the process starts again.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || fs::remove_dir_all(dir))),
            Err(_) => drop(fs::remove_dir_all(dir)),
        }
    }
}

/// The rows, counted: an end before the last one is an error.
struct StoredRows {
    // First: it reads what the copy holds.
    rows: SendableRecordBatchStream,
    expected: u64,
    seen: u64,
    request: StoredScan,
    _copy: Scratch,
}

impl Stream for StoredRows {
    type Item = Result<RecordBatch, DataFusionError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let batch = ready!(self.rows.poll_next_unpin(context));
        Poll::Ready(match batch {
            Some(Ok(batch)) => {
                self.seen += batch.num_rows() as u64;
                Some(Ok(batch))
            }
            Some(Err(error)) => Some(Err(failure(&self.request.table, error))),
            None if self.seen == self.expected => None,
            None => {
                let text = format!(
                    "the snapshot of table {} has {} rows in partition {}, and {} came out",
                    self.request.table, self.expected, self.request.part.partition, self.seen
                );
                // Said once.
                self.seen = self.expected;
                Some(Err(Error::corrupt(text).into()))
            }
        })
    }
}

impl RecordBatchStream for StoredRows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

/// Removes what a former process left, and makes the directory.
pub(super) fn fresh(dir: &Path) {
    let _ = fs::remove_dir_all(dir);
    if let Err(error) = fs::create_dir_all(dir) {
        tracing::warn!(dir = %dir.display(), %error, "the directory for reading snapshots cannot be made");
    }
}

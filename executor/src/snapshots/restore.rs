//! A partition whose rows are not on this disk is installed from the store, beside everything else that the executor does. It
//! is tried again until it is there, or until another snapshot or nobody is wanted here.
use std::{path::PathBuf, sync::Arc, time::Duration};

use ancho_common::{
    error::{Error, Result},
    ids::PartitionId,
};
use ancho_proto::v1 as proto;
use cayenne::{InstallOptions, InstallProgress, Partition, PartitionManifest, PartitionOptions};
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::{Snapshots, source::StoredFiles, stored_object};
use crate::host::from_storage;

/// The first pause after a failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A restore that is under way. Dropping it ends it; what is on the disk by then is used by the next.
#[derive(Debug)]
pub(crate) struct Restore {
    /// Of this manifest.
    manifest: String,
    progress: Arc<InstallProgress>,
    failure: Arc<Mutex<Option<Error>>>,
    _task: AbortOnDropHandle<()>,
}

/// What is to be restored, and where to.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    pub(crate) partition: PartitionId,
    /// The partition as errors name it.
    pub(crate) place: String,
    pub(crate) snapshot: proto::PartitionSnapshot,
    pub(crate) dir: PathBuf,
    pub(crate) options: PartitionOptions,
}

impl Restore {
    /// Begins one. `done` is called with the open partition.
    pub(crate) fn begin<F>(
        snapshots: &Arc<Snapshots>,
        wanted: Wanted,
        done: impl FnOnce(Partition) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (progress, failure) = (Arc::<InstallProgress>::default(), Arc::<Mutex<Option<Error>>>::default());
        let manifest = key_of(&wanted.snapshot).to_owned();
        let (snapshots, follow, note) = (Arc::clone(snapshots), Arc::clone(&progress), Arc::clone(&failure));
        let task = async move {
            let mut pause = FIRST_PAUSE;
            let partition = loop {
                match install(&snapshots, &wanted, &follow).await {
                    Ok(partition) => break partition,
                    Err(error) => {
                        warn!(place = %wanted.place, %error, "a partition could not be restored yet");
                        *note.lock() = Some(error);
                    }
                }
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            };
            info!(
                place = %wanted.place, version = wanted.snapshot.version, bytes = follow.total_bytes(),
                "restored a partition from a snapshot"
            );
            done(partition).await;
        };
        Self { manifest, progress, failure, _task: AbortOnDropHandle::new(tokio::spawn(task)) }
    }

    /// Whether it is of this manifest.
    pub(crate) fn is_of(&self, snapshot: &proto::PartitionSnapshot) -> bool {
        self.manifest == key_of(snapshot)
    }

    /// Why the partition cannot be served yet.
    pub(crate) fn hindrance(&self, place: &str) -> Error {
        let (done, total) = (self.progress.done_bytes(), self.progress.total_bytes());
        match &*self.failure.lock() {
            None => Error::unavailable(format!(
                "{place} is being restored from a snapshot ({} of {} MiB)",
                done >> 20,
                total.div_ceil(1 << 20)
            )),
            Some(error) => Error::unavailable(format!(
                "{place}: restoring it from a snapshot failed and is tried again: {}",
                error.message
            )),
        }
    }
}

fn key_of(snapshot: &proto::PartitionSnapshot) -> &str {
    snapshot.manifest.as_ref().map_or("", |object| object.key.as_str())
}

async fn install(snapshots: &Snapshots, wanted: &Wanted, progress: &Arc<InstallProgress>) -> Result<Partition> {
    let Wanted { partition, place, snapshot, dir, options } = wanted;
    let _one = snapshots.restores.acquire().await.map_err(|e| Error::internal(e.to_string()))?;
    let store = snapshots.store(&snapshot.location)?;
    let object = snapshot.manifest.as_ref().ok_or_else(|| Error::internal("a snapshot without a manifest"))?;
    let bytes = store.read_checked(&stored_object(object)).await?;
    let manifest = PartitionManifest::decode(&bytes).map_err(|e| from_storage("reading a manifest", e))?;
    if (manifest.partition_id, manifest.version) != (partition.0, snapshot.version) {
        return Err(Error::corrupt(format!(
            "{place}: {} is of partition id {} at version {}, not at version {}",
            object.key, manifest.partition_id, manifest.version, snapshot.version
        )));
    }
    let install = InstallOptions {
        limit: Some(snapshots.memory.clone()),
        progress: Arc::clone(progress),
        ..InstallOptions::default()
    };
    let source = Arc::new(StoredFiles { store, folder: snapshot.folder.clone() });
    let installed = Partition::install(dir, &manifest, source, options.clone(), &install).await;
    installed.map_err(|e| from_storage("restoring a partition", e))
}

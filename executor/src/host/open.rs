//! Opens what is on disk when the process starts.
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use ancho_common::ids::PartitionId;
use cayenne::{CompactionRunner, Partition};
use futures::{StreamExt, stream};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tracing::{error, info, warn};

use super::{
    HostOptions, PartitionHost,
    slot::{Slot, Store},
};
use crate::{
    copy::Copies,
    error::{Error, Result},
    identity::DataDir,
    session::Lease,
    snapshots::Snapshots,
};

/// Partitions opened at the same time: each waits for the disk most of the time.
const OPEN_AT_ONCE: usize = 16;

/// How long a former holder may take to let go of a directory, and the pause between two looks.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);
const RELEASE_PAUSE: Duration = Duration::from_millis(20);

/// Size of data files where none is asked for and the directory is in memory: they are rewritten at no cost of a disk.
const MEMORY_FILE_BYTES: u64 = 64 << 20;

impl PartitionHost {
    /// Opens every partition of the directory. Damage in one makes that one unserved, not the others.
    ///
    /// # Errors
    /// The directory itself cannot be read.
    pub async fn open(data_dir: &DataDir, lease: Arc<Lease>, options: HostOptions) -> Result<Arc<Self>> {
        let dir = data_dir.partitions();
        let mut options = options;
        if in_memory(&dir) {
            options.partitions.target_file_bytes = options.partitions.target_file_bytes.min(MEMORY_FILE_BYTES);
        }
        let aside = data_dir.path().join("aside");
        fs::create_dir_all(&aside).map_err(Error::io("creating", &aside))?;
        let found = list(&dir)?;
        let compaction = CompactionRunner::start(options.compaction.clone())
            .map_err(|e| Error::Options(format!("compaction cannot be started: {e}")))?;
        let slots: BTreeMap<PartitionId, Arc<Slot>> = stream::iter(found)
            .map(|(id, path)| {
                let (dir, options) = (dir.clone(), options.partitions.clone());
                async move {
                    let opening = tokio::task::spawn_blocking(move || open_one(id, &path, options));
                    let store = opening.await.unwrap_or_else(|e| Store::Damaged(format!("opening it failed: {e}")));
                    (id, Arc::new(Slot::new(&dir, id, store)))
                }
            })
            .buffer_unordered(OPEN_AT_ONCE)
            .collect()
            .await;
        info!(partitions = slots.len(), dir = %dir.display(), "partitions on disk");
        let copies =
            Copies::new(data_dir.path().join("copies"), dir.clone(), options.partitions.clone(), options.copy_rate);
        Ok(Arc::new(Self {
            executor_id: data_dir.executor_id(),
            dir,
            aside,
            options,
            lease,
            copies,
            snapshots: Arc::new(Snapshots::new(data_dir.path().join("snapshots"))),
            compaction: RwLock::new(Some(Arc::new(compaction))),
            slots: RwLock::new(slots),
            applied: Mutex::new(None),
            reconciling: tokio::sync::Mutex::new(()),
            loaded: watch::Sender::new(Arc::default()),
            hindered: watch::Sender::new(Arc::default()),
            changes: watch::Sender::new(0),
        }))
    }
}

/// Whether the directory is on a file system in memory.
fn in_memory(dir: &Path) -> bool {
    use nix::sys::statfs::{TMPFS_MAGIC, statfs};
    // Unknown counts as a disk.
    statfs(dir).is_ok_and(|stat| stat.filesystem_type() == TMPFS_MAGIC)
}

fn list(dir: &Path) -> Result<Vec<(PartitionId, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io("reading", dir))? {
        let entry = entry.map_err(Error::io("reading", dir))?;
        match entry.file_name().to_str().and_then(|name| name.parse().ok()) {
            Some(id) => found.push((PartitionId(id), entry.path())),
            None => warn!(path = %entry.path().display(), "not a partition directory; left alone"),
        }
    }
    found.sort();
    Ok(found)
}

/// Opens a directory that a reader or a compaction of a former holder may still have open for a moment. Blocks.
fn open_when_released(path: &Path, options: &cayenne::PartitionOptions) -> cayenne::Result<Partition> {
    let started = Instant::now();
    loop {
        match Partition::open(path, options.clone()) {
            Err(cayenne::Error::InUse { .. }) if started.elapsed() < RELEASE_PATIENCE => thread::sleep(RELEASE_PAUSE),
            outcome => return outcome,
        }
    }
}

/// Opens one directory and checks that it is what its name says.
pub(super) fn open_one(id: PartitionId, path: &Path, options: cayenne::PartitionOptions) -> Store {
    match open_when_released(path, &options) {
        Ok(partition) if partition.identity().partition_id == id.0 => Store::Open(partition),
        Ok(partition) => {
            let found = partition.identity().partition_id;
            error!(path = %path.display(), found, "directory holds another partition than its name says");
            Store::Damaged(format!("{} holds partition id {found} instead of {id}", path.display()))
        }
        // A creation that did not end: nothing was ever acknowledged in it.
        Err(cayenne::Error::NotAPartition { .. }) => Store::Missing,
        Err(e) => {
            error!(path = %path.display(), error = %e, "partition cannot be opened and is not served");
            Store::Damaged(e.to_string())
        }
    }
}

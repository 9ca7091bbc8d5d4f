//! Partitions go into an object store, and come back from it.
//!
//! * `upload` – a partition at a version becomes a manifest and data files in the store
//! * `source` – data files of a store, for an installation
//! * `restore` – the installation of a partition whose rows are not on this disk
//! * `read` – the rows of a snapshot for a statement; `stored`: whether they are what it says
mod read;
mod restore;
mod source;
mod stored;
mod upload;

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::Arc,
};

use ancho_common::{
    error::{Error, Result},
    ids::PartitionId,
    snapshot::{SnapshotLocation, SnapshotStore, StoredObject},
};
use ancho_proto::v1 as proto;
use cayenne::InstallLimit;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

pub(crate) use self::restore::{Restore, Wanted};

/// Partitions that are uploaded at a time.
const UPLOADS: usize = 2;
/// Partitions that are restored at a time.
const RESTORES: usize = 4;
/// Partitions of snapshots that are read at a time.
const READS: usize = 4;
/// Memory that all restores and reads share, in bytes.
const RESTORE_MEMORY: u64 = 128 << 20;

/// What uploads and restores of an executor share.
#[derive(Debug)]
pub(crate) struct Snapshots {
    /// Opened stores, by what was said of them.
    stores: Mutex<HashMap<String, SnapshotStore>>,
    uploads: Semaphore,
    restores: Arc<Semaphore>,
    reads: Arc<Semaphore>,
    /// Where partitions are that statements read.
    scratch: PathBuf,
    memory: InstallLimit,
    /// Restores that are under way.
    pub(crate) running: Mutex<BTreeMap<PartitionId, Restore>>,
}

impl Snapshots {
    /// Partitions that statements read go below `scratch`; what is left there is removed.
    pub(crate) fn new(scratch: PathBuf) -> Self {
        read::fresh(&scratch);
        Self {
            reads: Arc::new(Semaphore::new(READS)),
            scratch,
            stores: Mutex::default(),
            uploads: Semaphore::new(UPLOADS),
            restores: Arc::new(Semaphore::new(RESTORES)),
            memory: InstallLimit::bytes(RESTORE_MEMORY),
            running: Mutex::default(),
        }
    }

    /// The store that a JSON text names.
    fn store(&self, location: &str) -> Result<SnapshotStore> {
        if let Some(store) = self.stores.lock().get(location) {
            return Ok(store.clone());
        }
        let parsed: SnapshotLocation = serde_json::from_str(location)
            .map_err(|e| Error::unsupported(format!("a location of snapshots cannot be read by this release: {e}")))?;
        let store = parsed.open()?;
        self.stores.lock().insert(location.to_owned(), store.clone());
        Ok(store)
    }
}

fn stored_object(message: &proto::StoredObject) -> StoredObject {
    StoredObject { key: message.key.clone(), bytes: message.bytes, sha256: message.sha256.clone() }
}

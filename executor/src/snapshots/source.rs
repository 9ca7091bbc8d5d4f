//! Data files of a store, for an installation.
use std::{io, ops::Range};

use ancho_common::{
    error::{Error, ErrorKind},
    snapshot::{SnapshotStore, names},
};
use async_trait::async_trait;
use bytes::Bytes;
use cayenne::{FileSource, ManifestFile};

/// The data files of a table's snapshots.
#[derive(Debug)]
pub(super) struct StoredFiles {
    pub(super) store: SnapshotStore,
    /// The folder of the table's snapshots.
    pub(super) folder: String,
}

#[async_trait]
impl FileSource for StoredFiles {
    async fn read(&self, file: &ManifestFile, range: Range<u64>) -> io::Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let read = self.store.read_range(&names::file(&self.folder, file.id), range).await;
        read.map_err(|error: Error| match error.kind {
            ErrorKind::NotFound => io::Error::new(io::ErrorKind::NotFound, error.message),
            _ => io::Error::other(error.message),
        })
    }
}

//! A pinned version: a promise that its files stay.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use uuid::Uuid;

use crate::partition::{Inner, Partition};
use crate::state::{VersionView, VisibleFile};
use crate::stats::DataSummary;

/// A version that stays readable as long as this value or a clone of it lives. Plans made by
/// [`scan`](crate::scan) hold one themselves.
#[derive(Clone)]
pub struct PinnedVersion {
    guard: Arc<Guard>,
}

/// A data file as a pinned version shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct FileInfo {
    /// Its identity, the same wherever the file is copied to.
    pub id: Uuid,
    /// Rows that a reader sees.
    pub rows: u64,
    /// Rows that the file holds besides and that are deleted.
    pub deleted_rows: u64,
    /// The generation whose deletes the file's rows have seen: that in which they were published, or that from which they were
    /// rewritten.
    pub sequence: u64,
    /// What the file holds, deleted or not.
    pub stored: DataSummary,
}

struct Guard {
    inner: Arc<Inner>,
    view: VersionView,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inner.state.lock().unpin(&self.view);
    }
}

impl PinnedVersion {
    pub(crate) fn new(inner: Arc<Inner>, view: VersionView) -> Self {
        Self { guard: Arc::new(Guard { inner, view }) }
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.guard.view.version
    }

    /// The partition.
    pub fn partition(&self) -> Partition {
        Partition { inner: Arc::clone(&self.guard.inner) }
    }

    /// The schema of this version.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.guard.view.schema.logical)
    }

    /// What this version holds.
    pub fn summary(&self) -> &DataSummary {
        &self.guard.view.summary
    }

    /// The state of the files that is pinned. Replacing files gives a version another one, with the same rows.
    pub fn generation(&self) -> u64 {
        self.guard.view.generation
    }

    /// The data files, in the order in which they became part of the partition.
    pub fn data_files(&self) -> Vec<FileInfo> {
        let info = |entry: &VisibleFile| FileInfo {
            id: entry.file.id,
            rows: entry.rows(),
            deleted_rows: entry.deleted_rows(),
            sequence: entry.sequence,
            stored: entry.summary().clone(),
        };
        self.view().files.iter().map(info).collect()
    }

    pub(crate) fn view(&self) -> &VersionView {
        &self.guard.view
    }

    pub(crate) fn files(&self) -> &[VisibleFile] {
        &self.guard.view.files
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.guard.inner
    }
}

impl fmt::Debug for PinnedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedVersion")
            .field("partition", &self.guard.inner.identity)
            .field("version", &self.version())
            .finish()
    }
}

//! A pinned version: a promise that its files stay.

use std::fmt;
use std::sync::Arc;

use crate::partition::{Inner, Partition};
use crate::state::{DataFile, VersionView};
use crate::stats::DataSummary;

/// A version that stays readable as long as this value or a clone of it lives. Plans made by
/// [`scan`](crate::scan) hold one themselves.
#[derive(Clone)]
pub struct PinnedVersion {
    guard: Arc<Guard>,
}

struct Guard {
    inner: Arc<Inner>,
    view: VersionView,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inner.state.lock().unpin(self.view.version);
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

    /// What this version holds.
    pub fn summary(&self) -> &DataSummary {
        &self.guard.view.summary
    }

    pub(crate) fn files(&self) -> &[Arc<DataFile>] {
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

//! Dropping versions that nobody needs, and their files. Runs only when it is called.

use std::sync::Arc;
use std::time::SystemTime;

use crate::error::Result;
use crate::failpoint::Step;
use crate::layout;
use crate::metastore::Expired;
use crate::options::to_ms;
use crate::partition::{Inner, Partition};

/// What a garbage collection removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GarbageReport {
    /// Versions that can no longer be pinned.
    pub versions: u64,
    /// Deletion vectors struck of files that stay; newer ones took their place.
    pub vectors: u64,
    /// Files removed.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Partition {
    /// Drops the versions that the retention lets go at `now` and that nobody has pinned, and removes the files
    /// that only they needed, or that were replaced and are not pinned. Readers of other versions are not disturbed.
    ///
    /// # Errors
    /// [`Error::ReadOnly`](crate::Error::ReadOnly), and of the disk; what is then left behind goes at the next start.
    pub async fn collect_garbage(&self, now: SystemTime) -> Result<GarbageReport> {
        self.inner.check_writable()?;
        let now_ms = to_ms(now);
        self.blocking("collecting garbage", move |inner| collect(inner, now_ms)).await
    }
}

fn collect(inner: &Arc<Inner>, now_ms: u64) -> Result<GarbageReport> {
    let mut metastore = inner.metastore.lock();
    inner.step(Step::Expire)?;
    let retention = inner.options.retention;
    let grace_ms = u64::try_from(retention.grace.as_millis()).unwrap_or(u64::MAX);
    // The current version has age 0, the one it superseded age 1.
    let keep =
        |age: u64, superseded_ms: u64| age <= retention.versions || now_ms < superseded_ms.saturating_add(grace_ms);
    let expendable = inner.state.lock().expire(keep);
    if expendable.versions.is_empty() && expendable.files.is_empty() && expendable.vectors.is_empty() {
        return Ok(GarbageReport::default());
    }
    metastore.expire(&Expired {
        versions: &expendable.versions,
        files: expendable.files.iter().map(|file| file.name.as_str()).collect(),
        vectors: expendable.vectors.iter().map(|(file, added)| (file.name.as_str(), *added)).collect(),
    })?;
    drop(metastore);
    let mut report = GarbageReport {
        versions: expendable.versions.len() as u64,
        vectors: expendable.vectors.len() as u64,
        ..GarbageReport::default()
    };
    for file in &expendable.files {
        inner.step(Step::RemoveFile)?;
        layout::remove_file(&file.path)?;
        report.files += 1;
        report.bytes += file.summary.bytes;
    }
    inner.remove_runs(expendable.files.iter().map(|file| &file.id))?;
    if report.files > 0 {
        layout::sync_directory(&inner.dir.join(layout::FILES))?;
    }
    Ok(report)
}

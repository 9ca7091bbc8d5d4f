//! Making staged writes visible, and forgetting them.

use std::sync::Arc;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::layout;
use crate::metastore::Published;
use crate::options::WriteMode;
use crate::partition::{Inner, Partition};
use crate::stats::DataSummary;

/// A write that is durable and not visible.
#[derive(Debug, Clone, PartialEq)]
pub struct StagedInfo {
    /// The id its writer chose.
    pub write_id: Uuid,
    /// What publishing it will do.
    pub mode: WriteMode,
    /// When it was finished, in milliseconds since 1970.
    pub sealed_ms: u64,
    /// What it holds.
    pub summary: DataSummary,
}

impl Partition {
    /// Makes a finished write visible as exactly `version`, which must be the current version plus one.
    /// Repeating a call that succeeded, or that was interrupted after it took effect, succeeds.
    ///
    /// # Errors
    /// [`Error::UnknownWrite`], [`Error::VersionConflict`], [`Error::PublishedElsewhere`], [`Error::ReadOnly`].
    pub async fn publish(&self, write_id: Uuid, version: u64) -> Result<()> {
        self.inner.check_writable()?;
        self.blocking("publishing a version", move |inner| publish(inner, write_id, version)).await
    }

    /// The finished writes that are not visible, oldest first.
    pub fn staged(&self) -> Vec<StagedInfo> {
        let mut staged: Vec<StagedInfo> = self
            .inner
            .state
            .lock()
            .staged()
            .iter()
            .map(|(write_id, write)| StagedInfo {
                write_id: *write_id,
                mode: write.mode,
                sealed_ms: write.sealed_ms,
                summary: write.summary.clone(),
            })
            .collect();
        staged.sort_by_key(|info| (info.sealed_ms, info.write_id));
        staged
    }

    /// Forgets a finished write and removes its files. Fine if there is no such write.
    ///
    /// # Errors
    /// [`Error::PublishedElsewhere`] when it is visible already (asked for version 0), [`Error::ReadOnly`].
    pub async fn discard(&self, write_id: Uuid) -> Result<()> {
        self.inner.check_writable()?;
        self.blocking("discarding a write", move |inner| discard(inner, write_id)).await
    }
}

fn publish(inner: &Arc<Inner>, write_id: Uuid, version: u64) -> Result<()> {
    let mut metastore = inner.metastore.lock();
    inner.step(Step::Publish)?;
    match metastore.publish(write_id, version, inner.options.clock.now_ms())? {
        Published::Now { mode, now_ms } => inner.state.lock().publish(write_id, version, mode, now_ms),
        Published::Before => {}
    }
    inner.step(Step::Published)
}

fn discard(inner: &Arc<Inner>, write_id: Uuid) -> Result<()> {
    let mut metastore = inner.metastore.lock();
    if let Some(published) = metastore.write(write_id)?.and_then(|record| record.version) {
        return Err(Error::PublishedElsewhere { place: Arc::clone(&inner.place), write_id, asked: 0, published });
    }
    inner.step(Step::Discard)?;
    metastore.discard(write_id)?;
    let Some(write) = inner.state.lock().discard(write_id) else {
        return Ok(());
    };
    drop(metastore);
    inner.step(Step::DiscardFiles)?;
    for file in &write.files {
        inner.step(Step::RemoveFile)?;
        layout::remove_file(&file.path)?;
    }
    layout::sync_directory(&inner.dir.join(layout::FILES))
}

//! Making staged writes visible, and forgetting them.

use std::sync::Arc;

use uuid::Uuid;

use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::keyed::resolve::{Effects, KeyedWrite, resolve};
use crate::keyed::{CommitGuard, Keyed};
use crate::keys::position::Position;
use crate::layout;
use crate::metastore::Committed;
use crate::options::WriteMode;
use crate::partition::{Inner, Partition};
use crate::stats::WriteSummary;

/// A write that is durable and not visible.
#[derive(Debug, Clone, PartialEq)]
pub struct StagedInfo {
    /// The id its writer chose.
    pub write_id: Uuid,
    /// What publishing it will do.
    pub mode: WriteMode,
    /// When it was finished, in milliseconds since 1970.
    pub sealed_ms: u64,
    /// The version that it has read, or that it was last rebased onto.
    pub base_version: u64,
    /// What it does.
    pub summary: WriteSummary,
}

/// A version that is visible.
#[must_use = "it may not be durable yet"]
#[derive(Debug)]
pub struct Published {
    partition: Partition,
    commit: Option<Committed>,
}

impl Published {
    /// Waits until the version is durable, together with others that are waited for.
    ///
    /// # Errors
    /// Of the disk; then nothing more can be written before the partition is opened again.
    pub async fn durable(self) -> Result<()> {
        let Self { partition, commit } = self;
        match commit {
            None => Ok(()),
            Some(commit) => partition.blocking("syncing the metastore", move |inner| inner.make_durable(commit)).await,
        }
    }
}

impl Partition {
    /// Makes a finished write visible as exactly `version`, which must be the current version plus one.
    /// Repeating a call that succeeded, or that was interrupted after it took effect, succeeds.
    ///
    /// # Errors
    /// [`Error::UnknownWrite`], [`Error::VersionConflict`], [`Error::PublishedElsewhere`], [`Error::ReadOnly`];
    /// [`Error::WriteConflict`] as from [`rebase`](Self::rebase), never for a write that was rebased onto the current version.
    pub async fn publish(&self, write_id: Uuid, version: u64) -> Result<()> {
        self.publish_soon(write_id, version).await?.durable().await
    }

    /// As [`publish`](Self::publish), but the version is only durable when the answer says so: after a crash of the machine it may
    /// have to be published again. The write stays staged as long.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub async fn publish_soon(&self, write_id: Uuid, version: u64) -> Result<Published> {
        let commit = self.publish_staged(write_id, version).await?;
        Ok(Published { partition: self.clone(), commit })
    }

    async fn publish_staged(&self, write_id: Uuid, version: u64) -> Result<Option<Committed>> {
        self.inner.check_writable()?;
        let Some(keyed) = self.inner.keyed.clone() else {
            return self.blocking("publishing a version", move |inner| publish(inner, write_id, version, None)).await;
        };
        let partition = self.clone();
        self.to_its_end("publishing a version", async move {
            let guard = keyed.begin_commit().await;
            let by_key = partition.resolve_staged(&keyed, write_id, &guard).await?;
            let publish = move |inner: &Arc<Inner>| {
                let _guard = guard;
                publish(inner, write_id, version, by_key)
            };
            partition.blocking("publishing a version", publish).await
        })
        .await
    }

    /// Runs work that waits to its end even if the caller stops waiting.
    async fn to_its_end<T: Send + 'static>(
        &self,
        task: &'static str,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        tokio::spawn(work).await.map_err(|error| self.inner.died(task, error))?
    }

    /// What a staged write does to the newest version by key; `None` if it is not staged.
    async fn resolve_staged(
        &self,
        keyed: &Keyed,
        write_id: Uuid,
        guard: &CommitGuard,
    ) -> Result<Option<(KeyedWrite, Effects)>> {
        let pin = self.pin(None)?;
        let write = self.inner.state.lock().staged().get(&write_id).and_then(KeyedWrite::of);
        let Some(mut write) = write else { return Ok(None) };
        let effects = resolve(keyed, &pin, &mut write, guard).await?;
        Ok(Some((write, effects)))
    }

    /// Checks a finished write against everything that was published since the version it read, up to `onto_version`,
    /// which must be the current one. Afterwards it counts as if it had read that version, and publishing it next cannot
    /// fail. Writes that only add rows never conflict, unless each must have a new key.
    /// Returns what the write does now.
    ///
    /// # Errors
    /// [`Error::WriteConflict`] when rows that the write deletes were changed by another, or a key that must be new was added;
    /// discard it then and run the statement again. [`Error::UnknownWrite`], [`Error::PublishedElsewhere`]; [`Error::VersionNotYetHere`] and
    /// [`Error::VersionConflict`] when `onto_version` is not the current version.
    pub async fn rebase(&self, write_id: Uuid, onto_version: u64) -> Result<WriteSummary> {
        self.inner.check_writable()?;
        let Some(keyed) = self.inner.keyed.clone() else {
            let rebase = move |inner: &Arc<Inner>| {
                let (summary, committed) = rebase(inner, write_id, onto_version, None)?;
                inner.make_durable(committed)?;
                Ok(summary)
            };
            return self.blocking("rebasing a write", rebase).await;
        };
        let partition = self.clone();
        self.to_its_end("rebasing a write", async move {
            let guard = keyed.begin_commit().await;
            let by_key = partition.resolve_staged(&keyed, write_id, &guard).await?;
            let rebase = move |inner: &Arc<Inner>| {
                let rebased = rebase(inner, write_id, onto_version, by_key.map(|(_, effects)| effects));
                drop(guard);
                let (summary, committed) = rebased?;
                inner.make_durable(committed)?;
                Ok(summary)
            };
            partition.blocking("rebasing a write", rebase).await
        })
        .await
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
                base_version: write.base_version,
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

/// What was committed; nothing if the write is that version already.
fn publish(
    inner: &Arc<Inner>,
    write_id: Uuid,
    version: u64,
    by_key: Option<(KeyedWrite, Effects)>,
) -> Result<Option<Committed>> {
    let mut metastore = inner.metastore.lock();
    inner.step(Step::Publish)?;
    let place = || Arc::clone(&inner.place);
    let record = metastore.write(write_id)?.ok_or_else(|| Error::UnknownWrite { place: place(), write_id })?;
    match record.version {
        // It may have been published just now, and not be durable yet.
        Some(published) if published == version => {
            inner.step(Step::Published)?;
            return Ok(metastore.log().latest());
        }
        Some(published) => {
            return Err(Error::PublishedElsewhere { place: place(), write_id, asked: version, published });
        }
        None => {}
    }
    let planned = {
        let state = inner.state.lock();
        let current = state.current().version;
        if current.checked_add(1) != Some(version) {
            return Err(Error::VersionConflict { place: place(), write_id, asked: version, current });
        }
        let hides = by_key.as_ref().map(|(_, effects)| effects.deletes()).unwrap_or_default();
        match by_key.as_ref().and_then(|(_, effects)| effects.refused.as_ref()) {
            Some(key) => Err(key_is_there(key)),
            None => state.plan_publish(write_id, version, &hides),
        }
    };
    let change = planned.map_err(|detail| inner.conflict(write_id, record.base_version, detail))?;
    let now_ms = inner.options.clock.now_ms();
    let counts = by_key.as_ref().map(|(_, effects)| effects.counts);
    let committed = metastore.publish(write_id, &change, counts, now_ms)?;
    let generation = change.view.generation;
    {
        let mut state = inner.state.lock();
        let before = Arc::clone(&state.current().schema);
        state.publish(write_id, change, now_ms);
        inner.follow_columns(&before, &state.current().schema);
    }
    if let (Some(keyed), Some((write, effects))) = (&inner.keyed, &by_key) {
        let shown = |at: Position| {
            let hidden = effects.hides.get(&write.files[at.file as usize].id);
            hidden.is_none_or(|rows| !rows.contains(u64::from(at.row)))
        };
        keyed.follow(generation, &write.files, write.keys.as_deref(), shown);
    }
    inner.step(Step::Published)?;
    Ok(Some(committed))
}

pub(crate) fn key_is_there(key: &str) -> String {
    format!("the key {key} has been added")
}

fn rebase(
    inner: &Arc<Inner>,
    write_id: Uuid,
    onto: u64,
    effects: Option<Effects>,
) -> Result<(WriteSummary, Committed)> {
    let mut metastore = inner.metastore.lock();
    let place = || Arc::clone(&inner.place);
    let record = metastore.write(write_id)?.ok_or_else(|| Error::UnknownWrite { place: place(), write_id })?;
    if let Some(published) = record.version {
        return Err(Error::PublishedElsewhere { place: place(), write_id, asked: onto.saturating_add(1), published });
    }
    {
        let state = inner.state.lock();
        let current = state.current().version;
        if onto > current {
            return Err(Error::VersionNotYetHere { place: place(), version: onto, current });
        }
        if onto < current {
            return Err(Error::VersionConflict { place: place(), write_id, asked: onto + 1, current });
        }
        if let Some(write) = state.staged().get(&write_id) {
            let checked = state.check_deletes(&write.deletes, &write.files);
            checked.map_err(|detail| inner.conflict(write_id, record.base_version, detail))?;
        }
    }
    if let Some(key) = effects.as_ref().and_then(|effects| effects.refused.as_ref()) {
        return Err(inner.conflict(write_id, record.base_version, key_is_there(key)));
    }
    let counts = effects.map(|effects| effects.counts);
    inner.step(Step::Rebase)?;
    let committed = metastore.rebase(write_id, onto, counts)?;
    inner.state.lock().rebase(write_id, onto, counts);
    let mut summary = record.summary;
    summary.keys = counts.or(summary.keys);
    Ok((summary, committed))
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
    inner.remove_runs(write.files.iter().map(|file| &file.id))?;
    layout::sync_directory(&inner.dir.join(layout::FILES))
}

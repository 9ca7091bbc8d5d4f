//! Statements of a transaction: each is staged on top of the one before, and the transaction reads what it has staged.
//!
//! A transaction reads one version, its snapshot. All that it has done to a partition so far is **one** staged write: a
//! statement's write takes in the one before when it is finished. So it is published, rebased or discarded like any other
//! write, and [`Partition::pin_with`] shows the snapshot with that write in force.
//!
//! Rows of a transaction never replace what others wrote since its snapshot. In a table with a primary key, stored rows that new
//! ones take the place of are found when the statement is finished and deleted by position; then every key must be new. So
//! of two transactions that write one key the first to be committed wins, whatever the key's rule is otherwise.

use std::collections::{BTreeMap, HashMap};

use futures::StreamExt;
use roaring::RoaringTreemap;
use uuid::Uuid;

use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Result};
use crate::keyed::reader::{KeyReader, StoredKeys};
use crate::keyed::resolve::{KeyedWrite, collect, hide_repeats, resolve, shares};
use crate::keyed::rows::{CollectedKeys, KeyedRows, OrderedDeletes};
use crate::keyed::{CommitGuard, Keyed};
use crate::keys::store::KeyStore;
use crate::keys::write_keys::{KeyRule, KeyShare};
use crate::partition::Partition;
use crate::pin::PinnedVersion;
use crate::publish::key_is_there;
use crate::staged_writer::duplicate;
use crate::state::{Deletes, Staged, StagedKeys, VisibleFile};
use crate::stats::{KeyCounts, WriteSummary};

/// What was staged before has been discarded, or was lost with a restart.
pub(crate) const EARLIER_GONE: &str = "what the transaction has staged before is not there any more";

/// Where a statement of a transaction stands in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionPart {
    /// The version that the transaction reads.
    pub snapshot: u64,
    /// The finished write with all that the transaction has done to the partition before, if it has done anything.
    pub over: Option<Uuid>,
}

/// What a finished statement does.
#[derive(Debug, Clone, PartialEq)]
pub struct TransactionSummary {
    /// By itself: the rows that came in and the rows that it names to delete.
    pub own: WriteSummary,
    /// Together with what the transaction has done before.
    pub whole: WriteSummary,
}

impl Partition {
    /// A version as a transaction sees it that has staged a write on it. The files stay as long as the guard lives
    /// **and** the write is not discarded.
    ///
    /// # Errors
    /// As [`pin`](Self::pin); [`Error::UnknownWrite`] when the write is not staged, [`Error::WriteConflict`] when rows that it
    /// deletes are not part of the version.
    pub fn pin_with(&self, version: u64, staged: Uuid) -> Result<PinnedVersion> {
        let pin = self.pin(Some(version))?;
        let inner = &self.inner;
        let mut state = inner.state.lock();
        let Some(write) = state.staged().get(&staged).cloned() else {
            return Err(Error::UnknownWrite { place: std::sync::Arc::clone(&inner.place), write_id: staged });
        };
        let view = state.with_staged(pin.view(), &write);
        let view = view.map_err(|detail| inner.conflict(staged, version, detail))?;
        state.pin_again(&view);
        drop(state);
        Ok(PinnedVersion::new(std::sync::Arc::clone(inner), view))
    }

    /// A statement's write together with what was staged before.
    pub(crate) fn after(&self, part: &TransactionPart, write_id: Uuid, write: Staged) -> Result<Staged> {
        let write = Staged { base_version: part.snapshot, ..write };
        let Some(over) = part.over else { return Ok(write) };
        let inner = &self.inner;
        let state = inner.state.lock();
        let earlier = state.staged().get(&over).ok_or_else(|| EARLIER_GONE.to_owned());
        let combined = earlier.and_then(|earlier| write.after(earlier));
        combined.map_err(|detail| inner.conflict(write_id, part.snapshot, detail))
    }

    /// Finds the rows that the keys of a statement take the place of, stored ones and those of the transaction, and
    /// deletes them by position.
    pub(crate) async fn settle_keys_within(
        &self,
        keyed: &Keyed,
        rows: KeyedRows,
        part: &TransactionPart,
        write_id: Uuid,
        staged: &mut Staged,
    ) -> Result<CommitGuard> {
        let guard = keyed.begin_commit().await;
        let pin = self.pin(None)?;
        let KeyedRows { rule, collected, deletes, .. } = rows;
        let conflict = |detail: String| Err(self.inner.conflict(write_id, part.snapshot, detail));
        if deletes.keys.len() > 0 {
            let detail = "a transaction deletes rows by their names".to_owned();
            return Err(Error::InvalidDelete { place: std::sync::Arc::clone(&self.inner.place), detail });
        }
        let late = pin.version() > part.snapshot;
        let adds = collected.as_ref().is_none_or(|collected| collected.keys.len() > 0);
        let none = || OrderedDeletes { keys: KeyStore::new(keyed.encoder.encoding()), after: Vec::new() };
        let hidden = match collected {
            Some(CollectedKeys { hidden, .. }) if part.over.is_none() => hidden,
            _ => {
                let files = staged.visible_files(0, &pin.view().schema);
                let hidden = hide_repeats(keyed, &pin, rule, &files, &none()).await?;
                hidden.map_err(|repeated| duplicate(&self.inner, repeated.key, true))?
            }
        };
        let hidden: BTreeMap<Uuid, RoaringTreemap> =
            hidden.into_iter().map(|(file, rows)| (staged.files[file as usize].id, rows)).collect();
        staged.hide(&vectors(hidden));
        // What is found from here on is of the newest version, and stands for the snapshot only if the keys are as they were.
        if late && adds && rule != KeyRule::Unique {
            let before = self.pin(Some(part.snapshot))?;
            if keys_changed(keyed, &before, &pin, staged, &none()).await? {
                return conflict("a key that it writes has been written since the transaction began".to_owned());
            }
        }
        let mut write = KeyedWrite {
            rule,
            overwrites: false,
            files: staged.files.clone(),
            deletes: staged.deletes.clone(),
            deleted_keys: none(),
            keys: None,
        };
        let effects = resolve(keyed, &pin, &mut write, &guard).await?;
        if let Some(key) = effects.refused {
            return if late { conflict(key_is_there(&key)) } else { Err(duplicate(&self.inner, key, false)) };
        }
        staged.hide(&effects.deletes());
        let keys = write.keys.filter(|_| rule == KeyRule::Unique);
        let deleted = KeyStore::new(keyed.encoder.encoding());
        staged.by_key = Some(StagedKeys { rule: KeyRule::Unique, deleted, keys });
        let data = &staged.summary.data;
        staged.summary.keys =
            Some(KeyCounts { inserted: data.rows, superseded: data.deleted_rows, ..KeyCounts::default() });
        Ok(guard)
    }
}

/// Whether a key of a write is one of a row that came or went between two versions. Rows that were only moved count, too.
async fn keys_changed(
    keyed: &Keyed,
    before: &PinnedVersion,
    now: &PinnedVersion,
    write: &Staged,
    none: &OrderedDeletes,
) -> Result<bool> {
    let files = write.visible_files(0, &now.view().schema);
    let rows = files.iter().map(|entry| entry.file.summary.rows).sum();
    if shares(keyed, rows).count() > 1 {
        // More keys than fit in memory: it may well be one of them.
        return Ok(true);
    }
    let collected = collect(keyed, now, KeyRule::LastArrival, &files, none, KeyShare::ALL).await?;
    let Ok(CollectedKeys { keys, .. }) = collected else { return Ok(true) };
    for (one, other) in [(before, now), (now, before)] {
        for (file, rows) in only_in(one, other) {
            let mut batches = KeyReader::new(one, keyed).read_rows(&file, rows)?;
            while let Some(batch) = batches.next().await {
                let StoredKeys { keys: found, rows, .. } = batch?;
                if (0..rows.len()).any(|index| keys.number(found.get(index)).is_some()) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// Rows that one version shows and another one does not.
fn only_in(one: &PinnedVersion, other: &PinnedVersion) -> Vec<(VisibleFile, RoaringTreemap)> {
    let others: HashMap<Uuid, &VisibleFile> = other.files().iter().map(|entry| (entry.file.id, entry)).collect();
    let hidden = |entry: &VisibleFile| entry.deleted.as_ref().map(|rows| rows.positions().clone()).unwrap_or_default();
    let rows = |entry: &VisibleFile| {
        let mut rows = match others.get(&entry.file.id) {
            Some(other) => hidden(other),
            None => RoaringTreemap::from_iter(0..entry.file.summary.rows),
        };
        rows -= hidden(entry);
        (entry.clone(), rows)
    };
    one.files().iter().map(rows).filter(|(_, rows)| !rows.is_empty()).collect()
}

fn vectors(rows: BTreeMap<Uuid, RoaringTreemap>) -> Deletes {
    rows.into_iter().map(|(file, rows)| (file, DeletionVector::new(rows))).collect()
}

//! What a finished write means for the stored rows.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use futures::StreamExt;
use roaring::RoaringTreemap;
use uuid::Uuid;

use super::reader::{KeyReader, StoredKeys};
use super::rows::{CollectedKeys, HiddenRows, OrderedDeletes, Repeated};
use super::{CommitGuard, Keyed};
use crate::deletion_vector::DeletionVector;
use crate::error::Result;
use crate::keys::encoder::Key;
use crate::keys::index::Found;
use crate::keys::position::Position;
use crate::keys::times::time_at;
use crate::keys::write_keys::{KeyRule, KeyShare, Outcome, StoredRow, WriteKeys};
use crate::options::WriteMode;
use crate::pin::PinnedVersion;
use crate::schema::TableSchema;
use crate::state::{DataFile, Deletes, Staged, VisibleFile};
use crate::stats::KeyCounts;

/// Bytes that a key takes, about, when nobody has counted.
const BYTES_PER_KEY: u64 = 64;

/// A finished write, as the key of the table sees it.
pub(crate) struct KeyedWrite {
    pub(crate) rule: KeyRule,
    /// Whether it replaces all stored rows.
    pub(crate) overwrites: bool,
    pub(crate) files: Vec<Arc<DataFile>>,
    /// Deleted rows: of stored files, and of its own ones.
    pub(crate) deletes: Deletes,
    /// Keys that it deletes. Its repeats are settled, so they count as if they came before its rows.
    pub(crate) deleted_keys: OrderedDeletes,
    /// All its keys, if they fit in memory.
    pub(crate) keys: Option<Arc<WriteKeys>>,
}

/// What publishing a write does besides what it says itself.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    /// Rows to hide, of stored files and of its own ones.
    pub(crate) hides: BTreeMap<Uuid, RoaringTreemap>,
    pub(crate) counts: KeyCounts,
    /// A stored key that the rule does not allow.
    pub(crate) refused: Option<String>,
}

impl Effects {
    fn hide(&mut self, file: Uuid, row: u32) {
        self.hides.entry(file).or_default().insert(u64::from(row));
    }

    /// The rows to hide.
    pub(crate) fn deletes(&self) -> Deletes {
        self.hides.iter().map(|(file, rows)| (*file, DeletionVector::new(rows.clone()))).collect()
    }
}

impl KeyedWrite {
    /// A staged write of a table that keeps one row per key.
    pub(crate) fn of(staged: &Staged) -> Option<Self> {
        let keys = staged.by_key.as_ref()?;
        Some(Self {
            rule: keys.rule,
            overwrites: staged.mode == WriteMode::Overwrite,
            files: staged.files.clone(),
            deletes: staged.deletes.clone(),
            deleted_keys: OrderedDeletes::before_all(keys.deleted.clone()),
            keys: keys.keys.clone(),
        })
    }

    /// Its files with the rows that it shows.
    fn visible_files(&self, schema: &TableSchema) -> Vec<VisibleFile> {
        let hidden = |file: &DataFile| self.deletes.get(&file.id).cloned().map(Arc::new);
        self.files.iter().map(|file| VisibleFile::new(file, 0, schema).without(hidden(file))).collect()
    }

    fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.summary.rows).sum()
    }
}

/// Reading the files more often than this is worse than taking more memory.
const MAX_SHARES: u64 = 64;

/// Shares of the keys of a write that fit in memory one at a time.
pub(crate) fn shares(keyed: &Keyed, keys: u64) -> impl Iterator<Item = KeyShare> + use<> {
    let of = (keys.saturating_mul(BYTES_PER_KEY)).div_ceil(keyed.room().max(1) as u64).clamp(1, MAX_SHARES);
    (0..of).map(move |index| KeyShare { index, of })
}

/// Reads a share of the keys of a write from its files. Rows of `files` that are deleted do not count.
pub(crate) async fn collect(
    keyed: &Keyed,
    pin: &PinnedVersion,
    rule: KeyRule,
    files: &[VisibleFile],
    deletes: &OrderedDeletes,
    share: KeyShare,
) -> Result<std::result::Result<CollectedKeys, Repeated>> {
    let mut collected = CollectedKeys::new(keyed, rule);
    let mut next_delete = 0;
    let mut first = 0;
    for (file, entry) in (0..).zip(files) {
        let mut batches = KeyReader::new(pin, keyed).read(entry, Vec::new())?;
        while let Some(batch) = batches.next().await {
            let StoredKeys { keys, times, rows } = batch?;
            for (index, &row) in rows.iter().enumerate() {
                let key = keys.get(index);
                if !share.holds(key.hash()) {
                    continue;
                }
                next_delete = delete_until(&mut collected, deletes, next_delete, first + u64::from(row), share);
                let time = times.as_ref().and_then(|times| time_at(times, index));
                if !collected.row(key, Position { file, row }, time) {
                    return Ok(Err(Repeated { key: keyed.encoder.describe(key) }));
                }
            }
            collected.keys.note();
        }
        first += entry.file.summary.rows;
    }
    delete_until(&mut collected, deletes, next_delete, u64::MAX, share);
    Ok(Ok(collected))
}

/// Takes in the deletes that came before the row with this number.
fn delete_until(
    collected: &mut CollectedKeys,
    deletes: &OrderedDeletes,
    mut next: usize,
    row: u64,
    share: KeyShare,
) -> usize {
    while next < deletes.after.len() && deletes.after[next] <= row {
        let key = deletes.keys.get(next);
        if share.holds(key.hash()) {
            collected.delete(key);
        }
        next += 1;
    }
    next
}

/// The rows that repeat a key, in a write whose keys did not fit in memory.
pub(crate) async fn hide_repeats(
    keyed: &Keyed,
    pin: &PinnedVersion,
    rule: KeyRule,
    files: &[VisibleFile],
    deletes: &OrderedDeletes,
) -> Result<std::result::Result<HiddenRows, Repeated>> {
    let rows = files.iter().map(|entry| entry.file.summary.rows).sum::<u64>() + deletes.after.len() as u64;
    let mut hidden = HiddenRows::new();
    for share in shares(keyed, rows) {
        match collect(keyed, pin, rule, files, deletes, share).await? {
            Err(repeated) => return Ok(Err(repeated)),
            Ok(collected) => {
                for (file, rows) in collected.hidden {
                    *hidden.entry(file).or_default() |= rows;
                }
            }
        }
    }
    Ok(Ok(hidden))
}

/// What a write does to the rows of the pinned version, which is the newest one. Keeps the keys of the write if they
/// fit in memory.
pub(crate) async fn resolve(
    keyed: &Keyed,
    pin: &PinnedVersion,
    write: &mut KeyedWrite,
    guard: &CommitGuard,
) -> Result<Effects> {
    let mut effects = Effects::default();
    let own = write.files.iter().filter_map(|file| write.deletes.get(&file.id));
    let repeats: u64 = own.map(DeletionVector::rows).sum();
    effects.counts.superseded = repeats;
    if write.overwrites {
        effects.counts.inserted = write.rows().saturating_sub(repeats);
        return Ok(effects);
    }
    keyed.cover(pin, guard).await?;
    if let Some(keys) = &write.keys {
        resolve_share(keyed, pin, write, keys, &mut effects).await?;
        return Ok(effects);
    }
    let files = write.visible_files(&pin.view().schema);
    for share in shares(keyed, write.rows() + write.deleted_keys.after.len() as u64) {
        let collected = match collect(keyed, pin, write.rule, &files, &write.deleted_keys, share).await? {
            Ok(collected) => Arc::new(collected.keys),
            Err(repeated) => {
                effects.refused = Some(repeated.key);
                return Ok(effects);
            }
        };
        resolve_share(keyed, pin, write, &collected, &mut effects).await?;
        if share == KeyShare::ALL {
            write.keys = Some(collected);
        }
    }
    Ok(effects)
}

async fn resolve_share(
    keyed: &Keyed,
    pin: &PinnedVersion,
    write: &KeyedWrite,
    keys: &WriteKeys,
    effects: &mut Effects,
) -> Result<()> {
    let stored = find(keyed, pin, keys).await?;
    for (number, stored) in stored.into_iter().enumerate() {
        // A row that the write itself deletes is out of its way.
        let stored = stored.filter(|stored| {
            let file = pin.files()[stored.position.file as usize].file.id;
            let deleted = write.deletes.get(&file);
            deleted.is_none_or(|deleted| !deleted.positions().contains(u64::from(stored.position.row)))
        });
        let outcome = keys.outcome(number, stored);
        match outcome {
            Outcome::Inserted => effects.counts.inserted += 1,
            Outcome::Replaced => effects.counts.replaced += 1,
            Outcome::Deleted => effects.counts.deleted += 1,
            Outcome::Nothing => {}
            Outcome::Superseded => {
                effects.counts.superseded += 1;
                if let Some(row) = keys.row(number) {
                    effects.hide(write.files[row.file as usize].id, row.row);
                }
            }
            Outcome::Refused => effects.refused = Some(keyed.encoder.describe(keys.keys().get(number))),
        }
        if let (Outcome::Replaced | Outcome::Deleted, Some(stored)) = (outcome, stored) {
            effects.hide(pin.files()[stored.position.file as usize].file.id, stored.position.row);
        }
    }
    Ok(())
}

/// The visible row of each key. Files in positions are numbered as in the pinned version, which the index covers and
/// which is the newest one.
pub(crate) async fn find(keyed: &Keyed, pin: &PinnedVersion, keys: &WriteKeys) -> Result<Vec<Option<StoredRow>>> {
    let mut stored: Vec<Option<StoredRow>> = vec![None; keys.len()];
    // Numbers of files in the index, and for each file of the version the keys that it has to be asked for.
    let questions: Vec<(usize, Vec<usize>)> = keyed.with_index(|indexed| {
        let index = &indexed.index;
        let numbers: HashMap<u32, u32> =
            (0..).zip(pin.files()).filter_map(|(at, entry)| Some((index.number_of(entry.file.id)?, at))).collect();
        let mut unknown = Vec::new();
        for (number, key) in keys.keys().iter().enumerate() {
            match index.find(key) {
                Found::Absent => {}
                Found::At(row) => stored[number] = visible(pin, &numbers, row),
                Found::Unknown => unknown.push(number),
            }
        }
        if unknown.is_empty() {
            return Vec::new();
        }
        let mut questions: Vec<(usize, Vec<usize>)> = numbers
            .iter()
            .map(|(&file, &at)| {
                let asked = unknown.iter().copied().filter(|number| index.may_be_in(file, keys.keys().get(*number)));
                (at as usize, asked.collect())
            })
            .filter(|(_, asked): &(usize, Vec<usize>)| !asked.is_empty())
            .collect();
        questions.sort_unstable_by_key(|(at, _)| *at);
        questions
    });
    for (at, asked) in questions {
        let reader = KeyReader::new(pin, keyed);
        let wanted: Vec<Key<'_>> = asked.iter().map(|&number| keys.keys().get(number)).collect();
        let mut batches = reader.read(&pin.files()[at], reader.conditions(&wanted)?)?;
        while let Some(batch) = batches.next().await {
            let StoredKeys { keys: found, times, rows } = batch?;
            for (index, &row) in rows.iter().enumerate() {
                if let Some(number) = keys.number(found.get(index)) {
                    let time = times.as_ref().and_then(|times| time_at(times, index));
                    stored[number] = Some(StoredRow { position: Position { file: at as u32, row }, time });
                }
            }
        }
    }
    Ok(stored)
}

/// A row of the index as one of the pinned version, if it is visible there.
pub(crate) fn visible(pin: &PinnedVersion, numbers: &HashMap<u32, u32>, row: StoredRow) -> Option<StoredRow> {
    let at = *numbers.get(&row.position.file)?;
    let deleted = pin.files()[at as usize].deleted.as_ref();
    if deleted.is_some_and(|deleted| deleted.positions().contains(u64::from(row.position.row))) {
        return None;
    }
    Some(StoredRow { position: Position { file: at, ..row.position }, ..row })
}

//! The key of an open partition.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::record_batch::RecordBatch;
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

use super::reader::{KeyReader, StoredKeys};
use crate::error::{Error, Place, Result};
use crate::keys::encoder::KeyEncoder;
use crate::keys::index::KeyIndex;
use crate::keys::memory::{KeyMemory, SMALL};
use crate::keys::position::Position;
use crate::keys::spec::{KeySpec, TableSettings};
use crate::keys::times::time_at;
use crate::keys::write_keys::{KeyRule, WriteKeys};
use crate::pin::PinnedVersion;
use crate::schema::TableSchema;
use crate::state::{DataFile, VisibleFile};

/// What an open partition of a keyed table has besides others.
pub(crate) struct Keyed {
    /// As at creation: under the names by which columns are stored, which never change.
    settings: TableSettings,
    /// Whether there is a time column besides the key.
    pub(crate) timed: bool,
    pub(crate) encoder: KeyEncoder,
    /// Bytes for the index, and for the keys of each write.
    budget: AtomicUsize,
    /// Where they are accounted.
    pool: Option<Arc<dyn MemoryPool>>,
    /// Held from the moment at which stored rows are looked up until what follows from it is committed.
    commits: Arc<tokio::sync::Mutex<()>>,
    index: Mutex<Indexed>,
}

/// An index and the files whose visible rows are in it. Files that are not are taken in before the index is asked, so
/// a new index knows nothing and every way in which files come needs no care of its own.
pub(crate) struct Indexed {
    pub(crate) index: KeyIndex,
    /// Bytes that it was made for.
    budget: usize,
    covered: HashSet<Uuid>,
    /// The generation whose visible rows are all in it, with no others in their place.
    generation: Option<u64>,
}

/// Nobody else changes which rows are visible.
pub(crate) type CommitGuard = OwnedMutexGuard<()>;

impl Keyed {
    /// `None` for a table that does not keep one row per key. Types of key columns never change, so any schema of the table will do.
    pub(crate) fn new(
        settings: &TableSettings,
        schema: &TableSchema,
        budget: usize,
        pool: Option<Arc<dyn MemoryPool>>,
    ) -> Result<Option<Self>> {
        let Some(spec) = settings.bind(&schema.stored)?.filter(|spec| spec.unique) else { return Ok(None) };
        let encoder = KeyEncoder::new(&spec, &schema.stored)?;
        let timed = spec.time.is_some();
        let index = Mutex::new(Indexed::new(timed, &encoder, budget, pool.as_ref()));
        let budget = AtomicUsize::new(budget);
        Ok(Some(Self { settings: settings.clone(), timed, encoder, budget, pool, commits: Arc::default(), index }))
    }

    pub(crate) fn budget(&self) -> usize {
        self.budget.load(Ordering::Relaxed)
    }

    /// An account for the keys of a write.
    pub(crate) fn memory(&self) -> KeyMemory {
        KeyMemory::new(self.budget(), self.pool.as_ref())
    }

    /// Bytes for keys that are looked at a share at a time: the budget, or what the pool has left.
    pub(crate) fn room(&self) -> usize {
        let left = self.pool.as_ref().map_or(usize::MAX, |pool| match pool.memory_limit() {
            MemoryLimit::Finite(limit) => limit.saturating_sub(pool.reserved()),
            _ => usize::MAX,
        });
        self.budget().min(left.max(SMALL))
    }

    /// Bytes from now on. The index is made anew with the next commit, before it is asked.
    pub(crate) fn set_budget(&self, bytes: usize) {
        self.budget.store(bytes, Ordering::Relaxed);
    }

    /// Where the columns of the key are in rows of a schema of the table.
    pub(crate) fn spec(&self, schema: &TableSchema) -> Result<KeySpec> {
        let spec = self.settings.bind(&schema.stored)?;
        spec.ok_or_else(|| Error::BadSchema { detail: "the table has no primary key".to_owned() })
    }

    /// The rule of a write that asks for `wanted`.
    pub(crate) fn rule(&self, wanted: Option<KeyRule>) -> KeyRule {
        match wanted {
            None | Some(KeyRule::NewestTime) if self.timed => KeyRule::NewestTime,
            None | Some(KeyRule::NewestTime) => KeyRule::LastArrival,
            Some(rule) => rule,
        }
    }

    /// The columns of the key in a batch that has them under their names, in the order of the key.
    pub(crate) fn key_columns(
        &self,
        place: &Arc<Place>,
        schema: &TableSchema,
        batch: &RecordBatch,
    ) -> Result<Vec<ArrayRef>> {
        let key = self.spec(schema)?.columns;
        let mut columns = Vec::with_capacity(key.len());
        for index in key {
            let field = schema.logical.field(index);
            let mismatch = |detail: String| Error::SchemaMismatch {
                place: Arc::clone(place),
                column: field.name().clone(),
                detail,
            };
            let column = batch.column_by_name(field.name());
            let column = column.ok_or_else(|| mismatch("it is missing from the batch of keys".to_owned()))?;
            if column.data_type() != field.data_type() {
                let (declared, given) = (field.data_type(), column.data_type());
                return Err(mismatch(format!("its type is {declared} and the batch of keys has {given}")));
            }
            let nulls = column.logical_null_count();
            if nulls > 0 {
                return Err(Error::NullInKey { place: Arc::clone(place), column: field.name().clone(), nulls });
            }
            columns.push(Arc::clone(column));
        }
        Ok(columns)
    }

    pub(crate) async fn begin_commit(&self) -> CommitGuard {
        Arc::clone(&self.commits).lock_owned().await
    }

    pub(crate) fn with_index<T>(&self, work: impl FnOnce(&mut Indexed) -> T) -> T {
        work(&mut self.index.lock())
    }

    /// Takes in the files of the pinned version that the index does not know. The caller holds the guard, so that
    /// the pinned version is the newest one.
    pub(crate) async fn cover(&self, pin: &PinnedVersion, _guard: &CommitGuard) -> Result<()> {
        let missing: Vec<VisibleFile> = self.with_index(|indexed| {
            let budget = self.budget();
            if indexed.budget != budget || indexed.index.is_stale(pin.files().len(), pin.summary().rows) {
                *indexed = Indexed::new(self.timed, &self.encoder, budget, self.pool.as_ref());
            }
            pin.files().iter().filter(|entry| !indexed.covered.contains(&entry.file.id)).cloned().collect()
        });
        if !missing.is_empty() {
            self.with_index(|indexed| indexed.generation = None);
        }
        for entry in missing {
            let mut batches = KeyReader::new(pin, self).read(&entry, Vec::new())?;
            let file = self.with_index(|indexed| indexed.index.add_file(entry.file.id, entry.file.summary.rows));
            while let Some(batch) = batches.next().await {
                let StoredKeys { keys, times, rows } = batch?;
                self.with_index(|indexed| {
                    for (index, &row) in rows.iter().enumerate() {
                        let time = times.as_ref().and_then(|times| time_at(times, index));
                        indexed.index.insert(keys.get(index), Position { file, row }, time);
                    }
                });
            }
            self.with_index(|indexed| indexed.covered.insert(entry.file.id));
        }
        self.with_index(|indexed| indexed.generation = Some(pin.generation()));
        Ok(())
    }

    /// Follows a commit that made the rows of a write visible: `files` are its files, in the order of the positions in
    /// `keys`, and `shown` says which of its rows can be seen. Without keys the files are taken in when they are needed.
    pub(crate) fn follow(
        &self,
        generation: u64,
        files: &[Arc<DataFile>],
        keys: Option<&WriteKeys>,
        shown: impl Fn(Position) -> bool,
    ) {
        self.with_index(|indexed| {
            let followed = indexed.generation.is_some_and(|before| before + 1 == generation);
            indexed.generation = None;
            let Some(keys) = keys else { return };
            let numbers: Vec<u32> =
                files.iter().map(|file| indexed.index.add_file(file.id, file.summary.rows)).collect();
            for number in 0..keys.len() {
                if let Some(at) = keys.row(number).filter(|at| shown(*at)) {
                    let position = Position { file: numbers[at.file as usize], row: at.row };
                    indexed.index.insert(keys.keys().get(number), position, keys.time(number));
                }
            }
            indexed.covered.extend(files.iter().map(|file| file.id));
            if followed {
                indexed.generation = Some(generation);
            }
        });
    }
}

impl Indexed {
    fn new(timed: bool, encoder: &KeyEncoder, budget: usize, pool: Option<&Arc<dyn MemoryPool>>) -> Self {
        let index = KeyIndex::new(encoder.encoding(), timed, KeyMemory::new(budget, pool));
        Self { index, budget, covered: HashSet::new(), generation: None }
    }

    /// Whether what is found is true of the pinned version.
    pub(crate) fn is_of(&self, pin: &PinnedVersion) -> bool {
        !pin.view().private && self.generation == Some(pin.generation())
    }
}

impl std::fmt::Debug for Keyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keyed").field("settings", &self.settings).finish_non_exhaustive()
    }
}

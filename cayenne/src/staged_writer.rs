//! Stages one write: durable once finished, invisible until published.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use roaring::RoaringTreemap;
use uuid::Uuid;

use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::file_set::{FileSet, FinishedFiles};
use crate::keyed::resolve::{KeyedWrite, hide_repeats, resolve};
use crate::keyed::rows::{CollectedKeys, KeyedRows};
use crate::keyed::{CommitGuard, Keyed};
use crate::layout;
use crate::metastore::{Committed, NewWrite, WriteRecord};
use crate::options::{WriteMode, WriteOptions};
use crate::partition::{Inner, Partition};
use crate::publish::key_is_there;
use crate::row_id;
use crate::state::{Deletes, Staged, StagedKeys, State, VisibleFile};
use crate::stats::WriteSummary;
use crate::transaction::{EARLIER_GONE, TransactionPart, TransactionSummary};

/// The keys of a staged write stay in memory if they take at most this part of the budget.
const STAGED_SHARE: usize = 8;

/// One write on its way to disk: rows that it adds and rows that it deletes; an update does both. Memory is bounded by
/// the encoder's buffers (a few MiB per column) and a bit or so per deleted row; [`write`](Self::write) waits when it is
/// ahead of the encoder. Dropped before [`finish`](Self::finish), it removes what it wrote.
pub struct StagedWriter {
    partition: Partition,
    write_id: Uuid,
    mode: WriteMode,
    base_version: u64,
    files: FileSet,
    deletes: BTreeMap<Uuid, RoaringTreemap>,
    /// In a table that keeps one row per key.
    keys: Option<KeyedRows>,
    /// Last, so that the files go before the id is free again.
    _reserved: ReservedId,
}

/// No other writer of this process has the id.
pub(crate) struct ReservedId {
    partition: Partition,
    write_id: Uuid,
}

impl ReservedId {
    /// # Errors
    /// [`Error::WriteInProgress`].
    pub(crate) fn take(partition: &Partition, write_id: Uuid) -> Result<Self> {
        if !partition.inner.state.lock().writing.insert(write_id) {
            return Err(Error::WriteInProgress { place: Arc::clone(&partition.inner.place), write_id });
        }
        Ok(Self { partition: partition.clone(), write_id })
    }
}

impl Drop for ReservedId {
    fn drop(&mut self) {
        self.partition.inner.state.lock().writing.remove(&self.write_id);
    }
}

impl Partition {
    /// Starts a write under an id that the caller chooses and may repeat after a failure.
    ///
    /// # Errors
    /// [`Error::WriteSealed`] when a write with this id was finished before (with its summary: the caller has
    /// nothing to send again), [`Error::WriteInProgress`], [`Error::ReadOnly`].
    pub async fn begin_write(&self, write_id: Uuid, mode: WriteMode) -> Result<StagedWriter> {
        self.begin_write_with(write_id, mode, WriteOptions::default()).await
    }

    /// As [`begin_write`](Self::begin_write), with the say over the files and the version that was read.
    ///
    /// # Errors
    /// As [`begin_write`](Self::begin_write), and [`Error::VersionNotYetHere`] for a base version to come.
    pub async fn begin_write_with(
        &self,
        write_id: Uuid,
        mode: WriteMode,
        options: WriteOptions,
    ) -> Result<StagedWriter> {
        self.inner.check_writable()?;
        let look_up = move |inner: &Arc<Inner>| {
            let (record, latest) = {
                let metastore = inner.metastore.lock();
                (metastore.write(write_id)?, metastore.log().latest())
            };
            // It may have been finished just now. Whoever is told so need not send it again.
            if let (Some(_), Some(latest)) = (&record, latest) {
                inner.make_durable(latest)?;
            }
            Ok(record)
        };
        let sealed = self.blocking("looking up a write", look_up).await?;
        if let Some(record) = sealed {
            return Err(already_sealed(&self.inner, record));
        }
        self.inner.check_space()?;
        if mode == WriteMode::Alter {
            let detail = "columns are changed by Partition::alter, and a write of rows cannot".to_owned();
            return Err(Error::BadOption { option: "mode", detail });
        }
        let mut state = self.inner.state.lock();
        let schema = Arc::clone(&state.current().schema);
        let current = state.current().version;
        let base_version = options.base_version.unwrap_or(current);
        if base_version > current {
            let place = Arc::clone(&self.inner.place);
            return Err(Error::VersionNotYetHere { place, version: base_version, current });
        }
        if !state.writing.insert(write_id) {
            return Err(Error::WriteInProgress { place: Arc::clone(&self.inner.place), write_id });
        }
        drop(state);
        let _reserved = ReservedId { partition: self.clone(), write_id };
        let keyed = self.inner.keyed.as_ref();
        let keys = keyed.map(|keyed| KeyedRows::new(keyed, keyed.rule(options.key_rule), &schema)).transpose()?;
        Ok(StagedWriter {
            partition: self.clone(),
            write_id,
            mode,
            base_version,
            files: FileSet::new(&self.inner, schema, write_id, options),
            deletes: BTreeMap::new(),
            keys,
            _reserved,
        })
    }
}

impl StagedWriter {
    /// The id of the write.
    pub fn write_id(&self) -> Uuid {
        self.write_id
    }

    /// Takes in rows. Columns must have the partition's names and types, in its order.
    ///
    /// # Errors
    /// [`Error::SchemaMismatch`], [`Error::NullInColumn`] and [`Error::ValueOutOfRange`] before anything of the batch is taken; errors of the
    /// encoder and of the disk, which may come late, with a later batch or in [`finish`](Self::finish), and [`Error::DuplicateKey`]
    /// where the rule of the write allows no second row of a key. After any of the latter drop the writer and start again.
    pub async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        let (Some(keys), Some(keyed)) = (&mut self.keys, &self.partition.inner.keyed) else {
            return self.files.write(batch).await.map(|_| ());
        };
        keys.check_not_null(&self.partition.inner.place, &batch)?;
        let placed = self.files.write(batch.clone()).await?;
        match keys.write(keyed, &batch, &placed) {
            Ok(None) => Ok(()),
            Ok(Some(repeated)) => {
                self.files.give_up();
                Err(duplicate(&self.partition.inner, repeated.key, true))
            }
            Err(error) => {
                self.files.give_up();
                Err(error)
            }
        }
    }

    /// Deletes the rows that have these keys, whatever rows they are when the write is published; those of this write that came
    /// before go too, and rows that come later stay. Columns are those of the primary key, found by name.
    ///
    /// # Errors
    /// [`Error::NoKey`], [`Error::SchemaMismatch`] and [`Error::NullInKey`]; [`Error::InvalidDelete`] in a write that overwrites.
    /// Nothing is taken in then.
    pub fn delete_keys(&mut self, keys: &RecordBatch) -> Result<()> {
        let inner = &self.partition.inner;
        let keyed = inner.key()?;
        if self.mode == WriteMode::Overwrite {
            let detail = format!("write {} replaces all of them anyway", self.write_id);
            return Err(Error::InvalidDelete { place: Arc::clone(&inner.place), detail });
        }
        let columns = keyed.key_columns(&inner.place, self.files.schema(), keys)?;
        if let Some(deletes) = &mut self.keys {
            deletes.delete(&keyed.encoder.encode(&columns)?);
        }
        Ok(())
    }

    /// Whether rows could be written, without taking them in.
    ///
    /// # Errors
    /// Those that [`write`](Self::write) names as found beforehand.
    pub fn check(&self, batch: &RecordBatch) -> Result<()> {
        self.files.check(batch)?;
        match &self.keys {
            Some(keys) => keys.check_not_null(&self.partition.inner.place, batch),
            None => Ok(()),
        }
    }

    /// Deletes the rows at these positions of a data file, as a scan with [`row_ids`](crate::ScanRequest::row_ids) of the base
    /// version names them. Returns how many of them this write did not delete already.
    ///
    /// # Errors
    /// [`Error::WriteConflict`] when the file has gone, [`Error::InvalidDelete`] for positions that it does not have and
    /// in a write that overwrites. Nothing is taken in then.
    pub fn delete_rows(&mut self, file: Uuid, positions: impl IntoIterator<Item = u64>) -> Result<u64> {
        let inner = &self.partition.inner;
        let invalid = |detail: String| Error::InvalidDelete { place: Arc::clone(&inner.place), detail };
        if self.mode == WriteMode::Overwrite {
            return Err(invalid(format!("write {} replaces all of them anyway", self.write_id)));
        }
        let known = {
            let state = inner.state.lock();
            // A write of a transaction also deletes rows that the transaction has staged before.
            state.file(file).or_else(|| state.staged_file(file)).cloned()
        };
        let Some(known) = known else {
            let detail = format!("data file '{}' has been replaced", layout::file_name(file));
            return Err(inner.conflict(self.write_id, self.base_version, detail));
        };
        let more: RoaringTreemap = positions.into_iter().collect();
        if let Some(last) = more.max().filter(|last| *last >= known.summary.rows) {
            let (name, rows) = (&known.name, known.summary.rows);
            return Err(invalid(format!("data file '{name}' has {rows} rows and no position {last}")));
        }
        if more.is_empty() {
            return Ok(0);
        }
        let deleted = self.deletes.entry(file).or_default();
        let before = deleted.len();
        *deleted |= more;
        Ok(deleted.len() - before)
    }

    /// As [`delete_rows`](Self::delete_rows), for the rows that the columns [`FILE_COLUMN`](crate::FILE_COLUMN) and
    /// [`ROW_COLUMN`](crate::ROW_COLUMN) of a batch name.
    ///
    /// # Errors
    /// As [`delete_rows`](Self::delete_rows), and [`Error::InvalidDelete`] when the columns are not there.
    pub fn delete_batch(&mut self, batch: &RecordBatch) -> Result<u64> {
        let rows = row_id::rows_by_file(batch)
            .map_err(|detail| Error::InvalidDelete { place: Arc::clone(&self.partition.inner.place), detail })?;
        rows.into_iter().map(|(file, positions)| self.delete_rows(file, positions)).sum()
    }

    /// Whether a file is being written: an encoder holds its buffers.
    pub fn has_open_file(&self) -> bool {
        self.files.has_open_file()
    }

    /// Ends the file that is being written, which frees the encoder's buffers. The next rows begin another one.
    ///
    /// # Errors
    /// As [`finish`](Self::finish); drop the writer then.
    pub async fn end_file(&mut self) -> Result<()> {
        self.files.end_file().await
    }

    /// Makes the write durable and checks it: every file is synced, read back and compared, then recorded together with the
    /// deleted rows. The write stays invisible until [`Partition::publish`].
    ///
    /// # Errors
    /// [`Error::WriterBroken`] after a failed or cancelled [`write`](Self::write), of the disk, of the encoder, and
    /// [`Error::FileDamaged`] when a file does not hold what was written; [`Error::WriteConflict`] when another write has
    /// changed a row that this one deletes; [`Error::DuplicateKey`] when the rule of the write does not allow a key that is
    /// stored. Then nothing of the write remains.
    pub async fn finish(self) -> Result<WriteSummary> {
        self.end(None).await.map(|ended| ended.whole)
    }

    /// As [`finish`](Self::finish), of a statement inside a transaction. Together with what the transaction has staged before
    /// it becomes one write under this one's id: the former id is not known any more.
    ///
    /// # Errors
    /// As [`finish`](Self::finish); [`Error::WriteConflict`] when what was staged before is gone, or when a stored row of
    /// one of its keys may have been changed since the transaction's snapshot.
    pub async fn finish_within(self, part: TransactionPart) -> Result<TransactionSummary> {
        if self.mode != WriteMode::Append {
            let detail = "a transaction adds and deletes rows one by one".to_owned();
            return Err(Error::BadOption { option: "mode", detail });
        }
        self.end(Some(part)).await
    }

    async fn end(self, within: Option<TransactionPart>) -> Result<TransactionSummary> {
        let Self { partition, write_id, mode, base_version, files, deletes, keys, _reserved } = self;
        let finished = files.finish().await?;
        let deletes: Deletes =
            deletes.into_iter().map(|(file, positions)| (file, DeletionVector::new(positions))).collect();
        let deleted_rows = deletes.values().map(DeletionVector::rows).sum();
        let files = finished.data_files(&partition.inner.dir);
        let schema = Arc::clone(&finished.schema);
        let summary = WriteSummary { data: finished.summary.clone(), deleted_rows, keys: None };
        let mut staged = Staged { mode, schema, base_version, summary, sealed_ms: 0, files, deletes, by_key: None };
        let own = staged.summary.clone();
        if let Some(part) = &within {
            staged = partition.after(part, write_id, staged)?;
        }
        // Held until the write is recorded: what it counts is what it finds.
        let mut guard = None;
        if let (Some(keys), Some(keyed)) = (keys, &partition.inner.keyed) {
            guard = Some(match &within {
                None => partition.settle_keys(keyed, keys, write_id, &mut staged).await?,
                Some(part) => partition.settle_keys_within(keyed, keys, part, write_id, &mut staged).await?,
            });
        }
        let whole = staged.summary.clone();
        let over = within.and_then(|part| part.over);
        // From here on the blocking task answers for the files: it may commit after the caller has gone.
        partition
            .blocking("recording a staged write", move |inner| {
                let sealed = seal(inner, write_id, staged, finished, over);
                // Others may go on while this one becomes durable.
                drop(guard);
                inner.make_durable(sealed?)?;
                inner.step(Step::Sealed)
            })
            .await?;
        Ok(TransactionSummary { own, whole })
    }
}

impl Partition {
    /// Hides the repeats of a write, and counts what it does to the newest version.
    async fn settle_keys(
        &self,
        keyed: &Keyed,
        rows: KeyedRows,
        write_id: Uuid,
        staged: &mut Staged,
    ) -> Result<CommitGuard> {
        let guard = keyed.begin_commit().await;
        let pin = self.pin(None)?;
        let KeyedRows { rule, collected, deletes, .. } = rows;
        let (hidden, keys) = match collected {
            Some(CollectedKeys { keys, hidden }) => (hidden, Some(Arc::new(keys))),
            None => {
                let schema = &pin.view().schema;
                let files: Vec<VisibleFile> =
                    staged.files.iter().map(|file| VisibleFile::new(file, 0, schema)).collect();
                let hidden = hide_repeats(keyed, &pin, rule, &files, &deletes).await?;
                (hidden.map_err(|repeated| duplicate(&self.inner, repeated.key, true))?, None)
            }
        };
        for (file, positions) in hidden {
            let repeats = positions.len();
            staged.summary.data.rows -= repeats;
            staged.summary.data.deleted_rows += repeats;
            staged.deletes.insert(staged.files[file as usize].id, DeletionVector::new(positions));
        }
        staged.by_key = Some(StagedKeys { rule, deleted: deletes.keys, keys });
        if let Some(mut write) = KeyedWrite::of(staged) {
            let effects = resolve(keyed, &pin, &mut write, &guard).await?;
            if let Some(key) = effects.refused {
                // The row with the key may be the one that is updated, moved to another file by a rewriting, which makes no version.
                let lost = self.inner.state.lock().check_deletes(&staged.deletes, &staged.files);
                lost.map_err(|detail| self.inner.conflict(write_id, staged.base_version, detail))?;
                // It may have been added since the version that the write was made from: then nobody is at fault.
                return Err(if staged.base_version < pin.version() {
                    self.inner.conflict(write_id, staged.base_version, key_is_there(&key))
                } else {
                    duplicate(&self.inner, key, false)
                });
            }
            staged.summary.keys = Some(effects.counts);
        }
        // Many writes may be staged at once: large ones are read again when they are published.
        if let Some(by_key) = &mut staged.by_key {
            by_key.keys = by_key.keys.take().filter(|keys| keys.memory() <= keyed.budget() / STAGED_SHARE);
        }
        Ok(guard)
    }
}

pub(crate) fn duplicate(inner: &Inner, key: String, within: bool) -> Error {
    Error::DuplicateKey { place: Arc::clone(&inner.place), key, within }
}

/// Records a write, in the place of the one that it goes on with.
pub(crate) fn seal(
    inner: &Arc<Inner>,
    write_id: Uuid,
    mut write: Staged,
    mut files: FinishedFiles,
    over: Option<Uuid>,
) -> Result<Committed> {
    inner.step(Step::SyncDirectory)?;
    if !files.records.is_empty() {
        layout::sync_directory(&inner.dir.join(layout::FILES))?;
    }
    inner.step(Step::Seal)?;
    write.sealed_ms = inner.options.clock.now_ms();
    let mut metastore = inner.metastore.lock();
    if let Some(record) = metastore.write(write_id)? {
        // Somebody finished the same write between our start and now.
        if let Some(latest) = metastore.log().latest() {
            inner.make_durable(latest)?;
        }
        return Err(already_sealed(inner, record));
    }
    let checked = {
        let state = inner.state.lock();
        let there = over.is_none_or(|over| state.staged().contains_key(&over));
        let there = if there { Ok(()) } else { Err(EARLIER_GONE.to_owned()) };
        let deletes = there.and_then(|()| state.check_deletes(&write.deletes, &write.files));
        deletes.and_then(|()| check_schema_changes(&state, &files))
    };
    checked.map_err(|detail| inner.conflict(write_id, write.base_version, detail))?;
    let sealed = metastore.seal(&NewWrite {
        write_id,
        mode: write.mode,
        schema: &write.schema,
        base_version: write.base_version,
        summary: &write.summary,
        files: &files.records,
        deletes: &write.deletes,
        key_rule: write.by_key.as_ref().map(|keys| keys.rule),
        deleted_keys: write.by_key.as_ref().map(|keys| &keys.deleted).filter(|keys| keys.len() > 0),
        now_ms: write.sealed_ms,
        over,
    });
    let committed = match sealed {
        Ok(committed) => committed,
        Err(error) => {
            // If the outcome of the commit is unknown the files must stay; start-up removes them if nothing names them.
            if !matches!(metastore.write(write_id), Ok(None)) {
                files.created.keep();
            }
            return Err(error);
        }
    };
    files.created.keep();
    {
        let mut state = inner.state.lock();
        if let Some(over) = over {
            state.discard(over);
        }
        state.seal(write_id, write);
    }
    inner.take_over_runs(&files.records);
    Ok(committed)
}

/// Rows of an older schema are not taken in any more, and none that a change of columns on its way could not show.
fn check_schema_changes(state: &State, files: &FinishedFiles) -> std::result::Result<(), String> {
    if files.schema.id != state.current().schema.id {
        return Err("the columns of the table have changed".to_owned());
    }
    for change in state.staged().values().filter(|write| write.mode == WriteMode::Alter) {
        for field in files.schema.stored.fields() {
            for record in &files.records {
                files.schema.fits(&change.schema, field.name(), &record.summary).map_err(|detail| {
                    format!("column '{}' is about to get another type, and {detail}", field.name())
                })?;
            }
        }
    }
    Ok(())
}

pub(crate) fn already_sealed(inner: &Inner, record: WriteRecord) -> Error {
    Error::WriteSealed {
        place: Arc::clone(&inner.place),
        write_id: record.write_id,
        published: record.version,
        summary: Box::new(record.summary),
    }
}

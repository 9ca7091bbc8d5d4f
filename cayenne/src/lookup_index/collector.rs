//! The runs of a data file, made while it is written: each row is hashed as it passes, and what does not fit in memory is a
//! segment of the run on disk. A run that cannot be made is no reason to refuse rows: without it the file is read in full.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use uuid::Uuid;

use super::definition::{Definition, definitions};
use super::hasher::Hasher;
use super::run::{Entry, RunWriter};
use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::layout;
use crate::partition::Inner;
use crate::schema::TableSchema;

/// Rows of a segment; as many are in memory.
const SEGMENT: usize = 1 << 20;
/// A run of at most so many rows is kept in the metastore: one file less to sync.
const INLINE: usize = 1024;
/// Memory is asked for in steps of so many rows.
const STEP: usize = 1 << 14;

/// A run that is about to be recorded.
#[derive(Debug, Clone)]
pub(crate) struct RunRecord {
    pub(crate) definition: String,
    pub(crate) stored: StoredRun,
}

/// Where the metastore has a run.
#[derive(Debug, Clone)]
pub(crate) enum StoredRun {
    /// In a file of this name and length.
    File { name: String, bytes: u64 },
    /// In itself.
    Inline(Vec<u8>),
}

/// See the module.
pub(crate) struct Collector {
    inner: Arc<Inner>,
    /// One for each index of which a run is still possible.
    runs: Vec<Option<Collecting>>,
    /// Rows so far.
    rows: u32,
    names: Vec<String>,
}

struct Collecting {
    inner: Arc<Inner>,
    definition: Definition,
    hasher: Hasher,
    entries: Vec<Entry>,
    memory: Option<MemoryReservation>,
    name: String,
    path: PathBuf,
    writer: Option<RunWriter<BufWriter<File>>>,
}

impl Collector {
    /// For a data file with rows of this schema.
    pub(crate) fn new(
        inner: &Arc<Inner>,
        schema: &TableSchema,
        file: Uuid,
        pool: Option<&Arc<dyn MemoryPool>>,
    ) -> Result<Self> {
        Self::over(inner, schema, file, definitions(&inner.tuning().indexes, schema), pool)
    }

    /// For some of the indexes.
    pub(crate) fn over(
        inner: &Arc<Inner>,
        schema: &TableSchema,
        file: Uuid,
        definitions: Vec<Definition>,
        pool: Option<&Arc<dyn MemoryPool>>,
    ) -> Result<Self> {
        let runs = definitions.into_iter().map(|definition| {
            // Fresh, so that a run that is made again never meets the one before.
            let name = layout::run_name(file, Uuid::new_v4());
            Ok(Some(Collecting {
                inner: Arc::clone(inner),
                hasher: Hasher::new(definition.columns.iter().map(|&column| schema.logical.field(column).data_type()))?,
                definition,
                entries: Vec::new(),
                memory: pool.map(|pool| MemoryConsumer::new("cayenne index").register(pool)),
                path: inner.dir.join(&name),
                name,
                writer: None,
            }))
        });
        let runs = runs.collect::<Result<Vec<_>>>()?;
        let names = runs.iter().flatten().map(|run: &Collecting| run.name.clone()).collect();
        Ok(Self { inner: Arc::clone(inner), runs, rows: 0, names })
    }

    /// Files that may come to be.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Takes in the next rows of the file, in its columns.
    pub(crate) async fn push(&mut self, batch: &RecordBatch) {
        let first = self.rows;
        // Files end before their positions need more bits.
        self.rows += u32::try_from(batch.num_rows()).unwrap_or(u32::MAX);
        for number in 0..self.runs.len() {
            let Some(run) = &self.runs[number] else { continue };
            let columns: Vec<ArrayRef> =
                run.definition.columns.iter().map(|&column| Arc::clone(batch.column(column))).collect();
            self.push_columns(number, &columns, first..self.rows).await;
        }
    }

    /// Takes in rows at certain positions, of which only the columns of one index are given, in its order.
    pub(crate) async fn push_columns(
        &mut self,
        number: usize,
        columns: &[ArrayRef],
        rows: impl IntoIterator<Item = u32>,
    ) {
        let Some(mut run) = self.runs.get_mut(number).and_then(Option::take) else { return };
        match self.take_in(&mut run, columns, rows).await {
            Ok(()) => self.runs[number] = Some(run),
            Err(error) => run.give_up(&error),
        }
    }

    async fn take_in(
        &self,
        run: &mut Collecting,
        columns: &[ArrayRef],
        rows: impl IntoIterator<Item = u32>,
    ) -> Result<()> {
        for (hash, row) in run.hasher.hash(columns)?.into_iter().zip(rows) {
            let Some(hash) = hash else { continue };
            if run.entries.len() == run.entries.capacity() && !run.grow() && run.entries.is_empty() {
                return Err(Error::Io {
                    action: "find memory for",
                    path: run.path.clone(),
                    source: io::Error::from(io::ErrorKind::OutOfMemory),
                });
            }
            if run.entries.len() == run.entries.capacity() {
                self.blocking(run, Collecting::spill).await?;
            }
            run.entries.push((hash, row));
        }
        Ok(())
    }

    /// Runs blocking work on a run.
    async fn blocking<T: Send + 'static>(
        &self,
        run: &mut Collecting,
        work: impl FnOnce(&mut Collecting) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let nothing = Collecting::nothing(run)?;
        let mut moved = std::mem::replace(run, nothing);
        let done = tokio::task::spawn_blocking(move || {
            let outcome = work(&mut moved);
            (moved, outcome)
        });
        let (back, outcome) = done.await.map_err(|error| self.inner.died("writing an index", error))?;
        *run = back;
        outcome
    }

    /// The runs, durable; the directory of their files is synced. `rows` are those of the data file.
    pub(crate) async fn finish(&mut self, rows: u64) -> Vec<RunRecord> {
        let mut records = Vec::new();
        for mut run in std::mem::take(&mut self.runs).into_iter().flatten() {
            match self.blocking(&mut run, move |run| run.finish(rows)).await {
                Ok(stored) => records.push(RunRecord { definition: run.definition.text.clone(), stored }),
                Err(error) => run.give_up(&error),
            }
        }
        if records.iter().any(|record| matches!(record.stored, StoredRun::File { .. })) {
            let dir = self.inner.dir.join(layout::RUNS);
            let synced = tokio::task::spawn_blocking(move || layout::sync_directory(&dir)).await;
            if !matches!(synced, Ok(Ok(()))) {
                records.retain(|record| match &record.stored {
                    StoredRun::Inline(_) => true,
                    StoredRun::File { name, .. } => {
                        remove(&self.inner, &self.inner.dir.join(name));
                        false
                    }
                });
            }
        }
        records
    }
}

/// Removes the file of a run that nobody names.
pub(super) fn remove(inner: &Inner, path: &Path) {
    if inner.crashed() {
        return;
    }
    if let Err(error) = layout::remove_file(path) {
        tracing::warn!(partition = %inner.place, %error, "cannot remove a part of an index; the next start will");
    }
}

impl Collecting {
    /// What stands in its place while it is worked on.
    fn nothing(of: &Self) -> Result<Self> {
        Ok(Self {
            inner: Arc::clone(&of.inner),
            definition: of.definition.clone(),
            hasher: Hasher::new(of.hasher.types())?,
            entries: Vec::new(),
            memory: None,
            name: of.name.clone(),
            path: of.path.clone(),
            writer: None,
        })
    }

    /// What there is of it on disk goes.
    fn give_up(self, error: &Error) {
        let partition = &self.inner.place;
        tracing::warn!(%partition, %error, "a data file gets no index; it is read in full until it has one");
        remove(&self.inner, &self.path);
    }

    /// Makes room for more entries. Whether there is any.
    fn grow(&mut self) -> bool {
        let more = STEP.min(SEGMENT.saturating_sub(self.entries.capacity()));
        if more == 0 {
            return false;
        }
        if let Some(memory) = &self.memory
            && memory.try_grow(more * size_of::<Entry>()).is_err()
        {
            return false;
        }
        self.entries.reserve_exact(more);
        true
    }

    fn failed(&self, action: &'static str) -> impl Fn(io::Error) -> Error + use<> {
        let path = self.path.clone();
        move |source| Error::io(action, path.clone(), source)
    }

    fn spill(&mut self) -> Result<()> {
        let failed = self.failed("write");
        let mut writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                if let Some(dir) = self.path.parent().filter(|dir| !dir.exists()) {
                    layout::create_directory(dir)?;
                }
                self.inner.step(Step::CreateRun)?;
                let file = File::options().write(true).create_new(true).open(&self.path).map_err(&failed)?;
                RunWriter::new(BufWriter::new(file)).map_err(&failed)?
            }
        };
        writer.segment(&mut self.entries).map_err(failed)?;
        self.writer = Some(writer);
        Ok(())
    }

    fn finish(&mut self, rows: u64) -> Result<StoredRun> {
        let failed = self.failed("write");
        if self.writer.is_none() && self.entries.len() <= INLINE {
            let mut writer = RunWriter::new(Vec::new()).map_err(&failed)?;
            writer.segment(&mut self.entries).map_err(&failed)?;
            let (bytes, _) = writer.finish(rows).map_err(failed)?;
            return Ok(StoredRun::Inline(bytes));
        }
        self.spill()?;
        let Some(writer) = self.writer.take() else { return Err(failed(io::Error::other("it has no writer"))) };
        let (out, bytes) = writer.finish(rows).map_err(&failed)?;
        let file = out.into_inner().map_err(io::IntoInnerError::into_error).map_err(&failed)?;
        self.inner.step(Step::SyncRun)?;
        file.sync_all().map_err(self.failed("sync"))?;
        Ok(StoredRun::File { name: self.name.clone(), bytes })
    }
}

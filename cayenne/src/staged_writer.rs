//! Stages the rows of one write: durable once finished, invisible until published.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::Field;
use arrow::record_batch::RecordBatch;
use uuid::Uuid;

use crate::data_file_writer::DataFileWriter;
use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::layout;
use crate::metastore::{FileRecord, WriteRecord};
use crate::options::{WriteMode, WriteOptions};
use crate::partition::{Inner, Partition};
use crate::state::{DataFile, Staged};
use crate::stats::DataSummary;
use crate::value_range::out_of_range;

/// Larger batches are cut: a file can end, and the runtime's worker is free, every so many rows.
const MAX_ROWS: usize = 65_536;

/// The rows of one write on their way to disk. Memory is bounded by the encoder's buffers (a few MiB
/// per column); [`write`](Self::write) waits when it is ahead of them. Dropped before
/// [`finish`](Self::finish), it removes what it wrote.
pub struct StagedWriter {
    partition: Partition,
    write_id: Uuid,
    mode: WriteMode,
    options: WriteOptions,
    open: Option<DataFileWriter>,
    /// Files this writer created and still has to answer for.
    created: Vec<String>,
    finished: Vec<FileRecord>,
    /// Set while a batch is being taken in: if that fails or is cancelled, rows are missing for good.
    broken: bool,
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

    /// As [`begin_write`](Self::begin_write), with the say over the files.
    ///
    /// # Errors
    /// As [`begin_write`](Self::begin_write).
    pub async fn begin_write_with(
        &self,
        write_id: Uuid,
        mode: WriteMode,
        options: WriteOptions,
    ) -> Result<StagedWriter> {
        self.inner.check_writable()?;
        let sealed = self.blocking("looking up a write", move |inner| inner.metastore.lock().write(write_id)).await?;
        if let Some(record) = sealed {
            return Err(already_sealed(&self.inner, record));
        }
        if !self.inner.state.lock().writing.insert(write_id) {
            return Err(Error::WriteInProgress { place: Arc::clone(&self.inner.place), write_id });
        }
        Ok(StagedWriter {
            partition: self.clone(),
            write_id,
            mode,
            options,
            open: None,
            created: Vec::new(),
            finished: Vec::new(),
            broken: false,
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
    /// encoder and of the disk, which may come late, with a later batch or in [`finish`](Self::finish). After any of the latter drop
    /// the writer and start again.
    pub async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.check_whole()?;
        check_batch(&self.partition.inner, &batch)?;
        self.broken = true;
        let mut offset = 0;
        while offset < batch.num_rows() {
            let rows = MAX_ROWS.min(batch.num_rows() - offset);
            self.write_slice(batch.slice(offset, rows)).await?;
            offset += rows;
        }
        self.broken = false;
        Ok(())
    }

    /// Whether rows could be written, without taking them in.
    ///
    /// # Errors
    /// Those that [`write`](Self::write) names as found beforehand.
    pub fn check(&self, batch: &RecordBatch) -> Result<()> {
        check_batch(&self.partition.inner, batch)
    }

    /// Whether a file is being written: an encoder holds its buffers.
    pub fn has_open_file(&self) -> bool {
        self.open.is_some()
    }

    /// Ends the file that is being written, which frees the encoder's buffers. The next rows begin another one.
    ///
    /// # Errors
    /// As [`finish`](Self::finish); drop the writer then.
    pub async fn end_file(&mut self) -> Result<()> {
        self.check_whole()?;
        let Some(file) = self.open.take() else { return Ok(()) };
        self.broken = true;
        self.finished.push(file.finish(self.write_id).await?);
        self.broken = false;
        Ok(())
    }

    fn check_whole(&self) -> Result<()> {
        if self.broken {
            return Err(Error::WriterBroken {
                place: Arc::clone(&self.partition.inner.place),
                write_id: self.write_id,
            });
        }
        Ok(())
    }

    async fn write_slice(&mut self, batch: RecordBatch) -> Result<()> {
        let mut file = match self.open.take() {
            Some(file) => file,
            None => {
                let name = layout::new_data_file();
                self.created.push(name.clone());
                DataFileWriter::create(&self.partition.inner, name, self.options)?
            }
        };
        file.write(batch).await?;
        if file.is_full() {
            self.finished.push(file.finish(self.write_id).await?);
        } else {
            self.open = Some(file);
        }
        Ok(())
    }

    /// Makes the rows durable and checks them: every file is synced, read back and compared, then recorded.
    /// The rows stay invisible until [`Partition::publish`].
    ///
    /// # Errors
    /// [`Error::WriterBroken`] after a failed or cancelled [`write`](Self::write), of the disk, of the encoder, and [`Error::FileDamaged`] when a file does not hold what was written; then
    /// nothing of the write remains.
    pub async fn finish(mut self) -> Result<DataSummary> {
        self.check_whole()?;
        if let Some(file) = self.open.take() {
            self.finished.push(file.finish(self.write_id).await?);
        }
        let mut summary = DataSummary::empty(self.partition.inner.schema.fields().len());
        for file in &self.finished {
            summary.merge(&file.summary);
        }
        let write_id = self.write_id;
        let mode = self.mode;
        let mut files = std::mem::take(&mut self.finished);
        // From here on the blocking task answers for the files: it may commit after the caller has gone.
        let created = Created { inner: Arc::clone(&self.partition.inner), names: std::mem::take(&mut self.created) };
        let sealed = summary.clone();
        let partition = self.partition.clone();
        partition
            .blocking("recording a staged write", move |inner| seal(inner, write_id, mode, sealed, &mut files, created))
            .await?;
        Ok(summary)
    }
}

fn seal(
    inner: &Arc<Inner>,
    write_id: Uuid,
    mode: WriteMode,
    summary: DataSummary,
    files: &mut [FileRecord],
    mut created: Created,
) -> Result<()> {
    inner.step(Step::SyncDirectory)?;
    if !files.is_empty() {
        layout::sync_directory(&inner.dir.join(layout::FILES))?;
    }
    inner.step(Step::Seal)?;
    let now_ms = inner.options.clock.now_ms();
    let mut metastore = inner.metastore.lock();
    if let Some(record) = metastore.write(write_id)? {
        // Somebody finished the same write between our start and now.
        return Err(already_sealed(inner, record));
    }
    if let Err(error) = metastore.seal(write_id, mode, &summary, files, now_ms) {
        // If the outcome of the commit is unknown the files must stay; start-up removes them if nothing names them.
        if !matches!(metastore.write(write_id), Ok(None)) {
            created.names.clear();
        }
        return Err(error);
    }
    created.names.clear();
    let files = files.iter().map(|record| Arc::new(DataFile::new(&inner.dir, record))).collect();
    inner.state.lock().seal(write_id, Staged { mode, summary, sealed_ms: now_ms, files });
    inner.step(Step::Sealed)
}

fn already_sealed(inner: &Inner, record: WriteRecord) -> Error {
    Error::WriteSealed {
        place: Arc::clone(&inner.place),
        write_id: record.write_id,
        published: record.version,
        summary: Box::new(record.summary),
    }
}

/// Removes files unless told to let go of them.
struct Created {
    inner: Arc<Inner>,
    names: Vec<String>,
}

impl Drop for Created {
    fn drop(&mut self) {
        if self.inner.crashed() {
            return;
        }
        for name in &self.names {
            if let Err(error) = layout::remove_file(&self.inner.dir.join(name)) {
                tracing::warn!(%error, "cannot remove a file of an abandoned write; the next start will");
            }
        }
    }
}

impl Drop for StagedWriter {
    fn drop(&mut self) {
        // Stops the encoder before its file goes.
        self.open = None;
        drop(Created { inner: Arc::clone(&self.partition.inner), names: std::mem::take(&mut self.created) });
        self.partition.inner.state.lock().writing.remove(&self.write_id);
    }
}

fn check_batch(inner: &Inner, batch: &RecordBatch) -> Result<()> {
    let mismatch = |column: &str, detail: String| {
        Err(Error::SchemaMismatch { place: Arc::clone(&inner.place), column: column.to_owned(), detail })
    };
    let fields = inner.schema.fields();
    let given = batch.schema_ref().fields();
    if let Some(missing) = fields.get(given.len()) {
        return mismatch(missing.name(), "it is missing from the batch".to_owned());
    }
    if let Some(extra) = given.get(fields.len()) {
        return mismatch(extra.name(), "the table has no such column".to_owned());
    }
    for ((field, given), array) in fields.iter().zip(given).zip(batch.columns()) {
        if field.name() != given.name() {
            return mismatch(field.name(), format!("the batch has column '{}' in its place", given.name()));
        }
        if !same_type(field, given) {
            return mismatch(
                field.name(),
                format!("its type is {} and the batch has {}", field.data_type(), given.data_type()),
            );
        }
        let nulls = if field.is_nullable() { 0 } else { array.logical_null_count() };
        if nulls > 0 {
            return Err(Error::NullInColumn { place: Arc::clone(&inner.place), column: field.name().clone(), nulls });
        }
        if let Some(detail) = out_of_range(array) {
            return Err(Error::ValueOutOfRange {
                place: Arc::clone(&inner.place),
                column: field.name().clone(),
                detail,
            });
        }
    }
    Ok(())
}

/// Types are the same if they differ at most in the names of list items and in metadata.
fn same_type(declared: &Field, given: &Field) -> bool {
    declared.data_type().equals_datatype(given.data_type())
}

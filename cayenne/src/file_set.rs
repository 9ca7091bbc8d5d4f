//! Writes rows into as many data files as they need.

use std::path::Path;
use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::Field;
use arrow::record_batch::RecordBatch;
use datafusion::execution::memory_pool::MemoryPool;
use uuid::Uuid;

use crate::data_file_writer::DataFileWriter;
use crate::error::{Error, Result};
use crate::layout;
use crate::metastore::FileRecord;
use crate::null_values::zeros_under_nulls;
use crate::options::WriteOptions;
use crate::partition::Inner;
use crate::schema::TableSchema;
use crate::state::DataFile;
use crate::stats::DataSummary;
use crate::value_range::out_of_range;

/// Larger batches are cut: a file can end, and the runtime's worker is free, every so many rows.
const MAX_ROWS: usize = 65_536;

/// Files that are being written. Dropped before [`finish`](Self::finish), it removes what it wrote.
pub(crate) struct FileSet {
    inner: Arc<Inner>,
    /// Of the rows.
    schema: Arc<TableSchema>,
    write_id: Uuid,
    options: WriteOptions,
    /// What the memory of the open file is charged to.
    pool: Option<Arc<dyn MemoryPool>>,
    open: Option<DataFileWriter>,
    created: CreatedFiles,
    finished: Vec<FileRecord>,
    /// Set while a batch is being taken in: if that fails or is cancelled, rows are missing for good.
    broken: bool,
}

/// Files that are complete and durable, and that nothing names yet.
pub(crate) struct FinishedFiles {
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) records: Vec<FileRecord>,
    pub(crate) summary: DataSummary,
    /// To be kept until the files are named.
    pub(crate) created: CreatedFiles,
}

impl FinishedFiles {
    /// The files as the picture knows them.
    pub(crate) fn data_files(&self, dir: &Path) -> Vec<Arc<DataFile>> {
        self.records.iter().filter_map(|record| DataFile::new(dir, record, &self.schema)).map(Arc::new).collect()
    }
}

/// Rows that were written next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Placed {
    /// Number of the file in the set.
    pub(crate) file: u32,
    /// The first row's position in the file.
    pub(crate) row: u32,
    /// How many rows.
    pub(crate) rows: u32,
}

impl FileSet {
    pub(crate) fn new(inner: &Arc<Inner>, schema: Arc<TableSchema>, write_id: Uuid, options: WriteOptions) -> Self {
        Self {
            inner: Arc::clone(inner),
            schema,
            write_id,
            options,
            pool: inner.options.memory_pool.clone(),
            open: None,
            created: CreatedFiles { inner: Arc::clone(inner), names: Vec::new() },
            finished: Vec::new(),
            broken: false,
        }
    }

    /// Whoever calls this answers for the memory of the open file.
    pub(crate) fn charge_nothing(&mut self) {
        self.pool = None;
    }

    /// The schema of the rows.
    pub(crate) fn schema(&self) -> &TableSchema {
        &self.schema
    }

    pub(crate) fn has_open_file(&self) -> bool {
        self.open.is_some()
    }

    /// Takes in rows and says where they are.
    pub(crate) async fn write(&mut self, batch: RecordBatch) -> Result<Vec<Placed>> {
        self.check_whole()?;
        self.check(&batch)?;
        let batch =
            zeros_under_nulls(batch).map_err(|source| Error::Arrow { action: "cannot take in decimals", source })?;
        self.broken = true;
        let mut placed = Vec::new();
        let mut offset = 0;
        while offset < batch.num_rows() {
            let rows = MAX_ROWS.min(batch.num_rows() - offset);
            // Files are ended long before rows or files need more than 32 bits.
            placed.push(Placed {
                file: self.finished.len() as u32,
                row: self.open.as_ref().map_or(0, DataFileWriter::rows) as u32,
                rows: rows as u32,
            });
            self.write_slice(batch.slice(offset, rows)).await?;
            offset += rows;
        }
        self.broken = false;
        Ok(placed)
    }

    /// The rows that came in cannot be kept.
    pub(crate) fn give_up(&mut self) {
        self.broken = true;
    }

    pub(crate) fn check(&self, batch: &RecordBatch) -> Result<()> {
        check_batch(&self.inner, &self.schema, batch)
    }

    pub(crate) async fn end_file(&mut self) -> Result<()> {
        self.check_whole()?;
        let Some(file) = self.open.take() else { return Ok(()) };
        self.broken = true;
        self.finished.push(file.finish(self.write_id).await?);
        self.broken = false;
        Ok(())
    }

    pub(crate) fn check_whole(&self) -> Result<()> {
        if self.broken {
            return Err(Error::WriterBroken { place: Arc::clone(&self.inner.place), write_id: self.write_id });
        }
        Ok(())
    }

    async fn write_slice(&mut self, batch: RecordBatch) -> Result<()> {
        let mut file = match self.open.take() {
            Some(file) => file,
            None => {
                let file = layout::new_file_id();
                self.created.names.push(layout::file_name(file));
                let writer = DataFileWriter::create(&self.inner, &self.schema, file, self.options, self.pool.as_ref())?;
                self.created.names.extend_from_slice(writer.run_names());
                writer
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

    /// Every file is synced, read back and compared with what was written.
    pub(crate) async fn finish(mut self) -> Result<FinishedFiles> {
        self.end_file().await?;
        let mut summary = DataSummary::empty(self.schema.columns());
        for file in &self.finished {
            summary.merge(&file.summary);
        }
        let created = CreatedFiles { inner: Arc::clone(&self.inner), names: std::mem::take(&mut self.created.names) };
        let schema = Arc::clone(&self.schema);
        Ok(FinishedFiles { schema, records: std::mem::take(&mut self.finished), summary, created })
    }
}

impl Drop for FileSet {
    fn drop(&mut self) {
        // Stops the encoder before its file goes.
        self.open = None;
    }
}

/// Removes files unless told to let go of them.
pub(crate) struct CreatedFiles {
    inner: Arc<Inner>,
    names: Vec<String>,
}

impl CreatedFiles {
    /// Of these names, relative to the partition directory.
    pub(crate) fn of(inner: &Arc<Inner>, names: Vec<String>) -> Self {
        Self { inner: Arc::clone(inner), names }
    }

    /// One more.
    pub(crate) fn add(&mut self, name: String) {
        self.names.push(name);
    }

    /// The metastore names these now.
    pub(crate) fn keep_only_others(&mut self, named: &std::collections::HashSet<&str>) {
        self.names.retain(|name| !named.contains(name.as_str()));
    }

    /// The metastore names them now.
    pub(crate) fn keep(&mut self) {
        self.names.clear();
    }
}

impl Drop for CreatedFiles {
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

fn check_batch(inner: &Inner, schema: &TableSchema, batch: &RecordBatch) -> Result<()> {
    let mismatch = |column: &str, detail: String| {
        Err(Error::SchemaMismatch { place: Arc::clone(&inner.place), column: column.to_owned(), detail })
    };
    let fields = schema.logical.fields();
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

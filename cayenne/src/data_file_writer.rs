//! Writes one Vortex file and checks it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::record_batch::RecordBatch;
use datafusion::execution::memory_pool::{MemoryPool, MemoryReservation};
use futures::stream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use uuid::Uuid;
use vortex::array::ArrayRef;
use vortex::array::stream::ArrayStreamAdapter;
use vortex::arrow::ArrowSessionExt;
use vortex::dtype::PType;
use vortex::error::{VortexError, VortexResult};
use vortex::expr::stats::Stat;
use vortex::file::{OpenOptionsSessionExt, VortexFile, WriteOptionsSessionExt};
use vortex::layout::layouts::struct_::StructLayoutEncoding;

use crate::encoder_memory;
use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::layout;
use crate::lookup_index::collector::Collector;
use crate::metastore::FileRecord;
use crate::options::WriteOptions;
use crate::partition::Inner;
use crate::schema::TableSchema;
use crate::session::{BeginColumn, read_session, write_session, write_strategy};
use crate::sink::{FileDigest, HashingSink, hash_file};
use crate::stats::SummaryBuilder;

/// A file is closed when it has taken in this many times the target size uncompressed, whatever it
/// has shrunk to; otherwise a file of very repetitive rows would never end.
const MAX_RAW_FACTOR: u64 = 16;

/// A file is closed when it has so many rows: positions of rows then fit in 32 bits.
const MAX_ROWS: u64 = 1 << 31;

/// A data file that is being written. Dropping it stops the encoder; the caller removes the file.
pub(crate) struct DataFileWriter {
    inner: Arc<Inner>,
    schema: Arc<TableSchema>,
    name: String,
    path: PathBuf,
    batches: Option<mpsc::Sender<VortexResult<ArrayRef>>>,
    encoder: JoinHandle<VortexResult<(u64, FileDigest)>>,
    written: Arc<AtomicU64>,
    raw_bytes: u64,
    target_bytes: u64,
    summary: SummaryBuilder,
    index: Collector,
    /// Of the encoder's buffers; goes with them.
    _memory: Option<MemoryReservation>,
}

impl DataFileWriter {
    pub(crate) fn create(
        inner: &Arc<Inner>,
        schema: &Arc<TableSchema>,
        file: Uuid,
        options: WriteOptions,
        pool: Option<&Arc<dyn MemoryPool>>,
    ) -> Result<Self> {
        let name = layout::file_name(file);
        let path = inner.dir.join(&name);
        let dtype = write_session()
            .arrow()
            .from_arrow_schema(&schema.stored)
            .map_err(|source| vortex_error(inner, "prepare", &name, source))?;
        inner.check_space()?;
        let memory = pool.map(|pool| encoder_memory::reserve(pool, &inner.place, &schema.logical)).transpose()?;
        let index = Collector::new(inner, schema, file, pool)?;
        inner.step(Step::CreateFile)?;
        let file = File::options()
            .write(true)
            .create_new(true)
            .open(&path)
            .map_err(|source| Error::io("create", &path, source))?;
        inner.step(Step::FileCreated)?;
        let written = Arc::new(AtomicU64::new(0));
        let hook = Arc::clone(inner);
        let mut sink = HashingSink::new(file, Arc::clone(&written), move || {
            hook.step(Step::WriteBytes).map_err(std::io::Error::other)
        });
        // One batch waits while one is being taken in: what is in memory is bounded by the encoder's own buffers.
        let (sender, receiver) = mpsc::channel(1);
        let batches = stream::unfold(receiver, |mut receiver: mpsc::Receiver<VortexResult<ArrayRef>>| async move {
            receiver.recv().await.map(|batch| (batch, receiver))
        });
        let begin = inner.options.failpoints.is_some().then(|| {
            let hook = Arc::clone(inner);
            Box::new(move || hook.step(Step::EncodeColumn).map_err(std::io::Error::other)) as BeginColumn
        });
        let hook = Arc::clone(inner);
        let encoder = tokio::spawn(async move {
            let summary = write_session()
                .write_options()
                .with_strategy(write_strategy(options.compression, begin))
                .write(&mut sink, ArrayStreamAdapter::new(dtype, batches))
                .await?;
            let synced = tokio::task::spawn_blocking(move || {
                hook.step(Step::SyncFile).map_err(std::io::Error::other)?;
                sink.sync()
            });
            let digest = synced.await.map_err(std::io::Error::other)??;
            Ok((summary.row_count(), digest))
        });
        Ok(Self {
            inner: Arc::clone(inner),
            schema: Arc::clone(schema),
            name,
            path,
            batches: Some(sender),
            encoder,
            written,
            raw_bytes: 0,
            target_bytes: options.target_file_bytes.unwrap_or(inner.tuning().target_file_bytes),
            summary: SummaryBuilder::new(&schema.logical),
            index,
            _memory: memory,
        })
    }

    /// Whether the file has reached its size.
    pub(crate) fn is_full(&self) -> bool {
        let target = self.target_bytes;
        if self.rows() >= MAX_ROWS {
            return true;
        }
        self.written.load(Ordering::Relaxed) >= target || self.raw_bytes >= target.saturating_mul(MAX_RAW_FACTOR)
    }

    /// Names of files that come to be besides.
    pub(crate) fn run_names(&self) -> &[String] {
        self.index.names()
    }

    /// Rows taken in so far.
    pub(crate) fn rows(&self) -> u64 {
        self.summary.rows()
    }

    /// Takes in a batch that has the partition's schema and at least one row.
    pub(crate) async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.summary.update(&batch);
        self.index.push(&batch).await;
        self.raw_bytes += slice_bytes(&batch);
        let array = write_session()
            .arrow()
            .from_arrow_record_batch(self.schema.to_stored(batch)?, &self.schema.stored)
            .map_err(|source| vortex_error(&self.inner, "encode", &self.name, source))?;
        let sent = match &self.batches {
            Some(batches) => batches.send(Ok(array)).await.is_ok(),
            None => false,
        };
        if sent {
            return Ok(());
        }
        // The encoder is gone; it says why.
        match self.join().await {
            Ok(_) => Err(self.damaged("the encoder stopped early".to_owned())),
            Err(error) => Err(error),
        }
    }

    async fn join(&mut self) -> Result<(u64, FileDigest)> {
        match (&mut self.encoder).await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(source)) => Err(vortex_error(&self.inner, "write", &self.name, source)),
            Err(error) => Err(self.inner.died("writing a data file", error)),
        }
    }

    fn damaged(&self, detail: String) -> Error {
        Error::FileDamaged { place: Arc::clone(&self.inner.place), file: self.name.clone(), detail }
    }

    /// Encodes what is buffered, syncs the file and checks that it holds what was written.
    pub(crate) async fn finish(mut self, write_id: Uuid) -> Result<FileRecord> {
        drop(self.batches.take());
        let (rows, digest) = self.join().await?;
        if rows != self.summary.rows() {
            return Err(self.damaged(format!("it holds {rows} rows and {} were written", self.summary.rows())));
        }
        let summary = std::mem::replace(&mut self.summary, SummaryBuilder::new(&self.schema.logical));
        let runs = self.index.finish(rows).await;
        let record = FileRecord {
            schema_id: self.schema.id,
            path: self.name.clone(),
            sha256: digest.sha256,
            summary: summary.finish(digest.bytes),
            added: None,
            removed: None,
            sequence: None,
            deleted_rows: 0,
            write_id,
            runs,
        };
        self.inner.step(Step::VerifyFile)?;
        self.verify(&record).await?;
        Ok(record)
    }

    /// Reads the file back: its hash, its footer, the row count of each column and the statistics that Vortex kept.
    async fn verify(&self, record: &FileRecord) -> Result<()> {
        let path = self.path.clone();
        let digest = tokio::task::spawn_blocking(move || hash_file(&path))
            .await
            .map_err(|error| self.inner.died("reading a data file back", error))?
            .map_err(|source| Error::io("read back", &self.path, source))?;
        if digest.bytes != record.summary.bytes || digest.sha256 != record.sha256 {
            return Err(self.damaged("what is on disk differs from what was written".to_owned()));
        }
        let file = open_vortex_file(&self.path, record.summary.bytes)
            .await
            .map_err(|source| vortex_error(&self.inner, "read back", &self.name, source))?;
        check_content(&file, record).map_err(|detail| self.damaged(detail))
    }
}

impl Drop for DataFileWriter {
    fn drop(&mut self) {
        self.encoder.abort();
    }
}

pub(crate) async fn open_vortex_file(path: &Path, bytes: u64) -> VortexResult<VortexFile> {
    read_session().open_options().with_file_size(bytes).open_path(path).await
}

/// Compares a file's own account of itself with the metastore's.
pub(crate) fn check_content(file: &VortexFile, record: &FileRecord) -> std::result::Result<(), String> {
    let rows = record.summary.rows;
    if file.row_count() != rows {
        return Err(format!("its footer counts {} rows instead of {rows}", file.row_count()));
    }
    if file.footer().layout().is::<StructLayoutEncoding>() {
        let columns = file.footer().layout().children().map_err(|error| error.to_string())?;
        if let Some((index, column)) = columns.iter().enumerate().find(|(_, column)| column.row_count() != rows) {
            return Err(format!("column {index} has {} rows instead of {rows}", column.row_count()));
        }
    }
    let Some(statistics) = file.file_stats() else {
        return Err("it has no statistics".to_owned());
    };
    let expected = record.summary.columns.len();
    if statistics.stats_sets().len() != expected {
        return Err(format!("it has {} columns instead of {expected}", statistics.stats_sets().len()));
    }
    for (index, column) in record.summary.columns.iter().enumerate() {
        let (stats, _) = statistics.get(index);
        let nulls = stats.get_as::<u64>(Stat::NullCount, &PType::U64.into()).as_exact();
        if nulls.is_some_and(|nulls| nulls != column.null_count) {
            return Err(format!(
                "column {index} has {} NULLs instead of {}",
                nulls.unwrap_or_default(),
                column.null_count
            ));
        }
    }
    Ok(())
}

fn vortex_error(inner: &Inner, action: &'static str, file: &str, source: VortexError) -> Error {
    Error::Vortex { place: Arc::clone(&inner.place), action, file: file.to_owned(), source: Box::new(source) }
}

fn slice_bytes(batch: &RecordBatch) -> u64 {
    let bytes: usize = batch
        .columns()
        .iter()
        .map(|array| {
            let whole = array.get_array_memory_size();
            array.to_data().get_slice_memory_size().unwrap_or(whole).min(whole)
        })
        .sum();
    bytes as u64
}

//! Rows of a table or a query into one file.
use std::sync::Arc;

use ancho_common::{
    error::{Error, Result},
    spec::source::{CsvOptions, FileFormat, Location},
};
use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use datafusion::{
    catalog::Session,
    datasource::listing::ListingTableUrl,
    execution::SendableRecordBatchStream,
    parquet::{
        arrow::AsyncArrowWriter,
        basic::{Compression, ZstdLevel},
        file::properties::WriterProperties,
    },
};
use futures::StreamExt;
use object_store::{ObjectStore, ObjectStoreExt, buffered::BufWriter, path::Path};
use tokio::io::AsyncWriteExt;

use super::{Copy, What, csv_lines::CsvLines};
use crate::{
    frontend::caller::Caller,
    query::{
        engine::QueryEngine,
        statement::{of_query, parse_query},
    },
};

impl QueryEngine {
    /// Writes the rows to a new file, and says how many they were.
    pub(super) async fn copy_to(&self, copy: &Copy, parameters: Option<&RecordBatch>, caller: &Caller) -> Result<u64> {
        let query = match &copy.what {
            What::Query(query) => query.clone(),
            What::Table(name, columns) if columns.is_empty() => parse_query(&format!("SELECT * FROM {name}"))?,
            What::Table(name, columns) => {
                let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
                parse_query(&format!("SELECT {} FROM {name}", columns.join(", ")))?
            }
        };
        let query = &query;
        self.attempts(|_, attempt| async move {
            let session = match &copy.files.s3 {
                None => attempt.session().clone(),
                Some(options) => attempt.reaching(options)?.session().clone(),
            };
            let file = Target::new(&session, &copy.files.from).await?;
            let plan = attempt.logical(of_query(query.clone())?, parameters).await?;
            let schema = attempt.announced(&plan)?;
            let work = async {
                let rows = attempt.stream(plan).await.map_err(|failure| failure.error)?;
                file.write(rows, schema, &copy.files.format).await
            };
            Ok(caller.unless_gone(work).await.map_err(|e| e.context(&format!("copying to {}", copy.files.from)))?)
        })
        .await
    }
}

/// The file to be.
struct Target {
    store: Arc<dyn ObjectStore>,
    path: Path,
    location: Location,
}

impl Target {
    /// # Errors
    /// `AlreadyExists`; `Invalid` for a folder or a pattern.
    async fn new(session: &dyn Session, location: &Location) -> Result<Self> {
        let (url, path) = match location {
            Location::File(path) => ("file:///".to_owned(), path.trim_start_matches('/')),
            Location::S3 { bucket, key } => (format!("s3://{bucket}/"), key.as_str()),
        };
        if path.is_empty() || path.ends_with('/') || path.contains(['*', '?', '[']) {
            return Err(Error::invalid(format!("{location} is not the name of one file; COPY TO writes one")));
        }
        let store = session.runtime_env().object_store(ListingTableUrl::parse(&url)?.object_store())?;
        let path = Path::parse(path).map_err(|e| Error::invalid(format!("{location}: {e}")))?;
        let target = Self { store, path, location: location.clone() };
        match target.store.head(&target.path).await {
            Ok(_) => Err(target.exists()),
            Err(object_store::Error::NotFound { .. }) => Ok(target),
            Err(error) => Err(target.failed(&error)),
        }
    }

    fn exists(&self) -> Error {
        Error::already_exists(format!("{} exists already; remove it, or name another file", self.location))
    }

    fn failed(&self, error: &dyn std::fmt::Display) -> Error {
        Error::unavailable(format!("{} cannot be written: {error}", self.location))
    }

    /// Writes the rows under another name, and gives the file its own when it is whole. In a bucket nothing is seen of a
    /// file before that anyway.
    async fn write(&self, rows: SendableRecordBatchStream, schema: SchemaRef, format: &FileFormat) -> Result<u64> {
        if matches!(self.location, Location::S3 { .. }) {
            return self.write_at(&self.path, rows, schema, format).await;
        }
        let beside = Path::from(format!("{}.{}.part", self.path, uuid::Uuid::new_v4().simple()));
        let written = self.write_at(&beside, rows, schema, format).await;
        let renamed = match &written {
            Ok(_) => match self.store.rename_if_not_exists(&beside, &self.path).await {
                Err(object_store::Error::AlreadyExists { .. }) => Err(self.exists()),
                renamed => renamed.map_err(|e| self.failed(&e)),
            },
            Err(_) => Ok(()),
        };
        if written.is_err() || renamed.is_err() {
            // What cannot be removed has a name that says what it is.
            let _ = self.store.delete(&beside).await;
        }
        renamed.and(written)
    }

    async fn write_at(
        &self,
        path: &Path,
        mut rows: SendableRecordBatchStream,
        schema: SchemaRef,
        format: &FileFormat,
    ) -> Result<u64> {
        let mut file = BufWriter::new(Arc::clone(&self.store), path.clone());
        let mut count = 0;
        match format {
            FileFormat::Snapshot => return Err(Error::internal("a snapshot was to be written as a file")),
            FileFormat::Parquet => {
                let level = ZstdLevel::try_new(3).map_err(|e| Error::internal(e.to_string()))?;
                let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
                let mut writer = AsyncArrowWriter::try_new(&mut file, Arc::clone(&schema), Some(properties))
                    .map_err(|e| Error::unsupported(format!("these columns cannot be stored as Parquet: {e}")))?;
                while let Some(batch) = rows.next().await {
                    let batch = in_columns(batch?, &schema)?;
                    count += batch.num_rows() as u64;
                    writer.write(&batch).await.map_err(|e| self.failed(&e))?;
                }
                writer.close().await.map_err(|e| self.failed(&e))?;
                return Ok(count);
            }
            FileFormat::Csv(options) => {
                let mut first = true;
                while let Some(batch) = rows.next().await {
                    let batch = in_columns(batch?, &schema)?;
                    count += batch.num_rows() as u64;
                    let text = lines(&batch, options, first && options.has_header)?;
                    file.write_all(&text).await.map_err(|e| self.failed(&e))?;
                    first = false;
                }
                if first {
                    let none = RecordBatch::new_empty(schema);
                    let text = lines(&none, options, options.has_header)?;
                    file.write_all(&text).await.map_err(|e| self.failed(&e))?;
                }
            }
        }
        file.shutdown().await.map_err(|e| self.failed(&e))?;
        Ok(count)
    }
}

/// The rows under the names that were announced.
fn in_columns(batch: RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch
        .columns()
        .iter()
        .zip(schema.fields())
        .map(|(column, field)| arrow::compute::cast(column, field.data_type()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| Error::internal(format!("rows do not fit what was announced: {e}")))?;
    RecordBatch::try_new(Arc::clone(schema), columns)
        .map_err(|e| Error::internal(format!("rows do not fit what was announced: {e}")))
}

fn lines(batch: &RecordBatch, options: &CsvOptions, header: bool) -> Result<Vec<u8>> {
    let lines = CsvLines::new(options);
    let mut text = Vec::new();
    if header {
        lines.header(batch, &mut text);
    }
    lines.rows(batch, &mut text)?;
    Ok(text)
}

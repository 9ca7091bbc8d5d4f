//! CSV as a file format whose scans read whole files and tell empty texts from missing ones.
use std::sync::Arc;

use ancho_common::plan::csv::WholeCsvSource;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::Statistics,
    datasource::{
        file_format::{FileFormat, csv::CsvFormat, file_compression_type::FileCompressionType},
        physical_plan::{CsvSource, FileScanConfig, FileSource},
        source::DataSourceExec,
        table_schema::TableSchema,
    },
    error::Result,
    physical_plan::ExecutionPlan,
};
use futures::stream;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};

/// The engine's format, but for the reading.
#[derive(Debug)]
pub struct WholeCsvFormat {
    /// Options, and how columns are found.
    pub inner: CsvFormat,
    /// `""` is NULL, too.
    pub quoted_is_null: bool,
    /// Rows looked at to find the columns.
    pub rows_to_infer: usize,
}

/// Bytes of a file that are looked at first.
const FIRST_BYTES: u64 = 1 << 20;

impl WholeCsvFormat {
    /// Columns of a file by at most so many rows, and how many it has of them. The engine would look at pieces of the file
    /// that begin behind any line break.
    async fn infer(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        file: &ObjectMeta,
        rows: usize,
    ) -> Result<(Schema, usize)> {
        let mut bytes = FIRST_BYTES;
        loop {
            let whole = bytes >= file.size;
            let start = store.get_range(&file.location, 0..bytes.min(file.size)).await?;
            let infer = |rows| {
                let start = start.clone();
                let pieces = Box::pin(stream::once(async move { Ok(start) }));
                self.inner.infer_schema_from_stream(session, rows, pieces)
            };
            // The last row may be cut, so there must be one more.
            if whole || infer(rows + 1).await.is_ok_and(|(_, found)| found > rows) {
                return infer(rows).await;
            }
            bytes *= 8;
        }
    }
}

#[async_trait]
impl FileFormat for WholeCsvFormat {
    fn get_ext(&self) -> String {
        self.inner.get_ext()
    }

    fn get_ext_with_compression(&self, compression: &FileCompressionType) -> Result<String> {
        self.inner.get_ext_with_compression(compression)
    }

    fn compression_type(&self) -> Option<FileCompressionType> {
        self.inner.compression_type()
    }

    async fn infer_schema(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        files: &[ObjectMeta],
    ) -> Result<SchemaRef> {
        let (mut schemas, mut rows) = (Vec::new(), self.rows_to_infer);
        for file in files {
            let (schema, found) = self.infer(session, store, file, rows).await?;
            schemas.push(schema);
            rows = rows.saturating_sub(found);
            if rows == 0 {
                break;
            }
        }
        Ok(Arc::new(Schema::try_merge(schemas)?))
    }

    async fn infer_stats(
        &self,
        session: &dyn Session,
        store: &Arc<dyn ObjectStore>,
        schema: SchemaRef,
        file: &ObjectMeta,
    ) -> Result<Statistics> {
        self.inner.infer_stats(session, store, schema, file).await
    }

    async fn create_physical_plan(&self, _: &dyn Session, scan: FileScanConfig) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(DataSourceExec::from_data_source(scan))
    }

    fn file_source(&self, schema: TableSchema) -> Arc<dyn FileSource> {
        let source = self.inner.file_source(schema);
        match source.downcast_ref::<CsvSource>() {
            Some(csv) => Arc::new(WholeCsvSource::new(csv.clone(), self.quoted_is_null)),
            None => source,
        }
    }
}

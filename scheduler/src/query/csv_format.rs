//! CSV as a file format whose scans read whole files and tell empty texts from missing ones.
use std::sync::Arc;

use ancho_common::plan::csv::{WholeCsvSource, compression};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use datafusion::{
    catalog::Session,
    common::Statistics,
    datasource::{
        file_format::{FileFormat, csv::CsvFormat, file_compression_type::FileCompressionType},
        physical_plan::{CsvSource, FileScanConfig, FileSource},
        source::DataSourceExec,
        table_schema::TableSchema,
    },
    error::{DataFusionError, Result},
    physical_plan::ExecutionPlan,
};
use futures::{StreamExt, TryStreamExt, stream};
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
            let (start, whole) = start_of(store, file, bytes).await?;
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

/// The first bytes of a file's content, about so many, and whether they are all.
async fn start_of(store: &Arc<dyn ObjectStore>, file: &ObjectMeta, bytes: u64) -> Result<(Bytes, bool)> {
    let name = file.location.as_ref();
    if !compression::is_gzip(name) {
        let start = store.get_range(&file.location, 0..bytes.min(file.size)).await?;
        return Ok((start, bytes >= file.size));
    }
    let stored = store.get(&file.location).await?.into_stream().map_err(DataFusionError::from).boxed();
    let mut content = compression::content(name, stored)?;
    let mut start = BytesMut::new();
    while let Some(piece) = content.try_next().await? {
        start.extend_from_slice(&piece);
        if start.len() as u64 >= bytes {
            return Ok((start.freeze(), false));
        }
    }
    Ok((start.freeze(), true))
}

/// The columns of several files, each in the type that one file with all their values would have.
fn together(schemas: &[Schema]) -> Schema {
    let mut fields: Vec<Field> = Vec::new();
    for field in schemas.iter().flat_map(|schema| schema.fields()) {
        match fields.iter_mut().find(|known| known.name() == field.name()) {
            Some(known) => {
                let both = holding(known.data_type(), field.data_type());
                *known = known.clone().with_data_type(both).with_nullable(true);
            }
            None => fields.push(field.as_ref().clone()),
        }
    }
    Schema::new(fields)
}

/// The type for the values of two, as the engine chooses it among the rows of one file.
fn holding(a: &DataType, b: &DataType) -> DataType {
    let fineness = |data_type: &DataType| match data_type {
        DataType::Date32 => Some(0),
        DataType::Timestamp(TimeUnit::Second, None) => Some(1),
        DataType::Timestamp(TimeUnit::Millisecond, None) => Some(2),
        DataType::Timestamp(TimeUnit::Microsecond, None) => Some(3),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => Some(4),
        _ => None,
    };
    match (a, b) {
        (a, b) if a == b => a.clone(),
        (DataType::Null, other) | (other, DataType::Null) => other.clone(),
        (DataType::Int64, DataType::Float64) | (DataType::Float64, DataType::Int64) => DataType::Float64,
        (a, b) => match (fineness(a), fineness(b)) {
            (Some(of_a), Some(of_b)) => if of_a > of_b { a } else { b }.clone(),
            _ => DataType::Utf8,
        },
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
        Ok(Arc::new(together(&schemas)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_several_files_hold_the_values_of_all() {
        let at = |unit| DataType::Timestamp(unit, None);
        let file = |columns: &[(&str, DataType)]| {
            Schema::new(columns.iter().map(|(name, t)| Field::new(*name, t.clone(), true)).collect::<Vec<_>>())
        };
        for (a, b, both) in [
            (DataType::Float64, DataType::Int64, DataType::Float64),
            (DataType::Int64, DataType::Null, DataType::Int64),
            (DataType::Date32, at(TimeUnit::Second), at(TimeUnit::Second)),
            (at(TimeUnit::Nanosecond), at(TimeUnit::Millisecond), at(TimeUnit::Nanosecond)),
            (DataType::Int64, DataType::Boolean, DataType::Utf8),
            (DataType::Date32, DataType::Int64, DataType::Utf8),
            (DataType::Null, DataType::Null, DataType::Null),
        ] {
            assert_eq!(holding(&a, &b), both, "{a} {b}");
            assert_eq!(holding(&b, &a), both, "{b} {a}");
            let merged = together(&[file(&[("x", a)]), file(&[("y", DataType::Utf8), ("x", b)])]);
            assert_eq!(merged, file(&[("x", both), ("y", DataType::Utf8)]));
        }
    }
}

//! The schemas that a table has had, and the next one.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use rusqlite::params;
use uuid::Uuid;

use super::{Metastore, Schemas, signed};
use crate::error::{Error, Result};
use crate::options::WriteMode;
use crate::schema::TableSchema;
use crate::stats::{DataSummary, encode_columns};

impl Metastore {
    /// Every schema that the table ever had.
    pub(super) fn read_schemas(&self) -> Result<Schemas> {
        type Raw = (i64, Vec<u8>, Option<Vec<u8>>, Option<Vec<u8>>);
        let raw: Vec<Raw> = self
            .connection
            .prepare("SELECT schema_id, arrow_ipc, stored_ipc, defaults_ipc FROM schemas ORDER BY schema_id")
            .and_then(|mut statement| {
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
            })
            .map_err(self.failed("read schemas"))?;
        raw.into_iter()
            .map(|(id, logical, stored, defaults)| {
                let decode = |bytes: &[u8]| {
                    decode_schema(bytes).map_err(|detail| self.damaged(format!("schema {id} cannot be read: {detail}")))
                };
                let logical = decode(&logical)?;
                let stored = match stored {
                    Some(bytes) => decode(&bytes)?,
                    None => Arc::clone(&logical),
                };
                let defaults = match defaults {
                    Some(bytes) => decode_defaults(&bytes)
                        .map_err(|detail| self.damaged(format!("defaults of schema {id} cannot be read: {detail}")))?,
                    None => BTreeMap::new(),
                };
                Ok((id, Arc::new(TableSchema { id, logical, stored, defaults })))
            })
            .collect()
    }

    /// Every schema that the table ever had, by id.
    pub(crate) fn schemas(&self) -> &Schemas {
        &self.schemas
    }

    pub(super) fn schema(&self, id: i64) -> Result<&Arc<TableSchema>> {
        self.schemas.get(&id).ok_or_else(|| self.damaged(format!("there is no schema {id}")))
    }

    /// Records a schema, and a write that will make it the table's.
    pub(crate) fn seal_alter(
        &mut self,
        write_id: Uuid,
        schema: &Arc<TableSchema>,
        base_version: u64,
        now_ms: u64,
    ) -> Result<()> {
        let logical = encode_schema(&schema.logical)?;
        let stored = if schema.same_names() { None } else { Some(encode_schema(&schema.stored)?) };
        let defaults = if schema.defaults.is_empty() { None } else { Some(encode_defaults(&schema.defaults)?) };
        let stats = encode_columns(&DataSummary::empty(schema.columns()).columns, &schema.logical)?;
        self.commit_durably("record a change of columns", |tx| {
            tx.execute(
                "INSERT INTO schemas (schema_id, arrow_ipc, stored_ipc, defaults_ipc) VALUES (?1, ?2, ?3, ?4)",
                params![schema.id, logical, stored, defaults],
            )?;
            tx.execute(
                "INSERT INTO writes
                    (write_id, mode, schema_id, rows, bytes, files, column_stats, sealed_ms, base_version, deleted_rows)
                 VALUES (?1, ?2, ?3, 0, 0, 0, ?4, ?5, ?6, 0)",
                params![
                    write_id.to_string(),
                    WriteMode::Alter.as_str(),
                    schema.id,
                    stats,
                    signed(now_ms),
                    signed(base_version)
                ],
            )?;
            Ok(())
        })?;
        self.schemas.insert(schema.id, Arc::clone(schema));
        Ok(())
    }
}

pub(super) fn encode_schema(schema: &Schema) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    StreamWriter::try_new(&mut bytes, schema)
        .and_then(|mut writer| writer.finish())
        .map_err(|source| Error::Arrow { action: "cannot encode the schema", source })?;
    Ok(bytes)
}

pub(crate) fn decode_schema(bytes: &[u8]) -> std::result::Result<SchemaRef, String> {
    Ok(StreamReader::try_new(bytes, None).map_err(|error| error.to_string())?.schema())
}

/// A batch of one row, so that every value keeps its exact type.
fn encode_defaults(defaults: &BTreeMap<String, ScalarValue>) -> Result<Vec<u8>> {
    let failed = |source| Error::Arrow { action: "cannot encode default values", source };
    let mut fields = Vec::new();
    let mut columns = Vec::new();
    for (name, value) in defaults {
        fields.push(Field::new(name, value.data_type(), true));
        columns.push(value.to_array()?);
    }
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &schema).map_err(failed)?;
    writer.write(&batch).and_then(|()| writer.finish()).map_err(failed)?;
    drop(writer);
    Ok(bytes)
}

pub(crate) fn decode_defaults(bytes: &[u8]) -> std::result::Result<BTreeMap<String, ScalarValue>, String> {
    let mut reader = StreamReader::try_new(Cursor::new(bytes), None).map_err(|error| error.to_string())?;
    let batch = reader.next().ok_or("there is no row")?.map_err(|error| error.to_string())?;
    let mut defaults = BTreeMap::new();
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let value = ScalarValue::try_from_array(column, 0).map_err(|error| error.to_string())?;
        defaults.insert(field.name().clone(), value);
    }
    Ok(defaults)
}

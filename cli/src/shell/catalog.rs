//! Names and columns of the tables that a server has.
use ancho_common::error::{Error, Result};
use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{DataType, Schema},
};
use arrow_flight::{
    IpcMessage,
    sql::{CommandGetPrimaryKeys, CommandGetTables},
};

use crate::connection::{Connection, error};

/// A table or view.
#[derive(Debug, Clone)]
pub struct TableEntry {
    /// Catalog, where there are catalogs.
    pub catalog: Option<String>,
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
    /// `TABLE`, `VIEW` and so on.
    pub kind: String,
    /// Columns.
    pub columns: Schema,
}

/// Schemas whose tables the server makes up from others.
const SYSTEM_SCHEMAS: [&str; 2] = ["information_schema", "system"];

impl TableEntry {
    /// Whether the server makes it up.
    #[must_use]
    pub fn is_system(&self) -> bool {
        SYSTEM_SCHEMAS.contains(&self.schema.as_str())
    }
}

/// All tables, or those of one name (exactly this one).
///
/// # Errors
/// The server does not answer, or in another form than Flight SQL says.
pub async fn tables(connection: &mut Connection, name: Option<&str>) -> Result<Vec<TableEntry>> {
    let request = CommandGetTables {
        table_name_filter_pattern: name.map(escape_pattern),
        include_schema: true,
        ..CommandGetTables::default()
    };
    let info = connection.client().get_tables(request).await.map_err(error)?;
    let mut tables = Vec::new();
    for batch in connection.fetch(info).await?.collect().await? {
        for row in 0..batch.num_rows() {
            tables.push(read_table(&batch, row)?);
        }
    }
    Ok(tables)
}

/// Columns of the primary key of a table, in the order of the key.
///
/// # Errors
/// As [`tables`].
pub async fn primary_key(connection: &mut Connection, table: &TableEntry) -> Result<Vec<String>> {
    let request = CommandGetPrimaryKeys {
        catalog: table.catalog.clone(),
        db_schema: Some(table.schema.clone()),
        table: table.name.clone(),
    };
    let info = connection.client().get_primary_keys(request).await.map_err(error)?;
    let mut columns = Vec::new();
    for batch in connection.fetch(info).await?.collect().await? {
        for row in 0..batch.num_rows() {
            columns.extend(text(&batch, "column_name", row)?);
        }
    }
    Ok(columns)
}

fn read_table(batch: &RecordBatch, row: usize) -> Result<TableEntry> {
    let schema = batch
        .column_by_name("table_schema")
        .and_then(|column| column.as_binary_opt::<i32>())
        .ok_or_else(|| Error::internal("the server lists tables without their columns"))?;
    let columns = Schema::try_from(IpcMessage(schema.value(row).to_vec().into()))
        .map_err(|e| Error::internal(format!("read the columns of a table: {e}")))?;
    let required = |name| {
        text(batch, name, row)?.ok_or_else(|| Error::internal(format!("the server lists a table without its {name}")))
    };
    Ok(TableEntry {
        catalog: text(batch, "catalog_name", row)?,
        schema: text(batch, "db_schema_name", row)?.unwrap_or_default(),
        name: required("table_name")?,
        kind: required("table_type")?,
        columns,
    })
}

fn text(batch: &RecordBatch, column: &str, row: usize) -> Result<Option<String>> {
    let array = batch
        .column_by_name(column)
        .and_then(|array| array.as_string_opt::<i32>())
        .ok_or_else(|| Error::internal(format!("the server's answer has no column {column}")))?;
    Ok(array.is_valid(row).then(|| array.value(row).to_owned()))
}

/// `_` and `%` mean themselves.
fn escape_pattern(name: &str) -> String {
    let mut pattern = String::with_capacity(name.len());
    for c in name.chars() {
        if matches!(c, '_' | '%' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

/// A column's type as SQL would name it, where SQL has a name.
#[must_use]
pub fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Int8 => "TINYINT".into(),
        DataType::Int16 => "SMALLINT".into(),
        DataType::Int32 => "INT".into(),
        DataType::Int64 => "BIGINT".into(),
        DataType::UInt8 => "TINYINT UNSIGNED".into(),
        DataType::UInt16 => "SMALLINT UNSIGNED".into(),
        DataType::UInt32 => "INT UNSIGNED".into(),
        DataType::UInt64 => "BIGINT UNSIGNED".into(),
        DataType::Float32 => "FLOAT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "VARCHAR".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => "BYTEA".into(),
        DataType::Date32 | DataType::Date64 => "DATE".into(),
        DataType::Timestamp(_, None) => "TIMESTAMP".into(),
        DataType::Timestamp(_, Some(zone)) => format!("TIMESTAMP WITH TIME ZONE ({zone})"),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => {
            format!("DECIMAL({p}, {s})")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_pattern() {
        assert_eq!(escape_pattern("a_b%c\\"), "a\\_b\\%c\\\\");
        assert_eq!(sql_type(&DataType::Decimal128(15, 2)), "DECIMAL(15, 2)");
    }
}

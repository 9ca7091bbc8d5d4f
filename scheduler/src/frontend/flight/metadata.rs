//! Answers to Flight SQL's metadata commands: catalogs, schemas, tables, keys, and what the server can do.
use std::sync::Arc;

use ancho_common::error::{Error, Result};
use arrow::{
    array::{ArrayRef, Int32Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use arrow_flight::{
    error::FlightError,
    sql::{Command, CommandGetCatalogs, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTables},
};

use super::{sql_info::sql_info, type_info::type_info};
use crate::frontend::{
    edge::edge_schema,
    service::{CatalogListing, SqlService, TableInfo, TableType},
};

/// The whole answer to a metadata command; `None` if the command is none.
///
/// The answers are small and made at once, so their schema is announced from the answer itself.
///
/// # Errors
/// The catalog cannot be read.
pub fn metadata_batch(command: &Command, service: &dyn SqlService) -> Result<Option<RecordBatch>> {
    let batch = match command {
        Command::CommandGetCatalogs(command) => catalogs(*command, &service.catalog()?)?,
        Command::CommandGetDbSchemas(command) => schemas(command.clone(), &service.catalog()?)?,
        Command::CommandGetTables(command) => tables(command.clone(), &service.catalog()?)?,
        Command::CommandGetTableTypes(_) => table_types()?,
        Command::CommandGetSqlInfo(command) => sql_info(command.clone())?,
        Command::CommandGetXdbcTypeInfo(command) => type_info(*command)?,
        Command::CommandGetPrimaryKeys(command) => primary_keys(command, &service.catalog()?)?,
        // Tables have no foreign keys, so there is nothing to list, in the schema that the protocol fixes.
        Command::CommandGetImportedKeys(_)
        | Command::CommandGetExportedKeys(_)
        | Command::CommandGetCrossReference(_) => RecordBatch::new_empty(foreign_keys_schema()),
        _ => return Ok(None),
    };
    Ok(Some(batch))
}

pub(super) fn metadata_error(error: FlightError) -> Error {
    Error::internal(format!("metadata answer: {error}"))
}

fn catalogs(command: CommandGetCatalogs, listing: &CatalogListing) -> Result<RecordBatch> {
    let mut names: Vec<&str> = listing.schemas.iter().map(|(catalog, _)| catalog.as_str()).collect();
    names.extend(listing.tables.iter().map(|table| table.catalog.as_str()));
    names.sort_unstable();
    names.dedup();
    let mut builder = command.into_builder();
    for name in names {
        builder.append(name);
    }
    builder.build().map_err(metadata_error)
}

fn schemas(command: CommandGetDbSchemas, listing: &CatalogListing) -> Result<RecordBatch> {
    let mut names: Vec<(&str, &str)> = listing.schemas.iter().map(|(c, s)| (c.as_str(), s.as_str())).collect();
    names.extend(listing.tables.iter().map(|table| (table.catalog.as_str(), table.schema.as_str())));
    names.sort_unstable();
    names.dedup();
    let mut builder = command.into_builder();
    for (catalog, schema) in names {
        builder.append(catalog, schema);
    }
    builder.build().map_err(metadata_error)
}

fn tables(command: CommandGetTables, listing: &CatalogListing) -> Result<RecordBatch> {
    let mut builder = command.into_builder();
    for table in &listing.tables {
        builder
            .append(&table.catalog, &table.schema, &table.name, table.table_type.name(), &edge_schema(&table.columns))
            .map_err(metadata_error)?;
    }
    builder.build().map_err(metadata_error)
}

fn table_types() -> Result<RecordBatch> {
    let names = [TableType::Table.name(), TableType::View.name()];
    let schema = Arc::new(Schema::new(vec![Field::new("table_type", DataType::Utf8, false)]));
    batch(schema, vec![Arc::new(StringArray::from_iter_values(names))])
}

fn primary_keys(command: &CommandGetPrimaryKeys, listing: &CatalogListing) -> Result<RecordBatch> {
    let mut tables: Vec<&TableInfo> = listing
        .tables
        .iter()
        .filter(|table| {
            table.name == command.table
                && command.catalog.as_ref().is_none_or(|catalog| *catalog == table.catalog)
                && command.db_schema.as_ref().is_none_or(|schema| *schema == table.schema)
        })
        .collect();
    tables.sort_by_key(|table| (&table.catalog, &table.schema));
    let columns: Vec<(&TableInfo, &str, i32)> = tables
        .into_iter()
        .flat_map(|table| {
            (1..).zip(&table.primary_key).map(move |(position, column)| (table, column.as_str(), position))
        })
        .collect();
    let schema = Arc::new(Schema::new(vec![
        Field::new("catalog_name", DataType::Utf8, true),
        Field::new("db_schema_name", DataType::Utf8, true),
        Field::new("table_name", DataType::Utf8, false),
        Field::new("column_name", DataType::Utf8, false),
        Field::new("key_name", DataType::Utf8, true),
        Field::new("key_sequence", DataType::Int32, false),
    ]));
    let text = |get: fn(&(&TableInfo, &str, i32)) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(columns.iter().map(get)))
    };
    batch(
        schema,
        vec![
            text(|(table, ..)| table.catalog.clone()),
            text(|(table, ..)| table.schema.clone()),
            text(|(table, ..)| table.name.clone()),
            text(|(_, column, _)| (*column).to_string()),
            text(|(table, ..)| format!("{}_pkey", table.name)),
            Arc::new(Int32Array::from_iter_values(columns.iter().map(|(_, _, position)| *position))),
        ],
    )
}

fn foreign_keys_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("pk_catalog_name", DataType::Utf8, true),
        Field::new("pk_db_schema_name", DataType::Utf8, true),
        Field::new("pk_table_name", DataType::Utf8, false),
        Field::new("pk_column_name", DataType::Utf8, false),
        Field::new("fk_catalog_name", DataType::Utf8, true),
        Field::new("fk_db_schema_name", DataType::Utf8, true),
        Field::new("fk_table_name", DataType::Utf8, false),
        Field::new("fk_column_name", DataType::Utf8, false),
        Field::new("key_sequence", DataType::Int32, false),
        Field::new("fk_key_name", DataType::Utf8, true),
        Field::new("pk_key_name", DataType::Utf8, true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}

fn batch(schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    RecordBatch::try_new(schema, columns).map_err(|e| Error::internal(format!("metadata answer: {e}")))
}

//! Columns that a table's parameters name: rows are laid down by them, or told which is the newest.
use std::collections::BTreeMap;

use ancho_common::{
    error::Error,
    spec::settings,
    storable::{MAX_CLUSTER_COLUMNS, MAX_INDEX_COLUMNS, is_cluster_type, is_index_type, is_sort_type},
};
use arrow::datatypes::{DataType, Schema};

use super::cluster::TableName;

/// Whether the columns that parameters lay rows down by exist and have an order, and those of indexes exact values.
///
/// # Errors
/// `Invalid`, naming parameter and column.
pub fn check_layout(table: &TableName, schema: &Schema, params: &BTreeMap<String, String>) -> Result<(), Error> {
    let (sorted, clustered) = (settings::sort_columns(params), settings::cluster_columns(params));
    if clustered.len() > MAX_CLUSTER_COLUMNS {
        return Err(Error::invalid(format!(
            "table {table}: cayenne_cluster_by names {} columns; at most {MAX_CLUSTER_COLUMNS} are possible",
            clustered.len()
        )));
    }
    let lists: [(&str, &[String], fn(&DataType) -> bool); 2] =
        [("sort_columns", &sorted, is_sort_type), ("cayenne_cluster_by", &clustered, is_cluster_type)];
    for (option, columns, fits) in lists {
        for (position, column) in columns.iter().enumerate() {
            check_option_column(table, schema, (option, column), fits, "name columns whose values have an order")?;
            if columns[..position].contains(column) {
                return Err(Error::invalid(format!(
                    "table {table}: {option} names column {column:?} twice; name it once"
                )));
            }
        }
    }
    for columns in settings::indexes(params) {
        if columns.len() > MAX_INDEX_COLUMNS {
            return Err(Error::invalid(format!(
                "table {table}: an index has {} columns; at most {MAX_INDEX_COLUMNS} are possible",
                columns.len()
            )));
        }
        for column in &columns {
            check_option_column(
                table,
                schema,
                (settings::INDEXES, column),
                is_index_type,
                "name columns with single values",
            )?;
        }
    }
    Ok(())
}

/// Whether a column that a parameter names exists and has a fitting type.
pub(super) fn check_option_column(
    table: &TableName,
    schema: &Schema,
    (option, column): (&str, &str),
    fits: fn(&DataType) -> bool,
    instead: &str,
) -> Result<(), Error> {
    let place = || format!("table {table}: {option} names column {column:?}, which");
    match schema.field_with_name(column) {
        Err(_) => Err(Error::invalid(format!("{} does not exist", place()))),
        Ok(field) if !fits(field.data_type()) => {
            Err(Error::invalid(format!("{} has type {}; {instead}", place(), field.data_type())))
        }
        Ok(_) => Ok(()),
    }
}

//! Names of stored rows: hidden columns that a scan gives on request, so that a statement can say which rows it deletes.
//!
//! A row is named by its partition, its data file and its position in the file. A name holds as long as the file does.
use std::sync::{Arc, LazyLock};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};

use crate::error::{Error, Result};

/// Id of the partition: `UInt64`.
pub const PARTITION_COLUMN: &str = "__ancho_partition";
/// The data file, as the storage engine names it: `Utf8View`.
pub const FILE_COLUMN: &str = "__ancho_file";
/// Position of the row in its file: `UInt64`.
pub const ROW_COLUMN: &str = "__ancho_row";

/// Number of columns that name a row.
pub const COLUMNS: usize = 3;

static FIELDS: LazyLock<[FieldRef; COLUMNS]> = LazyLock::new(|| {
    [
        Arc::new(Field::new(PARTITION_COLUMN, DataType::UInt64, false)),
        Arc::new(Field::new(FILE_COLUMN, DataType::Utf8View, false)),
        Arc::new(Field::new(ROW_COLUMN, DataType::UInt64, false)),
    ]
});

/// The columns that name a row, in order.
#[must_use]
pub fn fields() -> &'static [FieldRef; COLUMNS] {
    &FIELDS
}

/// A table's schema, the names of its rows behind its own columns.
#[must_use]
pub fn with_row_ids(schema: &Schema) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().chain(fields()).cloned().collect();
    Arc::new(Schema::new(fields))
}

/// How many columns of a scanned schema are the table's own: all, or those before the names of its rows. A table cannot
/// have columns of these names.
#[must_use]
pub fn own_columns(schema: &Schema) -> usize {
    let columns = schema.fields().len();
    match columns.checked_sub(COLUMNS) {
        Some(own) if schema.field(own).name() == PARTITION_COLUMN => own,
        _ => columns,
    }
}

/// Refuses column names that are kept for hidden columns.
///
/// # Errors
/// `Invalid`, naming the column.
pub fn check_names(schema: &Schema) -> Result<()> {
    match schema.fields().iter().find(|f| f.name().starts_with("__ancho_")) {
        None => Ok(()),
        Some(field) => Err(Error::invalid(format!(
            "column {}: names that begin with __ancho_ are kept for hidden columns; choose another one",
            field.name()
        ))),
    }
}

/// The columns of a batch that name rows in the storage engine of one partition.
///
/// # Errors
/// `Internal` if they are not there.
pub fn in_partition(batch: &RecordBatch) -> Result<RecordBatch> {
    let index = |name: &str| {
        batch.schema().index_of(name).map_err(|_| Error::internal(format!("rows to delete come without {name}")))
    };
    let columns = [index(FILE_COLUMN)?, index(ROW_COLUMN)?];
    batch.project(&columns).map_err(|e| Error::internal(format!("names of rows: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_columns_stand_before_the_names_of_rows() {
        let own = Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8, true)]);
        assert_eq!(own_columns(&own), 2);
        let all = with_row_ids(&own);
        assert_eq!((all.fields().len(), own_columns(&all)), (5, 2));
        assert_eq!(own_columns(&Schema::empty()), 0);
        assert!(check_names(&own).is_ok() && check_names(&all).unwrap_err().message.contains(PARTITION_COLUMN));
    }
}

//! Names of rows: the file that holds a row and the row's position in it. They stay as long as the file does.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};
use uuid::Uuid;

/// The column in which a scan with [`row_ids`](crate::ScanRequest::row_ids) gives the file of a row: `Utf8View`, 32 hexadecimal digits.
pub const FILE_COLUMN: &str = "__ancho_file";
/// The column in which a scan with [`row_ids`](crate::ScanRequest::row_ids) gives the position of a row in its file: `UInt64`.
pub const ROW_COLUMN: &str = "__ancho_row";

/// A file's id in [`FILE_COLUMN`].
pub(crate) fn file_text(id: Uuid) -> String {
    id.simple().to_string()
}

/// The rows that a batch names; the message says what is wrong with it.
pub(crate) fn rows_by_file(batch: &RecordBatch) -> Result<BTreeMap<Uuid, Vec<u64>>, String> {
    let files = column(batch, FILE_COLUMN, &DataType::Utf8View)?;
    let rows = column(batch, ROW_COLUMN, &DataType::UInt64)?;
    let files = files.as_string_view();
    let rows = rows.as_primitive::<UInt64Type>().values();
    let mut by_file: BTreeMap<Uuid, Vec<u64>> = BTreeMap::new();
    // Neighbours are mostly of one file: a text is read once per run of equal ones.
    let mut at = 0;
    while at < rows.len() {
        let text = files.value(at);
        let end = (at..rows.len()).find(|row| files.value(*row) != text).unwrap_or(rows.len());
        let file =
            Uuid::try_parse(text).map_err(|_| format!("'{text}' in column '{FILE_COLUMN}' names no data file"))?;
        by_file.entry(file).or_default().extend_from_slice(&rows[at..end]);
        at = end;
    }
    Ok(by_file)
}

fn column(batch: &RecordBatch, name: &str, data_type: &DataType) -> Result<ArrayRef, String> {
    let array = batch.column_by_name(name).ok_or_else(|| format!("the batch has no column '{name}'"))?;
    let array = cast(array, data_type).map_err(|error| format!("column '{name}': {error}"))?;
    match array.null_count() {
        0 => Ok(array),
        nulls => Err(format!("column '{name}' holds {nulls} NULL values")),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{StringArray, UInt64Array};

    use super::*;

    fn batch(files: Vec<Option<&str>>, rows: Vec<u64>) -> RecordBatch {
        let columns: [(&str, ArrayRef); 2] =
            [(ROW_COLUMN, Arc::new(UInt64Array::from(rows))), (FILE_COLUMN, Arc::new(StringArray::from(files)))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    #[test]
    fn rows_are_collected_by_file() {
        let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let (of_a, of_b) = (file_text(a), file_text(b));
        let files = vec![Some(of_a.as_str()), Some(&of_a), Some(&of_b), Some(&of_a)];
        let found = rows_by_file(&batch(files, vec![5, 1, 0, 9])).unwrap();
        assert_eq!(found, BTreeMap::from([(a, vec![5, 1, 9]), (b, vec![0])]));
        assert!(rows_by_file(&batch(vec![], vec![])).unwrap().is_empty());
    }

    #[test]
    fn what_names_no_rows_is_refused() {
        assert!(rows_by_file(&batch(vec![None], vec![1])).unwrap_err().contains("NULL"));
        assert!(rows_by_file(&batch(vec![Some("x")], vec![1])).unwrap_err().contains("names no data file"));
        let without = batch(vec![], vec![]).project(&[0]).unwrap();
        assert!(rows_by_file(&without).unwrap_err().contains(FILE_COLUMN));
    }
}

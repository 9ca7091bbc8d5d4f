//! Row counts, sizes and per-column bounds of data files, and how they add up.
//!
//! Bounds are exact or absent, never approximate: a bound that would be wrong (floats with NaN)
//! or large (long strings) is left out. So whatever is here may answer a query.

use std::collections::HashMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int8Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Float16Type, Float32Type, Float64Type, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;

use crate::error::{Error, Result};

/// Text and binary bounds longer than this are not kept: they would bloat the metastore for little pruning.
const MAX_BOUND_BYTES: usize = 1024;
const NULL_COUNTS: &str = "null_counts";

/// What is known about one column of some rows.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnSummary {
    /// Number of NULLs, exact.
    pub null_count: u64,
    /// Smallest value that is not NULL, exact; `None` when unknown or when there is no such value.
    pub min: Option<ScalarValue>,
    /// Largest value that is not NULL, exact; `None` when unknown or when there is no such value.
    pub max: Option<ScalarValue>,
}

/// What is known about the rows of a file, of a staged write or of a version.
///
/// The columns describe all rows that the files hold. When some of them are [deleted](Self::deleted_rows), a column's
/// `null_count` is an upper limit and its bounds enclose the rows that are left without being their bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSummary {
    /// Number of rows that a reader sees, exact.
    pub rows: u64,
    /// Rows that the files hold besides and that are deleted, exact.
    pub deleted_rows: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Number of data files.
    pub files: u64,
    /// One entry per column of the schema, in its order.
    pub columns: Vec<ColumnSummary>,
}

impl DataSummary {
    /// No rows of a schema with `columns` columns.
    pub fn empty(columns: usize) -> Self {
        let none = ColumnSummary { null_count: 0, min: None, max: None };
        Self { rows: 0, deleted_rows: 0, bytes: 0, files: 0, columns: vec![none; columns] }
    }

    /// Adds the rows of `other`, which has the same columns.
    pub fn merge(&mut self, other: &DataSummary) {
        self.merge_without(other, 0);
    }

    /// As [`merge`](Self::merge), of whose rows `deleted` more are deleted.
    pub(crate) fn merge_without(&mut self, other: &DataSummary, deleted: u64) {
        let (my_stored, their_stored) = (self.rows + self.deleted_rows, other.rows + other.deleted_rows);
        for (mine, theirs) in self.columns.iter_mut().zip(&other.columns) {
            let mine_empty = mine.null_count == my_stored;
            let theirs_empty = theirs.null_count == their_stored;
            if mine_empty {
                mine.min = theirs.min.clone();
                mine.max = theirs.max.clone();
            } else if !theirs_empty {
                mine.min = pick(mine.min.take(), theirs.min.as_ref(), std::cmp::Ordering::Less);
                mine.max = pick(mine.max.take(), theirs.max.as_ref(), std::cmp::Ordering::Greater);
            }
            mine.null_count += theirs.null_count;
        }
        self.rows += other.rows.saturating_sub(deleted);
        self.deleted_rows += other.deleted_rows + deleted;
        self.bytes += other.bytes;
        self.files += other.files;
    }

    /// The same facts in DataFusion's form: the number of rows exact, the rest exact unless rows are deleted.
    pub fn statistics(&self) -> Statistics {
        let whole = self.deleted_rows == 0;
        let known = |value: &Option<ScalarValue>| match value {
            Some(value) if whole => Precision::Exact(value.clone()),
            Some(value) => Precision::Inexact(value.clone()),
            None => Precision::Absent,
        };
        let column_statistics = self
            .columns
            .iter()
            .map(|column| {
                let mut statistics = ColumnStatistics::new_unknown();
                statistics.null_count = match column.null_count {
                    // Rows that go take no NULL with them where there is none.
                    0 => Precision::Exact(0),
                    nulls if whole => Precision::Exact(to_usize(nulls)),
                    nulls => Precision::Inexact(to_usize(nulls)),
                };
                statistics.min_value = known(&column.min);
                statistics.max_value = known(&column.max);
                statistics
            })
            .collect();
        Statistics {
            num_rows: Precision::Exact(to_usize(self.rows)),
            total_byte_size: Precision::Absent,
            column_statistics,
        }
    }
}

/// What a staged write does.
#[derive(Debug, Clone, PartialEq)]
pub struct WriteSummary {
    /// The rows that it adds. Those that repeat a key of the same write are the deleted ones.
    pub data: DataSummary,
    /// Rows that it deletes by position.
    pub deleted_rows: u64,
    /// What it does by key, if the table keeps one row per key: as of the version onto which it was sealed or last rebased.
    pub keys: Option<KeyCounts>,
}

/// What a write does to a table that keeps one row per key. Every row that came in is counted once: as inserted,
/// replacing or superseded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KeyCounts {
    /// Rows with a key that was not there.
    pub inserted: u64,
    /// Rows that took the place of stored ones.
    pub replaced: u64,
    /// Rows that were not kept: another one of the write or a stored one counts more.
    pub superseded: u64,
    /// Stored rows that were deleted by key.
    pub deleted: u64,
}

/// The counts as they are stored.
pub(crate) fn key_counts_text(counts: &KeyCounts) -> String {
    let KeyCounts { inserted, replaced, superseded, deleted } = counts;
    format!("{inserted} {replaced} {superseded} {deleted}")
}

/// The inverse of [`key_counts_text`].
pub(crate) fn parse_key_counts(text: &str) -> Option<KeyCounts> {
    let numbers: Vec<u64> = text.split(' ').map(str::parse).collect::<std::result::Result<_, _>>().ok()?;
    let [inserted, replaced, superseded, deleted] = numbers[..] else { return None };
    Some(KeyCounts { inserted, replaced, superseded, deleted })
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// The one of two known bounds that compares as `wanted` to the other; unknown if one of them is.
fn pick(a: Option<ScalarValue>, b: Option<&ScalarValue>, wanted: std::cmp::Ordering) -> Option<ScalarValue> {
    let (a, b) = (a?, b?);
    if b.partial_cmp(&a)? == wanted { Some(b.clone()) } else { Some(a) }
}

/// Whether the engine keeps bounds for columns of this type.
pub(crate) fn has_bounds(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || data_type.is_temporal() && !matches!(data_type, DataType::Interval(_) | DataType::Duration(_))
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
        )
}

fn holds_nan(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::Float16 => array.as_primitive::<Float16Type>().iter().flatten().any(|v| v.is_nan()),
        DataType::Float32 => array.as_primitive::<Float32Type>().iter().flatten().any(f32::is_nan),
        DataType::Float64 => array.as_primitive::<Float64Type>().iter().flatten().any(f64::is_nan),
        _ => false,
    }
}

/// Collects the summary of rows as they are written.
#[derive(Debug)]
pub(crate) struct SummaryBuilder {
    rows: u64,
    columns: Vec<ColumnBuilder>,
}

#[derive(Debug)]
struct ColumnBuilder {
    null_count: u64,
    bounds: Option<(MinAccumulator, MaxAccumulator)>,
}

impl SummaryBuilder {
    pub(crate) fn new(schema: &Schema) -> Self {
        let columns = schema
            .fields()
            .iter()
            .map(|field| {
                let data_type = field.data_type();
                let bounds = has_bounds(data_type)
                    .then(|| Some((MinAccumulator::try_new(data_type).ok()?, MaxAccumulator::try_new(data_type).ok()?)))
                    .flatten();
                ColumnBuilder { null_count: 0, bounds }
            })
            .collect();
        Self { rows: 0, columns }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn update(&mut self, batch: &RecordBatch) {
        self.rows += batch.num_rows() as u64;
        for (column, array) in self.columns.iter_mut().zip(batch.columns()) {
            column.null_count += array.logical_null_count() as u64;
            if let Some((min, max)) = &mut column.bounds {
                let values = std::slice::from_ref(array);
                // A column whose bounds cannot be computed simply has none.
                let ok = !holds_nan(array) && min.update_batch(values).is_ok() && max.update_batch(values).is_ok();
                if !ok {
                    column.bounds = None;
                }
            }
        }
    }

    /// The summary of all rows so far as one file of `bytes` bytes.
    pub(crate) fn finish(self, bytes: u64) -> DataSummary {
        let columns = self
            .columns
            .into_iter()
            .map(|column| {
                let (min, max) = match column.bounds {
                    Some((mut min, mut max)) => (usable(min.evaluate().ok()), usable(max.evaluate().ok())),
                    None => (None, None),
                };
                ColumnSummary { null_count: column.null_count, min, max }
            })
            .collect();
        DataSummary { rows: self.rows, deleted_rows: 0, bytes, files: 1, columns }
    }
}

fn usable(value: Option<ScalarValue>) -> Option<ScalarValue> {
    let value = value.filter(|value| !value.is_null())?;
    let length = match &value {
        ScalarValue::Utf8(Some(s)) | ScalarValue::LargeUtf8(Some(s)) | ScalarValue::Utf8View(Some(s)) => s.len(),
        ScalarValue::Binary(Some(b)) | ScalarValue::LargeBinary(Some(b)) | ScalarValue::BinaryView(Some(b)) => b.len(),
        _ => 0,
    };
    (length <= MAX_BOUND_BYTES).then_some(value)
}

/// Column summaries as bytes: an Arrow IPC stream with one batch of two rows (minimum, maximum), so
/// that every value keeps its exact type, and the NULL counts in the schema's metadata.
pub(crate) fn encode_columns(columns: &[ColumnSummary], schema: &Schema) -> Result<Vec<u8>> {
    let failed = |source| Error::Arrow { action: "cannot encode column statistics", source };
    // The first field is there so that a batch without any bounds still has a column.
    let mut fields = vec![Field::new("_", DataType::Int8, false)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(Int8Array::from(vec![0, 0]))];
    for (index, (column, field)) in columns.iter().zip(schema.fields()).enumerate() {
        if !has_bounds(field.data_type()) {
            continue;
        }
        let null = ScalarValue::try_from(field.data_type())?;
        let pair = [&column.min, &column.max].map(|bound| bound.clone().unwrap_or_else(|| null.clone()));
        arrays.push(ScalarValue::iter_to_array(pair)?);
        fields.push(Field::new(index.to_string(), field.data_type().clone(), true));
    }
    let nulls: Vec<u64> = columns.iter().map(|column| column.null_count).collect();
    let nulls = serde_json::to_string(&nulls).map_err(|e| failed(arrow::error::ArrowError::ExternalError(e.into())))?;
    let schema = Arc::new(Schema::new_with_metadata(fields, HashMap::from([(NULL_COUNTS.to_owned(), nulls)])));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &schema).map_err(failed)?;
    writer.write(&batch).map_err(failed)?;
    writer.finish().map_err(failed)?;
    drop(writer);
    Ok(bytes)
}

/// The inverse of [`encode_columns`]; the message says what is wrong with the bytes.
pub(crate) fn decode_columns(bytes: &[u8], columns: usize) -> std::result::Result<Vec<ColumnSummary>, String> {
    let reader = StreamReader::try_new(Cursor::new(bytes), None).map_err(|e| e.to_string())?;
    let nulls = reader.schema().metadata().get(NULL_COUNTS).cloned().ok_or("no NULL counts")?;
    let nulls: Vec<u64> = serde_json::from_str(&nulls).map_err(|e| e.to_string())?;
    if nulls.len() != columns {
        return Err(format!("statistics of {} columns instead of {columns}", nulls.len()));
    }
    let mut result: Vec<ColumnSummary> =
        nulls.into_iter().map(|null_count| ColumnSummary { null_count, min: None, max: None }).collect();
    for batch in reader {
        let batch = batch.map_err(|e| e.to_string())?;
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()).skip(1) {
            let index: usize = field.name().parse().map_err(|_| format!("unknown column '{}'", field.name()))?;
            let column = result.get_mut(index).ok_or_else(|| format!("unknown column {index}"))?;
            if array.len() != 2 {
                return Err(format!("column {index} has {} bounds", array.len()));
            }
            let bound = |row| ScalarValue::try_from_array(array, row).map_err(|e| e.to_string());
            column.min = Some(bound(0)?).filter(|value| !value.is_null());
            column.max = Some(bound(1)?).filter(|value| !value.is_null());
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, Int64Array, StringViewArray};

    use super::*;

    fn summary(values: Vec<Option<i64>>) -> DataSummary {
        let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
        let mut builder = SummaryBuilder::new(&schema);
        let batch = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(values))]).unwrap();
        builder.update(&batch);
        builder.finish(10)
    }

    #[test]
    fn merging_keeps_bounds_exact() {
        let mut all = DataSummary::empty(1);
        all.merge(&summary(vec![None, None]));
        assert_eq!(all.columns[0].min, None);
        all.merge(&summary(vec![Some(5), None]));
        all.merge(&summary(vec![Some(-3), Some(4)]));
        assert_eq!(all.rows, 6);
        assert_eq!(all.columns[0].null_count, 3);
        assert_eq!(all.columns[0].min, Some(ScalarValue::Int64(Some(-3))));
        assert_eq!(all.columns[0].max, Some(ScalarValue::Int64(Some(5))));
        let mut unknown = summary(vec![Some(1)]);
        unknown.columns[0].min = None;
        all.merge(&unknown);
        assert_eq!(all.columns[0].min, None, "an unknown bound stays unknown");
    }

    #[test]
    fn deleted_rows_leave_an_exact_count_and_inexact_bounds() {
        let mut all = DataSummary::empty(1);
        all.merge_without(&summary(vec![Some(1), None, Some(9), Some(5)]), 3);
        // One row is left and there is one NULL; the column still holds values.
        all.merge(&summary(vec![Some(7)]));
        assert_eq!((all.rows, all.deleted_rows), (2, 3));
        assert_eq!(all.columns[0].min, Some(ScalarValue::Int64(Some(1))), "bounds enclose what is left");
        let statistics = all.statistics();
        assert_eq!(statistics.num_rows, Precision::Exact(2));
        assert_eq!(statistics.column_statistics[0].null_count, Precision::Inexact(1));
        assert_eq!(statistics.column_statistics[0].max_value, Precision::Inexact(ScalarValue::Int64(Some(9))));
        let mut without_nulls = DataSummary::empty(1);
        without_nulls.merge_without(&summary(vec![Some(1), Some(2)]), 1);
        assert_eq!(without_nulls.statistics().column_statistics[0].null_count, Precision::Exact(0));
    }

    #[test]
    fn nan_and_long_text_have_no_bounds() {
        let schema = Schema::new(vec![
            Field::new("f", DataType::Float64, true),
            Field::new("s", DataType::Utf8View, true),
            Field::new("l", DataType::new_list(DataType::Int32, true), true),
        ]);
        let mut builder = SummaryBuilder::new(&schema);
        let long = "x".repeat(2000);
        let batch = RecordBatch::try_new(
            Arc::new(schema.clone()),
            vec![
                Arc::new(Float64Array::from(vec![1.0, f64::NAN])),
                Arc::new(StringViewArray::from(vec!["a", long.as_str()])),
                arrow::array::new_null_array(schema.field(2).data_type(), 2),
            ],
        )
        .unwrap();
        builder.update(&batch);
        let summary = builder.finish(1);
        assert_eq!(summary.columns[0].max, None);
        assert_eq!(summary.columns[1].min, Some(ScalarValue::Utf8View(Some("a".into()))));
        assert_eq!(summary.columns[1].max, None);
        assert_eq!(summary.columns[2].null_count, 2);
        let bytes = encode_columns(&summary.columns, &schema).unwrap();
        assert_eq!(decode_columns(&bytes, 3).unwrap(), summary.columns);
        assert!(decode_columns(&bytes, 2).is_err());
    }
}

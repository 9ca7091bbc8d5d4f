//! What to do with columns whose type cannot be stored (`cayenne_unsupported_type_action`).
//!
//! The decision falls when a table is created and holds for every batch after that: a column that was taken in can be
//! stored, always. So `warn` leaves the column out, like `ignore`, instead of failing later.

use std::str::FromStr;
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::error::{Error, Result};
use crate::schema_check::{check_column, check_schema};

/// What happens to a column that cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnsupportedTypeAction {
    /// The table is refused, naming the column.
    #[default]
    Error,
    /// Its values are stored as text.
    String,
    /// It is left out, and a warning says so.
    Warn,
    /// It is left out.
    Ignore,
}

impl FromStr for UnsupportedTypeAction {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "error" => Ok(Self::Error),
            "string" => Ok(Self::String),
            "warn" => Ok(Self::Warn),
            "ignore" => Ok(Self::Ignore),
            other => Err(Error::BadOption {
                option: "unsupported_type_action",
                detail: format!("'{other}' is none of error, string, warn and ignore"),
            }),
        }
    }
}

/// How rows of one schema become rows that can be stored.
#[derive(Debug, Clone, PartialEq)]
pub struct TypeConversion {
    source: SchemaRef,
    schema: SchemaRef,
    /// For each column that is stored, where it comes from.
    columns: Vec<usize>,
}

impl TypeConversion {
    /// Decides about every column of `source`. `widen_half` stores 16-bit floats with 32 bits, for readers that know no
    /// 16-bit ones; no value changes.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] for a column that `action` does not deal with, [`Error::BadSchema`] when none is left.
    pub fn new(source: SchemaRef, action: UnsupportedTypeAction, widen_half: bool) -> Result<Self> {
        let mut fields: Vec<FieldRef> = Vec::new();
        let mut columns = Vec::new();
        for (index, field) in source.fields().iter().enumerate() {
            let mut stored = Arc::clone(field);
            if widen_half {
                stored = Arc::new(field.as_ref().clone().with_data_type(without_half(field.data_type())));
            }
            if let Err(error) = check_column(&stored) {
                match action {
                    UnsupportedTypeAction::Error => return Err(error),
                    UnsupportedTypeAction::String if is_text(field.data_type()) => {
                        stored = Arc::new(Field::new(field.name(), DataType::Utf8View, field.is_nullable()));
                    }
                    UnsupportedTypeAction::String => return Err(error),
                    UnsupportedTypeAction::Warn => {
                        tracing::warn!(column = %field.name(), %error, "the column is left out of the table");
                        continue;
                    }
                    UnsupportedTypeAction::Ignore => continue,
                }
            }
            fields.push(stored);
            columns.push(index);
        }
        let schema = Arc::new(Schema::new(fields));
        check_schema(&schema)?;
        Ok(Self { source, schema, columns })
    }

    /// The schema of what is stored.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Whether rows are stored as they are.
    pub fn is_identity(&self) -> bool {
        self.source.fields() == self.schema.fields()
    }

    /// Rows of the source as rows that can be stored.
    ///
    /// # Errors
    /// [`Error::Arrow`] when a value has no text form.
    pub fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self
            .columns
            .iter()
            .zip(self.schema.fields())
            .map(|(index, field)| convert(batch.column(*index), field.data_type()))
            .collect::<std::result::Result<Vec<_>, _>>();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        columns
            .and_then(|columns| RecordBatch::try_new_with_options(self.schema(), columns, &options))
            .map_err(|source| Error::Arrow { action: "cannot convert a column to a type that can be stored", source })
    }
}

fn convert(array: &ArrayRef, data_type: &DataType) -> std::result::Result<ArrayRef, arrow::error::ArrowError> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    if *data_type != DataType::Utf8View {
        return cast(array, data_type);
    }
    let options = FormatOptions::new().with_display_error(false);
    let text = ArrayFormatter::try_new(array.as_ref(), &options)?;
    let nulls = array.logical_nulls();
    let texts = (0..array.len())
        .map(|row| match nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            true => text.value(row).try_to_string().map(Some),
            false => Ok(None),
        })
        .collect::<std::result::Result<Vec<_>, _>>()?;
    Ok(Arc::new(arrow::array::StringViewArray::from_iter(texts)))
}

/// Types whose values Arrow writes as text in full.
fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Interval(_) | DataType::Duration(_) | DataType::FixedSizeBinary(_) => true,
        DataType::RunEndEncoded(_, values) => is_text(values.data_type()) || check_column(values).is_ok(),
        DataType::Union(fields, _) => {
            fields.iter().all(|(_, field)| is_text(field.data_type()) || check_column(field).is_ok())
        }
        _ => false,
    }
}

fn without_half(data_type: &DataType) -> DataType {
    let inner = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(without_half(field.data_type())));
    match data_type {
        DataType::Float16 => DataType::Float32,
        DataType::List(item) => DataType::List(inner(item)),
        DataType::LargeList(item) => DataType::LargeList(inner(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(inner(item), *size),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::*;
    use arrow::datatypes::{Float16Type, Int32Type, IntervalMonthDayNano, IntervalUnit, TimeUnit};

    use super::*;

    fn odd_batch() -> RecordBatch {
        let runs: RunArray<Int32Type> = [Some("a"), Some("a"), None].into_iter().collect();
        let half = Float32Array::from(vec![Some(1.5), None, Some(65_504.0)]);
        let columns: Vec<(&str, ArrayRef, bool)> = vec![
            ("id", Arc::new(Int64Array::from(vec![1, 2, 3])), false),
            ("half", cast(&half, &DataType::Float16).unwrap(), true),
            ("took", Arc::new(DurationMillisecondArray::from(vec![Some(1_500), None, Some(-1)])), true),
            (
                "every",
                Arc::new(IntervalMonthDayNanoArray::from(vec![Some(IntervalMonthDayNano::new(1, 2, 3)), None, None])),
                true,
            ),
            ("hash", Arc::new(FixedSizeBinaryArray::try_from_iter([[1u8, 255], [0, 0], [9, 9]].iter()).unwrap()), true),
            ("runs", Arc::new(runs), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    #[test]
    fn columns_become_text_or_go() {
        let batch = odd_batch();
        let text = TypeConversion::new(batch.schema(), UnsupportedTypeAction::String, true).unwrap();
        let stored = text.convert(&batch).unwrap();
        assert_eq!(stored.schema(), text.schema());
        let row = |column: &str| {
            let column = stored.column_by_name(column).unwrap().as_string_view();
            column.iter().map(|text| text.map(str::to_owned)).collect::<Vec<_>>()
        };
        assert_eq!(row("took"), [Some("PT1.5S".to_owned()), None, Some("-PT0.001S".to_owned())]);
        assert_eq!(row("hash")[0], Some("01ff".to_owned()));
        assert_eq!(row("runs"), [Some("a".to_owned()), Some("a".to_owned()), None]);
        assert_eq!(row("every")[0].as_deref(), Some("1 mons 2 days 0.000000003 secs"));
        let half = cast(batch.column(1), &DataType::Float32).unwrap();
        assert_eq!(stored.column_by_name("half").unwrap(), &half);
        assert_eq!(&cast(&half, &DataType::Float16).unwrap(), batch.column(1));
        assert_eq!(batch.column(1).as_primitive::<Float16Type>().null_count(), 1);

        for action in ["warn", "ignore"] {
            let left = TypeConversion::new(batch.schema(), action.parse().unwrap(), false).unwrap();
            let stored = left.convert(&batch).unwrap();
            let names: Vec<String> = stored.schema().fields().iter().map(|field| field.name().clone()).collect();
            assert_eq!(names, ["id", "half"]);
            assert!(!left.is_identity());
        }
    }

    #[test]
    fn the_default_refuses_by_column_and_so_does_what_has_no_text() {
        let batch = odd_batch();
        let error = TypeConversion::new(batch.schema(), UnsupportedTypeAction::default(), true).unwrap_err();
        assert!(error.to_string().contains("'took'"), "{error}");
        let entries = DataType::Struct(
            vec![Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Utf8, true)].into(),
        );
        let map = DataType::Map(Arc::new(Field::new("entries", entries, false)), false);
        let schema = Arc::new(Schema::new(vec![Field::new("m", map, true)]));
        let error = TypeConversion::new(schema, UnsupportedTypeAction::String, true).unwrap_err();
        assert!(error.to_string().contains("'m'"), "{error}");
        let only = Arc::new(Schema::new(vec![Field::new("i", DataType::Interval(IntervalUnit::DayTime), true)]));
        assert!(TypeConversion::new(only, UnsupportedTypeAction::Ignore, true).is_err());
        assert!("drop".parse::<UnsupportedTypeAction>().is_err());
        let plain = Arc::new(Schema::new(vec![Field::new("t", DataType::Timestamp(TimeUnit::Second, None), true)]));
        assert!(TypeConversion::new(plain, UnsupportedTypeAction::Error, true).unwrap().is_identity());
    }
}

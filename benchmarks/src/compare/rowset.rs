//! A whole result as canonical rows, from Arrow batches or from stored text.

use super::value::{Number, Value};
use anyhow::{Context, bail, ensure};
use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeBinaryArray, FixedSizeListArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray,
};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Field,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, SchemaRef, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::sync::Arc;

/// What the comparison needs to know of a column besides its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The name in the result; shown in messages, never compared.
    pub name: String,
    /// Whether the column's type is a floating-point one.
    pub float: bool,
    /// One unit of the last digit that the column keeps (`0.01` for a scale of 2); `None` for a type
    /// without a fixed number of digits.
    pub unit: Option<f64>,
}

/// A query result in canonical form, rows in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct RowSet {
    /// One entry a column; empty when the result came as no batch at all.
    pub columns: Vec<Column>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
}

impl RowSet {
    /// Collects batches of one schema. No batch at all gives a set without columns, which equals any
    /// other set of no rows.
    pub fn from_batches(batches: &[RecordBatch]) -> anyhow::Result<Self> {
        match batches.first() {
            Some(first) => Self::from_batches_with_schema(&first.schema(), batches),
            None => Ok(Self::default()),
        }
    }

    /// As [`RowSet::from_batches`], for callers who know the schema even when no batch came.
    pub fn from_batches_with_schema(schema: &SchemaRef, batches: &[RecordBatch]) -> anyhow::Result<Self> {
        let columns = schema.fields().iter().map(|f| column_of(f)).collect();
        let mut rows: Vec<Vec<Value>> = Vec::new();
        for batch in batches {
            ensure!(
                batch.num_columns() == schema.fields().len(),
                "a batch has {} columns where its result has {}",
                batch.num_columns(),
                schema.fields().len()
            );
            let start = rows.len();
            rows.resize_with(start + batch.num_rows(), || Vec::with_capacity(batch.num_columns()));
            for (field, array) in schema.fields().iter().zip(batch.columns()) {
                let values = values_of(array).with_context(|| format!("column `{}`", field.name()))?;
                for (row, value) in rows[start..].iter_mut().zip(values) {
                    row.push(value);
                }
            }
        }
        Ok(Self { columns, rows })
    }

    /// Reads tab-separated text with a header line; `schema` gives the types of its columns (those of
    /// the result it will be compared with). The word `NULL` is a null.
    pub fn from_tsv(text: &str, schema: &SchemaRef) -> anyhow::Result<Self> {
        let mut lines = text.lines();
        let header = lines.next().context("the text has no header line")?;
        let width = header.split('\t').count();
        ensure!(
            width == schema.fields().len(),
            "the text has {width} columns, the result has {}",
            schema.fields().len()
        );
        // Text keeps the digits that were printed, not a fixed number of them.
        let columns = schema.fields().iter().map(|field| Column { unit: None, ..column_of(field) }).collect();
        let rows = lines
            .enumerate()
            .filter(|(_, line)| !line.is_empty())
            .map(|(at, line)| Self::parse_row(line, schema).with_context(|| format!("line {} of the text", at + 2)))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self { columns, rows })
    }

    fn parse_row(line: &str, schema: &SchemaRef) -> anyhow::Result<Vec<Value>> {
        let cells: Vec<&str> = line.split('\t').collect();
        ensure!(cells.len() == schema.fields().len(), "{} cells instead of {}", cells.len(), schema.fields().len());
        cells.iter().zip(schema.fields()).map(|(cell, field)| parse_cell(cell, field)).collect()
    }

    /// The rows as one line each, for messages.
    pub fn format_row(row: &[Value]) -> String {
        let cells: Vec<String> = row.iter().map(Value::to_string).collect();
        cells.join(" | ")
    }
}

fn parse_cell(cell: &str, field: &Field) -> anyhow::Result<Value> {
    if cell == "NULL" {
        return Ok(Value::Null);
    }
    let bad = || format!("`{cell}` is no value of column `{}` ({})", field.name(), field.data_type());
    Ok(match field.data_type() {
        kind if kind.is_floating() => Value::Float(cell.parse().with_context(bad)?),
        kind if kind.is_numeric() => match Number::parse(cell) {
            Some(number) => Value::Exact(number),
            // Engines print doubles with an exponent where a decimal has none.
            None => Value::Float(cell.parse().with_context(bad)?),
        },
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Value::Text(cell.to_owned()),
        DataType::Dictionary(_, values) => {
            let plain = Field::new(field.name(), values.as_ref().clone(), true);
            parse_cell(cell, &plain)?
        }
        DataType::Boolean => Value::Boolean(cell.parse().with_context(bad)?),
        kind if kind.is_temporal() => Value::Temporal(cell.to_owned()),
        _ => bail!("{}", bad()),
    })
}

fn column_of(field: &Field) -> Column {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let unit = match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => Some(10f64.powi(-i32::from(*scale))),
        _ => None,
    };
    Column { name: field.name().clone(), float: data_type.is_floating(), unit }
}

/// All values of one array, in canonical form.
fn values_of(array: &ArrayRef) -> anyhow::Result<Vec<Value>> {
    /// Maps the non-null positions of a typed array.
    macro_rules! each {
        ($typed:expr, |$v:ident| $value:expr) => {
            $typed.iter().map(|cell| cell.map_or(Value::Null, |$v| $value)).collect()
        };
    }
    macro_rules! integers {
        ($type:ty) => {
            each!(array.as_primitive::<$type>(), |v| Value::Exact(Number::from(i128::from(v))))
        };
    }
    Ok(match array.data_type() {
        DataType::Null => vec![Value::Null; array.len()],
        DataType::Boolean => each!(array.as_boolean(), |v| Value::Boolean(v)),
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Float16 => each!(array.as_primitive::<Float16Type>(), |v| Value::Float(f64::from(v))),
        DataType::Float32 => each!(array.as_primitive::<Float32Type>(), |v| Value::Float(f64::from(v))),
        DataType::Float64 => each!(array.as_primitive::<Float64Type>(), |v| Value::Float(v)),
        DataType::Decimal32(p, s) => decimals::<Decimal32Type>(array, *p, *s)?,
        DataType::Decimal64(p, s) => decimals::<Decimal64Type>(array, *p, *s)?,
        DataType::Decimal128(p, s) => decimals::<Decimal128Type>(array, *p, *s)?,
        DataType::Decimal256(p, s) => decimals::<Decimal256Type>(array, *p, *s)?,
        DataType::Utf8 => each!(array.as_string::<i32>(), |v| Value::Text(v.to_owned())),
        DataType::LargeUtf8 => each!(array.as_string::<i64>(), |v| Value::Text(v.to_owned())),
        DataType::Utf8View => each!(array.as_string_view(), |v| Value::Text(v.to_owned())),
        DataType::Binary => each!(array.as_binary::<i32>(), |v| Value::Bytes(v.to_vec())),
        DataType::LargeBinary => each!(array.as_binary::<i64>(), |v| Value::Bytes(v.to_vec())),
        DataType::BinaryView => each!(array.as_binary_view(), |v| Value::Bytes(v.to_vec())),
        DataType::FixedSizeBinary(_) => {
            let typed = array
                .as_any()
                .downcast_ref::<FixedSizeBinaryArray>()
                .context("a fixed-size binary array has another class")?;
            each!(typed, |v| Value::Bytes(v.to_vec()))
        }
        DataType::Timestamp(unit, zone) => timestamps(array, *unit, zone.is_some())?,
        DataType::Date64 => values_of(&cast(array, &DataType::Date32)?)?,
        DataType::Dictionary(_, values) => values_of(&cast(array, values)?)?,
        DataType::RunEndEncoded(_, values) => values_of(&cast(array, values.data_type())?)?,
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(_, _)
        | DataType::Map(_, _) => lists(array)?,
        DataType::Struct(fields) => {
            let typed = array.as_struct();
            let columns = typed.columns().iter().map(values_of).collect::<anyhow::Result<Vec<_>>>()?;
            (0..array.len())
                .map(|row| {
                    if array.is_null(row) {
                        return Value::Null;
                    }
                    let cells = fields.iter().zip(&columns);
                    Value::Struct(cells.map(|(field, column)| (field.name().clone(), column[row].clone())).collect())
                })
                .collect()
        }
        DataType::Date32
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Interval(_) => printed(array, Value::Temporal)?,
        DataType::Union(_, _) => printed(array, Value::Text)?,
    })
}

fn decimals<T: DecimalType>(array: &ArrayRef, precision: u8, scale: i8) -> anyhow::Result<Vec<Value>> {
    array
        .as_primitive::<T>()
        .iter()
        .map(|cell| {
            let Some(unscaled) = cell else {
                return Ok(Value::Null);
            };
            let text = T::format_decimal(unscaled, precision, scale);
            let number = Number::parse(&text).with_context(|| format!("decimal `{text}` has no digits"))?;
            Ok(Value::Exact(number))
        })
        .collect()
}

/// A timestamp with a zone is an instant: its stored value is UTC, whatever zone it is shown in.
fn timestamps(array: &ArrayRef, unit: TimeUnit, zoned: bool) -> anyhow::Result<Vec<Value>> {
    macro_rules! without_zone {
        ($class:ty, $type:ty) => {{
            let typed: $class = array.as_primitive::<$type>().clone();
            Arc::new(typed.with_timezone_opt(None::<Arc<str>>)) as ArrayRef
        }};
    }
    let plain = match unit {
        TimeUnit::Second => without_zone!(TimestampSecondArray, TimestampSecondType),
        TimeUnit::Millisecond => without_zone!(TimestampMillisecondArray, TimestampMillisecondType),
        TimeUnit::Microsecond => without_zone!(TimestampMicrosecondArray, TimestampMicrosecondType),
        TimeUnit::Nanosecond => without_zone!(TimestampNanosecondArray, TimestampNanosecondType),
    };
    let suffix = if zoned { "Z" } else { "" };
    printed(&plain, |text| Value::Temporal(text + suffix))
}

fn lists(array: &ArrayRef) -> anyhow::Result<Vec<Value>> {
    let item = |row: usize| -> anyhow::Result<ArrayRef> {
        Ok(match array.data_type() {
            DataType::List(_) => array.as_list::<i32>().value(row),
            DataType::LargeList(_) => array.as_list::<i64>().value(row),
            DataType::ListView(_) => array.as_list_view::<i32>().value(row),
            DataType::LargeListView(_) => array.as_list_view::<i64>().value(row),
            DataType::FixedSizeList(_, _) => array
                .as_any()
                .downcast_ref::<FixedSizeListArray>()
                .context("a fixed-size list array has another class")?
                .value(row),
            DataType::Map(_, _) => Arc::new(array.as_map().value(row)),
            other => bail!("{other} is no list"),
        })
    };
    (0..array.len())
        .map(|row| if array.is_null(row) { Ok(Value::Null) } else { Ok(Value::List(values_of(&item(row)?)?)) })
        .collect()
}

/// The values as Arrow prints them; the print of a temporal value does not depend on its unit.
fn printed(array: &ArrayRef, wrap: impl Fn(String) -> Value) -> anyhow::Result<Vec<Value>> {
    let formatter = ArrayFormatter::try_new(array, &FormatOptions::new())?;
    (0..array.len())
        .map(|row| {
            if array.is_null(row) {
                return Ok(Value::Null);
            }
            // A date beyond the calendar of the formatter still has its number.
            let text = formatter.value(row).try_to_string().or_else(|error| match array.data_type() {
                DataType::Date32 => Ok(format!("day {}", array.as_primitive::<Date32Type>().value(row))),
                _ => Err(error),
            })?;
            Ok(wrap(text))
        })
        .collect()
}

//! Turning the values of a column into coordinates: the range between the smallest and the largest value is
//! stretched over all of `u32`, so that columns of very different ranges weigh the same on the curve.
//!
//! Coordinates follow the order of the values. Nothing else depends on them: they only choose where a row is put.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Schema};
use arrow::error::{ArrowError, Result as ArrowResult};
use datafusion::common::ScalarValue;

use crate::stats::ColumnSummary;

const LARGEST: u32 = u32::MAX;

/// How one column is stretched. NULL is 0, with the smallest value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Scale {
    Boolean,
    Integer(Range),
    /// Bounds by their bits, because floats are not `Eq`.
    Float {
        min: u64,
        max: u64,
    },
    /// The eight bytes after those that all values begin with.
    Text {
        skip: usize,
        range: Range,
    },
}

/// Inclusive bounds. Decimals need 128 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    min: i128,
    max: i128,
}

impl Range {
    fn coordinate(self, value: i128) -> u32 {
        let (mut span, mut offset) = (
            self.max.wrapping_sub(self.min).cast_unsigned(),
            value.clamp(self.min, self.max).wrapping_sub(self.min).cast_unsigned(),
        );
        if span == 0 {
            return 0;
        }
        // The product below must fit 128 bits.
        let surplus = (128 - span.leading_zeros()).saturating_sub(96);
        (span, offset) = (span >> surplus, offset >> surplus);
        u32::try_from(offset * u128::from(LARGEST) / span).unwrap_or(LARGEST)
    }
}

/// Whether rows can be clustered by a column of this type.
pub(crate) fn can_scale(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal256(_, _) => false,
        DataType::Dictionary(_, value) => can_scale(value),
        DataType::Interval(_) | DataType::Duration(_) => false,
        other => {
            other.is_numeric()
                || other.is_temporal()
                || other.is_string()
                || other.is_binary()
                || *other == DataType::Boolean
        }
    }
}

impl Scale {
    /// The scale of column `index` over rows whose bounds are `summary`. Without bounds the type's own are taken.
    pub(crate) fn new(schema: &Schema, index: usize, summary: &ColumnSummary) -> ArrowResult<Self> {
        let bounds = summary.min.as_ref().zip(summary.max.as_ref());
        let data_type = match schema.field(index).data_type() {
            DataType::Dictionary(_, value) => value.as_ref(),
            other => other,
        };
        Ok(match data_type {
            DataType::Boolean => Scale::Boolean,
            DataType::Float16 | DataType::Float32 | DataType::Float64 => {
                let (min, max) = match bounds {
                    Some((min, max)) => (first(floats(&min.to_array()?)?)?, first(floats(&max.to_array()?)?)?),
                    None => (f64::MIN, f64::MAX),
                };
                let (min, max) = (min.clamp(f64::MIN, f64::MAX), max.clamp(f64::MIN, f64::MAX));
                Scale::Float { min: min.to_bits(), max: max.to_bits() }
            }
            other if other.is_string() || other.is_binary() => {
                match bounds.and_then(|(a, b)| Some((bytes_of(a)?, bytes_of(b)?))) {
                    Some((min, max)) => {
                        let skip = min.iter().zip(&max).take_while(|(a, b)| a == b).count();
                        let range = Range { min: prefix(&min, skip), max: prefix(&max, skip) };
                        Scale::Text { skip, range }
                    }
                    None => Scale::Text { skip: 0, range: Range { min: 0, max: i128::from(u64::MAX) } },
                }
            }
            other => {
                let range = match bounds {
                    Some((min, max)) => {
                        Range { min: first(integers(&min.to_array()?)?)?, max: first(integers(&max.to_array()?)?)? }
                    }
                    None => type_range(other),
                };
                Scale::Integer(range)
            }
        })
    }

    /// One coordinate for each value.
    pub(crate) fn coordinates(&self, array: &ArrayRef) -> ArrowResult<Vec<u32>> {
        let plain = match array.data_type() {
            DataType::Dictionary(_, value) => cast(array, value)?,
            _ => ArrayRef::clone(array),
        };
        Ok(match self {
            Scale::Boolean => {
                plain.as_boolean().iter().map(|value| if value == Some(true) { LARGEST } else { 0 }).collect()
            }
            Scale::Integer(range) => {
                integers(&plain)?.into_iter().map(|value| value.map_or(0, |value| range.coordinate(value))).collect()
            }
            Scale::Float { min, max } => {
                let (min, max) = (f64::from_bits(*min), f64::from_bits(*max));
                floats(&plain)?.into_iter().map(|value| value.map_or(0, |value| float(value, min, max))).collect()
            }
            Scale::Text { skip, range } => {
                let binary = match plain.data_type() {
                    DataType::Utf8 | DataType::Utf8View | DataType::Binary => cast(&plain, &DataType::BinaryView)?,
                    DataType::BinaryView => plain,
                    // Of these one value may be longer than a view can tell.
                    _ => cast(&plain, &DataType::LargeBinary)?,
                };
                let coordinate = |value: Option<&[u8]>| value.map_or(0, |value| range.coordinate(prefix(value, *skip)));
                match binary.as_binary_view_opt() {
                    Some(views) => views.iter().map(coordinate).collect(),
                    None => binary.as_binary::<i64>().iter().map(coordinate).collect(),
                }
            }
        })
    }
}

/// The value of a bound.
fn first<T>(values: Vec<Option<T>>) -> ArrowResult<T> {
    values.into_iter().next().flatten().ok_or_else(|| ArrowError::ComputeError("a bound without a value".to_owned()))
}

/// The values of a numeric or temporal array that is not of floats.
fn integers(array: &ArrayRef) -> ArrowResult<Vec<Option<i128>>> {
    trait ToI128 {
        fn to_i128(self) -> i128;
    }
    macro_rules! to_i128 {
        ($($native:ty),*) => { $(impl ToI128 for $native {
            fn to_i128(self) -> i128 { i128::from(self) }
        })* };
    }
    to_i128!(i8, i16, i32, i64, i128, u8, u16, u32, u64);
    macro_rules! collect {
        ($($kind:ty => $pattern:pat),* $(,)?) => {
            match array.data_type() {
                $($pattern => Ok(array.as_primitive::<$kind>().iter().map(|value| value.map(ToI128::to_i128)).collect()),)*
                other => Err(ArrowError::NotYetImplemented(format!("clustering by values of type {other}"))),
            }
        };
    }
    use arrow::datatypes::*;
    collect! {
        Int8Type => DataType::Int8,
        Int16Type => DataType::Int16,
        Int32Type => DataType::Int32,
        Int64Type => DataType::Int64,
        UInt8Type => DataType::UInt8,
        UInt16Type => DataType::UInt16,
        UInt32Type => DataType::UInt32,
        UInt64Type => DataType::UInt64,
        Decimal32Type => DataType::Decimal32(_, _),
        Decimal64Type => DataType::Decimal64(_, _),
        Decimal128Type => DataType::Decimal128(_, _),
        Date32Type => DataType::Date32,
        Date64Type => DataType::Date64,
        Time32SecondType => DataType::Time32(TimeUnit::Second),
        Time32MillisecondType => DataType::Time32(TimeUnit::Millisecond),
        Time64MicrosecondType => DataType::Time64(TimeUnit::Microsecond),
        Time64NanosecondType => DataType::Time64(TimeUnit::Nanosecond),
        TimestampSecondType => DataType::Timestamp(TimeUnit::Second, _),
        TimestampMillisecondType => DataType::Timestamp(TimeUnit::Millisecond, _),
        TimestampMicrosecondType => DataType::Timestamp(TimeUnit::Microsecond, _),
        TimestampNanosecondType => DataType::Timestamp(TimeUnit::Nanosecond, _),
    }
}

/// All that an integer of this type's width can be.
fn type_range(data_type: &DataType) -> Range {
    let signed = |bits: u32| Range { min: i128::MIN >> (128 - bits), max: i128::MAX >> (128 - bits) };
    match data_type {
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            let bits = data_type.primitive_width().map_or(64, |bytes| bytes * 8);
            Range { min: 0, max: (1i128 << bits) - 1 }
        }
        other => signed(u32::try_from(other.primitive_width().unwrap_or(16) * 8).unwrap_or(128)),
    }
}

fn floats(array: &ArrayRef) -> ArrowResult<Vec<Option<f64>>> {
    Ok(cast(array, &DataType::Float64)?.as_primitive::<Float64Type>().iter().collect())
}

/// NaN comes last, as it does when sorting.
fn float(value: f64, min: f64, max: f64) -> u32 {
    if value.is_nan() || value >= max {
        return if max > min || value.is_nan() { LARGEST } else { 0 };
    }
    // Halved, so that the span of all floats is finite. The cast saturates.
    let share = (value / 2.0 - min / 2.0) / (max / 2.0 - min / 2.0);
    (share * f64::from(LARGEST)) as u32
}

fn bytes_of(value: &ScalarValue) -> Option<Vec<u8>> {
    Some(match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_ref()?.clone().into_bytes()
        }
        ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes) => {
            bytes.as_ref()?.clone()
        }
        _ => return None,
    })
}

/// Eight bytes as a number, so that numbers compare as texts do.
fn prefix(text: &[u8], skip: usize) -> i128 {
    let mut bytes = [0; 8];
    let rest = text.get(skip..).unwrap_or_default();
    let length = rest.len().min(8);
    bytes[..length].copy_from_slice(&rest[..length]);
    i128::from(u64::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::*;
    use arrow::datatypes::{Field, TimeUnit};
    use datafusion::common::utils::compare_rows;
    use proptest::prelude::*;

    use super::*;
    use crate::stats::SummaryBuilder;

    /// Coordinates of an array's own values, with or without bounds.
    fn scaled(array: &ArrayRef, with_bounds: bool) -> Vec<u32> {
        let schema = Schema::new(vec![Field::new("c", array.data_type().clone(), true)]);
        assert!(can_scale(array.data_type()));
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::clone(array)]).unwrap();
        let mut builder = SummaryBuilder::new(&schema);
        builder.update(&batch);
        let mut summary = builder.finish(1).columns.remove(0);
        if !with_bounds {
            (summary.min, summary.max) = (None, None);
        }
        Scale::new(&schema, 0, &summary).unwrap().coordinates(array).unwrap()
    }

    /// The order of the coordinates is that of the values, NULL first.
    fn check_order(array: &ArrayRef) {
        let options = arrow::compute::SortOptions { descending: false, nulls_first: true };
        let values: Vec<Vec<ScalarValue>> =
            (0..array.len()).map(|row| vec![ScalarValue::try_from_array(array, row).unwrap()]).collect();
        for with_bounds in [true, false] {
            let coordinates = scaled(array, with_bounds);
            assert_eq!(coordinates.len(), array.len());
            for (a, x) in values.iter().enumerate() {
                for (b, y) in values.iter().enumerate() {
                    if compare_rows(x, y, &[options]).unwrap().is_lt() {
                        assert!(coordinates[a] <= coordinates[b], "{x:?} before {y:?}, bounds: {with_bounds}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn coordinates_follow_the_values(
            long: Vec<Option<i64>>,
            double: Vec<Option<f64>>,
            text: Vec<Option<String>>,
            wide in prop::collection::vec(prop::option::of(-(10i128.pow(37))..10i128.pow(37)), 0..20),
            tiny: Vec<Option<u8>>,
        ) {
            check_order(&(Arc::new(Int64Array::from(long.clone())) as ArrayRef));
            let days: Date32Array = long.iter().map(|value| value.map(|value| (value >> 32) as i32)).collect();
            check_order(&(Arc::new(days) as ArrayRef));
            check_order(&(Arc::new(TimestampNanosecondArray::from(long).with_timezone("+01:00")) as ArrayRef));
            check_order(&(Arc::new(Float64Array::from(double)) as ArrayRef));
            check_order(&(Arc::new(UInt8Array::from(tiny.clone())) as ArrayRef));
            let flags: BooleanArray = tiny.iter().map(|value| value.map(|value| value > 99)).collect();
            check_order(&(Arc::new(flags) as ArrayRef));
            let bytes: LargeBinaryArray = text.iter().map(|value| value.as_ref().map(String::as_bytes)).collect();
            check_order(&(Arc::new(bytes) as ArrayRef));
            check_order(&(Arc::new(StringViewArray::from_iter(text)) as ArrayRef));
            let wide = Decimal128Array::from(wide).with_precision_and_scale(38, 4).unwrap();
            check_order(&(Arc::new(wide) as ArrayRef));
        }
    }

    #[test]
    fn the_range_is_used_in_full() {
        let integers: ArrayRef = Arc::new(Int64Array::from(vec![1_000_000, 1_000_001, 1_000_002]));
        assert_eq!(scaled(&integers, true), [0, u32::MAX / 2, u32::MAX]);
        let extremes: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, 0, i64::MAX]));
        assert_eq!(scaled(&extremes, true)[2], u32::MAX);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![f64::MIN, 0.0, f64::MAX, f64::INFINITY]));
        assert_eq!(scaled(&floats, true), [0, u32::MAX / 2, u32::MAX, u32::MAX]);
        let not_a_number: ArrayRef = Arc::new(Float64Array::from(vec![Some(f64::NAN), Some(1.0), None]));
        assert_eq!(scaled(&not_a_number, true)[0], u32::MAX);
        let same: ArrayRef = Arc::new(Float64Array::from(vec![7.0, 7.0]));
        assert_eq!(scaled(&same, true), [0, 0]);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["https://a", "https://m", "https://z"]));
        let coordinates = scaled(&texts, true);
        assert!(coordinates[0] == 0 && coordinates[1] > 1 << 30 && coordinates[2] == u32::MAX, "{coordinates:?}");
    }

    #[test]
    fn what_has_no_order_cannot_be_scaled() {
        for data_type in [
            DataType::Decimal256(40, 2),
            DataType::Duration(TimeUnit::Second),
            DataType::new_list(DataType::Int64, true),
            DataType::Null,
        ] {
            assert!(!can_scale(&data_type), "{data_type}");
        }
    }
}

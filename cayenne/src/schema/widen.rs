//! Which types a column can be changed to without losing anything.

use arrow::datatypes::{DataType, TimeUnit};

/// How safe a change of type is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Widening {
    /// Every value of the old type is a value of the new one.
    Always,
    /// Values near the ends of the old type have no place in the new one, so the rows decide.
    IfInRange,
}

/// Whether values of type `from` keep their meaning, their order and their equality as type `to`.
pub(crate) fn widening(from: &DataType, to: &DataType) -> Option<Widening> {
    use DataType::*;
    let always = |fits: bool| fits.then_some(Widening::Always);
    match (from, to) {
        (from, to) if from == to => None,
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => always(true),
        (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64) => always(true),
        (UInt16, UInt32 | UInt64 | Int32 | Int64) | (UInt32, UInt64 | Int64) => always(true),
        (Float16, Float32 | Float64) | (Float32, Float64) => always(true),
        (Utf8, LargeUtf8 | Utf8View) | (Binary, LargeBinary | BinaryView) => always(true),
        (Timestamp(old, zone), Timestamp(new, new_zone)) if zone == new_zone && finer(*new, *old) => {
            Some(Widening::IfInRange)
        }
        (Time32(old), Time32(new) | Time64(new)) | (Time64(old), Time64(new)) => always(finer(*new, *old)),
        (from, to) => {
            let ((precision, scale), (new_precision, new_scale)) = (digits(from)?, digits(to)?);
            let before_point = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
            let fits = new_scale >= scale
                && before_point(new_precision, new_scale) >= before_point(precision, scale)
                && to.primitive_width() >= from.primitive_width();
            always(fits)
        }
    }
}

fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

fn finer(new: TimeUnit, old: TimeUnit) -> bool {
    let rank = |unit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    rank(new) > rank(old)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::*;
    use arrow::compute::cast;

    use super::*;

    fn types() -> Vec<DataType> {
        let mut types = vec![
            DataType::Boolean,
            DataType::Int8,
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::UInt8,
            DataType::UInt16,
            DataType::UInt32,
            DataType::UInt64,
            DataType::Float16,
            DataType::Float32,
            DataType::Float64,
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::LargeBinary,
            DataType::BinaryView,
            DataType::Date32,
            DataType::Date64,
            DataType::Time32(TimeUnit::Second),
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Time64(TimeUnit::Microsecond),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Decimal32(9, 2),
            DataType::Decimal64(18, 2),
            DataType::Decimal128(20, 2),
            DataType::Decimal128(20, 4),
            DataType::Decimal128(38, 4),
            DataType::Decimal256(76, 40),
        ];
        for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
            types.push(DataType::Timestamp(unit, None));
            types.push(DataType::Timestamp(unit, Some("+02:00".into())));
        }
        types
    }

    /// Extreme values of a type, as far as they can be made from texts or integers.
    fn extremes(data_type: &DataType) -> ArrayRef {
        let from_integers = |values: Vec<i64>| cast(&Int64Array::from(values), data_type).unwrap();
        match data_type {
            DataType::Boolean => Arc::new(BooleanArray::from(vec![true, false])),
            DataType::Int8 => from_integers(vec![-128, 127]),
            DataType::Int16 => from_integers(vec![-32_768, 32_767]),
            DataType::Int32 | DataType::Date32 => from_integers(vec![i64::from(i32::MIN), i64::from(i32::MAX)]),
            DataType::UInt8 => from_integers(vec![0, 255]),
            DataType::UInt16 => from_integers(vec![0, 65_535]),
            DataType::UInt32 => from_integers(vec![0, i64::from(u32::MAX)]),
            DataType::UInt64 => Arc::new(UInt64Array::from(vec![0, u64::MAX])),
            DataType::Float16 | DataType::Float32 => {
                cast(&Float32Array::from(vec![-65_504.0, 0.000_061, f32::INFINITY]), data_type).unwrap()
            }
            DataType::Float64 => Arc::new(Float64Array::from(vec![f64::MIN, f64::EPSILON])),
            DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
                let (precision, scale) = digits(data_type).unwrap();
                let mut text = "9".repeat(usize::from(precision));
                text.insert(text.len() - usize::try_from(scale).unwrap(), '.');
                cast(&StringArray::from(vec![text.clone(), format!("-{text}")]), data_type).unwrap()
            }
            other if other.is_string() || other.is_binary() => {
                cast(&StringArray::from(vec!["", "ü", "zz"]), data_type).unwrap()
            }
            other => {
                let seconds = if matches!(other, DataType::Time32(_)) { DataType::Int32 } else { DataType::Int64 };
                cast(&cast(&Int64Array::from(vec![0, 1, 86_399]), &seconds).unwrap(), other).unwrap()
            }
        }
    }

    #[test]
    fn what_is_allowed_keeps_values_and_order() {
        let mut allowed = 0;
        for from in types() {
            for to in types() {
                if widening(&from, &to).is_none() {
                    continue;
                }
                allowed += 1;
                let old = extremes(&from);
                let new = cast(&old, &to).unwrap();
                assert_eq!(new.null_count(), 0, "{from} to {to}");
                assert_eq!(&cast(&new, &from).unwrap(), &old, "{from} to {to} and back");
                let order = |array: &ArrayRef| arrow::compute::sort_to_indices(array, None, None).unwrap();
                assert_eq!(order(&old), order(&new), "{from} to {to}");
            }
        }
        assert!(allowed > 50, "{allowed} pairs");
    }

    #[test]
    fn what_loses_or_changes_values_is_not() {
        let zone = |zone: &str| DataType::Timestamp(TimeUnit::Nanosecond, Some(zone.into()));
        for (from, to) in [
            (DataType::Int64, DataType::Int32),
            (DataType::Int64, DataType::Float64),
            (DataType::UInt64, DataType::Int64),
            (DataType::Int32, DataType::Utf8),
            (DataType::Float64, DataType::Float32),
            (DataType::LargeUtf8, DataType::Utf8),
            (DataType::Date32, DataType::Timestamp(TimeUnit::Second, None)),
            (DataType::Decimal128(20, 4), DataType::Decimal128(20, 6)),
            (DataType::Decimal128(20, 4), DataType::Decimal128(24, 2)),
            (DataType::Decimal128(9, 4), DataType::Decimal64(18, 4)),
            (zone("UTC"), zone("+01:00")),
            (DataType::Timestamp(TimeUnit::Nanosecond, None), DataType::Timestamp(TimeUnit::Microsecond, None)),
            (DataType::Int32, DataType::Int32),
        ] {
            assert_eq!(widening(&from, &to), None, "{from} to {to}");
        }
    }
}

//! Values that the file format cannot hold although their type can be stored: instants outside the
//! years -9999 to 9999 and times of day outside one day. They are refused before anything is written.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::{cast, max, min};
use arrow::datatypes::{DataType, Int64Type, TimeUnit};

/// First and last second that can be stored, since 1970.
const FIRST_SECOND: i64 = -377_705_023_201;
const LAST_SECOND: i64 = 253_402_207_200;

/// What is wrong with a value of the array, if anything is.
pub(crate) fn out_of_range(array: &ArrayRef) -> Option<String> {
    match array.data_type() {
        DataType::Timestamp(unit, _) => {
            let scale = per_second(*unit);
            let (low, high) = match unit {
                // All of them but one are inside.
                TimeUnit::Nanosecond => (i64::MIN + 1, i64::MAX),
                _ => (FIRST_SECOND * scale, LAST_SECOND * scale),
            };
            outside(array, low, high)
        }
        DataType::Time32(unit) | DataType::Time64(unit) => outside(array, 0, 86_400 * per_second(*unit) - 1),
        DataType::Struct(_) => array.as_struct().columns().iter().find_map(out_of_range),
        DataType::List(_) => out_of_range(array.as_list::<i32>().values()),
        DataType::LargeList(_) => out_of_range(array.as_list::<i64>().values()),
        DataType::FixedSizeList(_, _) => out_of_range(array.as_fixed_size_list().values()),
        _ => None,
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn outside(array: &ArrayRef, low: i64, high: i64) -> Option<String> {
    let integers = match array.data_type() {
        DataType::Time32(_) => cast(array, &DataType::Int32).and_then(|array| cast(&array, &DataType::Int64)),
        _ => cast(array, &DataType::Int64),
    };
    let integers: Int64Array = match integers {
        Ok(integers) => integers.as_primitive::<Int64Type>().clone(),
        Err(error) => return Some(error.to_string()),
    };
    let (smallest, largest) = (min(&integers)?, max(&integers)?);
    let bad = if smallest < low {
        smallest
    } else if largest > high {
        largest
    } else {
        return None;
    };
    let data_type = array.data_type();
    let span = match data_type {
        DataType::Timestamp(TimeUnit::Nanosecond, _) => String::new(),
        DataType::Timestamp(..) => " (-9999-01-02 01:59:59 to 9999-12-30 22:00:00, UTC)".to_owned(),
        _ => " (one day)".to_owned(),
    };
    Some(format!("the value {bad} of type {data_type} is not between {low} and {high}{span}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Time32SecondArray, TimestampMicrosecondArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn finds_values_at_both_ends() {
        let micros =
            |value: i64| -> ArrayRef { Arc::new(TimestampMicrosecondArray::from(vec![None, Some(0), Some(value)])) };
        assert!(out_of_range(&micros(i64::MAX)).is_some());
        assert!(out_of_range(&micros(i64::MIN)).is_some());
        assert!(out_of_range(&micros(LAST_SECOND * 1_000_000)).is_none());
        let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![i64::MAX]));
        assert!(out_of_range(&nanos).is_none());
        let time = |value: i32| -> ArrayRef { Arc::new(Time32SecondArray::from(vec![value])) };
        assert!(out_of_range(&time(86_400)).is_some());
        assert!(out_of_range(&time(86_399)).is_none());
        assert!(out_of_range(&time(-1)).is_some());
    }
}

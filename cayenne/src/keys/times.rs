//! Values of a time column as numbers in the order of time.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::cast;
use arrow::datatypes::{DataType, UInt64Type};

use crate::error::{Error, Result};

/// A list of times; NULL is older than any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    values: Vec<i64>,
    known: Vec<bool>,
}

impl Times {
    pub(crate) fn push(&mut self, time: Option<i64>) {
        self.values.push(time.unwrap_or_default());
        self.known.push(time.is_some());
    }

    pub(crate) fn get(&self, index: usize) -> Option<i64> {
        self.known[index].then(|| self.values[index])
    }

    pub(crate) fn set(&mut self, index: usize, time: Option<i64>) {
        self.values[index] = time.unwrap_or_default();
        self.known[index] = time.is_some();
    }

    /// Bytes in memory.
    pub(crate) fn memory(&self) -> usize {
        self.values.capacity() * size_of::<i64>() + self.known.capacity()
    }
}

/// The times of a column of integers, dates or timestamps. Only their order means something.
pub(crate) fn times_of(column: &ArrayRef) -> Result<Int64Array> {
    let failed = |source| Error::Arrow { action: "cannot read the time column", source };
    if column.data_type() == &DataType::UInt64 {
        // Half of the range does not fit; turning over the highest bit keeps the order.
        return Ok(column.as_primitive::<UInt64Type>().unary(|value| (value ^ (1 << 63)) as i64));
    }
    let numbers = match column.data_type() {
        // Date32 casts to a 32-bit integer only.
        DataType::Date32 => &cast(column, &DataType::Int32).map_err(failed)?,
        _ => column,
    };
    Ok(cast(numbers, &DataType::Int64).map_err(failed)?.as_primitive().clone())
}

/// The time of one row.
pub(crate) fn time_at(times: &Int64Array, row: usize) -> Option<i64> {
    times.is_valid(row).then(|| times.value(row))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        Date32Array, Date64Array, Int8Array, TimestampMicrosecondArray, TimestampSecondArray, UInt32Array, UInt64Array,
    };

    use super::*;

    #[test]
    fn every_type_keeps_its_order_and_null_is_the_oldest() {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::from(vec![None, Some(i8::MIN), Some(0), Some(i8::MAX)])),
            Arc::new(UInt32Array::from(vec![None, Some(0), Some(1), Some(u32::MAX)])),
            Arc::new(UInt64Array::from(vec![None, Some(0), Some(1 << 63), Some(u64::MAX)])),
            Arc::new(Int64Array::from(vec![None, Some(i64::MIN), Some(-1), Some(i64::MAX)])),
            Arc::new(Date32Array::from(vec![None, Some(-1), Some(0), Some(20_000)])),
            Arc::new(Date64Array::from(vec![None, Some(-1), Some(0), Some(86_400_000)])),
            Arc::new(TimestampSecondArray::from(vec![None, Some(i64::MIN), Some(0), Some(5)])),
            Arc::new(TimestampMicrosecondArray::from(vec![None, Some(-7), Some(0), Some(5)]).with_timezone("UTC")),
        ];
        for column in columns {
            let times = times_of(&column).unwrap();
            let all: Vec<Option<i64>> = (0..4).map(|row| time_at(&times, row)).collect();
            assert_eq!(all[0], None);
            assert!(all.is_sorted_by(|a, b| a < b), "{:?}: {all:?}", column.data_type());
        }
    }
}

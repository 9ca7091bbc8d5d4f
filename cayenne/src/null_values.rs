//! What stands in the place of a NULL.
//!
//! Arrow leaves that open: it is whatever was there when the row became NULL, such as the start value of an aggregate. The
//! encoder of decimals narrows all values, those too, and fails on one that is wider than the column's precision.
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;

/// The rows, with zeros in the place of NULLs where it matters.
pub(crate) fn zeros_under_nulls(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    let matters = |column: &ArrayRef| column.null_count() > 0 && column.data_type().is_decimal();
    if !batch.columns().iter().any(matters) {
        return Ok(batch);
    }
    let columns =
        batch.columns().iter().map(|column| if matters(column) { zeroed(column) } else { Ok(Arc::clone(column)) });
    RecordBatch::try_new(batch.schema(), columns.collect::<Result<_, _>>()?)
}

fn zeroed(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match column.data_type() {
        DataType::Decimal32(precision, scale) => decimals::<Decimal32Type>(column, *precision, *scale),
        DataType::Decimal64(precision, scale) => decimals::<Decimal64Type>(column, *precision, *scale),
        DataType::Decimal128(precision, scale) => decimals::<Decimal128Type>(column, *precision, *scale),
        DataType::Decimal256(precision, scale) => decimals::<Decimal256Type>(column, *precision, *scale),
        _ => Ok(Arc::clone(column)),
    }
}

fn decimals<T: DecimalType>(column: &ArrayRef, precision: u8, scale: i8) -> Result<ArrayRef, ArrowError> {
    let values: PrimitiveArray<T> = column.as_primitive::<T>().iter().collect();
    Ok(Arc::new(values.with_precision_and_scale(precision, scale)?))
}

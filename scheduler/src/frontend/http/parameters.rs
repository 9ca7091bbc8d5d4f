//! JSON values of a request as a row of parameters in the types that the statement wants.
//!
//! Text and numbers are read by the rules of SQL casts, and numbers from their own digits, so that a decimal keeps all
//! of them. A value that does not fit its parameter is an error, never NULL and never rounded to a whole number.
use std::sync::Arc;

use ancho_common::error::{Error, Result};
use arrow::{
    array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, new_null_array},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Schema},
};
use serde_json::Value;

/// One row with one column per value. `types` are the statement's parameters in order.
///
/// # Errors
/// The number of values differs from that of the parameters, or a value does not fit its parameter.
pub fn to_batch(values: &[Value], types: &Schema) -> Result<RecordBatch> {
    if values.len() != types.fields().len() {
        return Err(Error::invalid(format!(
            "the statement has {} parameters, {} were given",
            types.fields().len(),
            values.len()
        )));
    }
    let mut fields = Vec::with_capacity(values.len());
    let mut columns = Vec::with_capacity(values.len());
    for (index, (value, field)) in values.iter().zip(types.fields()).enumerate() {
        let column = to_array(value, field.data_type())
            .map_err(|reason| Error::invalid(format!("parameter ${}: {reason}", index + 1)))?;
        fields.push(Field::new(format!("${}", index + 1), column.data_type().clone(), true));
        columns.push(column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|e| Error::internal(format!("parameters do not form a row: {e}")))
}

fn to_array(value: &Value, target: &DataType) -> Result<ArrayRef, String> {
    // Announced as text also stands for "any type": a number stays one then.
    let untyped = matches!(target, DataType::Null | DataType::Utf8);
    let given: ArrayRef = match value {
        Value::Null => return Ok(new_null_array(target, 1)),
        Value::Bool(value) => Arc::new(BooleanArray::from(vec![*value])),
        Value::Number(number) if untyped => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => return Ok(Arc::new(Int64Array::from(vec![whole]))),
            (None, Some(float)) if number.is_f64() => return Ok(Arc::new(Float64Array::from(vec![float]))),
            _ => return Err(format!("{number} is out of range; give it as text")),
        },
        Value::Number(number) => Arc::new(StringArray::from(vec![number.to_string()])),
        Value::String(text) => Arc::new(StringArray::from(vec![text.as_str()])),
        Value::Array(_) | Value::Object(_) => return Err("arrays and objects cannot be bound".to_string()),
    };
    if untyped || given.data_type() == target {
        return Ok(given);
    }
    cast_with_options(&given, target, &CastOptions { safe: false, ..CastOptions::default() })
        .map_err(|e| format!("{value} does not fit {target}: {e}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Decimal128Type;

    use super::*;

    fn types(types: &[DataType]) -> Schema {
        Schema::new(types.iter().map(|t| Field::new("p", t.clone(), true)).collect::<Vec<_>>())
    }

    #[test]
    fn values_take_the_type_of_their_parameter() {
        let row: Vec<Value> =
            serde_json::from_str(r#"[7, "0.10", 123456789.25, "2024-02-29", null, true, 1.5, 3]"#).unwrap();
        let wanted = [
            DataType::Int32,
            DataType::Decimal128(10, 2),
            DataType::Decimal128(20, 2),
            DataType::Date32,
            DataType::Int64,
            DataType::Boolean,
            DataType::Utf8,
            DataType::Utf8,
        ];
        let batch = to_batch(&row, &types(&wanted)).unwrap();
        for (column, wanted) in batch.columns().iter().zip(&wanted).take(6) {
            assert_eq!(column.data_type(), wanted);
        }
        assert_eq!(batch.column(1).as_primitive::<Decimal128Type>().value(0), 10);
        assert_eq!(batch.column(2).as_primitive::<Decimal128Type>().value(0), 12_345_678_925);
        assert!(batch.column(4).is_null(0));
        assert_eq!(batch.column(6).data_type(), &DataType::Float64);
        assert_eq!(batch.column(7).data_type(), &DataType::Int64);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (value, wanted) in [
            ("1.5", DataType::Int64),
            ("300", DataType::Int8),
            ("\"x\"", DataType::Date32),
            ("[1]", DataType::Utf8),
            ("18446744073709551615", DataType::Utf8),
        ] {
            let value: Value = serde_json::from_str(value).unwrap();
            let error = to_batch(&[value], &types(&[wanted])).unwrap_err();
            assert!(error.message.starts_with("parameter $1: "), "{error}");
        }
        assert!(to_batch(&[], &types(&[DataType::Int8])).is_err());
    }
}

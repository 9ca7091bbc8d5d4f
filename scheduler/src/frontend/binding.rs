//! Bound values in the types that the planner wants.
//!
//! Drivers bind what their language has: Python any integer as 64 bits, any text as `Utf8`. The planner has given each
//! parameter a type already, most often that of the column it meets, and puts no cast around it.
//!
//! A value goes into the wanted type if nothing of it is lost. If it does not fit, a query keeps the value as it came,
//! and the planner compares in a type that holds both (`id = 1.5` finds nothing); an update refuses it.
use std::sync::Arc;

use ancho_common::error::{Error, Result};
use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Schema, SchemaRef},
    error::ArrowError,
};

use super::{edge::edge_schema, service::StatementKind};

/// The parameters as clients see them: in edge types, those without a type as text, which every driver can bind.
#[must_use]
pub fn announced_parameters(wanted: &Schema) -> SchemaRef {
    let fields = wanted.fields().iter().map(|field| match field.data_type() {
        DataType::Null => Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)),
        _ => Arc::clone(field),
    });
    edge_schema(&Schema::new(fields.collect::<Vec<_>>()))
}

/// The bound rows in the wanted types; the i-th column is parameter `$i`.
///
/// # Errors
/// The number of columns is not that of the parameters, or a value does not fit an update's parameter.
pub fn fit_parameters(given: &RecordBatch, wanted: &Schema, kind: StatementKind) -> Result<RecordBatch> {
    if given.num_columns() != wanted.fields().len() {
        return Err(Error::invalid(format!(
            "the statement has {} parameters, {} were bound",
            wanted.fields().len(),
            given.num_columns()
        )));
    }
    let mut fields = Vec::with_capacity(given.num_columns());
    let mut columns = Vec::with_capacity(given.num_columns());
    for (index, (column, field)) in given.columns().iter().zip(wanted.fields()).enumerate() {
        // A number compared with text stays a number: which side gives way is the planner's to say.
        let keep = kind == StatementKind::Query && is_text(field.data_type()) && !is_text(column.data_type());
        let fitted = match (fit(column, field.data_type()), kind) {
            (Ok(fitted), _) if !keep => fitted,
            (_, StatementKind::Query) => Arc::clone(column),
            (Ok(fitted), StatementKind::Update) => fitted,
            (Err(reason), StatementKind::Update) => {
                return Err(Error::invalid(format!("parameter ${}: {reason}", index + 1)));
            }
        };
        fields.push(Field::new(format!("${}", index + 1), fitted.data_type().clone(), true));
        columns.push(fitted);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(given.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|e| Error::internal(format!("parameters do not form rows: {e}")))
}

fn fit(given: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if given.data_type() == wanted || *wanted == DataType::Null {
        return Ok(Arc::clone(given));
    }
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let fitted = cast_with_options(given, wanted, &strict)?;
    // Text is read by the rules of SQL, a float is the nearest one, NULL is NULL: these need not come back as the same.
    if is_text(given.data_type())
        || given.data_type().is_null()
        || (given.data_type().is_floating() && wanted.is_floating())
    {
        return Ok(fitted);
    }
    let back = cast_with_options(&fitted, given.data_type(), &strict)?;
    if back.to_data() == given.to_data() {
        return Ok(fitted);
    }
    Err(ArrowError::CastError(format!("a value of type {} does not fit {wanted} whole", given.data_type())))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => other.is_string(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Date32Array, Float64Array, Int64Array, NullArray, StringArray, TimestampMicrosecondArray};
    use arrow::datatypes::TimeUnit;

    use super::*;

    fn fitted(column: ArrayRef, wanted: &DataType, kind: StatementKind) -> Result<DataType> {
        let given = RecordBatch::try_from_iter_with_nullable([("x", column, true)]).unwrap();
        let wanted = Schema::new(vec![Field::new("$1", wanted.clone(), true)]);
        fit_parameters(&given, &wanted, kind).map(|batch| batch.column(0).data_type().clone())
    }

    #[test]
    fn values_go_into_the_wanted_type_only_whole() {
        let ints = || Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef;
        let texts = || Arc::new(StringArray::from(vec![Some("2024-02-29"), None])) as ArrayRef;
        let floats = |x: f64| Arc::new(Float64Array::from(vec![x])) as ArrayRef;
        let micros = |x: i64| Arc::new(TimestampMicrosecondArray::from(vec![x])) as ArrayRef;
        let millis = DataType::Timestamp(TimeUnit::Millisecond, None);
        for (column, wanted) in [
            (ints(), DataType::Int32),
            (ints(), DataType::Decimal128(10, 2)),
            (ints(), DataType::Float64),
            (texts(), DataType::Utf8View),
            (texts(), DataType::Date32),
            (Arc::new(NullArray::new(2)), DataType::Int64),
            (floats(0.1), DataType::Float32),
            (floats(2.0), DataType::Int64),
            (micros(5000), millis.clone()),
        ] {
            for kind in [StatementKind::Query, StatementKind::Update] {
                assert_eq!(fitted(column.clone(), &wanted, kind).unwrap(), wanted);
            }
        }
        let far = Arc::new(Int64Array::from(vec![1 << 40])) as ArrayRef;
        let date = Arc::new(Date32Array::from(vec![0])) as ArrayRef;
        for (column, wanted) in [
            (far, DataType::Int32),
            (floats(1.5), DataType::Int64),
            (texts(), DataType::Int64),
            (micros(5001), millis),
            (date, DataType::Boolean),
        ] {
            assert_eq!(fitted(column.clone(), &wanted, StatementKind::Query).unwrap(), *column.data_type());
            let error = fitted(column, &wanted, StatementKind::Update).unwrap_err();
            assert!(error.message.starts_with("parameter $1: "), "{error}");
        }
        assert_eq!(fitted(ints(), &DataType::Utf8, StatementKind::Query).unwrap(), DataType::Int64);
        assert_eq!(fitted(ints(), &DataType::Utf8, StatementKind::Update).unwrap(), DataType::Utf8);
        assert_eq!(fitted(ints(), &DataType::Null, StatementKind::Update).unwrap(), DataType::Int64);
    }
}

//! Conversion at the client's edge: which Arrow types leave the cluster, and how batches are turned into them.
//!
//! Inside the cluster any Arrow type may flow. Clients get the types that the drivers in use (ADBC, JDBC, ODBC,
//! pyarrow) all read:
//!
//! | inside | at the edge |
//! |---|---|
//! | `Utf8View`, `BinaryView` | `Utf8`, `Binary` |
//! | `ListView`, `LargeListView` | `List`, `LargeList` |
//! | `Dictionary(_, v)`, `RunEndEncoded(_, v)` | the edge type of `v` |
//! | `Decimal32`, `Decimal64` | `Decimal128` of the same precision and scale |
//! | `List`, `LargeList`, `FixedSizeList`, `Struct`, `Map`, `Union` | the same with converted children |
//! | everything else | unchanged |
//!
//! Dictionaries are hydrated rather than resent: a resent dictionary travels with every message, can alone exceed the
//! size limit of a message, and older drivers do not read nested ones.
//!
//! Names, order, metadata and nullability are those of the plan. A NULL in a column announced as not nullable is a
//! fault of ours and ends the stream with an error that names the column. The columns of a statement with parameters
//! are all announced as nullable ([`announced_schema`]), because a plan's nullability depends on the values bound.
use std::sync::Arc;

use ancho_common::error::{Error, Result};
use arrow::{
    array::{
        Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, GenericListViewArray, MapArray,
        OffsetSizeTrait, RecordBatch, RecordBatchOptions, StructArray, UInt64Array, UnionArray,
    },
    buffer::{OffsetBuffer, ScalarBuffer},
    compute::{CastOptions, cast_with_options, take},
    datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, UnionFields},
    error::ArrowError,
};
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::{service::QueryStream, split::split_batch};

/// The type a client sees for a type inside the cluster.
#[must_use]
pub fn edge_type(inside: &DataType) -> DataType {
    match inside {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(item) | DataType::ListView(item) => DataType::List(edge_field(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(edge_field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(edge_field(item), *size),
        DataType::Struct(fields) => DataType::Struct(edge_fields(fields)),
        DataType::Map(entries, sorted) => DataType::Map(edge_field(entries), *sorted),
        DataType::Union(fields, mode) => {
            let fields: UnionFields = fields.iter().map(|(id, field)| (id, edge_field(field))).collect();
            DataType::Union(fields, *mode)
        }
        DataType::Dictionary(_, values) => edge_type(values),
        DataType::RunEndEncoded(_, values) => edge_type(values.data_type()),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        other => other.clone(),
    }
}

fn edge_field(field: &FieldRef) -> FieldRef {
    let data_type = edge_type(field.data_type());
    if data_type == *field.data_type() {
        return Arc::clone(field);
    }
    // A new field rather than a changed copy: the copy would keep the dictionary's order flag.
    let edge = Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone());
    Arc::new(edge)
}

fn edge_fields(fields: &Fields) -> Fields {
    fields.iter().map(edge_field).collect()
}

/// The schema a client sees for a schema inside the cluster. Applying it twice changes nothing.
#[must_use]
pub fn edge_schema(inside: &Schema) -> SchemaRef {
    Arc::new(Schema::new_with_metadata(edge_fields(inside.fields()), inside.metadata().clone()))
}

/// The schema that FlightInfo, a prepared statement and the stream itself all carry for one statement.
///
/// `has_parameters`: the statement has parameters, bound or not yet.
#[must_use]
pub fn announced_schema(inside: &Schema, has_parameters: bool) -> SchemaRef {
    let edge = edge_schema(inside);
    if !has_parameters {
        return edge;
    }
    let fields: Fields = edge.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    Arc::new(Schema::new_with_metadata(fields, edge.metadata().clone()))
}

/// The rows of a query in exactly the types of `schema`, in slices of about `target_bytes` once encoded.
///
/// Nothing is read ahead: one batch of the query is held at a time, and it is converted slice by slice.
pub fn edge_stream(
    query: QueryStream,
    schema: SchemaRef,
    target_bytes: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    query
        .stream
        .map_err(Error::from)
        .map_ok(move |batch| stream::iter(split_batch(batch, target_bytes)).map(Ok::<_, Error>))
        .try_flatten()
        .map(move |slice| edge_batch(&slice?, &schema))
}

/// Converts a batch to exactly `schema`, which [`announced_schema`] made of the batch's plan.
///
/// # Errors
/// The batch does not fit the schema: another number of columns, a type that does not convert, or NULL in a column
/// announced as not nullable.
pub fn edge_batch(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::internal(format!(
            "result has {} columns, {} were announced; run the statement again",
            batch.num_columns(),
            schema.fields().len()
        )));
    }
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (column, field) in batch.columns().iter().zip(schema.fields()) {
        let converted = edge_array(column, field.data_type()).map_err(|e| {
            Error::internal(format!(
                "result column {}: {} is not readable as {}: {e}",
                field.name(),
                column.data_type(),
                field.data_type()
            ))
        })?;
        if !field.is_nullable() && converted.logical_null_count() > 0 {
            return Err(Error::internal(format!(
                "result column {} was announced as not nullable and holds NULL",
                field.name()
            )));
        }
        columns.push(converted);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|e| Error::internal(format!("result does not fit its announced schema: {e}")))
}

/// Converts one array. `target` is an edge type.
fn edge_array(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == target {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), target) {
        (DataType::Dictionary(..), _) => {
            let dictionary = array.as_any_dictionary();
            // Values first taken, then converted: a value that no row uses costs nothing, views are not copied twice.
            edge_array(&take(dictionary.values(), dictionary.keys(), None)?, target)
        }
        (DataType::RunEndEncoded(_, values), _) => edge_array(&strict_cast(array, values.data_type())?, target),
        (DataType::List(_), DataType::List(item)) => edge_list(array.as_list::<i32>(), item),
        (DataType::LargeList(_), DataType::LargeList(item)) => edge_list(array.as_list::<i64>(), item),
        (DataType::ListView(_), DataType::List(item)) => edge_list_view(array.as_list_view::<i32>(), item),
        (DataType::LargeListView(_), DataType::LargeList(item)) => edge_list_view(array.as_list_view::<i64>(), item),
        (DataType::FixedSizeList(..), DataType::FixedSizeList(item, size)) => {
            let list = array.as_fixed_size_list();
            let values = edge_array(list.values(), item.data_type())?;
            let nulls = list.nulls().cloned();
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, values, nulls, list.len())?))
        }
        (DataType::Struct(_), DataType::Struct(fields)) => Ok(Arc::new(edge_struct(array.as_struct(), fields)?)),
        (DataType::Map(..), DataType::Map(entries, sorted)) => edge_map(array.as_map(), entries, *sorted),
        (DataType::Union(..), DataType::Union(fields, _)) => edge_union(array, fields),
        // A function whose type follows its constant argument (`round(x, 1)`) turns out narrower than announced. With as
        // many digits after the point every value stays what it is, or is an error.
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) if from <= to => strict_cast(array, target),
        // The same type with another time zone, scale or unit is a planner's fault, not a conversion.
        (from, to) if edge_type(from) == *to => strict_cast(array, to),
        (from, to) => Err(ArrowError::CastError(format!("{from} does not become {to}"))),
    }
}

/// A cast in which a value that does not fit is an error instead of NULL.
fn strict_cast(array: &ArrayRef, target: &DataType) -> Result<ArrayRef, ArrowError> {
    cast_with_options(array, target, &CastOptions { safe: false, ..CastOptions::default() })
}

fn edge_list<O: OffsetSizeTrait>(list: &GenericListArray<O>, item: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let offsets = list.offsets();
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let values = list.values().slice(first.as_usize(), (last - first).as_usize());
    let values = edge_array(&values, item.data_type())?;
    let offsets = OffsetBuffer::new(offsets.iter().map(|offset| *offset - first).collect::<ScalarBuffer<O>>());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, list.nulls().cloned())?))
}

fn edge_list_view<O: OffsetSizeTrait>(list: &GenericListViewArray<O>, item: &FieldRef) -> Result<ArrayRef, ArrowError> {
    let mut indices = Vec::new();
    let mut offsets = Vec::with_capacity(list.len() + 1);
    offsets.push(O::zero());
    for row in 0..list.len() {
        if list.is_valid(row) {
            let start = list.value_offset(row).as_usize();
            indices.extend((start..start + list.value_size(row).as_usize()).map(|i| i as u64));
        }
        let end = O::from_usize(indices.len()).ok_or_else(|| ArrowError::OffsetOverflowError(indices.len()))?;
        offsets.push(end);
    }
    let values = edge_array(&take(list.values(), &UInt64Array::from(indices), None)?, item.data_type())?;
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, list.nulls().cloned())?))
}

fn edge_struct(array: &StructArray, fields: &Fields) -> Result<StructArray, ArrowError> {
    if array.num_columns() != fields.len() {
        return Err(ArrowError::CastError(format!(
            "struct of {} fields, {} expected",
            array.num_columns(),
            fields.len()
        )));
    }
    let columns = array
        .columns()
        .iter()
        .zip(fields)
        .map(|(column, field)| edge_array(column, field.data_type()))
        .collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new_with_length(fields.clone(), columns, array.nulls().cloned(), array.len())
}

fn edge_map(map: &MapArray, entries: &FieldRef, sorted: bool) -> Result<ArrayRef, ArrowError> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(ArrowError::CastError(format!("map entries of type {}", entries.data_type())));
    };
    let offsets = map.offsets();
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let pairs = map.entries().slice(first as usize, (last - first) as usize);
    let pairs = edge_struct(&pairs, fields)?;
    let offsets = OffsetBuffer::new(offsets.iter().map(|offset| offset - first).collect::<ScalarBuffer<i32>>());
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, map.nulls().cloned(), sorted)?))
}

fn edge_union(array: &ArrayRef, fields: &UnionFields) -> Result<ArrayRef, ArrowError> {
    let (_, type_ids, offsets, children) = array.as_union().clone().into_parts();
    let children = children
        .iter()
        .zip(fields.iter())
        .map(|(child, (_, field))| edge_array(child, field.data_type()))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(UnionArray::try_new(fields.clone(), type_ids, offsets, children)?))
}

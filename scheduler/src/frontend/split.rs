//! How large rows will be once encoded for a client, and splitting of batches by it.
//!
//! The size of the buffers an array holds says little: a slice shares the buffers of the whole, a dictionary or a view
//! may name one long value many times. So the bytes are counted as they will be written, after conversion to edge
//! types, before any of them is copied.
use std::collections::VecDeque;

use arrow::{
    array::{Array, AsArray, GenericByteArray, GenericByteViewArray, OffsetSizeTrait, RecordBatch},
    datatypes::{ArrowNativeType, ByteArrayType, ByteViewType, DataType},
};

/// Splits a batch so that each part is about `target` bytes encoded, and one row at least.
///
/// Parts share the buffers of the batch. A batch without rows gives no part.
#[must_use]
pub fn split_batch(batch: RecordBatch, target: usize) -> VecDeque<RecordBatch> {
    let mut parts = VecDeque::new();
    if batch.num_rows() > 0 {
        split_into(batch, target.max(1), &mut parts);
    }
    parts
}

fn split_into(batch: RecordBatch, target: usize, parts: &mut VecDeque<RecordBatch>) {
    let rows = batch.num_rows();
    let bytes = encoded_bytes(&batch);
    if rows == 1 || bytes <= target {
        parts.push_back(batch);
        return;
    }
    // Rows differ in size, so a part may come out larger than wanted; it is then split again by its own mean.
    let rows_per_part = (rows as u128 * target as u128 / bytes as u128).max(1) as usize;
    let mut offset = 0;
    while offset < rows {
        let length = rows_per_part.min(rows - offset);
        split_into(batch.slice(offset, length), target, parts);
        offset += length;
    }
}

/// About how many bytes the batch takes in a message, in edge types.
#[must_use]
pub fn encoded_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column)).fold(0, usize::saturating_add)
}

fn array_bytes(array: &dyn Array) -> usize {
    let rows = array.len();
    let validity = if array.null_count() > 0 { rows.div_ceil(8) } else { 0 };
    let values = match array.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows.div_ceil(8),
        DataType::Utf8 => byte_array_bytes(array.as_string::<i32>()),
        DataType::LargeUtf8 => byte_array_bytes(array.as_string::<i64>()),
        DataType::Binary => byte_array_bytes(array.as_binary::<i32>()),
        DataType::LargeBinary => byte_array_bytes(array.as_binary::<i64>()),
        DataType::Utf8View => view_array_bytes(array.as_string_view()),
        DataType::BinaryView => view_array_bytes(array.as_binary_view()),
        DataType::FixedSizeBinary(width) => rows * usize::try_from(*width).unwrap_or(0),
        DataType::List(_) => list_bytes(array.as_list::<i32>().offsets(), array.as_list::<i32>().values()),
        DataType::LargeList(_) => list_bytes(array.as_list::<i64>().offsets(), array.as_list::<i64>().values()),
        DataType::Map(..) => list_bytes(array.as_map().offsets(), array.as_map().entries()),
        DataType::ListView(_) => {
            let list = array.as_list_view::<i32>();
            list_view_bytes(list.sizes().iter().map(|s| s.as_usize()).sum(), rows, list.values())
        }
        DataType::LargeListView(_) => {
            let list = array.as_list_view::<i64>();
            list_view_bytes(list.sizes().iter().map(|s| s.as_usize()).sum(), rows, list.values())
        }
        DataType::FixedSizeList(..) => array_bytes(array.as_fixed_size_list().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|c| array_bytes(c)).sum(),
        DataType::Union(fields, _) => {
            // Children of a dense union are not sliced with it, so this may be too high, never too low.
            let union = array.as_union();
            rows * 5 + fields.iter().map(|(id, _)| array_bytes(union.child(id))).sum::<usize>()
        }
        DataType::Dictionary(..) => dictionary_bytes(array),
        DataType::RunEndEncoded(_, values) => match values.data_type().primitive_width() {
            Some(width) => rows * width,
            None => run_bytes(array),
        },
        DataType::Decimal32(..) | DataType::Decimal64(..) => rows * 16,
        other => rows * other.primitive_width().unwrap_or(16),
    };
    values.saturating_add(validity)
}

fn byte_array_bytes<T: ByteArrayType>(array: &GenericByteArray<T>) -> usize {
    let offsets = array.value_offsets();
    (offsets[offsets.len() - 1] - offsets[0]).as_usize() + size_of_val(offsets)
}

fn view_array_bytes<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> usize {
    // The low 32 bits of a view are its length.
    array.views().iter().map(|view| (*view as u32) as usize).sum::<usize>() + array.len() * size_of::<i32>()
}

fn list_bytes<O: OffsetSizeTrait>(offsets: &[O], values: &dyn Array) -> usize {
    let (first, last) = (offsets[0].as_usize(), offsets[offsets.len() - 1].as_usize());
    array_bytes(&values.slice(first, last - first)).saturating_add(size_of_val(offsets))
}

/// Views of a list may overlap or leave values out, so the values count by their mean.
fn list_view_bytes(elements: usize, rows: usize, values: &dyn Array) -> usize {
    scaled(array_bytes(values), elements, values.len()).saturating_add(rows * size_of::<i64>())
}

fn scaled(bytes: usize, wanted: usize, present: usize) -> usize {
    if present == 0 {
        return 0;
    }
    usize::try_from(bytes as u128 * wanted as u128 / present as u128).unwrap_or(usize::MAX)
}

fn dictionary_bytes(array: &dyn Array) -> usize {
    let dictionary = array.as_any_dictionary();
    let (values, rows) = (dictionary.values(), array.len());
    if let Some(width) = values.data_type().primitive_width() {
        return rows * width;
    }
    if values.is_empty() {
        return rows;
    }
    let keys = dictionary.normalized_keys();
    sum_of_values(values, keys.into_iter().enumerate().filter(|(row, _)| array.is_valid(*row)).map(|(_, key)| key))
        .unwrap_or_else(|| scaled(array_bytes(values), rows, values.len()))
        .saturating_add(rows * size_of::<i32>())
}

/// Bytes of the values at `indices` if values are text or bytes; they may repeat and differ wildly.
fn sum_of_values(values: &dyn Array, indices: impl Iterator<Item = usize>) -> Option<usize> {
    Some(match values.data_type() {
        DataType::Utf8 => indices.map(|i| values.as_string::<i32>().value_length(i) as usize).sum(),
        DataType::LargeUtf8 => indices.map(|i| values.as_string::<i64>().value_length(i) as usize).sum(),
        DataType::Binary => indices.map(|i| values.as_binary::<i32>().value_length(i) as usize).sum(),
        DataType::LargeBinary => indices.map(|i| values.as_binary::<i64>().value_length(i) as usize).sum(),
        DataType::Utf8View => indices.map(|i| values.as_string_view().views()[i] as u32 as usize).sum(),
        DataType::BinaryView => indices.map(|i| values.as_binary_view().views()[i] as u32 as usize).sum(),
        _ => return None,
    })
}

fn run_bytes(array: &dyn Array) -> usize {
    // Runs are expanded by a copy: rare enough to measure the real thing. A failure shows again at conversion.
    let DataType::RunEndEncoded(_, values) = array.data_type() else { return 0 };
    arrow::compute::cast(array, values.data_type()).map_or(0, |expanded| array_bytes(&expanded))
}

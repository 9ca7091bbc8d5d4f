//! What open files cost in memory, told to the pool of the process.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use crate::error::{Error, Place, Result};

/// What the encoder holds of each column: the block that it fills, the one that it compresses, and the compressed ones of
/// a run that is not written yet.
const BYTES_PER_COLUMN: usize = 1 << 20;

/// Reserves the memory of one open file of this schema. It is given back when the reservation is dropped.
///
/// # Errors
/// [`Error::OutOfMemory`] when the pool has not as much.
pub(crate) fn reserve(pool: &Arc<dyn MemoryPool>, place: &Arc<Place>, schema: &Schema) -> Result<MemoryReservation> {
    let columns: usize = schema.fields().iter().map(|field| leaves(field.data_type())).sum();
    let bytes = columns.saturating_mul(BYTES_PER_COLUMN);
    let reservation = MemoryConsumer::new("cayenne writer").register(pool);
    match reservation.try_grow(bytes) {
        Ok(()) => Ok(reservation),
        Err(source) => Err(Error::OutOfMemory { place: Arc::clone(place), bytes, source: Box::new(source) }),
    }
}

/// Columns that are encoded on their own.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum::<usize>().max(1),
        DataType::List(item) | DataType::LargeList(item) => 1 + leaves(item.data_type()),
        DataType::FixedSizeList(item, _) => leaves(item.data_type()),
        _ => 1,
    }
}

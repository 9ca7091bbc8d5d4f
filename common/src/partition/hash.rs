//! The stable hash below `bucket(N, column)`. It decides where stored rows live, so it is part of the stored format:
//! never change what a version computes, add another one.
//!
//! Version 1: XXH64 with seed 0 over a type class byte and a canonical payload, so that equal values hash alike
//! whatever Arrow type carries them:
//!
//! | values | class | payload |
//! |---|---|---|
//! | integers of every width and sign | `i` | 16 bytes, little-endian two's complement |
//! | booleans | `b` | 1 byte, 0 or 1 |
//! | strings (plain, large, view, dictionary) | `s` | UTF-8 bytes |
//! | binary (plain, large, view, fixed size) | `x` | the bytes |
//! | dates | `d` | days since 1970-01-01 as 16 bytes |
//! | timestamps, with or without zone | `t` | nanoseconds since the epoch as 16 bytes |
//! | times of day | `m` | nanoseconds since midnight as 16 bytes |
//! | decimals | `n` | scale after removing trailing zeros (1 byte), then that value as 16 bytes |
//!
//! NULL goes to bucket 0; other values to `hash mod N`.
use arrow::{
    array::{Array, ArrayRef, AsArray, Int32Array},
    compute::cast,
    datatypes::{
        DataType, Date32Type, Date64Type, Decimal128Type, Int64Type, Time64NanosecondType, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt64Type,
    },
};
use xxhash_rust::xxh64::xxh64;

use crate::error::{Error, Result};

/// The newest version of the hash.
pub const HASH_VERSION: u32 = 1;

/// Most buckets a table may have.
pub const MAX_BUCKETS: u32 = 65_536;

const NANOS_PER_DAY: i128 = 86_400_000_000_000;
const MILLIS_PER_DAY: i64 = 86_400_000;

/// Whether values of this type can be bucketed. Floating-point numbers cannot: equal values have several forms.
#[must_use]
pub fn is_hashable(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_hashable(value),
        other => {
            other.is_integer()
                || matches!(
                    other,
                    DataType::Boolean
                        | DataType::Utf8
                        | DataType::LargeUtf8
                        | DataType::Utf8View
                        | DataType::Binary
                        | DataType::LargeBinary
                        | DataType::BinaryView
                        | DataType::FixedSizeBinary(_)
                        | DataType::Date32
                        | DataType::Date64
                        | DataType::Timestamp(_, _)
                        | DataType::Time32(_)
                        | DataType::Time64(_)
                        | DataType::Decimal32(_, _)
                        | DataType::Decimal64(_, _)
                        | DataType::Decimal128(_, _)
                )
        }
    }
}

fn hash_number(class: u8, value: i128) -> u64 {
    let mut payload = [0u8; 17];
    payload[0] = class;
    payload[1..].copy_from_slice(&value.to_le_bytes());
    xxh64(&payload, 0)
}

fn hash_bytes(class: u8, value: &[u8], scratch: &mut Vec<u8>) -> u64 {
    scratch.clear();
    scratch.push(class);
    scratch.extend_from_slice(value);
    xxh64(scratch, 0)
}

fn hash_decimal(mut value: i128, mut scale: i8) -> u64 {
    // 1.50 and 1.5000 are one value; a join between decimals of different scale must find both in one bucket.
    if value == 0 {
        scale = 0;
    }
    while scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    let mut payload = [0u8; 18];
    payload[0] = b'n';
    payload[1] = scale.to_le_bytes()[0];
    payload[2..].copy_from_slice(&value.to_le_bytes());
    xxh64(&payload, 0)
}

/// Bucket of each value: `0..buckets`, never NULL.
///
/// # Errors
/// The hash version is unknown, or the type cannot be bucketed.
pub fn buckets(version: u32, values: &ArrayRef, buckets: u32) -> Result<Int32Array> {
    let n = u64::from(buckets.max(1));
    let bucket = |hash: u64| -> i32 {
        // Below MAX_BUCKETS, so it fits.
        i32::try_from(hash % n).unwrap_or(0)
    };
    let hashes = hashes(version, values)?;
    Ok(hashes.into_iter().map(|h| h.map_or(0, bucket)).collect::<Vec<i32>>().into())
}

macro_rules! numbers {
    ($values:expr, $type:ty, $class:expr, $map:expr) => {{
        let values = &$values;
        values.as_primitive::<$type>().iter().map(|v| v.map(|v| hash_number($class, $map(i128::from(v))))).collect()
    }};
}

/// Hash of each value, `None` for NULL.
///
/// # Errors
/// The hash version is unknown, or the type cannot be bucketed.
pub fn hashes(version: u32, values: &ArrayRef) -> Result<Vec<Option<u64>>> {
    if version != HASH_VERSION {
        return Err(Error::unsupported(format!(
            "bucket hash version {version} is not known to this release (it knows {HASH_VERSION}); upgrade it"
        )));
    }
    let unsupported = || Error::invalid(format!("values of type {} cannot be bucketed", values.data_type()));
    let convert = |to: &DataType| -> Result<ArrayRef> { cast(values, to).map_err(|e| Error::internal(e.to_string())) };
    let mut scratch = Vec::new();
    Ok(match values.data_type() {
        DataType::UInt64 => numbers!(values, UInt64Type, b'i', |v: i128| v),
        t if t.is_integer() => numbers!(convert(&DataType::Int64)?, Int64Type, b'i', |v: i128| v),
        DataType::Boolean => values.as_boolean().iter().map(|v| v.map(|v| xxh64(&[b'b', u8::from(v)], 0))).collect(),
        DataType::Utf8 => {
            values.as_string::<i32>().iter().map(|v| v.map(|v| hash_bytes(b's', v.as_bytes(), &mut scratch))).collect()
        }
        DataType::LargeUtf8 => {
            values.as_string::<i64>().iter().map(|v| v.map(|v| hash_bytes(b's', v.as_bytes(), &mut scratch))).collect()
        }
        DataType::Utf8View => {
            values.as_string_view().iter().map(|v| v.map(|v| hash_bytes(b's', v.as_bytes(), &mut scratch))).collect()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let array = convert(&DataType::LargeBinary)?;
            array.as_binary::<i64>().iter().map(|v| v.map(|v| hash_bytes(b'x', v, &mut scratch))).collect()
        }
        DataType::Dictionary(_, value) => return hashes(version, &convert(value)?),
        DataType::Date32 => numbers!(values, Date32Type, b'd', |v: i128| v),
        DataType::Date64 => numbers!(values, Date64Type, b'd', |v: i128| v.div_euclid(i128::from(MILLIS_PER_DAY))),
        DataType::Timestamp(TimeUnit::Second, _) => {
            numbers!(values, TimestampSecondType, b't', |v: i128| v * 1_000_000_000)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            numbers!(values, TimestampMillisecondType, b't', |v: i128| v * 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            numbers!(values, TimestampMicrosecondType, b't', |v: i128| v * 1_000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => numbers!(values, TimestampNanosecondType, b't', |v: i128| v),
        DataType::Time32(_) | DataType::Time64(_) => {
            let array = convert(&DataType::Time64(TimeUnit::Nanosecond))?;
            numbers!(array, Time64NanosecondType, b'm', |v: i128| v.rem_euclid(NANOS_PER_DAY))
        }
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => {
            let scale = *s;
            let array = convert(&DataType::Decimal128(38, scale))?;
            array.as_primitive::<Decimal128Type>().iter().map(|v| v.map(|v| hash_decimal(v, scale))).collect()
        }
        _ => return Err(unsupported()),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int32Array, Int64Array, StringArray, UInt8Array};

    use super::*;

    fn first(array: ArrayRef) -> u64 {
        hashes(HASH_VERSION, &array).unwrap()[0].unwrap()
    }

    #[test]
    fn version_1_computes_what_it_always_computed() {
        // Stored data depends on these numbers: a change here is a change of the stored format.
        assert_eq!(first(Arc::new(Int64Array::from(vec![0]))), hash_number(b'i', 0));
        let strings: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), Some(""), None]));
        assert_eq!(buckets(1, &strings, 16).unwrap().values()[2], 0);
        let ints: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 42, -1, i64::MAX]));
        assert_eq!(buckets(1, &ints, 16).unwrap().values().to_vec(), PINNED_INTS.to_vec());
        assert_eq!(buckets(1, &strings, 1000).unwrap().values().to_vec(), PINNED_STRINGS.to_vec());
    }
    const PINNED_INTS: [i32; 6] = [3, 11, 2, 5, 13, 10];
    const PINNED_STRINGS: [i32; 3] = [258, 421, 0];

    #[test]
    fn equal_values_of_different_types_share_a_hash() {
        let wide = first(Arc::new(Int64Array::from(vec![7])));
        assert_eq!(wide, first(Arc::new(Int32Array::from(vec![7]))));
        assert_eq!(wide, first(Arc::new(UInt8Array::from(vec![7]))));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
        let dictionary = DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8));
        for to in [DataType::LargeUtf8, DataType::Utf8View, dictionary] {
            assert_eq!(first(Arc::clone(&text)), first(cast(&text, &to).unwrap()));
        }
        let cents: ArrayRef = Arc::new(Decimal128Array::from(vec![150]).with_precision_and_scale(10, 2).unwrap());
        let finer: ArrayRef = Arc::new(Decimal128Array::from(vec![15000]).with_precision_and_scale(12, 4).unwrap());
        assert_eq!(first(cents), first(finer));
        let seconds = DataType::Timestamp(TimeUnit::Second, None);
        let nanos = DataType::Timestamp(TimeUnit::Nanosecond, Some("+00:00".into()));
        let base = cast(&(Arc::new(Int64Array::from(vec![-5])) as ArrayRef), &seconds).unwrap();
        assert_eq!(first(Arc::clone(&base)), first(cast(&base, &nanos).unwrap()));
    }

    #[test]
    fn floats_and_unknown_versions_are_refused() {
        let floats: ArrayRef = Arc::new(arrow::array::Float64Array::from(vec![0.0]));
        assert!(hashes(HASH_VERSION, &floats).is_err());
        assert!(hashes(99, &(Arc::new(Int64Array::from(vec![0])) as ArrayRef)).is_err());
    }
}

//! Rows to keys. Two keys are equal exactly if their rows have equal values in the key columns.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{DataType, Int64Type, Schema};
use arrow::row::{RowConverter, Rows, SortField};
use arrow::util::display::array_value_to_string;
use xxhash_rust::xxh64::xxh64;

use super::spec::KeySpec;
use crate::error::{Error, Result};

/// Keys of other processes are of no use here, and nobody can make them collide on purpose.
static SEED: LazyLock<u64> = LazyLock::new(|| {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one("keys")
});

/// How keys are written where they outlive the process. The number of an encoding never changes its meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyEncoding {
    /// The row format of the Arrow library, of one or more columns.
    Rows,
    /// One column of 64-bit integers as it is.
    Int64,
}

impl KeyEncoding {
    pub(crate) const ALL: [Self; 2] = [KeyEncoding::Rows, KeyEncoding::Int64];

    pub(crate) fn id(self) -> u8 {
        match self {
            KeyEncoding::Rows => 1,
            KeyEncoding::Int64 => 2,
        }
    }

    pub(crate) fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|encoding| encoding.id() == id)
    }
}

/// One key.
///
/// Keys of one table are ordered as their columns are, the first one before the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key<'a> {
    Int64(i64),
    Bytes(&'a [u8]),
}

impl Key<'_> {
    /// Good in all its bits. Differs from process to process.
    pub(crate) fn hash(&self) -> u64 {
        match self {
            Key::Int64(value) => {
                // The finalizer of SplitMix64.
                let mut x = (*value as u64).wrapping_add(*SEED);
                x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
                x ^ (x >> 31)
            }
            Key::Bytes(bytes) => xxh64(bytes, *SEED),
        }
    }
}

/// The keys of a batch, in the order of its rows.
pub(crate) enum Keys {
    Int64(ScalarBuffer<i64>),
    Rows(Rows),
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        match self {
            Keys::Int64(values) => values.len(),
            Keys::Rows(rows) => rows.num_rows(),
        }
    }

    pub(crate) fn get(&self, row: usize) -> Key<'_> {
        match self {
            Keys::Int64(values) => Key::Int64(values[row]),
            Keys::Rows(rows) => Key::Bytes(rows.row(row).data()),
        }
    }
}

/// Turns the key columns of batches into keys.
pub(crate) enum KeyEncoder {
    Int64,
    Rows(RowConverter),
}

impl KeyEncoder {
    pub(crate) fn new(spec: &KeySpec, schema: &Schema) -> Result<Self> {
        if let [column] = spec.columns[..]
            && schema.field(column).data_type() == &DataType::Int64
        {
            return Ok(KeyEncoder::Int64);
        }
        let fields = spec.columns.iter().map(|&column| SortField::new(schema.field(column).data_type().clone()));
        let converter = RowConverter::new(fields.collect()).map_err(failed)?;
        Ok(KeyEncoder::Rows(converter))
    }

    pub(crate) fn encoding(&self) -> KeyEncoding {
        match self {
            KeyEncoder::Int64 => KeyEncoding::Int64,
            KeyEncoder::Rows(_) => KeyEncoding::Rows,
        }
    }

    /// The keys of rows, from the columns of the key in its order. None of them holds NULL.
    pub(crate) fn encode(&self, columns: &[ArrayRef]) -> Result<Keys> {
        match (self, columns) {
            (KeyEncoder::Int64, [column]) => Ok(int64(column)),
            (KeyEncoder::Int64, _) => {
                Err(Error::BadSchema { detail: format!("{} key columns instead of one", columns.len()) })
            }
            (KeyEncoder::Rows(converter), columns) => {
                Ok(Keys::Rows(converter.convert_columns(columns).map_err(failed)?))
            }
        }
    }
}

impl KeyEncoder {
    /// The values of keys: one array per key column.
    pub(crate) fn decode(&self, keys: &[Key<'_>]) -> Result<Vec<ArrayRef>> {
        match self {
            KeyEncoder::Int64 => {
                let values = keys.iter().filter_map(|key| match key {
                    Key::Int64(value) => Some(*value),
                    Key::Bytes(_) => None,
                });
                Ok(vec![Arc::new(Int64Array::from_iter_values(values))])
            }
            KeyEncoder::Rows(converter) => {
                let parser = converter.parser();
                let rows = keys.iter().filter_map(|key| match key {
                    Key::Bytes(bytes) => Some(parser.parse(bytes)),
                    Key::Int64(_) => None,
                });
                converter.convert_rows(rows).map_err(failed)
            }
        }
    }

    /// A key for people, for example `(7, EU)`.
    pub(crate) fn describe(&self, key: Key<'_>) -> String {
        let shown = |column: &ArrayRef| array_value_to_string(column, 0).unwrap_or_else(|_| "?".to_owned());
        let values: Vec<String> = self.decode(&[key]).unwrap_or_default().iter().map(shown).collect();
        format!("({})", values.join(", "))
    }
}

fn int64(column: &ArrayRef) -> Keys {
    Keys::Int64(column.as_primitive::<Int64Type>().values().clone())
}

fn failed(source: arrow::error::ArrowError) -> Error {
    Error::Arrow { action: "cannot encode keys", source }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryArray, Int32Array, StringArray, StringViewArray};
    use arrow::record_batch::RecordBatch;
    use proptest::prelude::*;

    use super::*;

    fn keys_of(columns: Vec<(&str, ArrayRef)>) -> Keys {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let spec = KeySpec { columns: (0..batch.num_columns()).collect(), time: None, unique: true };
        KeyEncoder::new(&spec, &batch.schema()).unwrap().encode(batch.columns()).unwrap()
    }

    proptest! {
        #[test]
        fn keys_are_equal_exactly_if_the_values_are(
            rows in prop::collection::vec((0i32..3, "[ab]{0,2}", prop::collection::vec(0u8..2, 0..3)), 1..40)
        ) {
            let numbers = Int32Array::from_iter_values(rows.iter().map(|row| row.0));
            let texts = StringArray::from_iter_values(rows.iter().map(|row| row.1.as_str()));
            let bytes = BinaryArray::from_iter_values(rows.iter().map(|row| row.2.as_slice()));
            let keys = keys_of(vec![("n", Arc::new(numbers)), ("t", Arc::new(texts)), ("b", Arc::new(bytes))]);
            for (i, a) in rows.iter().enumerate() {
                for (j, b) in rows.iter().enumerate() {
                    prop_assert_eq!(a == b, keys.get(i) == keys.get(j));
                    if a == b {
                        prop_assert_eq!(keys.get(i).hash(), keys.get(j).hash());
                    }
                }
            }
        }
    }

    #[test]
    fn one_integer_column_is_taken_as_it_is_and_others_are_not() {
        assert!(matches!(keys_of(vec![("a", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]), Keys::Int64(_)));
        assert!(matches!(keys_of(vec![("a", Arc::new(Int32Array::from(vec![1])) as ArrayRef)]), Keys::Rows(_)));
        let two: Vec<(&str, ArrayRef)> =
            vec![("a", Arc::new(Int64Array::from(vec![1]))), ("b", Arc::new(Int64Array::from(vec![1])))];
        assert!(matches!(keys_of(two), Keys::Rows(_)));
    }

    /// The stored form of keys must not change with the library.
    #[test]
    fn the_row_encoding_is_the_one_that_is_stored_under_its_id() {
        let columns: Vec<(&str, ArrayRef)> =
            vec![("n", Arc::new(Int32Array::from(vec![-2]))), ("t", Arc::new(StringViewArray::from(vec!["grün"])))];
        let keys = keys_of(columns);
        let Key::Bytes(bytes) = keys.get(0) else { panic!("rows") };
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "017ffffffe026772c3bc6e00000005");
        for encoding in KeyEncoding::ALL {
            assert_eq!(KeyEncoding::from_id(encoding.id()), Some(encoding));
        }
        assert_eq!(KeyEncoding::from_id(0), None);
    }
}

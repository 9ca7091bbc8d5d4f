//! Values of an index's columns to hashes. What is stored depends on them, so they never change for a definition.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type};
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use xxhash_rust::xxh64::xxh64;

use crate::error::{Error, Result};

/// Part of the format of runs.
const SEED: u64 = 0x616e_6368_6f69_7831;

/// Hashes values of certain types.
#[derive(Debug)]
pub(crate) struct Hasher {
    converter: RowConverter,
    types: Vec<DataType>,
}

/// The type of a column's values.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => value_type(values),
        other => other,
    }
}

impl Hasher {
    /// For columns of these types.
    pub(crate) fn new<'a>(columns: impl IntoIterator<Item = &'a DataType>) -> Result<Self> {
        let types: Vec<DataType> = columns.into_iter().map(|column| value_type(column).clone()).collect();
        let converter = RowConverter::new(types.iter().cloned().map(SortField::new).collect()).map_err(failed)?;
        Ok(Self { converter, types })
    }

    /// The types of the values.
    pub(crate) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// The hash of each row. None for rows with a NULL, which equal nothing.
    pub(crate) fn hash(&self, columns: &[ArrayRef]) -> Result<Vec<Option<u64>>> {
        let mut plain = Vec::with_capacity(columns.len());
        let mut nulls: Option<NullBuffer> = None;
        for (column, data_type) in columns.iter().zip(&self.types) {
            let values = if column.data_type() == data_type {
                Arc::clone(column)
            } else {
                cast(column, data_type).map_err(failed)?
            };
            nulls = NullBuffer::union(nulls.as_ref(), values.logical_nulls().as_ref());
            plain.push(one_zero(&values));
        }
        let rows = self.converter.convert_columns(&plain).map_err(failed)?;
        let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        Ok((0..rows.num_rows()).map(|row| (!is_null(row)).then(|| xxh64(rows.row(row).data(), SEED))).collect())
    }
}

/// Floats with one zero and one NaN.
fn one_zero(values: &ArrayRef) -> ArrayRef {
    match values.data_type() {
        DataType::Float16 => {
            canonical::<Float16Type>(values, |value| if value.is_nan() { f16_nan() } else { value + f16_zero() })
        }
        DataType::Float32 => {
            canonical::<Float32Type>(values, |value| if value.is_nan() { f32::NAN } else { value + 0.0 })
        }
        DataType::Float64 => {
            canonical::<Float64Type>(values, |value| if value.is_nan() { f64::NAN } else { value + 0.0 })
        }
        _ => Arc::clone(values),
    }
}

type F16 = <Float16Type as ArrowPrimitiveType>::Native;

fn f16_nan() -> F16 {
    F16::NAN
}

fn f16_zero() -> F16 {
    F16::ZERO
}

fn canonical<T: ArrowPrimitiveType>(values: &ArrayRef, one: impl Fn(T::Native) -> T::Native) -> ArrayRef {
    let values: PrimitiveArray<T> = values.as_primitive::<T>().unary(one);
    Arc::new(values)
}

fn failed(source: ArrowError) -> Error {
    Error::Arrow { action: "cannot hash values of an index", source }
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BinaryArray, BinaryViewArray, DictionaryArray, Float64Array, Int32Array, Int64Array, LargeStringArray,
        StringArray, StringViewArray,
    };
    use arrow::datatypes::Int32Type;

    use super::*;

    fn hashes(columns: &[ArrayRef]) -> Vec<Option<u64>> {
        Hasher::new(columns.iter().map(|column| column.data_type())).unwrap().hash(columns).unwrap()
    }

    /// Whatever form texts and bytes have, and with a dictionary or without.
    #[test]
    fn equal_values_have_one_hash_in_every_form() {
        let texts = ["", "a", "grün", "a rather long text, longer than the blocks of the row format are"];
        let forms: [ArrayRef; 4] = [
            Arc::new(StringArray::from_iter_values(texts)),
            Arc::new(StringViewArray::from_iter_values(texts)),
            Arc::new(LargeStringArray::from_iter_values(texts)),
            Arc::new(texts.into_iter().collect::<DictionaryArray<Int32Type>>()),
        ];
        let expected = hashes(&forms[..1]);
        for form in &forms {
            assert_eq!(hashes(std::slice::from_ref(form)), expected, "{}", form.data_type());
        }
        let bytes: [ArrayRef; 2] =
            [Arc::new(BinaryArray::from_iter_values(texts)), Arc::new(BinaryViewArray::from_iter_values(texts))];
        assert_eq!(hashes(&bytes[..1]), hashes(&bytes[1..]));
    }

    #[test]
    fn floats_have_one_zero_and_one_nan_and_null_has_no_hash() {
        let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
        let floats: ArrayRef =
            Arc::new(Float64Array::from(vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(other_nan), None]));
        let found = hashes(&[floats]);
        assert_eq!((found[0], found[2]), (found[1], found[3]));
        assert!(found[0].is_some() && found[0] != found[2] && found[4].is_none());
        let (a, b): (ArrayRef, ArrayRef) = (
            Arc::new(Int32Array::from(vec![Some(1), Some(1), None])),
            Arc::new(Int32Array::from(vec![Some(2), None, Some(2)])),
        );
        let both = hashes(&[Arc::clone(&a), Arc::clone(&b)]);
        assert!(both[0].is_some() && both[1..] == [None, None]);
        assert_ne!(both[0], hashes(&[b, a])[0], "the order of the columns counts");
    }

    /// Runs that are on disk were made with these.
    #[test]
    fn stored_hashes_never_change() {
        let columns: [ArrayRef; 2] =
            [Arc::new(Int64Array::from(vec![-7])), Arc::new(StringViewArray::from_iter_values(["Ancho"]))];
        assert_eq!(hashes(&columns), [Some(STORED)]);
    }

    const STORED: u64 = 0xb4c6_acaa_312b_7bf2;
}

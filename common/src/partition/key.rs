//! The key of a partition: the value of each partition expression, in a canonical textual form.
//!
//! The text alone identifies the value (two values are equal exactly when their texts are), and together with the
//! expression's type it can be turned back into the value. Numbers are decimal digits; dates, times and timestamps are
//! their stored integer; decimals are their unscaled integer; strings are themselves; binary is hexadecimal; NULL is
//! the absence of a text, so the string `NULL` and the empty string are ordinary values.
use std::{cmp::Ordering, fmt, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Decimal128Array, StringArray},
    compute::cast,
    datatypes::{DataType, Decimal128Type, Int64Type, UInt64Type},
    util::display::{ArrayFormatter, FormatOptions},
};
use datafusion::common::ScalarValue;
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    schema::{from_hex, to_hex},
};

/// Values of a table's partition expressions, in their order; empty for an unpartitioned table.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionKey(pub Vec<Option<String>>);

impl PartitionKey {
    /// Position for people and paths: `3/1995`, `∅` for NULL, `all` for an unpartitioned table.
    #[must_use]
    pub fn display(&self) -> String {
        if self.0.is_empty() {
            return "all".into();
        }
        let parts: Vec<String> = self.0.iter().map(|v| v.clone().unwrap_or_else(|| "∅".into())).collect();
        parts.join("/")
    }
}

impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.display())
    }
}

/// Whether values of this type can be a partition value. Floating-point numbers cannot (NaN and signed zero have no
/// agreed equality), nor can intervals and nested values.
#[must_use]
pub fn is_key_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_key_type(value),
        other => super::hash::is_hashable(other),
    }
}

/// Canonical texts of an array's values.
///
/// # Errors
/// The type cannot be a partition value.
pub fn canonical(values: &ArrayRef) -> Result<Vec<Option<String>>> {
    let convert = |from: &ArrayRef, to: &DataType| cast(from, to).map_err(|e| Error::internal(e.to_string()));
    Ok(match values.data_type() {
        DataType::Null => vec![None; values.len()],
        DataType::Dictionary(_, value) => return canonical(&convert(values, value)?),
        DataType::Boolean => values.as_boolean().iter().map(|v| v.map(|v| v.to_string())).collect(),
        DataType::UInt64 => values.as_primitive::<UInt64Type>().iter().map(|v| v.map(|v| v.to_string())).collect(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let array = convert(values, &DataType::LargeUtf8)?;
            array.as_string::<i64>().iter().map(|v| v.map(str::to_owned)).collect()
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let array = convert(values, &DataType::LargeBinary)?;
            array.as_binary::<i64>().iter().map(|v| v.map(to_hex)).collect()
        }
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => {
            let array = convert(values, &DataType::Decimal128(38, *s))?;
            array.as_primitive::<Decimal128Type>().iter().map(|v| v.map(|v| v.to_string())).collect()
        }
        // Date32 and Time32 are 32 bits wide and Arrow casts them to Int64 only through Int32.
        DataType::Date32 | DataType::Time32(_) => {
            let array = convert(&convert(values, &DataType::Int32)?, &DataType::Int64)?;
            array.as_primitive::<Int64Type>().iter().map(|v| v.map(|v| v.to_string())).collect()
        }
        t if t.is_integer() || matches!(t, DataType::Date64 | DataType::Timestamp(_, _) | DataType::Time64(_)) => {
            let array = convert(values, &DataType::Int64)?;
            array.as_primitive::<Int64Type>().iter().map(|v| v.map(|v| v.to_string())).collect()
        }
        other => return Err(Error::invalid(format!("a value of type {other} cannot be a partition value"))),
    })
}

/// Canonical text of one value.
///
/// # Errors
/// The type cannot be a partition value.
pub fn canonical_scalar(value: &ScalarValue) -> Result<Option<String>> {
    let array = value.to_array().map_err(|e| Error::internal(e.to_string()))?;
    Ok(canonical(&array)?.pop().flatten())
}

/// The values that canonical texts of one type stand for.
///
/// # Errors
/// A text is not of this type.
pub fn values(texts: &[Option<&str>], data_type: &DataType) -> Result<ArrayRef> {
    let bad = |text: &str| Error::corrupt(format!("partition value {text:?} is not of type {data_type}"));
    let failed = |e: arrow::error::ArrowError| Error::corrupt(format!("partition values of type {data_type}: {e}"));
    let integers = || -> Result<ArrayRef> {
        let parsed: Result<Vec<Option<i64>>> =
            texts.iter().map(|t| t.map(|t| t.parse().map_err(|_| bad(t))).transpose()).collect();
        Ok(Arc::new(arrow::array::Int64Array::from(parsed?)))
    };
    Ok(match data_type {
        DataType::Dictionary(_, value) => cast(&values(texts, value)?, data_type).map_err(failed)?,
        DataType::Boolean => {
            let parsed: Result<Vec<Option<bool>>> =
                texts.iter().map(|t| t.map(|t| t.parse().map_err(|_| bad(t))).transpose()).collect();
            Arc::new(arrow::array::BooleanArray::from(parsed?))
        }
        DataType::UInt64 => {
            let parsed: Result<Vec<Option<u64>>> =
                texts.iter().map(|t| t.map(|t| t.parse().map_err(|_| bad(t))).transpose()).collect();
            Arc::new(arrow::array::UInt64Array::from(parsed?))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            cast(&(Arc::new(StringArray::from(texts.to_vec())) as ArrayRef), data_type).map_err(failed)?
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let parsed: Result<Vec<Option<Vec<u8>>>> = texts.iter().map(|t| t.map(from_hex).transpose()).collect();
            let parsed = parsed?;
            let array = arrow::array::BinaryArray::from_iter(parsed.iter().map(Option::as_deref));
            cast(&(Arc::new(array) as ArrayRef), data_type).map_err(failed)?
        }
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => {
            let parsed: Result<Vec<Option<i128>>> =
                texts.iter().map(|t| t.map(|t| t.parse().map_err(|_| bad(t))).transpose()).collect();
            let array = Decimal128Array::from(parsed?).with_precision_and_scale(38, *s).map_err(failed)?;
            cast(&(Arc::new(array) as ArrayRef), data_type).map_err(failed)?
        }
        DataType::Date32 | DataType::Time32(_) => {
            cast(&cast(&integers()?, &DataType::Int32).map_err(failed)?, data_type).map_err(failed)?
        }
        _ => cast(&integers()?, data_type).map_err(failed)?,
    })
}

/// Order of two canonical texts of one type; `None` where the type has no order.
#[must_use]
pub fn compare(a: &str, b: &str, data_type: &DataType) -> Option<Ordering> {
    match data_type {
        DataType::Dictionary(_, value) => compare(a, b, value),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(a.as_bytes().cmp(b.as_bytes())),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            // Two digits a byte: the order of the texts is that of the bytes.
            Some(a.cmp(b))
        }
        DataType::Boolean => Some(a.parse::<bool>().ok()?.cmp(&b.parse::<bool>().ok()?)),
        t if is_key_type(t) => Some(a.parse::<i128>().ok()?.cmp(&b.parse::<i128>().ok()?)),
        _ => None,
    }
}

/// A canonical text as a person would write the value: `1995-01-01` rather than days since the epoch.
#[must_use]
pub fn readable(text: Option<&str>, data_type: &DataType) -> String {
    let Some(text) = text else { return "NULL".into() };
    let shown = values(&[Some(text)], data_type).ok().and_then(|array| {
        let options = FormatOptions::default();
        ArrayFormatter::try_new(array.as_ref(), &options).ok().map(|f| f.value(0).to_string())
    });
    shown.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int64Array, StringArray},
        datatypes::TimeUnit,
    };

    use super::*;

    #[test]
    fn every_key_type_survives_its_text() {
        let integers: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), Some(1), None, Some(86_400_000)]));
        let types = [
            DataType::Int64,
            DataType::UInt32,
            DataType::Date32,
            DataType::Date64,
            DataType::Timestamp(TimeUnit::Microsecond, Some("+02:00".into())),
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Decimal128(20, 3),
            DataType::Boolean,
        ];
        for to in types {
            let through = if to == DataType::Date32 { DataType::Int32 } else { DataType::Int64 };
            let array = cast(&cast(&integers, &through).unwrap(), &to).unwrap();
            let texts = canonical(&array).unwrap();
            let borrowed: Vec<Option<&str>> = texts.iter().map(Option::as_deref).collect();
            assert_eq!(*values(&borrowed, &to).unwrap(), *array, "{to}");
        }
    }

    #[test]
    fn odd_strings_are_distinct_keys() {
        let odd = vec![None, Some(""), Some("NULL"), Some("null"), Some("a/b"), Some("∅"), Some("A/B")];
        let array: ArrayRef = Arc::new(StringArray::from(odd.clone()));
        for to in [DataType::Utf8View, DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))] {
            let texts = canonical(&cast(&array, &to).unwrap()).unwrap();
            assert_eq!(texts.iter().map(Option::as_deref).collect::<Vec<_>>(), odd);
        }
    }

    #[test]
    fn texts_compare_as_their_values() {
        assert_eq!(compare("9", "10", &DataType::Int32), Some(Ordering::Less));
        assert_eq!(compare("9", "10", &DataType::Utf8), Some(Ordering::Greater));
        assert_eq!(compare("-9", "-10", &DataType::Decimal128(5, 2)), Some(Ordering::Greater));
        assert_eq!(compare("9", "10", &DataType::Float64), None);
    }
}

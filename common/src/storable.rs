//! Which column types a table can have: those that the storage engine gives back as they went in.
//!
//! The engine refuses the others itself when a partition is created; here they are refused before a table is made. A test
//! of the executor holds the two lists together.
use std::collections::HashSet;

use arrow::{
    array::timezone::Tz,
    datatypes::{DataType, Field, Fields, Schema, TimeUnit},
};

use crate::{
    error::{Condition, Error, Result},
    plan::row_ids,
};

const EXTENSION_NAME: &str = "ARROW:extension:name";
/// Extension types that files would give back as another type.
const EXTENSIONS: [&str; 2] = ["arrow.parquet.variant", "arrow.uuid"];

/// Refuses schemas that cannot be stored without loss.
///
/// # Errors
/// `Invalid`, naming the column (with the path inside a nested one), its type and what to use instead.
pub fn check(schema: &Schema) -> Result<()> {
    if schema.fields().is_empty() {
        return Err(Error::invalid("a table needs at least one column"));
    }
    check_names(schema.fields(), "")?;
    row_ids::check_names(schema)?;
    schema.fields().iter().try_for_each(|field| check_field(field, field.name()))
}

/// As [`check`], of one column.
///
/// # Errors
/// As [`check`].
pub fn check_column(field: &Field) -> Result<()> {
    check_field(field, field.name())
}

/// Whether values of a type can be a primary key: those whose equality is the same for SQL and for bytes. Floats have two
/// zeros and many NaN.
#[must_use]
pub fn is_key_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..) => true,
        DataType::Dictionary(_, values) => is_key_type(values),
        other => other.is_integer() || other.is_decimal(),
    }
}

/// Whether values of a type can say which of several rows of a key is the newest.
#[must_use]
pub fn is_time_type(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

/// Whether rows can be sorted by values of a type when files are rewritten.
#[must_use]
pub fn is_sort_type(data_type: &DataType) -> bool {
    !data_type.is_nested()
}

/// Whether rows can be looked up by values of a type in a secondary index.
#[must_use]
pub fn is_index_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_index_type(values),
        DataType::Null => false,
        other => !other.is_nested(),
    }
}

/// Most columns of a secondary index.
pub const MAX_INDEX_COLUMNS: usize = 16;

/// Whether rows can be clustered by values of a type when files are rewritten.
#[must_use]
pub fn is_cluster_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Decimal256(_, _) | DataType::Interval(_) | DataType::Duration(_) => false,
        DataType::Dictionary(_, values) => is_cluster_type(values),
        other => {
            other.is_numeric()
                || other.is_temporal()
                || other.is_string()
                || other.is_binary()
                || *other == DataType::Boolean
        }
    }
}

/// Most columns that rows can be clustered by.
pub const MAX_CLUSTER_COLUMNS: usize = 16;

fn check_names(fields: &Fields, parent: &str) -> Result<()> {
    let mut seen = HashSet::new();
    match fields.iter().find(|field| !seen.insert(field.name())) {
        Some(twice) => {
            let text = format!("column {parent}{} occurs twice; rename one of them", twice.name());
            Err(Error::invalid(text).with(Condition::DuplicateColumn))
        }
        None => Ok(()),
    }
}

fn check_field(field: &Field, path: &str) -> Result<()> {
    if let Some(instead) = refusal(field) {
        return Err(Error::invalid(format!("column {path}: type {} cannot be stored: {instead}", field.data_type())));
    }
    match field.data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            check_field(item, &format!("{path}[]"))
        }
        DataType::Struct(fields) => {
            check_names(fields, &format!("{path}."))?;
            fields.iter().try_for_each(|child| check_field(child, &format!("{path}.{}", child.name())))
        }
        _ => Ok(()),
    }
}

/// Why a field of this type cannot be stored and what to use, its children left aside.
fn refusal(field: &Field) -> Option<&'static str> {
    if let Some(name) = field.metadata().get(EXTENSION_NAME)
        && EXTENSIONS.contains(&name.as_str())
    {
        return Some("extension types are not offered; cast it to text or BYTEA");
    }
    match field.data_type() {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(TimeUnit::Second | TimeUnit::Millisecond)
        | DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond)
        | DataType::Timestamp(_, None)
        | DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(_, _) => None,
        DataType::Timestamp(_, Some(zone)) => {
            zone.parse::<Tz>().is_err().then_some("its time zone is not known; use one like Europe/Madrid or +02:00")
        }
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => (*scale < 0).then_some("use a decimal with a scale of at least 0"),
        DataType::Struct(fields) => fields.is_empty().then_some("give the struct at least one field"),
        DataType::Dictionary(key, value) => dictionary_refusal(key, value),
        DataType::FixedSizeBinary(_) => Some("use BYTEA (Arrow: Binary)"),
        DataType::Interval(_) => Some("store the number of months, days or microseconds as BIGINT"),
        DataType::Duration(_) => Some("store the number of seconds or smaller units as BIGINT"),
        DataType::Map(_, _) => Some("use a list of structs"),
        _ => Some("use another type"),
    }
}

fn dictionary_refusal(key: &DataType, value: &DataType) -> Option<&'static str> {
    // Rows of many batches share one dictionary, whose values could outnumber keys of fewer bits.
    if !matches!(key, DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64) {
        return Some("use dictionary keys of 32 or 64 bits");
    }
    let plain = matches!(value, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary);
    (!plain && !value.is_integer()).then_some("use a dictionary of texts, binaries or integers, or the plain type")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn the_place_inside_a_column_and_a_way_out_are_named() {
        let inner = Field::new("took", DataType::Duration(TimeUnit::Second), true);
        let step = DataType::Struct(vec![Field::new("name", DataType::Utf8, true), inner].into());
        let steps = DataType::List(Arc::new(Field::new("item", step, true)));
        let error = check(&Schema::new(vec![Field::new("steps", steps, true)])).unwrap_err();
        assert_eq!(
            error.message,
            "column steps[].took: type Duration(s) cannot be stored: store the number of seconds or smaller units as \
             BIGINT"
        );
        let twice = vec![Field::new("a", DataType::Int64, true), Field::new("a", DataType::Int64, true)];
        assert!(check(&Schema::new(twice)).unwrap_err().message.contains("column a occurs twice"));
        assert!(check(&Schema::empty()).is_err());
    }
}

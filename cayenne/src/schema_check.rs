//! Which schemas can be stored. What is let through here comes back from a scan with the same type
//! and the same values; the round-trip tests cover every entry of the list below.

use std::collections::HashSet;
use std::str::FromStr;

use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, Field, Fields, Schema, TimeUnit};

use vortex::arrow::ArrowSessionExt;
use vortex::scalar::{PValue, Scalar, ScalarValue};

use crate::error::{Error, Result};
use crate::row_id::{FILE_COLUMN, ROW_COLUMN};
use crate::session::write_session;

const EXTENSION_NAME: &str = "ARROW:extension:name";

/// Refuses schemas that cannot be stored without loss, naming the column.
///
/// # Errors
/// [`Error::UnsupportedType`] for a column, [`Error::BadSchema`] for the schema as a whole.
pub fn check_schema(schema: &Schema) -> Result<()> {
    if schema.fields().is_empty() {
        return Err(Error::BadSchema { detail: "a table needs at least one column".to_owned() });
    }
    check_names(schema.fields(), "")?;
    schema.fields().iter().try_for_each(|field| check_column(field))
}

/// Refuses a column that cannot be stored without loss.
pub(crate) fn check_column(field: &Field) -> Result<()> {
    check_field(field, field.name())
}

fn check_names(fields: &Fields, parent: &str) -> Result<()> {
    let mut seen = HashSet::new();
    for field in fields {
        if parent.is_empty() && [FILE_COLUMN, ROW_COLUMN].contains(&field.name().as_str()) {
            return Err(Error::BadSchema {
                detail: format!("column '{}' has a name that is reserved for the engine; choose another", field.name()),
            });
        }
        if !seen.insert(field.name()) {
            return Err(Error::BadSchema {
                detail: format!("column '{parent}{}' occurs twice; rename one of them", field.name()),
            });
        }
    }
    Ok(())
}

fn check_field(field: &Field, path: &str) -> Result<()> {
    let refuse = |reason: &str| {
        Err(Error::UnsupportedType {
            column: path.to_owned(),
            data_type: field.data_type().clone(),
            reason: reason.to_owned(),
        })
    };
    if let Some(name @ ("arrow.parquet.variant" | "arrow.uuid")) =
        field.metadata().get(EXTENSION_NAME).map(String::as_str)
    {
        return refuse(&format!("the extension type {name} is not supported"));
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
        | DataType::Timestamp(_, None) => Ok(()),
        DataType::Timestamp(_, Some(zone)) => {
            if Tz::from_str(zone).is_ok() && storable_zone(field) {
                Ok(())
            } else {
                refuse("the time zone is not known (named zones need the system's time zone database)")
            }
        }
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale)
        | DataType::Decimal256(_, scale) => {
            if *scale < 0 {
                refuse("decimals with a negative scale are not supported")
            } else {
                Ok(())
            }
        }
        // Arrow's own kernels lose count of the rows of such lists.
        DataType::FixedSizeList(_, size) if *size <= 0 => refuse("a list of fixed size needs at least one item"),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            check_field(item, &format!("{path}[]"))
        }
        DataType::Struct(fields) => {
            if fields.is_empty() {
                return refuse("a struct needs at least one field");
            }
            check_names(fields, &format!("{path}."))?;
            fields.iter().try_for_each(|child| check_field(child, &format!("{path}.{}", child.name())))
        }
        DataType::Dictionary(key, value) => check_dictionary(key, value).or_else(refuse),
        DataType::FixedSizeBinary(_) => refuse("use a variable-length binary type"),
        DataType::Interval(_) => refuse("store the number of months, days or microseconds as an integer"),
        DataType::Duration(_) => refuse("store it as a 64-bit integer"),
        DataType::Map(_, _) => refuse("use a list of structs"),
        _ => refuse("the file format has no such type"),
    }
}

/// The file format has its own idea of time zones, which shows when it makes a value.
fn storable_zone(field: &Field) -> bool {
    let epoch = ScalarValue::Primitive(PValue::I64(0));
    write_session().arrow().from_arrow_field(field).and_then(|dtype| Scalar::try_new(dtype, Some(epoch))).is_ok()
}

/// Keys of 8 or 16 bits are refused: rows of many batches share one dictionary when they are read
/// back, and its values could outnumber the keys.
fn check_dictionary(key: &DataType, value: &DataType) -> std::result::Result<(), &'static str> {
    if !matches!(key, DataType::Int32 | DataType::UInt32 | DataType::Int64 | DataType::UInt64) {
        return Err("dictionary keys must have 32 or 64 bits");
    }
    match value {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => Ok(()),
        other if other.is_integer() => Ok(()),
        _ => Err("dictionary values must be text, binary or integers"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{IntervalUnit, UnionFields};

    use super::*;

    fn check(data_type: DataType) -> Result<()> {
        check_schema(&Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("c", data_type, true)]))
    }

    #[test]
    fn refuses_what_cannot_be_stored_naming_the_column() {
        let run_ends = Arc::new(Field::new("run_ends", DataType::Int32, false));
        let values = Arc::new(Field::new("values", DataType::Utf8, true));
        for data_type in [
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Duration(TimeUnit::Second),
            DataType::FixedSizeBinary(16),
            DataType::Union(UnionFields::empty(), arrow::datatypes::UnionMode::Dense),
            DataType::RunEndEncoded(run_ends, values),
            DataType::Timestamp(TimeUnit::Second, Some("No/Where".into())),
            DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
            DataType::Null,
            DataType::FixedSizeList(Arc::new(Field::new_list_field(DataType::Int8, true)), 0),
            DataType::Struct(Fields::empty()),
            DataType::new_list(DataType::Duration(TimeUnit::Second), true),
        ] {
            let message = check(data_type.clone()).expect_err(&data_type.to_string()).to_string();
            assert!(message.contains("column 'c"), "{message}");
        }
    }

    #[test]
    fn takes_known_zones_and_refuses_repeated_names() {
        for zone in ["+00:00", "-03:30", "Etc/UTC", "Europe/Madrid"] {
            check(DataType::Timestamp(TimeUnit::Nanosecond, Some(zone.into()))).unwrap();
        }
        let twice = Schema::new(vec![Field::new("a", DataType::Int64, false), Field::new("a", DataType::Int64, false)]);
        assert!(matches!(check_schema(&twice), Err(Error::BadSchema { .. })));
        assert!(check_schema(&Schema::empty()).is_err());
    }
}

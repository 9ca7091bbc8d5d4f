//! Changes of a table's columns: what they make of a schema, and which are refused because they could lose a value.
//!
//! The storage engine has rules of its own for what it can change without rewriting a file; a test of the executor holds
//! the two together, so that no change is agreed on that an owner cannot follow.
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Error, Result},
    schema::{from_hex, from_ipc, to_hex, to_ipc},
    storable,
};

/// One change of one column.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnChange {
    /// A new column behind the others. Rows that exist have NULL in it.
    Add {
        /// The column.
        #[serde(with = "as_text")]
        column: Field,
    },
    /// A column and its values go.
    Drop {
        /// Its name.
        name: String,
    },
    /// A column gets another name.
    Rename {
        /// Its name.
        name: String,
        /// Its new name.
        to: String,
    },
    /// A column gets a type that holds all of its values; or its structs, also those in lists, get one field more, which is NULL in
    /// values that exist.
    Widen {
        /// The column with its new type.
        #[serde(with = "as_text")]
        column: Field,
    },
}

/// A field as the hexadecimal text of a schema that has only it.
mod as_text {
    use serde::{Deserializer, Serializer, de::Error as _};

    use super::{Deserialize, Field, Schema, from_hex, from_ipc, to_hex, to_ipc};

    pub(super) fn serialize<S: Serializer>(field: &Field, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&to_hex(&to_ipc(&Schema::new(vec![field.clone()]))))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Field, D::Error> {
        let text = String::deserialize(deserializer)?;
        let schema = from_hex(&text).and_then(|bytes| from_ipc(&bytes)).map_err(D::Error::custom)?;
        match schema.fields().as_ref() {
            [field] => Ok(field.as_ref().clone()),
            fields => Err(D::Error::custom(format!("{} fields where one is meant", fields.len()))),
        }
    }
}

impl ColumnChange {
    /// The column that it is about.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Add { column } | Self::Widen { column } => column.name(),
            Self::Drop { name } | Self::Rename { name, .. } => name,
        }
    }

    /// The schema after the change.
    ///
    /// # Errors
    /// `Invalid`, `NotFound` or `AlreadyExists`, naming the column, when the change is not possible or could lose a value.
    pub fn apply(&self, schema: &Schema) -> Result<SchemaRef> {
        let mut fields = schema.fields().to_vec();
        let taken = |name: &str| schema.column_with_name(name).is_some();
        match self {
            Self::Add { column } => {
                if taken(column.name()) {
                    return Err(exists(column.name()));
                }
                if !column.is_nullable() {
                    return Err(Error::invalid(format!(
                        "column {}: rows that exist have no value for it, so it must allow NULL",
                        column.name()
                    )));
                }
                fields.push(Arc::new(column.clone()));
            }
            Self::Drop { name } => {
                fields.remove(find(schema, name)?);
                if fields.is_empty() {
                    return Err(Error::invalid(format!("column {name} is the last one; drop the table instead")));
                }
            }
            Self::Rename { name, to } => {
                let index = find(schema, name)?;
                if taken(to) {
                    return Err(exists(to));
                }
                fields[index] = Arc::new(fields[index].as_ref().clone().with_name(to));
            }
            Self::Widen { column } => {
                let index = find(schema, column.name())?;
                let (from, to) = (fields[index].data_type(), column.data_type());
                if !widens(from, to) && added_field(from, to).is_none() {
                    let why = if from == to { "it has this type already" } else { "a value could be lost or changed" };
                    return Err(Error::invalid(format!(
                        "column {} cannot become {to} from {from}: {why}",
                        column.name()
                    )));
                }
                fields[index] = Arc::new(fields[index].as_ref().clone().with_data_type(to.clone()));
            }
        }
        let schema = Schema::new(fields);
        storable::check(&schema)?;
        Ok(Arc::new(schema))
    }
}

fn find(schema: &Schema, name: &str) -> Result<usize> {
    schema.index_of(name).map_err(|_| Error::not_found(format!("column {name} does not exist")))
}

fn exists(name: &str) -> Error {
    Error::already_exists(format!("column {name} exists; choose another name"))
}

/// Whether every value of type `from` keeps its meaning, its order and its equality as type `to`. Finer units of a timestamp
/// hold fewer years, so they are left out: whether they fit depends on the rows.
#[must_use]
pub fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    match (from, to) {
        (from, to) if from == to => false,
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
        (UInt8, UInt16 | UInt32 | UInt64 | Int16 | Int32 | Int64) => true,
        (UInt16, UInt32 | UInt64 | Int32 | Int64) | (UInt32, UInt64 | Int64) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Utf8, LargeUtf8 | Utf8View) | (Binary, LargeBinary | BinaryView) => true,
        (Time32(old), Time32(new) | Time64(new)) | (Time64(old), Time64(new)) => rank(*new) > rank(*old),
        (from, to) => match (digits(from), digits(to)) {
            (Some((precision, scale)), Some((new_precision, new_scale))) => {
                let before_point = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
                new_scale >= scale
                    && before_point(new_precision, new_scale) >= before_point(precision, scale)
                    && to.primitive_width() >= from.primitive_width()
            }
            _ => false,
        },
    }
}

/// The field that structs of type `to` have behind those that they have as type `from`, if that is all in which the two differ; with
/// the names of fields on the way to it, where it is in a struct inside. Lists are looked through. It must allow NULL.
#[must_use]
pub fn added_field(from: &DataType, to: &DataType) -> Option<(Vec<String>, Field)> {
    use DataType::{LargeList, List, Struct};
    let same = |a: &Field, b: &Field| {
        (a.name(), a.is_nullable()) == (b.name(), b.is_nullable()) && a.data_type().equals_datatype(b.data_type())
    };
    match (from, to) {
        (List(from), List(to)) | (LargeList(from), LargeList(to)) if from.is_nullable() == to.is_nullable() => {
            added_field(from.data_type(), to.data_type())
        }
        (Struct(before), Struct(after)) => {
            let mut differing = before.iter().zip(after).filter(|(a, b)| !same(a, b));
            match (differing.next(), after.get(before.len())) {
                (None, Some(new)) if after.len() == before.len() + 1 && new.is_nullable() => {
                    Some((Vec::new(), new.as_ref().clone()))
                }
                (Some((a, b)), None) if before.len() == after.len() && differing.next().is_none() => {
                    let inside = (a.name(), a.is_nullable()) == (b.name(), b.is_nullable());
                    let (mut path, new) = inside.then(|| added_field(a.data_type(), b.data_type()))??;
                    path.insert(0, a.name().clone());
                    Some((path, new))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        _ => None,
    }
}

fn rank(unit: TimeUnit) -> u8 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn schema() -> Schema {
        Schema::new(vec![Field::new("id", DataType::Int32, false), Field::new("name", DataType::Utf8, true)])
    }

    fn column(name: &str, data_type: DataType) -> Field {
        Field::new(name, data_type, true)
    }

    #[test]
    fn each_change_does_what_it_says() {
        let names = |schema: &Schema| schema.fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
        let added = ColumnChange::Add { column: column("at", DataType::Date32) }.apply(&schema()).unwrap();
        assert_eq!(names(&added), ["id", "name", "at"]);
        let renamed = ColumnChange::Rename { name: "id".into(), to: "key".into() }.apply(&added).unwrap();
        assert_eq!((names(&renamed)[0].as_str(), renamed.field(0).is_nullable()), ("key", false));
        let wide = ColumnChange::Widen { column: column("key", DataType::Int64) }.apply(&renamed).unwrap();
        // Whether NULL is allowed stays as it was.
        assert_eq!(wide.field(0), &Field::new("key", DataType::Int64, false));
        assert_eq!(names(&ColumnChange::Drop { name: "name".into() }.apply(&wide).unwrap()), ["key", "at"]);
    }

    #[test]
    fn what_is_not_possible_is_refused_by_column() {
        let not_null = Field::new("n", DataType::Int8, false);
        for (change, kind, part) in [
            (ColumnChange::Add { column: column("id", DataType::Int8) }, ErrorKind::AlreadyExists, "column id"),
            (ColumnChange::Add { column: not_null }, ErrorKind::Invalid, "column n"),
            (ColumnChange::Add { column: column("d", DataType::Duration(TimeUnit::Second)) }, ErrorKind::Invalid, "d"),
            (ColumnChange::Drop { name: "x".into() }, ErrorKind::NotFound, "column x"),
            (ColumnChange::Rename { name: "id".into(), to: "name".into() }, ErrorKind::AlreadyExists, "column name"),
            (ColumnChange::Rename { name: "x".into(), to: "y".into() }, ErrorKind::NotFound, "column x"),
            (ColumnChange::Widen { column: column("id", DataType::Int16) }, ErrorKind::Invalid, "lost"),
            (ColumnChange::Widen { column: column("id", DataType::Int32) }, ErrorKind::Invalid, "already"),
        ] {
            let error = change.apply(&schema()).unwrap_err();
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(part), "{error}");
        }
        let last = Schema::new(vec![column("a", DataType::Int8)]);
        assert!(ColumnChange::Drop { name: "a".into() }.apply(&last).is_err());
    }

    #[test]
    fn structs_get_one_field_more_wherever_they_are() {
        let of = |fields: &[(&str, DataType)]| {
            let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
            DataType::Struct(fields.iter().map(field).collect())
        };
        let list = |item: DataType| DataType::List(Arc::new(Field::new("item", item, true)));
        let (one, two) = (of(&[("a", DataType::Int8)]), of(&[("a", DataType::Int8), ("b", DataType::Utf8)]));
        let b = Field::new("b", DataType::Utf8, true);
        assert_eq!(added_field(&one, &two), Some((vec![], b.clone())));
        assert_eq!(added_field(&list(list(one.clone())), &list(list(two.clone()))), Some((vec![], b.clone())));
        let deep = |inner: &DataType| of(&[("x", DataType::Int8), ("y", list(of(&[("z", inner.clone())])))]);
        let path = vec!["y".to_owned(), "z".to_owned()];
        assert_eq!(added_field(&deep(&one), &deep(&two)), Some((path, b)));
        let change = ColumnChange::Widen { column: column("s", list(two.clone())) };
        let changed = change.apply(&Schema::new(vec![column("s", list(one.clone()))])).unwrap();
        assert_eq!(changed.field(0).data_type(), &list(two.clone()));

        let not_null =
            DataType::Struct(vec![column("a", DataType::Int8), Field::new("b", DataType::Utf8, false)].into());
        let both = |inner: &DataType| of(&[("x", inner.clone()), ("y", inner.clone())]);
        for (from, to) in [
            (&one, &one),
            (&two, &one),
            (&one, &not_null),
            (&one, &of(&[("b", DataType::Utf8), ("a", DataType::Int8)])),
            (&one, &of(&[("a", DataType::Int16), ("b", DataType::Utf8)])),
            (&one, &of(&[("a", DataType::Int8), ("b", DataType::Utf8), ("c", DataType::Utf8)])),
            (&both(&one), &both(&two)),
            (&one, &list(two.clone())),
        ] {
            assert_eq!(added_field(from, to), None, "{from} to {to}");
        }
    }

    #[test]
    fn changes_survive_being_written_down() {
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("Europe/Madrid".into()));
        for change in [
            ColumnChange::Add { column: column("at", zoned) },
            ColumnChange::Rename { name: "a".into(), to: "b".into() },
            ColumnChange::Drop { name: "ü \"q\"".into() },
            ColumnChange::Widen { column: column("d", DataType::Decimal128(38, 4)) },
        ] {
            let text = serde_json::to_string(&change).unwrap();
            assert_eq!(serde_json::from_str::<ColumnChange>(&text).unwrap(), change, "{text}");
        }
    }
}

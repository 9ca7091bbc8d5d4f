//! Changes of a table's columns. A change that could lose or alter a stored value is refused.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use datafusion::common::ScalarValue;

use super::table_schema::TableSchema;
use super::widen::{Widening, widening};
use crate::error::{Error, Result};
use crate::schema_check::check_schema;
use crate::value_range::out_of_range;

/// One change of a table's columns. A column is named by its path: one name for a column of the table, several for a field
/// of a struct. Lists on the way are looked through, so `["events", "at"]` is also the field `at` of a list of structs `events`.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaChange {
    /// Adds a field behind the others.
    Add {
        /// Path of the struct; empty for a column of the table.
        parent: Vec<String>,
        /// The new field.
        field: Field,
        /// What rows that exist have in it; NULL if `None`. For columns of the table only.
        default: Option<ScalarValue>,
    },
    /// Removes a field and its values.
    Drop {
        /// Path of the field.
        path: Vec<String>,
    },
    /// Calls a field by another name.
    Rename {
        /// Path of the field.
        path: Vec<String>,
        /// Its new last name.
        to: String,
    },
    /// Gives a field a type that holds all of its values.
    Widen {
        /// Path of the field.
        path: Vec<String>,
        /// The new type.
        to: DataType,
    },
}

impl SchemaChange {
    /// The path that the change is about.
    pub fn path(&self) -> Vec<String> {
        match self {
            SchemaChange::Add { parent, field, .. } => parent.iter().chain([field.name()]).cloned().collect(),
            SchemaChange::Drop { path } | SchemaChange::Rename { path, .. } | SchemaChange::Widen { path, .. } => {
                path.clone()
            }
        }
    }
}

/// A changed schema.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Changed {
    pub(crate) schema: TableSchema,
    /// A column, by its stored name, whose values have to be looked at before the change is safe.
    pub(crate) check_range: Option<String>,
}

/// The schema after `change`. `history` are all stored schemas that the table ever had, so that no name is used for
/// two fields; `schema_id` is new.
pub(crate) fn apply(
    schema: &TableSchema,
    change: &SchemaChange,
    history: &[SchemaRef],
    schema_id: i64,
) -> Result<Changed> {
    let path = change.path();
    let editor = Editor { change, history, schema_id, shown: path.join(".") };
    let Some((leaf, parent)) = path.split_last() else {
        return Err(editor.refused("a change needs the name of a column"));
    };
    let (logical, stored) = editor.fields(schema.logical.fields(), schema.stored.fields(), parent, leaf, &[])?;
    let mut changed = TableSchema {
        id: schema_id,
        logical: Arc::new(Schema::new(logical)),
        stored: Arc::new(Schema::new(stored)),
        defaults: schema.defaults.clone(),
    };
    check_schema(&changed.logical)?;
    let mut check_range = None;
    match change {
        SchemaChange::Add { parent, field, default } => editor.set_default(&mut changed, parent, field, default)?,
        SchemaChange::Widen { to, .. } => {
            let column = schema.logical.index_of(&path[0]).ok().filter(|_| path.len() == 1);
            if let Some(index) = column {
                let stored = schema.stored.field(index).name();
                if let Some(value) = changed.defaults.get_mut(stored) {
                    *value = value.cast_to(to).map_err(|_| editor.refused("its default does not fit"))?;
                }
                let from = schema.logical.field(index).data_type();
                check_range = (widening(from, to) == Some(Widening::IfInRange)).then(|| stored.clone());
            }
        }
        SchemaChange::Drop { .. } => {
            let stored = Arc::clone(&changed.stored);
            changed.defaults.retain(|name, _| stored.index_of(name).is_ok());
        }
        SchemaChange::Rename { .. } => {}
    }
    Ok(Changed { schema: changed, check_range })
}

struct Editor<'a> {
    change: &'a SchemaChange,
    history: &'a [SchemaRef],
    schema_id: i64,
    shown: String,
}

type Edited = (Vec<FieldRef>, Vec<FieldRef>);

impl Editor<'_> {
    fn refused(&self, detail: impl Into<String>) -> Error {
        Error::SchemaChangeRefused { column: self.shown.clone(), detail: detail.into() }
    }

    /// Changes `leaf` below `parent`; `above` is the stored path so far.
    fn fields(
        &self,
        logical: &Fields,
        stored: &Fields,
        parent: &[String],
        leaf: &str,
        above: &[String],
    ) -> Result<Edited> {
        let Some((next, rest)) = parent.split_first() else {
            return self.leaf(logical, stored, leaf, above);
        };
        let index = self.find(logical, next)?;
        let mut above = above.to_vec();
        above.push(stored[index].name().clone());
        let types = (logical[index].data_type(), stored[index].data_type());
        let (inner, inner_stored) = self.inside(types.0, types.1, rest, leaf, &above)?;
        let (mut logical, mut stored) = (logical.to_vec(), stored.to_vec());
        logical[index] = with_type(&logical[index], inner);
        stored[index] = with_type(&stored[index], inner_stored);
        Ok((logical, stored))
    }

    fn inside(
        &self,
        logical: &DataType,
        stored: &DataType,
        parent: &[String],
        leaf: &str,
        above: &[String],
    ) -> Result<(DataType, DataType)> {
        let item = |item: &FieldRef, stored: &FieldRef| -> Result<(FieldRef, FieldRef)> {
            let (inner, inner_stored) = self.inside(item.data_type(), stored.data_type(), parent, leaf, above)?;
            Ok((with_type(item, inner), with_type(stored, inner_stored)))
        };
        Ok(match (logical, stored) {
            (DataType::Struct(logical), DataType::Struct(stored)) => {
                let (logical, stored) = self.fields(logical, stored, parent, leaf, above)?;
                (DataType::Struct(logical.into()), DataType::Struct(stored.into()))
            }
            (DataType::List(logical), DataType::List(stored)) => {
                let (logical, stored) = item(logical, stored)?;
                (DataType::List(logical), DataType::List(stored))
            }
            (DataType::LargeList(logical), DataType::LargeList(stored)) => {
                let (logical, stored) = item(logical, stored)?;
                (DataType::LargeList(logical), DataType::LargeList(stored))
            }
            (DataType::FixedSizeList(logical, size), DataType::FixedSizeList(stored, _)) => {
                let (logical, stored) = item(logical, stored)?;
                (DataType::FixedSizeList(logical, *size), DataType::FixedSizeList(stored, *size))
            }
            (other, _) => return Err(self.refused(format!("a column of type {other} has no fields"))),
        })
    }

    fn find(&self, fields: &Fields, name: &str) -> Result<usize> {
        fields
            .iter()
            .position(|field| field.name() == name)
            .ok_or_else(|| self.refused(format!("there is no column '{name}'")))
    }

    fn leaf(&self, logical: &Fields, stored: &Fields, leaf: &str, above: &[String]) -> Result<Edited> {
        let (mut fields, mut files) = (logical.to_vec(), stored.to_vec());
        let taken = |name: &str| logical.iter().any(|field| field.name() == name);
        match self.change {
            SchemaChange::Add { field, default, .. } => {
                if taken(leaf) {
                    return Err(self.refused("there is a column of this name"));
                }
                if !field.is_nullable() && (default.is_none() || !above.is_empty()) {
                    return Err(self.refused(if above.is_empty() {
                        "rows that exist have no value for it; allow NULL or give a default"
                    } else {
                        "a field that is added to a struct must allow NULL"
                    }));
                }
                let stored = field.clone().with_name(self.fresh_name(leaf, above));
                fields.push(Arc::new(field.clone()));
                files.push(Arc::new(stored));
            }
            SchemaChange::Drop { .. } => {
                let index = self.find(logical, leaf)?;
                if fields.len() == 1 {
                    return Err(self.refused("it is the last one"));
                }
                fields.remove(index);
                files.remove(index);
            }
            SchemaChange::Rename { to, .. } => {
                let index = self.find(logical, leaf)?;
                if taken(to) {
                    return Err(self.refused(format!("there is a column '{to}'")));
                }
                fields[index] = Arc::new(fields[index].as_ref().clone().with_name(to));
            }
            SchemaChange::Widen { to, .. } => {
                let index = self.find(logical, leaf)?;
                let from = fields[index].data_type().clone();
                match widening(&from, to) {
                    Some(Widening::IfInRange) if !above.is_empty() => {
                        return Err(self.refused(format!(
                            "values of type {from} inside a struct or list cannot be checked to fit {to}"
                        )));
                    }
                    Some(_) => {
                        fields[index] = with_type(&fields[index], to.clone());
                        files[index] = with_type(&files[index], to.clone());
                    }
                    None if from == *to => return Err(self.refused(format!("its type is {from} already"))),
                    None => return Err(self.refused(format!("not every value of type {from} is one of type {to}"))),
                }
            }
        }
        Ok((fields, files))
    }

    /// A stored name that no field at this place ever had.
    fn fresh_name(&self, name: &str, above: &[String]) -> String {
        let used = |candidate: &str| {
            self.history.iter().any(|schema| {
                stored_fields(schema.fields(), above)
                    .is_some_and(|fields| fields.iter().any(|field| field.name() == candidate))
            })
        };
        if !used(name) {
            return name.to_owned();
        }
        let mut suffix = self.schema_id;
        loop {
            let candidate = format!("{name}~{suffix}");
            if !used(&candidate) {
                return candidate;
            }
            suffix += 1;
        }
    }

    fn set_default(
        &self,
        changed: &mut TableSchema,
        parent: &[String],
        field: &Field,
        default: &Option<ScalarValue>,
    ) -> Result<()> {
        let Some(value) = default else { return Ok(()) };
        if !parent.is_empty() {
            return Err(self.refused("only columns of the table can have a default"));
        }
        if value.data_type() != *field.data_type() {
            return Err(self.refused(format!(
                "its default has type {} instead of {}",
                value.data_type(),
                field.data_type()
            )));
        }
        if value.is_null() {
            return if field.is_nullable() { Ok(()) } else { Err(self.refused("its default is NULL")) };
        }
        if let Some(detail) = out_of_range(&value.to_array()?) {
            return Err(self.refused(format!("its default cannot be stored: {detail}")));
        }
        if let Some(stored) = changed.stored.fields().last() {
            changed.defaults.insert(stored.name().clone(), value.clone());
        }
        Ok(())
    }
}

fn with_type(field: &FieldRef, data_type: DataType) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// The fields below a stored path, lists looked through.
fn stored_fields<'a>(fields: &'a Fields, path: &[String]) -> Option<&'a Fields> {
    let Some((next, rest)) = path.split_first() else { return Some(fields) };
    let (_, field) = fields.find(next)?;
    let mut data_type = field.data_type();
    while let DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) = data_type {
        data_type = item.data_type();
    }
    match data_type {
        DataType::Struct(fields) => stored_fields(fields, rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;
    use crate::schema::table_schema::names;

    fn path(path: &str) -> Vec<String> {
        path.split('.').map(str::to_owned).collect()
    }

    fn add(at: &str, data_type: DataType) -> SchemaChange {
        let mut parent = path(at);
        let name = parent.pop().unwrap();
        SchemaChange::Add { parent, field: Field::new(name, data_type, true), default: None }
    }

    fn drop(at: &str) -> SchemaChange {
        SchemaChange::Drop { path: path(at) }
    }

    fn rename(at: &str, to: &str) -> SchemaChange {
        SchemaChange::Rename { path: path(at), to: to.to_owned() }
    }

    fn widen(at: &str, to: DataType) -> SchemaChange {
        SchemaChange::Widen { path: path(at), to }
    }

    struct Table {
        schema: TableSchema,
        history: Vec<SchemaRef>,
    }

    impl Table {
        fn new() -> Self {
            let event =
                Fields::from(vec![Field::new("at", DataType::Int32, true), Field::new("x", DataType::Utf8, true)]);
            let events = DataType::new_list(DataType::Struct(event), true);
            let schema = TableSchema::new(
                1,
                Arc::new(Schema::new(vec![
                    Field::new("id", DataType::Int32, false),
                    Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
                    Field::new("events", events, true),
                ])),
            );
            Self { history: vec![Arc::clone(&schema.stored)], schema }
        }

        fn change(&mut self, change: &SchemaChange) -> Result<Option<String>> {
            let id = i64::try_from(self.history.len()).unwrap() + 1;
            let changed = apply(&self.schema, change, &self.history, id)?;
            self.history.push(Arc::clone(&changed.schema.stored));
            self.schema = changed.schema;
            Ok(changed.check_range)
        }
    }

    #[test]
    fn a_name_is_never_stored_for_two_fields() {
        let mut table = Table::new();
        for change in [
            rename("id", "key"),
            add("id", DataType::Date32),
            drop("id"),
            add("id", DataType::Boolean),
            drop("events.x"),
            add("events.x", DataType::Int64),
            rename("events.at", "when"),
            rename("events", "log"),
            add("log.at", DataType::Utf8),
            widen("log.when", DataType::Int64),
        ] {
            table.change(&change).unwrap();
        }
        assert_eq!(names(&table.schema.logical), ["key", "t", "log.when", "log.x", "log.at", "id"]);
        assert_eq!(names(&table.schema.stored), ["id", "t", "events.at", "events.x~7", "events.at~10", "id~5"]);
    }

    #[test]
    fn changes_that_cannot_be_are_refused_by_column() {
        for (change, part) in [
            (add("id", DataType::Int32), "of this name"),
            (add("id.x", DataType::Int32), "no fields"),
            (add("nothing.x", DataType::Int32), "'nothing'"),
            (drop("nothing"), "'nothing'"),
            (rename("id", "t"), "'t'"),
            (widen("id", DataType::Int16), "not every value"),
            (widen("id", DataType::Int32), "already"),
            (SchemaChange::Drop { path: Vec::new() }, "needs the name"),
            (
                SchemaChange::Add { parent: vec![], field: Field::new("n", DataType::Int32, false), default: None },
                "default",
            ),
            (
                SchemaChange::Add {
                    parent: vec![],
                    field: Field::new("n", DataType::Int32, false),
                    default: Some(ScalarValue::Int64(Some(1))),
                },
                "instead of Int32",
            ),
        ] {
            let error = Table::new().change(&change).unwrap_err();
            assert!(matches!(&error, Error::SchemaChangeRefused { .. }), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        let unsupported = add("d", DataType::Duration(TimeUnit::Second));
        assert!(matches!(Table::new().change(&unsupported), Err(Error::UnsupportedType { .. })));
    }

    #[test]
    fn defaults_follow_their_column() {
        let mut table = Table::new();
        let field = Field::new("n", DataType::Int32, false);
        table.change(&SchemaChange::Add { parent: vec![], field, default: Some(ScalarValue::Int32(Some(7))) }).unwrap();
        table.change(&rename("n", "m")).unwrap();
        table.change(&widen("m", DataType::Int64)).unwrap();
        assert_eq!(table.schema.defaults["n"], ScalarValue::Int64(Some(7)));
        table.change(&drop("m")).unwrap();
        assert!(table.schema.defaults.is_empty());
    }

    #[test]
    fn finer_units_need_a_look_at_the_rows() {
        let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
        assert_eq!(Table::new().change(&widen("t", nanos)).unwrap(), Some("t".to_owned()));
        assert_eq!(Table::new().change(&widen("id", DataType::Int64)).unwrap(), None);
    }
}

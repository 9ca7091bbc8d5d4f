//! Which columns an index is over, and how runs are recognised as its own.

use arrow::datatypes::{DataType, Schema};

use crate::error::{Error, Result};
use crate::schema::TableSchema;

/// Most columns of an index.
const MAX_COLUMNS: usize = 16;

/// Refuses indexes over columns that the table does not have or that have no exact values.
pub(crate) fn check(indexes: &[Vec<String>], schema: &Schema) -> Result<()> {
    let refuse = |detail: String| Err(Error::BadOption { option: "indexes", detail });
    for (number, columns) in indexes.iter().enumerate() {
        if columns.is_empty() || columns.len() > MAX_COLUMNS {
            return refuse(format!("an index is over 1 to {MAX_COLUMNS} columns, and one has {}", columns.len()));
        }
        for (index, name) in columns.iter().enumerate() {
            let Ok(field) = schema.field_with_name(name) else {
                return refuse(format!("the table has no column '{name}'"));
            };
            if !can_be_indexed(field.data_type()) {
                return refuse(format!("column '{name}' has type {}, which cannot be indexed", field.data_type()));
            }
            if columns[..index].contains(name) {
                return refuse(format!("column '{name}' is named twice in one index"));
            }
        }
        if indexes[..number].contains(columns) {
            return refuse(format!("there are two indexes over {}", name(columns)));
        }
    }
    Ok(())
}

/// Whether values of a type can be looked up.
pub(crate) fn can_be_indexed(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => can_be_indexed(values),
        DataType::Null => false,
        other => !other.is_nested(),
    }
}

/// An index as people see it: `(a, b)`.
pub(crate) fn name(columns: &[String]) -> String {
    format!("({})", columns.join(", "))
}

/// An index in the columns of one schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Where its columns are.
    pub(crate) columns: Vec<usize>,
    /// The same as long as stored values mean the same: columns by their stored names, with the types of their values.
    pub(crate) text: String,
}

impl Definition {
    /// `None` if the schema lacks a column, as an older one may.
    pub(crate) fn of(columns: &[String], schema: &TableSchema) -> Option<Self> {
        let columns: Vec<usize> =
            columns.iter().map(|name| schema.logical.index_of(name).ok()).collect::<Option<_>>()?;
        let parts: Vec<[String; 2]> = columns
            .iter()
            .map(|&column| {
                let field = schema.logical.field(column);
                [schema.stored.field(column).name().clone(), type_text(field.data_type())]
            })
            .collect();
        let fits = columns.iter().all(|&column| can_be_indexed(schema.logical.field(column).data_type()));
        let text = serde_json::to_string(&parts).ok()?;
        fits.then_some(Self { columns, text })
    }
}

/// All indexes in the columns of a schema.
pub(crate) fn definitions(indexes: &[Vec<String>], schema: &TableSchema) -> Vec<Definition> {
    indexes.iter().filter_map(|columns| Definition::of(columns, schema)).collect()
}

/// The indexes after a change of the columns: by the new names, and without those that lost a column.
pub(crate) fn follow(indexes: &[Vec<String>], before: &TableSchema, after: &TableSchema) -> Vec<Vec<String>> {
    let renamed = |name: &String| {
        let stored = before.stored.field(before.logical.index_of(name).ok()?).name();
        Some(after.logical.field(after.stored.index_of(stored).ok()?).name().clone())
    };
    indexes.iter().filter_map(|columns| columns.iter().map(renamed).collect()).collect()
}

/// Types whose values have one hash have one text.
fn type_text(data_type: &DataType) -> String {
    match data_type {
        DataType::Dictionary(_, values) => type_text(values),
        text if text.is_string() => "text".to_owned(),
        bytes if bytes.is_binary() => "bytes".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    #[test]
    fn what_cannot_be_indexed_is_refused_by_name() {
        let list = DataType::List(std::sync::Arc::new(Field::new("item", DataType::Int32, true)));
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("d", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), true),
            Field::new("l", list, true),
            Field::new("n", DataType::Null, true),
        ]);
        let of = |indexes: &[&[&str]]| {
            let indexes: Vec<Vec<String>> =
                indexes.iter().map(|columns| columns.iter().map(|name| (*name).to_owned()).collect()).collect();
            check(&indexes, &schema).map_err(|error| error.to_string())
        };
        assert_eq!(of(&[&["a"], &["d", "a"], &["a", "d"]]), Ok(()));
        for (indexes, part) in [
            (&[&["x"][..]][..], "no column 'x'"),
            (&[&["l"][..]][..], "column 'l'"),
            (&[&["n"][..]][..], "column 'n'"),
            (&[&["a", "a"][..]][..], "named twice"),
            (&[&["a"][..], &["a"][..]][..], "two indexes over (a)"),
            (&[&[][..]][..], "1 to 16"),
        ] {
            let refused = of(indexes).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
    }
}

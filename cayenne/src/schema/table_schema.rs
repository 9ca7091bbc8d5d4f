//! The columns of a table at one moment, under both of their names.

use std::collections::BTreeMap;
use std::sync::Arc;

#[cfg(test)]
use arrow::datatypes::Schema;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;

use crate::error::{Error, Result};
use crate::stats::{ColumnSummary, DataSummary, has_bounds};

/// Two schemas of one shape and the same types, which differ in the names of fields only.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TableSchema {
    /// Grows with every change. Only of meaning inside one partition.
    pub(crate) id: i64,
    /// What the table calls its fields.
    pub(crate) logical: SchemaRef,
    /// What the data files call them.
    pub(crate) stored: SchemaRef,
    /// What files without the column hold in it, by stored name; NULL if it is not here.
    pub(crate) defaults: BTreeMap<String, ScalarValue>,
}

impl TableSchema {
    /// A new table: fields are stored under their own names.
    #[cfg(test)]
    pub(crate) fn new(id: i64, schema: SchemaRef) -> Self {
        Self { id, logical: Arc::clone(&schema), stored: schema, defaults: BTreeMap::new() }
    }

    /// How many columns there are.
    pub(crate) fn columns(&self) -> usize {
        self.logical.fields().len()
    }

    /// Whether the table and its files use the same names.
    pub(crate) fn same_names(&self) -> bool {
        self.logical == self.stored
    }

    /// The rows of a batch of the table under the names of the files.
    pub(crate) fn to_stored(&self, batch: RecordBatch) -> Result<RecordBatch> {
        if self.same_names() {
            return Ok(batch);
        }
        let columns = batch
            .columns()
            .iter()
            .zip(self.stored.fields())
            .map(|(column, field)| relabel(column, field.data_type()))
            .collect::<std::result::Result<Vec<_>, _>>();
        columns
            .and_then(|columns| RecordBatch::try_new(Arc::clone(&self.stored), columns))
            .map_err(|source| Error::Arrow { action: "cannot relabel a batch", source })
    }

    /// What is known about rows of a file of schema `self`, as rows of `newer`.
    pub(crate) fn summary_in(&self, newer: &TableSchema, summary: &DataSummary) -> DataSummary {
        let columns = newer
            .stored
            .fields()
            .iter()
            .map(|field| match self.stored.index_of(field.name()) {
                Ok(index) => {
                    let column = &summary.columns[index];
                    if self.stored.field(index).data_type() == field.data_type() {
                        return column.clone();
                    }
                    ColumnSummary {
                        null_count: column.null_count,
                        min: widened(column.min.as_ref(), field.data_type()),
                        max: widened(column.max.as_ref(), field.data_type()),
                    }
                }
                Err(_) => match newer.defaults.get(field.name()) {
                    Some(value) => {
                        let bound = has_bounds(field.data_type()).then(|| value.clone());
                        ColumnSummary { null_count: 0, min: bound.clone(), max: bound }
                    }
                    None => ColumnSummary { null_count: summary.rows, min: None, max: None },
                },
            })
            .collect();
        DataSummary { columns, ..summary.clone() }
    }

    /// Whether every value that `summary` tells of, of rows of schema `self`, has a place in column `stored` of `newer`.
    /// `Err` says which one has not.
    pub(crate) fn fits(
        &self,
        newer: &TableSchema,
        stored: &str,
        summary: &DataSummary,
    ) -> std::result::Result<(), String> {
        let (Ok(old), Ok(new)) = (self.stored.index_of(stored), newer.stored.index_of(stored)) else { return Ok(()) };
        let (from, to) = (self.stored.field(old).data_type(), newer.stored.field(new).data_type());
        let column = &summary.columns[old];
        if from == to || column.null_count == summary.rows {
            return Ok(());
        }
        for bound in [&column.min, &column.max] {
            let Some(bound) = bound else { return Err(format!("it is not known whether all values fit {to}")) };
            if bound.cast_to(to).is_err() {
                return Err(format!("the value {bound} does not fit {to}"));
            }
        }
        Ok(())
    }
}

/// A bound in a wider type. Widening keeps the order of values.
fn widened(bound: Option<&ScalarValue>, data_type: &DataType) -> Option<ScalarValue> {
    if !has_bounds(data_type) {
        return None;
    }
    bound?.cast_to(data_type).ok()
}

/// The same values under other names of nested fields.
pub(crate) fn relabel(
    array: &arrow::array::ArrayRef,
    data_type: &DataType,
) -> std::result::Result<arrow::array::ArrayRef, arrow::error::ArrowError> {
    if array.data_type() == data_type {
        return Ok(Arc::clone(array));
    }
    let children: Vec<&DataType> = match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => vec![item.data_type()],
        _ => Vec::new(),
    };
    let data = array.to_data();
    let relabelled = data
        .child_data()
        .iter()
        .zip(children)
        .map(|(child, data_type)| Ok(relabel(&arrow::array::make_array(child.clone()), data_type)?.to_data()))
        .collect::<std::result::Result<Vec<_>, arrow::error::ArrowError>>()?;
    let mut builder = data.into_builder().data_type(data_type.clone());
    if !relabelled.is_empty() {
        builder = builder.child_data(relabelled);
    }
    Ok(arrow::array::make_array(builder.build()?))
}

/// The names of a schema's columns, nested ones with their path.
#[cfg(test)]
pub(crate) fn names(schema: &Schema) -> Vec<String> {
    fn walk(prefix: &str, field: &arrow::datatypes::Field, names: &mut Vec<String>) {
        let path = format!("{prefix}{}", field.name());
        let mut inner = field.data_type();
        while let DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) = inner {
            inner = item.data_type();
        }
        if let DataType::Struct(fields) = inner {
            fields.iter().for_each(|child| walk(&format!("{path}."), child, names));
        } else {
            names.push(path);
        }
    }
    let mut names = Vec::new();
    schema.fields().iter().for_each(|field| walk("", field, &mut names));
    names
}

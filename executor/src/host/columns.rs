//! Columns of a partition next to those of its table, and changes that bring them there.
use ancho_common::alter::{ColumnChange, added_field};
use arrow::datatypes::{Field, SchemaRef};
use cayenne::{Partition, SchemaChange};

use super::Assignment;

/// Metadata is no part of a table's definition; names, types and nullability are.
pub(super) fn same_columns(partition: &Partition, assignment: &Assignment) -> bool {
    same(&partition.schema(), &assignment.schema)
}

fn same(stored: &SchemaRef, assigned: &SchemaRef) -> bool {
    stored.fields().len() == assigned.fields().len()
        && stored.fields().iter().zip(assigned.fields()).all(|(a, b)| {
            a.name() == b.name() && a.is_nullable() == b.is_nullable() && a.data_type().equals_datatype(b.data_type())
        })
}

/// A change as the storage engine takes it, of a partition with these columns.
pub(crate) fn schema_change(schema: &SchemaRef, change: &ColumnChange) -> SchemaChange {
    let added = |column: &Field| {
        let before = schema.field_with_name(column.name()).ok()?;
        let (path, field) = added_field(before.data_type(), column.data_type())?;
        let parent = [column.name().clone()].into_iter().chain(path).collect();
        Some(SchemaChange::Add { parent, field, default: None })
    };
    match change {
        ColumnChange::Add { column } => SchemaChange::Add { parent: Vec::new(), field: column.clone(), default: None },
        ColumnChange::Drop { name } => SchemaChange::Drop { path: vec![name.clone()] },
        ColumnChange::Rename { name, to } => SchemaChange::Rename { path: vec![name.clone()], to: to.clone() },
        ColumnChange::Widen { column } => added(column).unwrap_or_else(|| SchemaChange::Widen {
            path: vec![column.name().clone()],
            to: column.data_type().clone(),
        }),
    }
}

//! Files of older schemas in a scan.
//!
//! The file scan works with the names that the files use; [`over_files`] puts predicates into these terms, and
//! [`under_table_names`] gives the table's names to what comes out. Per file, [`FileAdapters`] rewrites expressions over
//! the table into expressions over that file *before* they are evaluated: a missing column is its default, another type is cast.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::new_null_array;
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait, StructArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::{ArrowError, Result as ArrowResult};
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result as DFResult;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, lit};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapterFactory, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;

use crate::error::Result;
use crate::schema::TableSchema;
use crate::schema::table_schema::relabel;

/// A predicate over the table as one over the stored names. Columns keep their places.
pub(crate) fn over_files(predicate: &Arc<dyn PhysicalExpr>, schema: &TableSchema) -> DFResult<Arc<dyn PhysicalExpr>> {
    if schema.same_names() {
        return Ok(Arc::clone(predicate));
    }
    let rename = |expr: Arc<dyn PhysicalExpr>| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let name = schema.stored.field(column.index()).name();
        Ok(Transformed::yes(Arc::new(Column::new(name, column.index())) as Arc<dyn PhysicalExpr>))
    };
    Arc::clone(predicate).transform(rename).data()
}

/// The same rows under the table's names. `columns` are those of the table that the plan returns first; more may follow.
pub(crate) fn under_table_names(
    plan: Arc<dyn ExecutionPlan>,
    columns: &[usize],
    schema: &TableSchema,
) -> Result<Arc<dyn ExecutionPlan>> {
    if schema.same_names() {
        return Ok(plan);
    }
    let returned = plan.schema();
    let mut projection = Vec::new();
    for (index, field) in returned.fields().iter().enumerate() {
        let stored: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), index));
        let Some(logical) = columns.get(index).map(|column| schema.logical.field(*column)) else {
            projection.push(ProjectionExpr { expr: stored, alias: field.name().clone() });
            continue;
        };
        let expr = if logical.data_type() == field.data_type() {
            stored
        } else {
            Arc::new(Convert { input: stored, to: Arc::new(logical.clone()), how: How::Relabel })
        };
        projection.push(ProjectionExpr { expr, alias: logical.name().clone() });
    }
    Ok(Arc::new(ProjectionExec::try_new(projection, plan)?))
}

/// Makes adapters for a table whose missing columns have these values.
#[derive(Debug)]
pub(crate) struct FileAdapters {
    pub(crate) defaults: BTreeMap<String, ScalarValue>,
}

impl PhysicalExprAdapterFactory for FileAdapters {
    fn create(&self, table: SchemaRef, file: SchemaRef) -> DFResult<Arc<dyn PhysicalExprAdapter>> {
        let defaults = self.defaults.iter().filter(|(name, _)| file.index_of(name).is_err());
        Ok(Arc::new(FileAdapter {
            defaults: defaults.map(|(name, value)| (name.clone(), value.clone())).collect(),
            plain: DefaultPhysicalExprAdapterFactory.create(Arc::clone(&table), Arc::clone(&file))?,
            table,
            file,
        }))
    }
}

/// Rewrites expressions over the table into ones over one file.
#[derive(Debug)]
struct FileAdapter {
    /// Of columns that the file does not have.
    defaults: BTreeMap<String, ScalarValue>,
    table: SchemaRef,
    file: SchemaRef,
    /// For the other missing columns and for types that are not nested.
    plain: Arc<dyn PhysicalExprAdapter>,
}

impl FileAdapter {
    /// A column whose adaptation is not the library's, if it is one.
    fn special(&self, column: &Column) -> DFResult<Option<Arc<dyn PhysicalExpr>>> {
        if let Some(value) = self.defaults.get(column.name()) {
            return Ok(Some(lit(value.clone())));
        }
        let (Ok(wanted), Ok(index)) = (self.table.field_with_name(column.name()), self.file.index_of(column.name()))
        else {
            return Ok(None);
        };
        if !wanted.data_type().is_nested() || wanted.data_type() == self.file.field(index).data_type() {
            return Ok(None);
        }
        let input: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), index));
        Ok(Some(Arc::new(Convert { input, to: Arc::new(wanted.clone()), how: How::Adapt })))
    }
}

impl PhysicalExprAdapter for FileAdapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> DFResult<Arc<dyn PhysicalExpr>> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return match self.special(column)? {
                Some(special) => Ok(special),
                None => self.plain.rewrite(expr),
            };
        }
        let mut found = false;
        let children = expr
            .children()
            .into_iter()
            .map(|child| {
                found |= self.has_special(child)?;
                Ok(Arc::clone(child))
            })
            .collect::<DFResult<Vec<_>>>()?;
        if !found {
            return self.plain.rewrite(expr);
        }
        let children = children.into_iter().map(|child| self.rewrite(child)).collect::<DFResult<Vec<_>>>()?;
        expr.with_new_children(children)
    }
}

impl FileAdapter {
    fn has_special(&self, expr: &Arc<dyn PhysicalExpr>) -> DFResult<bool> {
        let mut found = false;
        expr.apply(|expr| {
            if let Some(column) = expr.downcast_ref::<Column>() {
                found |= self.special(column)?.is_some();
            }
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    }
}

/// How a column of one nested type becomes one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum How {
    /// Fields by name: missing ones are NULL, others are cast.
    Adapt,
    /// Fields by place: only their names differ.
    Relabel,
}

/// A column in another form.
#[derive(Debug, Clone, Eq)]
struct Convert {
    input: Arc<dyn PhysicalExpr>,
    to: FieldRef,
    how: How,
}

// Derived, this would move the input out of its reference (rust-lang/rust#78808).
impl PartialEq for Convert {
    fn eq(&self, other: &Self) -> bool {
        self.input.eq(&other.input) && self.to == other.to && self.how == other.how
    }
}

impl Hash for Convert {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.to.hash(state);
        self.how.hash(state);
    }
}

impl Display for Convert {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.fmt_sql(f)
    }
}

impl PhysicalExpr for Convert {
    fn return_field(&self, _: &Schema) -> DFResult<FieldRef> {
        Ok(Arc::clone(&self.to))
    }

    fn evaluate(&self, batch: &RecordBatch) -> DFResult<ColumnarValue> {
        let array = self.input.evaluate(batch)?.into_array(batch.num_rows())?;
        let converted = match self.how {
            How::Adapt => adapt(&array, &self.to)?,
            How::Relabel => relabel(&array, self.to.data_type())?,
        };
        Ok(ColumnarValue::Array(converted))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.input]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> DFResult<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(input), true) => Ok(Arc::new(Self { input, ..self.as_ref().clone() })),
            _ => internal_err!("{self} has one input"),
        }
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.input.fmt_sql(f)?;
        write!(f, " as of now")
    }
}

/// Values of an older form of a field in its newer form.
fn adapt(array: &ArrayRef, to: &Field) -> ArrowResult<ArrayRef> {
    if array.data_type() == to.data_type() {
        return Ok(Arc::clone(array));
    }
    Ok(match (array.data_type(), to.data_type()) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let old = array.as_struct();
            let columns = fields.iter().map(|field| match old.column_by_name(field.name()) {
                Some(column) => adapt(column, field),
                None => Ok(new_null_array(field.data_type(), old.len())),
            });
            let columns = columns.collect::<ArrowResult<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, old.nulls().cloned(), old.len())?)
        }
        (DataType::List(_), DataType::List(item)) => adapt_list::<i32>(array, item)?,
        (DataType::LargeList(_), DataType::LargeList(item)) => adapt_list::<i64>(array, item)?,
        (DataType::FixedSizeList(_, size), DataType::FixedSizeList(item, _)) => {
            let old = array.as_fixed_size_list();
            let items = adapt(old.values(), item)?;
            let nulls = old.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, items, nulls, old.len())?)
        }
        (from, to) if from.is_nested() || to.is_nested() => {
            return Err(ArrowError::CastError(format!("values of type {from} cannot be read as {to}")));
        }
        (_, to) => cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() })?,
    })
}

fn adapt_list<O: OffsetSizeTrait>(array: &ArrayRef, item: &FieldRef) -> ArrowResult<ArrayRef> {
    let old = array.as_list::<O>();
    let items = adapt(old.values(), item)?;
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(item), old.offsets().clone(), items, old.nulls().cloned())?))
}

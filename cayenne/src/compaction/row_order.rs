//! In which order compaction lays rows down. It never changes what a query returns, only how much it can skip.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryBuilder};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::Result as DFResult;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};

use super::hilbert;
use super::scale::{Scale, can_scale};
use crate::error::{Error, Result};
use crate::schema::TableSchema;
use crate::stats::DataSummary;

/// The order of rows inside rewritten files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum RowOrder {
    /// As they arrived.
    #[default]
    Arrival,
    /// Ascending by these columns, NULLs last (`cayenne_sort_columns`).
    Sorted(Vec<String>),
    /// Along a Hilbert curve through these columns (`cayenne_cluster_by`).
    Clustered(Vec<String>),
}

impl RowOrder {
    /// The order that two lists of column names ask for; an empty list asks for nothing.
    ///
    /// # Errors
    /// [`Error::BadOption`] when both are given, when a column is named twice or does not exist, and when its type has no
    /// order (for `sort_columns`) or no place on the curve (for `cluster_by`).
    pub fn from_columns(schema: &Schema, sort_columns: &[String], cluster_by: &[String]) -> Result<Self> {
        let order = match (sort_columns.is_empty(), cluster_by.is_empty()) {
            (true, true) => RowOrder::Arrival,
            (false, true) => RowOrder::Sorted(sort_columns.to_vec()),
            (true, false) => RowOrder::Clustered(cluster_by.to_vec()),
            (false, false) => {
                return Err(Error::BadOption {
                    option: "cluster_by",
                    detail: "it cannot be combined with sort_columns; remove one of them".to_owned(),
                });
            }
        };
        order.check(schema)?;
        Ok(order)
    }

    /// Whether rows of this schema can be put in this order.
    ///
    /// # Errors
    /// As [`from_columns`](Self::from_columns).
    pub fn check(&self, schema: &Schema) -> Result<()> {
        let (option, columns, fits): (_, _, fn(&DataType) -> bool) = match self {
            RowOrder::Arrival => return Ok(()),
            RowOrder::Sorted(columns) => ("sort_columns", columns, |data_type| !data_type.is_nested()),
            RowOrder::Clustered(columns) => ("cluster_by", columns, can_scale),
        };
        let refuse = |detail: String| Err(Error::BadOption { option, detail });
        for (index, name) in columns.iter().enumerate() {
            let Ok(field) = schema.field_with_name(name) else {
                return refuse(format!("the table has no column '{name}'"));
            };
            if !fits(field.data_type()) {
                return refuse(format!("column '{name}' has type {}, which cannot be ordered", field.data_type()));
            }
            if columns[..index].contains(name) {
                return refuse(format!("column '{name}' is named twice"));
            }
        }
        if matches!(self, RowOrder::Clustered(_)) && columns.len() > hilbert::MAX_DIMENSIONS {
            return refuse(format!("at most {} columns can be named", hilbert::MAX_DIMENSIONS));
        }
        Ok(())
    }

    /// The same order after a change of the columns: columns that have other names in `after` than in `before` are named anew.
    pub(crate) fn follow(&self, before: &TableSchema, after: &TableSchema) -> Self {
        let renamed = |columns: &[String]| -> Vec<String> {
            let new_name = |name: &String| {
                let stored = before.stored.field(before.logical.index_of(name).ok()?).name();
                Some(after.logical.field(after.stored.index_of(stored).ok()?).name().clone())
            };
            columns.iter().map(|name| new_name(name).unwrap_or_else(|| name.clone())).collect()
        };
        match self {
            RowOrder::Arrival => RowOrder::Arrival,
            RowOrder::Sorted(columns) => RowOrder::Sorted(renamed(columns)),
            RowOrder::Clustered(columns) => RowOrder::Clustered(renamed(columns)),
        }
    }

    /// Whether rows have to be moved.
    pub(crate) fn is_sorting(&self) -> bool {
        *self != RowOrder::Arrival
    }

    /// What to sort rows of this schema by, whose bounds are `summary`; `None` for the order they have.
    pub(crate) fn ordering(&self, schema: &Schema, summary: &DataSummary) -> Result<Option<LexOrdering>> {
        self.check(schema)?;
        let columns = match self {
            RowOrder::Arrival => return Ok(None),
            RowOrder::Sorted(columns) | RowOrder::Clustered(columns) => columns,
        };
        let mut parts: Vec<(Arc<dyn PhysicalExpr>, Scale)> = Vec::new();
        let mut sorted = Vec::new();
        for name in columns {
            let index = schema.index_of(name).map_err(|source| Error::Arrow { action: "cannot order rows", source })?;
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(name, index));
            if matches!(self, RowOrder::Clustered(_)) {
                let scale = Scale::new(schema, index, &summary.columns[index])
                    .map_err(|source| Error::Arrow { action: "cannot scale a column", source })?;
                parts.push((column, scale));
            } else {
                let options = SortOptions { descending: false, nulls_first: false };
                sorted.push(PhysicalSortExpr::new(column, options));
            }
        }
        if !parts.is_empty() {
            sorted.push(PhysicalSortExpr::new(Arc::new(CurvePosition { parts }), SortOptions::default()));
        }
        Ok(LexOrdering::new(sorted))
    }
}

/// The position of a row on the Hilbert curve through some columns, as 16 bytes that compare as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct CurvePosition {
    parts: Vec<(Arc<dyn PhysicalExpr>, Scale)>,
}

impl CurvePosition {
    fn positions(&self, batch: &RecordBatch) -> DFResult<ArrayRef> {
        let columns = self
            .parts
            .iter()
            .map(|(column, scale)| Ok(scale.coordinates(&column.evaluate(batch)?.into_array(batch.num_rows())?)?))
            .collect::<DFResult<Vec<_>>>()?;
        let bits = hilbert::bits(columns.len());
        let mut positions = FixedSizeBinaryBuilder::with_capacity(batch.num_rows(), 16);
        let mut cell = vec![0; columns.len()];
        for row in 0..batch.num_rows() {
            for (coordinate, column) in cell.iter_mut().zip(&columns) {
                *coordinate = column[row] >> (32 - bits);
            }
            positions.append_value(hilbert::position(&mut cell, bits).to_be_bytes())?;
        }
        Ok(Arc::new(positions.finish()))
    }
}

impl fmt::Display for CurvePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_sql(f)
    }
}

impl PhysicalExpr for CurvePosition {
    fn data_type(&self, _: &Schema) -> DFResult<DataType> {
        Ok(DataType::FixedSizeBinary(16))
    }

    fn nullable(&self, _: &Schema) -> DFResult<bool> {
        Ok(false)
    }

    fn evaluate(&self, batch: &RecordBatch) -> DFResult<ColumnarValue> {
        Ok(ColumnarValue::Array(self.positions(batch)?))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        self.parts.iter().map(|(column, _)| column).collect()
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn PhysicalExpr>>) -> DFResult<Arc<dyn PhysicalExpr>> {
        if children.len() != self.parts.len() {
            return internal_err!("{self} has {} columns, not {}", self.parts.len(), children.len());
        }
        let parts = children.into_iter().zip(&self.parts).map(|(column, (_, scale))| (column, scale.clone())).collect();
        Ok(Arc::new(Self { parts }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hilbert(")?;
        for (index, (column, _)) in self.parts.iter().enumerate() {
            if index > 0 {
                f.write_str(", ")?;
            }
            column.fmt_sql(f)?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{Field, Int64Type};

    use super::*;
    use crate::stats::SummaryBuilder;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("x", DataType::Int64, false),
            Field::new("y", DataType::Int64, true),
            Field::new("list", DataType::new_list(DataType::Int64, true), true),
        ])
    }

    #[test]
    fn bad_orders_are_refused_by_column() {
        for (sort, cluster, part) in [
            (&["x"][..], &["y"][..], "remove one"),
            (&["z"], &[], "'z'"),
            (&[], &["x", "x"], "twice"),
            (&[], &["list"], "'list'"),
            (&["list"], &[], "'list'"),
        ] {
            let error = RowOrder::from_columns(&schema(), &names(sort), &names(cluster)).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let order = RowOrder::from_columns(&schema(), &[], &[]).unwrap();
        assert!(!order.is_sorting());
    }

    /// A grid in the order of the curve: blocks of consecutive rows span little in both columns.
    #[test]
    fn clustered_rows_have_small_ranges_in_every_column() {
        let side = 64i64;
        let x = Int64Array::from_iter_values((0..side * side).map(|n| n % side - 7));
        let y: Int64Array = (0..side * side).map(|n| Some((n / side) * 1_000_000)).collect();
        let schema = Schema::new(schema().fields()[..2].to_vec());
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![Arc::new(x), Arc::new(y)]).unwrap();
        let mut summary = SummaryBuilder::new(&schema);
        summary.update(&batch);
        let order = RowOrder::from_columns(&schema, &[], &names(&["x", "y"])).unwrap();
        let ordering = order.ordering(&schema, &summary.finish(1)).unwrap().unwrap();
        assert_eq!(ordering.first().expr.to_string(), "hilbert(x, y)");
        let position = ordering.first().expr.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap();
        let indices = arrow::compute::sort_to_indices(&position, None, None).unwrap();
        let sorted = arrow::compute::take_record_batch(&batch, &indices).unwrap();
        for start in (0..sorted.num_rows()).step_by(256) {
            let block = sorted.slice(start, 256);
            for column in block.columns() {
                let values = column.as_primitive::<Int64Type>().values();
                let distinct: std::collections::HashSet<_> = values.iter().collect();
                assert_eq!(distinct.len(), 16, "256 cells are a square");
            }
        }
    }
}

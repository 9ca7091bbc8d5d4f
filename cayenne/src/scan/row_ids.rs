//! Positions of rows in their files, as a column of a scan.
//!
//! The file is the same for all rows of a file, so it is a partition column in DataFusion's sense. The position comes from
//! the file scan: [`RowPosition`] stands for it in projections until [`take_positions`] turns it into a column that
//! Vortex computes.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result as DFResult;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::projection::ProjectionExprs;

use crate::row_id::ROW_COLUMN;

/// The position of a row in its file. Only a file scan knows it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RowPosition;

impl Display for RowPosition {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("row_position()")
    }
}

impl PhysicalExpr for RowPosition {
    fn return_field(&self, _: &Schema) -> DFResult<FieldRef> {
        Ok(row_field())
    }

    fn evaluate(&self, _: &RecordBatch) -> DFResult<ColumnarValue> {
        internal_err!("the position of a row is known only where its file is read")
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn PhysicalExpr>>) -> DFResult<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }

    /// It differs from row to row although it reads no column, and must not be folded into a constant.
    fn is_volatile_node(&self) -> bool {
        true
    }
}

pub(crate) fn row_field() -> FieldRef {
    Arc::new(Field::new(ROW_COLUMN, DataType::UInt64, false))
}

/// The projection with positions read from column [`ROW_COLUMN`] at `index`; `None` if it has none.
pub(crate) fn take_positions(projection: &ProjectionExprs, index: usize) -> DFResult<Option<ProjectionExprs>> {
    let mut found = false;
    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(ROW_COLUMN, index));
    let rewritten = projection.clone().try_map_exprs(|expr| {
        expr.transform(|node| {
            if node.downcast_ref::<RowPosition>().is_none() {
                return Ok(Transformed::no(node));
            }
            found = true;
            Ok(Transformed::yes(Arc::clone(&column)))
        })
        .data()
    })?;
    Ok(found.then_some(rewritten))
}

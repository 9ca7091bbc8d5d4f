//! The values that conditions leave a column: those of `c = 1`, `c IN (1, 2)` and `c = 1 OR c = 2`.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, InListExpr, Literal};

use super::hasher::value_type;

/// The values of one column that a row may have if it is to satisfy a condition; `None` if the condition says nothing exact.
/// NULL is not among them: it equals nothing.
pub(crate) fn asked(condition: &Arc<dyn PhysicalExpr>, column: usize) -> Option<Vec<ScalarValue>> {
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::Eq => {
                let sides = [(binary.left(), binary.right()), (binary.right(), binary.left())];
                let value =
                    sides.into_iter().find_map(|(name, value)| is_column(name, column).then(|| constant(value))?)?;
                Some(if value.is_null() { Vec::new() } else { vec![value] })
            }
            Operator::Or => {
                let mut values = asked(binary.left(), column)?;
                values.extend(asked(binary.right(), column)?);
                Some(values)
            }
            // One side is enough: rows must satisfy both.
            Operator::And => asked(binary.left(), column).or_else(|| asked(binary.right(), column)),
            _ => None,
        };
    }
    let list = condition.downcast_ref::<InListExpr>()?;
    if list.negated() || !is_column(list.expr(), column) {
        return None;
    }
    let values = list.list().iter().map(constant).collect::<Option<Vec<_>>>()?;
    Some(values.into_iter().filter(|value| !value.is_null()).collect())
}

fn is_column(expr: &Arc<dyn PhysicalExpr>, index: usize) -> bool {
    expr.downcast_ref::<Column>().is_some_and(|column| column.index() == index)
}

/// A literal, or a cast of one.
fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<ScalarValue> {
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return Some(literal.value().clone());
    }
    expr.downcast_ref::<CastExpr>().filter(|cast| constant(cast.expr()).is_some())?;
    match expr.evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty()))).ok()? {
        ColumnarValue::Scalar(value) => Some(value),
        ColumnarValue::Array(_) => None,
    }
}

/// A value in the type of a column's values, if it is the same value there.
pub(crate) fn as_type(value: &ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    let value = match value {
        ScalarValue::Dictionary(_, value) => value.as_ref(),
        other => other,
    };
    let found = value.data_type();
    let alike = found.is_string() && data_type.is_string() || found.is_binary() && data_type.is_binary();
    if value_type(&found) == data_type {
        Some(value.clone())
    } else if alike {
        value.cast_to(data_type).ok()
    } else {
        None
    }
}

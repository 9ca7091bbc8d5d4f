//! Parameters that are points in time.
//!
//! The planner gives a parameter the type of the operand beside it: in `ts > ? - INTERVAL '1' DAY` that of the interval. What
//! is compared with a date or a timestamp is one itself, so the parameter gets that type instead.
use std::sync::Arc;

use datafusion::{
    arrow::datatypes::{DataType, Field},
    common::{
        DFSchema,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, utils::merge_schema},
};

/// The plan with such parameters typed.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn points_in_time(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let typed = node.map_expressions(|expr| expr.transform_up(|e| Ok(compared(e, &schema))))?;
        if typed.transformed { typed.map_data(LogicalPlan::recompute_schema) } else { Ok(typed) }
    })
    .data()
}

/// The type of an expression that is compared, if that is a point in time.
fn point(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    expr.get_type(schema).ok().filter(|t| matches!(t, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64))
}

fn compared(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { mut left, op, mut right }) if is_comparison(op) => {
            let changed = match (point(&left, schema), point(&right, schema)) {
                (Some(wanted), None) => shifted(&mut right, &wanted),
                (None, Some(wanted)) => shifted(&mut left, &wanted),
                _ => false,
            };
            let compared = Expr::BinaryExpr(BinaryExpr { left, op, right });
            if changed { Transformed::yes(compared) } else { Transformed::no(compared) }
        }
        Expr::Between(Between { mut expr, negated, mut low, mut high }) => {
            let mut changed = false;
            if let Some(wanted) = point(&expr, schema) {
                changed |= shifted(&mut low, &wanted);
                changed |= shifted(&mut high, &wanted);
            } else if let Some(wanted) = point(&low, schema).or_else(|| point(&high, schema)) {
                changed |= shifted(&mut expr, &wanted);
            }
            let between = Expr::Between(Between { expr, negated, low, high });
            if changed { Transformed::yes(between) } else { Transformed::no(between) }
        }
        other => Transformed::no(other),
    }
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

/// Types the parameter that intervals are added to, or taken from.
fn shifted(expr: &mut Expr, wanted: &DataType) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus), right }) = expr else {
        return false;
    };
    if shifted(left, wanted) || typed(left, wanted) {
        return true;
    }
    // A point in time is not taken from an interval.
    *op == Operator::Plus && (shifted(right, wanted) || typed(right, wanted))
}

fn typed(operand: &mut Expr, wanted: &DataType) -> bool {
    let Expr::Placeholder(placeholder) = operand else { return false };
    let is_interval =
        placeholder.field.as_ref().is_some_and(|field| matches!(field.data_type(), DataType::Interval(_)));
    if is_interval {
        placeholder.field = Some(Arc::new(Field::new("", wanted.clone(), true)));
    }
    is_interval
}

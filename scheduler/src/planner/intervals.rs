//! Intervals that are compared or sorted by.
//!
//! The engine compares them month by month, then day by day: 40 days come before one month, and 24 hours are no day. So
//! their lengths are compared instead, where a month has 30 days and a day 24 hours.
use std::sync::Arc;

use ancho_common::exact::interval_length::interval_length;
use datafusion::{
    arrow::datatypes::{DataType, Field, IntervalUnit},
    common::{
        DFSchema, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    logical_expr::{
        Between, BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, cast,
        expr::{InList, Placeholder},
        expr_rewriter::NamePreserver,
        utils::merge_schema,
    },
};

/// The plan with lengths in place of such intervals. Output names stay.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn measure(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        let sorts = matches!(node, LogicalPlan::Sort(_));
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|e| Ok(compared(e, &schema)))?;
            if sorts {
                let is_interval = matches!(rewritten.data.get_type(&schema), Ok(DataType::Interval(_)));
                return Ok(if is_interval { Transformed::yes(length(rewritten.data, &schema)) } else { rewritten });
            }
            Ok(if rewritten.transformed { rewritten.update_data(|e| name.restore(e)) } else { rewritten })
        })
    })
    .data()
}

fn compared(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let measured = |e: Box<Expr>| Box::new(length(*e, schema));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && (is_interval(&left, schema) || is_interval(&right, schema)) =>
        {
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: measured(left), op, right: measured(right) }))
        }
        Expr::Between(Between { expr, negated, low, high })
            if [&expr, &low, &high].iter().any(|e| is_interval(e, schema)) =>
        {
            let (expr, low, high) = (measured(expr), measured(low), measured(high));
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InList(InList { expr, list, negated })
            if is_interval(&expr, schema) || list.iter().any(|e| is_interval(e, schema)) =>
        {
            let list = list.into_iter().map(|e| length(e, schema)).collect();
            Transformed::yes(Expr::InList(InList { expr: measured(expr), list, negated }))
        }
        other => Transformed::no(other),
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// One that is written in hours and below is compared rightly with a difference of timestamps.
fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => value.months != 0 || value.days != 0,
        other => matches!(other.get_type(schema), Ok(DataType::Interval(_))),
    }
}

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

fn length(expr: Expr, schema: &DFSchema) -> Expr {
    let interval = match expr {
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field = Some(Arc::new(Field::new("", INTERVAL, true)));
            Expr::Placeholder(Placeholder { id, field })
        }
        other => match other.get_type(schema) {
            Ok(DataType::Interval(_) | DataType::Duration(_)) => other,
            _ => cast(other, INTERVAL),
        },
    };
    interval_length().call(vec![interval])
}

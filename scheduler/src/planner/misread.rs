//! Statements whose meaning the engine misses: it would answer with wrong rows, so they are refused, with another form.
//!
//! Each check says what the engine makes of the statement. One that a later release gets right goes, with its cases in the
//! differential corpus.
use ancho_common::error::{Error, Result};
use datafusion::{
    arrow::datatypes::DataType,
    common::{
        DFSchema, JoinConstraint, JoinType, ScalarValue,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, FetchType, LogicalPlan, Operator, SkipType, Subquery,
        expr::{Exists, InSubquery},
        utils::merge_schema,
    },
};

/// Checks a plan as it comes from the parser.
///
/// # Errors
/// `Unsupported`, with what to write instead.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        found = merged_column(node);
        let schema = merge_schema(&node.inputs());
        for expr in node.expressions() {
            expr.apply(|e| {
                found = found.take().or_else(|| subquery_of_one_row(e)).or_else(|| compared_intervals(e, &schema));
                Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })?;
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    found.map_or(Ok(()), |what| Err(Error::unsupported(what)))
}

/// The merged column is taken from the left side, where rows of the right side have NULL.
fn merged_column(node: &LogicalPlan) -> Option<&'static str> {
    let LogicalPlan::Join(join) = node else { return None };
    (join.join_constraint == JoinConstraint::Using && matches!(join.join_type, JoinType::Right | JoinType::Full)).then_some(
        "USING and NATURAL are not offered for FULL joins and for RIGHT joins of joins: write ON a.k = b.k, and coalesce(a.k, b.k) for the \
         merged column",
    )
}

/// A correlated subquery becomes a join, which finds no row where the subquery has one without rows below it.
fn subquery_of_one_row(expr: &Expr) -> Option<&'static str> {
    let (Expr::Exists(Exists { subquery, .. }) | Expr::InSubquery(InSubquery { subquery, .. })) = expr else {
        return None;
    };
    if subquery.outer_ref_columns.is_empty() {
        return None;
    }
    match shape(subquery) {
        Shape::Aggregate => Some(
            "EXISTS and IN over an aggregate without GROUP BY that refers to the outer query are not offered: compare with \
             the aggregate as a scalar subquery, such as (SELECT count(*) …) > 0",
        ),
        Shape::Skips => {
            Some("OFFSET in an EXISTS or IN that refers to the outer query is not offered: count the rows instead")
        }
        Shape::Other => None,
    }
}

enum Shape {
    /// One row, whatever is below.
    Aggregate,
    /// Leaves out its first rows.
    Skips,
    Other,
}

fn shape(subquery: &Subquery) -> Shape {
    let mut plan = subquery.subquery.as_ref();
    loop {
        plan = match plan {
            LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => return Shape::Aggregate,
            LogicalPlan::Limit(limit) => {
                let skips = !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
                // LIMIT 0 has no row, which the engine knows.
                if skips && !matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0)))) {
                    return Shape::Skips;
                }
                limit.input.as_ref()
            }
            LogicalPlan::Projection(node) => node.input.as_ref(),
            LogicalPlan::Filter(node) => node.input.as_ref(),
            LogicalPlan::SubqueryAlias(node) => node.input.as_ref(),
            LogicalPlan::Sort(node) => node.input.as_ref(),
            _ => return Shape::Other,
        };
    }
}

/// Intervals are compared month by month, then day by day: 40 days come before one month, and 24 hours are no day. One that
/// is written in hours and below is compared rightly with a difference of timestamps.
fn compared_intervals(expr: &Expr, schema: &DFSchema) -> Option<&'static str> {
    let interval = |side: &Expr| match side {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _) => value.months != 0 || value.days != 0,
        other => matches!(other.get_type(schema), Ok(DataType::Interval(_))),
    };
    let compared = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let compares = matches!(
                op,
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::IsDistinctFrom
                    | Operator::IsNotDistinctFrom
            );
            compares && (interval(left) || interval(right))
        }
        Expr::Between(between) => interval(&between.expr) || interval(&between.low) || interval(&between.high),
        Expr::InList(list) => interval(&list.expr),
        _ => false,
    };
    compared.then_some(
        "intervals of days and months cannot be compared, since they have no fixed length: compare points in time instead, \
         such as a > b + INTERVAL '10 days', or write the interval in hours",
    )
}

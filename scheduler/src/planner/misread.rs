//! Statements whose meaning the engine misses: it would answer with wrong rows, so they are refused, with another form.
//!
//! Each check says what the engine makes of the statement. One that a later release gets right goes, with its cases in the
//! differential corpus.
use ancho_common::error::{Error, Result};
use datafusion::{
    arrow::datatypes::DataType,
    common::{
        JoinConstraint, JoinType,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Expr, FetchType, LogicalPlan, SkipType, Subquery,
        expr::{Exists, InSubquery},
    },
};

/// Checks a plan before subqueries become joins.
///
/// # Errors
/// `Unsupported`, with what to write instead.
pub fn check(plan: &LogicalPlan) -> Result<()> {
    let mut found = None;
    plan.apply_with_subqueries(|node| {
        found = merged_column(node);
        for expr in node.expressions() {
            expr.apply(|e| {
                found = found.take().or_else(|| subquery_of_one_row(e)).or_else(|| among_intervals(e));
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
        "USING and NATURAL are not offered for a RIGHT or FULL join, of whose sides the columns cannot be told: write ON \
         a.k = b.k, and coalesce(a.k, b.k) for the merged column",
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
    let shape = match shape(subquery) {
        // The engine drops a limit from an EXISTS, wherever in it that is.
        Shape::Other if matches!(expr, Expr::Exists(_)) && limits_inside(&subquery.subquery) => Shape::Skips,
        shape => shape,
    };
    match shape {
        Shape::Aggregate => Some(
            "EXISTS and IN over an aggregate without GROUP BY, with a subquery of its own, that refers to the outer query are not \
             offered: compare with the aggregate as a scalar subquery, such as (SELECT count(*) …) > 0",
        ),
        Shape::Skips => Some(
            "OFFSET in an IN that refers to the outer query otherwise than by `=` is not offered: write it as a join",
        ),
        Shape::Other => None,
    }
}

fn limits_inside(plan: &LogicalPlan) -> bool {
    let is_limit = |node: &LogicalPlan| match node {
        LogicalPlan::Limit(limit) => {
            let of_none = matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0))));
            !of_none && !limit.input.all_out_ref_exprs().is_empty()
        }
        _ => false,
    };
    plan.exists(|node| Ok(is_limit(node))).unwrap_or(true)
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

/// Intervals would be compared month by month, then day by day: 24 hours are no day.
fn among_intervals(expr: &Expr) -> Option<&'static str> {
    let Expr::InSubquery(InSubquery { subquery, .. }) = expr else { return None };
    let among = subquery.subquery.schema().fields().iter().any(|f| matches!(f.data_type(), DataType::Interval(_)));
    among.then_some("IN over a subquery of intervals is not offered: write EXISTS, and compare them by =")
}

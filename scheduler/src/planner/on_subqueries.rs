//! Subqueries in the `ON` of joins.
//!
//! The engine plans subqueries as conditions of a filter. In an `ON` it takes one that refers to the tables outside for a
//! condition about nothing, and pushes it to a side of the join that lacks the columns. So it becomes a filter: of an inner
//! join above it; of an outer join below it, on the side that may be missing, if it is about that side alone. One about a side whose
//! rows are all kept becomes a column of that side.
use std::sync::Arc;

use ancho_common::error::Error;
use datafusion::{
    common::{
        Column, DFSchema, JoinType,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    logical_expr::{
        Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Subquery,
        utils::{conjunction, split_conjunction_owned},
    },
};

/// The plan with such conditions as filters.
///
/// # Errors
/// `Unsupported`: the condition of an outer join is about both sides.
pub fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if join.filter.as_ref().is_some_and(has_subquery) => moved(join).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn moved(mut join: Join) -> Result<LogicalPlan> {
    let conditions = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let (with, mut stay): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(has_subquery);
    let mut above = Vec::new();
    let mut below = Vec::new();
    let mut columns = [Vec::new(), Vec::new()];
    for condition in with {
        match join.join_type {
            JoinType::Inner => above.push(condition),
            JoinType::Left if is_about(&condition, join.right.schema())? => below.push(condition),
            JoinType::Right if is_about(&condition, join.left.schema())? => below.push(condition),
            // Without an outer row it is a value that is computed first.
            _ if !refers_outside(&condition)? && !has_in(&condition)? => stay.push(condition),
            JoinType::Left | JoinType::Right | JoinType::Full => {
                let side = if is_about(&condition, join.left.schema())? {
                    0
                } else if is_about(&condition, join.right.schema())? {
                    1
                } else {
                    return Err(about_both_sides().into());
                };
                let name = format!("__ancho_on_{side}_{}", columns[side].len());
                stay.push(Expr::Column(Column::from_name(&name)));
                columns[side].push(condition.alias(name));
            }
            _ => return Err(about_both_sides().into()),
        }
    }
    let shown = join.schema.columns();
    let has_columns = columns.iter().any(|columns| !columns.is_empty());
    for (side, columns) in [&mut join.left, &mut join.right].into_iter().zip(columns) {
        if !columns.is_empty() {
            let all = side.schema().columns().into_iter().map(Expr::Column).chain(columns);
            *side = Arc::new(LogicalPlanBuilder::from(Arc::clone(side)).project(all)?.build()?);
        }
    }
    if let Some(condition) = conjunction(below) {
        let side = if join.join_type == JoinType::Left { &mut join.right } else { &mut join.left };
        *side = Arc::new(LogicalPlan::Filter(Filter::try_new(condition, Arc::clone(side))?));
    }
    join.filter = conjunction(stay);
    let mut plan = LogicalPlan::Join(join);
    if has_columns {
        let shown = shown.into_iter().map(Expr::Column);
        plan = LogicalPlanBuilder::from(plan.recompute_schema()?).project(shown)?.build()?;
    }
    Ok(match conjunction(above) {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(plan))?),
        None => plan,
    })
}

fn about_both_sides() -> Error {
    Error::unsupported(
        "EXISTS, IN (SELECT …) and subqueries that refer to both sides of an outer join are not offered in its ON: join the \
         sides by an inner join first, and the outer side with that",
    )
}

fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(exists) => Some(&exists.subquery),
        Expr::InSubquery(condition) => Some(&condition.subquery),
        Expr::SetComparison(comparison) => Some(&comparison.subquery),
        Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

/// Scalar subqueries that refer to nothing outside are run first.
fn has_subquery(condition: &Expr) -> bool {
    let is_one = |e: &Expr| match e {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        other => subquery_of(other).is_some(),
    };
    condition.exists(|e| Ok(is_one(e))).unwrap_or(true)
}

fn has_in(condition: &Expr) -> Result<bool> {
    condition.exists(|e| Ok(matches!(e, Expr::InSubquery(_) | Expr::SetComparison(_))))
}

fn refers_outside(condition: &Expr) -> Result<bool> {
    condition.exists(|e| Ok(subquery_of(e).is_some_and(|subquery| !subquery.outer_ref_columns.is_empty())))
}

/// Whether a condition refers to columns of one side of a join only.
fn is_about(condition: &Expr, side: &DFSchema) -> Result<bool> {
    let mut about = true;
    let mut check = |column: &Column| about &= side.has_column(column);
    condition.apply(|e| {
        if let Expr::Column(column) = e {
            check(column);
        }
        for outer in subquery_of(e).into_iter().flat_map(|subquery| &subquery.outer_ref_columns) {
            if let Expr::OuterReferenceColumn(_, column) = outer {
                check(column);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(about)
}

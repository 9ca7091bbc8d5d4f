//! `LIMIT` and `OFFSET` in subqueries that refer to the outer query.
//!
//! The engine plans a subquery once, for all outer rows, while such a limit counts the rows of each one. So the rows are
//! numbered apart for each value that ties them to the outer query: `(SELECT x FROM r WHERE r.k = t.k ORDER BY y LIMIT 1)`
//! takes the rows of `SELECT x, k, row_number() OVER (PARTITION BY k ORDER BY y) AS n FROM r` where `n <= 1 AND k = t.k`.
use std::sync::Arc;

use datafusion::{
    common::{
        Column,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    functions_window::expr_fn::row_number,
    logical_expr::{
        Expr, ExprFunctionExt, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, Projection, SkipType, Sort, SortExpr,
        Subquery,
        expr::{Exists, InSubquery},
        expr_rewriter::NamePreserver,
        lit,
        utils::conjunction,
    },
};

use super::ties::{Untied, ties, untied};

/// The plan with such limits as conditions on numbers, where the subquery is tied by `=`. Output names stay.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|e| match e {
                Expr::ScalarSubquery(subquery) => Ok(numbered_inside(subquery)?.update_data(Expr::ScalarSubquery)),
                Expr::InSubquery(InSubquery { expr, subquery, negated }) => Ok(numbered_inside(subquery)?
                    .update_data(|subquery| Expr::InSubquery(InSubquery { expr, subquery, negated }))),
                Expr::Exists(Exists { subquery, negated }) => Ok(numbered_inside(any_order(subquery))?
                    .update_data(|subquery| Expr::Exists(Exists { subquery, negated }))),
                other => Ok(Transformed::no(other)),
            })?;
            Ok(if rewritten.transformed { rewritten.update_data(|e| name.restore(e)) } else { rewritten })
        })
    })
    .data()
}

fn numbered_inside(subquery: Subquery) -> Result<Transformed<Subquery>> {
    if subquery.outer_ref_columns.is_empty() {
        return Ok(Transformed::no(subquery));
    }
    let plan = match numbered_on_top(&subquery.subquery)? {
        Some(plan) => Transformed::yes(plan),
        None => Transformed::no(subquery.subquery.as_ref().clone()),
    };
    let plan = plan.transform_data(|plan| plan.transform_down(without_order))?;
    Ok(plan.update_data(|plan| Subquery { subquery: Arc::new(plan), ..subquery }))
}

/// The plan with its outermost limit as a condition. One further inside is left to [`each`](super::each), or is refused.
fn numbered_on_top(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    match plan {
        LogicalPlan::Limit(limit) if !limit.input.all_out_ref_exprs().is_empty() => numbered(limit),
        LogicalPlan::Projection(projection) => match numbered_on_top(&projection.input)? {
            Some(input) => plan.with_new_exprs(plan.expressions(), vec![input]).map(Some),
            None => Ok(None),
        },
        _ => Ok(None),
    }
}

/// An order means something to a limit only; the engine does not plan one in such a subquery.
fn without_order(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Limit(_) => Ok(Transformed::new(plan, false, TreeNodeRecursion::Jump)),
        LogicalPlan::Sort(Sort { input, fetch: None, .. }) if !input.all_out_ref_exprs().is_empty() => {
            Ok(Transformed::yes(Arc::unwrap_or_clone(input)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Whether there are rows has nothing to do with their order, nor with how many of them are asked for.
fn any_order(subquery: Subquery) -> Subquery {
    let mut rows = &subquery.subquery;
    let mut found = None;
    loop {
        rows = match rows.as_ref() {
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::Sort(Sort { input, fetch: None, .. }) => {
                found = Some(Arc::clone(input));
                input
            }
            LogicalPlan::Limit(limit) if lets_rows_through(limit) => {
                found = Some(Arc::clone(&limit.input));
                &limit.input
            }
            _ => break,
        };
    }
    match found {
        Some(rows) if !subquery.outer_ref_columns.is_empty() => Subquery { subquery: rows, ..subquery },
        _ => subquery,
    }
}

fn lets_rows_through(limit: &Limit) -> bool {
    matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
        && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(rows)) if rows != Some(0))
}

/// The rows that a limit lets through, by their numbers; `None` if they are tied in another way than by `=`.
fn numbered(limit: &Limit) -> Result<Option<LogicalPlan>> {
    let (Ok(SkipType::Literal(skipped)), Ok(FetchType::Literal(fetched))) =
        (limit.get_skip_type(), limit.get_fetch_type())
    else {
        return Ok(None);
    };
    let Ordered { rows, order, above } = ordered(&limit.input);
    let Some(Untied { plan, outer }) = untied(rows)? else { return Ok(None) };
    let tied = ties(&plan, outer.len());
    let number = numbering(tied.clone(), order)?;
    let numbers = Expr::Column(Column::from_name(number.schema_name().to_string()));
    let passed = |rows: usize| lit(u64::try_from(rows).unwrap_or(u64::MAX));
    let mut conditions: Vec<Expr> = tied.into_iter().zip(outer).map(|(tie, outer)| tie.eq(outer)).collect();
    if skipped > 0 {
        conditions.push(numbers.clone().gt(passed(skipped)));
    }
    if let Some(fetched) = fetched {
        conditions.push(numbers.lt_eq(passed(skipped.saturating_add(fetched))));
    }
    let Some(condition) = conjunction(conditions) else { return Ok(None) };
    let shown = rows.schema().columns().into_iter().map(Expr::Column);
    let mut passed = LogicalPlanBuilder::from(plan).window([number])?.filter(condition)?.project(shown)?;
    for projection in above.into_iter().rev() {
        passed = passed.project(projection.expr.clone())?;
    }
    passed.build().map(Some)
}

/// Numbers rows apart for each value of these expressions.
pub(super) fn numbering(apart: Vec<Expr>, order: Vec<SortExpr>) -> Result<Expr> {
    let number = row_number().partition_by(apart);
    if order.is_empty() { number.build() } else { number.order_by(order).build() }
}

/// The rows that a limit counts, in their order.
pub(super) struct Ordered<'a> {
    pub(super) rows: &'a LogicalPlan,
    pub(super) order: Vec<SortExpr>,
    /// What the rows are shown as once they are sorted, outermost first.
    pub(super) above: Vec<&'a Projection>,
}

pub(super) fn ordered(input: &LogicalPlan) -> Ordered<'_> {
    let mut above = Vec::new();
    let mut plan = input;
    while let LogicalPlan::Projection(projection) = plan {
        above.push(projection);
        plan = &projection.input;
    }
    match plan {
        LogicalPlan::Sort(Sort { expr, input, fetch: None }) => Ordered { rows: input, order: expr.clone(), above },
        _ => Ordered { rows: input, order: Vec::new(), above: Vec::new() },
    }
}

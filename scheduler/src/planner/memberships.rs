//! `EXISTS` and `IN` over a subquery that refers to the outer query and has rows where no row lies below it, or lacks some.
//!
//! The engine makes a join of such a condition, which finds what lies below. An aggregate without groups has one row
//! whatever that is, so that the condition is one about its values: `EXISTS (SELECT max(y) … HAVING count(*) > 1)` becomes
//! `(SELECT count(*) …) > 1`, and `x IN (SELECT max(y) …)` becomes `x = (SELECT max(y) …)`. With an `OFFSET` rows exist if
//! there are more than that.
//!
//! Rows that are compared with those of a subquery stand in a FROM clause of its own ([`rows`](crate::query::rows)). What ties
//! that to the outer query goes above it, to the comparison.
use std::sync::Arc;

use datafusion::{
    common::{
        DFSchema, Spans,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    functions_aggregate::count::count_all,
    logical_expr::{
        Distinct, Expr, FetchType, Limit, LogicalPlan, LogicalPlanBuilder, Projection, SkipType, Sort, Subquery,
        expr::{Exists, InSubquery},
        expr_rewriter::NamePreserver,
        lit, not,
        utils::merge_schema,
        when,
    },
};

use super::ties::{Untied, has_subquery, ties, untied};
use crate::query::rows::ROWS;

/// The plan with such conditions as comparisons. Output names stay.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|e| match told(&e, &schema)? {
                Some(told) => Ok(Transformed::yes(told)),
                None => Ok(Transformed::no(e)),
            })?;
            Ok(if rewritten.transformed { rewritten.update_data(|e| name.restore(e)) } else { rewritten })
        })
    })
    .data()
}

fn told(expr: &Expr, outer: &DFSchema) -> Result<Option<Expr>> {
    match expr {
        Expr::Exists(Exists { subquery, negated }) if !subquery.outer_ref_columns.is_empty() => {
            if let Some(plan) = tied_above(&subquery.subquery)? {
                let outer_ref_columns = plan.all_out_ref_exprs();
                let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() };
                return Ok(Some(Expr::Exists(Exists { subquery, negated: *negated })));
            }
            let exists = match the_row(&subquery.subquery, outer)? {
                Some(TheRow { condition: None, .. }) => Some(lit(true)),
                Some(TheRow { condition: Some(condition), .. }) => Some(condition.is_true()),
                None => more_than_skipped(&subquery.subquery)?,
            };
            Ok(exists.map(|exists| if *negated { not(exists) } else { exists }))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) if !subquery.outer_ref_columns.is_empty() => {
            let Some(TheRow { values, condition }) = the_row(&subquery.subquery, outer)? else { return Ok(None) };
            let [value] = values.as_slice() else { return Ok(None) };
            let equal = expr.as_ref().clone().eq(value.clone());
            let is_in = match condition {
                None => equal,
                Some(condition) => when(condition, equal).otherwise(lit(false))?,
            };
            Ok(Some(if *negated { not(is_in) } else { is_in }))
        }
        _ => Ok(None),
    }
}

/// The only row of a subquery, in terms of the outer query.
struct TheRow {
    values: Vec<Expr>,
    /// What must be true for the row to be there.
    condition: Option<Expr>,
}

/// The row of a subquery over an aggregate without groups; `None` for other subqueries.
fn the_row(plan: &LogicalPlan, outer: &DFSchema) -> Result<Option<TheRow>> {
    match plan {
        LogicalPlan::Aggregate(aggregate) if aggregate.group_expr.is_empty() => {
            let alone = |value: &Expr| {
                let plan = LogicalPlanBuilder::from(Arc::clone(&aggregate.input));
                Ok(scalar(plan.aggregate(Vec::<Expr>::new(), [value.clone()])?.build()?))
            };
            let values = aggregate.aggr_expr.iter().map(alone).collect::<Result<Vec<_>>>()?;
            Ok(Some(TheRow { values, condition: None }))
        }
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let Some(row) = the_row(input, outer)? else { return Ok(None) };
            let values = expr.iter().map(|e| outside(e, input.schema(), &row.values, outer));
            let values = values.collect::<Result<Option<Vec<_>>>>()?;
            Ok(values.map(|values| TheRow { values, ..row }))
        }
        LogicalPlan::Filter(filter) => {
            let Some(row) = the_row(&filter.input, outer)? else { return Ok(None) };
            let passes = outside(&filter.predicate, filter.input.schema(), &row.values, outer)?;
            Ok(passes.map(|passes| row.only_if(passes)))
        }
        LogicalPlan::Limit(limit) => {
            let (Ok(SkipType::Literal(skipped)), Ok(FetchType::Literal(fetched))) =
                (limit.get_skip_type(), limit.get_fetch_type())
            else {
                return Ok(None);
            };
            let Some(row) = the_row(&limit.input, outer)? else { return Ok(None) };
            let left_out = skipped > 0 || fetched == Some(0);
            Ok(Some(if left_out { row.only_if(lit(false)) } else { row }))
        }
        LogicalPlan::SubqueryAlias(node) => the_row(&node.input, outer),
        LogicalPlan::Sort(node) if node.fetch != Some(0) => the_row(&node.input, outer),
        LogicalPlan::Distinct(Distinct::All(input)) => the_row(input, outer),
        _ => Ok(None),
    }
}

impl TheRow {
    fn only_if(self, condition: Expr) -> Self {
        let condition = match self.condition {
            Some(other) => other.and(condition),
            None => condition,
        };
        Self { condition: Some(condition), ..self }
    }
}

fn scalar(plan: LogicalPlan) -> Expr {
    let outer_ref_columns = plan.all_out_ref_exprs();
    Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: Spans::new() })
}

/// An expression over a row as one of the outer query. `None` if it has a subquery, whose references would go astray.
fn outside(expr: &Expr, inner: &DFSchema, values: &[Expr], outer: &DFSchema) -> Result<Option<Expr>> {
    if has_subquery(expr)? {
        return Ok(None);
    }
    let outside = expr.clone().unalias_nested().data.transform_up(|e| match e {
        Expr::Column(column) => Ok(Transformed::yes(values[inner.index_of_column(&column)?].clone())),
        // What it does not have is of a query further out.
        Expr::OuterReferenceColumn(_, column) if outer.has_column(&column) => {
            Ok(Transformed::yes(Expr::Column(column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(Some(outside.data))
}

/// Whether there are more rows than are skipped.
fn more_than_skipped(plan: &LogicalPlan) -> Result<Option<Expr>> {
    match plan {
        LogicalPlan::Projection(node) => more_than_skipped(&node.input),
        LogicalPlan::SubqueryAlias(node) => more_than_skipped(&node.input),
        LogicalPlan::Sort(node) if node.fetch.is_none() => more_than_skipped(&node.input),
        LogicalPlan::Limit(limit) => more_rows_than(limit),
        _ => Ok(None),
    }
}

fn more_rows_than(limit: &Limit) -> Result<Option<Expr>> {
    let (Ok(SkipType::Literal(skipped)), Ok(FetchType::Literal(fetched))) =
        (limit.get_skip_type(), limit.get_fetch_type())
    else {
        return Ok(None);
    };
    if skipped == 0 || fetched == Some(0) {
        // The engine knows these.
        return Ok(None);
    }
    // Neither its order nor its columns change how many rows there are.
    let mut rows = &limit.input;
    while let LogicalPlan::Projection(Projection { input, .. }) | LogicalPlan::Sort(Sort { input, fetch: None, .. }) =
        rows.as_ref()
    {
        rows = input;
    }
    let count = LogicalPlanBuilder::from(Arc::clone(rows)).aggregate(Vec::<Expr>::new(), [count_all()])?.build()?;
    let skipped = i64::try_from(skipped).unwrap_or(i64::MAX);
    Ok(Some(scalar(count).gt(lit(skipped))))
}

/// The rows of a comparison of rows that refer to the outer query, with what ties them to it in the comparison.
fn tied_above(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let filter = match plan {
        LogicalPlan::Projection(projection) => return tied_above(&projection.input),
        LogicalPlan::Filter(filter) => filter,
        _ => return Ok(None),
    };
    let LogicalPlan::SubqueryAlias(rows) = filter.input.as_ref() else { return Ok(None) };
    if rows.alias.table() != ROWS || rows.input.all_out_ref_exprs().is_empty() {
        return Ok(None);
    }
    let Some(Untied { plan, outer }) = untied(&filter.input)? else { return Ok(None) };
    let tied = ties(&plan, outer.len()).into_iter().zip(outer).map(|(tie, outer)| tie.eq(outer));
    let condition = tied.fold(filter.predicate.clone(), Expr::and);
    LogicalPlanBuilder::from(plan).filter(condition)?.build().map(Some)
}

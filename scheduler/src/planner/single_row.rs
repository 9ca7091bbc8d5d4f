//! Subqueries that stand for one value, in forms that the engine plans.
//!
//! The engine plans a correlated scalar subquery only if it can have no more than one row for each outer row. Others are
//! planned as the list of their rows, of which the outer expression takes the only one, or fails:
//! `(SELECT x FROM r WHERE r.k = t.k)` becomes `only_value((SELECT array_agg(x) FROM r WHERE r.k = t.k))`.
//!
//! One that may have no row is said to be nullable.
use std::sync::Arc;

use ancho_common::exact::{named_cast::maybe_null, only_value::only_value};
use datafusion::{
    common::{
        Column,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    functions_aggregate::array_agg::array_agg_udaf,
    logical_expr::{
        Expr, FetchType, LogicalPlan, LogicalPlanBuilder, SkipType, Subquery,
        expr::{AggregateFunction, ScalarFunction},
        expr_rewriter::NamePreserver,
    },
};
/// The plan with such subqueries rewritten. Output names stay.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|e| match e {
                Expr::ScalarSubquery(s) if may_have_several_rows(&s) => only(s).map(Transformed::yes),
                Expr::ScalarSubquery(s) if is_nullable_unseen(&s) => {
                    Ok(Transformed::yes(maybe_null(Expr::ScalarSubquery(s))))
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(if rewritten.transformed { rewritten.update_data(|e| name.restore(e)) } else { rewritten })
        })
    })
    .data()
}

fn may_have_several_rows(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty()
        && subquery.subquery.schema().fields().len() == 1
        && subquery.subquery.max_rows().is_none_or(|rows| rows > 1)
}

/// Without a row it is NULL, which the planner does not see where its column is never NULL: it would fold `… IS NULL` to FALSE.
fn is_nullable_unseen(subquery: &Subquery) -> bool {
    let fields = subquery.subquery.schema().fields();
    fields.len() == 1 && !fields[0].is_nullable() && !has_a_row(&subquery.subquery)
}

/// Whether a plan has a row for sure.
fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty() || has_a_row(&aggregate.input),
        LogicalPlan::Projection(node) => has_a_row(&node.input),
        LogicalPlan::SubqueryAlias(node) => has_a_row(&node.input),
        LogicalPlan::Window(node) => has_a_row(&node.input),
        LogicalPlan::Distinct(node) => has_a_row(node.input()),
        LogicalPlan::Sort(node) => node.fetch != Some(0) && has_a_row(&node.input),
        LogicalPlan::Limit(limit) => {
            let skips = !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
            let fetches = matches!(limit.get_fetch_type(), Ok(FetchType::Literal(rows)) if rows != Some(0));
            !skips && fetches && has_a_row(&limit.input)
        }
        LogicalPlan::Union(union) => union.inputs.iter().any(|input| has_a_row(input)),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Values(values) => !values.values.is_empty(),
        _ => false,
    }
}

fn only(subquery: Subquery) -> Result<Expr> {
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let rows = AggregateFunction::new_udf(array_agg_udaf(), vec![column], false, None, Vec::new(), None);
    let listed = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), vec![Expr::AggregateFunction(rows)])?
        .build()?;
    let list = Expr::ScalarSubquery(Subquery { subquery: Arc::new(listed), ..subquery });
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(only_value(), vec![list])))
}

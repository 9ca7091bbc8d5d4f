//! Subqueries that stand for one value, in forms that the engine plans.
//!
//! The engine plans a correlated scalar subquery only if it can have no more than one row for each outer row. Others are
//! planned as the list of their rows, of which the outer expression takes the only one, or fails:
//! `(SELECT x FROM r WHERE r.k = t.k)` becomes `only_value((SELECT array_agg(x) FROM r WHERE r.k = t.k))`.
//!
//! `EXISTS` is planned as a join in a filter only; among the columns of a result it becomes a count that is compared
//! with 0.
use std::sync::Arc;

use ancho_common::exact::only_value::only_value;
use datafusion::{
    common::{
        Column,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    functions_aggregate::{array_agg::array_agg_udaf, count::count_all},
    logical_expr::{
        Expr, LogicalPlan, LogicalPlanBuilder, Subquery,
        expr::{AggregateFunction, Exists, ScalarFunction},
        expr_rewriter::NamePreserver,
        lit,
    },
};
/// The plan with such subqueries rewritten. Output names stay.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let filters = matches!(node, LogicalPlan::Filter(_));
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let rewritten = expr.transform_up(|e| match e {
                Expr::ScalarSubquery(s) if may_have_several_rows(&s) => only(s).map(Transformed::yes),
                Expr::Exists(x) if !filters => counted(x).map(Transformed::yes),
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

fn only(subquery: Subquery) -> Result<Expr> {
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let rows = AggregateFunction::new_udf(array_agg_udaf(), vec![column], false, None, Vec::new(), None);
    let listed = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), vec![Expr::AggregateFunction(rows)])?
        .build()?;
    let list = Expr::ScalarSubquery(Subquery { subquery: Arc::new(listed), ..subquery });
    Ok(Expr::ScalarFunction(ScalarFunction::new_udf(only_value(), vec![list])))
}

/// Whether there are rows, by their number.
fn counted(exists: Exists) -> Result<Expr> {
    let Exists { subquery, negated } = exists;
    let rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), vec![count_all()])?
        .build()?;
    let count = Expr::ScalarSubquery(Subquery { subquery: Arc::new(rows), ..subquery });
    Ok(if negated { count.eq(lit(0_i64)) } else { count.gt(lit(0_i64)) })
}

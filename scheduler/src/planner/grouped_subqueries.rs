//! Correlated scalar subqueries among the keys and arguments of aggregates.
//!
//! The engine plans them in projections and filters. In a `GROUP BY` it refuses them, and so does it in an aggregate's argument
//! once a rule has moved the argument. So they are computed in a projection below the aggregate, for each row as SQL has it.
use std::sync::Arc;

use datafusion::{
    common::{
        Column,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    error::Result,
    logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, Projection},
};

/// The plan with such subqueries below their aggregates. Grouping sets stay as they are.
///
/// # Errors
/// Only what building a plan can raise.
pub fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Aggregate(aggregate) if concerned(&aggregate) => computed_below(aggregate).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

fn concerned(aggregate: &Aggregate) -> bool {
    let mut all = aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
    all.clone().all(|expr| !matches!(expr, Expr::GroupingSet(_)))
        && all.any(|expr| expr.exists(|e| Ok(is_correlated(e))).unwrap_or(false))
}

fn is_correlated(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty())
}

fn computed_below(aggregate: Aggregate) -> Result<LogicalPlan> {
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
    let mut found = Vec::new();
    let mut replaced = |exprs: Vec<Expr>| -> Result<Vec<Expr>> {
        exprs.into_iter().map(|expr| column_for_each(expr, &mut found)).collect()
    };
    let (group_expr, aggr_expr) = (replaced(group_expr)?, replaced(aggr_expr)?);
    let columns = input.schema().iter().map(Expr::from);
    let computed = found.into_iter().enumerate().map(|(position, subquery)| subquery.alias(name(position)));
    let computed: Vec<Expr> = columns.chain(computed).collect();
    let below = LogicalPlanBuilder::from(Arc::unwrap_or_clone(input)).project(computed)?.build()?;
    let aggregate = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(below), group_expr, aggr_expr)?);
    // Whoever reads the aggregate knows its columns by the names that the subqueries gave them.
    let named = aggregate.schema().iter().zip(schema.iter()).map(|((table, field), (known_table, known))| {
        let column = Expr::from((table, field));
        if (table, field.name()) == (known_table, known.name()) {
            column
        } else {
            column.alias_qualified(known_table.cloned(), known.name())
        }
    });
    let named = named.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(named, Arc::new(aggregate))?))
}

/// An expression with a column in place of each such subquery. Equal ones are computed once.
fn column_for_each(expr: Expr, found: &mut Vec<Expr>) -> Result<Expr> {
    expr.transform_down(|e| {
        if !is_correlated(&e) {
            return Ok(Transformed::no(e));
        }
        let position = found.iter().position(|known| *known == e).unwrap_or_else(|| {
            found.push(e);
            found.len() - 1
        });
        Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name(position)))))
    })
    .data()
}

fn name(position: usize) -> String {
    format!("__ancho_subquery_{position}")
}

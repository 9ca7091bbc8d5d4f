//! Uncorrelated scalar subqueries are run first, and their value is planned as a literal.
//!
//! Left to the planner of distributed queries they become joins, which return several rows where SQL demands an error;
//! and a literal also lets partitions and files be pruned.
use std::collections::HashMap;

use ancho_common::error::{Condition, Error};
use arrow::record_batch::RecordBatch;
use datafusion::{
    catalog::cte_worktable::CteWorkTable,
    common::{
        ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    datasource::source_as_provider,
    error::Result,
    logical_expr::{Expr, LogicalPlan, Subquery, expr_rewriter::NamePreserver},
};

/// The uncorrelated scalar subqueries of a plan, outermost first, each once. Those inside another one are not listed:
/// they are that one's affair when it is run.
///
/// # Errors
/// Only what walking a plan can raise.
pub fn find(plan: &LogicalPlan) -> Result<Vec<LogicalPlan>> {
    let mut found: Vec<LogicalPlan> = Vec::new();
    collect(plan, &mut found)?;
    Ok(found)
}

fn collect(plan: &LogicalPlan, found: &mut Vec<LogicalPlan>) -> Result<()> {
    // `apply` visits a plan's inputs but not the plans inside its expressions; those are entered here, so that the
    // inside of a subquery that will be run on its own is left out.
    plan.apply(|node| {
        for expr in node.expressions() {
            expr.apply(|e| {
                match e {
                    Expr::ScalarSubquery(s) if runs_alone(s)? => note_once(&s.subquery, found),
                    Expr::ScalarSubquery(s) => collect(&s.subquery, found)?,
                    Expr::InSubquery(i) => collect(&i.subquery.subquery, found)?,
                    Expr::Exists(x) => collect(&x.subquery.subquery, found)?,
                    Expr::SetComparison(c) => collect(&c.subquery.subquery, found)?,
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn note_once(subquery: &LogicalPlan, found: &mut Vec<LogicalPlan>) {
    if !found.contains(subquery) {
        found.push(subquery.clone());
    }
}

/// It refers to nothing outside itself: no outer column, no work table of a recursive query around it.
fn runs_alone(subquery: &Subquery) -> Result<bool> {
    if !subquery.outer_ref_columns.is_empty() {
        return Ok(false);
    }
    let mut alone = true;
    let mut own_recursions = Vec::new();
    subquery.subquery.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::RecursiveQuery(r) => own_recursions.push(r.name.clone()),
            LogicalPlan::TableScan(scan) => {
                let work_table = source_as_provider(&scan.source).is_ok_and(|p| p.is::<CteWorkTable>());
                if work_table && !own_recursions.iter().any(|name| scan.table_name.table() == name) {
                    alone = false;
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(alone)
}

/// The value of a scalar subquery from its rows: NULL for none, an error for more than one.
///
/// # Errors
/// The subquery returned more than one row.
pub fn value_of(plan: &LogicalPlan, batches: &[RecordBatch]) -> ancho_common::error::Result<ScalarValue> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if rows > 1 {
        return Err(Error::invalid(format!(
            "a scalar subquery returned {rows} rows where at most one is allowed; add a condition, an aggregate or LIMIT 1"
        ))
        .with(Condition::TooManyRows));
    }
    match batches.iter().find(|b| b.num_rows() == 1) {
        Some(batch) => Ok(ScalarValue::try_from_array(batch.column(0), 0)?),
        None => Ok(ScalarValue::try_from(plan.schema().field(0).data_type())?),
    }
}

/// The plan with these subqueries replaced by their values. Output names stay.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn replace(plan: LogicalPlan, values: &HashMap<LogicalPlan, ScalarValue>) -> Result<LogicalPlan> {
    if values.is_empty() {
        return Ok(plan);
    }
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let rewritten = node.map_expressions(|expr| {
            let saved = names.save(&expr);
            let replaced = expr.transform_up(|e| {
                if let Expr::ScalarSubquery(s) = &e
                    && let Some(value) = values.get(s.subquery.as_ref())
                {
                    return Ok(Transformed::yes(Expr::Literal(value.clone(), None)));
                }
                Ok(Transformed::no(e))
            })?;
            Ok(if replaced.transformed { replaced.update_data(|e| saved.restore(e)) } else { replaced })
        })?;
        // Nullability may have changed with the literal.
        if rewritten.transformed { rewritten.map_data(LogicalPlan::recompute_schema) } else { Ok(rewritten) }
    })
    .data()
}

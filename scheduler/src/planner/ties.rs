//! What ties a subquery to the outer query, moved to the end of its columns.
use datafusion::{
    common::tree_node::TreeNode,
    error::Result,
    logical_expr::{
        BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Sort, cast,
        type_coercion::binary::comparison_coercion,
        utils::{conjunction, split_conjunction_owned},
    },
};

/// A plan without references to the outer query: the rows of all outer rows together. Its last columns are each to be equal
/// to one of these expressions over the outer query.
pub(super) struct Untied {
    pub(super) plan: LogicalPlan,
    pub(super) outer: Vec<Expr>,
}

/// The plan untied; `None` if it is tied otherwise than by `=`.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub(super) fn untied(plan: &LogicalPlan) -> Result<Option<Untied>> {
    if plan.all_out_ref_exprs().is_empty() {
        return Ok(Some(Untied { plan: plan.clone(), outer: Vec::new() }));
    }
    let inputs = plan.inputs();
    let (false, [input]) = (refers_outside(plan), inputs.as_slice()) else {
        return match plan {
            LogicalPlan::Filter(filter) => tied_by_filter(&filter.input, filter.predicate.clone()),
            _ => Ok(None),
        };
    };
    let Some(Untied { plan: input, outer }) = untied(input)? else { return Ok(None) };
    let tied = ties(&input, outer.len());
    let untied = match plan {
        LogicalPlan::Projection(projection) => {
            LogicalPlanBuilder::from(input).project(projection.expr.iter().cloned().chain(tied))?.build()?
        }
        LogicalPlan::Aggregate(aggregate)
            if !aggregate.group_expr.is_empty()
                && !aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_))) =>
        {
            let groups = aggregate.group_expr.iter().cloned().chain(tied.clone());
            let shown = aggregate.schema.columns().into_iter().map(Expr::Column);
            LogicalPlanBuilder::from(input)
                .aggregate(groups, aggregate.aggr_expr.iter().cloned())?
                .project(shown.chain(tied))?
                .build()?
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(Sort { fetch: None, .. })
        | LogicalPlan::Distinct(Distinct::All(_)) => plan.with_new_exprs(plan.expressions(), vec![input])?,
        _ => return Ok(None),
    };
    Ok(Some(Untied { plan: untied, outer }))
}

fn tied_by_filter(input: &LogicalPlan, predicate: Expr) -> Result<Option<Untied>> {
    let Some(Untied { plan, mut outer }) = untied(input)? else { return Ok(None) };
    let (tied, stay): (Vec<Expr>, Vec<Expr>) =
        split_conjunction_owned(predicate).into_iter().partition(Expr::contains_outer);
    let mut all: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
    for condition in tied {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return Ok(None) };
        let (inside, outside) = if left.contains_outer() { (right, left) } else { (left, right) };
        if inside.contains_outer()
            || !outside.column_refs().is_empty()
            || has_subquery(&inside)?
            || has_subquery(&outside)?
        {
            return Ok(None);
        }
        let (own, other) = (inside.get_type(plan.schema())?, outside.get_type(plan.schema())?);
        let Some(common) = comparison_coercion(&own, &other) else { return Ok(None) };
        let in_common = |e: Expr, own| if own == common { e } else { cast(e, common.clone()) };
        all.push(in_common(*inside, own).alias(format!("__ancho_tie_{}", outer.len())));
        outer.push(in_common(*outside, other));
    }
    let mut plan = LogicalPlanBuilder::from(plan);
    if let Some(stay) = conjunction(stay) {
        plan = plan.filter(stay)?;
    }
    Ok(Some(Untied { plan: plan.project(all)?.build()?, outer }))
}

fn refers_outside(plan: &LogicalPlan) -> bool {
    plan.expressions().iter().any(Expr::contains_outer)
}

pub(super) fn has_subquery(expr: &Expr) -> Result<bool> {
    expr.exists(|e| {
        Ok(matches!(e, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)))
    })
}

/// The columns that are to be equal to expressions over the outer query, of which there are so many.
pub(super) fn ties(plan: &LogicalPlan, count: usize) -> Vec<Expr> {
    let columns = plan.schema().columns();
    columns[columns.len() - count..].iter().cloned().map(Expr::Column).collect()
}

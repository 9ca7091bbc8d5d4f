//! `x NOT IN (subquery)` where it is not a condition of its own, such as under `OR`.
//!
//! The engine makes a join that marks rows with a match of such a condition, and takes rows without a mark for rows that
//! are not in. Where `x` or a value of the subquery is NULL, that is not known, and such a row must not pass. Here the
//! condition is spelled out with `EXISTS`, whose marks are exact. As a condition of its own it is an anti join that minds
//! NULLs, and stays, unless the subquery refers to the outer query: that join has one column to compare only.
use std::sync::Arc;

use datafusion::{
    common::{
        Column, DFSchema, ExprSchema, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{
        BinaryExpr, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, expr::InSubquery,
        expr_fn::not_exists, lit, utils::merge_schema,
    },
    optimizer::AnalyzerRule,
};

/// The rule. It runs before types are made equal.
#[derive(Debug)]
pub struct NullsOfNotIn;

impl AnalyzerRule for NullsOfNotIn {
    fn name(&self) -> &str {
        "nulls_of_not_in"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let LogicalPlan::Filter(_) = &plan else { return Ok(Transformed::no(plan)) };
            let schema = merge_schema(&plan.inputs());
            plan.map_expressions(|predicate| spelled_out(predicate, Place::Alone, &schema))
        })
        .data()
    }
}

/// Where in a predicate an expression stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Rows pass only if it is true.
    Alone,
    /// NULL and false are the same for what becomes of a row.
    Positive,
    /// NULL and false may differ.
    Anywhere,
}

fn spelled_out(expr: Expr, place: Place, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right })
            if place != Place::Anywhere =>
        {
            let place = if op == Operator::Or { Place::Positive } else { place };
            let (left, right) = (spelled_out(*left, place, schema)?, spelled_out(*right, place, schema)?);
            let transformed = left.transformed || right.transformed;
            let both = Expr::BinaryExpr(BinaryExpr::new(Box::new(left.data), op, Box::new(right.data)));
            Ok(if transformed { Transformed::yes(both) } else { Transformed::no(both) })
        }
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(mut condition) => {
                condition.negated = !condition.negated;
                Ok(Transformed::yes(membership(condition, place, schema)?.data))
            }
            inner => Ok(spelled_out(inner, Place::Anywhere, schema)?.update_data(|e| Expr::Not(Box::new(e)))),
        },
        Expr::InSubquery(condition) => membership(condition, place, schema),
        other => other.map_children(|child| spelled_out(child, Place::Anywhere, schema)),
    }
}

fn membership(condition: InSubquery, place: Place, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let correlated = !condition.subquery.outer_ref_columns.is_empty();
    let keeps = match place {
        Place::Alone => !(condition.negated && correlated),
        Place::Positive => !condition.negated,
        Place::Anywhere => false,
    };
    let subquery = Arc::clone(&condition.subquery.subquery);
    let (qualifier, field) = subquery.schema().qualified_field(0);
    let may_be_null = (field.is_nullable(), condition.expr.nullable(schema)?);
    let known = may_be_null == (false, false) && !correlated;
    if subquery.schema().fields().len() != 1 || (known && !keeps) {
        return Ok(Transformed::no(Expr::InSubquery(condition)));
    }
    if keeps {
        return if correlated {
            named_apart(condition, schema)
        } else {
            Ok(Transformed::no(Expr::InSubquery(condition)))
        };
    }
    let value = Expr::Column(Column::from((qualifier, field)));
    let outer = condition.expr.as_ref().clone().transform(|e| match e {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let filtered = |condition: Expr| -> Result<Arc<LogicalPlan>> {
        Ok(Arc::new(LogicalPlanBuilder::from(Arc::clone(&subquery)).filter(condition)?.build()?))
    };
    let unmatched = not_exists(filtered(value.clone().eq(outer.data))?);
    let no_nulls = not_exists(filtered(value.is_null())?);
    let comparable = condition.expr.as_ref().clone().is_not_null().or(not_exists(Arc::clone(&subquery)));
    let mut not_in = unmatched.clone();
    if may_be_null.0 {
        not_in = not_in.and(no_nulls);
    }
    if may_be_null.1 {
        not_in = not_in.and(comparable);
    }
    if place != Place::Anywhere {
        // Only what is negated comes here.
        return Ok(Transformed::yes(not_in));
    }
    let not_in = not_in.or(lit(ScalarValue::Boolean(None)).and(unmatched));
    Ok(Transformed::yes(if condition.negated { not_in } else { Expr::Not(Box::new(not_in)) }))
}

/// Name of a compared column.
const COMPARED: &str = "__ancho_in";

/// The column of a correlated subquery may be one that ties it to the outer query, too. Where it is cast to be compared, both
/// would have one name.
fn named_apart(mut condition: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let subquery = Arc::clone(&condition.subquery.subquery);
    let (qualifier, field) = subquery.schema().qualified_field(0);
    if condition.expr.get_type(schema)? == *field.data_type() {
        return Ok(Transformed::no(Expr::InSubquery(condition)));
    }
    let column = Expr::Column(Column::from((qualifier, field))).alias(COMPARED);
    let named = LogicalPlanBuilder::from(Arc::clone(&subquery)).project([column])?.build()?;
    condition.subquery = Subquery { subquery: Arc::new(named), ..condition.subquery };
    Ok(Transformed::yes(Expr::InSubquery(condition)))
}

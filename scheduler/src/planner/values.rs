//! `EXISTS`, `IN (SELECT …)` and subqueries that refer to the outer query, where a value is wanted.
//!
//! The engine plans `EXISTS` and `IN` as conditions of a filter only. Among the columns of a result they become counts that
//! are compared with 0. `x IN (SELECT v …)` is true if a `v` equals `x`; else unknown if a `v` is NULL, or if `x` is NULL and
//! there is a `v`; else false.
//!
//! What refers to the outer query is planned in filters and among columns only. In an aggregate's argument, a window or an
//! `ORDER BY` it becomes a column below.
use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        Column, DFSchema, ExprSchema, ScalarValue, Spans,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    functions_aggregate::count::count_all,
    logical_expr::{
        Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Subquery, cast,
        expr::{Exists, InSubquery},
        expr_rewriter::NamePreserver,
        lit, not,
        type_coercion::binary::comparison_coercion,
        utils::merge_schema,
        when,
    },
};

/// The plan with such values computed. Output names stay.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        // A filter's conditions are planned as joins.
        if let LogicalPlan::Filter(_) = &node {
            return Ok(Transformed::no(node));
        }
        if let Some(lifted) = lifted(&node)? {
            return Ok(Transformed::yes(lifted));
        }
        valued(node)
    })
    .data()
}

fn valued(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    let schema = merge_schema(&node.inputs());
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let rewritten = expr.transform_up(|e| match e {
            Expr::Exists(exists) => counted(&exists).map(Transformed::yes),
            Expr::InSubquery(condition) => is_in(condition, &schema),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(if rewritten.transformed { rewritten.update_data(|e| name.restore(e)) } else { rewritten })
    })
}

/// Whether there are rows, by their number.
fn counted(Exists { subquery, negated }: &Exists) -> Result<Expr> {
    let rows = count(Arc::clone(&subquery.subquery))?;
    Ok(if *negated { rows.eq(lit(0_i64)) } else { rows.gt(lit(0_i64)) })
}

/// What the values of a subquery are called.
const VALUE: &str = "__ancho_in";

/// Whether a value is among those of a subquery, if that is known.
fn is_in(condition: InSubquery, outer: &DFSchema) -> Result<Transformed<Expr>> {
    let subquery = Arc::clone(&condition.subquery.subquery);
    let (table, field) = subquery.schema().qualified_field(0);
    let own = condition.expr.get_type(outer)?;
    let (1, Some(common)) = (subquery.schema().fields().len(), compared_as(&own, field.data_type())) else {
        // The engine says what is wrong with it.
        return Ok(Transformed::no(Expr::InSubquery(condition)));
    };
    let InSubquery { expr: value, negated, .. } = condition;
    let nulls_inside = field.is_nullable();
    let in_common = |e: Expr, own: &DataType| if *own == common { e } else { cast(e, common.clone()) };
    let inside = in_common(Expr::Column(Column::from((table, field))), field.data_type()).alias(VALUE);
    let values = Arc::new(LogicalPlanBuilder::from(Arc::clone(&subquery)).project([inside])?.build()?);
    let inside = Expr::Column(Column::from_name(VALUE));
    let outside = value.as_ref().clone().transform(|e| match e {
        Expr::Column(column) => {
            let field = Arc::clone(outer.field_from_column(&column)?);
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    let outside = in_common(outside.data, &own);
    let some = |condition: Option<Expr>| -> Result<Expr> {
        let rows = LogicalPlanBuilder::from(Arc::clone(&values));
        let rows = match condition {
            Some(condition) => rows.filter(condition)?,
            None => rows,
        };
        Ok(count(Arc::new(rows.build()?))?.gt(lit(0_i64)))
    };
    let found = some(Some(inside.clone().eq(outside)))?;
    let mut unknown = None;
    if nulls_inside {
        unknown = Some(some(Some(inside.is_null()))?);
    }
    if value.nullable(outer)? {
        let compares_null = value.is_null().and(some(None)?);
        unknown = Some(unknown.map_or_else(|| compares_null.clone(), |other| other.or(compares_null.clone())));
    }
    let is_in = match unknown {
        None => found,
        Some(unknown) => when(found, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))?,
    };
    Ok(Transformed::yes(if negated { not(is_in) } else { is_in }))
}

/// The type that two values are compared in. A decimal that meets a double is one.
fn compared_as(left: &DataType, right: &DataType) -> Option<DataType> {
    match (left.is_floating(), right.is_floating()) {
        (true, false) if right.is_numeric() => Some(DataType::Float64),
        (false, true) if left.is_numeric() => Some(DataType::Float64),
        _ => comparison_coercion(left, right),
    }
}

fn count(rows: Arc<LogicalPlan>) -> Result<Expr> {
    let count = LogicalPlanBuilder::from(rows).aggregate(Vec::<Expr>::new(), [count_all()])?.build()?;
    let outer_ref_columns = count.all_out_ref_exprs();
    Ok(Expr::ScalarSubquery(Subquery { subquery: Arc::new(count), outer_ref_columns, spans: Spans::new() }))
}

/// The node over a projection that computes what the node's expressions have of such values.
fn lifted(node: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let (LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_)) = node else { return Ok(None) };
    let names = NamePreserver::new(node);
    let mut values = Vec::new();
    let mut expressions = Vec::new();
    for expr in node.expressions() {
        let name = names.save(&expr);
        let rewritten = expr.transform_down(|e| {
            // What a set of groups is cannot be named anew.
            if let Expr::GroupingSet(_) = &e {
                return Ok(Transformed::new(e, false, TreeNodeRecursion::Jump));
            }
            if !is_value(&e) {
                return Ok(Transformed::no(e));
            }
            let column = format!("__ancho_value_{}", values.len());
            values.push(e.alias(&column));
            Ok(Transformed::new(Expr::Column(Column::from_name(column)), true, TreeNodeRecursion::Jump))
        })?;
        let is_key_of_sort = matches!(node, LogicalPlan::Sort(_));
        expressions.push(match rewritten.transformed && !is_key_of_sort {
            true => name.restore(rewritten.data),
            false => rewritten.data,
        });
    }
    let inputs = node.inputs();
    let (false, [input]) = (values.is_empty(), inputs.as_slice()) else { return Ok(None) };
    let all = input.schema().columns().into_iter().map(Expr::Column).chain(values);
    let below = LogicalPlanBuilder::from((*input).clone()).project(all)?.build()?;
    let above = node.with_new_exprs(expressions, vec![valued(below)?.data])?;
    if let LogicalPlan::Aggregate(_) = node {
        return Ok(Some(above));
    }
    let shown = node.schema().columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(above).project(shown)?.build().map(Some)
}

fn is_value(expr: &Expr) -> bool {
    match expr {
        Expr::Exists(_) | Expr::InSubquery(_) => true,
        // Others are run first.
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        _ => false,
    }
}

//! Where a float meets a decimal, both are compared and chosen from as DOUBLE, as in PostgreSQL and DuckDB.
//!
//! The engine would turn the float into a `DECIMAL(30, 15)`: small ones become zero, large ones an error. The rule runs
//! before the engine makes types equal. (Sums and products of the two are DOUBLE in the engine as well.)
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, Union, utils::merge_schema},
    optimizer::AnalyzerRule,
};

use super::expressions::changed;

/// Functions whose value is one of their arguments.
const CHOICES: &[&str] = &["coalesce", "greatest", "ifnull", "least", "make_array", "nullif", "nvl", "nvl2"];

/// The rule.
#[derive(Debug)]
pub struct FloatsPrevail;

impl AnalyzerRule for FloatsPrevail {
    fn name(&self) -> &str {
        "floats_prevail"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Union(union) => unioned(union),
            other => rewritten(other),
        })
        .data()
    }
}

fn rewritten(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let rewritten = changed(plan, |e| with_doubles(e, &schema))?;
    // Types below may have changed, too.
    rewritten.map_data(LogicalPlan::recompute_schema)
}

fn with_doubles(mut expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let operands: Vec<&mut Expr> = match &mut expr {
        Expr::BinaryExpr(binary) if compares(binary.op) => vec![&mut binary.left, &mut binary.right],
        Expr::Between(between) => vec![&mut between.expr, &mut between.low, &mut between.high],
        Expr::InList(list) => std::iter::once(list.expr.as_mut()).chain(&mut list.list).collect(),
        Expr::Case(case) => {
            let results = case.when_then_expr.iter_mut().map(|(_, then)| then.as_mut());
            results.chain(case.else_expr.as_deref_mut()).collect()
        }
        Expr::ScalarFunction(call) if CHOICES.contains(&call.func.name()) => call.args.iter_mut().collect(),
        _ => return Transformed::no(expr),
    };
    // What has no type yet is left to the engine.
    let types: Vec<Option<DataType>> = operands.iter().map(|e| e.get_type(schema).ok()).collect();
    if !types.iter().flatten().any(DataType::is_floating) {
        return Transformed::no(expr);
    }
    let mut changed = false;
    for (operand, data_type) in operands.into_iter().zip(types) {
        if data_type.is_some_and(|t| t.is_decimal()) {
            *operand = as_double(std::mem::take(operand));
            changed = true;
        }
    }
    if changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// A literal becomes the nearest double to its digits, which a cast of its scaled integer may miss.
fn as_double(expr: Expr) -> Expr {
    if let Expr::Literal(value @ ScalarValue::Decimal128(Some(_), ..), metadata) = &expr
        && let Ok(double) = value.to_string().parse::<f64>()
    {
        return Expr::Literal(ScalarValue::Float64(Some(double)), metadata.clone());
    }
    datafusion::logical_expr::cast(expr, DataType::Float64)
}

/// Columns that are a float in one branch and a decimal in another.
fn unioned(union: Union) -> Result<Transformed<LogicalPlan>> {
    let is_float = |index: usize| {
        union.inputs.iter().any(|i| i.schema().fields().get(index).is_some_and(|f| f.data_type().is_floating()))
    };
    let mut changed = false;
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for input in &union.inputs {
        let columns = input.schema().columns();
        let fields = input.schema().fields();
        let cast: Vec<bool> =
            fields.iter().enumerate().map(|(i, f)| f.data_type().is_decimal() && is_float(i)).collect();
        if !cast.contains(&true) {
            inputs.push(Arc::clone(input));
            continue;
        }
        changed = true;
        let columns = columns.into_iter().zip(cast).map(|(column, cast)| {
            let name = column.clone();
            let expr = Expr::Column(column);
            if cast { as_double(expr).alias_qualified(name.relation, name.name) } else { expr }
        });
        inputs.push(Arc::new(LogicalPlanBuilder::from(input.as_ref().clone()).project(columns)?.build()?));
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    Ok(Transformed::yes(LogicalPlan::Union(Union { inputs, schema: union.schema })))
}

//! Puts checked operators in place of the engine's, which wrap around.
use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, expr::ScalarFunction},
    optimizer::AnalyzerRule,
};

use super::{
    expressions::{changed, columns_of},
    operators::{Operation, function},
};

/// The rule. It runs after the types of operands have been made equal.
#[derive(Debug)]
pub struct ExactArithmetic;

impl AnalyzerRule for ExactArithmetic {
    fn name(&self) -> &str {
        "exact_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewritten).data()
    }
}

fn rewritten(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = columns_of(&plan)?;
    changed(plan, |e| checked(e, &schema))
}

/// The expression with its topmost operator checked.
fn checked(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    // What has no type here is left to the engine, which will say what is wrong with it.
    let integer = |e: &Expr| e.get_type(schema).ok().filter(DataType::is_integer);
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let operation = match op {
                Operator::Plus => Operation::Add,
                Operator::Minus => Operation::Subtract,
                Operator::Multiply => Operation::Multiply,
                _ => return Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            };
            match integer(&left) {
                Some(operand) if integer(&right).as_ref() == Some(&operand) => call(operation, vec![*left, *right]),
                _ => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Negative(operand) if integer(&operand).is_some() => call(Operation::Negate, vec![*operand]),
        other => Transformed::no(other),
    }
}

fn call(operation: Operation, operands: Vec<Expr>) -> Transformed<Expr> {
    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function(operation), operands)))
}

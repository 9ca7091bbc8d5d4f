//! A CASE computes a branch for the rows of that branch only, also where its branches are conditions.
//!
//! The engine turns a CASE of conditions into AND and OR, whose operands it may compute for every row, in any order:
//! `CASE WHEN k = 0 THEN false ELSE 100 / k > 5 END` would divide by zero. A CASE with a branch that may fail therefore
//! chooses among numbers here, `CASE … THEN 0 ELSE CAST(100 / k > 5 AS TINYINT) END > 0`, which the engine leaves alone.
use arrow::datatypes::DataType;
use datafusion::{
    common::{
        DFSchema, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, Operator, lit},
    optimizer::AnalyzerRule,
};

use super::expressions::{changed, columns_of};

/// The rule. It runs after types are known.
#[derive(Debug)]
pub struct BranchesOfCase;

/// Functions that the engine writes as a CASE.
const WRITTEN_AS_CASE: &[&str] = &["coalesce", "ifnull", "nvl"];

impl AnalyzerRule for BranchesOfCase {
    fn name(&self) -> &str {
        "branches_of_case"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(rewritten).data()
    }
}

fn rewritten(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = columns_of(&plan)?;
    changed(plan, |e| chosen_as_number(e, &schema))
}

fn chosen_as_number(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    let conditional = match &expr {
        Expr::Case(_) => true,
        Expr::ScalarFunction(call) => WRITTEN_AS_CASE.contains(&call.func.name()),
        _ => false,
    };
    if !conditional || !matches!(expr.get_type(schema), Ok(DataType::Boolean)) {
        return Transformed::no(expr);
    }
    match expr {
        Expr::Case(case) => {
            let later = case.when_then_expr.iter().skip(1).map(|(when, _)| when);
            let results = case.when_then_expr.iter().map(|(_, then)| then);
            if !later.chain(results).chain(&case.else_expr).any(|branch| may_fail(branch, schema)) {
                return Transformed::no(Expr::Case(case));
            }
            let when_then_expr = case.when_then_expr.into_iter().map(|(when, then)| (when, Box::new(number(*then))));
            let else_expr = case.else_expr.map(|otherwise| Box::new(number(*otherwise)));
            Transformed::yes(is_true(Expr::Case(Case::new(case.expr, when_then_expr.collect(), else_expr))))
        }
        Expr::ScalarFunction(mut call) => {
            if !call.args.iter().skip(1).any(|argument| may_fail(argument, schema)) {
                return Transformed::no(Expr::ScalarFunction(call));
            }
            call.args = call.args.into_iter().map(number).collect();
            Transformed::yes(is_true(Expr::ScalarFunction(call)))
        }
        other => Transformed::no(other),
    }
}

fn number(condition: Expr) -> Expr {
    match condition {
        Expr::Literal(ScalarValue::Boolean(value), metadata) => {
            Expr::Literal(ScalarValue::Int8(value.map(i8::from)), metadata)
        }
        other => Expr::Cast(datafusion::logical_expr::Cast::new(Box::new(other), DataType::Int8)),
    }
}

fn is_true(number: Expr) -> Expr {
    // Not `= 1`, which the engine would write into the branches, to have conditions again.
    number.gt(lit(0_i8))
}

/// Whether computing an expression may raise an error for some row.
fn may_fail(expr: &Expr, schema: &DFSchema) -> bool {
    let fails = |e: &Expr| {
        Ok(match e {
            Expr::Negative(_) | Expr::ScalarFunction(_) => true,
            Expr::BinaryExpr(binary) => matches!(
                binary.op,
                Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo
            ),
            Expr::Cast(cast) => match cast.expr.get_type(schema) {
                Ok(from) => !holds_all(&from, cast.field.data_type()),
                Err(_) => true,
            },
            _ => false,
        })
    };
    expr.exists(fails).unwrap_or(true)
}

/// Whether every value of a type has one of another type.
fn holds_all(from: &DataType, to: &DataType) -> bool {
    let text = |t: &DataType| matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    match (from, to) {
        (from, to) if from == to || text(to) => true,
        (from, to) if from.is_integer() && to.is_floating() => true,
        (from, to) if from.is_signed_integer() && to.is_signed_integer() => {
            from.primitive_width() <= to.primitive_width()
        }
        (DataType::Float32, DataType::Float64) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::{BooleanArray, Int64Array, RecordBatch},
        util::pretty::pretty_format_batches,
    };
    use datafusion::{execution::SessionStateBuilder, prelude::SessionContext};

    use crate::exact;

    fn context() -> SessionContext {
        let state = SessionStateBuilder::new().with_default_features().with_analyzer_rules(exact::analyzer_rules());
        let context = SessionContext::new_with_state(state.build());
        let rows = RecordBatch::try_from_iter([
            ("id", Arc::new(Int64Array::from_iter_values(0..40)) as _),
            ("k", Arc::new(Int64Array::from_iter((0..40).map(|i| (i % 4 != 3).then_some(i % 4)))) as _),
            ("b", Arc::new(BooleanArray::from_iter((0..40).map(|i| (i % 3 != 0).then_some(i % 3 == 1)))) as _),
        ]);
        context.register_batch("t", rows.unwrap()).unwrap();
        context
    }

    async fn rows(sql: &str) -> String {
        let batches = context().sql(sql).await.unwrap().collect().await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        pretty_format_batches(&batches).unwrap().to_string()
    }

    #[tokio::test]
    async fn a_branch_is_computed_for_its_rows_only() {
        for condition in [
            "CASE WHEN k = 0 THEN false ELSE 100 / k > 60 END",
            "CASE WHEN k <> 0 THEN 100 / k > 60 ELSE false END",
            "CASE WHEN k <> 0 THEN 100 / k > 60 END",
            "CASE k WHEN 0 THEN false ELSE 100 / k > 60 END",
            "CASE WHEN k = 0 THEN false WHEN 100 / k > 60 THEN true ELSE false END",
            "CASE WHEN k = 0 THEN false ELSE CAST(substr('x123', k + 1) AS INT) < 0 OR 100 % k = 0 AND k < 2 END",
            "coalesce(nullif(k <> 0, true), 100 / k > 60)",
            "NOT CASE WHEN k = 0 THEN true ELSE NOT CASE WHEN k = 0 THEN true ELSE 100 / k > 60 END END",
        ] {
            let found = rows(&format!("SELECT count(*) AS n FROM t WHERE {condition}")).await;
            assert_eq!(found, rows("SELECT count(*) AS n FROM t WHERE k = 1").await, "{condition}");
            let found = rows(&format!("SELECT id, coalesce({condition}, false) AS c FROM t ORDER BY id")).await;
            assert_eq!(found, rows("SELECT id, coalesce(k = 1, false) AS c FROM t ORDER BY id").await, "{condition}");
        }
    }

    #[tokio::test]
    async fn what_cannot_fail_is_left_to_the_engine_and_null_stays_null() {
        let plan = context().sql("SELECT id FROM t WHERE CASE WHEN b THEN k > 1 ELSE id > 3 END").await.unwrap();
        let plan = plan.into_optimized_plan().unwrap().to_string();
        assert!(!plan.contains("Int8"), "{plan}");
        let found = rows(
            "SELECT CASE WHEN k = 0 THEN b ELSE 1 / k > 9 AND b END AS c, count(*) AS n FROM t GROUP BY 1 ORDER BY 1",
        )
        .await;
        let plain = "SELECT CASE WHEN k = 0 THEN b WHEN k IS NULL AND b THEN NULL WHEN b IS NULL AND k IS NULL THEN NULL ELSE false END AS c, \
             count(*) AS n FROM t GROUP BY 1 ORDER BY 1";
        assert_eq!(found, rows(plain).await);
    }
}

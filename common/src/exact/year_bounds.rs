//! `extract(year FROM …)` whose comparisons hold also for years that a type cannot hold.
//!
//! The engine turns `extract(year FROM t) < 3000` into a comparison of `t` with the first instant of that year. For a year
//! beyond the type's range (nanoseconds end in 2262) it has no such instant and compares with NULL, which no row passes.
//! The function here is the engine's, without that step where it would go wrong.
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    functions::datetime::date_part,
    logical_expr::{
        ColumnarValue, Documentation, Expr, ExpressionPlacement, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature,
        expr::ScalarFunction,
        interval_arithmetic::Interval,
        preimage::PreimageResult,
        simplify::{ExprSimplifyResult, SimplifyContext},
        sort_properties::{ExprProperties, SortProperties},
    },
    optimizer::AnalyzerRule,
};

/// The function, under the engine's name.
#[must_use]
pub fn date_part_within_bounds() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(DatePart { engine: date_part() }))
}

/// Puts the function in the place of the engine's, which `extract` refers to by itself.
#[derive(Debug)]
pub struct YearsWithinBounds;

impl AnalyzerRule for YearsWithinBounds {
    fn name(&self) -> &str {
        "years_within_bounds"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| plan.map_expressions(|expr| expr.transform_up(|e| Ok(replaced(e)))))
            .data()
    }
}

fn replaced(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(call) if *call.func == *date_part() => {
            Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(date_part_within_bounds(), call.args)))
        }
        other => Transformed::no(other),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DatePart {
    engine: Arc<ScalarUDF>,
}

impl ScalarUDFImpl for DatePart {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn aliases(&self) -> &[String] {
        self.engine.aliases()
    }

    fn signature(&self) -> &Signature {
        self.engine.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.engine.return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.engine.return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.engine.invoke_with_args(arguments)
    }

    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.engine.simplify(arguments, context)
    }

    fn preimage(&self, arguments: &[Expr], literal: &Expr, context: &SimplifyContext) -> Result<PreimageResult> {
        Ok(match self.engine.inner().preimage(arguments, literal, context)? {
            PreimageResult::Range { interval, .. } if interval.lower().is_null() || interval.upper().is_null() => {
                PreimageResult::None
            }
            range => range,
        })
    }

    fn evaluate_bounds(&self, arguments: &[&Interval]) -> Result<Interval> {
        self.engine.evaluate_bounds(arguments)
    }

    fn output_ordering(&self, arguments: &[ExprProperties]) -> Result<SortProperties> {
        self.engine.output_ordering(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        self.engine.coerce_types(arguments)
    }

    fn placement(&self, arguments: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.engine.placement(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.engine.documentation()
    }
}

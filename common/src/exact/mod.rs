//! Arithmetic that is exact or fails.
//!
//! The engine's own operators and `sum` compute with integers that wrap around: a total that does not fit comes out as
//! some other number. Here it is an error of kind [`OutOfRange`](crate::error::ErrorKind::OutOfRange).
//!
//! * [`sum`] adds in 128 bits and checks the final total only, so that its outcome does not depend on how rows are
//!   spread over tasks.
//! * [`rule`] puts the functions of [`operators`] in place of `+`, `-`, `*` and negation of integers, once types are
//!   known. Functions travel to executors by name; a flag on the engine's operator would be lost on the way.
//! * [`case`] computes the branches of a CASE for their own rows only.
//! * [`named_cast`] is a cast that shows in names.
//! * [`only_value`] is the value of a subquery that may have one row, and an error if it has more.
//! * [`not_in`] minds the NULLs of `NOT IN` under `OR`.
//! * [`interval_length`] is what intervals are compared by.
//! * [`floats`] makes a decimal a double where it meets one.
//! * [`year_bounds`] keeps comparisons of years right beyond a type's range.
//! * [`literals`] decides which numbers of a statement are decimals.
pub mod case;
mod expressions;
pub mod floats;
pub mod interval_length;
pub mod literals;
pub mod named_cast;
pub mod not_in;
pub mod only_value;
pub mod operators;
pub mod rule;
pub mod sum;
pub mod year_bounds;

use std::sync::Arc;

use datafusion::{
    config::ConfigOptions,
    logical_expr::{AggregateUDF, ScalarUDF},
    optimizer::{Analyzer, AnalyzerRule},
};

use crate::assertion;

/// Scalar functions that plans of any session refer to.
#[must_use]
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let others = [
        only_value::only_value(),
        year_bounds::date_part_within_bounds(),
        named_cast::named_cast(),
        interval_length::interval_length(),
        assertion::assert(),
    ];
    operators::Operation::ALL.into_iter().map(operators::function).chain(others).collect()
}

/// Aggregates that stand in for the engine's.
#[must_use]
pub fn aggregates() -> Vec<Arc<AggregateUDF>> {
    vec![sum::checked_sum()]
}

/// The rules of a session that plans: the engine's own between ours.
#[must_use]
pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn AnalyzerRule + Send + Sync>> =
        vec![Arc::new(not_in::NullsOfNotIn), Arc::new(floats::FloatsPrevail)];
    rules.extend(Analyzer::new().rules);
    rules.push(Arc::new(year_bounds::YearsWithinBounds));
    rules.push(Arc::new(rule::ExactArithmetic));
    rules.push(Arc::new(case::BranchesOfCase));
    rules
}

/// Options of a session that plans.
pub fn configure(options: &mut ConfigOptions) {
    options.sql_parser.parse_float_as_decimal = true;
    // Without it a TIMESTAMP WITH TIME ZONE is one without.
    options.execution.time_zone = Some("+00:00".to_owned());
}

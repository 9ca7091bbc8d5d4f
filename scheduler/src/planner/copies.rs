//! `INTERSECT ALL` and `EXCEPT ALL`, which count how often a row is there.
//!
//! The engine makes a semi join of the one and an anti join of the other, which ask only whether a row is on the right side.
//! So the copies of a row are numbered on both sides, and the numbers are compared, too: the second copy of a row finds a
//! partner if the right side has two.
use std::sync::Arc;

use datafusion::{
    arrow::datatypes::DataType,
    common::{
        Column, JoinType, NullEquality,
        tree_node::{Transformed, TransformedResult},
    },
    error::Result,
    functions_window::expr_fn::row_number,
    logical_expr::{
        Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, cast, type_coercion::binary::comparison_coercion,
    },
};

/// What the numbers are called on the left and on the right.
const NUMBERS: [&str; 2] = ["__ancho_copy", "__ancho_other_copy"];

/// The plan, as it comes from the parser, with the copies numbered. Output columns stay.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn number(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if counts_copies(&join) => numbered(&join).map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// Of the plans that come from the parser only set operations join NULL with NULL. Without ALL the left side is distinct;
/// where it is so anyway, there are no copies.
fn counts_copies(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_))
}

fn numbered(join: &Join) -> Result<LogicalPlan> {
    let (left, right) = (columns(&join.left), columns(&join.right));
    // Values that are equal once they are compared are copies, whatever types they come in.
    let types = left.iter().zip(&right).map(|((_, a), (_, b))| comparison_coercion(a, b));
    let types: Vec<Option<DataType>> = types.collect();
    let with_numbers =
        [with_numbers(&join.left, &left, &types, NUMBERS[0])?, with_numbers(&join.right, &right, &types, NUMBERS[1])?];
    let keys = |columns: &[(Column, DataType)], number: &str| -> Vec<Column> {
        columns.iter().map(|(column, _)| column.clone()).chain([Column::from_name(number)]).collect()
    };
    let keys = (keys(&left, NUMBERS[0]), keys(&right, NUMBERS[1]));
    let [numbered, others] = with_numbers;
    LogicalPlanBuilder::from(numbered)
        .join_detailed(others, join.join_type, keys, None, join.null_equality)?
        .project(left.into_iter().map(|(column, _)| Expr::Column(column)))?
        .build()
}

fn columns(plan: &LogicalPlan) -> Vec<(Column, DataType)> {
    plan.schema().iter().map(|(table, field)| (Column::from((table, field)), field.data_type().clone())).collect()
}

fn with_numbers(
    plan: &Arc<LogicalPlan>,
    columns: &[(Column, DataType)],
    types: &[Option<DataType>],
    name: &str,
) -> Result<LogicalPlan> {
    let compared = columns.iter().zip(types).map(|((column, own), common)| match common {
        Some(common) if common != own => cast(Expr::Column(column.clone()), common.clone()),
        _ => Expr::Column(column.clone()),
    });
    let number = row_number().partition_by(compared.collect()).build()?;
    let named = Expr::Column(Column::from_name(number.schema_name().to_string())).alias(name);
    let all = columns.iter().map(|(column, _)| Expr::Column(column.clone())).chain([named]);
    LogicalPlanBuilder::from(Arc::clone(plan)).window([number])?.project(all)?.build()
}

//! Rows as values: `(a, b) = (1, 2)`, `(a, b) IN ((1, 2), (3, 4))`, `(a, b) IN (SELECT …)`.
//!
//! The planner would compare such rows as values of a struct type, for which NULL equals NULL. So they are taken apart before
//! planning: comparisons into those of their columns, and `IN (SELECT …)` into `EXISTS`. An `EXISTS` is never unknown, as
//! `IN` can be; which of TRUE and FALSE stands for unknown depends on whether the condition is negated. That is known in a
//! WHERE or HAVING, below AND, OR and NOT only, and anywhere else such an `IN` is refused.
use std::{mem, ops::ControlFlow};

use ancho_common::error::{Condition, Error, Result};
use datafusion::logical_expr::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, Select, SetExpr, TableAlias, TableAliasColumnDef, TableFactor, UnaryOperator,
    Value, VisitMut, VisitorMut,
};

use super::statement::parse_query;

/// Name of a subquery whose rows are compared.
const ROWS: &str = "__ancho_row";

/// Takes the rows apart that are compared in a query.
///
/// # Errors
/// `Invalid` for rows of different length; `Unsupported` for an `IN` in another place.
pub fn take_apart(query: &mut impl VisitMut) -> Result<()> {
    match query.visit(&mut TakeApart) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct TakeApart;

impl VisitorMut for TakeApart {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let conditions = select.selection.iter_mut().chain(select.having.iter_mut());
        broken_off(conditions.map(|condition| in_condition(condition, false)).collect())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        broken_off(in_place(expr))
    }
}

fn broken_off(result: Result<()>) -> ControlFlow<Error> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

/// Turns each `IN (SELECT …)` of a condition. `negated`: the condition stands below an odd number of NOTs.
fn in_condition(condition: &mut Expr, negated: bool) -> Result<()> {
    match condition {
        Expr::Nested(inner) => in_condition(inner, negated),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => in_condition(expr, !negated),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            in_condition(left, negated)?;
            in_condition(right, negated)
        }
        Expr::InSubquery { expr, subquery, negated: not_in } => {
            let Expr::Tuple(row) = unnested(expr) else { return Ok(()) };
            let not_in = *not_in;
            // Unknown counts as FALSE where the outcome is wanted to be TRUE, and as TRUE where it is wanted to be FALSE.
            let exists = exists(mem::take(row), mem::replace(subquery, parse_query("SELECT 1")?), negated != not_in)?;
            *condition = Expr::Exists { subquery: exists, negated: not_in };
            Ok(())
        }
        _ => Ok(()),
    }
}

fn unnested(mut expr: &mut Expr) -> &mut Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// Whether a row is among those of a subquery, as a query that has rows if it is.
fn exists(row: Vec<Expr>, rows: Box<Query>, or_unknown: bool) -> Result<Box<Query>> {
    let mut query = parse_query(&format!("SELECT 1 FROM (SELECT 1) AS {ROWS}"))?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("a SELECT became another query"));
    };
    let name = |index: usize| format!("{ROWS}_{index}");
    let columns = (0..row.len()).map(|index| TableAliasColumnDef::from_name(name(index))).collect();
    if let Some(TableFactor::Derived { subquery, alias, .. }) = select.from.first_mut().map(|from| &mut from.relation) {
        *subquery = rows;
        *alias = Some(TableAlias { explicit: true, name: Ident::new(ROWS), columns, at: None });
    }
    let column = |index| Expr::CompoundIdentifier(vec![Ident::new(ROWS), Ident::new(name(index))]);
    let equal =
        all(row.into_iter().enumerate().map(|(index, value)| compared(value, BinaryOperator::Eq, column(index))));
    select.selection = Some(if or_unknown { Expr::IsNotFalse(Box::new(nested(equal))) } else { equal });
    Ok(query)
}

/// Takes an expression apart that compares rows; others stay.
fn in_place(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            let op = op.clone();
            if let (Expr::Tuple(left), Expr::Tuple(right)) = (unnested(left), unnested(right))
                && let Some(compare) = comparison(&op)
            {
                let (left, right) = (mem::take(left), mem::take(right));
                check_lengths(left.len(), right.len())?;
                *expr = nested(compare(left, right));
            }
        }
        Expr::InList { expr: row, list, negated } => {
            let Expr::Tuple(row) = unnested(row) else { return Ok(()) };
            let negated = *negated;
            let any = list.iter_mut().map(|item| match unnested(item) {
                Expr::Tuple(item) => {
                    check_lengths(row.len(), item.len())?;
                    Ok(nested(equal(row.clone(), mem::take(item))))
                }
                other => Err(Error::invalid(format!("{other} is compared with a row of {} values", row.len()))
                    .with(Condition::TypeMismatch)),
            });
            let any = any.collect::<Result<Vec<_>>>()?.into_iter().reduce(|a, b| joined(a, BinaryOperator::Or, b));
            let any = nested(any.unwrap_or_else(|| Expr::value(Value::Boolean(false))));
            *expr = if negated { not(any) } else { any };
        }
        Expr::InSubquery { expr: row, .. } => {
            if let Expr::Tuple(_) = unnested(row) {
                return Err(Error::unsupported(
                    "a row IN (SELECT …) stands in WHERE or HAVING only, below AND, OR and NOT; write EXISTS instead",
                ));
            }
        }
        _ => {}
    }
    Ok(())
}

fn check_lengths(left: usize, right: usize) -> Result<()> {
    if left == right {
        return Ok(());
    }
    let text = format!("a row of {left} values is compared with one of {right}; give both the same number");
    Err(Error::invalid(text).with(Condition::Syntax))
}

type Compare = fn(Vec<Expr>, Vec<Expr>) -> Expr;

fn comparison(op: &BinaryOperator) -> Option<Compare> {
    Some(match op {
        BinaryOperator::Eq => equal,
        BinaryOperator::NotEq => |left, right| not(nested(equal(left, right))),
        BinaryOperator::Lt => |left, right| ordered(left, right, BinaryOperator::Lt, BinaryOperator::Lt),
        BinaryOperator::LtEq => |left, right| ordered(left, right, BinaryOperator::Lt, BinaryOperator::LtEq),
        BinaryOperator::Gt => |left, right| ordered(left, right, BinaryOperator::Gt, BinaryOperator::Gt),
        BinaryOperator::GtEq => |left, right| ordered(left, right, BinaryOperator::Gt, BinaryOperator::GtEq),
        _ => return None,
    })
}

fn equal(left: Vec<Expr>, right: Vec<Expr>) -> Expr {
    all(left.into_iter().zip(right).map(|(a, b)| compared(a, BinaryOperator::Eq, b)))
}

/// Column by column: `a < c OR (a = c AND b < d)`; the last column decides by `last`.
fn ordered(left: Vec<Expr>, right: Vec<Expr>, by: BinaryOperator, last: BinaryOperator) -> Expr {
    let mut pairs: Vec<(Expr, Expr)> = left.into_iter().zip(right).collect();
    let Some((a, b)) = pairs.pop() else { return Expr::value(Value::Boolean(last != by)) };
    pairs.into_iter().rev().fold(compared(a, last, b), |rest, (a, b)| {
        let same = joined(compared(a.clone(), BinaryOperator::Eq, b.clone()), BinaryOperator::And, nested(rest));
        joined(compared(a, by.clone(), b), BinaryOperator::Or, nested(same))
    })
}

fn all(conditions: impl Iterator<Item = Expr>) -> Expr {
    let all = conditions.reduce(|a, b| joined(a, BinaryOperator::And, b));
    all.unwrap_or_else(|| Expr::value(Value::Boolean(true)))
}

/// A comparison of two values that may be expressions themselves.
fn compared(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    joined(nested(left), op, nested(right))
}

fn joined(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn nested(expr: Expr) -> Expr {
    match expr {
        plain @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) | Expr::Nested(_)) => plain,
        other => Expr::Nested(Box::new(other)),
    }
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) }
}

#[cfg(test)]
mod tests {
    use ancho_common::error::ErrorKind;

    use super::*;

    fn apart(condition: &str) -> Result<String> {
        let mut query = parse_query(&format!("SELECT * FROM t WHERE {condition}")).unwrap();
        take_apart(&mut query)?;
        Ok(query.to_string().split_once(" WHERE ").unwrap().1.to_owned())
    }

    #[test]
    fn rows_are_compared_column_by_column() {
        let among = |not: &str, test: &str| {
            format!(
                "{not}EXISTS (SELECT 1 FROM (SELECT c, d FROM u) AS __ancho_row (__ancho_row_0, __ancho_row_1) WHERE {test})"
            )
        };
        let equal = "a = __ancho_row.__ancho_row_0 AND b = __ancho_row.__ancho_row_1";
        let maybe = format!("({equal}) IS NOT FALSE");
        for (condition, expected) in [
            ("(a, b) = (1, 2)", "(a = 1 AND b = 2)".to_owned()),
            ("NOT (a, b) <> ((1, b + 1))", "NOT (NOT (a = 1 AND b = (b + 1)))".to_owned()),
            ("(a, b) < (1, 2)", "(a < 1 OR (a = 1 AND (b < 2)))".to_owned()),
            ("(a, b) >= (1, 2)", "(a > 1 OR (a = 1 AND (b >= 2)))".to_owned()),
            ("(a, b) IN ((1, 2), (3, NULL))", "((a = 1 AND b = 2) OR (a = 3 AND b = NULL))".to_owned()),
            ("(a, b) NOT IN ((1, 2))", "NOT (a = 1 AND b = 2)".to_owned()),
            ("(a, b) IN (SELECT c, d FROM u)", among("", equal)),
            ("(a, b) NOT IN (SELECT c, d FROM u)", among("NOT ", &maybe)),
            ("x OR NOT ((a, b) IN (SELECT c, d FROM u) AND y)", format!("x OR NOT ({} AND y)", among("", &maybe))),
            ("NOT (a, b) NOT IN (SELECT c, d FROM u)", format!("NOT {}", among("NOT ", equal))),
            ("a IN (1, 2) AND (a) = (1)", "a IN (1, 2) AND (a) = (1)".to_owned()),
        ] {
            let normal = |text: String| {
                text.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(").replace(" )", ")")
            };
            assert_eq!(normal(apart(condition).unwrap()), normal(expected), "{condition}");
        }
    }

    #[test]
    fn what_cannot_be_compared_or_told_is_refused() {
        for (condition, kind) in [
            ("(a, b) = (1, 2, 3)", ErrorKind::Invalid),
            ("(a, b) IN ((1, 2), (3))", ErrorKind::Invalid),
            ("((a, b) IN (SELECT c, d FROM u)) IS NULL", ErrorKind::Unsupported),
            ("CASE WHEN (a, b) IN (SELECT c, d FROM u) THEN x END", ErrorKind::Unsupported),
        ] {
            assert_eq!(apart(condition).unwrap_err().kind, kind, "{condition}");
        }
    }
}

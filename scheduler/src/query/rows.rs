//! Rows as values: `(a, b) = (1, 2)`, `(a, b) IN ((1, 2), (3, 4))`, `(a, b) IN (SELECT …)`.
//!
//! The planner would compare such rows as values of a struct type, for which NULL equals NULL. So they are taken apart before
//! planning: comparisons into those of their columns, and `IN (SELECT …)` into `EXISTS`. An `EXISTS` is never unknown, as
//! `IN` can be; which of TRUE and FALSE stands for unknown depends on whether the condition is negated. That is known in a
//! WHERE or HAVING, below AND, OR and NOT only, and anywhere else such an `IN` is refused.
use std::{collections::BTreeSet, mem, ops::ControlFlow, sync::LazyLock};

use ancho_common::error::{Condition, Error, Result};
use datafusion::{
    functions_aggregate::all_default_aggregate_functions,
    logical_expr::sqlparser::ast::{
        BinaryOperator, Expr, Ident, Query, Select, SelectItem, SetExpr, TableAlias, TableAliasColumnDef, TableFactor,
        UnaryOperator, Value, VisitMut, Visitor, VisitorMut,
    },
};

use super::{names::folded, statement::parse_query};

/// Name of a subquery whose rows are compared.
pub const ROWS: &str = "__ancho_row";

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
        let mut apart = Ok(());
        if let Some(condition) = &mut select.selection {
            apart = in_condition(condition, false, None);
        }
        if let (Ok(()), Some(having)) = (&apart, &mut select.having) {
            apart = in_condition(having, false, Some(&select.projection));
        }
        broken_off(apart)
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

/// Turns each `IN (SELECT …)` of a condition. `negated`: the condition stands below an odd number of NOTs; `grouped`: it is
/// about groups, with this SELECT list.
fn in_condition(condition: &mut Expr, negated: bool, grouped: Option<&[SelectItem]>) -> Result<()> {
    match condition {
        Expr::Nested(inner) => in_condition(inner, negated, grouped),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => in_condition(expr, !negated, grouped),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            in_condition(left, negated, grouped)?;
            in_condition(right, negated, grouped)
        }
        Expr::InSubquery { expr, subquery, negated: not_in } => {
            let Expr::Tuple(row) = unnested(expr) else { return Ok(()) };
            let not_in = *not_in;
            // Unknown counts as FALSE where the outcome is wanted to be TRUE, and as TRUE where it is wanted to be FALSE.
            let or_unknown = negated != not_in;
            let mut row = mem::take(row);
            let rows = mem::replace(subquery, parse_query("SELECT 1")?);
            let aggregate = match grouped {
                Some(items) => the_aggregate(&mut row, items)?,
                None => None,
            };
            *condition = match aggregate {
                None => Expr::Exists { subquery: exists(row, rows, or_unknown)?, negated: not_in },
                Some(index) => {
                    let (expr, subquery) = among(row, rows, index, or_unknown)?;
                    Expr::InSubquery { expr: Box::new(expr), subquery, negated: not_in }
                }
            };
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Which value of a row of groups has an aggregate. That cannot stand inside of a subquery, which would take it for its own.
fn the_aggregate(row: &mut [Expr], items: &[SelectItem]) -> Result<Option<usize>> {
    struct Named<'a>(&'a [SelectItem]);
    impl VisitorMut for Named<'_> {
        type Break = ();

        fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            let Expr::Identifier(name) = &*expr else { return ControlFlow::Continue(()) };
            let named = self.0.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if folded(alias) == folded(name) => Some(expr),
                _ => None,
            });
            if let Some(aggregate) = named.filter(|named| has_aggregate(named)) {
                *expr = nested(aggregate.clone());
            }
            ControlFlow::Continue(())
        }
    }
    for value in row.iter_mut() {
        // Nothing breaks off the walk.
        let _: ControlFlow<()> = value.visit(&mut Named(items));
    }
    let mut aggregates = row.iter().enumerate().filter(|(_, value)| has_aggregate(value)).map(|(index, _)| index);
    match (aggregates.next(), aggregates.next()) {
        (_, Some(_)) => Err(Error::unsupported(
            "a row with more than one aggregate before IN (SELECT …) is not offered: name the aggregates in a subquery, and \
             compare its columns",
        )),
        (first, None) => Ok(first),
    }
}

fn has_aggregate(expr: &Expr) -> bool {
    use datafusion::logical_expr::sqlparser::ast::Visit;
    static NAMES: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let functions = all_default_aggregate_functions();
        functions.iter().flat_map(|f| std::iter::once(f.name().to_owned()).chain(f.aliases().iter().cloned())).collect()
    });
    struct Finds;
    impl Visitor for Finds {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(function)
                    if function.over.is_none() && NAMES.contains(&function.name.to_string().to_lowercase()) =>
                {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Finds).is_break()
}

fn unnested(mut expr: &mut Expr) -> &mut Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The same with one value of the row left outside: it is among these if the row is among those of the subquery.
fn among(mut row: Vec<Expr>, rows: Box<Query>, index: usize, or_unknown: bool) -> Result<(Expr, Box<Query>)> {
    let outside = mem::replace(&mut row[index], column_of_rows(index));
    let mut query = exists(row, rows, false)?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.projection = vec![SelectItem::UnnamedExpr(column_of_rows(index))];
        let mut compared = Vec::new();
        if let Some(equal) = select.selection.take() {
            conjuncts(equal, &mut compared);
        }
        // What stands for itself says nothing.
        compared.retain(|e| !matches!(e, Expr::BinaryOp { left, right, .. } if left == right));
        select.selection = (!compared.is_empty()).then(|| {
            let equal = all(compared.into_iter());
            if or_unknown { Expr::IsNotFalse(Box::new(nested(equal))) } else { equal }
        });
    }
    Ok((outside, query))
}

fn conjuncts(expr: Expr, found: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, found);
            conjuncts(*right, found);
        }
        other => found.push(other),
    }
}

fn column_of_rows(index: usize) -> Expr {
    Expr::CompoundIdentifier(vec![Ident::new(ROWS), Ident::new(name_of_column(index))])
}

fn name_of_column(index: usize) -> String {
    format!("{ROWS}_{index}")
}

/// Whether a row is among those of a subquery, as a query that has rows if it is.
fn exists(row: Vec<Expr>, rows: Box<Query>, or_unknown: bool) -> Result<Box<Query>> {
    let mut query = parse_query(&format!("SELECT 1 FROM (SELECT 1) AS {ROWS}"))?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(Error::internal("a SELECT became another query"));
    };
    let columns = (0..row.len()).map(|index| TableAliasColumnDef::from_name(name_of_column(index))).collect();
    if let Some(TableFactor::Derived { subquery, alias, .. }) = select.from.first_mut().map(|from| &mut from.relation) {
        *subquery = rows;
        *alias = Some(TableAlias { explicit: true, name: Ident::new(ROWS), columns, at: None });
    }
    let equal =
        row.into_iter().enumerate().map(|(index, value)| compared(value, BinaryOperator::Eq, column_of_rows(index)));
    let equal = all(equal);
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
    fn an_aggregate_stays_outside_of_the_subquery() {
        let having = |condition: &str| {
            let mut query =
                parse_query(&format!("SELECT a, sum(b) AS s FROM t GROUP BY a HAVING {condition}")).unwrap();
            take_apart(&mut query).map(|()| query.to_string().split_once(" HAVING ").unwrap().1.to_owned())
        };
        let rows = "(SELECT __ancho_row.__ancho_row_1 FROM (SELECT c, d FROM u) AS __ancho_row (__ancho_row_0, __ancho_row_1) WHERE";
        let equal = "a = __ancho_row.__ancho_row_0";
        for (condition, expected) in [
            ("(a, count(*)) IN (SELECT c, d FROM u)", format!("count(*) IN {rows} {equal})")),
            ("(a, s) NOT IN (SELECT c, d FROM u)", format!("(sum(b)) NOT IN {rows} ({equal}) IS NOT FALSE)")),
            ("NOT (a, s + 1) IN (SELECT c, d FROM u)", format!("NOT (sum(b)) + 1 IN {rows} ({equal}) IS NOT FALSE)")),
        ] {
            assert_eq!(having(condition).unwrap(), expected, "{condition}");
        }
        assert_eq!(having("(max(a), s) IN (SELECT c, d FROM u)").unwrap_err().kind, ErrorKind::Unsupported);
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

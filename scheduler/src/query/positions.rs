//! Positions inside of `GROUPING SETS`, `ROLLUP` and `CUBE` are columns of the SELECT, as they are in a plain `GROUP BY`.
//!
//! The engine would group by the number itself, which is one group, without a word.
use std::ops::ControlFlow;

use ancho_common::error::{Error, Result};
use datafusion::logical_expr::sqlparser::ast::{Expr, GroupByExpr, Select, SelectItem, Value, VisitMut, VisitorMut};

/// Puts the columns in place of their positions.
///
/// # Errors
/// A position that is no column of the SELECT, or that of a `*`.
pub fn resolve(statement: &mut impl VisitMut) -> Result<()> {
    match statement.visit(&mut Resolve) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Resolve;

impl VisitorMut for Resolve {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        let Select { group_by: GroupByExpr::Expressions(groups, _), projection, .. } = select else {
            return ControlFlow::Continue(());
        };
        for group in groups {
            let (Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets)) = group else { continue };
            for expr in sets.iter_mut().flatten() {
                match column(expr, projection) {
                    Ok(Some(column)) => *expr = column,
                    Ok(None) => {}
                    Err(error) => return ControlFlow::Break(error),
                }
            }
        }
        ControlFlow::Continue(())
    }
}

/// What an expression stands for if it is a position.
fn column(expr: &Expr, projection: &[SelectItem]) -> Result<Option<Expr>> {
    let Expr::Value(value) = expr else { return Ok(None) };
    let Value::Number(text, _) = &value.value else { return Ok(None) };
    let wrong = |why: &str| Error::invalid(format!("position {text} in GROUP BY {why}"));
    let place = text.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
    let before = &projection[..place.map_or(0, |place| place.min(projection.len()))];
    if before.iter().any(|item| !matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })) {
        return Err(wrong("comes after a `*`; write the column's name"));
    }
    match place.and_then(|place| projection.get(place)) {
        Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => Ok(Some(expr.clone())),
        Some(_) => Err(wrong("is that of a `*`; write the column's name")),
        None => Err(wrong(&format!("is not between 1 and {}, the number of columns", projection.len()))),
    }
}

#[cfg(test)]
mod tests {
    use crate::query::statement::parse_query;

    #[test]
    fn positions_are_columns_wherever_groups_are_listed() {
        for (sql, expected) in [
            ("SELECT a, b AS x, count(*) FROM t GROUP BY ROLLUP (1, 2)", "ROLLUP (a, b)"),
            (
                "SELECT a + 1, b FROM t GROUP BY GROUPING SETS ((1), (1, 2), (), (b))",
                "GROUPING SETS ((a + 1), (a + 1, b), (), (b))",
            ),
            ("SELECT a FROM t GROUP BY CUBE (1, '1')", "CUBE (a, '1')"),
            ("SELECT 1 FROM (SELECT a FROM t GROUP BY ROLLUP (1)) UNION ALL SELECT 1", "ROLLUP (a)"),
        ] {
            let query = parse_query(sql).unwrap().to_string();
            assert!(query.contains(expected), "{query}");
        }
        for sql in [
            "SELECT a FROM t GROUP BY ROLLUP (2)",
            "SELECT a FROM t GROUP BY ROLLUP (0)",
            "SELECT *, a FROM t GROUP BY CUBE (2)",
            "SELECT * FROM t GROUP BY CUBE (1)",
        ] {
            let error = parse_query(sql).unwrap_err();
            assert!(error.message.starts_with("position "), "{sql}: {error}");
        }
    }
}

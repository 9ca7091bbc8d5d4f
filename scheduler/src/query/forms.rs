//! Forms of queries that mean the same as others which the planner takes.
use std::ops::ControlFlow;

use ancho_common::error::{Error, Result};
use datafusion::logical_expr::sqlparser::ast::{
    Expr, LimitClause, Query, Select, SetExpr, Top, TopQuantity, Value, VisitMut, VisitorMut,
};

/// Turns `FETCH FIRST n ROWS ONLY` and `TOP n` into `LIMIT n`.
///
/// # Errors
/// `Unsupported`: `WITH TIES`, a percentage, `FOR UPDATE`, which would promise a lock.
pub fn simplify(query: &mut impl VisitMut) -> Result<()> {
    match query.visit(&mut Simplify) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Simplify;

impl VisitorMut for Simplify {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        match fetched(query).and_then(|()| topped(query)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn fetched(query: &mut Query) -> Result<()> {
    if !query.locks.is_empty() {
        return Err(Error::unsupported(
            "FOR UPDATE and FOR SHARE are not offered: no row is ever locked; leave it out",
        ));
    }
    let Some(fetch) = query.fetch.take() else { return Ok(()) };
    if fetch.percent || fetch.with_ties {
        return Err(Error::unsupported(
            "FETCH with PERCENT or WITH TIES is not offered; write FETCH FIRST n ROWS ONLY",
        ));
    }
    limit(query, fetch.quantity.unwrap_or_else(|| Expr::value(Value::Number("1".to_owned(), false))))
}

fn topped(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let Select { top: Some(Top { with_ties: false, percent: false, quantity: Some(quantity) }), .. } = select.as_ref()
    else {
        return Ok(());
    };
    let rows = match quantity {
        TopQuantity::Expr(rows) => rows.clone(),
        TopQuantity::Constant(rows) => Expr::value(Value::Number(rows.to_string(), false)),
    };
    select.top = None;
    limit(query, rows)
}

fn limit(query: &mut Query, rows: Expr) -> Result<()> {
    match &mut query.limit_clause {
        clause @ None => {
            *clause = Some(LimitClause::LimitOffset { limit: Some(rows), offset: None, limit_by: Vec::new() });
            Ok(())
        }
        Some(LimitClause::LimitOffset { limit: limit @ None, .. }) => {
            *limit = Some(rows);
            Ok(())
        }
        Some(_) => Err(Error::invalid("the number of rows is limited twice; write one LIMIT")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::statement::parse_query;

    #[test]
    fn rows_are_limited_by_any_form() {
        for (sql, expected) in [
            ("SELECT a FROM t FETCH FIRST 2 ROWS ONLY", "SELECT a FROM t LIMIT 2"),
            ("SELECT a FROM t OFFSET 3 FETCH NEXT ROW ONLY", "SELECT a FROM t LIMIT 1 OFFSET 3"),
            ("SELECT TOP 2 a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a LIMIT 2"),
            ("SELECT * FROM (SELECT TOP (2) a FROM t) s LIMIT 1", "SELECT * FROM (SELECT a FROM t LIMIT 2) s LIMIT 1"),
        ] {
            let mut query = parse_query(sql).unwrap();
            simplify(&mut query).unwrap();
            assert_eq!(query.to_string(), expected);
        }
        for sql in [
            "SELECT a FROM t FOR SHARE",
            "SELECT a FROM t FETCH FIRST 2 ROWS WITH TIES",
            "SELECT TOP 2 a FROM t LIMIT 1",
        ] {
            assert!(simplify(&mut parse_query(sql).unwrap()).is_err(), "{sql}");
        }
    }
}

//! How far the operands of `IS DISTINCT FROM` reach.
//!
//! The parser takes all that follows for its right operand: it reads `a IS DISTINCT FROM b AND c` as
//! `a IS DISTINCT FROM (b AND c)`. AND and OR bind less than that, so the tree is turned here. What stands in parentheses is a
//! node of its own and stays.
use std::{mem, ops::ControlFlow};

use datafusion::logical_expr::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, VisitMut, VisitorMut};

/// Turns the expressions of a statement.
pub fn restore(statement: &mut impl VisitMut) {
    // Nothing breaks off the walk.
    let _: ControlFlow<()> = statement.visit(&mut Restore);
}

struct Restore;

impl VisitorMut for Restore {
    type Break = ();

    /// What is inside is right already.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        turn(expr);
        ControlFlow::Continue(())
    }
}

/// How strongly AND and OR bind; `None` for what binds more.
fn weight(expr: &Expr) -> Option<u8> {
    match expr {
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => Some(0),
        Expr::BinaryOp { op: BinaryOperator::Xor, .. } => Some(1),
        Expr::BinaryOp { op: BinaryOperator::And, .. } => Some(2),
        _ => None,
    }
}

/// Puts what binds less than an operator, and is its last operand, above it.
fn turn(expr: &mut Expr) {
    let own = match &*expr {
        Expr::UnaryOp { op: UnaryOperator::Not, .. } => 3,
        Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..) => 4,
        other => match weight(other) {
            Some(own) => own,
            None => return,
        },
    };
    let last = match expr {
        Expr::UnaryOp { expr: last, .. }
        | Expr::IsDistinctFrom(_, last)
        | Expr::IsNotDistinctFrom(_, last)
        | Expr::BinaryOp { right: last, .. } => last,
        _ => return,
    };
    if weight(last).is_none_or(|weight| weight >= own) {
        return;
    }
    let mut above = mem::replace(last.as_mut(), Expr::value(Value::Null));
    if let Expr::BinaryOp { left, .. } = &mut above {
        mem::swap(last, left);
        // Now the operator stands where its operand was.
        let mut operator = mem::replace(expr, Expr::value(Value::Null));
        turn(&mut operator);
        **left = operator;
    }
    *expr = above;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::statement::parse_query;

    /// The same with parentheses around each condition.
    fn read(condition: &str) -> String {
        struct Shown;
        impl VisitorMut for Shown {
            type Break = ();

            fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                if weight(expr).is_some() || matches!(expr, Expr::UnaryOp { .. } | Expr::IsDistinctFrom(..)) {
                    let inner = mem::replace(expr, Expr::value(Value::Null));
                    *expr = Expr::Nested(Box::new(inner));
                }
                ControlFlow::Continue(())
            }
        }
        let mut query = parse_query(&format!("SELECT 1 WHERE {condition}")).unwrap();
        restore(&mut query);
        let _: ControlFlow<()> = query.visit(&mut Shown);
        query.to_string().split_once("WHERE ").unwrap().1.to_owned()
    }

    #[test]
    fn and_and_or_bind_less() {
        for (condition, expected) in [
            ("a IS DISTINCT FROM b AND c", "((a IS DISTINCT FROM b) AND c)"),
            ("a IS DISTINCT FROM b + 1 AND c OR d", "(((a IS DISTINCT FROM b + 1) AND c) OR d)"),
            ("x AND a IS DISTINCT FROM b OR c", "((x AND (a IS DISTINCT FROM b)) OR c)"),
            ("x OR a IS DISTINCT FROM b AND c", "(x OR ((a IS DISTINCT FROM b) AND c))"),
            ("NOT a IS DISTINCT FROM b AND c", "((NOT (a IS DISTINCT FROM b)) AND c)"),
            (
                "a IS DISTINCT FROM b AND c IS DISTINCT FROM d AND e",
                "((a IS DISTINCT FROM b) AND ((c IS DISTINCT FROM d) AND e))",
            ),
            ("x AND NOT a IS DISTINCT FROM b OR c AND d", "((x AND (NOT (a IS DISTINCT FROM b))) OR (c AND d))"),
            ("a AND b OR c AND NOT d", "((a AND b) OR (c AND (NOT d)))"),
        ] {
            assert_eq!(read(condition), expected, "{condition}");
        }
        assert_eq!(read("a IS DISTINCT FROM (b AND c)"), "(a IS DISTINCT FROM ((b AND c)))");
        assert_eq!(read("a IS NOT DISTINCT FROM b AND c"), "(a IS NOT DISTINCT FROM b AND c)");
    }
}

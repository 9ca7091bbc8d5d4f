//! Which numbers of a statement are decimals.
//!
//! A number with a decimal point, or beyond 64 bits, is a DECIMAL of its own digits, as in PostgreSQL and DuckDB:
//! `0.1 + 0.2` is 0.3, and a DECIMAL column is compared digit by digit. These stay DOUBLE:
//!
//! * numbers with an exponent, and those of more than 38 digits;
//! * numbers that a `/` divides or divides by: a quotient of decimals has only four digits more than the dividend, too
//!   few for `1 / 3.0` (DuckDB, too, divides decimals as doubles);
//! * arguments of functions that approximate anyway, several of which take no decimals.
use std::ops::ControlFlow;

use datafusion::logical_expr::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, ExactNumberInfo, Expr, Value, ValueWithSpan, VisitMut, VisitorMut,
};

/// Digits that a decimal holds.
const MAX_DIGITS: usize = 38;

/// Functions whose numbers are DOUBLE.
const APPROXIMATE: &[&str] = &[
    "approx_percentile_cont",
    "approx_percentile_cont_with_weight",
    "exp",
    "ln",
    "log",
    "log10",
    "log2",
    "percentile_cont",
    "pow",
    "power",
    "quantile_cont",
    "sqrt",
];

/// Marks the numbers of a query or statement that are DOUBLE, for a planner that takes all others for decimals.
pub fn mark_doubles(query: &mut impl VisitMut) {
    // Nothing breaks off the walk.
    let _: ControlFlow<()> = query.visit(&mut MarkDoubles);
}

struct MarkDoubles;

impl VisitorMut for MarkDoubles {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::Divide, right } => {
                make_operand_double(left);
                make_operand_double(right);
            }
            Expr::Function(function) if is_approximate(&function.name.to_string()) => {
                let _: ControlFlow<()> = function.args.visit(&mut AllDoubles);
            }
            _ if number(expr).is_some_and(|digits| !fits_decimal(digits)) => make_double(expr),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// For arguments, where every number that is no integer is DOUBLE.
struct AllDoubles;

impl VisitorMut for AllDoubles {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        make_operand_double(expr);
        ControlFlow::Continue(())
    }
}

fn is_approximate(name: &str) -> bool {
    APPROXIMATE.iter().any(|function| function.eq_ignore_ascii_case(name))
}

/// Numbers in the sums and products that an operand of a division consists of.
fn make_operand_double(operand: &mut Expr) {
    match operand {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => make_operand_double(inner),
        Expr::BinaryOp { left, op: BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply, right } => {
            make_operand_double(left);
            make_operand_double(right);
        }
        _ if number(operand).is_some_and(|digits| !is_integer(digits)) => make_double(operand),
        _ => {}
    }
}

fn number(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => Some(digits),
        _ => None,
    }
}

fn is_integer(number: &str) -> bool {
    number.bytes().all(|b| b.is_ascii_digit() || b == b'_')
}

fn fits_decimal(number: &str) -> bool {
    let digits = number.bytes().filter(u8::is_ascii_digit).count();
    let leading = number.bytes().take_while(|b| *b == b'0').count();
    !number.contains(['e', 'E']) && digits - leading <= MAX_DIGITS
}

fn make_double(expr: &mut Expr) {
    let Expr::Value(value) = expr else { return };
    let Value::Number(digits, _) = &value.value else { return };
    let text = Value::SingleQuotedString(digits.replace('_', ""));
    let text = Expr::Value(ValueWithSpan { value: text, span: value.span });
    *expr = Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(text),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    };
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::sqlparser::{dialect::GenericDialect, parser::Parser};

    use super::*;

    #[test]
    fn numbers_are_double_only_where_decimals_would_not_do() {
        let double = |digits: &str| format!("CAST('{digits}' AS DOUBLE)");
        let (long, fits) = (format!("1.{}", "1".repeat(38)), format!("0.{}", "1".repeat(38)));
        for (sql, expected) in [
            ("0.1 + 0.2 = 0.3".to_owned(), "0.1 + 0.2 = 0.3".to_owned()),
            ("x * 1.5 - 2".to_owned(), "x * 1.5 - 2".to_owned()),
            ("1e300 + 1.5E-3".to_owned(), format!("{} + {}", double("1e300"), double("1.5E-3"))),
            ("1 / 3.0".to_owned(), format!("1 / {}", double("3.0"))),
            ("100.00 * a / -(b + 1.5)".to_owned(), format!("{} * a / -(b + {})", double("100.00"), double("1.5"))),
            ("round(a, 2) / 3".to_owned(), "round(a, 2) / 3".to_owned()),
            ("round(a * 1.5, 2) / 3".to_owned(), "round(a * 1.5, 2) / 3".to_owned()),
            ("power(2.5, 2) + 2.5".to_owned(), format!("power({}, 2) + 2.5", double("2.5"))),
            (format!("{long} + {fits}"), format!("{} + {fits}", double(&long))),
            ("123456789012345678901234567890".to_owned(), "123456789012345678901234567890".to_owned()),
        ] {
            let mut expr = Parser::new(&GenericDialect {}).try_with_sql(&sql).unwrap().parse_expr().unwrap();
            mark_doubles(&mut expr);
            assert_eq!(expr.to_string(), expected);
        }
    }
}

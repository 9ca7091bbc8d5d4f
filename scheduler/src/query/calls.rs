//! Calls and operators in forms that the engine does not run, as others which mean the same.
//!
//! * `LIKE … ESCAPE '!'`: the pattern with backslashes, the only escape that the engine knows
//! * `lag(a, 1, b)`: a default that is no constant is chosen where there is no row that far away
use std::ops::ControlFlow;

use ancho_common::error::{Condition, Error, Result};
use datafusion::logical_expr::sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    NullTreatment, ObjectName, Select, SelectItem, Value, VisitMut, Visitor, VisitorMut,
    helpers::attached_token::AttachedToken,
};

/// Puts others in place of such calls.
///
/// # Errors
/// `Invalid` for an escape that is not one character, or a pattern that ends in it.
pub fn rewrite(query: &mut impl VisitMut) -> Result<()> {
    match query.visit(&mut Rewrite) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Rewrite;

impl VisitorMut for Rewrite {
    type Break = Error;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Error> {
        for item in &mut select.projection {
            let SelectItem::UnnamedExpr(expr) = item else { continue };
            let name = expr.to_string();
            let mut expr = expr.clone();
            expr.visit(self)?;
            if expr.to_string() != name {
                // Clients see the text that they wrote.
                *item = SelectItem::ExprWithAlias { expr, alias: Ident::with_quote('"', name) };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Error> {
        let rewritten = match expr {
            Expr::Like { pattern, escape_char, .. } | Expr::ILike { pattern, escape_char, .. } => {
                match escape_char.take().map(|escape| escape.value) {
                    None => Ok(()),
                    Some(Value::SingleQuotedString(escape)) => with_backslashes(pattern, &escape),
                    Some(other) => Err(bad_escape(&other.to_string())),
                }
            }
            _ => Ok(()),
        };
        if let Err(error) = rewritten {
            return ControlFlow::Break(error);
        }
        if let Expr::Function(call) = expr
            && let Some(chosen) = chosen_default(call)
        {
            *expr = chosen;
        }
        ControlFlow::Continue(())
    }
}

fn bad_escape(escape: &str) -> Error {
    Error::invalid(format!("ESCAPE takes one character, or '' for none; it is {escape}")).with(Condition::BadArgument)
}

fn with_backslashes(pattern: &mut Box<Expr>, escape: &str) -> Result<()> {
    let mut letters = escape.chars();
    let (escape, None) = (letters.next(), letters.next()) else { return Err(bad_escape(&format!("'{escape}'"))) };
    if escape == Some('\\') {
        return Ok(());
    }
    if let Expr::Value(value) = pattern.as_mut()
        && let Value::SingleQuotedString(text) = &mut value.value
    {
        *text = literal_with_backslashes(text, escape)?;
        return Ok(());
    }
    let quoted = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let replaced = |text: Expr, from: &str, to: &str| function("replace", vec![text, quoted(from), quoted(to)]);
    let plain = replaced(pattern.as_ref().clone(), "\\", "\\\\");
    **pattern = match escape.map(String::from) {
        None => plain,
        // An escape that is escaped itself is kept apart meanwhile.
        Some(escape) => {
            let apart = replaced(plain, &escape.repeat(2), APART);
            replaced(replaced(apart, &escape, "\\"), APART, &escape)
        }
    };
    Ok(())
}

/// Stands for a character in the middle of a replacement. No keyboard writes it.
const APART: &str = "\u{2064}";

fn literal_with_backslashes(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut text = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        let letter = if Some(letter) == escape {
            let escaped = letters.next().ok_or_else(|| {
                Error::invalid(format!("the pattern '{pattern}' ends in its escape character"))
                    .with(Condition::BadArgument)
            })?;
            if matches!(escaped, '%' | '_') {
                text.push('\\');
            }
            escaped
        } else {
            letter
        };
        if letter == '\\' {
            text.push('\\');
        }
        text.push(letter);
    }
    Ok(text)
}

/// `lag` and `lead` with a default that depends on the row.
fn chosen_default(call: &Function) -> Option<Expr> {
    let name = call.name.to_string().to_lowercase();
    if !matches!(name.as_str(), "lag" | "lead") || call.over.is_none() {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else { return None };
    let [value, distance, default] = list.args.as_slice() else { return None };
    let (value, distance, default) = (unnamed(value)?, unnamed(distance)?, unnamed(default)?);
    if !depends_on_rows(default) {
        return None;
    }
    let ignores_nulls = call.null_treatment == Some(NullTreatment::IgnoreNulls)
        || list.clauses.iter().any(|clause| clause.to_string().to_uppercase() == "IGNORE NULLS");
    let one = Expr::value(Value::Number("1".to_owned(), false));
    let there = if ignores_nulls {
        // Rows with a value are counted only.
        let condition = Expr::IsNotNull(Box::new(Expr::Nested(Box::new(value.clone()))));
        case(condition, one, None)
    } else {
        one
    };
    let away = |value: Expr| {
        let args = vec![value, distance.clone()];
        let args = FunctionArguments::List(FunctionArgumentList {
            args: args.into_iter().map(argument).collect(),
            ..list.clone()
        });
        Expr::Function(Function { args, ..call.clone() })
    };
    let is_missing = Expr::IsNull(Box::new(away(there)));
    Some(case(is_missing, default.clone(), Some(away(value.clone()))))
}

fn unnamed(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn argument(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

fn depends_on_rows(expr: &Expr) -> bool {
    use datafusion::logical_expr::sqlparser::ast::Visit;
    struct Finds;
    impl Visitor for Finds {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Function(_) | Expr::Subquery(_) => {
                    ControlFlow::Break(())
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.visit(&mut Finds).is_break()
}

fn case(condition: Expr, result: Expr, otherwise: Option<Expr>) -> Expr {
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result }],
        else_result: otherwise.map(Box::new),
    }
}

pub(super) fn function(name: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.into_iter().map(argument).collect(),
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::statement::parse_query;

    fn rewritten(sql: &str) -> Result<String> {
        let mut query = parse_query(sql).unwrap();
        rewrite(&mut query).map(|()| query.to_string())
    }

    #[test]
    fn escapes_become_backslashes() {
        for (sql, expected) in [
            (r"SELECT a FROM t WHERE a LIKE 'x!%!!!_\%' ESCAPE '!'", r"SELECT a FROM t WHERE a LIKE 'x\%!\_\\%'"),
            (r"SELECT a FROM t WHERE a NOT ILIKE '\%' ESCAPE ''", r"SELECT a FROM t WHERE a NOT ILIKE '\\%'"),
            (r"SELECT a FROM t WHERE a LIKE '\%' ESCAPE '\'", r"SELECT a FROM t WHERE a LIKE '\%'"),
            (r"SELECT a FROM t WHERE a LIKE 'x\%'", r"SELECT a FROM t WHERE a LIKE 'x\%'"),
            (
                r"SELECT a LIKE b ESCAPE '#' FROM t",
                "SELECT a LIKE replace(replace(replace(replace(b, '\\', '\\\\'), '##', '\u{2064}'), '#', '\\'), '\u{2064}', '#') \
                 AS \"a LIKE b ESCAPE '#'\" FROM t",
            ),
        ] {
            assert_eq!(rewritten(sql).unwrap(), expected);
        }
        for sql in ["SELECT a LIKE 'x!' ESCAPE '!' FROM t", "SELECT a LIKE 'x' ESCAPE 'ab' FROM t"] {
            assert!(rewritten(sql).is_err(), "{sql}");
        }
    }

    #[test]
    fn defaults_of_lag_and_lead_may_depend_on_the_row() {
        for (sql, expected) in [
            ("SELECT lag(a, 1, -1) OVER (ORDER BY a) FROM t", "SELECT lag(a, 1, -1) OVER (ORDER BY a) FROM t"),
            (
                "SELECT lag(a, 2, b) OVER w + 1 AS x FROM t WINDOW w AS (ORDER BY a)",
                "SELECT CASE WHEN lag(1, 2) OVER w IS NULL THEN b ELSE lag(a, 2) OVER w END + 1 AS x FROM t WINDOW w AS (ORDER BY a)",
            ),
            (
                "SELECT lead(a, 1, b) IGNORE NULLS OVER (ORDER BY c) FROM t",
                "SELECT CASE WHEN lead(CASE WHEN (a) IS NOT NULL THEN 1 END, 1) IGNORE NULLS OVER (ORDER BY c) IS NULL THEN b ELSE \
                 lead(a, 1) IGNORE NULLS OVER (ORDER BY c) END AS \"lead(a, 1, b) IGNORE NULLS OVER (ORDER BY c)\" FROM t",
            ),
        ] {
            assert_eq!(rewritten(sql).unwrap(), expected);
        }
    }
}

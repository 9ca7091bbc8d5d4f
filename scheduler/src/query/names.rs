//! Result columns of one name.
//!
//! SQL lets a result have them (`SELECT count(*), count(*)`), the planner does not. So a column whose name is taken gets
//! a mark behind its name before planning, and loses it where the columns are announced. The mark holds a character
//! that no keyboard writes.
//!
//! Inside of subqueries only columns that are the same are marked. Two different columns of one name stay an error there:
//! what refers to the name would silently mean one of them.
use std::{collections::HashSet, ops::ControlFlow, sync::Arc};

use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use datafusion::logical_expr::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, VisitMut, VisitorMut,
};

/// Starts a mark.
const MARK: char = '\u{2063}';

/// Marks the columns of a statement's result whose names are taken.
pub fn mark_duplicates(query: &mut Query) {
    let mut referenced = HashSet::new();
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(expressions) = &mut order.kind
    {
        expressions.iter_mut().for_each(|e| note_names(&mut e.expr, &mut referenced));
    }
    mark_body(&mut query.body, &referenced);
    // Nothing breaks off the walk.
    let _: ControlFlow<()> = query.visit(&mut InSubqueries);
}

/// The columns as a client sees them.
#[must_use]
pub fn shown(schema: &Schema) -> SchemaRef {
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    if !names.iter().any(|name| name.contains(MARK)) {
        return Arc::new(schema.clone());
    }
    let shown = |name: &str| match name.split_once(MARK) {
        // The planner names an expression without an alias; the second one is called what the first one is.
        Some(("", position)) => {
            let first = position.split_once(MARK).and_then(|(first, _)| names.get(first.parse::<usize>().ok()?));
            first.map_or_else(|| name.to_owned(), |first| (*first).to_owned())
        }
        Some((name, _)) => name.to_owned(),
        None => name.to_owned(),
    };
    let fields: Fields =
        schema.fields().iter().map(|f: &Arc<Field>| f.as_ref().clone().with_name(shown(f.name()))).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn mark_body(body: &mut SetExpr, referenced: &HashSet<String>) {
    match body {
        SetExpr::Select(select) => mark(select, Some(referenced)),
        SetExpr::Query(query) => mark_body(&mut query.body, referenced),
        SetExpr::SetOperation { left, right, .. } => {
            mark_body(left, referenced);
            mark_body(right, referenced);
        }
        _ => {}
    }
}

struct InSubqueries;

impl VisitorMut for InSubqueries {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        mark(select, None);
        ControlFlow::Continue(())
    }
}

/// A column of a SELECT list, as far as its name goes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    /// `a`, `t.a`: name and the text as written.
    Column(String, String),
    /// `… AS a`
    Alias(String),
    /// Named by the planner: the text as written.
    Expression(String),
}

impl Item {
    fn of(item: &SelectItem) -> Option<Self> {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(Self::Column(folded(ident), folded(ident))),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                let text: Vec<String> = parts.iter().map(folded).collect();
                Some(Self::Column(text.last()?.clone(), text.join(".")))
            }
            SelectItem::UnnamedExpr(other) => Some(Self::Expression(other.to_string())),
            SelectItem::ExprWithAlias { alias, .. } => Some(Self::Alias(folded(alias))),
            _ => None,
        }
    }

    /// The planner would refuse them next to each other.
    fn clashes(&self, other: &Self) -> bool {
        match (self, other) {
            // Two qualified columns may share a name if they are of two tables.
            (Self::Column(a, x), Self::Column(b, y)) => a == b && (x == y || !x.contains('.') || !y.contains('.')),
            (Self::Column(a, _) | Self::Alias(a), Self::Column(b, _) | Self::Alias(b)) => a == b,
            (Self::Expression(a), Self::Expression(b)) => a == b,
            _ => false,
        }
    }
}

/// Marks a SELECT list. `referenced`: it is the statement's result, whose `ORDER BY` names these columns.
fn mark(select: &mut Select, referenced: Option<&HashSet<String>>) {
    let items: Vec<Option<Item>> = select.projection.iter().map(Item::of).collect();
    let wildcard = items.iter().any(Option::is_none);
    let mut by_name = referenced.cloned().unwrap_or_default();
    if let Some(having) = &mut select.having {
        note_names(having, &mut by_name);
    }
    if let Some(qualify) = &mut select.qualify {
        note_names(qualify, &mut by_name);
    }
    let distinct_on = matches!(select.distinct, Some(Distinct::On(_)));
    for (position, item) in items.iter().enumerate() {
        let Some(item) = item else { continue };
        let first = items[..position].iter().position(|earlier| earlier.as_ref().is_some_and(|e| e.clashes(item)));
        let name = match (item, first) {
            // A wildcard may bring the column, too.
            (Item::Column(name, _), None) if wildcard && referenced.is_some() && select.distinct.is_none() => name,
            (Item::Column(name, _), Some(first)) if referenced.is_some() || items[first].as_ref() == Some(item) => name,
            (Item::Alias(name), Some(_)) if referenced.is_some() && !by_name.contains(name) && !distinct_on => name,
            (Item::Expression(text), Some(_)) if wildcard || referenced.is_none() => text,
            (Item::Expression(_), Some(first)) => &format!("{MARK}{first}"),
            _ => continue,
        };
        let alias = Ident::with_quote('"', format!("{name}{MARK}{position}"));
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = &select.projection[position]
        else {
            continue;
        };
        select.projection[position] = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
    }
}

/// Names as the planner folds them.
fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn note_names(expr: &mut Expr, names: &mut HashSet<String>) {
    struct Names<'a>(&'a mut HashSet<String>);
    impl VisitorMut for Names<'_> {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Identifier(ident) = expr {
                self.0.insert(folded(ident));
            }
            ControlFlow::Continue(())
        }
    }
    let _: ControlFlow<()> = expr.visit(&mut Names(names));
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;
    use datafusion::logical_expr::sqlparser::{ast::Statement, dialect::GenericDialect, parser::Parser};

    use super::*;

    fn marked(sql: &str) -> String {
        let mut statements = Parser::parse_sql(&GenericDialect {}, sql).unwrap();
        let Some(Statement::Query(query)) = statements.first_mut() else { panic!("{sql}") };
        mark_duplicates(query);
        query.to_string().replace(MARK, "#")
    }

    #[test]
    fn only_columns_whose_name_is_taken_are_marked() {
        for (sql, expected) in [
            ("SELECT a, b FROM t", "SELECT a, b FROM t"),
            ("SELECT count(*), count(*) FROM t", "SELECT count(*), count(*) AS \"#0#1\" FROM t"),
            ("SELECT a, t.A FROM t", "SELECT a, t.A AS \"a#1\" FROM t"),
            ("SELECT x.id, y.id FROM x, y", "SELECT x.id, y.id FROM x, y"),
            ("SELECT x.id, x.id FROM x", "SELECT x.id, x.id AS \"id#1\" FROM x"),
            ("SELECT *, a FROM t", "SELECT *, a AS \"a#1\" FROM t"),
            ("SELECT 1 AS x, 2 AS x", "SELECT 1 AS x, 2 AS \"x#1\""),
            (
                "SELECT a, a FROM t UNION SELECT b, b FROM t",
                "SELECT a, a AS \"a#1\" FROM t UNION SELECT b, b AS \"b#1\" FROM t",
            ),
            ("SELECT * FROM (SELECT a, a FROM t) s", "SELECT * FROM (SELECT a, a AS \"a#1\" FROM t) s"),
            // What the name means would be a guess.
            ("SELECT 1 AS x, 2 AS x ORDER BY x", "SELECT 1 AS x, 2 AS x ORDER BY x"),
            ("SELECT x FROM (SELECT 1 AS x, 2 AS x) s", "SELECT x FROM (SELECT 1 AS x, 2 AS x) s"),
        ] {
            assert_eq!(marked(sql), expected);
        }
    }

    #[test]
    fn marks_are_not_shown() {
        let fields =
            ["count(*)", "a", "\u{2063}0\u{2063}2", "a\u{2063}3"].map(|n| Field::new(n, DataType::Int64, true));
        let shown = shown(&Schema::new(fields.to_vec()));
        let names: Vec<&str> = shown.fields().iter().map(|f| f.name().as_str()).collect();
        assert_eq!(names, ["count(*)", "a", "count(*)", "a"]);
    }
}

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
    Distinct, Expr, Ident, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, VisitMut, Visitor,
    VisitorMut,
};

/// Starts a mark.
pub(super) const MARK: char = '\u{2063}';

/// Marks the columns of a statement's result whose names are taken.
pub fn mark_duplicates(query: &mut Query) {
    let mut order = Order::default();
    if let Some(by) = &mut query.order_by
        && let OrderByKind::Expressions(expressions) = &mut by.kind
    {
        expressions.iter_mut().for_each(|e| note_names(&mut e.expr, &mut order.names));
        order.by = expressions.iter().map(|e| e.expr.clone()).collect();
    }
    mark_body(&mut query.body, &order);
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

/// What a statement sorts its result by.
#[derive(Default)]
struct Order {
    /// Names in it.
    names: HashSet<String>,
    by: Vec<Expr>,
}

fn mark_body(body: &mut SetExpr, referenced: &Order) {
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
    /// `a`, `t.a`
    Column(ColumnName),
    /// `… AS a`
    Alias(String),
    /// Named by the planner.
    Expression {
        /// As written.
        text: String,
        /// What the planner names it by.
        name: PlannedName,
        /// The same without the tables of columns.
        bare: String,
        /// It has a scalar subquery, which goes by the name of its column, without the table of that.
        subquery: bool,
    },
}

/// A column that is referred to: its name, and the text as written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ColumnName(String, String);

impl ColumnName {
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Identifier(ident) => Some(Self(folded(ident), folded(ident))),
            Expr::CompoundIdentifier(parts) => {
                let text: Vec<String> = parts.iter().map(folded).collect();
                Some(Self(text.last()?.clone(), text.join(".")))
            }
            _ => None,
        }
    }

    /// Two qualified columns may share a name if they are of two tables.
    fn clashes(&self, Self(name, text): &Self) -> bool {
        self.0 == *name && (self.1 == *text || !self.1.contains('.') || !text.contains('.'))
    }
}

/// The planner leaves casts and parentheses out of names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PlannedName {
    /// That of a column.
    Column(ColumnName),
    /// A text.
    Text(String),
}

/// What has this name, written in full.
fn named(name: &str) -> Expr {
    Expr::Identifier(Ident::with_quote('"', name))
}

impl PlannedName {
    /// `alone`: the columns of one relation only are at hand, so that a qualifier makes no difference.
    fn of(expr: &Expr, alone: bool) -> Self {
        struct Plain(bool);
        impl VisitorMut for Plain {
            type Break = ();

            fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
                let plain = match expr {
                    Expr::Cast { expr, .. } | Expr::Nested(expr) => expr.as_ref().clone(),
                    Expr::Subquery(query) => match only_item(&query.body) {
                        Some(SelectItem::ExprWithAlias { alias, .. }) => named(&folded(alias)),
                        Some(SelectItem::UnnamedExpr(inner)) => inner.clone(),
                        _ => return ControlFlow::Continue(()),
                    },
                    // Whatever is looked for, and where.
                    Expr::InSubquery { negated, .. } => named(if *negated { "NOT IN" } else { "IN" }),
                    Expr::Exists { negated, .. } => named(if *negated { "NOT EXISTS" } else { "EXISTS" }),
                    Expr::TypedString(typed) => Expr::Value(typed.value.clone()),
                    Expr::Identifier(ident) => named(&folded(ident)),
                    Expr::CompoundIdentifier(parts) => {
                        let mut parts: Vec<Ident> = parts.iter().map(|p| Ident::with_quote('"', folded(p))).collect();
                        match (self.0, parts.pop()) {
                            (true, Some(last)) => Expr::Identifier(last),
                            (_, last) => Expr::CompoundIdentifier(parts.into_iter().chain(last).collect()),
                        }
                    }
                    Expr::Function(function) => {
                        let mut function = function.clone();
                        for part in &mut function.name.0 {
                            if let ObjectNamePart::Identifier(ident) = part {
                                *ident = Ident::new(folded(ident));
                            }
                        }
                        Expr::Function(function)
                    }
                    _ => return ControlFlow::Continue(()),
                };
                *expr = plain;
                ControlFlow::Continue(())
            }
        }
        let mut plain = expr.clone();
        let _: ControlFlow<()> = plain.visit(&mut Plain(alone));
        ColumnName::of(&plain).map_or_else(|| Self::Text(plain.to_string()), Self::Column)
    }
}

impl Item {
    fn of(item: &SelectItem, alone: bool) -> Option<Self> {
        match item {
            SelectItem::UnnamedExpr(expr) => Some(Self::of_expression(expr, alone)),
            SelectItem::ExprWithAlias { alias, .. } => Some(Self::Alias(folded(alias))),
            _ => None,
        }
    }

    fn of_expression(expr: &Expr, alone: bool) -> Self {
        if let Some(column) = ColumnName::of(expr) {
            return Self::Column(column);
        }
        let bare = match PlannedName::of(expr, true) {
            PlannedName::Column(ColumnName(name, _)) | PlannedName::Text(name) => name,
        };
        let (name, subquery) = (PlannedName::of(expr, alone), has_subquery(expr));
        Self::Expression { text: expr.to_string(), name, bare, subquery }
    }

    /// Its name without a table, if that is one.
    fn bare(&self) -> &str {
        match self {
            Self::Column(ColumnName(name, _)) | Self::Alias(name) | Self::Expression { bare: name, .. } => name,
        }
    }

    /// The planner would refuse them next to each other.
    fn clashes(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Expression { subquery: true, .. }, _)
            | (_, Self::Expression { subquery: true, .. })
            | (Self::Alias(_), Self::Expression { .. })
            | (Self::Expression { .. }, Self::Alias(_)) => self.bare() == other.bare(),
            (Self::Column(a), Self::Column(b))
            | (Self::Column(a), Self::Expression { name: PlannedName::Column(b), .. })
            | (Self::Expression { name: PlannedName::Column(a), .. }, Self::Column(b)) => a.clashes(b),
            (Self::Expression { name: a, .. }, Self::Expression { name: b, .. }) => match (a, b) {
                (PlannedName::Column(a), PlannedName::Column(b)) => a.clashes(b),
                (a, b) => a == b,
            },
            (Self::Column(ColumnName(a, _)) | Self::Alias(a), Self::Column(ColumnName(b, _)) | Self::Alias(b)) => {
                a == b
            }
            (Self::Column(_), Self::Expression { .. }) | (Self::Expression { .. }, Self::Column(_)) => false,
        }
    }

    fn is_expression(&self) -> bool {
        matches!(self, Self::Expression { .. })
    }
}

/// Marks a SELECT list. `referenced`: it is the statement's result, which is sorted by this.
fn mark(select: &mut Select, referenced: Option<&Order>) {
    let alone = matches!(select.from.as_slice(), [only] if only.joins.is_empty());
    let items: Vec<Option<Item>> = select.projection.iter().map(|item| Item::of(item, alone)).collect();
    let wildcard = items.iter().any(Option::is_none);
    let mut by_name = referenced.map(|order| order.names.clone()).unwrap_or_default();
    let by: Vec<Item> = referenced.iter().flat_map(|order| &order.by).map(|e| Item::of_expression(e, alone)).collect();
    if let Some(having) = &mut select.having {
        note_names(having, &mut by_name);
    }
    if let Some(qualify) = &mut select.qualify {
        note_names(qualify, &mut by_name);
    }
    let distinct_on = matches!(select.distinct, Some(Distinct::On(_)));
    for (position, item) in items.iter().enumerate() {
        let Some(item) = item else { continue };
        let clashing = |(_, other): &(usize, &Option<Item>)| {
            // An expression gives way to a column, whichever comes first: others may refer to the column by its name.
            other.as_ref().is_some_and(|o| o.clashes(item) && (item.is_expression() || !o.is_expression()))
        };
        let first = items[..position].iter().enumerate().find(clashing).map(|(first, _)| first);
        let later_column = |o: &Option<Item>| o.as_ref().is_some_and(|o| !o.is_expression() && o.clashes(item));
        let name = match (item, first) {
            // A wildcard may bring the column, too.
            (Item::Column(ColumnName(name, _)), None)
                if wildcard && referenced.is_some() && select.distinct.is_none() =>
            {
                name
            }
            (Item::Column(ColumnName(name, _)), Some(first))
                if referenced.is_some() || items[first].as_ref() == Some(item) =>
            {
                name
            }
            (Item::Expression { text, name: PlannedName::Column(_), .. }, None)
                if wildcard && referenced.is_some() && select.distinct.is_none() =>
            {
                text
            }
            // The planner adds what is sorted by to the columns, where it would have the same name.
            (Item::Expression { text, .. }, None) if by.iter().any(|by| by != item && by.clashes(item)) => text,
            (Item::Alias(name), Some(_)) if referenced.is_some() && !by_name.contains(name) && !distinct_on => name,
            (Item::Expression { text, .. }, Some(_)) if wildcard || referenced.is_none() => text,
            (Item::Expression { text, .. }, Some(first)) => match &items[first] {
                Some(Item::Expression { text: same, .. }) if same == text => &format!("{MARK}{first}"),
                _ => text,
            },
            (Item::Expression { text, .. }, None) if items[position..].iter().any(later_column) => text,
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

/// The only column of a SELECT, as it is written.
fn only_item(body: &SetExpr) -> Option<&SelectItem> {
    match body {
        SetExpr::Select(select) => match select.projection.as_slice() {
            [only] => Some(only),
            _ => None,
        },
        SetExpr::Query(query) => only_item(&query.body),
        SetExpr::SetOperation { left, .. } => only_item(left),
        _ => None,
    }
}

fn has_subquery(expr: &Expr) -> bool {
    use datafusion::logical_expr::sqlparser::ast::Visit;
    struct Finds;
    impl Visitor for Finds {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if let Expr::Subquery(_) = expr { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    expr.visit(&mut Finds).is_break()
}

/// Names as the planner folds them.
pub(super) fn folded(ident: &Ident) -> String {
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
            // Casts and parentheses are no part of the planner's names.
            ("SELECT id, CAST(id AS INT) FROM t", "SELECT id, CAST(id AS INT) AS \"CAST(id AS INT)#1\" FROM t"),
            ("SELECT id::INT, t.id FROM t", "SELECT id::INT AS \"id::INT#0\", t.id FROM t"),
            ("SELECT x.id, y.id::INT FROM x, y", "SELECT x.id, y.id::INT FROM x, y"),
            ("SELECT a::INT FROM t ORDER BY a::INT", "SELECT a::INT FROM t ORDER BY a::INT"),
            ("SELECT a::INT FROM t ORDER BY a", "SELECT a::INT AS \"a::INT#0\" FROM t ORDER BY a"),
            ("SELECT s.a FROM (SELECT a, b::INT FROM t) s", "SELECT s.a FROM (SELECT a, b::INT FROM t) s"),
            ("SELECT *, a::INT FROM t", "SELECT *, a::INT AS \"a::INT#1\" FROM t"),
            ("SELECT 1, (1) FROM t", "SELECT 1, (1) AS \"(1)#1\" FROM t"),
            ("SELECT a + 1, T.A::INT + 1 FROM t", "SELECT a + 1, T.A::INT + 1 AS \"T.A::INT + 1#1\" FROM t"),
            ("SELECT x.a + 1, y.a + 1 FROM x, y", "SELECT x.a + 1, y.a + 1 FROM x, y"),
            ("SELECT abs(a), ABS(a) FROM t", "SELECT abs(a), ABS(a) AS \"ABS(a)#1\" FROM t"),
            (
                "SELECT * FROM (SELECT CAST(a AS INT), a FROM t) s",
                "SELECT * FROM (SELECT CAST(a AS INT) AS \"CAST(a AS INT)#0\", a FROM t) s",
            ),
            // A scalar subquery goes by the name of its column.
            (
                "SELECT (SELECT count(*) FROM t), count(*) FROM t",
                "SELECT (SELECT count(*) FROM t), count(*) AS \"count(*)#1\" FROM t",
            ),
            (
                "SELECT (SELECT max(x.a) FROM x), max(y.a) FROM y, z",
                "SELECT (SELECT max(x.a) FROM x), max(y.a) AS \"max(y.a)#1\" FROM y, z",
            ),
            (
                "SELECT (SELECT max(b) AS a FROM u), a FROM t",
                "SELECT (SELECT max(b) AS a FROM u) AS \"(SELECT max(b) AS a FROM u)#0\", a FROM t",
            ),
            (
                "SELECT count(*) AS n, (SELECT count(*) FROM u) FROM t",
                "SELECT count(*) AS n, (SELECT count(*) FROM u) FROM t",
            ),
            (
                "SELECT count(*), 1 AS \"count(*)\" FROM t",
                "SELECT count(*) AS \"count(*)#0\", 1 AS \"count(*)\" FROM t",
            ),
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

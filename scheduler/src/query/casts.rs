//! Casts that must show in the planner's names.
//!
//! The planner leaves casts out of the names of expressions, and refuses two columns of one name inside of a plan: `sum(a)`
//! beside `sum(CAST(a AS DOUBLE))`, or grouping by `a` and by `CAST(a AS DATE)`. Where expressions of a SELECT differ in casts
//! only, the casts become calls of a function that is named and does nothing more.
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use ancho_common::exact::named_cast;
use datafusion::logical_expr::sqlparser::ast::{
    Expr, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value, VisitMut, VisitorMut,
};

use super::{calls::function, names::folded};

/// Names the casts of a query where it has to be.
pub fn name_casts(query: &mut impl VisitMut) {
    // Nothing breaks off the walk.
    let _: ControlFlow<()> = query.visit(&mut NameCasts);
}

struct NameCasts;

impl VisitorMut for NameCasts {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let SetExpr::Select(select) = query.body.as_mut() else { return ControlFlow::Continue(()) };
        let ambiguous = ambiguous_casts(select);
        if !ambiguous.is_empty() {
            let _: ControlFlow<()> = select.visit(&mut Rename(&ambiguous));
            if let Some(order) = &mut query.order_by
                && let OrderByKind::Expressions(by) = &mut order.kind
            {
                let _: ControlFlow<()> = by.visit(&mut Rename(&ambiguous));
            }
        }
        ControlFlow::Continue(())
    }
}

/// The casts in groups and calls of a SELECT that others differ from in casts only.
fn ambiguous_casts(select: &Select) -> BTreeSet<String> {
    let mut compared = Compared::default();
    if let GroupByExpr::Expressions(groups, _) = &select.group_by {
        groups.iter().for_each(|group| compared.add_group(group, &select.projection));
    }
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _: ControlFlow<()> = expr.clone().visit(&mut compared);
        }
    }
    if let Some(having) = &select.having {
        let _: ControlFlow<()> = having.clone().visit(&mut compared);
    }
    let several = compared.0.into_values().filter(|written| written.len() > 1);
    several.flat_map(|written| written.into_values().flatten()).collect()
}

/// For each expression without its casts: as it is written, with its casts.
#[derive(Default)]
struct Compared(BTreeMap<String, BTreeMap<String, Vec<String>>>);

impl Compared {
    /// What is grouped by, which may stand in the SELECT list and here by its position or alias only.
    fn add_group(&mut self, group: &Expr, items: &[SelectItem]) {
        match group {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                sets.iter().flatten().for_each(|group| self.add_group(group, items));
                return;
            }
            Expr::Nested(group) => return self.add_group(group, items),
            Expr::Tuple(groups) => return groups.iter().for_each(|group| self.add_group(group, items)),
            _ => self.add(group),
        }
        let position = match group {
            Expr::Value(value) => value.to_string().parse::<usize>().ok(),
            _ => None,
        };
        if let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) =
            position.and_then(|position| items.get(position.checked_sub(1)?))
        {
            self.add(expr);
        }
        let Expr::Identifier(name) = group else { return };
        for item in items {
            if let SelectItem::ExprWithAlias { expr, alias } = item
                && folded(alias) == folded(name)
            {
                self.add(expr);
            }
        }
    }

    fn add(&mut self, expr: &Expr) {
        let mut plain = expr.clone();
        let mut casts = Casts::default();
        let _: ControlFlow<()> = plain.visit(&mut casts);
        self.0.entry(plain.to_string()).or_default().insert(expr.to_string(), casts.0);
    }
}

impl VisitorMut for Compared {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(_) = expr {
            self.add(expr);
        }
        ControlFlow::Continue(())
    }
}

/// Takes casts away, and remembers them.
#[derive(Default)]
struct Casts(Vec<String>);

impl VisitorMut for Casts {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        while let Expr::Cast { expr: inner, .. } | Expr::Nested(inner) = expr {
            let inner = inner.as_ref().clone();
            if let Expr::Cast { .. } = expr {
                self.0.push(expr.to_string());
            }
            *expr = inner;
        }
        ControlFlow::Continue(())
    }
}

/// Names these casts.
struct Rename<'a>(&'a BTreeSet<String>);

impl VisitorMut for Rename<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Cast { data_type, .. } = &*expr else { return ControlFlow::Continue(()) };
        if self.0.contains(&expr.to_string()) {
            let name = Expr::value(Value::SingleQuotedString(data_type.to_string()));
            *expr = function(named_cast::NAME, vec![expr.clone(), name]);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::statement::parse_query;

    fn named(sql: &str) -> String {
        let mut query = parse_query(sql).unwrap();
        name_casts(&mut query);
        query.to_string()
    }

    #[test]
    fn casts_are_named_where_nothing_else_differs() {
        for (sql, expected) in [
            ("SELECT sum(a), sum(CAST(b AS INT)) FROM t", "SELECT sum(a), sum(CAST(b AS INT)) FROM t"),
            (
                "SELECT sum(a), sum(CAST(a AS INT)) FROM t ORDER BY sum(CAST(a AS INT))",
                "SELECT sum(a), sum(ancho_cast(CAST(a AS INT), 'INT')) FROM t ORDER BY sum(ancho_cast(CAST(a AS INT), 'INT'))",
            ),
            (
                "SELECT max(a::INT) - max(a::DATE) FROM t",
                "SELECT max(ancho_cast(a::INT, 'INT')) - max(ancho_cast(a::DATE, 'DATE')) FROM t",
            ),
            (
                "SELECT a::DATE, count(*) FROM t GROUP BY a, a::DATE HAVING a::DATE > b",
                "SELECT ancho_cast(a::DATE, 'DATE'), count(*) FROM t GROUP BY a, ancho_cast(a::DATE, 'DATE') HAVING \
                 ancho_cast(a::DATE, 'DATE') > b",
            ),
            ("SELECT a, a::INT FROM t", "SELECT a, a::INT FROM t"),
            (
                "SELECT a::INT AS x, a::DATE FROM t GROUP BY x, 2",
                "SELECT ancho_cast(a::INT, 'INT') AS x, ancho_cast(a::DATE, 'DATE') FROM t GROUP BY x, 2",
            ),
            (
                "SELECT count(*) FROM t GROUP BY ROLLUP (a::INT, (a::DATE, b))",
                "SELECT count(*) FROM t GROUP BY ROLLUP (ancho_cast(a::INT, 'INT'), (ancho_cast(a::DATE, 'DATE'), b))",
            ),
        ] {
            assert_eq!(named(sql), expected);
        }
    }
}

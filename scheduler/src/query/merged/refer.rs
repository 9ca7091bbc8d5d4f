//! What a statement says about columns that have another name now.
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::ControlFlow,
};

use ancho_common::error::{Error, Result};
use datafusion::logical_expr::sqlparser::ast::{
    ExcludeSelectItem, Expr, Ident, ObjectName, Query, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    TableFactor, TableWithJoins, VisitorMut, WildcardAdditionalOptions,
};

use crate::query::names::folded;

/// A table of a FROM clause with columns under other names.
pub(super) struct Renamed {
    /// What it is called in the statement.
    pub(super) table: String,
    /// The table that has its columns now.
    pub(super) now_in: String,
    /// That is its own name, before which its schema may stand.
    pub(super) by_own_name: bool,
    /// All columns, as written and as they are called now.
    pub(super) columns: Vec<(String, String)>,
}

impl Renamed {
    pub(super) fn now(&self, column: &Ident) -> Option<&str> {
        let column = folded(column);
        let (before, now) = self.columns.iter().find(|(before, _)| *before == column)?;
        (before != now).then_some(now.as_str())
    }
}

pub(super) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// What the columns of a FROM clause have become.
#[derive(Default)]
pub(super) struct Merged {
    pub(super) renamed: Vec<Renamed>,
    /// Columns that `*` leaves out, by their names now.
    pub(super) hidden: Vec<String>,
}

/// The SELECT list with renamed columns under the names that they were written by.
pub(super) fn columns(items: Vec<SelectItem>, merged: &Merged, result: bool) -> Result<Vec<SelectItem>> {
    let mut taken: BTreeMap<String, usize> = BTreeMap::new();
    let mut wildcard = false;
    for item in &items {
        match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) | SelectItem::ExprWithAlias { alias: name, .. } => {
                *taken.entry(folded(name)).or_default() += 1;
            }
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                if let Some(name) = parts.last() {
                    *taken.entry(folded(name)).or_default() += 1;
                }
            }
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => wildcard = true,
            _ => {}
        }
    }
    // A result may have columns of one name, whose marks are taken off.
    let keeps_mark = |name: &str| result && (wildcard || taken.get(name).is_some_and(|times| *times > 1));
    let Merged { renamed, hidden } = merged;
    let mut columns = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::Wildcard(mut options) => {
                if !hidden.is_empty() {
                    let mut excluded = excluded(&options);
                    excluded.extend(hidden.iter().map(|name| ObjectName::from(vec![quoted(name)])));
                    options.opt_exclude = Some(ExcludeSelectItem::Multiple(excluded));
                }
                columns.push(SelectItem::Wildcard(options));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                let Some(table) = table_called(&name, renamed) else {
                    columns.push(SelectItem::QualifiedWildcard(
                        SelectItemQualifiedWildcardKind::ObjectName(name),
                        options,
                    ));
                    continue;
                };
                if options.opt_replace.is_some() || options.opt_except.is_some() || options.opt_ilike.is_some() {
                    return Err(Error::unsupported(format!(
                        "{name}.* with REPLACE or EXCEPT beside USING or NATURAL is not offered: name the columns"
                    )));
                }
                let without: BTreeSet<String> =
                    excluded(&options).iter().filter_map(|name| name.0.last()?.as_ident()).map(folded).collect();
                let shown = table.columns.iter().filter(|(before, _)| !without.contains(before));
                columns.extend(shown.map(|(before, now)| {
                    let expr = Expr::CompoundIdentifier(vec![quoted(&table.now_in), quoted(now)]);
                    if before == now || result {
                        SelectItem::UnnamedExpr(expr)
                    } else {
                        SelectItem::ExprWithAlias { expr, alias: quoted(before) }
                    }
                }));
            }
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => {
                let is_renamed = match parts.as_slice() {
                    [.., table, column] => renamed.iter().any(|r| r.table == folded(table) && r.now(column).is_some()),
                    _ => false,
                };
                let alias = parts.last().map(folded).filter(|name| is_renamed && !keeps_mark(name));
                let expr = Expr::CompoundIdentifier(parts);
                columns.push(match alias {
                    Some(alias) => SelectItem::ExprWithAlias { expr, alias: quoted(&alias) },
                    None => SelectItem::UnnamedExpr(expr),
                });
            }
            other => columns.push(other),
        }
    }
    Ok(columns)
}

fn excluded(options: &WildcardAdditionalOptions) -> Vec<ObjectName> {
    match &options.opt_exclude {
        None => Vec::new(),
        Some(ExcludeSelectItem::Single(name)) => vec![name.clone()],
        Some(ExcludeSelectItem::Multiple(names)) => names.clone(),
    }
}

fn table_called<'a>(name: &ObjectName, renamed: &'a [Renamed]) -> Option<&'a Renamed> {
    let name = folded(name.0.last()?.as_ident()?);
    renamed.iter().find(|renamed| renamed.table == name)
}

/// Turns qualified names to what the columns are called now.
pub(super) struct Refer<'a> {
    renamed: &'a [Renamed],
    /// Tables of the subqueries around, whose names mean those.
    hidden: Vec<BTreeSet<String>>,
}

impl<'a> Refer<'a> {
    pub(super) fn to(renamed: &'a [Renamed]) -> Self {
        Self { renamed, hidden: Vec::new() }
    }

    fn refer(&self, parts: &mut Vec<Ident>) {
        let visible = |part: &Ident| {
            let name = folded(part);
            let table = self.renamed.iter().find(|renamed| renamed.table == name)?;
            (!self.hidden.iter().any(|names| names.contains(&name))).then_some(table)
        };
        // `table.column`, and fields of it, or `schema.table.column`.
        let at = (0..parts.len() - 1).find_map(|at| {
            let table = visible(&parts[at])?;
            (at == 0 || (table.by_own_name && at <= 2)).then_some((at, table))
        });
        let Some((at, table)) = at else { return };
        parts.drain(..at);
        parts[0] = quoted(&table.now_in);
        if let Some(now) = table.now(&parts[1]) {
            parts[1] = quoted(now);
        }
    }
}

impl VisitorMut for Refer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut names = BTreeSet::new();
        tables_of(&query.body, &mut names);
        self.hidden.push(names);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.hidden.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr
            && parts.len() > 1
        {
            self.refer(parts);
        }
        ControlFlow::Continue(())
    }
}

/// What the tables of a query's FROM clauses are called.
fn tables_of(body: &SetExpr, names: &mut BTreeSet<String>) {
    fn of_from(from: &TableWithJoins, names: &mut BTreeSet<String>) {
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
            match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => of_from(table_with_joins, names),
                TableFactor::Table { name, alias: None, .. } => {
                    names.extend(name.0.last().and_then(|part| part.as_ident()).map(folded));
                }
                TableFactor::Table { alias: Some(alias), .. }
                | TableFactor::Derived { alias: Some(alias), .. }
                | TableFactor::NestedJoin { alias: Some(alias), .. }
                | TableFactor::Function { alias: Some(alias), .. }
                | TableFactor::UNNEST { alias: Some(alias), .. } => {
                    names.insert(folded(&alias.name));
                }
                _ => {}
            }
        }
    }
    match body {
        SetExpr::Select(select) => select.from.iter().for_each(|from| of_from(from, names)),
        SetExpr::SetOperation { left, right, .. } => {
            tables_of(left, names);
            tables_of(right, names);
        }
        SetExpr::Query(query) => tables_of(&query.body, names),
        _ => {}
    }
}

//! Joins as subqueries, so that their columns can have names of their own.
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    ops::ControlFlow,
};

use ancho_common::error::{Condition, Error, Result};
use datafusion::logical_expr::sqlparser::ast::{
    BinaryOperator, Expr, JoinConstraint, SetExpr, TableAlias, TableFactor, TableWithJoins, VisitMut,
};

use super::{
    Keeps, Separate, binary, not_told,
    refer::{Merged, Refer, Renamed, quoted},
    set_on,
    walk::{InExpressions, conditions},
};
use crate::query::{
    names::{MARK, folded},
    statement::parse_query,
};

/// What a subquery that stands for joins is called.
const NAME: &str = "__ancho_joined_";

/// A column of joins: its table and its name.
type Joined = (Option<String>, String);

/// Pairs of columns that a join merges.
struct Keys {
    pairs: Vec<(Joined, Joined)>,
    keeps: Keeps,
}

impl Merged {
    /// Notes a table whose columns have other names now; its columns may have been others before.
    pub(super) fn note(&mut self, table: Renamed) {
        let mut known = false;
        for renamed in self.renamed.iter_mut().filter(|renamed| renamed.now_in == table.table) {
            known = true;
            for (_, now) in &mut renamed.columns {
                if let Some((_, newest)) = table.columns.iter().find(|(before, _)| before == now) {
                    now.clone_from(newest);
                }
            }
        }
        if !known {
            self.renamed.push(table);
        }
    }
}

impl Separate<'_> {
    /// Makes a subquery of the joins up to a right or full one. Returns the number of the next one.
    pub(super) fn wrap(
        &mut self,
        from: &mut TableWithJoins,
        number: usize,
        by: &JoinConstraint,
        keeps: Keeps,
        merged: &mut Merged,
    ) -> Result<usize> {
        let mut left = TableWithJoins { relation: from.relation.clone(), joins: from.joins[..number].to_vec() };
        let mut right = TableWithJoins { relation: from.joins[number].relation.clone(), joins: Vec::new() };
        for side in [&mut left, &mut right] {
            let _: ControlFlow<()> = side.visit(&mut Refer::to(&merged.renamed));
        }
        let (Some(lefts), Some(rights)) = (self.qualified(&left), self.qualified(&right)) else {
            // The engine says what is wrong.
            return Ok(number + 1);
        };
        let names: Vec<String> = match by {
            JoinConstraint::Using(names) => {
                names.iter().filter_map(|name| name.0.first()?.as_ident()).map(folded).collect()
            }
            _ => {
                let shared = |name: &String| !name.contains(MARK) && rights.iter().any(|(_, other)| other == name);
                lefts.iter().map(|(_, name)| name.clone()).filter(shared).collect()
            }
        };
        let mut keys = Vec::new();
        for name in names {
            match (only_one(&lefts, &name)?, only_one(&rights, &name)?) {
                (Some(left), Some(right)) => keys.push((left, right)),
                // The engine says what is not there.
                _ => return Ok(number + 1),
            }
        }
        let mut inner = TableWithJoins { joins: from.joins.drain(..=number).collect(), relation: left.relation };
        inner.joins[..number].clone_from_slice(&left.joins);
        inner.joins[number].relation = right.relation;
        let equal = keys.iter().map(|(left, right)| binary(named(left), BinaryOperator::Eq, named(right)));
        set_on(&mut inner.joins[number].join_operator, equal);
        let columns = lefts.into_iter().chain(rights).collect();
        from.relation = self.wrapped(inner, columns, &Keys { pairs: keys, keeps }, merged)?;
        Ok(0)
    }

    /// Makes a subquery of a join in parentheses.
    pub(super) fn wrap_factor(&mut self, factor: &mut TableFactor, merged: &mut Merged) -> Result<()> {
        let mut inner = TableWithJoins { relation: factor.clone(), joins: Vec::new() };
        let _: ControlFlow<()> = inner.visit(&mut Refer::to(&merged.renamed));
        let Some(columns) = self.qualified(&inner) else { return not_told(Keeps::Left) };
        *factor = self.wrapped(inner, columns, &Keys { pairs: Vec::new(), keeps: Keeps::None }, merged)?;
        Ok(())
    }

    /// The joins as a subquery.
    fn wrapped(
        &mut self,
        mut inner: TableWithJoins,
        columns: Vec<Joined>,
        keys: &Keys,
        merged: &mut Merged,
    ) -> Result<TableFactor> {
        if let ControlFlow::Break(error) = conditions(&mut inner, &mut InExpressions::of(self)) {
            return Err(error);
        }
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        for column in &columns {
            // A merged column is there once.
            if !keys.pairs.iter().any(|(_, right)| right == column) {
                *times.entry(column.1.as_str()).or_default() += 1;
            }
        }
        let mut now: HashMap<Joined, String> = HashMap::new();
        let (mut shown, mut hidden) = (Vec::new(), Vec::new());
        for column in &columns {
            let (_, name) = column;
            let key = keys.pairs.iter().find(|(left, right)| left == column || right == column);
            let taken = times.get(name.as_str()).is_some_and(|times| *times > 1) && !name.contains(MARK);
            let name_now = if key.is_some() || taken { self.marked(name) } else { name.clone() };
            let item = format!("{} AS {}", named(column), quoted(&name_now));
            match key {
                None => shown.push(item),
                Some((left, right)) => {
                    if left == column {
                        let merged = match keys.keeps {
                            Keeps::Right => named(right).to_string(),
                            _ => format!("coalesce({}, {})", named(left), named(right)),
                        };
                        shown.push(format!("{merged} AS {}", quoted(name)));
                    }
                    hidden.push(item);
                    merged.hidden.push(name_now.clone());
                }
            }
            now.insert(column.clone(), name_now);
        }
        self.marks += 1;
        let name = format!("{NAME}{}", self.marks);
        self.note_all(&inner, &columns, &now, &name, merged);
        shown.append(&mut hidden);
        let mut query = parse_query(&format!("SELECT {} FROM t", shown.join(", ")))?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.from = vec![inner];
        }
        let alias = TableAlias { explicit: true, name: quoted(&name), columns: Vec::new(), at: None };
        Ok(TableFactor::Derived { lateral: false, subquery: query, alias: Some(alias), sample: None })
    }

    /// Notes where the columns of these joins are now.
    fn note_all(
        &self,
        inner: &TableWithJoins,
        columns: &[Joined],
        now: &HashMap<Joined, String>,
        name: &str,
        merged: &mut Merged,
    ) {
        let tables: BTreeSet<&String> = columns.iter().filter_map(|(table, _)| table.as_ref()).collect();
        for table in tables {
            let mut known = false;
            for renamed in merged.renamed.iter_mut().filter(|renamed| renamed.now_in == *table) {
                known = true;
                name.clone_into(&mut renamed.now_in);
                for (_, column) in &mut renamed.columns {
                    if let Some(newest) = now.get(&(Some(table.clone()), column.clone())) {
                        column.clone_from(newest);
                    }
                }
            }
            if known || table.starts_with(NAME) {
                continue;
            }
            let own = columns.iter().filter(|(of, _)| of.as_ref() == Some(table));
            let columns = own.filter_map(|column| Some((column.1.clone(), now.get(column)?.clone()))).collect();
            let by_own_name = is_own_name(inner, table);
            let (table, now_in) = (table.clone(), name.to_owned());
            merged.renamed.push(Renamed { table, now_in, by_own_name, columns });
        }
    }
}

/// The column of a name, if there is one.
fn only_one(columns: &[Joined], name: &str) -> Result<Option<Joined>> {
    let mut found = columns.iter().filter(|(_, other)| other == name);
    match (found.next(), found.next()) {
        (column, None) => Ok(column.cloned()),
        _ => {
            Err(Error::invalid(format!("column {name} is there more than once on one side of the join that merges it"))
                .with(Condition::Syntax))
        }
    }
}

fn named((table, column): &Joined) -> Expr {
    match table {
        Some(table) => Expr::CompoundIdentifier(vec![quoted(table), quoted(column)]),
        None => Expr::Identifier(quoted(column)),
    }
}

/// Whether a table is there without an alias, so that its schema may stand before its name.
fn is_own_name(from: &TableWithJoins, table: &str) -> bool {
    std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)).any(|factor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => is_own_name(table_with_joins, table),
        TableFactor::Table { name, alias: None, .. } => {
            name.0.last().and_then(|part| part.as_ident()).is_some_and(|ident| folded(ident) == table)
        }
        _ => false,
    })
}

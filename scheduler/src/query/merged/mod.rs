//! Columns that `USING` and `NATURAL` merge.
//!
//! The engine keeps the column of both sides under one name. A condition that names it is called ambiguous, and `*` shows the
//! one whose table comes first in the alphabet, which is NULL in rows of an outer join that it has nothing for. So before
//! planning the join gets an `ON`, and the column of the right side a name of its own:
//! `a LEFT JOIN b USING (x)` becomes `a LEFT JOIN b AS b (x′, y) ON x = b.x′`, `b.x` becomes `b.x′`, and `*` leaves `x′` out.
//! Then `x` is one column. The mark in `x′` is that of [`names`](super::names), and is not shown.
//!
//! In a `RIGHT` or `FULL` join the left side may be NULL, too: with all joins before it, it becomes a subquery, which has the
//! merged column, those of both sides under names of their own, and all others. A right side that is a join itself becomes a
//! subquery, too.
mod refer;
mod walk;
mod wrapped;

use std::ops::ControlFlow;

use ancho_common::error::{Error, Result};
use datafusion::{
    execution::SessionState,
    logical_expr::sqlparser::ast::{
        BinaryOperator, Cte, Expr, JoinConstraint, JoinOperator, OrderBy, Query, Select, SetExpr, Statement as Sql,
        TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins, Value, VisitMut, Visitor, With,
    },
    sql::parser::Statement as DfStatement,
};
use futures::FutureExt;

use self::{
    refer::{Merged, Refer, Renamed, columns, quoted},
    walk::{InExpressions, expressions},
};
use super::{
    names::{MARK, folded},
    statement::parse_query,
};

/// The statement without merged columns, as far as there are any.
///
/// # Errors
/// `Unsupported` where the columns of a side cannot be told and the engine's way would be wrong.
pub fn separate(mut statement: DfStatement, session: &SessionState) -> Result<DfStatement> {
    let DfStatement::Statement(sql) = &mut statement else { return Ok(statement) };
    if !merges(sql.as_ref()) {
        return Ok(statement);
    }
    let mut separate = Separate { session, scope: Vec::new(), marks: 0 };
    match sql.as_mut() {
        Sql::Query(query) => separate.query(query, true)?,
        Sql::Insert(insert) => {
            if let Some(query) = &mut insert.source {
                separate.query(query, true)?;
            }
        }
        Sql::CreateTable(create) => {
            if let Some(query) = &mut create.query {
                separate.query(query, false)?;
            }
        }
        _ => {}
    }
    Ok(statement)
}

/// Whether any join in it merges columns.
fn merges(statement: &Sql) -> bool {
    use datafusion::logical_expr::sqlparser::ast::Visit;
    struct Merges;
    impl Visitor for Merges {
        type Break = ();

        fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
            if select.from.iter().any(joins_merge) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    statement.visit(&mut Merges).is_break()
}

fn joins_merge(from: &TableWithJoins) -> bool {
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => joins_merge(table_with_joins),
        _ => false,
    };
    nested(&from.relation)
        || from.joins.iter().any(|join| {
            let mut operator = join.join_operator.clone();
            let merges = constraint(&mut operator)
                .is_some_and(|(_, c)| matches!(c, JoinConstraint::Using(_) | JoinConstraint::Natural));
            merges || nested(&join.relation)
        })
}

/// The sides of a join whose rows are all kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeps {
    None,
    Left,
    Right,
    Both,
}

fn constraint(operator: &mut JoinOperator) -> Option<(Keeps, &mut JoinConstraint)> {
    match operator {
        JoinOperator::Join(c) | JoinOperator::Inner(c) => Some((Keeps::None, c)),
        JoinOperator::Left(c) | JoinOperator::LeftOuter(c) => Some((Keeps::Left, c)),
        JoinOperator::Right(c) | JoinOperator::RightOuter(c) => Some((Keeps::Right, c)),
        JoinOperator::FullOuter(c) => Some((Keeps::Both, c)),
        _ => None,
    }
}

struct Separate<'a> {
    session: &'a SessionState,
    /// Tables of the WITH clauses around.
    scope: Vec<Cte>,
    marks: usize,
}

impl Separate<'_> {
    /// `result`: marks of its columns are taken off before a client sees them.
    fn query(&mut self, query: &mut Query, result: bool) -> Result<()> {
        let outer = self.scope.len();
        if let Some(With { cte_tables, recursive, .. }) = &mut query.with {
            for cte in cte_tables {
                match cte.query.body.as_mut() {
                    SetExpr::SetOperation { left, right, .. } if *recursive && cte.query.with.is_none() => {
                        self.body(left, None, false)?;
                        let mut start = parse_query("SELECT 1")?;
                        start.body.clone_from(left);
                        self.scope.push(Cte { query: start, ..cte_named(&cte.alias)? });
                        self.body(right, None, false)?;
                        self.scope.pop();
                    }
                    _ => self.query(&mut cte.query, false)?,
                }
                self.scope.push(cte.clone());
            }
        }
        self.body(&mut query.body, query.order_by.as_mut(), result)?;
        self.scope.truncate(outer);
        Ok(())
    }

    fn body(&mut self, body: &mut SetExpr, order: Option<&mut OrderBy>, result: bool) -> Result<()> {
        match body {
            SetExpr::Select(select) => self.select(select, order, result),
            SetExpr::Query(query) => self.query(query, result),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, None, result)?;
                self.body(right, None, result)
            }
            _ => Ok(()),
        }
    }

    fn select(&mut self, select: &mut Select, mut order: Option<&mut OrderBy>, result: bool) -> Result<()> {
        let mut merged = Merged::default();
        for from in &mut select.from {
            self.from(from, &mut merged)?;
        }
        let mut inside = InExpressions::of(self);
        let mut visited = expressions(select, &mut inside);
        if let (ControlFlow::Continue(()), Some(order)) = (&visited, order.as_deref_mut()) {
            visited = order.visit(&mut inside);
        }
        if let ControlFlow::Break(error) = visited {
            return Err(error);
        }
        if merged.renamed.is_empty() {
            return Ok(());
        }
        select.projection = columns(std::mem::take(&mut select.projection), &merged, result)?;
        let mut refer = Refer::to(&merged.renamed);
        // Nothing breaks off these walks.
        let _: ControlFlow<()> = expressions(select, &mut refer);
        let _: ControlFlow<()> = select.from.visit(&mut refer);
        if let Some(order) = order {
            let _: ControlFlow<()> = order.visit(&mut refer);
        }
        Ok(())
    }

    fn from(&mut self, from: &mut TableWithJoins, merged: &mut Merged) -> Result<()> {
        self.factor(&mut from.relation, merged)?;
        let mut number = 0;
        while number < from.joins.len() {
            self.factor(&mut from.joins[number].relation, merged)?;
            number = self.join(from, number, merged)?;
        }
        Ok(())
    }

    fn factor(&mut self, factor: &mut TableFactor, merged: &mut Merged) -> Result<()> {
        match factor {
            TableFactor::Derived { subquery, .. } => self.query(subquery, false),
            TableFactor::NestedJoin { table_with_joins, alias: None } => self.from(table_with_joins, merged),
            _ => Ok(()),
        }
    }

    /// Gives a join an ON. Returns the number of the next one.
    fn join(&mut self, from: &mut TableWithJoins, number: usize, merged: &mut Merged) -> Result<usize> {
        let Some((keeps, by)) = constraint(&mut from.joins[number].join_operator) else { return Ok(number + 1) };
        let by = by.clone();
        if !matches!(by, JoinConstraint::Using(_) | JoinConstraint::Natural) {
            return Ok(number + 1);
        }
        if matches!(keeps, Keeps::Right | Keeps::Both) {
            return self.wrap(from, number, &by, keeps, merged);
        }
        if keeps == Keeps::Left && is_join(&from.joins[number].relation) {
            self.wrap_factor(&mut from.joins[number].relation, merged)?;
        }
        let mut left = TableWithJoins { relation: from.relation.clone(), joins: from.joins[..number].to_vec() };
        // Conditions of joins before may name what has other names now.
        let _: ControlFlow<()> = left.visit(&mut Refer::to(&merged.renamed));
        let right = TableWithJoins { relation: from.joins[number].relation.clone(), joins: Vec::new() };
        let (true, Some(columns)) = (can_rename(&right.relation), self.columns(&right)) else {
            return not_told(keeps).map(|()| number + 1);
        };
        let keys: Vec<String> = match by {
            JoinConstraint::Using(names) => {
                names.iter().filter_map(|name| name.0.first()?.as_ident()).map(folded).collect()
            }
            _ => {
                let Some(others) = self.columns(&left) else { return not_told(keeps).map(|()| number + 1) };
                let is_key = |column: &String| columns.contains(column) && !column.contains(MARK);
                others.into_iter().filter(is_key).collect()
            }
        };
        if !keys.iter().all(|key| columns.contains(key)) {
            // The engine says what is not there.
            return Ok(number + 1);
        }
        let columns: Vec<(String, String)> = columns
            .into_iter()
            .map(|column| {
                let now = if keys.contains(&column) { self.marked(&column) } else { column.clone() };
                (column, now)
            })
            .collect();
        let Some(side) = self.rename(&mut from.joins[number].relation, columns) else {
            return not_told(keeps).map(|()| number + 1);
        };
        let on = keys.iter().map(|key| {
            let now = side.now(&quoted(key)).unwrap_or(key);
            let theirs = Expr::CompoundIdentifier(vec![quoted(&side.table), quoted(now)]);
            binary(Expr::Identifier(quoted(key)), BinaryOperator::Eq, theirs)
        });
        set_on(&mut from.joins[number].join_operator, on);
        for key in &keys {
            merged.hidden.extend(side.now(&quoted(key)).map(str::to_owned));
        }
        merged.note(side);
        Ok(number + 1)
    }

    fn marked(&mut self, column: &str) -> String {
        self.marks += 1;
        format!("{column}{MARK}U{}", self.marks)
    }

    /// Calls the columns of a table by these names.
    fn rename(&mut self, factor: &mut TableFactor, columns: Vec<(String, String)>) -> Option<Renamed> {
        let (own, alias) = match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                (name.0.last().and_then(|part| part.as_ident()).cloned(), alias)
            }
            TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => (None, alias),
            _ => return None,
        };
        let by_own_name = alias.is_none() && own.is_some();
        let name = alias.as_ref().map(|alias| alias.name.clone()).or(own);
        let name = name.unwrap_or_else(|| {
            self.marks += 1;
            quoted(&format!("__ancho_joined_{}", self.marks))
        });
        let table = folded(&name);
        let columns_now =
            columns.iter().map(|(_, now)| TableAliasColumnDef { name: quoted(now), data_type: None }).collect();
        *alias = Some(TableAlias { explicit: true, name: quoted(&table), columns: columns_now, at: None });
        Some(Renamed { now_in: table.clone(), table, by_own_name, columns })
    }

    /// What the columns are called that a part of a FROM clause has, each as often as it has them.
    fn columns(&self, from: &TableWithJoins) -> Option<Vec<String>> {
        Some(self.qualified(from)?.into_iter().map(|(_, column)| column).collect())
    }

    /// The same, each with its table.
    fn qualified(&self, from: &TableWithJoins) -> Option<Vec<(Option<String>, String)>> {
        let mut query = parse_query("SELECT * FROM t").ok()?;
        if let SetExpr::Select(select) = query.body.as_mut() {
            select.from = vec![from.clone()];
        }
        if !self.scope.is_empty() {
            // Of two tables of one name the inner one is meant.
            let mut scope: Vec<Cte> = Vec::new();
            for cte in &self.scope {
                scope.retain(|other| folded(&other.alias.name) != folded(&cte.alias.name));
                scope.push(cte.clone());
            }
            let mut with = parse_query("WITH RECURSIVE t AS (SELECT 1) SELECT 1").ok()?.with?;
            with.cte_tables = scope;
            query.with = Some(with);
        }
        let statement = DfStatement::Statement(Box::new(Sql::Query(query)));
        // The catalog is in memory: planning waits for nothing.
        let plan = self.session.statement_to_plan(statement).now_or_never()?.ok()?;
        let columns = plan.schema().iter();
        Some(columns.map(|(table, field)| (table.map(|t| t.table().to_owned()), field.name().clone())).collect())
    }
}

/// Rows of an inner join have the same value in both columns, so that only names are at stake.
fn not_told(keeps: Keeps) -> Result<()> {
    match keeps {
        Keeps::None => Ok(()),
        Keeps::Left | Keeps::Right | Keeps::Both => Err(Error::unsupported(
            "USING and NATURAL are not offered for this outer join, of whose sides the columns cannot be told: write ON \
             a.k = b.k, and coalesce(a.k, b.k) for the merged column",
        )),
    }
}

fn can_rename(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Table { .. } | TableFactor::Derived { lateral: false, .. })
}

fn is_join(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::NestedJoin { alias: None, .. })
}

fn set_on(operator: &mut JoinOperator, conditions: impl Iterator<Item = Expr>) {
    let on = conditions.reduce(|a, b| binary(a, BinaryOperator::And, b));
    if let Some((_, constraint)) = constraint(operator) {
        *constraint = JoinConstraint::On(on.unwrap_or_else(|| Expr::value(Value::Boolean(true))));
    }
}

fn cte_named(alias: &TableAlias) -> Result<Cte> {
    let with = parse_query("WITH t AS (SELECT 1) SELECT 1")?.with;
    let cte = with.and_then(|with| with.cte_tables.into_iter().next());
    let mut cte = cte.ok_or_else(|| Error::internal("a WITH clause lost its table"))?;
    cte.alias = alias.clone();
    Ok(cte)
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::SessionContext;

    use super::*;
    use crate::query::statement::of_query;

    async fn separated(sql: &str) -> Result<String> {
        let context = SessionContext::new();
        for table in ["w (x INT, k INT)", "u (y INT, x INT)", "z (x INT, y INT, v INT)"] {
            context.sql(&format!("CREATE TABLE {table}")).await.unwrap().collect().await.unwrap();
        }
        let statement = separate(of_query(parse_query(sql).unwrap())?, &context.state())?;
        context.state().statement_to_plan(statement.clone()).await.unwrap();
        Ok(statement.to_string())
    }

    #[tokio::test]
    async fn outer_joins_of_joins_become_subqueries() {
        for sql in [
            "SELECT * FROM w LEFT JOIN (u JOIN (SELECT y, v FROM z) q USING (y)) USING (x)",
            "SELECT w.x, u.x, z.x, x FROM w FULL JOIN u USING (x) FULL JOIN z USING (x, y) WHERE x > 1 ORDER BY z.v",
            "SELECT v, w.*, u.y FROM w JOIN u ON w.x = u.x NATURAL RIGHT JOIN (SELECT x AS k, v FROM z) q",
        ] {
            let separate = separated(sql).await.unwrap();
            assert!(!separate.contains("USING") && !separate.contains("NATURAL"), "{separate}");
        }
    }
}

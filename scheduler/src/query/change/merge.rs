//! `MERGE`: the join of target and source, and for each of its rows the first clause that applies.
use ancho_common::{
    error::{Error, Result},
    plan::{changes::NEW_COLUMN, row_ids},
};
use arrow::datatypes::DataType;
use datafusion::logical_expr::sqlparser::ast::{
    Expr as SqlExpr, Merge, MergeAction, MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, Query,
    TableFactor,
};

use super::{assigned, check_clauses, column_index, quoted, target::Target};
use crate::{query::statement, state::Table};

/// Says which clause applies to a row of the join; 0 for none.
const CLAUSE_COLUMN: &str = "__ancho_clause";
/// TRUE in every row of the source, so that rows without a partner are told from those with one.
const SOURCE_COLUMN: &str = "__ancho_source";

/// Refuses forms that are not offered.
pub(super) fn check(merge: &Merge) -> Result<()> {
    check_clauses("MERGE", &[(merge.output.is_some(), "OUTPUT or RETURNING")])?;
    for MergeClause { clause_kind, action, .. } in &merge.clauses {
        let inserts = matches!(action, MergeAction::Insert(_));
        match clause_kind {
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget if !inserts => {
                return Err(Error::invalid(format!("WHEN {clause_kind} can only INSERT: there is no row to change")));
            }
            MergeClauseKind::Matched | MergeClauseKind::NotMatchedBySource if inserts => {
                return Err(Error::invalid(format!("WHEN {clause_kind} can only UPDATE or DELETE: the row is there")));
            }
            _ => {}
        }
        let oracle = match action {
            MergeAction::Insert(insert) => insert.insert_predicate.is_some(),
            MergeAction::Update(update) => update.update_predicate.is_some() || update.delete_predicate.is_some(),
            MergeAction::Delete { .. } => false,
        };
        check_clauses("MERGE", &[(oracle, "THEN … WHERE; write WHEN … AND")])?;
    }
    Ok(())
}

/// The changes as a query: for each row of the join that a clause applies to, the new row, the name of the old one, and
/// whether there is a new one.
pub(super) fn query(merge: &Merge, table: &Table) -> Result<Box<Query>> {
    let target = Target::of(&merge.table, table)?;
    let clauses = merge.clauses.iter().map(|clause| Clause::of(clause, table)).collect::<Result<Vec<_>>>()?;
    let clause = case(clauses.iter().enumerate().map(|(i, c)| (c.condition(&target), (i + 1).to_string())), "0");
    let mut columns = Vec::new();
    for (index, field) in table.schema.0.fields().iter().enumerate() {
        let old = target.column(index).to_string();
        let value = |c: &Clause| {
            let value = c.values.get(index).and_then(Option::as_ref);
            value.map_or_else(|| c.kept(&old), |value| typed(value, field.data_type()))
        };
        let value = case(clauses.iter().map(|c| (c.condition(&target), value(c))), &old);
        columns.push(format!("{value} AS {}", quoted(field.name())));
    }
    let names = row_ids::fields().iter().map(|field| target.named(field.name()).to_string());
    columns.extend(names.zip(row_ids::fields()).map(|(name, field)| format!("{name} AS {}", quoted(field.name()))));
    let new = case(clauses.iter().map(|c| (c.condition(&target), c.adds.to_string())), "FALSE");
    columns.push(format!("{new} AS {}", quoted(NEW_COLUMN)));
    let kept: Vec<String> = columns_of(table).iter().map(|name| quoted(name).to_string()).collect();
    let text = format!(
        "SELECT {} FROM (SELECT {}, {clause} AS {} FROM {} {} {} ON {}) AS {} WHERE {} > 0",
        kept.join(", "),
        columns.join(", "),
        quoted(CLAUSE_COLUMN),
        source(merge)?,
        join(merge),
        target.relation(),
        merge.on,
        quoted("__ancho_merge"),
        quoted(CLAUSE_COLUMN),
    );
    let mut query = statement::parse_query(&text)?;
    target.unqualify(&mut query);
    Ok(query)
}

/// One `WHEN` clause.
struct Clause<'a> {
    kind: MergeClauseKind,
    predicate: Option<&'a SqlExpr>,
    /// Values of the new row's columns that are not those of the old one.
    values: Vec<Option<SqlExpr>>,
    /// There is a new row.
    adds: bool,
}

impl<'a> Clause<'a> {
    fn of(clause: &'a MergeClause, table: &Table) -> Result<Self> {
        let (values, adds) = match &clause.action {
            MergeAction::Update(update) => (assigned(&update.assignments, table)?, true),
            MergeAction::Insert(insert) => (inserted(insert, table)?, true),
            MergeAction::Delete { .. } => (vec![None; table.schema.0.fields().len()], false),
        };
        Ok(Self { kind: clause.clause_kind, predicate: clause.predicate.as_ref(), values, adds })
    }

    /// When it applies, unless one before it does.
    fn condition(&self, target: &Target<'_>) -> String {
        let row = target.named(row_ids::ROW_COLUMN);
        let matched = match self.kind {
            MergeClauseKind::Matched => format!("{row} IS NOT NULL AND {} IS NOT NULL", quoted(SOURCE_COLUMN)),
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => format!("{row} IS NULL"),
            MergeClauseKind::NotMatchedBySource => format!("{} IS NULL", quoted(SOURCE_COLUMN)),
        };
        match self.predicate {
            Some(predicate) => format!("{matched} AND ({predicate})"),
            None => matched,
        }
    }

    /// A column that it does not set: as it was, or nothing where there was no row.
    fn kept(&self, old: &str) -> String {
        match self.kind {
            MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => "NULL".into(),
            MergeClauseKind::Matched | MergeClauseKind::NotMatchedBySource => old.to_owned(),
        }
    }
}

fn inserted(insert: &MergeInsertExpr, table: &Table) -> Result<Vec<Option<SqlExpr>>> {
    let MergeInsertKind::Values(values) = &insert.kind else {
        return Err(Error::unsupported("MERGE … INSERT ROW is not offered; write INSERT (…) VALUES (…)"));
    };
    let [row] = values.rows.as_slice() else {
        return Err(Error::invalid("MERGE … INSERT needs exactly one row of VALUES"));
    };
    let columns = table.schema.0.fields().len();
    let indices = if insert.columns.is_empty() {
        (0..columns).collect()
    } else {
        insert.columns.iter().map(|name| column_index(name, table)).collect::<Result<Vec<_>>>()?
    };
    if indices.len() != row.content.len() {
        return Err(Error::invalid(format!(
            "MERGE … INSERT names {} columns of table {} and gives {} values",
            indices.len(),
            table.name,
            row.content.len()
        )));
    }
    let mut new = vec![None; columns];
    for (index, value) in indices.into_iter().zip(&row.content) {
        if new[index].replace(value.clone()).is_some() {
            return Err(Error::invalid(format!("column {} is given twice", table.schema.0.field(index).name())));
        }
    }
    Ok(new)
}

/// A value in the column's type: all branches of a `CASE` must have one.
fn typed(value: &SqlExpr, data_type: &DataType) -> String {
    if data_type.is_nested() || matches!(data_type, DataType::Dictionary(..)) {
        return format!("({value})");
    }
    format!("arrow_cast({value}, '{}')", data_type.to_string().replace('\'', "''"))
}

fn case(branches: impl Iterator<Item = (String, String)>, otherwise: &str) -> String {
    let branches: Vec<String> = branches.map(|(when, then)| format!("WHEN {when} THEN {then}")).collect();
    if branches.is_empty() { otherwise.to_owned() } else { format!("CASE {} ELSE {otherwise} END", branches.join(" ")) }
}

/// The source with a mark in every row.
fn source(merge: &Merge) -> Result<String> {
    let name = match &merge.source {
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => {
            alias.name.to_string()
        }
        TableFactor::Table { name, .. } => name.0.last().map(ToString::to_string).unwrap_or_default(),
        TableFactor::Derived { .. } => {
            return Err(Error::invalid("the source of MERGE needs a name: USING (…) AS s"));
        }
        _ => return Err(Error::unsupported("the source of MERGE must be a table or a query in parentheses")),
    };
    Ok(format!("(SELECT *, TRUE AS {} FROM {}) AS {name}", quoted(SOURCE_COLUMN), merge.source))
}

/// Rows without a partner are kept on the sides that a clause speaks of.
fn join(merge: &Merge) -> &'static str {
    let has = |wanted: &[MergeClauseKind]| merge.clauses.iter().any(|clause| wanted.contains(&clause.clause_kind));
    let of_source = has(&[MergeClauseKind::NotMatched, MergeClauseKind::NotMatchedByTarget]);
    match (of_source, has(&[MergeClauseKind::NotMatchedBySource])) {
        (false, false) => "INNER JOIN",
        (true, false) => "LEFT JOIN",
        (false, true) => "RIGHT JOIN",
        (true, true) => "FULL JOIN",
    }
}

fn columns_of(table: &Table) -> Vec<String> {
    let names = table.schema.0.fields().iter().chain(row_ids::fields()).map(|field| field.name().clone());
    names.chain([NEW_COLUMN.to_owned()]).collect()
}

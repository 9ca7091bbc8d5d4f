//! `DELETE`, `UPDATE`, `TRUNCATE` and `MERGE`: statements that say which rows change and how.
//!
//! Each becomes a query over the target and whatever else it reads, whose rows name the stored rows that go and hold the
//! rows that take their place. So conditions, subqueries and joins mean what they mean in a query; and the write reads
//! the same commits in all that it reads.
mod merge;
mod target;

use std::sync::Arc;

use ancho_common::{
    error::{Error, Result},
    plan::{
        changes::{NEW_COLUMN, WriteForm},
        row_ids,
    },
};
use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    logical_expr::{
        Expr, LogicalPlan, Projection,
        sqlparser::ast::{
            Assignment, AssignmentTarget, Delete, Distinct, Expr as SqlExpr, FromTable, Ident, Merge, ObjectName,
            Query, Select, SelectItem, SetExpr, Statement as Sql, TableWithJoins, Truncate, Update,
            UpdateTableFromKind, Value,
        },
    },
};

use self::target::Target;
use super::{ddl, statement};
use crate::{
    planner::catalog::{CATALOG, ROWS_SCHEMA},
    state::{Table, TableName},
};

/// A statement that changes rows.
#[derive(Debug, Clone)]
pub enum Change {
    /// `DELETE FROM t [USING …] [WHERE …]`
    Delete(Box<Delete>),
    /// `UPDATE t SET … [FROM …] [WHERE …]`
    Update(Box<Update>),
    /// `MERGE INTO t USING … ON … WHEN …`
    Merge(Box<Merge>),
    /// `TRUNCATE TABLE t`
    Truncate(ObjectName),
}

/// What is to be done to the target.
#[derive(Debug)]
pub enum Planned {
    /// All rows go.
    Clear,
    /// The changes are the rows of this query, which has the columns of the form.
    Changes(WriteForm, Box<Query>),
}

impl Change {
    /// If it is one.
    ///
    /// # Errors
    /// `Unsupported`, naming the clause that is not offered.
    pub fn of(statement: &Sql) -> Result<Option<Self>> {
        Ok(Some(match statement {
            Sql::Delete(delete) => {
                check_delete(delete)?;
                Self::Delete(Box::new(delete.clone()))
            }
            Sql::Update(update) => {
                check_update(update)?;
                Self::Update(Box::new(update.clone()))
            }
            Sql::Merge(merge) => {
                merge::check(merge)?;
                Self::Merge(Box::new(merge.clone()))
            }
            Sql::Truncate(truncate) => Self::Truncate(truncated(truncate)?),
            _ => return Ok(None),
        }))
    }

    /// The table whose rows change.
    ///
    /// # Errors
    /// It is not named like a table.
    pub fn table(&self) -> Result<TableName> {
        match self {
            Self::Truncate(name) => ddl::object_name(name),
            Self::Delete(delete) => Target::name(&delete_target(delete)?.relation),
            Self::Update(update) => Target::name(&update.table.relation),
            Self::Merge(merge) => Target::name(&merge.table),
        }
    }

    /// What it does to the table as it is now.
    ///
    /// # Errors
    /// `Invalid` for columns that do not exist or are set twice; `Unsupported`, naming the clause.
    pub fn plan(&self, table: &Table) -> Result<Planned> {
        match self {
            Self::Truncate(_) => Ok(Planned::Clear),
            Self::Delete(delete) => planned_delete(delete, table),
            Self::Update(update) => planned_update(update, table),
            Self::Merge(merge) => Ok(Planned::Changes(WriteForm::Changes, merge::query(merge, table)?)),
        }
    }
}

/// The names of all rows of a table as a query: what empties it row by row.
///
/// # Errors
/// Only faults of this module.
pub fn every_row(table: &Table) -> Result<Box<Query>> {
    let names: Vec<String> = row_ids::fields().iter().map(|field| quoted(field.name()).to_string()).collect();
    let relation = [CATALOG, ROWS_SCHEMA, &table.name.table].map(|part| quoted(part).to_string()).join(".");
    statement::parse_query(&format!("SELECT {} FROM {relation}", names.join(", ")))
}

fn unsupported(statement: &str, clause: &str) -> Error {
    Error::unsupported(format!("{statement} … {clause} is not offered"))
}

fn check_clauses(statement: &str, clauses: &[(bool, &str)]) -> Result<()> {
    match clauses.iter().find(|(given, _)| *given) {
        Some((_, clause)) => Err(unsupported(statement, clause)),
        None => Ok(()),
    }
}

fn check_delete(delete: &Delete) -> Result<()> {
    check_clauses(
        "DELETE",
        &[
            (!delete.tables.is_empty(), "of several tables"),
            (delete.returning.is_some() || delete.output.is_some(), "RETURNING"),
            (!delete.order_by.is_empty(), "ORDER BY"),
            (delete.limit.is_some(), "LIMIT"),
        ],
    )
}

fn check_update(update: &Update) -> Result<()> {
    check_clauses(
        "UPDATE",
        &[
            (update.or.is_some(), "OR"),
            (update.returning.is_some() || update.output.is_some(), "RETURNING"),
            (!update.order_by.is_empty(), "ORDER BY"),
            (update.limit.is_some(), "LIMIT"),
            (!update.table.joins.is_empty(), "of a join"),
        ],
    )
}

fn truncated(truncate: &Truncate) -> Result<ObjectName> {
    check_clauses(
        "TRUNCATE",
        &[
            (truncate.partitions.is_some(), "PARTITION"),
            (truncate.identity.is_some(), "IDENTITY"),
            (truncate.cascade.is_some(), "CASCADE or RESTRICT"),
            (truncate.on_cluster.is_some(), "ON CLUSTER"),
            (truncate.if_exists, "IF EXISTS"),
        ],
    )?;
    match truncate.table_names.as_slice() {
        [only] if !only.only => Ok(only.name.clone()),
        _ => Err(unsupported("TRUNCATE", "of several tables or ONLY")),
    }
}

fn delete_target(delete: &Delete) -> Result<&TableWithJoins> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    match from.as_slice() {
        [only] if only.joins.is_empty() => Ok(only),
        _ => Err(unsupported("DELETE", "of several tables; name one, and the others behind USING")),
    }
}

fn planned_delete(delete: &Delete, table: &Table) -> Result<Planned> {
    if delete.selection.is_none() && delete.using.is_none() {
        return Ok(Planned::Clear);
    }
    let target = Target::of(&delete_target(delete)?.relation, table)?;
    let mut query = target.query()?;
    let select = select_of(&mut query)?;
    select.projection = target.row_names();
    select.selection = delete.selection.clone();
    if let Some(using) = &delete.using {
        // A row with several partners goes once.
        select.distinct = Some(Distinct::Distinct);
        select.from.extend(using.iter().cloned());
    }
    target.unqualify(&mut query);
    Ok(Planned::Changes(WriteForm::Deletes, query))
}

fn planned_update(update: &Update, table: &Table) -> Result<Planned> {
    let target = Target::of(&update.table.relation, table)?;
    let mut values = assigned(&update.assignments, table)?;
    let mut query = target.query()?;
    let select = select_of(&mut query)?;
    select.projection = (0..table.schema.0.fields().len())
        .map(|index| SelectItem::ExprWithAlias {
            expr: values[index].take().unwrap_or_else(|| target.column(index)),
            alias: quoted(table.schema.0.field(index).name()),
        })
        .chain(target.row_names())
        .chain([SelectItem::ExprWithAlias { expr: SqlExpr::value(Value::Boolean(true)), alias: quoted(NEW_COLUMN) }])
        .collect();
    select.selection = update.selection.clone();
    if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = &update.from {
        select.from.extend(from.iter().cloned());
    }
    target.unqualify(&mut query);
    Ok(Planned::Changes(WriteForm::Changes, query))
}

/// An identifier as the planner is to take it.
fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A name as SQL folds it.
fn folded(ident: &Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

fn select_of(query: &mut Query) -> Result<&mut Select> {
    match query.body.as_mut() {
        SetExpr::Select(select) => Ok(select),
        _ => Err(Error::internal("the query of a change is not a SELECT")),
    }
}

/// The new value of each column, where there is one.
fn assigned(assignments: &[Assignment], table: &Table) -> Result<Vec<Option<SqlExpr>>> {
    let mut values = vec![None; table.schema.0.fields().len()];
    for Assignment { target, value } in assignments {
        match target {
            AssignmentTarget::ColumnName(name) => assign(&mut values, name, value, table)?,
            AssignmentTarget::Tuple(names) => match value {
                SqlExpr::Tuple(items) if items.len() == names.len() => {
                    names.iter().zip(items).try_for_each(|(name, value)| assign(&mut values, name, value, table))?;
                }
                _ => return Err(Error::unsupported("SET (…) = … needs as many values in parentheses as columns")),
            },
        }
    }
    Ok(values)
}

fn assign(values: &mut [Option<SqlExpr>], name: &ObjectName, value: &SqlExpr, table: &Table) -> Result<()> {
    let index = column_index(name, table)?;
    let value = match value {
        // No column has a default of its own.
        SqlExpr::Identifier(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default") => {
            SqlExpr::value(Value::Null)
        }
        other => other.clone(),
    };
    match values[index].replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::invalid(format!("column {} is set twice", table.schema.0.field(index).name()))),
    }
}

/// The column of the table that a name means; what stands before its last part must be the table.
fn column_index(name: &ObjectName, table: &Table) -> Result<usize> {
    let last = name.0.last().and_then(|part| part.as_ident()).map(folded);
    let index = last.as_deref().and_then(|name| table.schema.0.index_of(name).ok());
    index.ok_or_else(|| Error::invalid(format!("table {} has no column {name}", table.name)))
}

/// Gives parameters that stand alone in place of a column's value the column's type.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn with_typed_parameters(plan: LogicalPlan, table: &Table) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(plan) };
    let fields = table.schema.0.fields();
    let typed = projection
        .expr
        .into_iter()
        .enumerate()
        .map(|(index, expr)| {
            let Some(field) = fields.get(index) else { return Ok(expr) };
            expr.transform_down(|e| match e {
                Expr::Placeholder(mut placeholder) if placeholder.field.is_none() => {
                    placeholder.field = Some(Arc::clone(field));
                    Ok(Transformed::yes(Expr::Placeholder(placeholder)))
                }
                Expr::Alias(_) => Ok(Transformed::no(e)),
                // Inside of an expression its operator decides.
                other => Ok(Transformed::new(other, false, TreeNodeRecursion::Stop)),
            })
            .data()
        })
        .collect::<datafusion::error::Result<Vec<Expr>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(typed, projection.input)?))
}

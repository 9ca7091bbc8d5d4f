//! The table that a statement changes, as a relation of a query that names its rows.
use std::ops::ControlFlow;

use ancho_common::{
    error::{Error, Result},
    plan::row_ids,
};
use datafusion::logical_expr::sqlparser::ast::{
    Expr as SqlExpr, Ident, Query, SelectItem, TableAlias, TableFactor, visit_expressions_mut,
};

use super::{folded, quoted};
use crate::{
    planner::catalog::{CATALOG, DEFAULT_SCHEMA, ROWS_SCHEMA},
    query::{ddl, statement},
    state::{Table, TableName},
};

/// See the module.
#[derive(Debug)]
pub(super) struct Target<'a> {
    table: &'a Table,
    /// What the statement calls it.
    pub(super) alias: Ident,
}

impl<'a> Target<'a> {
    /// The name of a table that stands where only one can.
    pub(super) fn name(relation: &TableFactor) -> Result<TableName> {
        let TableFactor::Table { name, .. } = relation else {
            return Err(Error::invalid(format!("{relation} is not a table, so its rows cannot be changed")));
        };
        ddl::object_name(name)
    }

    pub(super) fn of(relation: &TableFactor, table: &'a Table) -> Result<Self> {
        let alias = match relation {
            TableFactor::Table { alias: Some(TableAlias { name, columns, .. }), .. } if columns.is_empty() => {
                quoted(&folded(name))
            }
            TableFactor::Table { alias: Some(_), .. } => {
                return Err(Error::unsupported(
                    "new names for the columns of the table that is changed are not offered",
                ));
            }
            _ => quoted(&table.name.table),
        };
        Ok(Self { table, alias })
    }

    /// Its relation, rows named.
    pub(super) fn relation(&self) -> String {
        let parts = [CATALOG, ROWS_SCHEMA, &self.table.name.table].map(|part| quoted(part).to_string());
        format!("{} AS {}", parts.join("."), self.alias)
    }

    /// A query of the target alone; its columns are still to be chosen.
    pub(super) fn query(&self) -> Result<Box<Query>> {
        statement::parse_query(&format!("SELECT 1 FROM {}", self.relation()))
    }

    /// A column of the table.
    pub(super) fn column(&self, index: usize) -> SqlExpr {
        self.named(self.table.schema.0.field(index).name())
    }

    /// A column, hidden ones included.
    pub(super) fn named(&self, name: &str) -> SqlExpr {
        SqlExpr::CompoundIdentifier(vec![self.alias.clone(), quoted(name)])
    }

    /// The columns that name a row.
    pub(super) fn row_names(&self) -> Vec<SelectItem> {
        let item = |name: &String| SelectItem::ExprWithAlias { expr: self.named(name), alias: quoted(name) };
        row_ids::fields().iter().map(|field| item(field.name())).collect()
    }

    /// The target is called by its alias in the query: `public.t.a` becomes `t.a`.
    pub(super) fn unqualify(&self, query: &mut Query) {
        let own = [quoted(CATALOG), quoted(DEFAULT_SCHEMA), quoted(&self.table.name.table)].map(|part| part.value);
        let _: ControlFlow<()> = visit_expressions_mut(query, |expr| {
            if let SqlExpr::CompoundIdentifier(parts) = expr
                && parts.len() > 2
            {
                let qualifier: Vec<String> = parts[..parts.len() - 1].iter().map(folded).collect();
                if own.ends_with(&qualifier) {
                    parts.drain(..parts.len() - 2);
                }
            }
            ControlFlow::Continue(())
        });
    }
}

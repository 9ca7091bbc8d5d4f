//! Ways through the expressions of a SELECT.
use std::ops::ControlFlow;

use ancho_common::error::Error;
use datafusion::logical_expr::sqlparser::ast::{Query, Select, TableFactor, TableWithJoins, VisitMut, VisitorMut};

use super::Separate;

/// Visits the expressions of a SELECT, without those of its FROM clause's subqueries.
pub(super) fn expressions<V: VisitorMut>(select: &mut Select, visitor: &mut V) -> ControlFlow<V::Break> {
    select.distinct.visit(visitor)?;
    select.projection.visit(visitor)?;
    for from in &mut select.from {
        conditions(from, visitor)?;
    }
    select.selection.visit(visitor)?;
    select.group_by.visit(visitor)?;
    select.having.visit(visitor)?;
    select.named_window.visit(visitor)?;
    select.qualify.visit(visitor)
}

/// Visits the conditions of joins.
pub(super) fn conditions<V: VisitorMut>(from: &mut TableWithJoins, visitor: &mut V) -> ControlFlow<V::Break> {
    if let TableFactor::NestedJoin { table_with_joins, .. } = &mut from.relation {
        conditions(table_with_joins, visitor)?;
    }
    for join in &mut from.joins {
        if let TableFactor::NestedJoin { table_with_joins, .. } = &mut join.relation {
            conditions(table_with_joins, visitor)?;
        }
        join.join_operator.visit(visitor)?;
    }
    ControlFlow::Continue(())
}

/// Goes on in the subqueries of expressions.
pub(super) struct InExpressions<'a, 'b> {
    separate: &'a mut Separate<'b>,
    depth: usize,
}

impl<'a, 'b> InExpressions<'a, 'b> {
    pub(super) fn of(separate: &'a mut Separate<'b>) -> Self {
        Self { separate, depth: 0 }
    }
}

impl VisitorMut for InExpressions<'_, '_> {
    type Break = Error;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Error> {
        self.depth += 1;
        if self.depth == 1
            && let Err(error) = self.separate.query(query, false)
        {
            return ControlFlow::Break(error);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Error> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}

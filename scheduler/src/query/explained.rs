//! What `EXPLAIN` explains: queries, and how the rows of a write come to be.
use std::time::Instant;

use ancho_common::error::{Error, Result};
use arrow::array::RecordBatch;
use datafusion::logical_expr::LogicalPlan;

use super::{
    attempt::Attempt,
    change::{Planned, with_typed_parameters},
    engine::{QueryEngine, existing, inserted, single},
    explain,
    statement::{Statement, of_query},
    write::{WriteKind, planned},
};
use crate::{frontend::service::QueryStream, state::ClusterState};

impl QueryEngine {
    pub(super) async fn explained(
        &self,
        inner: &Statement,
        (analyze, verbose, tree): (bool, bool, bool),
        parameters: Option<&RecordBatch>,
    ) -> Result<QueryStream> {
        if analyze && !matches!(inner, Statement::Query(_)) {
            return Err(Error::unsupported(
                "EXPLAIN ANALYZE of a statement that changes something would change it; leave ANALYZE out",
            ));
        }
        let started = Instant::now();
        let batch = self
            .attempts(|state, attempt| async move {
                let Some(plan) = logical(&attempt, &state, inner, parameters).await? else {
                    return Ok(explain::without_plan("all rows of the table go at once, and none is read")?);
                };
                if analyze {
                    explain::analyze(&attempt, plan, verbose, started).await
                } else {
                    explain::explain(&attempt, plan, tree).await
                }
            })
            .await?;
        Ok(single(batch))
    }
}

/// The plan of the statement; none if nothing is to be planned.
///
/// # Errors
/// `Unsupported` for statements without rows.
pub(super) async fn logical(
    attempt: &Attempt,
    state: &ClusterState,
    statement: &Statement,
    parameters: Option<&RecordBatch>,
) -> Result<Option<LogicalPlan>> {
    Ok(Some(match statement {
        Statement::Query(statement) => attempt.logical(statement.clone(), parameters).await?,
        Statement::Insert(statement) => {
            let (table, input, kind) = inserted(state, attempt.logical(statement.clone(), parameters).await?)?;
            planned(state, &table, input, kind)?
        }
        Statement::Change(change) => {
            let table = existing(state, &change.table()?)?;
            match change.plan(&table)? {
                Planned::Clear => return Ok(None),
                Planned::Changes(form, query) => {
                    let plan = with_typed_parameters(attempt.logical(of_query(query)?, parameters).await?, &table)?;
                    planned(state, &table, plan, WriteKind::Change(form))?
                }
            }
        }
        _ => return Err(Error::unsupported("EXPLAIN is offered for queries, INSERT, UPDATE, DELETE and MERGE")),
    }))
}

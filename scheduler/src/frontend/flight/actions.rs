//! Actions: making and closing prepared statements, beginning and ending transactions, and Ancho's own management actions.
use ancho_common::error::{Error, Result};
use arrow_flight::{
    Action, ActionType,
    sql::{
        ActionBeginTransactionRequest, ActionBeginTransactionResult, ActionClosePreparedStatementRequest,
        ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult, ActionEndTransactionRequest, Any,
        EndTransaction, ProstMessageExt,
    },
};
use bytes::Bytes;
use prost::Message;

use super::{FlightFrontend, encode::schema_bytes, transaction};
use crate::frontend::caller::RequestId;

const CREATE_PREPARED_STATEMENT: &str = "CreatePreparedStatement";
const CLOSE_PREPARED_STATEMENT: &str = "ClosePreparedStatement";
const BEGIN_TRANSACTION: &str = "BeginTransaction";
const END_TRANSACTION: &str = "EndTransaction";

/// Actions with this prefix go to the service.
const OWN_PREFIX: &str = "ancho.";

/// What ListActions tells.
pub(super) fn offered() -> impl Iterator<Item = ActionType> + Send + use<> + Clone {
    [
        (
            CREATE_PREPARED_STATEMENT,
            "plans a statement; ActionCreatePreparedStatementRequest in, ActionCreatePreparedStatementResult out",
        ),
        (CLOSE_PREPARED_STATEMENT, "closes a prepared statement; ActionClosePreparedStatementRequest in, nothing out"),
        (BEGIN_TRANSACTION, "begins a transaction; ActionBeginTransactionRequest in, ActionBeginTransactionResult out"),
        (END_TRANSACTION, "commits a transaction or rolls it back; ActionEndTransactionRequest in, nothing out"),
        ("ancho.apply", "applies a cluster specification; YAML in, JSON out"),
        ("ancho.cluster_status", "schedulers, executors and tables; nothing in, JSON out"),
        ("ancho.drain", "an executor gives all its partitions to others; {\"executor\": id or url} in, JSON out"),
        ("ancho.undrain", "an executor takes partitions again; {\"executor\": id or url} in, JSON out"),
        (
            "ancho.remove_executor",
            "an empty executor that is down is forgotten; {\"executor\": id or url} in, JSON out",
        ),
        ("ancho.rebalance", "partitions move until executors are even; {\"dry_run\": true} or nothing in, JSON out"),
        (
            "ancho.recover",
            "a partition that nobody can serve becomes empty; {\"partition\": id, \"accept_loss\": true} in, JSON out",
        ),
        ("ancho.snapshots", "snapshots of a table; {\"table\": name} and one of \"create\": true, \"pin\": id, \"unpin\": true, \"restore\": id in, JSON out"),
        ("ancho.verify", "partitions are read again; {\"table\": name} or nothing in, JSON out"),
    ]
    .into_iter()
    .map(|(name, description)| ActionType { r#type: name.to_string(), description: description.to_string() })
}

impl FlightFrontend {
    /// Runs an action; the body of its answer, if it has one. A handle in it fits messages of `limit` bytes.
    pub(super) async fn action(&self, action: Action, request: RequestId, limit: usize) -> Result<Option<Bytes>> {
        match action.r#type.as_str() {
            CREATE_PREPARED_STATEMENT => {
                let request: ActionCreatePreparedStatementRequest = unpack(&action)?;
                let transaction = transaction(request.transaction_id.as_ref())?;
                let prepared = self.statements.prepare(&request.query, transaction).await?;
                let result = ActionCreatePreparedStatementResult {
                    prepared_statement_handle: prepared.handle.encode(limit)?,
                    dataset_schema: schema_bytes(&prepared.schema)?,
                    parameter_schema: schema_bytes(&prepared.parameters)?,
                };
                Ok(Some(result.as_any().encode_to_vec().into()))
            }
            // A handle holds nothing on the server: closing any form of it, twice too, is fine.
            CLOSE_PREPARED_STATEMENT => unpack::<ActionClosePreparedStatementRequest>(&action).map(|_| None),
            name if name.starts_with(OWN_PREFIX) => self.statements.service().action(name, action.body).await.map(Some),
            BEGIN_TRANSACTION => {
                unpack::<ActionBeginTransactionRequest>(&action)?;
                let transaction_id = self.statements.service().begin().await?.into();
                Ok(Some(ActionBeginTransactionResult { transaction_id }.as_any().encode_to_vec().into()))
            }
            END_TRANSACTION => {
                let end: ActionEndTransactionRequest = unpack(&action)?;
                let id = transaction(Some(&end.transaction_id))?
                    .ok_or_else(|| Error::invalid("the transaction to end is not named"))?;
                match EndTransaction::try_from(end.action) {
                    Ok(EndTransaction::Commit) => self.statements.commit(id, request).await?,
                    Ok(EndTransaction::Rollback) => self.statements.roll_back(id).await?,
                    _ => return Err(Error::invalid("a transaction is ended by a commit or a rollback")),
                }
                Ok(None)
            }
            name @ ("BeginSavepoint" | "EndSavepoint") => {
                Err(Error::unsupported(format!("{name}: savepoints are not offered; roll the whole transaction back")))
            }
            name => Err(Error::unsupported(format!("action {name:?} is not supported"))),
        }
    }
}

fn unpack<T: ProstMessageExt>(action: &Action) -> Result<T> {
    let wrong = |reason: String| Error::invalid(format!("action {}: {reason}", action.r#type));
    let any = Any::decode(action.body.as_ref()).map_err(|e| wrong(e.to_string()))?;
    any.unpack().map_err(|e| wrong(e.to_string()))?.ok_or_else(|| wrong(format!("unexpected body {}", any.type_url)))
}

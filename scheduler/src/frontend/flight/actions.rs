//! Actions: making and closing prepared statements, and Ancho's own management actions.
use ancho_common::error::{Error, Result};
use arrow_flight::{
    Action, ActionType,
    sql::{
        ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
        Any, ProstMessageExt,
    },
};
use bytes::Bytes;
use prost::Message;

use super::{FlightFrontend, encode::schema_bytes, refuse_transaction};

const CREATE_PREPARED_STATEMENT: &str = "CreatePreparedStatement";
const CLOSE_PREPARED_STATEMENT: &str = "ClosePreparedStatement";

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
        ("ancho.apply", "applies a cluster specification; YAML in, JSON out"),
        ("ancho.cluster_status", "schedulers, executors and tables; nothing in, JSON out"),
    ]
    .into_iter()
    .map(|(name, description)| ActionType { r#type: name.to_string(), description: description.to_string() })
}

impl FlightFrontend {
    /// Runs an action; the body of its answer, if it has one.
    pub(super) async fn action(&self, action: Action) -> Result<Option<Bytes>> {
        match action.r#type.as_str() {
            CREATE_PREPARED_STATEMENT => {
                let request: ActionCreatePreparedStatementRequest = unpack(&action)?;
                refuse_transaction(request.transaction_id.as_ref())?;
                let prepared = self.statements.prepare(&request.query).await?;
                let result = ActionCreatePreparedStatementResult {
                    prepared_statement_handle: prepared.handle.encode()?,
                    dataset_schema: schema_bytes(&prepared.schema)?,
                    parameter_schema: schema_bytes(&prepared.parameters)?,
                };
                Ok(Some(result.as_any().encode_to_vec().into()))
            }
            // A handle holds nothing on the server: closing any form of it, twice too, is fine.
            CLOSE_PREPARED_STATEMENT => unpack::<ActionClosePreparedStatementRequest>(&action).map(|_| None),
            name if name.starts_with(OWN_PREFIX) => self.statements.service().action(name, action.body).await.map(Some),
            name @ ("BeginTransaction" | "EndTransaction" | "BeginSavepoint" | "EndSavepoint") => {
                Err(Error::unsupported(format!(
                    "{name}: transactions are not supported; every statement commits by itself"
                )))
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

//! DoPut: updates, and parameters bound to prepared statements.
use ancho_common::error::{Error, Result};
use arrow::{array::RecordBatch, compute::concat_batches};
use arrow_flight::{
    FlightData,
    decode::{DecodedPayload, FlightDataDecoder},
    error::FlightError,
    sql::{
        Command, CommandStatementIngest, DoPutPreparedStatementResult, DoPutUpdateResult, TableExistsOption,
        TableNotExistOption,
    },
};
use bytes::Bytes;
use datafusion::{execution::SendableRecordBatchStream, physical_plan::stream::RecordBatchStreamAdapter};
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use tonic::Streaming;

use super::{FlightFrontend, decode_command, refused, transaction};
use crate::frontend::{
    caller::RequestId,
    handle::StatementHandle,
    service::{Ingest, WhereMissing, WhereThere},
    statements::Statements,
};

impl FlightFrontend {
    /// Takes what a client puts; the metadata of the answer, of at most `limit` bytes, and how many rows were changed.
    pub(super) async fn put(
        &self,
        mut messages: Streaming<FlightData>,
        request: RequestId,
        limit: usize,
    ) -> Result<(Bytes, i64)> {
        let first = messages
            .message()
            .await?
            .ok_or_else(|| Error::invalid("nothing was put: the first message must carry a descriptor"))?;
        let descriptor = first
            .flight_descriptor
            .clone()
            .ok_or_else(|| Error::invalid("the first message put carries no descriptor"))?;
        match decode_command(&descriptor.cmd)? {
            Command::CommandStatementUpdate(update) => {
                let transaction = transaction(update.transaction_id.as_ref())?;
                self.statements.update_text(&update.query, transaction, request).await.map(updated)
            }
            Command::CommandPreparedStatementQuery(query) => {
                let handle = StatementHandle::decode(&query.prepared_statement_handle)?;
                let handle = bind(handle, first, messages).await?;
                let answer = DoPutPreparedStatementResult { prepared_statement_handle: Some(handle.encode(limit)?) };
                Ok((answer.encode_to_vec().into(), 0))
            }
            Command::CommandPreparedStatementUpdate(update) => {
                let handle = StatementHandle::decode(&update.prepared_statement_handle)?;
                // JDBC and Go drivers send the rows along with the update instead of binding them first.
                let handle = bind(handle, first, messages).await?;
                self.statements.update(handle, request).await.map(updated)
            }
            Command::CommandStatementIngest(command) => {
                let transaction = transaction(command.transaction_id.as_ref())?;
                let rows = rows(first, messages).await?;
                self.statements.ingest(ingest(command, rows)?, transaction, request).await.map(updated)
            }
            other => Err(refused(&other)),
        }
    }
}

/// What a client asks for with its rows.
fn ingest(command: CommandStatementIngest, rows: SendableRecordBatchStream) -> Result<Ingest> {
    if command.temporary {
        return Err(Error::unsupported(format!("table {}: temporary tables are not offered", command.table)));
    }
    let options = command.table_definition_options.unwrap_or_default();
    let missing = match options.if_not_exist() {
        TableNotExistOption::Create => WhereMissing::Create,
        TableNotExistOption::Fail | TableNotExistOption::Unspecified => WhereMissing::Fail,
    };
    let there = match options.if_exists() {
        TableExistsOption::Append => WhereThere::Append,
        TableExistsOption::Replace => WhereThere::Replace,
        TableExistsOption::Fail | TableExistsOption::Unspecified => WhereThere::Fail,
    };
    let named = |name: Option<String>| name.filter(|name| !name.is_empty());
    let (catalog, schema) = (named(command.catalog), named(command.schema));
    Ok(Ingest { catalog, schema, table: command.table, missing, there, rows })
}

/// The rows of a stream as they come, once their schema is here.
async fn rows(first: FlightData, rest: Streaming<FlightData>) -> Result<SendableRecordBatchStream> {
    let messages = stream::iter([Ok(first)]).chain(rest.map_err(FlightError::from));
    let messages = messages.try_filter(|message| std::future::ready(!message.data_header.is_empty()));
    let mut decoder = FlightDataDecoder::new(messages);
    let schema = loop {
        match decoder.next().await {
            Some(message) => match message.map_err(unreadable)?.payload {
                DecodedPayload::Schema(schema) => break schema,
                DecodedPayload::RecordBatch(_) => return Err(Error::invalid("rows came before their schema")),
                DecodedPayload::None => {}
            },
            None => return Err(Error::invalid("no rows were sent, not even their schema")),
        }
    };
    let batches = decoder.filter_map(|message| async move {
        match message.map(|m| m.payload) {
            Ok(DecodedPayload::RecordBatch(batch)) => Some(Ok(batch)),
            Ok(_) => None,
            Err(error) => Some(Err(unreadable(error).into())),
        }
    });
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
}

fn updated(rows: i64) -> (Bytes, i64) {
    (DoPutUpdateResult { record_count: rows }.encode_to_vec().into(), rows)
}

async fn bind(handle: StatementHandle, first: FlightData, rest: Streaming<FlightData>) -> Result<StatementHandle> {
    match read_rows(first, rest).await? {
        Some(parameters) => Statements::bind(handle, &parameters),
        None => Ok(handle),
    }
}

/// All rows of a stream as one batch; `None` if it carries no schema.
async fn read_rows(first: FlightData, rest: Streaming<FlightData>) -> Result<Option<RecordBatch>> {
    // A lone descriptor has an empty header, which is no Arrow message.
    let messages = stream::iter([Ok(first)]).chain(rest.map_err(FlightError::from));
    let messages = messages.try_filter(|message| std::future::ready(!message.data_header.is_empty()));
    let mut decoder = FlightDataDecoder::new(messages);
    let mut batches = Vec::new();
    let mut schema = None;
    while let Some(message) = decoder.next().await {
        match message.map_err(unreadable)?.payload {
            DecodedPayload::Schema(found) => schema = Some(found),
            DecodedPayload::RecordBatch(batch) => batches.push(batch),
            DecodedPayload::None => {}
        }
    }
    schema
        .map(|schema| concat_batches(&schema, &batches))
        .transpose()
        .map_err(|e| Error::invalid(format!("bound parameters cannot be put together: {e}")))
}

fn unreadable(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => Error::from(*status),
        other => Error::invalid(format!("bound parameters cannot be read: {other}")),
    }
}

//! Flight SQL: the Flight calls of a client turned into statements, metadata answers and actions.
//!
//! The service implements Flight itself instead of arrow-flight's `FlightSqlService`, which leaves no way to answer
//! `GetSchema` and needs two methods per metadata command.
//!
//! * `GetFlightInfo` plans a query and runs nothing: the ticket carries the statement. An update it applies, and the
//!   ticket carries the count. Python's ADBC sends every statement this way and drops the result of an `INSERT` unread,
//!   so the call that fetches the rows may never come; the protocol has this call execute the statement.
//! * `CreatePreparedStatement` and `GetSchema` never run anything.
//! * Endpoints name no address, so clients fetch the rows over the connection they have.
//! * Rows of a bulk ingestion (`DoPut`) are routed to their owners as they come, and committed as one write.
//! * A transaction lives in the scheduler that began it; so clients must stay with that one until its end.
//! * Savepoints and Substrait plans are refused as unsupported.
mod actions;
mod deadline;
mod encode;
mod metadata;
mod put;
mod sql_info;
mod type_info;

use std::pin::Pin;

use ancho_common::error::{Error, Result};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, PollInfo, PutResult, SchemaResult, Ticket,
    flight_service_server::{FlightService, FlightServiceServer},
    sql::{Any, Command, ProstMessageExt, TicketStatementQuery},
};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use prost::Message;
use tonic::{Request, Response, Status, Streaming, metadata::MetadataValue};

pub use self::encode::{DEFAULT_MESSAGE_BYTES, MESSAGE_BYTES_HEADER, TARGET_MESSAGE_BYTES};
use self::encode::{encode, message_limit, schema_bytes};
use super::{
    caller::RequestId,
    handle::StatementHandle,
    metrics::{Measured, StatementMeter},
    service::{SharedService, StatementKind},
    statements::{EdgeRows, Statements},
    status::to_status,
};

/// Largest request taken: a message of bound parameters, or an action's body.
const MAX_REQUEST_BYTES: usize = 64 * 1024 * 1024;

/// Name of this front end in metrics.
const FRONTEND: &str = "flight";

type BoxedStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send + 'static>>;

/// The Flight SQL service of a scheduler.
pub struct FlightFrontend {
    statements: Statements,
}

impl FlightFrontend {
    /// Adapts a service.
    #[must_use]
    pub fn new(service: SharedService) -> Self {
        Self { statements: Statements::new(service, TARGET_MESSAGE_BYTES) }
    }

    /// The service to mount on a gRPC server.
    #[must_use]
    pub fn into_server(self) -> FlightServiceServer<Self> {
        // Results are bounded where they are encoded; answers to metadata commands may be larger for large catalogs.
        FlightServiceServer::new(self).max_decoding_message_size(MAX_REQUEST_BYTES)
    }

    /// The statement that a command names; `None` if it is no statement.
    async fn statement(&self, command: &Command) -> Result<Option<StatementHandle>> {
        match command {
            Command::CommandStatementQuery(query) => {
                let transaction = transaction(query.transaction_id.as_ref())?;
                Ok(Some(self.statements.prepare(&query.query, transaction).await?.handle))
            }
            Command::CommandPreparedStatementQuery(query) => {
                StatementHandle::decode(&query.prepared_statement_handle).map(Some)
            }
            Command::TicketStatementQuery(ticket) => StatementHandle::decode(&ticket.statement_handle).map(Some),
            _ => Ok(None),
        }
    }

    /// The answer to a metadata command.
    fn metadata(&self, command: &Command) -> Result<RecordBatch> {
        metadata::metadata_batch(command, self.statements.service().as_ref())?.ok_or_else(|| refused(command))
    }

    /// The schema of what a descriptor asks for.
    async fn schema(&self, command: &Command) -> Result<SchemaRef> {
        match self.statement(command).await? {
            Some(handle) => self.statements.announced(&handle).await,
            None => Ok(self.metadata(command)?.schema()),
        }
    }

    /// Schema and ticket of what a descriptor asks for, for a client that takes messages of `limit` bytes. Applies it if it is an update.
    async fn describe(
        &self,
        command: Command,
        request: RequestId,
        limit: usize,
        meter: &mut StatementMeter,
    ) -> Result<(SchemaRef, Any)> {
        let (schema, handle) = match &command {
            Command::CommandStatementQuery(query) => {
                let transaction = transaction(query.transaction_id.as_ref())?;
                let prepared = self.statements.prepare(&query.query, transaction).await?;
                (prepared.schema, prepared.handle)
            }
            Command::CommandPreparedStatementQuery(query) => {
                let handle = StatementHandle::decode(&query.prepared_statement_handle)?;
                (self.statements.announced(&handle).await?, handle)
            }
            _ => return Ok((self.metadata(&command)?.schema(), command.into_any())),
        };
        if handle.kind == StatementKind::Query {
            return Ok((schema, TicketStatementQuery { statement_handle: handle.encode(limit)? }.as_any()));
        }
        meter.measure(Measured::Update);
        let schema = self.statements.announced(&handle).await?;
        let changed = self.statements.update(handle, request).await?;
        meter.add_rows(usize::try_from(changed).unwrap_or(0));
        let told =
            StatementHandle { changed: Some(changed), ..StatementHandle::plain(String::new(), StatementKind::Update) };
        Ok((schema, TicketStatementQuery { statement_handle: told.encode(limit)? }.as_any()))
    }

    /// Starts what a ticket asks for.
    async fn rows(&self, command: Command) -> Result<EdgeRows> {
        // A statement by its text is no ticket: it would be planned again with every fetch.
        if matches!(command, Command::CommandStatementQuery(_)) {
            return Err(refused(&command));
        }
        match self.statement(&command).await? {
            Some(handle) => self.statements.run(handle).await,
            None => {
                let batch = self.metadata(&command)?;
                Ok(EdgeRows { schema: batch.schema(), rows: stream::iter([Ok(batch)]).boxed() })
            }
        }
    }
}

/// The command inside a descriptor, ticket or action.
fn decode_command(bytes: &[u8]) -> Result<Command> {
    Any::decode(bytes)
        .map_err(|e| e.to_string())
        .and_then(|any| Command::try_from(any).map_err(|e| e.to_string()))
        .map_err(|e| Error::invalid(format!("this is not a Flight SQL command: {e}")))
}

fn refused(command: &Command) -> Error {
    let name = command.type_url().rsplit('.').next().unwrap_or_default();
    match command {
        Command::Unknown(_) => Error::unsupported(format!("command {name:?} is not known")),
        _ => Error::unsupported(format!("{name} is not supported here")),
    }
}

/// The transaction that a call names; an empty name is none.
fn transaction(id: Option<&Bytes>) -> Result<Option<String>> {
    let Some(id) = id.filter(|id| !id.is_empty()) else { return Ok(None) };
    let id =
        std::str::from_utf8(id).map_err(|_| Error::invalid("the id of the transaction is none of this server's"))?;
    Ok(Some(id.to_owned()))
}

#[tonic::async_trait]
impl FlightService for FlightFrontend {
    type HandshakeStream = BoxedStream<HandshakeResponse>;
    type ListFlightsStream = BoxedStream<FlightInfo>;
    type DoGetStream = BoxedStream<FlightData>;
    type DoPutStream = BoxedStream<PutResult>;
    type DoActionStream = BoxedStream<arrow_flight::Result>;
    type ListActionsStream = BoxedStream<ActionType>;
    type DoExchangeStream = BoxedStream<FlightData>;

    /// Accepts any user and hands out a token, as drivers expect when they are given a user; tokens are not looked at.
    async fn handshake(
        &self,
        _request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let token = uuid::Uuid::new_v4().simple().to_string();
        let header = MetadataValue::try_from(format!("Bearer {token}"))
            .map_err(|e| to_status(Error::internal(format!("token is no header value: {e}"))))?;
        let reply = HandshakeResponse { protocol_version: 0, payload: token.into() };
        let stream: Self::HandshakeStream = stream::iter([Ok(reply)]).boxed();
        let mut response = Response::new(stream);
        response.metadata_mut().insert("authorization", header);
        Ok(response)
    }

    async fn list_flights(&self, _request: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Err(to_status(Error::unsupported("ListFlights is not supported; list tables by GetTables")))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        let id = RequestId::of_call(request.metadata()).map_err(to_status)?;
        let limit = message_limit(request.metadata()).map_err(to_status)?;
        let descriptor = request.into_inner();
        let mut meter = StatementMeter::start(FRONTEND, Measured::Prepare);
        let described = async {
            let (schema, ticket) = self.describe(decode_command(&descriptor.cmd)?, id, limit, &mut meter).await?;
            let ticket = Ticket::new(ticket.encode_to_vec());
            let mut info = FlightInfo {
                schema: schema_bytes(&schema)?,
                ..FlightInfo::new().with_endpoint(FlightEndpoint::new().with_ticket(ticket)).with_descriptor(descriptor)
            };
            // The descriptor repeats what the client sent, with the parameters that the ticket carries too.
            if info.encoded_len() > limit {
                info.flight_descriptor = None;
            }
            Ok(info)
        };
        let described = described.await;
        meter.finish(described).map(Response::new).map_err(to_status)
    }

    async fn poll_flight_info(&self, _request: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        Err(to_status(Error::unsupported("PollFlightInfo is not supported; use GetFlightInfo")))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let meter = StatementMeter::start(FRONTEND, Measured::Prepare);
        let described = async {
            let schema = self.schema(&decode_command(&request.into_inner().cmd)?).await?;
            Ok(SchemaResult { schema: schema_bytes(&schema)? })
        };
        meter.finish(described.await).map(Response::new).map_err(to_status)
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let mut meter = StatementMeter::start(FRONTEND, Measured::Query);
        let deadline = deadline::deadline(request.metadata());
        let started = async {
            let limit = message_limit(request.metadata())?;
            Ok::<_, Error>((self.rows(decode_command(&request.get_ref().ticket)?).await?, limit))
        };
        match started.await {
            Ok((rows, limit)) => {
                Ok(Response::new(deadline::until(encode(rows, limit, meter).boxed(), deadline).boxed()))
            }
            Err(error) => {
                meter.fail(error.kind);
                Err(to_status(error))
            }
        }
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        let id = RequestId::of_call(request.metadata()).map_err(to_status)?;
        let limit = message_limit(request.metadata()).map_err(to_status)?;
        let meter = StatementMeter::start(FRONTEND, Measured::Update);
        let answer = meter.finish_counted(self.put(request.into_inner(), id, limit).await).map_err(to_status)?;
        let stream: Self::DoPutStream = stream::iter([Ok(PutResult { app_metadata: answer })]).boxed();
        Ok(Response::new(stream))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let id = RequestId::of_call(request.metadata()).map_err(to_status)?;
        let limit = message_limit(request.metadata()).map_err(to_status)?;
        let meter = StatementMeter::start(FRONTEND, Measured::Action);
        let answers = meter.finish(self.action(request.into_inner(), id, limit).await).map_err(to_status)?;
        let stream: Self::DoActionStream = stream::iter(answers.map(|body| Ok(arrow_flight::Result { body }))).boxed();
        Ok(Response::new(stream))
    }

    async fn list_actions(&self, _request: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        Ok(Response::new(stream::iter(actions::offered().map(Ok)).boxed()))
    }

    async fn do_exchange(
        &self,
        _request: Request<Streaming<FlightData>>,
    ) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(to_status(Error::unsupported("DoExchange is not supported")))
    }
}

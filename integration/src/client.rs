//! A thin Flight SQL client whose failures say what kind they are and who reported them.
use std::{fmt, sync::Arc, time::Duration};

use ancho_common::error::{Error, ErrorKind};
use anyhow::{bail, ensure};
use arrow::{
    array::{Array, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, Int64Type, SchemaRef},
    util::display::{ArrayFormatter, FormatOptions},
};
use arrow_flight::{
    Action, FlightData, FlightDescriptor,
    error::FlightError,
    sql::{
        CommandStatementIngest, CommandStatementUpdate, DoPutUpdateResult, EndTransaction, ProstMessageExt,
        TableDefinitionOptions, TableExistsOption, TableNotExistOption, client::FlightSqlServiceClient,
    },
};
use bytes::Bytes;
use futures::{TryStreamExt, stream};
use prost::Message;
use serde::Deserialize;
use tonic::{
    Status,
    transport::{Channel, Endpoint},
};

/// Longest time to reach a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A statement that did not end in an answer.
#[derive(Debug, Clone)]
pub struct Failure {
    /// Kind and text.
    pub error: Error,
    /// The server said so. Otherwise the connection or the client did, and what became of an update is not known.
    pub from_server: bool,
}

impl Failure {
    /// What the caller should do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.error.kind
    }

    /// A failure that this side noticed.
    #[must_use]
    pub fn local(error: Error) -> Self {
        Self { error, from_server: false }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.from_server { "server" } else { "client" };
        write!(f, "{} (said the {side})", self.error)
    }
}

impl std::error::Error for Failure {}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let from_server = status.metadata().contains_key("x-ancho-code");
        Self { error: Error::from(status), from_server }
    }
}

impl From<FlightError> for Failure {
    fn from(error: FlightError) -> Self {
        match error {
            FlightError::Tonic(status) => Self::from(*status),
            other => Self::local(Error::internal(other.to_string())),
        }
    }
}

/// Result of a statement.
pub type Result<T> = std::result::Result<T, Failure>;

/// All rows of a query.
#[derive(Debug, Clone)]
pub struct Answer {
    /// As announced before the first row.
    pub schema: SchemaRef,
    /// The rows; may be no batch at all.
    pub batches: Vec<RecordBatch>,
}

impl Answer {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// One line of what `ancho.apply` did.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Change {
    /// Name of the table.
    pub table: String,
    /// `created`, `refreshed`, `replaced`, `unchanged` or `failed`.
    pub action: String,
    /// More, to read.
    #[serde(default)]
    pub detail: Option<String>,
    /// Rows loaded.
    #[serde(default)]
    pub rows: Option<u64>,
    /// Kind of the error, where it failed.
    #[serde(default)]
    pub error: Option<ErrorKind>,
}

#[derive(Deserialize)]
struct Applied {
    changes: Vec<Change>,
}

/// A connection to one scheduler. Clones share it.
#[derive(Debug, Clone)]
pub struct Client {
    url: String,
    inner: FlightSqlServiceClient<Channel>,
    /// The transaction that its statements are part of.
    transaction: Option<Bytes>,
}

impl Client {
    /// Prepares a connection to `grpc://host:port`; it is made with the first statement, and again after it broke.
    ///
    /// # Errors
    /// The text is not a URL.
    pub fn new(url: &str) -> Result<Self> {
        let address = url.split_once("://").map_or(url, |(_, rest)| rest);
        let endpoint = Endpoint::try_from(format!("http://{address}"))
            .map_err(|e| Failure::local(Error::invalid(format!("{url:?} is not a URL: {e}"))))?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_max_header_list_size(64 * 1024)
            .tcp_nodelay(true);
        Ok(Self { url: url.to_owned(), inner: FlightSqlServiceClient::new(endpoint.connect_lazy()), transaction: None })
    }

    /// The same connection, with a gRPC deadline in every call that only the server keeps.
    #[must_use]
    pub fn with_server_deadline(&self, time: Duration) -> Self {
        let mut client = self.clone();
        client.inner.set_header("grpc-timeout", format!("{}m", time.as_millis()));
        client
    }

    /// The same with a header in every call.
    ///
    /// # Errors
    /// It cannot be a header.
    pub fn with_header(mut self, name: &str, value: &str) -> Result<Self> {
        let wrong = |_| Failure::local(Error::invalid(format!("{name}: {value} cannot be a header")));
        tonic::metadata::AsciiMetadataValue::try_from(value).map_err(wrong)?;
        self.inner.set_header(name, value);
        Ok(self)
    }

    /// The URL it was made with.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Runs a query to its end.
    ///
    /// # Errors
    /// The server's error, a broken connection, or a stream whose schema is not the announced one.
    pub async fn query(&self, sql: &str) -> Result<Answer> {
        let mut client = self.inner.clone();
        let info = client.execute(sql.to_owned(), self.transaction.clone()).await?;
        let schema = info.clone().try_decode_schema().map_err(FlightError::from)?;
        let mut batches = Vec::new();
        for endpoint in info.endpoint {
            let Some(ticket) = endpoint.ticket else {
                return Err(Failure::local(Error::internal("an endpoint came without a ticket")));
            };
            let rows: Vec<RecordBatch> = client.do_get(ticket).await?.try_collect().await?;
            batches.extend(rows);
        }
        for batch in &batches {
            if batch.schema().fields() != schema.fields() {
                let text = format!("the announced schema is {schema:?}, the streamed one {:?}", batch.schema());
                return Err(Failure::local(Error::internal(text)));
            }
        }
        Ok(Answer { schema: Arc::new(schema), batches })
    }

    /// Runs an update and gives the number of rows that the server reports.
    ///
    /// # Errors
    /// The server's error or a broken connection.
    pub async fn update(&self, sql: &str) -> Result<i64> {
        let command = CommandStatementUpdate { query: sql.to_owned(), transaction_id: self.transaction.clone() };
        let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
        let request = stream::iter([FlightData { flight_descriptor: Some(descriptor), ..FlightData::default() }]);
        let mut client = self.inner.clone();
        let mut replies = client.do_put(request).await?;
        let Some(reply) = replies.message().await? else {
            return Err(Failure::local(Error::unavailable("the server ended an update without a reply")));
        };
        let result = DoPutUpdateResult::decode(&*reply.app_metadata)
            .map_err(|e| Failure::local(Error::internal(format!("the reply to an update is unreadable: {e}"))))?;
        Ok(result.record_count)
    }

    /// Adds rows to a table by a bulk ingestion.
    ///
    /// # Errors
    /// The server's error or a broken connection.
    pub async fn append(&self, table: &str, rows: RecordBatch) -> Result<i64> {
        let options = TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Fail.into(),
            if_exists: TableExistsOption::Append.into(),
        };
        let command = CommandStatementIngest {
            table: table.to_owned(),
            table_definition_options: Some(options),
            transaction_id: self.transaction.clone(),
            ..CommandStatementIngest::default()
        };
        Ok(self.inner.clone().execute_ingest(command, stream::iter([Ok(rows)])).await?)
    }

    /// Begins a transaction: the same connection, with its statements inside.
    ///
    /// # Errors
    /// The server's error or a broken connection.
    pub async fn begin(&self) -> Result<Self> {
        let mut client = self.clone();
        client.transaction = Some(client.inner.begin_transaction().await?);
        Ok(client)
    }

    /// Applies the transaction that was begun.
    ///
    /// # Errors
    /// The server's error or a broken connection.
    pub async fn commit(&self) -> Result<()> {
        self.end(EndTransaction::Commit).await
    }

    /// Ends the transaction that was begun without effect.
    ///
    /// # Errors
    /// The server's error or a broken connection.
    pub async fn roll_back(&self) -> Result<()> {
        self.end(EndTransaction::Rollback).await
    }

    async fn end(&self, how: EndTransaction) -> Result<()> {
        let none = || Failure::local(Error::invalid("the client is in no transaction"));
        let transaction = self.transaction.clone().ok_or_else(none)?;
        Ok(self.inner.clone().end_transaction(transaction, how).await?)
    }

    /// Sends a management action.
    ///
    /// # Errors
    /// The server's error or a broken connection.
    pub async fn action(&self, name: &str, body: impl Into<Bytes> + Send) -> Result<Bytes> {
        let mut client = self.inner.clone();
        let mut replies = client.do_action(Action::new(name, body)).await?;
        match replies.message().await? {
            Some(reply) => Ok(reply.body),
            None => Err(Failure::local(Error::internal(format!("the action {name} ended without a reply")))),
        }
    }

    /// Applies a cluster spec, all of it.
    ///
    /// # Errors
    /// As [`Client::try_apply`], or a dataset failed.
    pub async fn apply(&self, yaml: &str) -> Result<Vec<Change>> {
        let changes = self.try_apply(yaml).await?;
        match changes.iter().find_map(|c| c.error.map(|kind| (kind, c))) {
            None => Ok(changes),
            Some((kind, change)) => {
                let text = format!("dataset {}: {}", change.table, change.detail.as_deref().unwrap_or_default());
                Err(Failure { error: Error::new(kind, text), from_server: true })
            }
        }
    }

    /// Applies a cluster spec; datasets that failed are among the changes.
    ///
    /// # Errors
    /// As [`Client::action`], or the reply has another form.
    pub async fn try_apply(&self, yaml: &str) -> Result<Vec<Change>> {
        let reply = self.action("ancho.apply", yaml.to_owned()).await?;
        let applied: Applied = parse(&reply)?;
        Ok(applied.changes)
    }

    /// The cluster's status document.
    ///
    /// # Errors
    /// As [`Client::action`], the reply is not JSON, or the scheduler reaches no majority.
    pub async fn status(&self) -> Result<serde_json::Value> {
        let status = self.status_as_known().await?;
        match status["problem"].as_str() {
            Some(problem) => Err(Failure::local(Error::unavailable(problem))),
            None => Ok(status),
        }
    }

    /// The same as the scheduler knew it last, if it reaches no majority.
    ///
    /// # Errors
    /// As [`Client::action`], or the reply is not JSON.
    pub async fn status_as_known(&self) -> Result<serde_json::Value> {
        parse(&self.action("ancho.cluster_status", Bytes::new()).await?)
    }
}

fn parse<T: for<'a> Deserialize<'a>>(reply: &Bytes) -> Result<T> {
    serde_json::from_slice(reply).map_err(|e| {
        let text = String::from_utf8_lossy(reply);
        Failure::local(Error::internal(format!("the reply {text} is unreadable: {e}")))
    })
}

/// The only value of an answer, an integer.
///
/// # Errors
/// The answer is not one row of one integer.
pub fn single_integer(answer: &Answer) -> anyhow::Result<i64> {
    let filled: Vec<&RecordBatch> = answer.batches.iter().filter(|b| b.num_rows() > 0).collect();
    let [batch] = filled.as_slice() else { bail!("one row is needed, {} came", answer.rows()) };
    ensure!(batch.num_rows() == 1 && batch.num_columns() == 1, "one value is needed: {batch:?}");
    let value = cast(batch.column(0), &DataType::Int64)?;
    let value = value.as_primitive::<Int64Type>();
    ensure!(value.is_valid(0), "the value is NULL");
    Ok(value.value(0))
}

/// All values of the first column as text; nulls as `NULL`.
///
/// # Errors
/// The column's type cannot be shown.
pub fn first_column(answer: &Answer) -> anyhow::Result<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut values = Vec::new();
    for batch in &answer.batches {
        let formatter = ArrayFormatter::try_new(batch.column(0).as_ref(), &options)?;
        for row in 0..batch.num_rows() {
            values.push(formatter.value(row).try_to_string()?);
        }
    }
    Ok(values)
}

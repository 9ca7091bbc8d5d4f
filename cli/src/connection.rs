//! The Flight SQL connection of the client commands.
use std::{sync::Arc, time::Duration};

use ancho_common::error::{Error, ErrorKind, Result};
use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use arrow_flight::{
    Action, Empty, FlightInfo,
    decode::FlightRecordBatchStream,
    error::FlightError,
    flight_service_client::FlightServiceClient,
    sql::{EndTransaction, client::FlightSqlServiceClient},
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

use crate::cluster_status::ClusterStatus;

/// Where clients look for a scheduler when nothing else is said.
pub const DEFAULT_URL: &str = "grpc://127.0.0.1:50051";

/// Largest message taken, which the server is told: it stays below 4 MiB unless one row is larger.
const MAX_MESSAGE: usize = 1024 * 1024 * 1024;

/// Call header that tells it.
const MESSAGE_BYTES_HEADER: &str = "x-ancho-max-message-bytes";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a scheduler may take to say what it offers, which it does without asking anybody.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A scheduler that runs a statement is asked for a sign of life this often: statements may take any time, silence not.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// How long that sign may take.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// How a client command finds the cluster.
#[derive(Debug, Clone, clap::Args)]
pub struct Target {
    /// Flight SQL address of any scheduler
    #[arg(long, value_name = "URL", env = "ANCHO_URL", default_value = DEFAULT_URL)]
    pub url: String,
}

/// A connection to one scheduler.
#[derive(Clone)]
pub struct Connection {
    url: String,
    client: FlightSqlServiceClient<Channel>,
    /// The open transaction.
    transaction: Option<Bytes>,
}

/// What a statement gave.
pub enum Outcome {
    /// Rows, with their schema known before the first.
    Rows(Rows),
    /// A number of changed rows; 0 for statements that change none.
    Changed(i64),
}

/// The rows of a result as they arrive. Dropping it ends the query on the cluster.
pub struct Rows {
    /// Columns.
    pub schema: SchemaRef,
    /// Batches with exactly these columns.
    pub batches: BoxStream<'static, Result<RecordBatch>>,
}

impl Connection {
    /// Connects to `grpc://host:port` (also written `grpc+tcp://` or `http://`).
    ///
    /// # Errors
    /// The URL is none, or nobody answers.
    pub async fn open(url: &str) -> Result<Self> {
        let channel = channel(url).await?;
        let mut inner = FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        answers(url, &mut inner).await?;
        let mut client = FlightSqlServiceClient::new_from_inner(inner);
        client.set_header(MESSAGE_BYTES_HEADER, MAX_MESSAGE.to_string());
        Ok(Self { url: url.to_owned(), client, transaction: None })
    }

    /// The URL it was opened with.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The protocol's own client, for requests that have no method here.
    pub fn client(&mut self) -> &mut FlightSqlServiceClient<Channel> {
        &mut self.client
    }

    /// Runs one statement: preparing it tells whether it gives rows.
    ///
    /// # Errors
    /// What the cluster answers.
    pub async fn run(&mut self, sql: &str) -> Result<Outcome> {
        if let Some(word) = TransactionWord::of(sql) {
            self.transaction(word).await?;
            return Ok(Outcome::Changed(0));
        }
        let transaction = self.transaction.clone();
        let mut prepared = self.client.prepare(sql.to_owned(), transaction).await.map_err(error)?;
        let gives_rows = !prepared.dataset_schema().map_err(error)?.fields().is_empty();
        let outcome = if gives_rows {
            let info = prepared.execute().await.map_err(error)?;
            Outcome::Rows(self.fetch(info).await?)
        } else {
            Outcome::Changed(prepared.execute_update().await.map_err(error)?)
        };
        // The server keeps nothing for a handle, so a close that fails costs nobody anything.
        let _ = prepared.close().await;
        Ok(outcome)
    }

    /// Whether a transaction is open.
    #[must_use]
    pub fn in_transaction(&self) -> bool {
        self.transaction.is_some()
    }

    /// Begins or ends a transaction.
    ///
    /// # Errors
    /// One is open already, or none is; what the cluster answers.
    pub async fn transaction(&mut self, word: TransactionWord) -> Result<()> {
        let open = self.transaction.take();
        match (word, open) {
            (TransactionWord::Begin, None) => {
                self.transaction = Some(self.client.begin_transaction().await.map_err(error)?);
                Ok(())
            }
            (TransactionWord::Begin, open) => {
                self.transaction = open;
                Err(Error::invalid("a transaction is open already; end it by COMMIT or ROLLBACK"))
            }
            (_, None) => Err(Error::invalid("no transaction is open; BEGIN begins one")),
            (TransactionWord::Commit, Some(id)) => {
                self.client.end_transaction(id, EndTransaction::Commit).await.map_err(error)
            }
            (TransactionWord::RollBack, Some(id)) => {
                self.client.end_transaction(id, EndTransaction::Rollback).await.map_err(error)
            }
        }
    }

    /// Reads what a server has ready.
    ///
    /// # Errors
    /// The answer is not a result, or cannot be read.
    pub async fn fetch(&mut self, info: FlightInfo) -> Result<Rows> {
        let announced =
            info.clone().try_decode_schema().map_err(|e| Error::internal(format!("the announced schema: {e}")))?;
        let mut streams: Vec<FlightRecordBatchStream> = Vec::with_capacity(info.endpoint.len());
        for endpoint in info.endpoint {
            let ticket =
                endpoint.ticket.ok_or_else(|| Error::internal("the server gave an endpoint without a ticket"))?;
            streams.push(self.client.do_get(ticket).await.map_err(error)?);
        }
        let batches = futures::stream::iter(streams).flatten().map_err(error).boxed();
        Ok(Rows { schema: Arc::new(announced), batches })
    }

    /// One of Ancho's own actions.
    ///
    /// # Errors
    /// What the cluster answers.
    pub async fn act(&mut self, name: &str, body: impl Into<Vec<u8>>) -> Result<Vec<u8>> {
        let action = Action { r#type: name.to_owned(), body: body.into().into() };
        let mut replies = self.client.do_action(action).await.map_err(error)?;
        let mut answer = Vec::new();
        while let Some(part) = replies.message().await? {
            answer.extend_from_slice(&part.body);
        }
        Ok(answer)
    }

    /// How the cluster is.
    ///
    /// # Errors
    /// The cluster does not answer, in another form, or without a majority of its schedulers.
    pub async fn cluster_status(&mut self) -> Result<ClusterStatus> {
        let status = self.cluster_status_as_known().await?;
        match status.problem {
            Some(problem) => Err(Error::unavailable(problem)),
            None => Ok(status),
        }
    }

    /// How the cluster is, as far as the scheduler knows.
    ///
    /// # Errors
    /// It does not answer, or in another form.
    pub async fn cluster_status_as_known(&mut self) -> Result<ClusterStatus> {
        let reply = self.act("ancho.cluster_status", Vec::new()).await?;
        serde_json::from_slice(&reply)
            .map_err(|e| Error::internal(format!("{} answers the cluster's status in another form: {e}", self.url)))
    }
}

/// A statement that begins or ends a transaction: the connection's business, and not sent as a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionWord {
    /// `BEGIN`
    Begin,
    /// `COMMIT`
    Commit,
    /// `ROLLBACK`
    RollBack,
}

impl TransactionWord {
    fn of(sql: &str) -> Option<Self> {
        let words: Vec<String> =
            without_comments(sql).trim_end_matches(';').split_whitespace().map(str::to_uppercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["BEGIN"] | ["BEGIN" | "START", "TRANSACTION"] | ["BEGIN", "WORK"] => Some(Self::Begin),
            ["COMMIT" | "END"] | ["COMMIT" | "END", "TRANSACTION" | "WORK"] => Some(Self::Commit),
            ["ROLLBACK"] | ["ROLLBACK", "TRANSACTION" | "WORK"] => Some(Self::RollBack),
            _ => None,
        }
    }
}

/// The text behind the comments at its start.
fn without_comments(mut sql: &str) -> &str {
    loop {
        sql = sql.trim();
        sql = match (sql.strip_prefix("--"), sql.strip_prefix("/*")) {
            (Some(line), _) => line.split_once('\n').map_or("", |(_, rest)| rest),
            (_, Some(block)) => block.split_once("*/").map_or("", |(_, rest)| rest),
            _ => return sql,
        };
    }
}

impl Rows {
    /// All rows at once, for small results.
    ///
    /// # Errors
    /// The query fails.
    pub async fn collect(self) -> Result<Vec<RecordBatch>> {
        self.batches.try_collect().await
    }
}

/// Opens the channel below a connection.
///
/// # Errors
/// The URL is none, or nobody answers.
pub async fn channel(url: &str) -> Result<Channel> {
    let endpoint = Endpoint::from_shared(http_form(url)?)
        .map_err(|e| Error::invalid(format!("`{url}` is not an address: {e}")))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    endpoint.connect().await.map_err(|e| {
        let reason = Error::from(e).message;
        Error::unavailable(format!(
            "no scheduler answers at {url} ({reason}): is the cluster up, and is this its address?"
        ))
    })
}

/// Checks that somebody serves the connection: the system accepts one for a process that is stopped, too.
async fn answers(url: &str, client: &mut FlightServiceClient<Channel>) -> Result<()> {
    let silent = |reason: &str| {
        Error::unavailable(format!(
            "the process at {url} accepts connections and does not answer ({reason}): is it a scheduler, and is it stopped or \
             overloaded?"
        ))
    };
    // A server of another kind shows itself with the first message, not with the start of its answer.
    let first = async { client.list_actions(Empty {}).await?.into_inner().message().await };
    match tokio::time::timeout(ANSWER_TIMEOUT, first).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(status)) if is_no_flight(&status) => Err(Error::invalid(format!(
            "{url} is not a scheduler's Flight SQL address: another service listens on this port. Use the `grpc://` address that \
             `ancho up` prints, or the scheduler's `--flight-port` (50051 unless told otherwise)"
        ))),
        Ok(Err(status)) => match Error::from(status) {
            error if error.kind == ErrorKind::Unavailable => Err(silent(&error.message)),
            // Any answer is one, also that of a server that offers no such list.
            _ => Ok(()),
        },
        Err(_) => Err(silent(&format!("nothing in {} s", ANSWER_TIMEOUT.as_secs()))),
    }
}

/// Whether an answer comes from something else than Flight: from a server that speaks HTTP only, or one of other gRPC services, which
/// gives no reason. A Flight server without the list of actions gives one.
fn is_no_flight(status: &Status) -> bool {
    let text = status.message();
    let unframed = ["grpc-status header missing", "invalid compression flag"];
    (status.code() == Code::Unimplemented && text.is_empty()) || unframed.iter().any(|sign| text.contains(sign))
}

fn http_form(url: &str) -> Result<String> {
    let (scheme, address) = url.split_once("://").unwrap_or(("grpc", url));
    match scheme {
        "grpc" | "grpc+tcp" | "http" if !address.is_empty() => Ok(format!("http://{address}")),
        "grpc+tls" | "https" => Err(Error::unsupported(format!(
            "{url}: encrypted connections are not offered by this version: write grpc://host:port"
        ))),
        _ => Err(Error::invalid(format!("`{url}` is not the address of a scheduler: write grpc://host:port"))),
    }
}

/// What the protocol's client reports, with the kind that the server gave it.
pub fn error(error: FlightError) -> Error {
    match error {
        FlightError::Tonic(status) => Error::from(*status),
        other => Error::from_text(&other.to_string(), ErrorKind::Internal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_transactions_are_told_from_statements() {
        for (sql, word) in [
            ("begin", Some(TransactionWord::Begin)),
            (" Start  Transaction ; ", Some(TransactionWord::Begin)),
            ("END", Some(TransactionWord::Commit)),
            ("-- a\n /* b */ begin", Some(TransactionWord::Begin)),
            ("-- begin", None),
            ("commit work", Some(TransactionWord::Commit)),
            ("rollback;", Some(TransactionWord::RollBack)),
            ("rollback to savepoint a", None),
            ("select 'begin'", None),
        ] {
            assert_eq!(TransactionWord::of(sql), word, "{sql}");
        }
    }

    #[test]
    fn addresses_are_read_or_refused() {
        for url in ["grpc://h:1", "grpc+tcp://h:1", "http://h:1", "h:1"] {
            assert_eq!(http_form(url).expect(url), "http://h:1");
        }
        assert_eq!(http_form("grpc+tls://h:1").expect_err("TLS").kind, ErrorKind::Unsupported);
        assert_eq!(http_form("ftp://h:1").expect_err("FTP").kind, ErrorKind::Invalid);
    }

    #[tokio::test]
    async fn a_process_that_is_stopped_is_told_in_one_sentence() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("grpc://{}", listener.local_addr().expect("its address"));
        let Err(error) = Connection::open(&url).await else { panic!("nobody serves it") };
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains(&url) && error.message.contains("does not answer"), "{error}");
    }

    #[tokio::test]
    async fn an_address_without_a_scheduler_is_told_in_one_sentence() {
        let Err(error) = Connection::open("grpc://127.0.0.1:1").await else { panic!("port 1 answers") };
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("no scheduler answers at grpc://127.0.0.1:1"), "{error}");
    }
}

//! Any Flight SQL server as an engine: how the suite reaches an Ancho cluster.

use super::engine::SqlEngine;
use anyhow::{Context, bail};
use arrow::record_batch::RecordBatch;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::{FlightEndpoint, FlightInfo};
use async_trait::async_trait;
use futures::TryStreamExt;
use std::sync::Arc;
use std::time::Duration;

use arrow::{array::AsArray, datatypes::DataType};
use tonic::transport::{Channel, Endpoint};

/// Location by which a server says that a ticket is redeemed where it was issued.
const SAME_CONNECTION: &str = "arrow-flight-reuse-connection://";

/// A connection to a Flight SQL server.
pub struct FlightSqlEngine {
    name: String,
    client: FlightSqlServiceClient<Channel>,
}

impl FlightSqlEngine {
    /// Connects without TLS to `grpc://host:port` (also `grpc+tcp://` and `http://`).
    ///
    /// # Errors
    /// When the URL has another scheme, or nobody answers within 10 seconds.
    pub async fn connect(name: impl Into<String>, url: &str) -> anyhow::Result<Self> {
        Ok(Self::from_channel(name, open(url).await?))
    }

    /// Uses a channel that the caller has opened, with TLS or otherwise.
    pub fn from_channel(name: impl Into<String>, channel: Channel) -> Self {
        Self { name: name.into(), client: FlightSqlServiceClient::new(channel) }
    }

    /// Sends a bearer token with every request.
    pub fn set_token(&mut self, token: impl Into<String>) {
        self.client.set_token(token.into());
    }

    /// Runs a statement that changes something and gives the number of rows it reports.
    pub async fn update(&mut self, sql: &str) -> anyhow::Result<i64> {
        let rows = self.client.execute_update(sql.to_owned(), None).await;
        rows.with_context(|| format!("run on {}", self.name))
    }

    async fn fetch(&mut self, info: FlightInfo) -> anyhow::Result<Vec<RecordBatch>> {
        let mut batches = Vec::new();
        for endpoint in &info.endpoint {
            let ticket = endpoint.ticket.clone();
            let ticket = ticket.context("the server gave an endpoint without a ticket")?;
            let stream = match location(endpoint) {
                None => self.client.do_get(ticket).await?,
                Some(url) => {
                    let mut other = FlightSqlServiceClient::new(open(url).await?);
                    if let Some(token) = self.client.token() {
                        other.set_token(token.clone());
                    }
                    other.do_get(ticket).await?
                }
            };
            batches.extend(stream.try_collect::<Vec<_>>().await?);
        }
        if batches.is_empty() {
            let schema = info.try_decode_schema();
            let schema = schema.context("the server gave neither rows nor a schema")?;
            batches.push(RecordBatch::new_empty(Arc::new(schema)));
        }
        Ok(batches)
    }
}

/// Where else a ticket has to be redeemed.
fn location(endpoint: &FlightEndpoint) -> Option<&str> {
    let here = endpoint.location.is_empty() || endpoint.location.iter().any(|l| l.uri.starts_with(SAME_CONNECTION));
    if here {
        return None;
    }
    endpoint.location.first().map(|location| location.uri.as_str())
}

/// The milliseconds in a summary such as `rows=4, planning=3.250 ms, total=80.1 ms`.
fn planning_of(summary: &str) -> Option<f64> {
    summary.split_once("planning=")?.1.split_once(" ms")?.0.parse().ok()
}

async fn open(url: &str) -> anyhow::Result<Channel> {
    let Some((scheme, address)) = url.split_once("://") else {
        bail!("`{url}` is no URL: give grpc://host:port");
    };
    if !matches!(scheme, "grpc" | "grpc+tcp" | "http") {
        bail!("`{url}` has the scheme `{scheme}`: give grpc://host:port, or open the TLS channel yourself");
    }
    Endpoint::try_from(format!("http://{address}"))
        .with_context(|| format!("`{url}` is no address"))?
        .connect_timeout(Duration::from_secs(10))
        .tcp_nodelay(true)
        .connect()
        .await
        .with_context(|| format!("connect to {url}"))
}

#[async_trait]
impl SqlEngine for FlightSqlEngine {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&mut self, sql: &str) -> anyhow::Result<Vec<RecordBatch>> {
        let info = self.client.execute(sql.to_owned(), None).await?;
        self.fetch(info).await
    }

    /// From the summary of `EXPLAIN ANALYZE`: from the statement's arrival to its plan, without the scalar subqueries.
    async fn planning(&mut self, sql: &str) -> anyhow::Result<Option<Duration>> {
        let rows = self.run(&format!("EXPLAIN ANALYZE {sql}")).await?;
        let texts = rows.iter().flat_map(|batch| batch.columns()).filter(|c| c.data_type() == &DataType::Utf8);
        let planning = texts.flat_map(|column| column.as_string::<i32>().iter().flatten()).find_map(planning_of);
        Ok(planning.map(|milliseconds| Duration::from_secs_f64(milliseconds / 1e3)))
    }
}

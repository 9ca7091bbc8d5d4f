//! Tests of the front ends over real sockets, on a service that one DataFusion session stands in for.
mod commands;
mod double;
mod edge;
mod http;
mod prepared;
mod sizes;

use std::{net::SocketAddr, sync::Arc};

use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use arrow_flight::{
    FlightInfo, error::FlightError, flight_service_client::FlightServiceClient, sql::client::FlightSqlServiceClient,
};
use futures::TryStreamExt;
use tonic::transport::Channel;

use self::double::Double;
use super::{FrontendOptions, Frontends, FrontendsHandle};

type Client = FlightSqlServiceClient<Channel>;

/// A served double and a client to it.
struct Setup {
    double: Arc<Double>,
    handle: FrontendsHandle,
    client: Client,
}

impl Setup {
    async fn new() -> Self {
        Self::over(Double::new().await).await
    }

    async fn over(double: Double) -> Self {
        let double = Arc::new(double);
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let options = FrontendOptions { flight: any, http: Some(any), metrics: Some(any) };
        let handle = Frontends::start(double.clone(), options).await.unwrap();
        let client = client(handle.flight_addr).await;
        Self { double, handle, client }
    }

    /// Announced schema and rows of a query.
    async fn query(&mut self, sql: &str) -> Result<(SchemaRef, RecordBatch), FlightError> {
        let info = self.client.execute(sql.to_string(), None).await?;
        rows(&mut self.client, info).await
    }
}

async fn client(addr: SocketAddr) -> Client {
    let channel = Channel::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap();
    Client::new_from_inner(FlightServiceClient::new(channel))
}

/// Fetches what an info announces; checks that schema and address are as they should be.
async fn rows(client: &mut Client, info: FlightInfo) -> Result<(SchemaRef, RecordBatch), FlightError> {
    assert_eq!(info.endpoint.len(), 1);
    assert!(info.endpoint[0].location.is_empty(), "the connection at hand is to be used");
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let announced = Arc::new(info.try_decode_schema().unwrap());
    let mut stream = client.do_get(ticket).await?;
    let batches: Vec<RecordBatch> = (&mut stream).try_collect().await?;
    let streamed = stream.schema().expect("a schema is sent even without rows").clone();
    assert_eq!(streamed, announced);
    for batch in &batches {
        assert_eq!(batch.schema(), announced);
    }
    Ok((announced.clone(), concat_batches(&announced, &batches).unwrap()))
}

/// The status of a failed call.
fn status(error: FlightError) -> tonic::Status {
    match error {
        FlightError::Tonic(status) => *status,
        other => panic!("no status: {other}"),
    }
}

/// One text column of a batch.
fn texts(batch: &RecordBatch, column: usize) -> Vec<String> {
    let options = arrow::util::display::FormatOptions::new().with_null("NULL");
    let formatter = arrow::util::display::ArrayFormatter::try_new(batch.column(column), &options).unwrap();
    (0..batch.num_rows()).map(|row| formatter.value(row).to_string()).collect()
}

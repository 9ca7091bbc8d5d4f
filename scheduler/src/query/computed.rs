//! The service of the front ends, on the compute runtime.
use std::sync::Arc;

use ancho_common::{compute::Compute, error::Result};
use arrow::array::RecordBatch;
use bytes::Bytes;
use datafusion::{execution::SendableRecordBatchStream, physical_plan::stream::RecordBatchReceiverStreamBuilder};
use futures::StreamExt;

use crate::frontend::{
    boxed::sql_service,
    caller::Caller,
    service::{CatalogListing, Ingest, PreparedStatement, QueryStream, Readiness, SharedService},
};

/// Batches that a query may be ahead of its client.
const AHEAD: usize = 1;

/// Plans and runs statements on the compute runtime, so that the threads of the front ends only carry rows. A future or
/// a stream that is dropped ends what it stands for.
pub struct Computed {
    inner: SharedService,
    compute: Compute,
}

impl Computed {
    /// `inner`, there.
    #[must_use]
    pub fn new(inner: SharedService, compute: Compute) -> Self {
        Self { inner, compute }
    }

    async fn run<T, F, Fut>(&self, work: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(SharedService) -> Fut,
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        self.compute.run(work(Arc::clone(&self.inner))).await
    }

    /// The stream, drawn by a task of the compute runtime.
    fn drawn(&self, mut rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let mut drawn = RecordBatchReceiverStreamBuilder::new(rows.schema(), AHEAD);
        let ahead = drawn.tx();
        let draw = async move {
            while let Some(batch) = rows.next().await {
                if ahead.send(batch).await.is_err() {
                    break;
                }
            }
            Ok(())
        };
        drawn.spawn_on(draw, self.compute.handle());
        drawn.build()
    }
}

impl Computed {
    async fn prepare(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<PreparedStatement> {
        let (sql, parameters) = (sql.to_owned(), parameters.cloned());
        self.run(|inner| async move { inner.prepare(&sql, parameters.as_ref()).await }).await
    }

    async fn query(&self, sql: &str, parameters: Option<RecordBatch>) -> Result<QueryStream> {
        let sql = sql.to_owned();
        let query = self.run(|inner| async move { inner.query(&sql, parameters).await }).await?;
        Ok(QueryStream { schema: query.schema, stream: self.drawn(query.stream) })
    }

    async fn update(&self, sql: &str, parameters: Option<RecordBatch>, caller: &Caller) -> Result<i64> {
        let (sql, caller) = (sql.to_owned(), caller.clone());
        self.run(|inner| async move { inner.update(&sql, parameters, &caller).await }).await
    }

    async fn update_many(&self, sql: &str, parameters: RecordBatch, caller: &Caller) -> Result<i64> {
        let (sql, caller) = (sql.to_owned(), caller.clone());
        self.run(|inner| async move { inner.update_many(&sql, parameters, &caller).await }).await
    }

    async fn ingest(&self, ingest: Ingest, caller: &Caller) -> Result<i64> {
        let caller = caller.clone();
        self.run(|inner| async move { inner.ingest(ingest, &caller).await }).await
    }

    async fn begin(&self) -> Result<String> {
        self.run(|inner| async move { inner.begin().await }).await
    }

    async fn commit(&self, transaction: &str, caller: &Caller) -> Result<()> {
        let (transaction, caller) = (transaction.to_owned(), caller.clone());
        self.run(|inner| async move { inner.commit(&transaction, &caller).await }).await
    }

    async fn roll_back(&self, transaction: &str) -> Result<()> {
        let transaction = transaction.to_owned();
        self.run(|inner| async move { inner.roll_back(&transaction).await }).await
    }

    fn within(&self, transaction: &str) -> Result<SharedService> {
        Ok(Arc::new(Self::new(self.inner.within(transaction)?, self.compute.clone())))
    }

    fn catalog(&self) -> Result<CatalogListing> {
        self.inner.catalog()
    }

    async fn action(&self, name: &str, body: Bytes) -> Result<Bytes> {
        let name = name.to_owned();
        self.run(|inner| async move { inner.action(&name, body).await }).await
    }

    fn ready(&self) -> Readiness {
        self.inner.ready()
    }
}

sql_service!(
    Computed: prepare, query, update, update_many, ingest, begin, commit, roll_back, within, catalog, action, ready
);

//! Statements inside a transaction: they come one after the other, and the first that fails ends it.
use std::sync::Arc;

use ancho_common::error::{Error, Result};
use arrow::array::RecordBatch;
use bytes::Bytes;
use datafusion::{error::DataFusionError, physical_plan::stream::RecordBatchStreamAdapter};
use futures::StreamExt;

use super::open::Transaction;
use crate::{
    frontend::{
        boxed::sql_service,
        caller::Caller,
        service::{CatalogListing, Ingest, PreparedStatement, QueryStream, Readiness},
    },
    query::engine::QueryEngine,
};

/// The service of one transaction.
#[derive(Debug)]
pub(in crate::query) struct InTransaction {
    /// Sees what the transaction sees.
    engine: QueryEngine,
    transaction: Arc<Transaction>,
}

impl InTransaction {
    pub(in crate::query) fn new(engine: QueryEngine, transaction: Arc<Transaction>) -> Self {
        Self { engine, transaction }
    }

    /// Runs a statement in its turn.
    async fn statement<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let _turn = self.transaction.begin_statement().await?;
        work.await.inspect_err(|error| self.transaction.fail(error))
    }
}

impl InTransaction {
    async fn prepare(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<PreparedStatement> {
        if parameters.is_some() {
            // The statement is known to be right, and running it will tell whether its parameters are.
            let _turn = self.transaction.begin_statement().await?;
            return self.engine.prepare(sql, parameters).await;
        }
        self.statement(self.engine.prepare(sql, None)).await
    }

    async fn query(&self, sql: &str, parameters: Option<RecordBatch>) -> Result<QueryStream> {
        let QueryStream { schema, stream } = self.statement(self.engine.query(sql, parameters)).await?;
        let transaction = Arc::clone(&self.transaction);
        let rows = stream.map(move |batch| {
            batch.map_err(|error| {
                let error = Error::from(error);
                transaction.fail(&error);
                DataFusionError::from(error)
            })
        });
        Ok(QueryStream { schema: Arc::clone(&schema), stream: Box::pin(RecordBatchStreamAdapter::new(schema, rows)) })
    }

    async fn update(&self, sql: &str, parameters: Option<RecordBatch>, caller: &Caller) -> Result<i64> {
        self.statement(self.engine.update(sql, parameters, caller)).await
    }

    async fn update_many(&self, sql: &str, parameters: RecordBatch, caller: &Caller) -> Result<i64> {
        let rows = parameters.num_rows();
        let all = async {
            let mut changed = 0;
            for row in 0..rows {
                let one = self.engine.update(sql, Some(parameters.slice(row, 1)), caller).await;
                changed += one.map_err(|error| match rows {
                    1 => error,
                    _ => error.context(&format!("parameter row {} of {rows}", row + 1)),
                })?;
            }
            Ok(changed)
        };
        self.statement(all).await
    }

    async fn ingest(&self, ingest: Ingest, caller: &Caller) -> Result<i64> {
        self.statement(self.engine.ingest(ingest, caller)).await
    }

    fn catalog(&self) -> Result<CatalogListing> {
        self.engine.catalog()
    }

    async fn action(&self, name: &str, body: Bytes) -> Result<Bytes> {
        self.engine.action(name, body).await
    }

    fn ready(&self) -> Readiness {
        self.engine.ready()
    }
}

sql_service!(InTransaction: prepare, query, update, update_many, ingest, catalog, action, ready);

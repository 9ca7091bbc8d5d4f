//! The engine as the front ends know it.
use ancho_common::error::Result;
use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::future::BoxFuture;

use super::engine::QueryEngine;
use crate::frontend::{
    caller::Caller,
    service::{CatalogListing, Ingest, PreparedStatement, QueryStream, Readiness, SharedService, SqlService},
};

impl SqlService for QueryEngine {
    fn prepare<'a>(
        &'a self,
        sql: &'a str,
        parameters: Option<&'a RecordBatch>,
    ) -> BoxFuture<'a, Result<PreparedStatement>> {
        Box::pin(QueryEngine::prepare(self, sql, parameters))
    }

    fn query<'a>(&'a self, sql: &'a str, parameters: Option<RecordBatch>) -> BoxFuture<'a, Result<QueryStream>> {
        Box::pin(QueryEngine::query(self, sql, parameters))
    }

    fn update<'a>(
        &'a self,
        sql: &'a str,
        parameters: Option<RecordBatch>,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<i64>> {
        Box::pin(QueryEngine::update(self, sql, parameters, caller))
    }

    fn ingest<'a>(&'a self, ingest: Ingest, caller: &'a Caller) -> BoxFuture<'a, Result<i64>> {
        Box::pin(QueryEngine::ingest(self, ingest, caller))
    }

    fn begin(&self) -> BoxFuture<'_, Result<String>> {
        Box::pin(QueryEngine::begin(self))
    }

    fn commit<'a>(&'a self, transaction: &'a str, caller: &'a Caller) -> BoxFuture<'a, Result<()>> {
        Box::pin(QueryEngine::commit(self, transaction, caller))
    }

    fn roll_back<'a>(&'a self, transaction: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(QueryEngine::roll_back(self, transaction))
    }

    fn within(&self, transaction: &str) -> Result<SharedService> {
        QueryEngine::within(self, transaction)
    }

    fn catalog(&self) -> Result<CatalogListing> {
        QueryEngine::catalog(self)
    }

    fn action<'a>(&'a self, name: &'a str, body: Bytes) -> BoxFuture<'a, Result<Bytes>> {
        Box::pin(QueryEngine::action(self, name, body))
    }

    fn ready(&self) -> Readiness {
        QueryEngine::ready(self)
    }
}

//! What the front ends need from the rest of the scheduler: statements in, streams and counts out.
//!
//! The adapters in this folder hold no SQL logic of their own. Everything a client can ask for is one call of
//! [`SqlService`], so tests and in-process users can do without a socket.
use std::{fmt, sync::Arc};

use ancho_common::error::{Error, ErrorKind, Result};
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use bytes::Bytes;
use datafusion::execution::SendableRecordBatchStream;
use futures::future::{BoxFuture, ready};
use serde::Serialize;

use super::caller::Caller;

/// Whether a statement yields rows or changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatementKind {
    /// Yields rows: `SELECT`, `SHOW`, `DESCRIBE`, `EXPLAIN`, `VALUES`.
    Query,
    /// Changes something and yields a count of rows: DML, DDL, `COPY`, `SET`.
    Update,
}

/// What planning a statement tells without running it.
#[derive(Debug, Clone)]
pub struct PreparedStatement {
    /// Columns of the result. Any Arrow type may occur here: the front end turns them into the edge's types. Ignored for updates.
    pub schema: SchemaRef,
    /// One field per parameter in the order of position (`$1` first, `$10` after `$9`), of the type that the planner
    /// gave it; of type `Null` if it gave none, which clients see as text.
    pub parameters: SchemaRef,
    /// Query or update.
    pub kind: StatementKind,
}

/// A running query. Dropping it cancels the query on every node.
pub struct QueryStream {
    /// Columns as the logical plan announces them, equal to what [`SqlService::prepare`] said for the same statement
    /// and parameters. It governs; the stream's own schema may differ in nullability and metadata.
    pub schema: SchemaRef,
    /// The rows.
    pub stream: SendableRecordBatchStream,
}

/// `TABLE` or `VIEW`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableType {
    /// Stored rows.
    Table,
    /// Computed when read, including `information_schema`.
    View,
}

impl TableType {
    /// The name clients filter by.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Table => "TABLE",
            Self::View => "VIEW",
        }
    }
}

/// One table or view as clients may see it.
#[derive(Debug, Clone)]
pub struct TableInfo {
    /// Catalog, such as `ancho`.
    pub catalog: String,
    /// Schema, such as `public`.
    pub schema: String,
    /// Name without quotes.
    pub name: String,
    /// Stored or computed.
    pub table_type: TableType,
    /// Columns in order.
    pub columns: SchemaRef,
    /// Columns of the primary key in key order; empty if there is none.
    pub primary_key: Vec<String>,
}

/// Everything clients may list.
#[derive(Debug, Clone, Default)]
pub struct CatalogListing {
    /// (catalog, schema) pairs, also those that hold no table.
    pub schemas: Vec<(String, String)>,
    /// Tables and views, in any order.
    pub tables: Vec<TableInfo>,
}

/// Whether this node can serve statements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Readiness {
    /// Send traffic here.
    pub ready: bool,
    /// What is missing, to read; empty when ready.
    pub reasons: Vec<String>,
}

/// What becomes of sent rows whose table is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhereMissing {
    /// It is made for them.
    Create,
    /// They are refused.
    Fail,
}

/// What becomes of sent rows whose table is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhereThere {
    /// They are added.
    Append,
    /// They and their columns take its place.
    Replace,
    /// They are refused.
    Fail,
}

/// Rows that a client sends for a table.
pub struct Ingest {
    /// Catalog, if named.
    pub catalog: Option<String>,
    /// Schema, if named.
    pub schema: Option<String>,
    /// Table, as written.
    pub table: String,
    /// If there is none.
    pub missing: WhereMissing,
    /// If there is one.
    pub there: WhereThere,
    /// The rows, as they come.
    pub rows: SendableRecordBatchStream,
}

impl fmt::Display for Ingest {
    /// What is asked for; the rows themselves are not here yet.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { catalog, schema, table, missing, there, rows } = self;
        write!(f, "rows for {catalog:?}.{schema:?}.{table:?} ({there:?}, {missing:?})")?;
        rows.schema().fields().iter().try_for_each(|field| write!(f, ", {:?} {}", field.name(), field.data_type()))
    }
}

/// The SQL side of a scheduler.
///
/// Placeholders arrive as `$1`, `$2`, …: the front end numbers `?` before it calls. A binding is a batch whose i-th
/// column is parameter `$i`, whatever the column is called. It has the type that [`PreparedStatement::parameters`]
/// names: always for an update, and for a query unless the value cannot be had in it (1.5 as an integer).
///
/// The futures are boxed by plain functions, and implementations box inherent `async fn`s of theirs. Written with `async_trait` each
/// of them would have the compiler prove anew, under bounds of its own, that plans and syntax trees are `Send`: seconds per function.
pub trait SqlService: Send + Sync + 'static {
    /// Parses and plans without effect: preparing an `INSERT` inserts nothing, preparing a `CREATE TABLE` creates nothing.
    ///
    /// `parameters`, if given, is one row of values; the plan is then the one that [`SqlService::query`] would run
    /// for them, so that an expression over parameters gets the type of the bound value.
    ///
    /// # Errors
    /// The statement is wrong, names something unknown, or does not fit the parameters.
    fn prepare<'a>(
        &'a self,
        sql: &'a str,
        parameters: Option<&'a RecordBatch>,
    ) -> BoxFuture<'a, Result<PreparedStatement>>;

    /// Runs a query. `parameters` is exactly one row if given.
    ///
    /// # Errors
    /// As [`SqlService::prepare`], and whatever fails before the first row; `Invalid` for an update. Later failures end
    /// the stream.
    fn query<'a>(&'a self, sql: &'a str, parameters: Option<RecordBatch>) -> BoxFuture<'a, Result<QueryStream>>;

    /// Runs an update and says how many rows it changed (0 for DDL). `parameters` is exactly one row if given.
    ///
    /// The front ends never drop the future. An update whose caller has gone ends without effect if it is not committed
    /// yet, and otherwise goes on to its end.
    ///
    /// # Errors
    /// As [`SqlService::prepare`], and whatever keeps the update from being applied. `Invalid` for a query.
    fn update<'a>(
        &'a self,
        sql: &'a str,
        parameters: Option<RecordBatch>,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<i64>>;

    /// Runs an update once per row of `parameters` and says how many rows they changed together.
    ///
    /// By default the rows are separate updates in order: when row i fails, the rows before it stay applied and the
    /// error says so. A service that can apply all of them at once overrides this.
    ///
    /// # Errors
    /// As [`SqlService::update`].
    fn update_many<'a>(
        &'a self,
        sql: &'a str,
        parameters: RecordBatch,
        caller: &'a Caller,
    ) -> BoxFuture<'a, Result<i64>> {
        Box::pin(async move {
            let rows = parameters.num_rows();
            let mut total = 0;
            for row in 0..rows {
                total += self
                    .update(sql, Some(parameters.slice(row, 1)), &caller.with_part(row))
                    .await
                    .map_err(|error| if rows == 1 { error } else { partly_applied(error, row, rows) })?;
            }
            Ok(total)
        })
    }

    /// Writes rows that a client sends, all of them or none, and says how many they were.
    ///
    /// # Errors
    /// As [`SqlService::update`]; those of the rows' stream.
    fn ingest<'a>(&'a self, ingest: Ingest, _: &'a Caller) -> BoxFuture<'a, Result<i64>> {
        let error = Error::unsupported(format!("table {}: bulk ingestion is not supported here", ingest.table));
        Box::pin(ready(Err(error)))
    }

    /// Begins a transaction; its id. Statements of it go to [`SqlService::within`].
    ///
    /// # Errors
    /// `Exhausted` when too many are open, `Unavailable` when no majority of schedulers is reached.
    fn begin(&self) -> BoxFuture<'_, Result<String>> {
        Box::pin(ready(Err(no_transactions())))
    }

    /// Applies all that a transaction did, or nothing of it; either way it is over.
    ///
    /// The front ends never drop the future.
    ///
    /// # Errors
    /// `Conflict` when another write came first or the transaction is not open; that of a statement that failed before; `Unknown`
    /// when nobody knows whether it was applied.
    fn commit<'a>(&'a self, _transaction: &'a str, _: &'a Caller) -> BoxFuture<'a, Result<()>> {
        Box::pin(ready(Err(no_transactions())))
    }

    /// Ends a transaction without effect. Fine if it is over.
    ///
    /// # Errors
    /// There are no transactions here.
    fn roll_back<'a>(&'a self, _transaction: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(ready(Err(no_transactions())))
    }

    /// The service as a transaction sees it. The first statement that fails there ends it.
    ///
    /// # Errors
    /// `Conflict` when it is not open at this scheduler.
    fn within(&self, _transaction: &str) -> Result<SharedService> {
        Err(no_transactions())
    }

    /// Catalogs, schemas and tables.
    ///
    /// # Errors
    /// The catalog cannot be read now.
    fn catalog(&self) -> Result<CatalogListing>;

    /// A management action: `ancho.apply` (YAML in, JSON out), `ancho.cluster_status` (nothing in, JSON out), or
    /// one that takes a JSON object and answers with one: `ancho.snapshots` (`table`, and `create`, `pin`, `unpin` or `restore`), `ancho.verify`,
    /// `ancho.drain`, `ancho.undrain`, `ancho.remove_executor`, `ancho.rebalance`, `ancho.recover`.
    ///
    /// # Errors
    /// The action is unknown (`NotFound`), its body is wrong, or it failed.
    fn action<'a>(&'a self, name: &'a str, body: Bytes) -> BoxFuture<'a, Result<Bytes>>;

    /// Whether this node can serve statements now.
    fn ready(&self) -> Readiness;
}

fn no_transactions() -> Error {
    Error::unsupported("transactions are not offered here")
}

/// The error of row `row` of `rows`. Once a row is applied, sending all of them again would apply it twice: such an
/// error is not a retryable one, whatever the row's own was.
fn partly_applied(mut error: Error, row: usize, rows: usize) -> Error {
    if row > 0 && error.kind.retryable() {
        error.kind = ErrorKind::Unknown;
    }
    error.context(&format!("parameter row {} of {rows} (the {row} before it are applied, the rest is not)", row + 1))
}

/// A service shared by the front ends.
pub type SharedService = Arc<dyn SqlService>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_applied_is_never_offered_for_retry() {
        let conflict = Error::conflict("table t: another write came first");
        assert!(partly_applied(conflict.clone(), 0, 3).kind.retryable());
        let later = partly_applied(conflict, 1, 3);
        assert!(!later.kind.retryable());
        assert!(later.message.starts_with("parameter row 2 of 3 (the 1 before it are applied"), "{later}");
        assert_eq!(partly_applied(Error::invalid("x"), 2, 3).kind, ErrorKind::Invalid);
    }
}

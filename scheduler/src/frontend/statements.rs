//! Statements as both front ends run them: placeholders numbered, parameters bound row by row, rows in edge types.
use std::sync::Arc;

use ancho_common::error::{Error, ErrorKind, Result};
use arrow::{
    array::{Int64Array, RecordBatch, RecordBatchOptions, new_null_array},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};

use super::{
    binding::{announced_parameters, fit_parameters},
    caller::{Caller, RequestId},
    edge::{announced_schema, edge_stream},
    handle::StatementHandle,
    placeholders::number_placeholders,
    script::Script,
    service::{Ingest, QueryStream, SharedService, StatementKind},
    split::encoded_bytes,
};

/// Rows on their way to a client, all of exactly `schema`.
pub struct EdgeRows {
    /// What was announced.
    pub schema: SchemaRef,
    /// The rows, in slices of bounded size. Dropping it cancels the query.
    pub rows: BoxStream<'static, Result<RecordBatch>>,
}

/// A prepared statement as a client gets it.
pub struct Prepared {
    /// To run it by.
    pub handle: StatementHandle,
    /// Columns of the result in edge types; none for an update.
    pub schema: SchemaRef,
    /// One field per parameter, in edge types.
    pub parameters: SchemaRef,
}

/// The service seen through the rules that hold for every front end.
#[derive(Clone)]
pub struct Statements {
    service: SharedService,
    /// Aim for the encoded size of one slice of rows.
    slice_bytes: usize,
}

impl Statements {
    /// Runs statements on `service`, rows in slices of about `slice_bytes`.
    pub fn new(service: SharedService, slice_bytes: usize) -> Self {
        Self { service, slice_bytes }
    }

    /// The service itself, for what is no statement.
    #[must_use]
    pub fn service(&self) -> &SharedService {
        &self.service
    }

    /// The service that runs the statements of a transaction, or those of none.
    fn service_in(&self, transaction: Option<&str>) -> Result<SharedService> {
        transaction.map_or_else(|| Ok(Arc::clone(&self.service)), |id| self.service.within(id))
    }

    /// Plans a statement without effect.
    ///
    /// # Errors
    /// As [`SqlService::prepare`](super::service::SqlService::prepare).
    pub async fn prepare(&self, sql: &str, transaction: Option<String>) -> Result<Prepared> {
        let sql = number_placeholders(sql)?.into_owned();
        let prepared = self.service_in(transaction.as_deref())?.prepare(&sql, None).await?;
        let schema = match prepared.kind {
            StatementKind::Query => announced_schema(&prepared.schema, !prepared.parameters.fields().is_empty()),
            // Drivers tell updates from queries by the absence of result columns.
            StatementKind::Update => Arc::new(Schema::empty()),
        };
        let plain = StatementHandle::plain(sql, prepared.kind);
        let handle = StatementHandle { wanted: prepared.parameters, transaction, ..plain };
        Ok(Prepared { schema, parameters: announced_parameters(&handle.wanted), handle })
    }

    /// Binds rows of parameters, replacing those bound before. A batch without columns binds nothing: drivers send
    /// one along with statements that have no parameters.
    ///
    /// # Errors
    /// The batch has another number of columns than the statement has parameters, or a value does not fit the column
    /// that an update puts it in.
    pub fn bind(mut handle: StatementHandle, parameters: &RecordBatch) -> Result<StatementHandle> {
        if parameters.num_columns() > 0 {
            handle.parameters = Some(fit_parameters(parameters, &handle.wanted, handle.kind)?);
        }
        Ok(handle)
    }

    /// The schema of the rows that [`Statements::run`] yields for the handle, found without running it.
    ///
    /// # Errors
    /// As [`SqlService::prepare`](super::service::SqlService::prepare).
    pub async fn announced(&self, handle: &StatementHandle) -> Result<SchemaRef> {
        if handle.kind == StatementKind::Update {
            return Ok(count_schema());
        }
        let row = handle.parameters.as_ref().map(planning_row);
        let service = self.service_in(handle.transaction.as_deref())?;
        let planned = match service.prepare(&handle.sql, row.as_ref()).await {
            // NULLs stand in for the values of a binding without rows; where NULL is not allowed (LIMIT), plan without.
            Err(_) if handle.parameters.as_ref().is_some_and(|p| p.num_rows() == 0) => {
                service.prepare(&handle.sql, None).await?
            }
            planned => planned?,
        };
        Ok(announced_schema(&planned.schema, !handle.wanted.fields().is_empty()))
    }

    /// Runs a statement and yields its rows.
    ///
    /// A query with N bound rows runs N times, one after the other, and yields the results in that order; with none it
    /// yields no row. An update is applied and yields one row with the count of changed rows.
    ///
    /// # Errors
    /// Whatever fails before the first row.
    pub async fn run(&self, handle: StatementHandle) -> Result<EdgeRows> {
        if handle.kind == StatementKind::Update {
            return self.run_update(handle).await;
        }
        let has_parameters = !handle.wanted.fields().is_empty();
        let service = self.service_in(handle.transaction.as_deref())?;
        let Some(parameters) = handle.parameters.clone() else {
            let query = service.query(&handle.sql, None).await?;
            return Ok(self.edge_rows(query, has_parameters));
        };
        if parameters.num_rows() == 0 {
            return Ok(EdgeRows { schema: self.announced(&handle).await?, rows: stream::empty().boxed() });
        }
        let first = service.query(&handle.sql, Some(parameters.slice(0, 1))).await?;
        let first = self.edge_rows(first, has_parameters);
        let schema = Arc::clone(&first.schema);
        if parameters.num_rows() == 1 {
            return Ok(first);
        }
        let (this, announced) = (self.clone(), Arc::clone(&schema));
        let rest = stream::iter(1..parameters.num_rows()).then(move |row| {
            let (this, sql, schema) = (this.clone(), handle.sql.clone(), Arc::clone(&announced));
            let service = Arc::clone(&service);
            let parameters = parameters.slice(row, 1);
            async move {
                let query = service.query(&sql, Some(parameters)).await?;
                Ok::<_, Error>(edge_stream(query, schema, this.slice_bytes))
            }
        });
        Ok(EdgeRows { schema, rows: first.rows.chain(rest.try_flatten()).boxed() })
    }

    /// Applies an update and says how many rows it changed: with N bound rows their sum, with no row nothing happens.
    ///
    /// It runs in a task of its own: a client that goes away never leaves it half done, but what is not committed yet is
    /// given up. A handle that says that the update was applied already applies nothing.
    ///
    /// # Errors
    /// As [`SqlService::update`](super::service::SqlService::update).
    pub async fn update(&self, handle: StatementHandle, request: RequestId) -> Result<i64> {
        if let Some(changed) = handle.changed {
            return Ok(changed);
        }
        let service = self.service_in(handle.transaction.as_deref())?;
        let (caller, _here) = Caller::while_held(request);
        let update = async move {
            match handle.parameters {
                None => service.update(&handle.sql, None, &caller).await,
                Some(parameters) if parameters.num_rows() == 0 => Ok(0),
                Some(parameters) => service.update_many(&handle.sql, parameters, &caller).await,
            }
        };
        tokio::spawn(update).await.map_err(|e| Error::internal(format!("the update ended abnormally: {e}")))?
    }

    /// Writes rows that a client sends, in a task of its own like an update.
    ///
    /// # Errors
    /// As [`SqlService::ingest`](super::service::SqlService::ingest).
    pub async fn ingest(&self, ingest: Ingest, transaction: Option<String>, request: RequestId) -> Result<i64> {
        let service = self.service_in(transaction.as_deref())?;
        let (caller, _here) = Caller::while_held(request);
        let work = async move { service.ingest(ingest, &caller).await };
        tokio::spawn(work).await.map_err(|e| Error::internal(format!("taking in rows ended abnormally: {e}")))?
    }

    /// Applies the update that a text says, without parameters.
    ///
    /// # Errors
    /// As [`Statements::update`].
    pub async fn update_text(&self, sql: &str, transaction: Option<String>, request: RequestId) -> Result<i64> {
        let sql = number_placeholders(sql)?.into_owned();
        let plain = StatementHandle::plain(sql, StatementKind::Update);
        self.update(StatementHandle { transaction, ..plain }, request).await
    }

    /// Applies a transaction, in a task of its own: once it has begun it goes on whether or not the client is there.
    ///
    /// # Errors
    /// As [`SqlService::commit`](super::service::SqlService::commit).
    pub async fn commit(&self, transaction: String, request: RequestId) -> Result<()> {
        let service = Arc::clone(&self.service);
        let (caller, here) = Caller::while_held(request);
        let commit = async move {
            let _here = here;
            service.commit(&transaction, &caller).await
        };
        tokio::spawn(commit).await.map_err(|e| Error::internal(format!("the commit ended abnormally: {e}")))?
    }

    /// Ends a transaction without effect.
    ///
    /// # Errors
    /// As [`SqlService::roll_back`](super::service::SqlService::roll_back).
    pub async fn roll_back(&self, transaction: String) -> Result<()> {
        let service = Arc::clone(&self.service);
        let work = async move { service.roll_back(&transaction).await };
        tokio::spawn(work).await.map_err(|e| Error::internal(format!("the rollback ended abnormally: {e}")))?
    }

    /// Runs a whole transaction and gives the result of its last statement. If the client goes away before the commit, it is
    /// rolled back.
    ///
    /// # Errors
    /// That of the first statement that fails; as [`commit`](Self::commit). Nothing was applied then, unless nobody
    /// knows.
    pub async fn run_script(&self, script: &Script, request: RequestId) -> Result<ScriptResult> {
        let id = self.service.begin().await?;
        let _open = OpenScript { statements: self.clone(), transaction: id.clone() };
        let mut result = ScriptResult::Changed(0);
        for sql in &script.statements {
            let prepared = self.prepare(sql, Some(id.clone())).await?;
            if !prepared.handle.wanted.fields().is_empty() {
                return Err(Error::invalid("statements of a transaction in one request cannot have parameters"));
            }
            result = match prepared.handle.kind {
                StatementKind::Update => {
                    ScriptResult::Changed(self.update(prepared.handle, RequestId::default()).await?)
                }
                StatementKind::Query => collected(self.run(prepared.handle).await?).await?,
            };
        }
        if script.commits {
            self.commit(id, request).await?;
        } else {
            self.roll_back(id).await?;
        }
        Ok(result)
    }

    async fn run_update(&self, handle: StatementHandle) -> Result<EdgeRows> {
        let count = self.update(handle, RequestId::default()).await?;
        let schema = count_schema();
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![count]))])
            .map_err(|e| Error::internal(format!("count does not fit its schema: {e}")))?;
        Ok(EdgeRows { schema, rows: stream::iter([Ok(batch)]).boxed() })
    }

    fn edge_rows(&self, query: QueryStream, has_parameters: bool) -> EdgeRows {
        let schema = announced_schema(&query.schema, has_parameters);
        let rows = edge_stream(query, Arc::clone(&schema), self.slice_bytes).boxed();
        EdgeRows { schema, rows }
    }
}

/// Largest result of a statement of a script: it is held back until the commit.
const MAX_SCRIPT_RESULT: usize = 64 << 20;

/// What the last statement of a script gave.
pub enum ScriptResult {
    /// So many rows were changed.
    Changed(i64),
    /// Rows.
    Rows(EdgeRows),
}

/// Rolls the transaction of a script back when it is left early. Once it has ended, that does nothing.
struct OpenScript {
    statements: Statements,
    transaction: String,
}

impl Drop for OpenScript {
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (statements, transaction) = (self.statements.clone(), std::mem::take(&mut self.transaction));
            runtime.spawn(async move { statements.roll_back(transaction).await });
        }
    }
}

/// All rows, if they are not too many.
async fn collected(mut rows: EdgeRows) -> Result<ScriptResult> {
    let mut batches = Vec::new();
    let mut bytes = 0;
    while let Some(batch) = rows.rows.next().await.transpose()? {
        bytes += encoded_bytes(&batch);
        if bytes > MAX_SCRIPT_RESULT {
            return Err(Error::new(
                ErrorKind::Exhausted,
                format!(
                    "a statement of the transaction gives more than {MAX_SCRIPT_RESULT} bytes of rows; query them outside \
                     of it, or use the transactions of Flight SQL"
                ),
            ));
        }
        batches.push(Ok(batch));
    }
    Ok(ScriptResult::Rows(EdgeRows { schema: rows.schema, rows: stream::iter(batches).boxed() }))
}

/// What an update yields when it is run like a query.
fn count_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("count", DataType::Int64, false)]))
}

/// The row of a binding to plan with: the first, or NULLs of the same types if there is none.
fn planning_row(parameters: &RecordBatch) -> RecordBatch {
    if parameters.num_rows() > 0 {
        return parameters.slice(0, 1);
    }
    let fields: Vec<Field> =
        parameters.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let columns = fields.iter().map(|f| new_null_array(f.data_type(), 1)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    // The columns are made from the fields, so they fit; the empty binding is as good a row to plan with.
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .unwrap_or_else(|_| parameters.clone())
}

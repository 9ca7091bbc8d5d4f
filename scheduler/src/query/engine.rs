//! The service behind the front ends.
use std::{path::PathBuf, sync::Arc, time::Duration};

use ancho_common::{
    error::{Error, Result},
    plan::{changes::WriteForm, channels::Channels},
};
use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use bytes::Bytes;
use datafusion::{
    execution::SendableRecordBatchStream,
    logical_expr::{LogicalPlan, WriteOp, dml::InsertOp},
    physical_plan::stream::RecordBatchStreamAdapter,
    prelude::SessionContext,
    sql::parser::Statement as DfStatement,
};
use futures::{StreamExt, stream};

use super::{
    apply::Applier,
    assigner::propose,
    attempt::{Attempt, bind},
    change::{self, Change, with_typed_parameters},
    ddl, explain, explained,
    load::{Begun, TableLoad, given_up},
    members, optimize,
    recent::{Planned, RecentPlans},
    retry::{surface, until_alone, until_served},
    snapshots,
    statement::{Statement, of_query},
    status,
    transaction::{InTransaction, Transaction, Transactions},
    verify,
    write::{WriteKind, Writer, asked_by},
};
use crate::{
    frontend::{
        caller::Caller,
        service::{
            CatalogListing, Ingest, PreparedStatement, QueryStream, Readiness, SharedService, StatementKind, TableInfo,
            TableType,
        },
    },
    planner::{
        catalog::{CATALOG, DEFAULT_SCHEMA, INFORMATION_SCHEMA, SYSTEM_SCHEMA, information_schema},
        refusal::PlanResult,
        session::{PlanOptions, Sessions},
        system,
        table::{awaited, still_loading},
    },
    raft::RaftNode,
    snapshots::Publisher,
    state::{ClusterState, Command, NewTable, Table, TableName},
};

/// Runs statements on one scheduler.
#[derive(Debug, Clone)]
pub struct QueryEngine {
    node: RaftNode,
    sessions: Sessions,
    writer: Writer,
    publisher: Publisher,
    recent: RecentPlans,
    patience: Patience,
    transactions: Transactions,
    /// The transaction whose statements it runs; otherwise each commits by itself.
    within: Option<Arc<Transaction>>,
    /// Folders with local files that statements may read and write.
    local_files: Arc<[PathBuf]>,
}

/// How long statements wait, and how often they say that they go on.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Longest wait for a partition without a serving owner.
    pub partition_wait: Duration,
    /// Time between two renewals of a load: a small part of the time after which the leader gives one up.
    pub load_renewal: Duration,
    /// Longest time without a statement of an open transaction.
    pub transaction_idle: Duration,
}

impl QueryEngine {
    /// Over this scheduler's part of the group.
    #[must_use]
    pub fn new(
        node: RaftNode,
        sessions: Sessions,
        channels: Channels,
        patience: Patience,
        local_files: Arc<[PathBuf]>,
    ) -> Self {
        let publisher = Publisher::new(node.clone(), channels.clone(), patience.partition_wait);
        let writer = Writer::new(node.clone(), channels);
        let transactions = Transactions::new(writer.clone(), patience.transaction_idle);
        let recent = RecentPlans::default();
        Self { node, sessions, writer, publisher, recent, patience, transactions, within: None, local_files }
    }

    /// The same, inside a transaction.
    fn inside(&self, transaction: &Arc<Transaction>) -> Self {
        Self { within: Some(Arc::clone(transaction)), recent: RecentPlans::default(), ..self.clone() }
    }

    /// What statements read, the newest state being this.
    fn seen(&self, newest: Arc<ClusterState>) -> Arc<ClusterState> {
        self.within.as_ref().map_or_else(|| Arc::clone(&newest), |transaction| transaction.sees(&newest))
    }

    fn attempt(&self, state: &Arc<ClusterState>, options: PlanOptions) -> Result<Attempt> {
        let staged = self.within.as_ref().map(|transaction| transaction.staged()).unwrap_or_default();
        let (session, running) = self.sessions.open_within(state, options, staged)?;
        Ok(Attempt::new(session, running))
    }

    /// Runs what takes effect at once. Inside a transaction that is fine as long as this has changed nothing; it reads the newest
    /// state afterwards.
    pub(super) async fn at_once<T, F, Fut>(&self, what: &str, work: F) -> Result<T>
    where
        F: FnOnce(Self) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let Some(transaction) = &self.within else { return work(self.clone()).await };
        transaction.check_unchanged(what)?;
        let outcome = work(Self { within: None, ..self.clone() }).await;
        transaction.renew();
        outcome
    }

    /// Writes rows as a statement's own write or as a part of the transaction; how many rows of the table it concerned.
    pub(super) async fn write_rows(
        &self,
        attempt: &Attempt,
        (state, table): (&ClusterState, &Table),
        input: LogicalPlan,
        kind: WriteKind<'_>,
        caller: &Caller,
    ) -> PlanResult<u64> {
        let Some(transaction) = &self.within else {
            return self.writer.write(attempt, state, table, input, kind, caller).await;
        };
        let staged = transaction.staged();
        let write = self.writer.write_within(attempt, (state, table), input, kind, caller, &staged).await?;
        Ok(write.map_or(0, |write| transaction.staged_more(write)))
    }

    /// Runs `work` on the newest state until it does not fail for a reason that passes.
    pub(crate) async fn attempts<T, F, Fut>(&self, work: F) -> Result<T>
    where
        F: Fn(Arc<ClusterState>, Attempt) -> Fut,
        Fut: Future<Output = PlanResult<T>>,
    {
        until_served(&self.node, self.patience.partition_wait, |state, options| {
            let state = self.seen(state);
            let attempt = self.attempt(&state, options);
            let work = &work;
            // Boxed, here and at the entries: the nested futures of a statement are too deep for the compiler otherwise.
            async move { Box::pin(work(state, attempt?)).await }
        })
        .await
    }

    /// As [`attempts`](Self::attempts), for work that other writes may come between: then it starts again.
    pub(super) async fn write_attempts<T, F, Fut>(&self, work: F) -> Result<T>
    where
        F: Fn(Arc<ClusterState>, Attempt) -> Fut,
        Fut: Future<Output = PlanResult<T>>,
    {
        match self.within {
            None => until_alone(self.patience.partition_wait, || self.attempts(&work)).await,
            // Its snapshot stays the same, so the same would come of it.
            Some(_) => self.attempts(&work).await,
        }
    }

    /// The replicated state behind this engine.
    pub(crate) fn node(&self) -> &RaftNode {
        &self.node
    }

    /// Folders with local files that statements may read and write.
    pub(super) fn local_files(&self) -> &[PathBuf] {
        &self.local_files
    }

    /// What statements read now.
    pub(super) async fn state(&self) -> Result<Arc<ClusterState>> {
        Ok(self.seen(self.node.linearizable().await?))
    }

    /// The transaction that statements are part of.
    pub(super) fn transaction(&self) -> Option<&Arc<Transaction>> {
        self.within.as_ref()
    }

    /// Creates a table and begins its load.
    pub(crate) async fn begin_load(&self, table: NewTable) -> Result<TableLoad> {
        match TableLoad::begin(&self.node, table, self.patience.load_renewal).await? {
            Begun::Load(load) => Ok(load),
            Begun::Exists(_) => Err(Error::internal("a table that was to be made anew was kept")),
        }
    }

    /// How often a load is renewed.
    pub(crate) fn load_renewal(&self) -> Duration {
        self.patience.load_renewal
    }

    /// What makes snapshots of tables.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// `announced` is the plan that the client was told the columns of, if it is at hand.
    async fn rows(
        &self,
        statement: &DfStatement,
        parameters: Option<&RecordBatch>,
        announced: Option<Planned>,
    ) -> Result<QueryStream> {
        let announced = announced.as_ref();
        self.attempts(|state, attempt| async move {
            let announced = announced.filter(|planned| planned.holds_on(&state));
            let plan = match announced {
                Some(planned) => planned.plan.clone(),
                None => attempt.logical(statement.clone(), parameters).await?,
            };
            if let Some(batch) = local_answer(&attempt, &plan).await? {
                return Ok(single(batch));
            }
            let schema = match announced {
                Some(planned) => Arc::clone(&planned.schema),
                None => attempt.announced(&plan)?,
            };
            let stream = match attempt.stream(plan).await {
                Ok(stream) => started(stream).await,
                Err(error) => Err(error),
            };
            match stream {
                Ok(stream) => Ok(QueryStream { schema, stream }),
                Err(error) => Err(attempt.blame(error).await),
            }
        })
        .await
    }

    async fn insert(&self, statement: &DfStatement, parameters: Option<&RecordBatch>, caller: &Caller) -> Result<u64> {
        self.write_attempts(|state, attempt| async move {
            let (table, input, kind) = inserted(&state, attempt.logical(statement.clone(), parameters).await?)?;
            self.write_rows(&attempt, (&state, &table), input, kind, caller).await
        })
        .await
    }

    async fn change(&self, change: &Change, parameters: Option<&RecordBatch>, caller: &Caller) -> Result<u64> {
        self.write_attempts(|state, attempt| async move {
            let table = existing(&state, &change.table()?)?;
            let planned = match change.plan(&table)? {
                // Others may add rows meanwhile, and those stay.
                change::Planned::Clear if self.within.is_some() => {
                    change::Planned::Changes(WriteForm::Deletes, change::every_row(&table)?)
                }
                planned => planned,
            };
            match planned {
                change::Planned::Clear => Ok(self.writer.clear(&state, &table, caller).await?),
                change::Planned::Changes(form, query) => {
                    let plan = attempt.logical(of_query(query)?, parameters).await?;
                    self.write_rows(&attempt, (&state, &table), plan, WriteKind::Change(form), caller).await
                }
            }
        })
        .await
    }

    async fn create(
        &self,
        create: &datafusion::logical_expr::sqlparser::ast::CreateTable,
        parameters: Option<&RecordBatch>,
        caller: &Caller,
    ) -> Result<u64> {
        let state = self.node.linearizable().await?;
        let attempt = self.attempt(&state, PlanOptions::default())?;
        let request = ddl::create_request(attempt.session(), create.clone(), parameters).await?;
        if request.query.is_none() {
            return self.define(Command::CreateTable(Box::new(request.table)), caller).await;
        }
        let load = match TableLoad::begin(&self.node, request.table, self.patience.load_renewal).await? {
            Begun::Load(load) => load,
            Begun::Exists(id) => {
                // What exists may be the rest of an earlier statement that was broken off.
                let state = self.node.state();
                let existing = state.tables.get(&id).ok_or_else(|| given_up(id))?;
                if existing.load.is_some() {
                    return Err(still_loading(existing));
                }
                return self.writer.nothing(existing, caller).await;
            }
        };
        let id = load.id();
        let filled = self.attempts(|state, attempt| async move {
            // Planned again: what the query reads may have changed or moved since.
            let request = ddl::create_request(attempt.session(), create.clone(), parameters).await?;
            let query = request.query.ok_or_else(|| Error::internal("the query of a table went away"))?;
            let table = state.tables.get(&id).ok_or_else(|| given_up(id))?;
            self.writer.write(&attempt, &state, table, query, WriteKind::Fill, caller).await
        });
        load.run(filled).await
    }

    /// Makes, drops or alters a table, once if the client named its request.
    ///
    /// # Errors
    /// Those of the command, and of the log.
    pub(crate) async fn define(&self, command: Command, caller: &Caller) -> Result<u64> {
        let command = match caller.may_repeat() {
            true => Command::Named { request: asked_by(caller, 0), command: Box::new(command) },
            false => command,
        };
        propose(&self.node, command).await.map(|_| 0)
    }

    async fn changed(&self, sql: &str, parameters: Option<&RecordBatch>, caller: &Caller) -> Result<u64> {
        let statement = Statement::parse(sql)?;
        // Inside a transaction the id is that of the commit.
        let unnamed = self.within.is_some().then(|| caller.unnamed());
        let caller = unnamed.as_ref().unwrap_or(caller);
        // Of several tables some may have been dropped; the log knows which.
        let one_step = !matches!(statement, Statement::DropTable { .. });
        if caller.may_repeat()
            && let state = self.node.linearizable().await?
            && let Some(written) = state.written.repeated(caller.request(), caller.statement())?
            && one_step
        {
            return Ok(written.rows);
        }
        match statement {
            Statement::Insert(statement) => self.insert(&statement, parameters, caller).await,
            Statement::CreateTable(create) => {
                let create = async |engine: Self| engine.create(&create, parameters, caller).await;
                self.at_once("CREATE TABLE", create).await
            }
            Statement::Change(change) => self.change(&change, parameters, caller).await,
            Statement::Copy(copy) => self.copy(&copy, parameters, caller).await,
            Statement::Optimize { name } => {
                let name = &ddl::object_name(&name)?;
                let rewrite = async |engine: Self| {
                    let writer = &engine.writer;
                    let optimized = engine.attempts(|state, _| async move {
                        let table = existing(&state, name)?;
                        Ok(optimize::optimize(writer, &state, &table).await?)
                    });
                    optimized.await.map(|()| 0)
                };
                self.at_once("OPTIMIZE TABLE", rewrite).await
            }
            Statement::DropTable { names, if_exists } => {
                let names = names.iter().map(ddl::object_name).collect::<Result<Vec<_>>>()?;
                let drop = async |engine: Self| {
                    for (number, name) in names.into_iter().enumerate() {
                        engine.define(Command::DropTable { name, if_exists }, &caller.with_part(number)).await?;
                    }
                    Ok(0)
                };
                self.at_once("DROP TABLE", drop).await
            }
            Statement::Snapshot(statement) => {
                let run = async |engine: Self| statement.run(&engine, caller).await;
                self.at_once(statement.name(), run).await
            }
            Statement::AlterTable(alter) => {
                let change = async |engine: Self| alter.run(&engine, caller).await;
                self.at_once("ALTER TABLE", change).await
            }
            Statement::Query(_) | Statement::Explain { .. } => {
                Err(Error::invalid("this statement yields rows; run it as a query"))
            }
        }
    }
}

/// What an `INSERT` writes: the table, the rows, and how.
///
/// # Errors
/// `NotFound`; `Unsupported` for other forms than `INTO` and `OVERWRITE`.
pub(super) fn inserted(
    state: &ClusterState,
    plan: LogicalPlan,
) -> Result<(Arc<Table>, LogicalPlan, WriteKind<'static>)> {
    let LogicalPlan::Dml(dml) = plan else {
        return Err(Error::internal("an INSERT was planned as something else"));
    };
    let kind = match dml.op {
        WriteOp::Insert(InsertOp::Append) => WriteKind::Append,
        WriteOp::Insert(InsertOp::Overwrite) => WriteKind::Overwrite,
        _ => return Err(Error::unsupported("this form of INSERT is not offered")),
    };
    let table = existing(state, &ddl::table_name(&dml.table_name)?)?;
    Ok((table, dml.input.as_ref().clone(), kind))
}

/// The table of this name.
///
/// # Errors
/// `NotFound`; `Unavailable` for a dataset that waits for what it mirrors.
pub(crate) fn existing(state: &ClusterState, name: &TableName) -> Result<Arc<Table>> {
    state.table(name).cloned().ok_or_else(|| match state.awaited(name) {
        Some(dataset) => awaited(name, dataset),
        None => Error::not_found(format!("table {name} does not exist")),
    })
}

/// Statements that the library answers without a physical plan.
async fn local_answer(attempt: &Attempt, plan: &LogicalPlan) -> Result<Option<RecordBatch>> {
    if !matches!(plan, LogicalPlan::DescribeTable(_) | LogicalPlan::Statement(_)) {
        return Ok(None);
    }
    let context = SessionContext::new_with_state(attempt.session().clone());
    let frame = context.execute_logical_plan(plan.clone()).await?;
    let schema = Arc::new(frame.schema().as_arrow().clone());
    let batches = frame.collect().await?;
    let batch = arrow::compute::concat_batches(&schema, &batches).map_err(|e| Error::internal(e.to_string()))?;
    Ok(Some(batch))
}

pub(super) fn single(batch: RecordBatch) -> QueryStream {
    let schema = batch.schema();
    let rows = stream::once(async move { Ok(batch) });
    QueryStream { schema: Arc::clone(&schema), stream: Box::pin(RecordBatchStreamAdapter::new(schema, rows)) }
}

/// Waits for the first batch: until it is here, a failed query can be planned again.
async fn started(mut rows: SendableRecordBatchStream) -> PlanResult<SendableRecordBatchStream> {
    let schema = rows.schema();
    let first = rows.next().await.transpose()?;
    let rest = rows.map(|batch| batch.map_err(|error| surface(Error::from(error)).into()));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(first.map(Ok)).chain(rest))))
}

fn parameter_schema(plan: &LogicalPlan) -> Result<SchemaRef> {
    let mut types: Vec<(usize, String, Option<DataType>)> = plan
        .get_parameter_types()?
        .into_iter()
        .map(|(name, data_type)| (name.trim_start_matches('$').parse().unwrap_or(0), name, data_type))
        .collect();
    types.sort();
    let fields: Vec<Field> =
        types.into_iter().map(|(_, name, t)| Field::new(name, t.unwrap_or(DataType::Null), true)).collect();
    Ok(Arc::new(Schema::new(fields)))
}

/// What [`SqlService`](crate::frontend::service::SqlService) offers.
impl QueryEngine {
    pub(super) async fn prepare(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<PreparedStatement> {
        let statement = Statement::parse(sql)?;
        let kind = statement.kind();
        let state = self.state().await?;
        let attempt = self.attempt(&state, PlanOptions::default())?;
        let none: SchemaRef = Arc::new(Schema::empty());
        let (schema, parameters) = match &statement {
            Statement::Query(statement) => {
                let unbound = attempt.logical(statement.clone(), None).await?;
                let wanted = parameter_schema(&unbound)?;
                let plan = bind(unbound, parameters)?;
                let schema = attempt.announced(&plan)?;
                let planned = Planned { state: Arc::clone(&state), plan, schema: Arc::clone(&schema) };
                self.recent.put(sql, parameters, planned);
                (schema, wanted)
            }
            Statement::Explain { inner, .. } => {
                let plan = explained::logical(&attempt, &state, inner, None).await?;
                (explain::schema(), plan.as_ref().map(parameter_schema).transpose()?.unwrap_or(none))
            }
            Statement::Insert(statement) => {
                let plan = attempt.logical(statement.clone(), None).await?;
                (none, parameter_schema(&plan)?)
            }
            Statement::CreateTable(create) => {
                let request = ddl::create_request(attempt.session(), create.as_ref().clone(), None).await?;
                let wanted = request.query.as_ref().map(parameter_schema).transpose()?;
                (Arc::clone(&none), wanted.unwrap_or(none))
            }
            Statement::Change(change) => {
                let table = existing(&state, &change.table()?)?;
                let parameters = match change.plan(&table)? {
                    change::Planned::Clear => Arc::clone(&none),
                    change::Planned::Changes(_, query) => {
                        let plan = attempt.logical(of_query(query)?, None).await?;
                        parameter_schema(&with_typed_parameters(plan, &table)?)?
                    }
                };
                (none, parameters)
            }
            Statement::Copy(_)
            | Statement::DropTable { .. }
            | Statement::Optimize { .. }
            | Statement::Snapshot(_)
            | Statement::AlterTable(_) => (Arc::clone(&none), none),
        };
        Ok(PreparedStatement { schema, parameters, kind })
    }

    pub(super) async fn query(&self, sql: &str, parameters: Option<RecordBatch>) -> Result<QueryStream> {
        match Statement::parse(sql)? {
            Statement::Query(statement) => {
                let announced = self.recent.take(sql, parameters.as_ref());
                self.rows(&statement, parameters.as_ref(), announced).await
            }
            Statement::Explain { inner, analyze, verbose, tree } => {
                self.explained(&inner, (analyze, verbose, tree), parameters.as_ref()).await
            }
            other => match other.kind() {
                StatementKind::Update => Err(Error::invalid("this statement yields no rows; run it as an update")),
                StatementKind::Query => Err(Error::internal("a query of unknown form")),
            },
        }
    }

    pub(super) async fn ingest(&self, ingest: Ingest, caller: &Caller) -> Result<i64> {
        let rows = Box::pin(self.ingest_rows(ingest, caller)).await.map_err(surface)?;
        Ok(i64::try_from(rows).unwrap_or(i64::MAX))
    }

    pub(super) async fn update(&self, sql: &str, parameters: Option<RecordBatch>, caller: &Caller) -> Result<i64> {
        let rows = Box::pin(self.changed(sql, parameters.as_ref(), caller)).await.map_err(surface)?;
        Ok(i64::try_from(rows).unwrap_or(i64::MAX))
    }

    pub(super) async fn begin(&self) -> Result<String> {
        self.transactions.begin()
    }

    pub(super) async fn commit(&self, transaction: &str, caller: &Caller) -> Result<()> {
        if caller.may_repeat()
            && let state = self.node.linearizable().await?
            && state.written.repeated(caller.request(), caller.statement())?.is_some()
        {
            return Ok(());
        }
        Box::pin(self.transactions.commit(transaction, caller)).await.map_err(surface)
    }

    pub(super) async fn roll_back(&self, transaction: &str) -> Result<()> {
        self.transactions.roll_back(transaction).await;
        Ok(())
    }

    pub(super) fn within(&self, transaction: &str) -> Result<SharedService> {
        let transaction = self.transactions.get(transaction)?;
        Ok(Arc::new(InTransaction::new(self.inside(&transaction), transaction)))
    }

    pub(super) fn catalog(&self) -> Result<CatalogListing> {
        let state = self.node.state();
        let mut tables: Vec<TableInfo> = state
            .listed()
            .map(|t| TableInfo {
                catalog: CATALOG.into(),
                schema: t.name.schema.clone(),
                name: t.name.table.clone(),
                table_type: TableType::Table,
                columns: Arc::clone(&t.schema.0),
                primary_key: t.primary_key.clone(),
            })
            .collect();
        for name in system::NAMES {
            tables.push(TableInfo {
                catalog: CATALOG.into(),
                schema: SYSTEM_SCHEMA.into(),
                name: name.into(),
                table_type: TableType::View,
                columns: system::schema(name, &state)?,
                primary_key: Vec::new(),
            });
        }
        for (name, columns) in information_schema()? {
            tables.push(TableInfo {
                catalog: CATALOG.into(),
                schema: INFORMATION_SCHEMA.into(),
                name: name.into(),
                table_type: TableType::View,
                columns,
                primary_key: Vec::new(),
            });
        }
        let schemas = [DEFAULT_SCHEMA, SYSTEM_SCHEMA, INFORMATION_SCHEMA];
        Ok(CatalogListing { schemas: schemas.iter().map(|s| (CATALOG.into(), (*s).into())).collect(), tables })
    }

    pub(super) async fn action(&self, name: &str, body: Bytes) -> Result<Bytes> {
        let json = match name {
            "ancho.apply" => {
                let text = std::str::from_utf8(&body).map_err(|_| Error::invalid("the spec is not UTF-8 text"))?;
                Box::pin(Applier::new(self).apply(text)).await?
            }
            "ancho.cluster_status" => status::cluster_status(&self.node).await,
            "ancho.verify" => Box::pin(verify::verify(self, &body)).await?,
            "ancho.snapshots" => Box::pin(snapshots::snapshots(self, &body)).await?,
            "ancho.drain" => members::drain(self, &body, true).await?,
            "ancho.undrain" => members::drain(self, &body, false).await?,
            "ancho.remove_executor" => members::remove(self, &body).await?,
            "ancho.rebalance" => members::rebalance(self, &body).await?,
            "ancho.recover" => members::recover(self, &body).await?,
            other => {
                return Err(Error::not_found(format!(
                    "action {other} does not exist; ListActions of Flight tells those that do"
                )));
            }
        };
        Ok(Bytes::from(json.to_string()))
    }

    pub(super) fn ready(&self) -> Readiness {
        status::readiness(&self.node)
    }
}

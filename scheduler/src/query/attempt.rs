//! One try at planning and running a query, on one view of the cluster.
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::{
    error::{Error, ErrorKind, Result},
    ids::PartitionId,
    plan::{pacing::pace, running::RunningQuery, scan::PlacedPartition},
    spec::source::S3Options,
};
use arrow::{datatypes::SchemaRef, record_batch::RecordBatch};
use datafusion::{
    common::{
        ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    execution::{SendableRecordBatchStream, SessionState},
    logical_expr::{LogicalPlan, LogicalPlanBuilder, TableScan},
    optimizer::{Optimizer, simplify_expressions::SimplifyExpressions},
    physical_plan::{ExecutionPlan, execute_stream, stream::RecordBatchStreamAdapter},
    sql::parser::Statement as DfStatement,
};
use futures::{StreamExt, TryStreamExt, future::BoxFuture};
use parking_lot::Mutex;
use url::Url;

use super::{merged, names};
use crate::planner::{
    copies, each, gather, guard, intervals, limits, memberships, misread, on_subqueries,
    parameters::points_in_time,
    recursion,
    refusal::{PlanError, PlanResult},
    session, single_row, subqueries, values,
};

/// A session that sees one state of the cluster.
pub struct Attempt {
    session: SessionState,
    /// What runs in the session ends when this and all streams are gone.
    running: RunningQuery,
    /// What the plans of this attempt read, and where: to say whose loss a failure was.
    read: Mutex<Vec<Read>>,
    /// How long the scalar subqueries took that were run before the rest was planned.
    subqueries: Mutex<Duration>,
}

/// A partition that is read, and its owner.
#[derive(Debug, Clone)]
struct Read {
    table: String,
    partition: PartitionId,
    url: String,
}

/// How long an owner may take to accept a connection before it is said not to answer.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);

impl Attempt {
    /// In this session.
    #[must_use]
    pub fn new(session: SessionState, running: RunningQuery) -> Self {
        Self { session, running, read: Mutex::default(), subqueries: Mutex::default() }
    }

    /// The same attempt, reaching S3 buckets as a dataset says.
    ///
    /// # Errors
    /// The options do not fit a header.
    pub fn reaching(&self, options: &S3Options) -> Result<Self> {
        Ok(Self::new(session::with_s3(&self.session, &self.running, options)?, self.running.clone()))
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionState {
        &self.session
    }

    /// How long the scalar subqueries took that were run before the rest was planned.
    #[must_use]
    pub fn subqueries_took(&self) -> Duration {
        *self.subqueries.lock()
    }

    /// The logical plan of a statement with its parameters bound.
    ///
    /// # Errors
    /// The statement is wrong or does not fit the parameters.
    pub async fn logical(&self, statement: DfStatement, parameters: Option<&RecordBatch>) -> Result<LogicalPlan> {
        let statement = merged::separate(statement, &self.session)?;
        let plan = self.session.statement_to_plan(statement).await?;
        bind(understood(plan)?, parameters)
    }

    /// Columns of the plan's rows: those after type coercion, which decides for instance what a `UNION` of two integer
    /// types is, and after folding constants, which decides the scale of `round(x, 1)`.
    ///
    /// # Errors
    /// The plan is not well typed.
    pub fn announced(&self, plan: &LogicalPlan) -> Result<SchemaRef> {
        let analyzed =
            self.session.analyzer().execute_and_check(plan.clone(), self.session.config_options(), |_, _| {})?;
        let folding = Optimizer::with_rules(vec![Arc::new(SimplifyExpressions::new())]);
        let folded = folding.optimize(analyzed, &self.session, |_, _| {})?;
        // Nodes keep the schema they were made with until they are told to look again.
        let folded = folded.transform_up(|node| node.recompute_schema().map(Transformed::yes)).data()?;
        Ok(names::shown(folded.schema().as_arrow()))
    }

    /// The distributed plan, checked by the guard. Runs what has to be run first: scalar subqueries and the tables of
    /// recursive queries.
    ///
    /// # Errors
    /// The plan cannot be made, a partition it reads has no serving owner, or it would be unsafe.
    pub async fn physical(&self, plan: LogicalPlan) -> PlanResult<Arc<dyn ExecutionPlan>> {
        gather::check(&plan, &self.session)?;
        let started = Instant::now();
        let plan = self.run_subqueries(plan).await?;
        *self.subqueries.lock() += started.elapsed();
        let plan = self.session.optimize(&plan)?;
        let plan = self.gather_recursive(plan).await?;
        let physical = self.session.query_planner().create_physical_plan(&plan, &self.session).await?;
        let physical = pace(physical)?;
        guard::check(&physical)?;
        let reads = guard::scans(&physical).into_iter().flat_map(|source| {
            let table = source.table.clone();
            let read = move |p: &PlacedPartition| Read {
                table: table.clone(),
                partition: p.scan.partition,
                url: p.owner.url.clone(),
            };
            source.partitions.iter().map(read).collect::<Vec<_>>()
        });
        self.read.lock().extend(reads);
        Ok(physical)
    }

    /// Says which table and partition an executor's loss concerns, if it is one that this attempt reads.
    pub async fn blame(&self, failure: PlanError) -> PlanError {
        let error = &failure.error;
        if error.kind != ErrorKind::Unavailable || error.message.contains("partition") {
            return failure;
        }
        let mut reads = self.read.lock().clone();
        reads.sort_by(|a, b| a.url.cmp(&b.url));
        reads.dedup_by(|a, b| a.url == b.url);
        for read in reads {
            if !answers(&read.url).await {
                return Error::unavailable(format!(
                    "table {}: partition {} cannot be served now: executor {} does not answer; try again",
                    read.table, read.partition, read.url
                ))
                .into();
            }
        }
        failure
    }

    /// The rows of a logical plan, as they come.
    ///
    /// # Errors
    /// See [`Attempt::physical`]; later errors come with the stream.
    pub async fn stream(&self, plan: LogicalPlan) -> PlanResult<SendableRecordBatchStream> {
        let physical = self.physical(plan).await?;
        let rows = execute_stream(physical, self.session.task_ctx())?;
        let running = self.running.clone();
        let held = move |rows: &datafusion::error::Result<RecordBatch>| {
            let _ = (&running, rows);
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(rows.schema(), rows.inspect(held))))
    }

    /// All rows of a logical plan.
    ///
    /// # Errors
    /// Whatever planning or running it raises.
    pub fn collect(&self, plan: LogicalPlan) -> BoxFuture<'_, PlanResult<Vec<RecordBatch>>> {
        // Boxed: planning a query runs its subqueries, which are queries.
        Box::pin(async move { Ok(self.stream(plan).await?.try_collect().await?) })
    }

    async fn run_subqueries(&self, plan: LogicalPlan) -> PlanResult<LogicalPlan> {
        let mut values: HashMap<LogicalPlan, ScalarValue> = HashMap::new();
        for subquery in subqueries::find(&plan)? {
            // Two rows are enough to know that there are too many.
            let limited = LogicalPlanBuilder::from(subquery.clone()).limit(0, Some(2))?.build()?;
            let rows = self.collect(limited).await?;
            let value = subqueries::value_of(&subquery, &rows)?;
            values.insert(subquery, value);
        }
        Ok(subqueries::replace(plan, &values)?)
    }

    async fn gather_recursive(&self, plan: LogicalPlan) -> PlanResult<LogicalPlan> {
        let mut gathered: HashMap<TableScan, Vec<RecordBatch>> = HashMap::new();
        for scan in recursion::find(&plan)? {
            let rows = self.collect(LogicalPlan::TableScan(scan.clone())).await?;
            gathered.insert(scan, rows);
        }
        Ok(recursion::replace(plan, &gathered)?)
    }
}

async fn answers(url: &str) -> bool {
    let Some(address) =
        Url::parse(url).ok().and_then(|u| u.socket_addrs(|| None).ok()).and_then(|a| a.first().copied())
    else {
        return false;
    };
    let connecting = tokio::net::TcpStream::connect(address);
    matches!(tokio::time::timeout(PROBE_TIMEOUT, connecting).await, Ok(Ok(_)))
}

/// A plan as it comes from the parser, in the forms that the engine gets right.
///
/// # Errors
/// `Unsupported` for what it would get wrong.
pub(super) fn understood(plan: LogicalPlan) -> Result<LogicalPlan> {
    let plan = intervals::measure(copies::number(plan)?)?;
    let plan = limits::rewrite(memberships::rewrite(plan)?)?;
    misread::check(&plan)?;
    let plan = single_row::rewrite(values::rewrite(on_subqueries::rewrite(plan)?)?)?;
    Ok(points_in_time(each::rewrite(plan)?)?)
}

/// Puts the values of a one-row batch in place of `$1`, `$2`, ….
///
/// # Errors
/// A parameter has no value, or the batch has not exactly one row.
pub fn bind(plan: LogicalPlan, parameters: Option<&RecordBatch>) -> Result<LogicalPlan> {
    let Some(batch) = parameters else { return Ok(plan) };
    if batch.num_rows() != 1 {
        return Err(Error::invalid(format!("parameters must be one row, not {}", batch.num_rows())));
    }
    let values = batch
        .columns()
        .iter()
        .map(|column| ScalarValue::try_from_array(column, 0))
        .collect::<datafusion::error::Result<Vec<_>>>()?;
    Ok(plan.with_param_values(values)?)
}

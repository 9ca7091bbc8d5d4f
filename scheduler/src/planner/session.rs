//! The session that a statement is planned and run in.
use std::sync::Arc;

use ancho_common::{
    error::Result,
    exact,
    partition::functions,
    plan::{
        pace::EndOfTask,
        running::{RunningQueries, RunningQuery},
        session::{WorkerParts, apply_safe_defaults, extend, options_header, runtime_with_s3, s3_header},
    },
    spec::source::S3Options,
};
use arrow::ipc::CompressionType;
use datafusion::{
    catalog::{CatalogProviderList, MemoryCatalogProviderList},
    execution::{FunctionRegistry, SessionState, SessionStateBuilder},
    prelude::SessionConfig,
};
use datafusion_distributed::{DistributedExt, LocalWorkerContext, SessionStateBuilderExt};
use url::Url;

use super::{
    catalog::{AnchoCatalog, CATALOG, DEFAULT_SCHEMA},
    handlers::{self, Workers},
    partitioners::Partitioners,
    rules::rules,
    time_travel::TimeTravel,
    topology::{StagedWrites, Topology},
    write::AnchoQueryPlanner,
};
use crate::state::ClusterState;

/// A build side up to this many bytes is sent to every executor instead of shuffling both sides.
const BROADCAST_BYTES: usize = 16 << 20;
/// The same in rows.
const BROADCAST_ROWS: usize = 1 << 20;
/// Bytes that one connection may hold for a slow consumer.
const CONNECTION_BUFFER: usize = 16 << 20;

/// Makes sessions; everything that does not change between statements is made once.
#[derive(Debug, Clone)]
pub struct Sessions {
    base: SessionState,
    /// The same without co-located joins.
    shuffled: SessionState,
    partitioners: Partitioners,
    streams: Option<usize>,
    running: RunningQueries,
}

/// What may differ between two plans of the same statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// Joins of tables bucketed alike may skip the shuffle.
    pub colocate: bool,
    /// Rows are gathered right above the scans: for what cannot run in pieces, or cannot be sent.
    pub gather: bool,
    /// The planner is told the least and the greatest value of columns.
    pub bounds: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self { colocate: true, gather: false, bounds: true }
    }
}

impl Sessions {
    /// `parts` is what this scheduler brings to tasks that run in it; `local` lets single-task stages run here.
    /// `streams` overrides what executors ask for.
    ///
    /// # Errors
    /// Never with the settings used here; the library's signature allows it.
    pub fn try_new(
        parts: &WorkerParts,
        local: impl Fn() -> LocalWorkerContext,
        streams: Option<usize>,
    ) -> Result<Self> {
        let mut config = SessionConfig::new()
            .with_default_catalog_and_schema(CATALOG, DEFAULT_SCHEMA)
            .with_create_default_catalog_and_schema(false)
            .with_information_schema(true);
        apply_safe_defaults(&mut config);
        let optimizer = &mut config.options_mut().optimizer;
        optimizer.hash_join_single_partition_threshold = BROADCAST_BYTES;
        optimizer.hash_join_single_partition_threshold_rows = BROADCAST_ROWS;
        extend(&mut config, parts)?;
        let base = |colocate: bool| Self::base(config.clone(), parts, local(), colocate);
        Ok(Self {
            base: base(true)?,
            shuffled: base(false)?,
            partitioners: Partitioners::default(),
            streams,
            running: parts.running.clone(),
        })
    }

    fn base(
        config: SessionConfig,
        parts: &WorkerParts,
        local: LocalWorkerContext,
        colocate: bool,
    ) -> Result<SessionState> {
        let mut base = SessionStateBuilder::new()
            .with_config(config)
            .with_runtime_env(Arc::clone(&parts.runtime))
            .with_default_features()
            .with_query_planner(Arc::new(AnchoQueryPlanner))
            .with_analyzer_rules(exact::analyzer_rules())
            .with_physical_optimizer_rules(rules(colocate))
            .with_distributed_planner()
            .with_distributed_worker_resolver(Workers(Vec::new()))
            .with_distributed_desired_task_count_handler(handlers::desired_task_count)
            .with_distributed_scale_up_leaf_node_handler(handlers::scale_up)
            .with_distributed_scale_up_leaf_node_handler(handlers::scale_up_files)
            .with_distributed_scale_up_leaf_node_handler(handlers::scale_up_snapshot)
            .with_distributed_route_tasks_handler(handlers::route_tasks)
            .with_distributed_children_isolator_unions(false)?
            // Not for `EXPLAIN ANALYZE` alone: only so does the call that sets a task up last until the statement ends,
            // which is how the task learns of the end.
            .with_distributed_metrics_collection(true)?
            .with_distributed_worker_connection_buffer_budget_bytes(CONNECTION_BUFFER)?
            .with_distributed_local_worker_context(local)
            .build();
        for function in functions::all().into_iter().chain(exact::functions()) {
            base.register_udf(function)?;
        }
        for function in [TimeTravel::Version, TimeTravel::Time] {
            base.register_udtf(function.name(), Arc::new(function));
        }
        for aggregate in exact::aggregates() {
            base.register_udaf(aggregate)?;
        }
        Ok(base)
    }

    /// A session for one attempt at a statement, seeing exactly this state, and the attempt itself: what runs in the
    /// session ends with it.
    ///
    /// # Errors
    /// The session's changed options do not fit a header.
    pub fn open(&self, state: &Arc<ClusterState>, options: PlanOptions) -> Result<(SessionState, RunningQuery)> {
        self.open_within(state, options, Arc::default())
    }

    /// The same for a statement inside a transaction, which also sees what that has `staged`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_within(
        &self,
        state: &Arc<ClusterState>,
        options: PlanOptions,
        staged: Arc<StagedWrites>,
    ) -> Result<(SessionState, RunningQuery)> {
        let running = self.running.begin();
        let mut urls: Vec<Url> = state.live_executors().filter_map(|e| Url::parse(&e.url).ok()).collect();
        urls.sort();
        let streams =
            self.streams.unwrap_or_else(|| state.live_executors().map(|e| e.streams as usize).min().unwrap_or(2));
        // The engine plans no exchange at all for a single stream, which would gather every aggregate and build every
        // join whole in each task, however many tasks there are.
        let streams = if options.gather { 1 } else { streams.max(2) };
        let base = if options.colocate { &self.base } else { &self.shuffled };
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.into(), Arc::new(AnchoCatalog::new(Arc::clone(state))));
        let mut session =
            SessionStateBuilder::new_from_existing(base.clone()).with_catalog_list(Arc::new(catalogs)).build();
        let config = session.config_mut();
        config.options_mut().execution.target_partitions = streams;
        config.set_extension(Arc::new(Topology {
            state: Arc::clone(state),
            streams: streams.max(2),
            partitioners: self.partitioners.clone(),
            gather: options.gather,
            bounds: options.bounds,
            staged,
        }));
        config.set_distributed_max_tasks_per_stage(urls.len().max(2))?;
        config.set_distributed_compression(compression(&urls))?;
        config.set_distributed_worker_resolver(Workers(urls));
        let mut header = options_header(config.options())?;
        running.name_in(&mut header);
        config.set_distributed_passthrough_headers(header)?;
        config.set_extension(Arc::new(EndOfTask(running.end())));
        // What `now()` and its kind are, the same in all parts of a statement.
        let options = Arc::clone(session.config().options());
        session.execution_props_mut().mark_start_execution(options);
        Ok((session, running))
    }
}

/// Shuffled rows are compressed where they cross a network. Between processes of one machine that costs more than it
/// saves.
fn compression(executors: &[Url]) -> Option<CompressionType> {
    let mut hosts = executors.iter().map(Url::host);
    let first = hosts.next().flatten();
    (!hosts.all(|host| host == first)).then_some(CompressionType::LZ4_FRAME)
}

/// The session, reaching S3 buckets as a dataset says, here and in every task of its plans.
///
/// # Errors
/// The options do not fit a header.
pub fn with_s3(session: &SessionState, running: &RunningQuery, options: &S3Options) -> Result<SessionState> {
    let runtime = runtime_with_s3(datafusion::catalog::Session::runtime_env(session), options)?;
    let mut session = SessionStateBuilder::new_from_existing(session.clone()).with_runtime_env(runtime).build();
    let config = session.config_mut();
    let mut header = options_header(config.options())?;
    header.extend(s3_header(options)?);
    running.name_in(&mut header);
    config.set_distributed_passthrough_headers(header)?;
    Ok(session)
}

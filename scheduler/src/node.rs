//! A scheduler process: its parts, started in order and stopped in order.
use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use ancho_common::{
    compute::{Compute, OnCompute},
    error::{Error, Result},
    object_stores::ObjectStores,
    plan::{
        channels::{
            CONNECTION_WINDOW, Channels, KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, MAX_HEADER_LIST, STREAM_WINDOW,
        },
        running::RunningQueries,
        session::{WorkerParts, worker},
    },
};
use datafusion::execution::{memory_pool::FairSpillPool, runtime_env::RuntimeEnvBuilder};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, server::TcpIncoming};
use url::Url;

use crate::{
    frontend::{FrontendOptions, Frontends, FrontendsHandle},
    placement,
    planner::session::Sessions,
    query::{
        assigner::RaftAssigner,
        computed::Computed,
        engine::{Patience, QueryEngine},
    },
    raft::{RaftNode, RaftOptions, SchedulerService},
    sessions::{SessionManager, SessionOptions},
    snapshots,
};

/// How long a group of one may take to elect itself.
const SINGLE_NODE_PATIENCE: Duration = Duration::from_secs(20);
/// Lengths of a session after which a load of a table that nobody renews is given up.
const LOAD_PATIENCE: u32 = 3;
/// Renewals of a load in the length of a session.
const LOAD_RENEWALS: u32 = 3;
/// Memory for the parts of queries that run in the scheduler, unless set.
const DEFAULT_MEMORY: usize = 2 << 30;

/// Settings of one scheduler.
#[derive(Debug, Clone)]
pub struct SchedulerOptions {
    /// Holds the replicated log. Created if missing; one process at a time.
    pub data_dir: PathBuf,
    /// Number in the group; may be left out where the directory or the peers tell it.
    pub node_id: Option<u64>,
    /// Where the internal service listens. Port 0 takes a free one, here and below.
    pub internal: SocketAddr,
    /// Where Flight SQL listens.
    pub flight: SocketAddr,
    /// Where HTTP listens, if at all.
    pub http: Option<SocketAddr>,
    /// Where Prometheus can scrape, if at all.
    pub metrics: Option<SocketAddr>,
    /// URL at which schedulers and executors reach the internal service; by default its bound address.
    pub advertise_url: Option<String>,
    /// All members of the group, this one included; empty for a group of one.
    pub peers: BTreeMap<u64, String>,
    /// How long an executor may serve after its last acknowledged beat.
    pub session_ttl: Duration,
    /// How long an executor must be down before its partitions are given to others where a snapshot has their rows.
    pub failover_after: Duration,
    /// How long a statement waits for a partition without a serving owner.
    pub partition_wait: Duration,
    /// Folders with local files that `COPY` may read and write; none unless set.
    pub local_files: Vec<PathBuf>,
    /// A transaction that nobody goes on with for so long is rolled back.
    pub transaction_idle: Duration,
    /// Streams per task; by default what the executors ask for.
    pub streams: Option<usize>,
    /// Bytes for the parts of queries that run here; 2 GiB unless set.
    pub memory_bytes: Option<usize>,
}

impl SchedulerOptions {
    /// A group of one on free loopback ports.
    #[must_use]
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        Self {
            data_dir: data_dir.into(),
            node_id: None,
            internal: any,
            flight: any,
            http: Some(any),
            metrics: None,
            advertise_url: None,
            peers: BTreeMap::new(),
            session_ttl: Duration::from_secs(10),
            failover_after: Duration::from_secs(60),
            partition_wait: Duration::from_secs(30),
            local_files: Vec::new(),
            transaction_idle: Duration::from_secs(300),
            streams: None,
            memory_bytes: None,
        }
    }
}

/// Starts schedulers.
#[derive(Debug)]
pub struct Scheduler;

/// A running scheduler. Dropping it stops it without waiting.
pub struct SchedulerHandle {
    node: RaftNode,
    internal_addr: SocketAddr,
    internal_url: String,
    frontends: Option<FrontendsHandle>,
    flight_addr: SocketAddr,
    http_addr: Option<SocketAddr>,
    metrics_addr: Option<SocketAddr>,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Scheduler {
    /// Opens the directory, takes part in the group or forms it, and serves.
    ///
    /// # Errors
    /// A setting, the directory or a peer contradicts another, or an address is taken.
    pub async fn start(options: SchedulerOptions) -> Result<SchedulerHandle> {
        let (listener, internal_addr) = listen(options.internal).await?;
        let internal_url = advertised(&options, internal_addr)?;
        let node = RaftNode::start(raft_options(&options, &internal_url)).await?;
        node.set_stamper(Arc::new(placement::stamp));
        let stop = CancellationToken::new();

        let compute = Compute::start()?;
        let channels = Channels::default();
        let memory = options.memory_bytes.unwrap_or(DEFAULT_MEMORY);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(FairSpillPool::new(memory)))
            .with_object_store_registry(Arc::new(ObjectStores::default()))
            .build_arc()?;
        let assigner = Arc::new(RaftAssigner::new(node.clone()));
        let parts = WorkerParts {
            host: None,
            assigner,
            channels: channels.clone(),
            runtime,
            running: RunningQueries::default(),
        };
        let tasks_here = worker(parts.clone());
        let self_url = Url::parse(&internal_url).map_err(|e| Error::invalid(format!("{internal_url}: {e}")))?;
        let sessions =
            Sessions::try_new(&parts, || tasks_here.to_local_worker_context(self_url.clone()), options.streams)?;

        let manager = SessionManager::new(node.clone(), session_options(&options, &internal_url), stop.clone());
        let service = SchedulerService::new(node.clone(), Arc::new(manager.clone())).into_server();
        let server = Server::builder()
            .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
            .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
            .http2_max_header_list_size(MAX_HEADER_LIST)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .add_service(service)
            .add_service(OnCompute::new(tasks_here.into_worker_server(), compute.clone()))
            .serve_with_incoming_shutdown(
                TcpIncoming::from(listener).with_nodelay(Some(true)),
                stop.clone().cancelled_owned(),
            );
        let mut tasks = vec![
            tokio::spawn(async move {
                if let Err(error) = server.await {
                    tracing::error!(%error, "the internal service ended");
                }
            }),
            tokio::spawn(async move { manager.run().await }),
        ];
        if options.peers.len() <= 1 {
            node.wait_ready(SINGLE_NODE_PATIENCE).await?;
        }

        let engine = Arc::new(QueryEngine::new(
            node.clone(),
            sessions,
            channels,
            patience(&options),
            options.local_files.clone().into(),
        ));
        let automatic = snapshots::automatic::run(node.clone(), engine.publisher().clone());
        let stopped = stop.clone();
        tasks.push(tokio::spawn(async move {
            let _ = stopped.run_until_cancelled(automatic).await;
        }));
        let mirroring = snapshots::mirroring::run(node.clone(), Arc::clone(&engine), compute.clone());
        let stopped = stop.clone();
        tasks.push(tokio::spawn(async move {
            let _ = stopped.run_until_cancelled(mirroring).await;
        }));
        let frontends = Frontends::start(
            Arc::new(Computed::new(engine, compute)),
            FrontendOptions { flight: options.flight, http: options.http, metrics: options.metrics },
        )
        .await?;
        tracing::info!(internal = %internal_url, flight = %frontends.flight_addr, "scheduler started");
        Ok(SchedulerHandle {
            node,
            internal_addr,
            internal_url,
            flight_addr: frontends.flight_addr,
            http_addr: frontends.http_addr,
            metrics_addr: frontends.metrics_addr,
            frontends: Some(frontends),
            stop,
            tasks,
        })
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let failed = |e: std::io::Error| {
        Error::unavailable(format!(
            "the internal service cannot listen on {address}: {e}; free the port or choose another"
        ))
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

fn advertised(options: &SchedulerOptions, bound: SocketAddr) -> Result<String> {
    match &options.advertise_url {
        Some(url) => Ok(url.trim_end_matches('/').to_owned()),
        None if bound.ip().is_unspecified() => Err(Error::invalid(format!(
            "the internal service listens on {bound}, which others cannot reach; set --advertise-url"
        ))),
        None => Ok(format!("http://{bound}")),
    }
}

fn raft_options(options: &SchedulerOptions, url: &str) -> RaftOptions {
    let mut raft = RaftOptions::single(url, &options.data_dir);
    raft.node_id = options.node_id;
    if options.peers.is_empty() {
        raft.peers = BTreeMap::from([(options.node_id.unwrap_or(1), url.to_owned())]);
    } else {
        raft.peers.clone_from(&options.peers);
    }
    raft
}

fn session_options(options: &SchedulerOptions, url: &str) -> SessionOptions {
    let mut urls: Vec<String> = options.peers.values().cloned().collect();
    if urls.is_empty() {
        urls.push(url.to_owned());
    }
    SessionOptions {
        ttl: options.session_ttl,
        scheduler_urls: urls,
        failover_after: options.failover_after,
        load_patience: options.session_ttl * LOAD_PATIENCE,
        ..SessionOptions::default()
    }
}

fn patience(options: &SchedulerOptions) -> Patience {
    Patience {
        partition_wait: options.partition_wait,
        load_renewal: options.session_ttl / LOAD_RENEWALS,
        transaction_idle: options.transaction_idle,
    }
}

impl SchedulerHandle {
    /// Where Flight SQL listens.
    #[must_use]
    pub fn flight_addr(&self) -> SocketAddr {
        self.flight_addr
    }

    /// Where HTTP listens.
    #[must_use]
    pub fn http_addr(&self) -> Option<SocketAddr> {
        self.http_addr
    }

    /// Where Prometheus can scrape.
    #[must_use]
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_addr
    }

    /// Where the internal service listens.
    #[must_use]
    pub fn internal_addr(&self) -> SocketAddr {
        self.internal_addr
    }

    /// Where other processes reach the internal service.
    #[must_use]
    pub fn internal_url(&self) -> &str {
        &self.internal_url
    }

    /// This scheduler's part of the group.
    #[must_use]
    pub fn node(&self) -> &RaftNode {
        &self.node
    }

    /// Returns when the scheduler cannot go on, with the reason.
    pub async fn wait(&self) -> Error {
        self.node.stopped().await.into()
    }

    /// Lets open statements end, then leaves the group.
    pub async fn shutdown(mut self) {
        if let Some(frontends) = self.frontends.take() {
            frontends.shutdown().await;
        }
        self.node.shutdown().await;
        self.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            let abort = task.abort_handle();
            if tokio::time::timeout(Duration::from_secs(5), task).await.is_err() {
                abort.abort();
            }
        }
    }
}

impl Drop for SchedulerHandle {
    fn drop(&mut self) {
        self.stop.cancel();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

//! An executor process: its parts, started in order and stopped in order.
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ancho_common::{
    compute::{Compute, OnCompute},
    ids::ExecutorId,
    plan::{host::ScanHost, session::plan_key},
};
use ancho_proto::v1 as proto;
use datafusion::execution::memory_pool::MemoryPool;
use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tracing::{info, warn};
use uuid::Uuid;

use crate::{
    copy::TransferService,
    disk::{DiskSpace, network_file_system},
    error::{Error, Result},
    host::{Assignments, HostOptions, PartitionHost, PartitionInfo},
    identity::DataDir,
    ingest::Ingest,
    metric, metrics_server,
    options::ExecutorOptions,
    resources::Resources,
    server,
    session::{DiskGauge, Lease, Session, SessionLinks, SessionStatus},
    worker::query_worker,
};

/// Superseded versions and unassigned partitions are looked for this often.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
/// How long a stop waits for senders and running requests.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// Starts executors.
#[derive(Debug)]
pub struct Executor;

/// A running executor. Clones are the same one; it runs on when all are dropped.
#[derive(Debug, Clone)]
pub struct ExecutorHandle {
    inner: Arc<Running>,
}

#[derive(Debug)]
struct Running {
    id: ExecutorId,
    incarnation: String,
    url: String,
    address: SocketAddr,
    host: Arc<PartitionHost>,
    ingest: Ingest,
    transfer: TransferService,
    status: watch::Receiver<SessionStatus>,
    stop_session: watch::Sender<bool>,
    stop_server: CancellationToken,
    metrics_address: Option<SocketAddr>,
    /// `Some` once the executor has ended.
    ended: watch::Sender<Option<Result<(), Arc<Error>>>>,
    /// Keeps the directory locked until the executor is stopped.
    data_dir: Mutex<Option<Arc<DataDir>>>,
}

impl Executor {
    /// Opens the directory and its partitions, listens, and begins to look for the leading scheduler. Returns when
    /// requests are accepted; they are served once the session is held.
    ///
    /// # Errors
    /// The directory is in use, damaged or of another cluster, the address is taken, or a setting cannot be used.
    pub async fn start(options: ExecutorOptions) -> Result<ExecutorHandle> {
        let host_options = HostOptions::default();
        #[cfg(debug_assertions)]
        let host_options = {
            let mut host_options = host_options;
            host_options.partitions.failpoints = crate::failpoint::from_environment(&options.data_dir)?;
            host_options
        };
        Self::start_with(options, host_options).await
    }

    /// As [`start`](Self::start), with the host's options.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(options: ExecutorOptions, host_options: HostOptions) -> Result<ExecutorHandle> {
        let dir = options.data_dir.clone();
        let data_dir = tokio::task::spawn_blocking(move || DataDir::open(&dir))
            .await
            .map_err(|e| Error::Stopped(format!("opening the data directory: {e}")))??;
        let data_dir = Arc::new(data_dir);
        warn_of_disk(&data_dir);
        let (listener, address) = server::listen(options.bind).await?;
        let url = advertised(options.advertise_url.as_deref(), address)?;
        let stop_server = CancellationToken::new();
        let metrics_address = match options.metrics {
            Some(address) => Some(metrics_server::start(address, stop_server.clone()).await?),
            None => None,
        };
        let lease = Arc::new(Lease::default());
        let resources = Resources::new(&options, &data_dir)?;
        resources.report();
        let host_options = HostOptions { copy_rate: options.copy_bytes_per_second, ..resources.of_host(host_options) };
        let host = PartitionHost::open(&data_dir, Arc::clone(&lease), host_options).await?;
        let incarnation = Uuid::new_v4().to_string();
        let ingest = Ingest::new(Arc::clone(&host), &incarnation, options.memory_bytes);
        let transfer = TransferService::new(Arc::clone(&host));

        let (status, status_receiver) = watch::channel(SessionStatus::default());
        let (assignments, assignments_receiver) = watch::channel(None);
        let (stop_session, stop_receiver) = watch::channel(false);
        let disk = Arc::new(DiskGauge::default());
        let links = SessionLinks {
            lease,
            loaded: host.loaded(),
            hindered: host.hindered(),
            copies: host.copies().clone(),
            assignments,
            status,
            disk: Arc::clone(&disk),
        };
        let hello = hello(&options, &data_dir, &incarnation, &url);
        let session =
            Session::spawn(Arc::clone(&data_dir), hello, options.scheduler_urls.clone(), links, stop_receiver)?;

        let running = Arc::new(Running {
            id: data_dir.executor_id(),
            incarnation,
            url,
            address,
            host,
            ingest,
            transfer,
            status: status_receiver,
            stop_session,
            stop_server,
            metrics_address,
            ended: watch::Sender::new(None),
            data_dir: Mutex::new(Some(Arc::clone(&data_dir))),
        });
        info!(
            executor = %running.id,
            url = %running.url,
            dir = %data_dir.path().display(),
            zone = options.zone.as_deref().unwrap_or(""),
            "executor started"
        );
        let routes = routes(&running, &options, &resources)?;
        let serving = tokio::spawn(server::serve(listener, routes, running.stop_server.clone()));
        let upkeep = [
            tokio::spawn(reconcile_loop(Arc::clone(&running.host), assignments_receiver)),
            tokio::spawn(sweep_loop(Arc::clone(&running), data_dir, disk, Arc::clone(resources.pool()))),
            tokio::spawn(metric::follow(
                running.id.0.clone(),
                running.host.loaded(),
                running.host.hindered(),
                running.status.clone(),
            )),
        ];
        tokio::spawn(supervise(Arc::clone(&running), session, serving, upkeep));
        Ok(ExecutorHandle { inner: running })
    }
}

/// Everything the server offers.
fn routes(running: &Running, options: &ExecutorOptions, resources: &Resources) -> Result<Routes> {
    let host = Arc::clone(&running.host) as Arc<dyn ScanHost>;
    let stopped = |e: ancho_common::error::Error| Error::Stopped(e.to_string());
    let worker = query_worker(host, options.scheduler_urls.clone(), resources.of_queries()?);
    let tasks = OnCompute::new(worker.into_worker_server(), Compute::start().map_err(stopped)?);
    let routes = Routes::new(running.ingest.clone().into_server());
    Ok(routes.add_service(running.transfer.clone().into_server()).add_service(tasks))
}

fn hello(options: &ExecutorOptions, data_dir: &DataDir, incarnation: &str, url: &str) -> proto::Hello {
    proto::Hello {
        cluster_id: data_dir.cluster_id().unwrap_or_default(),
        executor_id: data_dir.executor_id().0,
        incarnation: incarnation.to_owned(),
        url: url.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        plan_key: plan_key(),
        streams: options.streams.max(1),
        memory_bytes: options.memory_bytes,
    }
}

fn advertised(given: Option<&str>, address: SocketAddr) -> Result<String> {
    let unspecified = match address.ip() {
        IpAddr::V4(ip) => ip.is_unspecified(),
        IpAddr::V6(ip) => ip.is_unspecified(),
    };
    match given {
        Some(url) => {
            let parsed = url::Url::parse(url)
                .map_err(|e| Error::Options(format!("advertised address {url:?} is not a URL: {e}")))?;
            if !matches!(parsed.scheme(), "http" | "https") || parsed.host().is_none() {
                return Err(Error::Options(format!("advertised address {url:?} is not like http://10.0.0.1:50061")));
            }
            Ok(url.trim_end_matches('/').to_owned())
        }
        None if unspecified => Err(Error::Options(format!(
            "an executor that listens on {address} needs an advertised address at which others reach it"
        ))),
        None => Ok(format!("http://{address}")),
    }
}

fn warn_of_disk(data_dir: &DataDir) {
    if let Some(kind) = network_file_system(data_dir.path()) {
        warn!(
            dir = %data_dir.path().display(), kind,
            "the data directory is on a network file system, where the locks of metastores cannot be relied on; use a local disk"
        );
    }
    match DiskSpace::of(data_dir.path()) {
        Ok(space) if space.is_low() => warn!(
            dir = %data_dir.path().display(),
            free_mib = space.free >> 20,
            total_mib = space.total >> 20,
            "the disk of the data directory is nearly full"
        ),
        Ok(_) => {}
        Err(error) => warn!(%error, "cannot see how full the disk is"),
    }
}

/// Applies each new set of assignments; one that was overtaken while another was applied is skipped.
async fn reconcile_loop(host: Arc<PartitionHost>, mut assignments: watch::Receiver<Option<Arc<proto::Assignments>>>) {
    while assignments.changed().await.is_ok() {
        let newest = assignments.borrow_and_update().clone();
        if let Some(message) = newest {
            host.reconcile(Assignments::from_proto(&message)).await;
        }
    }
}

async fn sweep_loop(running: Arc<Running>, data_dir: Arc<DataDir>, disk: Arc<DiskGauge>, pool: Arc<dyn MemoryPool>) {
    let mut ticker = tokio::time::interval(SWEEP_EVERY);
    ticker.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticker.tick().await;
        let dir = Arc::clone(&data_dir);
        if let Ok(Ok(space)) = tokio::task::spawn_blocking(move || DiskSpace::of(dir.path())).await {
            disk.set(running.host.used_bytes(), space.free);
        }
        running.ingest.reap().await;
        running.transfer.reap();
        running.host.sweep().await;
        metric::measure_engine(&running.host, pool.reserved());
        if running.metrics_address.is_some() {
            let host = Arc::clone(&running.host);
            // A disk that cannot be measured shows elsewhere.
            let _ = tokio::task::spawn_blocking(move || metric::measure_directories(&host)).await;
        }
    }
}

/// Waits for the first part that ends and then ends the others.
async fn supervise(
    running: Arc<Running>,
    session: tokio::sync::oneshot::Receiver<Result<()>>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
    upkeep: [JoinHandle<()>; 3],
) {
    let mut serving = serving;
    let session_result =
        |r: Result<Result<()>, _>| r.unwrap_or_else(|_| Err(Error::Stopped("the session's thread died".into())));
    let served = |r: Result<Result<(), tonic::transport::Error>, _>| match r {
        Ok(Ok(())) => Ok(()),
        Ok(Err(e)) => Err(Error::Stopped(format!("the server ended: {e}"))),
        Err(e) => Err(Error::Stopped(format!("the server ended: {e}"))),
    };
    let result = tokio::select! {
        result = session => {
            running.ingest.stop();
            running.stop_server.cancel();
            let result = session_result(result);
            if tokio::time::timeout(STOP_PATIENCE, &mut serving).await.is_err() {
                serving.abort();
                warn!("requests were still running when the executor stopped");
            }
            result
        }
        result = &mut serving => {
            running.stop_session.send_replace(true);
            served(result)
        }
    };
    for task in upkeep {
        task.abort();
        // Aborted or not, it has let go of what it held.
        let _ = task.await;
    }
    running.stop_server.cancel();
    match &result {
        Ok(()) => info!(executor = %running.id, "executor stopped"),
        Err(error) => tracing::error!(executor = %running.id, %error, "executor stopped"),
    }
    running.ended.send_replace(Some(result.map_err(Arc::new)));
}

impl ExecutorHandle {
    /// URL at which it is reached.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.inner.url
    }

    /// Address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.inner.address
    }

    /// Address of its metrics, if they are served.
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.inner.metrics_address
    }

    /// Stable id.
    #[must_use]
    pub fn id(&self) -> &ExecutorId {
        &self.inner.id
    }

    /// Id of this start of the process.
    #[must_use]
    pub fn incarnation(&self) -> &str {
        &self.inner.incarnation
    }

    /// Its partitions as they stand now.
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionInfo> {
        self.inner.host.partitions()
    }

    /// The host, for services in the same process.
    #[must_use]
    pub fn host(&self) -> &Arc<PartitionHost> {
        &self.inner.host
    }

    /// How its session stands.
    #[must_use]
    pub fn session(&self) -> watch::Receiver<SessionStatus> {
        self.inner.status.clone()
    }

    /// Stops it: no new rows, a moment for the senders that are connected, then the session, the server and the
    /// partitions. Staged and committed rows stay.
    pub async fn shutdown(&self) {
        self.inner.ingest.stop();
        let deadline = tokio::time::Instant::now() + STOP_PATIENCE;
        while self.inner.ingest.is_busy() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.inner.stop_session.send_replace(true);
        // A failure was logged; whoever waits for it is told by `wait`.
        let _ = self.wait().await;
        self.inner.host.stop_compaction().await;
        let host = Arc::clone(&self.inner.host);
        if let Err(error) = tokio::task::spawn_blocking(move || host.close()).await {
            tracing::error!(%error, "the partitions were not closed");
        }
        self.inner.data_dir.lock().take();
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// What forbade it to go on: another cluster, a refusal, a server that died.
    pub async fn wait(&self) -> Result<(), Arc<Error>> {
        let mut ended = self.inner.ended.subscribe();
        let result = ended.wait_for(Option::is_some).await.map(|r| r.clone());
        match result {
            Ok(Some(result)) => result,
            _ => Err(Arc::new(Error::Stopped("the executor's tasks are gone".into()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_others_cannot_use_is_not_advertised() {
        let any: SocketAddr = "0.0.0.0:7".parse().unwrap();
        let one: SocketAddr = "127.0.0.1:7".parse().unwrap();
        assert!(advertised(None, any).is_err() && advertised(Some("10.0.0.1:7"), any).is_err());
        assert_eq!(advertised(None, one).unwrap(), "http://127.0.0.1:7");
        assert_eq!(advertised(Some("http://node:7/"), any).unwrap(), "http://node:7");
    }
}

//! A whole cluster in this process, over loopback with the real protocols.
use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    time::Duration,
};

use ancho_executor::{Executor, ExecutorHandle, ExecutorOptions};
use ancho_scheduler::{Scheduler, SchedulerHandle, SchedulerOptions};
use anyhow::Context;
use futures::future::try_join_all;
use tempfile::TempDir;

use super::wait_serving;
use crate::{client::Client, ports::free_port};

/// What a cluster is made of.
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    schedulers: usize,
    executors: usize,
    streams: usize,
    partition_wait: Duration,
    transaction_idle: Duration,
    session_ttl: Duration,
    memory_bytes: u64,
    disk_reserve_bytes: Option<u64>,
}

impl Default for ClusterBuilder {
    fn default() -> Self {
        Self {
            schedulers: 1,
            executors: 2,
            streams: 2,
            partition_wait: Duration::from_secs(30),
            transaction_idle: Duration::from_secs(300),
            // A debug build on a busy machine may pause for long.
            session_ttl: Duration::from_secs(30),
            memory_bytes: 0,
            disk_reserve_bytes: None,
        }
    }
}

impl ClusterBuilder {
    /// Number of schedulers: 1, 3 or 5.
    #[must_use]
    pub fn schedulers(mut self, n: usize) -> Self {
        self.schedulers = n;
        self
    }

    /// Number of executors.
    #[must_use]
    pub fn executors(mut self, n: usize) -> Self {
        self.executors = n;
        self
    }

    /// Streams per task of every query.
    #[must_use]
    pub fn streams(mut self, n: usize) -> Self {
        self.streams = n;
        self
    }

    /// Memory of each executor in bytes; 0 for the default.
    #[must_use]
    pub fn memory(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// Free bytes of the disk below which executors take no rows.
    #[must_use]
    pub fn disk_reserve(mut self, bytes: u64) -> Self {
        self.disk_reserve_bytes = Some(bytes);
        self
    }

    /// How long a query waits for a partition that nobody serves.
    #[must_use]
    pub fn partition_wait(mut self, wait: Duration) -> Self {
        self.partition_wait = wait;
        self
    }

    /// When an open transaction is rolled back that nobody goes on with.
    #[must_use]
    pub fn transaction_idle(mut self, limit: Duration) -> Self {
        self.transaction_idle = limit;
        self
    }

    /// Starts it and waits until every scheduler sees every executor.
    ///
    /// # Errors
    /// A node does not start, or the cluster is not ready in time.
    pub async fn start(self) -> anyhow::Result<Cluster> {
        let dir = tempfile::Builder::new().prefix("ancho-").tempdir().context("make a folder for the cluster")?;
        let options = self.scheduler_options(dir.path())?;
        let schedulers = start_schedulers(&options).await?;
        let urls: Vec<String> = options.iter().map(|o| format!("http://{}", o.internal)).collect();
        let template = ExecutorOptions {
            streams: u32::try_from(self.streams)?,
            memory_bytes: self.memory_bytes,
            disk_reserve_bytes: self.disk_reserve_bytes,
            ..ExecutorOptions::new(dir.path(), urls)
        };
        let mut cluster = Cluster { options, schedulers, executors: Vec::new(), template, started: 0, dir };
        for _ in 0..self.executors {
            cluster.start_executor().await?;
        }
        cluster.wait_ready().await?;
        Ok(cluster)
    }

    fn scheduler_options(&self, dir: &Path) -> anyhow::Result<Vec<SchedulerOptions>> {
        let internal = (0..self.schedulers).map(|_| loopback()).collect::<anyhow::Result<Vec<_>>>()?;
        let peers: BTreeMap<u64, String> = (1..).zip(internal.iter().map(|a| format!("http://{a}"))).collect();
        (1_u64..)
            .zip(internal)
            .map(|(id, internal)| {
                Ok(SchedulerOptions {
                    data_dir: dir.join(format!("scheduler-{id}")),
                    node_id: Some(id),
                    internal,
                    flight: loopback()?,
                    http: Some(loopback()?),
                    metrics: None,
                    advertise_url: None,
                    peers: peers.clone(),
                    session_ttl: self.session_ttl,
                    partition_wait: self.partition_wait,
                    failover_after: Duration::from_secs(60),
                    local_files: vec![dir.join("files")],
                    transaction_idle: self.transaction_idle,
                    streams: Some(self.streams),
                    memory_bytes: None,
                })
            })
            .collect()
    }
}

/// A running cluster. Its folder goes with it.
pub struct Cluster {
    options: Vec<SchedulerOptions>,
    schedulers: Vec<SchedulerHandle>,
    executors: Vec<ExecutorHandle>,
    template: ExecutorOptions,
    /// Executors that were ever started.
    started: usize,
    dir: TempDir,
}

impl Cluster {
    /// Where the first scheduler serves Flight SQL.
    #[must_use]
    pub fn flight_url(&self) -> String {
        flight_url(&self.options[0])
    }

    /// Where the first scheduler serves HTTP.
    #[must_use]
    pub fn http_address(&self) -> Option<String> {
        self.schedulers.first()?.http_addr().map(|address| address.to_string())
    }

    /// A client of the first scheduler.
    ///
    /// # Errors
    /// Never, with the URLs of a cluster.
    pub fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(&self.flight_url())?)
    }

    /// A client of each scheduler.
    ///
    /// # Errors
    /// Never, with the URLs of a cluster.
    pub fn clients(&self) -> anyhow::Result<Vec<Client>> {
        self.options.iter().map(|o| Ok(Client::new(&flight_url(o))?)).collect()
    }

    /// Its folder, with the data of every node.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The executors.
    #[must_use]
    pub fn executors(&self) -> &[ExecutorHandle] {
        &self.executors
    }

    /// Adds an executor and waits until every scheduler sees it.
    ///
    /// # Errors
    /// As [`ClusterBuilder::start`].
    pub async fn add_executor(&mut self) -> anyhow::Result<()> {
        self.start_executor().await?;
        self.wait_ready().await
    }

    /// Stops an executor, which the schedulers are told, and forgets it.
    pub async fn stop_executor(&mut self, position: usize) {
        self.executors.remove(position).shutdown().await;
    }

    /// Executors that start from now on copy no more bytes than this in a second.
    pub fn limit_copies(&mut self, rate: Option<u64>) {
        self.template.copy_bytes_per_second = rate;
    }

    async fn start_executor(&mut self) -> anyhow::Result<()> {
        self.started += 1;
        let data_dir = self.dir.path().join(format!("executor-{}", self.started));
        let started = Executor::start(ExecutorOptions { data_dir: data_dir.clone(), ..self.template.clone() }).await;
        self.executors.push(started.with_context(|| format!("start the executor in {}", data_dir.display()))?);
        Ok(())
    }

    /// Stops the schedulers and starts them again on the same data, planning with another number of streams.
    ///
    /// # Errors
    /// As [`ClusterBuilder::start`].
    pub async fn restart_schedulers(&mut self, streams: usize) -> anyhow::Result<()> {
        for scheduler in self.schedulers.drain(..) {
            scheduler.shutdown().await;
        }
        for options in &mut self.options {
            options.streams = Some(streams);
        }
        self.schedulers = start_schedulers(&self.options).await?;
        self.wait_ready().await
    }

    /// Stops all nodes in order.
    ///
    /// # Errors
    /// None at present; a node that cannot stop is told here.
    pub async fn stop(self) -> anyhow::Result<()> {
        for executor in &self.executors {
            executor.shutdown().await;
        }
        for scheduler in self.schedulers {
            scheduler.shutdown().await;
        }
        Ok(())
    }

    async fn wait_ready(&self) -> anyhow::Result<()> {
        for client in self.clients()? {
            wait_serving(&client, self.executors.len()).await?;
        }
        Ok(())
    }
}

fn flight_url(options: &SchedulerOptions) -> String {
    format!("grpc://{}", options.flight)
}

/// Together: the members of a group that forms wait for one another.
async fn start_schedulers(options: &[SchedulerOptions]) -> anyhow::Result<Vec<SchedulerHandle>> {
    let starts = options.iter().map(|options| async {
        let started = Scheduler::start(options.clone()).await;
        started.with_context(|| format!("start scheduler {:?}", options.node_id))
    });
    try_join_all(starts).await
}

fn loopback() -> anyhow::Result<SocketAddr> {
    Ok((Ipv4Addr::LOCALHOST, free_port()?).into())
}

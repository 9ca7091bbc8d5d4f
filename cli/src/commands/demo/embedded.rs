//! One scheduler and several executors in this process.
use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use ancho_executor::{Executor, ExecutorHandle, ExecutorOptions};
use ancho_scheduler::{Scheduler, SchedulerHandle, SchedulerOptions};
use anyhow::{Context, bail};
use tokio::time::Instant;

use crate::connection::Connection;

/// Longest time until every executor has joined.
const JOIN_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster of this process.
pub(super) struct EmbeddedCluster {
    scheduler: SchedulerHandle,
    executors: Vec<ExecutorHandle>,
    url: String,
}

impl EmbeddedCluster {
    /// Starts it below `dir` and waits until every executor has joined. `well_known` takes the default ports where
    /// they are free, so that clients find it without being told.
    pub(super) async fn start(dir: &Path, executors: usize, well_known: bool) -> anyhow::Result<Self> {
        let port = |wanted: u16| if well_known && is_free(wanted) { wanted } else { 0 };
        let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut options = SchedulerOptions::new(dir.join("scheduler"));
        options.flight = at(port(50051));
        options.internal = at(0);
        options.http = Some(at(port(8090)));
        options.metrics = well_known.then(|| at(port(9090)));
        let scheduler = Scheduler::start(options).await.context("start the scheduler")?;
        let url = format!("grpc://{}", scheduler.flight_addr());
        let mut cluster = Self { scheduler, executors: Vec::with_capacity(executors), url };
        if let Err(error) = cluster.add_executors(dir, executors).await {
            cluster.shutdown().await;
            return Err(error);
        }
        Ok(cluster)
    }

    async fn add_executors(&mut self, dir: &Path, executors: usize) -> anyhow::Result<()> {
        let scheduler_url = format!("http://{}", self.scheduler.internal_addr());
        for number in 1..=executors {
            let options = ExecutorOptions::new(dir.join(format!("executor-{number}")), vec![scheduler_url.clone()]);
            let executor = Executor::start(options).await.with_context(|| format!("start executor {number}"))?;
            self.executors.push(executor);
        }
        let end = Instant::now() + JOIN_TIMEOUT;
        let mut connection = Connection::open(&self.url).await?;
        loop {
            let missing = match connection.cluster_status().await {
                Ok(status) => {
                    let joined = |e: &&ExecutorHandle| status.up_executors().any(|up| up.id == e.id().to_string());
                    let joined = self.executors.iter().filter(joined).count();
                    match (joined == executors, status.unassigned()) {
                        (true, 0) => return Ok(()),
                        (true, left) => format!("{left} partitions have no owner that serves them"),
                        (false, _) => format!("{joined} of {executors} executors have joined"),
                    }
                }
                Err(error) => error.message,
            };
            if Instant::now() >= end {
                bail!("the cluster is not ready after {} s: {missing}", JOIN_TIMEOUT.as_secs());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Where clients connect.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Where HTTP clients connect.
    pub(super) fn http(&self) -> Option<SocketAddr> {
        self.scheduler.http_addr()
    }

    /// Stops everything, executors first.
    pub(super) async fn shutdown(self) {
        for executor in self.executors {
            executor.shutdown().await;
        }
        self.scheduler.shutdown().await;
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

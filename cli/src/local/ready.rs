//! Waits until a started cluster serves.
use std::time::Duration;

use tokio::time::Instant;

use super::{StartFailure, file::ClusterFile, start::Spawned};
use crate::{connection::Connection, output::counted};

const PAUSE: Duration = Duration::from_millis(100);

/// How long partitions may be without an owner that serves them before the cluster counts as up all the same: one
/// that is damaged stays unserved, and the others must not wait for it.
const LOADING_PATIENCE: Duration = Duration::from_secs(20);

/// What a cluster still lacks.
enum Missing {
    /// A part of it, in words.
    Part(String),
    /// Partitions that nobody serves.
    Owners(u64),
}

/// Until every started process has said that it is up, and every scheduler knows a leader, all executors of the file
/// as up, and an owner that serves each partition.
pub(super) async fn wait(
    cluster: &ClusterFile,
    spawned: &[Spawned],
    timeout: Duration,
    tell: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<()> {
    let end = Instant::now() + timeout;
    let mut told = String::new();
    let mut loading_since = None;
    loop {
        if let Some(dead) = spawned.iter().find(|s| !s.process.is_alive()) {
            return Err(dead.failure(format!("{} ended before it was ready", dead.name)).into());
        }
        let missing = match spawned.iter().find(|s| !s.ready_file.exists()) {
            Some(slow) => format!("{} is starting", slow.name),
            None => match first_missing(cluster).await {
                None => return Ok(()),
                Some(Missing::Part(part)) => part,
                Some(Missing::Owners(partitions)) => {
                    let text = format!("{} without an owner that serves it", counted(partitions, "partition"));
                    if loading_since.get_or_insert_with(Instant::now).elapsed() >= LOADING_PATIENCE {
                        tell(&format!("warning: {text}; `ancho cluster status` names the tables"));
                        return Ok(());
                    }
                    text
                }
            },
        };
        if missing != told {
            tell(&missing);
            told.clone_from(&missing);
        }
        if Instant::now() >= end {
            let summary = format!("the cluster is not ready after {} s: {missing}", timeout.as_secs());
            let to_blame = spawned.iter().find(|s| missing.starts_with(&format!("{} ", s.name))).or(spawned.first());
            return Err(to_blame
                .map_or(StartFailure { summary: summary.clone(), log: None }, |s| s.failure(summary))
                .into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// What is still missing; `None` when nothing is.
async fn first_missing(cluster: &ClusterFile) -> Option<Missing> {
    for scheduler in &cluster.schedulers {
        let name = &scheduler.name;
        let url = format!("grpc://{}", scheduler.flight);
        let status = match Connection::open(&url).await {
            Ok(mut connection) => connection.cluster_status().await,
            Err(error) => Err(error),
        };
        let status = match status {
            Ok(status) => status,
            Err(error) => return Some(Missing::Part(format!("{name} does not answer: {}", error.message))),
        };
        if !status.has_leader() {
            return Some(Missing::Part(format!("{name} knows no leader yet")));
        }
        for executor in &cluster.executors {
            let url = format!("http://{}", executor.address);
            if !status.up_executors().any(|up| up.url.trim_end_matches('/') == url) {
                return Some(Missing::Part(format!("{} is not known to {name} yet", executor.name)));
            }
        }
        if status.unassigned() > 0 {
            return Some(Missing::Owners(status.unassigned()));
        }
    }
    None
}

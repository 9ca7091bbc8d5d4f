//! Stops the processes of a cluster.
use std::{path::Path, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    DirectoryLock,
    file::{ClusterFile, ProcessMark},
    process,
};

/// How long a process may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(20);

const PAUSE: Duration = Duration::from_millis(50);

/// A process that was stopped, or could not be.
#[derive(Debug)]
pub struct Stopped {
    /// `executor-1`
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// How it ended.
    pub how: How,
}

/// How a process ended.
#[derive(Debug)]
pub enum How {
    /// By itself, after it was asked to.
    Gracefully,
    /// It was ended at once, as asked for.
    Killed,
    /// It did not end in time and was killed.
    KilledAfterWaiting,
    /// It still runs.
    Not(String),
}

/// Stops everything that runs of the cluster in `dir`: executors first, so that they can tell the schedulers.
/// Nothing to stop is fine.
///
/// # Errors
/// The directory's file cannot be read or written.
pub async fn down(dir: &Path, kill: bool) -> anyhow::Result<Vec<Stopped>> {
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let _lock = DirectoryLock::take(dir)?;
    let Some(mut cluster) = ClusterFile::read(dir)? else { return Ok(Vec::new()) };
    let stopped = stop(&mut cluster, None, kill).await;
    cluster.write(dir)?;
    Ok(stopped)
}

/// Stops the named processes, or all.
pub(super) async fn stop(cluster: &mut ClusterFile, only: Option<&[&str]>, kill: bool) -> Vec<Stopped> {
    let mut stopped = Vec::new();
    for role in ["executor-", "scheduler-"] {
        let group: Vec<(&str, &mut ProcessMark)> = cluster
            .processes_mut()
            .filter(|(name, _)| name.starts_with(role) && only.is_none_or(|only| only.contains(name)))
            .collect();
        stopped.extend(stop_group(group, kill).await);
    }
    stopped
}

async fn stop_group(group: Vec<(&str, &mut ProcessMark)>, kill: bool) -> Vec<Stopped> {
    let mut waiting = Vec::new();
    let mut stopped = Vec::new();
    for (name, mark) in group {
        match mark.pid {
            Some(pid) if mark.is_alive() => match process::end(pid, kill) {
                Ok(()) => waiting.push((name, mark, pid)),
                Err(error) => stopped.push(Stopped { name: name.to_owned(), pid, how: How::Not(format!("{error:#}")) }),
            },
            _ => *mark = ProcessMark::STOPPED,
        }
    }
    let patience = Instant::now() + PATIENCE;
    let mut impatient = kill;
    while !waiting.is_empty() {
        let mut still = Vec::new();
        for (name, mark, pid) in waiting {
            if mark.is_alive() {
                still.push((name, mark, pid));
                continue;
            }
            *mark = ProcessMark::STOPPED;
            let how = match (kill, impatient) {
                (true, _) => How::Killed,
                (false, true) => How::KilledAfterWaiting,
                (false, false) => How::Gracefully,
            };
            stopped.push(Stopped { name: name.to_owned(), pid, how });
        }
        waiting = still;
        if !waiting.is_empty() && Instant::now() >= patience {
            if Instant::now() >= patience + PATIENCE {
                // Only a process stuck in the kernel survives being killed this long.
                let how = |pid| How::Not(format!("process {pid} does not end even when killed"));
                stopped.extend(waiting.iter().map(|(name, _, pid)| Stopped {
                    name: (*name).to_owned(),
                    pid: *pid,
                    how: how(*pid),
                }));
                return stopped;
            }
            if !impatient {
                impatient = true;
                for (_, _, pid) in &waiting {
                    let _ = process::end(*pid, true);
                }
            }
        }
        sleep(PAUSE).await;
    }
    stopped
}

//! `cluster.json`: which processes a local cluster has, and where they listen.
//!
//! ```json
//! {
//!   "format": 1,
//!   "version": "0.1.0",
//!   "flight_urls": ["grpc://127.0.0.1:20311"],
//!   "schedulers": [{
//!     "name": "scheduler-1", "node_id": 1, "pid": 4711, "started": 99120,
//!     "flight": "127.0.0.1:20311", "internal": "127.0.0.1:20312",
//!     "http": "127.0.0.1:20313", "metrics": "127.0.0.1:20314"
//!   }],
//!   "executors": [{
//!     "name": "executor-1", "pid": 4712, "started": 99121, "address": "127.0.0.1:20315"
//!   }]
//! }
//! ```
//!
//! * `format` – grows when the meaning of a key changes
//! * `version` – release that wrote the file
//! * `flight_urls` – where clients connect, one URL per scheduler
//! * `name` – also the name of the data directory, and with `.log` that of the log under `logs/`
//! * `pid` – process id; null while it is stopped
//! * `started` – the system's own mark of when that process started (clock ticks since boot), so that another process
//!   with a re-used id is not taken for it; null where the system does not tell
//!
//! The file is replaced as a whole, so a reader sees one state or another.
use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::process;

/// Of this meaning.
const FORMAT: u32 = 1;

/// The content of `cluster.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterFile {
    format: u32,
    version: String,
    /// Where clients connect.
    pub flight_urls: Vec<String>,
    /// Schedulers by number.
    pub schedulers: Vec<SchedulerEntry>,
    /// Executors.
    pub executors: Vec<ExecutorEntry>,
}

/// A process that was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessMark {
    /// Process id; `None` while it is stopped.
    pub pid: Option<u32>,
    /// When it started, in the system's own measure.
    pub started: Option<u64>,
}

/// A scheduler of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedulerEntry {
    /// `scheduler-1`
    pub name: String,
    /// Number in the group.
    pub node_id: u64,
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessMark,
    /// Flight SQL.
    pub flight: SocketAddr,
    /// For schedulers and executors.
    pub internal: SocketAddr,
    /// HTTP.
    pub http: SocketAddr,
    /// Prometheus.
    pub metrics: SocketAddr,
}

/// An executor of the cluster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutorEntry {
    /// `executor-1`
    pub name: String,
    /// Its process.
    #[serde(flatten)]
    pub process: ProcessMark,
    /// Where it listens.
    pub address: SocketAddr,
}

impl ProcessMark {
    /// Of no process.
    pub const STOPPED: Self = Self { pid: None, started: None };

    /// Whether that very process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.pid.is_some_and(|pid| process::is_alive(pid, self.started))
    }
}

impl ClusterFile {
    /// A cluster of which nothing runs.
    #[must_use]
    pub fn new(schedulers: Vec<SchedulerEntry>, executors: Vec<ExecutorEntry>) -> Self {
        let flight_urls = schedulers.iter().map(|s| format!("grpc://{}", s.flight)).collect();
        Self { format: FORMAT, version: env!("CARGO_PKG_VERSION").to_owned(), flight_urls, schedulers, executors }
    }

    /// Where it lies.
    #[must_use]
    pub fn path(dir: &Path) -> PathBuf {
        dir.join("cluster.json")
    }

    /// Reads it; `None` where there is none.
    ///
    /// # Errors
    /// It cannot be read, or was written in another format.
    pub fn read(dir: &Path) -> anyhow::Result<Option<Self>> {
        let path = Self::path(dir);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
        };
        let file: Self = serde_json::from_str(&text).with_context(|| format!("read {}", path.display()))?;
        anyhow::ensure!(
            file.format == FORMAT,
            "{} has format {}, this binary understands {FORMAT}: use the one that started the cluster",
            path.display(),
            file.format
        );
        Ok(Some(file))
    }

    /// Replaces it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, dir: &Path) -> anyhow::Result<()> {
        let path = Self::path(dir);
        let staged = dir.join("cluster.json.tmp");
        let text = serde_json::to_string_pretty(self)?;
        fs::write(&staged, text + "\n")
            .and_then(|()| fs::File::open(&staged)?.sync_all())
            .and_then(|()| fs::rename(&staged, &path))
            .with_context(|| format!("write {}", path.display()))
    }

    /// Names and processes, executors first: the order in which they are stopped.
    pub fn processes_mut(&mut self) -> impl Iterator<Item = (&str, &mut ProcessMark)> {
        let executors = self.executors.iter_mut().map(|e| (e.name.as_str(), &mut e.process));
        let schedulers = self.schedulers.iter_mut().map(|s| (s.name.as_str(), &mut s.process));
        executors.chain(schedulers)
    }

    /// Names of the processes that run.
    #[must_use]
    pub fn running(&self) -> Vec<&str> {
        let executors = self.executors.iter().filter(|e| e.process.is_alive()).map(|e| e.name.as_str());
        let schedulers = self.schedulers.iter().filter(|s| s.process.is_alive()).map(|s| s.name.as_str());
        schedulers.chain(executors).collect()
    }

    /// The schedulers' peers as the option `--peers` takes them.
    #[must_use]
    pub fn peers(&self) -> String {
        let peers = self.schedulers.iter().map(|s| format!("{}=http://{}", s.node_id, s.internal));
        peers.collect::<Vec<_>>().join(",")
    }

    /// The schedulers' internal URLs as the option `--scheduler-address` takes them.
    #[must_use]
    pub fn scheduler_addresses(&self) -> String {
        self.schedulers.iter().map(|s| format!("http://{}", s.internal)).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> ClusterFile {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let scheduler = SchedulerEntry {
            name: "scheduler-1".into(),
            node_id: 1,
            process: ProcessMark { pid: Some(std::process::id()), started: None },
            flight: at(1),
            internal: at(2),
            http: at(3),
            metrics: at(4),
        };
        let executor = ExecutorEntry { name: "executor-1".into(), process: ProcessMark::STOPPED, address: at(5) };
        ClusterFile::new(vec![scheduler], vec![executor])
    }

    #[test]
    fn the_file_is_read_back_and_names_what_runs() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(ClusterFile::read(dir.path()).expect("read"), None);
        let file = sample();
        file.write(dir.path()).expect("written");
        assert_eq!(ClusterFile::read(dir.path()).expect("read"), Some(file.clone()));
        assert_eq!(file.running(), ["scheduler-1"]);
        assert_eq!(file.flight_urls, ["grpc://127.0.0.1:1"]);
        assert_eq!(
            (file.peers().as_str(), file.scheduler_addresses().as_str()),
            ("1=http://127.0.0.1:2", "http://127.0.0.1:2")
        );
    }

    #[test]
    fn another_format_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = sample();
        file.format = 2;
        file.write(dir.path()).expect("written");
        let error = ClusterFile::read(dir.path()).expect_err("format 2");
        assert!(error.to_string().contains("format 2"), "{error}");
    }
}

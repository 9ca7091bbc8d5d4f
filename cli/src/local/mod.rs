//! Clusters of processes on this machine: what `ancho up`, `ancho down` and `ancho bench` work with.
//!
//! A cluster lives in one directory:
//!
//! ```text
//! D/cluster.json      what runs where (see [`file`])
//! D/scheduler-1/      data directory of a scheduler, one each
//! D/executor-1/       data directory of an executor, one each
//! D/logs/*.log        what each process wrote, appended over restarts
//! D/run/*.ready       written by a process once others can connect to it
//! D/.lock             held while `up` or `down` works on the directory
//! ```
//!
//! The processes are this same binary, each in a session of its own, so they outlive the terminal.
pub mod file;
mod logs;
mod ports;
mod process;
mod ready;
mod start;
mod stop;

use std::{fmt, fs, io, path::Path};

use anyhow::Context;

pub use self::{
    file::{ClusterFile, ExecutorEntry, SchedulerEntry},
    start::{Started, UpOptions, up},
    stop::{How, Stopped, down},
};

/// Why a cluster did not start: with the end of the log of the process that is to blame.
#[derive(Debug)]
pub struct StartFailure {
    /// What happened, in one line.
    pub summary: String,
    /// Path of the log and its last lines.
    pub log: Option<(String, String)>,
}

impl fmt::Display for StartFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)?;
        if let Some((path, lines)) = &self.log {
            write!(f, "\n--- the last lines of {path}:\n{lines}")?;
        }
        Ok(())
    }
}

impl std::error::Error for StartFailure {}

/// Held while one command changes the directory.
struct DirectoryLock {
    /// The lock ends when the file is closed.
    _file: fs::File,
}

impl DirectoryLock {
    fn take(dir: &Path) -> anyhow::Result<Self> {
        let path = dir.join(".lock");
        let file = fs::File::create(&path).with_context(|| format!("create {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(fs::TryLockError::WouldBlock) => {
                anyhow::bail!("another `ancho up` or `ancho down` works on {}: wait for it to end", dir.display())
            }
            Err(fs::TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(Self { _file: file })
            }
            Err(fs::TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
        }
    }
}

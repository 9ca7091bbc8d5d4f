//! The data directory of an executor: who it is, which cluster it belongs to, and the lock that keeps a second
//! process out.
//!
//! ```text
//! <data_dir>/lock             held while a process runs here
//! <data_dir>/executor.json    format version, executor id, cluster id
//! <data_dir>/partitions/<id>/ one directory per partition
//! <data_dir>/copies/<id>/     partitions that are being copied from other executors
//! <data_dir>/snapshots/      partitions of snapshots while a statement reads them; emptied at each start
//! <data_dir>/spill/           what queries and compaction have no memory for; emptied at each start
//! ```
use std::{
    fs::{self, File, TryLockError},
    io::Write,
    path::{Path, PathBuf},
};

use ancho_common::ids::ExecutorId;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Result};

/// Newest format of the directory that this release reads, and the one it writes.
pub const FORMAT: u32 = 1;

const FILE: &str = "executor.json";
const LOCK: &str = "lock";
const PARTITIONS: &str = "partitions";

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stored {
    format: u32,
    executor_id: String,
    cluster_id: Option<String>,
}

/// An opened and locked data directory.
#[derive(Debug)]
pub struct DataDir {
    dir: PathBuf,
    stored: Mutex<Stored>,
    // Unlocked by the system when the file is closed, also when the process dies.
    _lock: File,
}

impl DataDir {
    /// Opens or creates the directory and locks it.
    ///
    /// # Errors
    /// It is in use, damaged, of a newer format, or the file system refuses.
    pub fn open(dir: &Path) -> Result<Self> {
        let partitions = dir.join(PARTITIONS);
        fs::create_dir_all(&partitions).map_err(Error::io("creating", &partitions))?;
        let lock = lock(dir)?;
        let path = dir.join(FILE);
        let stored = match fs::read(&path) {
            Ok(bytes) => read(&path, &bytes)?,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                refuse_orphans(&path, &partitions)?;
                let fresh = Stored { format: FORMAT, executor_id: Uuid::new_v4().to_string(), cluster_id: None };
                write(dir, &fresh)?;
                fresh
            }
            Err(e) => return Err(Error::io("reading", &path)(e)),
        };
        Ok(Self { dir: dir.to_owned(), stored: Mutex::new(stored), _lock: lock })
    }

    /// Stable id of this executor.
    #[must_use]
    pub fn executor_id(&self) -> ExecutorId {
        ExecutorId(self.stored.lock().executor_id.clone())
    }

    /// The cluster it belongs to, once it was welcomed by one.
    #[must_use]
    pub fn cluster_id(&self) -> Option<String> {
        self.stored.lock().cluster_id.clone()
    }

    /// Records the cluster on first contact and checks it on every later one.
    ///
    /// # Errors
    /// The directory belongs to another cluster, or cannot be written.
    pub fn join(&self, cluster_id: &str) -> Result<()> {
        let mut stored = self.stored.lock();
        match &stored.cluster_id {
            Some(own) if own == cluster_id => Ok(()),
            Some(own) => {
                Err(Error::OtherCluster { dir: self.dir.clone(), own: own.clone(), theirs: cluster_id.to_owned() })
            }
            None => {
                let joined = Stored { cluster_id: Some(cluster_id.to_owned()), ..stored.clone() };
                write(&self.dir, &joined)?;
                *stored = joined;
                Ok(())
            }
        }
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Where partitions live.
    #[must_use]
    pub fn partitions(&self) -> PathBuf {
        self.dir.join(PARTITIONS)
    }
}

fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)
        .map_err(Error::io("opening", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse(dir.to_owned())),
        Err(TryLockError::Error(e)) => Err(Error::io("locking", &path)(e)),
    }
}

/// A new identity beside old partitions would orphan them: the cluster knows them under the lost id.
fn refuse_orphans(path: &Path, partitions: &Path) -> Result<()> {
    let mut entries = fs::read_dir(partitions).map_err(Error::io("reading", partitions))?;
    if entries.next().is_some() {
        return Err(Error::Identity {
            path: path.to_owned(),
            reason: format!("it is missing although {} holds partitions", partitions.display()),
        });
    }
    Ok(())
}

fn read(path: &Path, bytes: &[u8]) -> Result<Stored> {
    let bad = |reason: String| Error::Identity { path: path.to_owned(), reason };
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|e| bad(e.to_string()))?;
    // The format decides how to read the rest, so it is looked at first.
    let format = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
    let found = u32::try_from(format).unwrap_or(u32::MAX);
    if found > FORMAT {
        return Err(Error::Format { path: path.to_owned(), found, supported: FORMAT });
    }
    let stored: Stored = serde_json::from_value(value).map_err(|e| bad(e.to_string()))?;
    Uuid::parse_str(&stored.executor_id).map_err(|e| bad(format!("executor_id is not a UUID: {e}")))?;
    Ok(stored)
}

/// Writes beside, syncs, renames, syncs the directory: a crash leaves the old file or the new one.
fn write(dir: &Path, stored: &Stored) -> Result<()> {
    let path = dir.join(FILE);
    let beside = dir.join(format!("{FILE}.new"));
    let mut text =
        serde_json::to_vec_pretty(stored).map_err(|e| Error::Identity { path: path.clone(), reason: e.to_string() })?;
    text.push(b'\n');
    let put = || -> std::io::Result<()> {
        let mut file = File::create(&beside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        File::open(dir)?.sync_all()
    };
    put().map_err(Error::io("writing", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_outlives_the_process_and_keeps_others_out() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(dir.path()).unwrap();
        let id = first.executor_id();
        assert!(matches!(DataDir::open(dir.path()), Err(Error::InUse(_))));
        first.join("one").unwrap();
        drop(first);
        let second = DataDir::open(dir.path()).unwrap();
        assert_eq!((second.executor_id(), second.cluster_id()), (id, Some("one".to_owned())));
        second.join("one").unwrap();
        let refused = second.join("two").unwrap_err().to_string();
        assert!(refused.contains("one") && refused.contains("two"), "{refused}");
    }

    #[test]
    fn damage_and_newer_formats_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let open = |text: &str| {
            fs::write(dir.path().join(FILE), text).unwrap();
            DataDir::open(dir.path()).unwrap_err()
        };
        assert!(matches!(open("{"), Error::Identity { .. }));
        assert!(matches!(open(r#"{"format":99}"#), Error::Format { found: 99, .. }));
        assert!(matches!(open(r#"{"format":1,"executor_id":"me"}"#), Error::Identity { .. }));
        fs::remove_file(dir.path().join(FILE)).unwrap();
        fs::create_dir(dir.path().join(PARTITIONS).join("7")).unwrap();
        assert!(matches!(DataDir::open(dir.path()), Err(Error::Identity { .. })));
    }
}

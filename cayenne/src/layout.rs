//! Names inside a partition directory, and syncing directories.
//!
//! ```text
//! <partition>/partition.db      metastore (SQLite; -wal and -shm beside it while open)
//! <partition>/partition.lock    held while a writer has the partition open
//! <partition>/files/<id>.vortex immutable data files
//! <partition>/lookup_index/<id>-<run>.idx  runs of secondary indexes, each of one data file
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::{Error, Result};

pub(crate) const METASTORE: &str = "partition.db";
/// SQLite's write-ahead log.
pub(crate) const METASTORE_LOG: &str = "partition.db-wal";
pub(crate) const NEW_METASTORE: &str = "partition.db.new";
pub(crate) const LOCK: &str = "partition.lock";
pub(crate) const FILES: &str = "files";
/// Runs of indexes. Not there before the first one.
pub(crate) const RUNS: &str = "lookup_index";
const EXTENSION: &str = "vortex";
const RUN_EXTENSION: &str = "idx";

/// A fresh id for a data file.
pub(crate) fn new_file_id() -> Uuid {
    Uuid::now_v7()
}

/// The name of a data file, relative to the partition directory.
pub(crate) fn file_name(id: Uuid) -> String {
    format!("{FILES}/{}.{EXTENSION}", id.simple())
}

/// The name of a run of an index over a data file, relative to the partition directory.
pub(crate) fn run_name(file: Uuid, run: Uuid) -> String {
    format!("{RUNS}/{}-{}.{RUN_EXTENSION}", file.simple(), run.simple())
}

/// The runs of indexes that exist, relative to the partition directory. Other files are left alone.
pub(crate) fn existing_runs(dir: &Path) -> Result<Vec<String>> {
    let runs = dir.join(RUNS);
    let failed = |source| Error::io("list", &runs, source);
    let entries = match fs::read_dir(&runs) {
        Ok(entries) => entries,
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(failed(source)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let is_run = Path::new(&name).extension().is_some_and(|extension| extension == RUN_EXTENSION);
        names.extend(name.to_str().filter(|_| is_run).map(|name| format!("{RUNS}/{name}")));
    }
    names.sort();
    Ok(names)
}

/// The id of a data file from its name; the inverse of [`file_name`].
pub(crate) fn file_id(name: &str) -> Option<Uuid> {
    let stem = name.strip_prefix(FILES)?.strip_prefix('/')?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    Uuid::try_parse(stem).ok().filter(|id| file_name(*id) == name)
}

/// The data files that exist, relative to the partition directory. Other files are left alone.
pub(crate) fn existing_data_files(dir: &Path) -> Result<Vec<String>> {
    let files = dir.join(FILES);
    let failed = |source| Error::io("list", &files, source);
    let mut names = Vec::new();
    for entry in fs::read_dir(&files).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_data = Path::new(&name).extension().is_some_and(|extension| extension == EXTENSION);
        match name.to_str() {
            Some(name) if is_data => names.push(format!("{FILES}/{name}")),
            _ => tracing::warn!(path = %entry.path().display(), "ignoring a file that is no data file"),
        }
    }
    names.sort();
    Ok(names)
}

/// Makes additions to and removals from a directory durable.
pub(crate) fn sync_directory(dir: &Path) -> Result<()> {
    File::open(dir).and_then(|handle| handle.sync_all()).map_err(|source| Error::io("sync directory", dir, source))
}

/// Creates a directory and makes its entry in the parent durable. Fine if it exists.
pub(crate) fn create_directory(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(|source| Error::io("create directory", dir, source))?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(&PathBuf::from(".")),
    }
}

/// Removes a file; fine if it is gone already.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path, source)),
        _ => Ok(()),
    }
}

//! Reading a whole partition again to see whether it still holds what was written.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::partition::{Inner, Partition};
use crate::sink::hash_file;
use crate::state::DataFile;

/// A file that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedFile {
    /// Path inside the partition directory.
    pub file: String,
    /// The error a reader would get, naming table, partition and file.
    pub problem: String,
}

/// What [`Partition::verify`] found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VerifyReport {
    /// Files that were read.
    pub files: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Deletion vectors that were read.
    pub vectors: u64,
    /// Runs of indexes that were read. Damaged ones are made again and are no loss.
    pub indexes: u64,
    /// Files that are missing, have another length or another SHA-256, or whose deletion vector is damaged.
    pub damaged: Vec<DamagedFile>,
}

impl Partition {
    /// Reads every file and every deletion vector of every version and staged write and compares it with its recorded SHA-256.
    ///
    /// # Errors
    /// Only when reading could not be tried; damage is in the report.
    pub async fn verify(&self) -> Result<VerifyReport> {
        // The pin keeps the files of the current version; files of older ones may go meanwhile, which is no damage.
        let pin = self.pin(None)?;
        let report = self.blocking("verifying the partition", verify).await?;
        drop(pin);
        Ok(report)
    }
}

fn verify(inner: &Arc<Inner>) -> Result<VerifyReport> {
    let mut report = VerifyReport::default();
    {
        let metastore = inner.metastore.lock();
        let rows: HashMap<String, u64> =
            inner.state.lock().all_files().iter().map(|file| (file.name.clone(), file.summary.rows)).collect();
        let (vectors, bad) = metastore.check_vectors(|file| rows.get(file).copied())?;
        report.vectors = vectors;
        report.damaged.extend(bad.into_iter().map(|(file, error)| DamagedFile { file, problem: error.to_string() }));
    }
    for (file, run) in inner.lookup.all() {
        report.indexes += 1;
        if let Err(error) = run.verify() {
            tracing::warn!(partition = %inner.place, %file, %error, "an index of a data file is damaged and made again");
            inner.lookup.give_up(file, &run);
        }
    }
    let files = inner.state.lock().all_files();
    for file in files {
        match verify_file(inner, &file) {
            Ok(bytes) => report.bytes += bytes,
            Err(_) if !still_known(inner, &file) => continue,
            Err(error) => report.damaged.push(DamagedFile { file: file.name.clone(), problem: error.to_string() }),
        }
        report.files += 1;
    }
    Ok(report)
}

fn still_known(inner: &Inner, file: &Arc<DataFile>) -> bool {
    inner.state.lock().all_files().iter().any(|known| Arc::ptr_eq(known, file))
}

/// Compares a file with its recorded length and SHA-256. Blocks.
pub(crate) fn verify_file(inner: &Inner, file: &DataFile) -> Result<u64> {
    inner.check_length(file)?;
    let digest = hash_file(&file.path).map_err(|source| Error::io("read", &file.path, source))?;
    if digest.sha256 != file.sha256 {
        return Err(Error::FileDamaged {
            place: Arc::clone(&inner.place),
            file: file.name.clone(),
            detail: "its SHA-256 differs from the recorded one".to_owned(),
        });
    }
    Ok(digest.bytes)
}

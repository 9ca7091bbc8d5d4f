//! Putting new files in the place of old ones without changing the rows: the one way in which stored rows are rewritten.
//!
//! The version stays, its generation grows. Readers that hold the older generation keep its files. The swap
//! is a compare-and-swap: what was appended meanwhile is carried on, and files that changed meanwhile refuse it.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::file_set::{FileSet, FinishedFiles};
use crate::keyed::carry::carry;
use crate::layout;
use crate::options::WriteOptions;
use crate::partition::{Inner, Partition};
use crate::pin::PinnedVersion;
use crate::state::{Deletes, VisibleFile};
use crate::stats::DataSummary;

/// New files on their way into the place of old ones. Dropped before [`commit`](Self::commit), it removes what it wrote.
pub struct Replacement {
    partition: Partition,
    read: PinnedVersion,
    out: HashSet<Uuid>,
    files: FileSet,
}

/// What a replacement did.
#[derive(Debug, Clone, PartialEq)]
pub struct Replaced {
    /// The generation that has the new files.
    pub generation: u64,
    /// Files that it does not have any more.
    pub files_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// What the new files hold.
    pub new: DataSummary,
}

impl Partition {
    /// Starts to replace data files of a pinned version, whose rows the caller reads and writes again, in any order and
    /// without the deleted ones. [`PinnedVersion::data_files`] lists them, and
    /// [`ScanRequest::files`](crate::ScanRequest::files) reads them.
    ///
    /// # Errors
    /// [`Error::FilesChanged`] when one of them is not part of the pinned version, [`Error::ReadOnly`].
    pub fn replace_files(&self, read: &PinnedVersion, files: &[Uuid], options: WriteOptions) -> Result<Replacement> {
        self.inner.check_writable()?;
        let known: HashSet<Uuid> = read.files().iter().map(|entry| entry.file.id).collect();
        if let Some(missing) = files.iter().find(|id| !Arc::ptr_eq(read.inner(), &self.inner) || !known.contains(id)) {
            return Err(Error::FilesChanged {
                place: Arc::clone(&self.inner.place),
                detail: format!("data file '{}' is not part of the pinned version", layout::file_name(*missing)),
            });
        }
        Ok(Replacement {
            partition: self.clone(),
            read: read.clone(),
            out: files.iter().copied().collect(),
            files: FileSet::new(&self.inner, Arc::clone(&read.view().schema), Uuid::now_v7(), options),
        })
    }

    /// Data files that must stay for now, because staged writes delete rows of them.
    pub fn held_files(&self) -> HashSet<Uuid> {
        self.inner.state.lock().held()
    }
}

impl Replacement {
    /// Takes in rows.
    ///
    /// # Errors
    /// As [`StagedWriter::write`](crate::StagedWriter::write).
    pub async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        self.files.write(batch).await.map(|_| ())
    }

    /// As [`FileSet::charge_nothing`].
    pub(crate) fn charge_nothing(&mut self) {
        self.files.charge_nothing();
    }

    /// Whether a file is being written: an encoder holds its buffers.
    pub fn has_open_file(&self) -> bool {
        self.files.has_open_file()
    }

    /// Ends the file that is being written. The next rows begin another one.
    ///
    /// # Errors
    /// As [`commit`](Self::commit); drop the replacement then.
    pub async fn end_file(&mut self) -> Result<()> {
        self.files.end_file().await
    }

    /// Makes the new files durable, checks them, and puts them in the place of the old ones.
    ///
    /// # Errors
    /// [`Error::FilesChanged`] when rows of the old files were deleted, or the files replaced, since the version was pinned, or
    /// when a staged write deletes rows of them; [`Error::ReplacementRows`] when the number of rows is not that of the old
    /// files; of the disk and the encoder. Then nothing has changed.
    pub async fn commit(self) -> Result<Replaced> {
        let Self { partition, read, out, files } = self;
        let files = files.finish().await?;
        let Some(keyed) = partition.inner.keyed.clone() else {
            return partition.blocking("replacing files", move |inner| replace(inner, &read, &out, files, None)).await;
        };
        let guard = keyed.begin_commit().await;
        let carried = if partition.carries_deletes() {
            let now = partition.pin(None)?;
            let new = files.data_files(&partition.inner.dir);
            let new: Vec<VisibleFile> = new.iter().map(|file| VisibleFile::new(file, 0, &now.view().schema)).collect();
            carry(&keyed, &read, &now, &out, &new).await?
        } else {
            None
        };
        let (replaced, guard) = partition
            .blocking("replacing files", move |inner| {
                replace(inner, &read, &out, files, carried.as_ref()).map(|replaced| (replaced, guard))
            })
            .await?;
        // Not needed for what was asked: who needs the index takes in what it does not know.
        let covered = match partition.pin(None) {
            Ok(pin) => keyed.cover(&pin, &guard).await,
            Err(error) => Err(error),
        };
        if let Err(error) = covered {
            tracing::debug!(%error, "the keys of new files are not indexed yet");
        }
        Ok(replaced)
    }
}

fn replace(
    inner: &Arc<Inner>,
    read: &PinnedVersion,
    out: &HashSet<Uuid>,
    mut files: FinishedFiles,
    carried: Option<&Deletes>,
) -> Result<Replaced> {
    let place = || Arc::clone(&inner.place);
    let expected: u64 =
        read.files().iter().filter(|entry| out.contains(&entry.file.id)).map(|entry| entry.rows()).sum();
    if files.summary.rows != expected {
        return Err(Error::ReplacementRows { place: place(), expected, found: files.summary.rows });
    }
    inner.step(Step::SyncDirectory)?;
    if !files.records.is_empty() {
        layout::sync_directory(&inner.dir.join(layout::FILES))?;
    }
    let new = files.data_files(&inner.dir);
    let mut metastore = inner.metastore.lock();
    inner.step(Step::Replace)?;
    let planned = inner.state.lock().plan_replace(read.view(), out, new, carried);
    let change = planned.map_err(|detail| Error::FilesChanged { place: place(), detail })?;
    if let Err(error) = metastore.replace(&files.records, &change) {
        // If the outcome of the commit is unknown the files must stay; start-up removes them if nothing names them.
        let unnamed = files.records.iter().all(|file| matches!(metastore.knows_file(&file.path), Ok(false)));
        if !unnamed {
            files.created.keep();
        }
        return Err(error);
    }
    files.created.keep();
    let replaced = Replaced {
        generation: change.view.generation,
        files_out: change.removed.len() as u64,
        bytes_out: change.removed.iter().map(|file| file.summary.bytes).sum(),
        new: files.summary.clone(),
    };
    inner.state.lock().replace(change);
    inner.take_over_runs(&files.records);
    inner.step(Step::Replaced)?;
    Ok(replaced)
}

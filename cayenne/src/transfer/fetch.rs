//! Data files into a directory: fetched in ranges, several at a time, hashed as they come and synced.
//!
//! A file has the name of a data file only when all of it is there, verified and durable; until then it ends in `.part`.
//! So after a failure or a crash the files that are complete need not be fetched again.

use std::fs::{self, File};
use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, stream};
use sha2::{Digest, Sha256};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::task::AbortOnDropHandle;

use super::encoding::Checksum;
use super::install::InstallOptions;
use super::manifest::ManifestFile;
use super::source::FileSource;
use crate::error::{Error, Place, Result};
use crate::layout;
use crate::sink::hash_file;

/// What the name of an incomplete file ends in.
const PARTIAL: &str = "part";
/// The wait before a range is asked for again; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// Brings the files of a manifest into one directory.
pub(super) struct Fetch<'a> {
    pub(super) dir: &'a Path,
    pub(super) files: &'a [ManifestFile],
    pub(super) place: Arc<Place>,
    pub(super) source: Arc<dyn FileSource>,
    pub(super) options: &'a InstallOptions,
    /// Nobody else brings files into the directory: what is incomplete there can go.
    pub(super) alone: bool,
}

/// Some bytes of a file, and the memory that they are charged to.
struct Piece {
    file: Arc<ManifestFile>,
    bytes: Bytes,
    last: bool,
    _memory: Option<OwnedSemaphorePermit>,
}

impl Fetch<'_> {
    /// The files that are not in the directory yet. Those that are were read again, which is cheaper than fetching them.
    pub(super) async fn missing(&self) -> Result<Vec<Arc<ManifestFile>>> {
        let (files, alone) = (self.files.to_vec(), self.alone);
        let (dir, older) = (self.dir.to_path_buf(), self.options.older_copy.clone());
        let progress = Arc::clone(&self.options.progress);
        let total = files.iter().map(|file| file.bytes).sum();
        progress.total_bytes.store(total, Ordering::Relaxed);
        progress.done_bytes.store(0, Ordering::Relaxed);
        self.blocking(move || {
            if alone {
                remove_partial(&dir.join(layout::FILES))?;
            }
            let mut missing = Vec::new();
            for file in files {
                if is_whole(&dir.join(file.name()), &file) || take_over(older.as_deref(), &dir, &file)? {
                    progress.done_bytes.fetch_add(file.bytes, Ordering::Relaxed);
                } else {
                    missing.push(Arc::new(file));
                }
            }
            Ok(missing)
        })
        .await
    }

    /// Fetches files. Those that are complete stay if another one fails.
    pub(super) async fn fetch(&self, files: Vec<Arc<ManifestFile>>) -> Result<()> {
        let mut pieces = self.pieces(files);
        let mut open: Option<Partial> = None;
        while let Some(piece) = pieces.next().await {
            let piece = piece?;
            let partial = match open.take() {
                Some(partial) => partial,
                None => Partial::new(self.dir, Arc::clone(&piece.file)),
            };
            let (place, progress) = (Arc::clone(&self.place), Arc::clone(&self.options.progress));
            open = self
                .blocking(move || {
                    let length = piece.bytes.len() as u64;
                    let partial = partial.take_in(piece, &place)?;
                    progress.done_bytes.fetch_add(length, Ordering::Relaxed);
                    Ok(partial)
                })
                .await?;
        }
        Ok(())
    }

    /// The bytes of files in order, several ranges on their way at a time.
    fn pieces(&self, files: Vec<Arc<ManifestFile>>) -> BoxStream<'static, Result<Piece>> {
        let step = self.options.range_bytes.max(1);
        let mut ranges = Vec::new();
        for file in files {
            let count = file.bytes.div_ceil(step).max(1);
            for number in 0..count {
                let range = number * step..((number + 1) * step).min(file.bytes);
                ranges.push((Arc::clone(&file), range, number + 1 == count));
            }
        }
        let (limit, attempts) = (self.options.limit.clone(), self.options.attempts);
        let (source, place) = (Arc::clone(&self.source), Arc::clone(&self.place));
        // Memory is taken in the order of the ranges: otherwise later ones could keep the one that is written next waiting.
        let granted = stream::iter(ranges).then(move |(file, range, last)| {
            let limit = limit.clone();
            async move {
                let memory = match limit {
                    Some(limit) => limit.reserve(range.end - range.start).await,
                    None => None,
                };
                (file, range, last, memory)
            }
        });
        let pieces = granted.map(move |(file, range, last, memory)| {
            // A task of its own: it goes on while another piece is being written.
            let read = read(Arc::clone(&source), Arc::clone(&file), range, attempts);
            let task = AbortOnDropHandle::new(tokio::spawn(read));
            let place = Arc::clone(&place);
            async move {
                let read = task.await.map_err(|error| died(&place, &error))?;
                let bytes = read.map_err(|source| Error::CopyFailed { place, file: file.name(), source })?;
                Ok::<_, Error>(Piece { file, bytes, last, _memory: memory })
            }
        });
        pieces.buffered(self.options.in_flight.max(1)).boxed()
    }

    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        tokio::task::spawn_blocking(work).await.map_err(|error| died(&self.place, &error))?
    }
}

/// A file that is not complete.
struct Partial {
    file: Arc<ManifestFile>,
    path: PathBuf,
    part: PathBuf,
    handle: Option<File>,
    hasher: Sha256,
}

impl Partial {
    fn new(dir: &Path, file: Arc<ManifestFile>) -> Self {
        let path = dir.join(file.name());
        let part = path.with_added_extension(PARTIAL);
        Self { file, path, part, handle: None, hasher: Sha256::new() }
    }

    /// Appends bytes. `None` when the file is complete and has its name. Blocks.
    fn take_in(mut self, piece: Piece, place: &Arc<Place>) -> Result<Option<Self>> {
        let handle = match self.handle.take() {
            Some(handle) => handle,
            None => File::create(&self.part).map_err(|source| Error::io("create", &self.part, source))?,
        };
        self.hasher.update(&piece.bytes);
        (&handle).write_all(&piece.bytes).map_err(|source| Error::io("write", &self.part, source))?;
        if !piece.last {
            self.handle = Some(handle);
            return Ok(Some(self));
        }
        let found = Checksum(self.hasher.finalize().into());
        if found != self.file.sha256 {
            layout::remove_file(&self.part)?;
            return Err(Error::CopyDamaged {
                place: Arc::clone(place),
                file: self.file.name(),
                detail: format!("its SHA-256 is {found} instead of {}", self.file.sha256),
            });
        }
        handle.sync_all().map_err(|source| Error::io("sync", &self.part, source))?;
        fs::rename(&self.part, &self.path).map_err(|source| Error::io("move into place", &self.path, source))?;
        Ok(None)
    }
}

/// Reads one range, again if that fails in a way that may pass.
async fn read(
    source: Arc<dyn FileSource>,
    file: Arc<ManifestFile>,
    range: Range<u64>,
    attempts: u32,
) -> std::io::Result<Bytes> {
    use std::io::ErrorKind;
    let length = range.end - range.start;
    let mut wait = FIRST_WAIT;
    let mut left = attempts.max(1);
    loop {
        left -= 1;
        let error = match source.read(&file, range.clone()).await {
            Ok(bytes) if bytes.len() as u64 == length => return Ok(bytes),
            Ok(bytes) => {
                let message = format!("{} bytes from {} on instead of {length}", bytes.len(), range.start);
                std::io::Error::new(ErrorKind::UnexpectedEof, message)
            }
            Err(error) => error,
        };
        if left == 0 || error.kind() == ErrorKind::NotFound {
            return Err(error);
        }
        tracing::debug!(file = %file.name(), start = range.start, %error, "a range is fetched again");
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
}

fn is_whole(path: &Path, file: &ManifestFile) -> bool {
    let length = fs::metadata(path).is_ok_and(|metadata| metadata.len() == file.bytes);
    length && hash_file(path).is_ok_and(|digest| digest.sha256 == file.sha256.0)
}

/// Links a file out of an older copy of the partition on the same disk, if it is there and whole. Data files never change, so
/// both copies can have it.
fn take_over(older: Option<&Path>, dir: &Path, file: &ManifestFile) -> Result<bool> {
    let Some(source) = older.map(|older| older.join(file.name())) else { return Ok(false) };
    if !is_whole(&source, file) {
        return Ok(false);
    }
    let target = dir.join(file.name());
    layout::remove_file(&target)?;
    // Another file system is no fault: the file is fetched then.
    Ok(fs::hard_link(&source, &target).is_ok())
}

/// Removes files that are not complete.
pub(crate) fn remove_partial(files: &Path) -> Result<()> {
    let failed = |source| Error::io("list", files, source);
    for entry in fs::read_dir(files).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_some_and(|extension| extension == PARTIAL) {
            layout::remove_file(&path)?;
        }
    }
    Ok(())
}

fn died(place: &Arc<Place>, error: &tokio::task::JoinError) -> Error {
    Error::TaskDied { place: Arc::clone(place), task: "copying a partition", detail: error.to_string() }
}

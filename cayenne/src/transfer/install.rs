//! A manifest and its files become a partition.
//!
//! The order is: the directory is locked; files come in, each complete and durable before it has its name; the directory is
//! synced; the metastore is written beside its place; it is moved there. Before that last step the directory is no partition for
//! anybody, and installing again goes on with the files that are there.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::fetch::Fetch;
use super::manifest::PartitionManifest;
use super::source::FileSource;
use crate::error::{Error, Result};
use crate::failpoint::{Outcome, Step};
use crate::layout;
use crate::metastore::Metastore;
use crate::options::PartitionOptions;
use crate::partition::{Partition, lock};

/// How files are fetched.
#[derive(Debug, Clone)]
pub struct InstallOptions {
    /// Files are fetched in ranges of so many bytes.
    pub range_bytes: u64,
    /// So many ranges at a time.
    pub in_flight: usize,
    /// How often a range is asked for before the copy fails.
    pub attempts: u32,
    /// Memory that all copies of a process share; none but `range_bytes * in_flight` if `None`.
    pub limit: Option<InstallLimit>,
    /// The directory of an older copy of the partition. Files that it has are shared with it instead of fetched.
    pub older_copy: Option<PathBuf>,
    /// Follows the work.
    pub progress: Arc<InstallProgress>,
}

impl Default for InstallOptions {
    fn default() -> Self {
        Self {
            range_bytes: 8 << 20,
            in_flight: 4,
            attempts: 4,
            limit: None,
            older_copy: None,
            progress: Arc::default(),
        }
    }
}

/// Bounds the bytes that several copies have in memory together. Clones share the bound.
#[derive(Debug, Clone)]
pub struct InstallLimit {
    permits: Arc<Semaphore>,
    all: u32,
}

impl InstallLimit {
    const UNIT: u64 = 64 << 10;

    /// At most so many bytes, and never less than 64 KiB.
    pub fn bytes(bytes: u64) -> Self {
        let all = u32::try_from(bytes / Self::UNIT).unwrap_or(u32::MAX >> 4).clamp(1, u32::MAX >> 4);
        Self { permits: Arc::new(Semaphore::new(all as usize)), all }
    }

    /// Waits until there is room. A range that is larger than the bound has it for itself.
    pub(super) async fn reserve(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(Self::UNIT)).unwrap_or(u32::MAX).clamp(1, self.all);
        // Nobody closes the semaphore.
        Arc::clone(&self.permits).acquire_many_owned(units).await.ok()
    }
}

/// How far a copy is. May be looked at any time.
#[derive(Debug, Default)]
pub struct InstallProgress {
    pub(super) done_bytes: AtomicU64,
    pub(super) total_bytes: AtomicU64,
}

impl InstallProgress {
    /// Bytes of data files that are here.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all data files; 0 before the work has begun.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }
}

impl Partition {
    /// Makes `dir` the partition that a manifest describes, at its version, and opens it. The directory is created if needed and must not hold a
    /// partition; what an interrupted installation left in it is used. Whatever fails, and whenever the process ends,
    /// the directory holds either the whole partition or none.
    ///
    /// # Errors
    /// [`Error::AlreadyExists`], [`Error::InUse`]; [`Error::ManifestDamaged`] and [`Error::ManifestFormat`];
    /// [`Error::CopyFailed`] and [`Error::CopyDamaged`], which name the file; [`Error::NoRoomForCopy`].
    pub async fn install(
        dir: &Path,
        manifest: &PartitionManifest,
        source: Arc<dyn FileSource>,
        options: PartitionOptions,
        install: &InstallOptions,
    ) -> Result<Self> {
        manifest.check()?;
        let dir = std::path::absolute(dir).map_err(|source| Error::io("resolve", dir, source))?;
        let place = manifest.place();
        let lock = {
            let dir = dir.clone();
            blocking(manifest, move || {
                layout::create_directory(&dir)?;
                let lock = lock(&dir)?;
                if dir.join(layout::METASTORE).exists() {
                    return Err(Error::AlreadyExists { path: dir });
                }
                layout::create_directory(&dir.join(layout::FILES))?;
                Ok(lock)
            })
            .await?
        };
        let place_of = Arc::clone(&place);
        let fetch = Fetch { dir: &dir, files: &manifest.files, place: place_of, source, options: install, alone: true };
        let missing = fetch.missing().await?;
        options.disk.check_copy(&dir, &place, missing.iter().map(|file| file.bytes).sum())?;
        fetch.fetch(missing).await?;
        step(&options, Step::InstallFiles)?;
        let copy = manifest.clone();
        blocking(manifest, move || {
            layout::sync_directory(&dir.join(layout::FILES))?;
            Metastore::prepare(&dir, &copy)?;
            step(&options, Step::Install)?;
            Metastore::put_in_place(&dir)?;
            step(&options, Step::Installed)?;
            Self::open_locked(&dir, options, Some(lock))
        })
        .await
    }
}

/// There is no handle yet that could be "crashed": whoever is told of the failure starts again.
fn step(options: &PartitionOptions, step: Step) -> Result<()> {
    match options.failpoints.as_ref().map(|hook| hook.at(step)) {
        None | Some(Outcome::Continue) => Ok(()),
        Some(Outcome::Fail | Outcome::Crash) => Err(Error::Failpoint(step)),
    }
}

async fn blocking<T: Send + 'static>(
    manifest: &PartitionManifest,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::TaskDied {
        place: manifest.place(),
        task: "installing a copy",
        detail: error.to_string(),
    })?
}

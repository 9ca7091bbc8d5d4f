//! A partition: one directory, opened by one writer.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use arrow::datatypes::{Schema, SchemaRef};
use parking_lot::{Mutex, RwLock};
use uuid::Uuid;

use crate::error::{Error, Place, Result};
use crate::failpoint::{Outcome, Step};
use crate::keyed::Keyed;
use crate::keys::encoder::KeyEncoder;
use crate::keys::spec::TableSettings;
use crate::layout;
use crate::lookup_index::catalog::Catalog;
use crate::lookup_index::collector::{RunRecord, StoredRun};
use crate::lookup_index::definition;
use crate::metastore::{Committed, FileRecord, Metastore, SyncGroup};
use crate::options::{PartitionIdentity, PartitionOptions, from_ms, to_ms};
use crate::pin::PinnedVersion;
use crate::schema::TableSchema;
use crate::schema_check::check_schema;
use crate::state::{DataFile, NoSuchVersion, State};
use crate::stats::DataSummary;
use crate::transfer::fetch::remove_partial;
use crate::tuning::Tuning;

/// An open partition. Cheap to clone; all clones are the same partition, which is released when the
/// last clone, writer and pin is gone.
///
/// Methods that are not `async` do not touch the disk, except [`create`](Self::create) and
/// [`open`](Self::open), which do and block.
#[derive(Clone)]
pub struct Partition {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) dir: PathBuf,
    pub(crate) identity: PartitionIdentity,
    pub(crate) place: Arc<Place>,
    /// As at creation; columns by their stored names.
    pub(crate) settings: TableSettings,
    /// For tables that keep one row per key.
    pub(crate) keyed: Option<Arc<Keyed>>,
    pub(crate) options: PartitionOptions,
    /// What of the options may be exchanged, as it is now.
    pub(crate) tuning: RwLock<Arc<Tuning>>,
    /// Locked by blocking work only, and before `state` where both are needed.
    pub(crate) metastore: Mutex<Metastore>,
    log: Arc<SyncGroup>,
    pub(crate) state: Mutex<State>,
    /// Runs of indexes.
    pub(crate) lookup: Catalog,
    read_only: bool,
    crashed: AtomicBool,
    /// Its directory is given up.
    retired: AtomicBool,
    /// Nothing more is done with it.
    closed: AtomicBool,
    /// Of a writer. The operating system drops it with the file, if nobody did before.
    lock: Option<File>,
}

impl Partition {
    /// Creates a partition of a table without a primary key in `dir`, which is created if needed and must not hold one
    /// already. Blocks.
    ///
    /// # Errors
    /// [`Error::UnsupportedType`] and [`Error::BadSchema`] as from [`check_schema`], [`Error::AlreadyExists`].
    pub fn create(
        dir: &Path,
        identity: PartitionIdentity,
        schema: SchemaRef,
        options: PartitionOptions,
    ) -> Result<Self> {
        Self::create_table(dir, identity, schema, TableSettings::default(), options)
    }

    /// As [`create`](Self::create), of a table with these settings.
    ///
    /// # Errors
    /// As [`create`](Self::create), and [`Error::BadKey`] as from [`TableSettings::check`].
    pub fn create_table(
        dir: &Path,
        identity: PartitionIdentity,
        schema: SchemaRef,
        settings: TableSettings,
        options: PartitionOptions,
    ) -> Result<Self> {
        check_schema(&schema)?;
        options.row_order.check(&schema)?;
        definition::check(&options.indexes, &schema)?;
        let encoding = match settings.bind(&schema)? {
            Some(spec) => Some(KeyEncoder::new(&spec, &schema)?.encoding()),
            None => None,
        };
        layout::create_directory(dir)?;
        let lock = lock(dir)?;
        if dir.join(layout::METASTORE).exists() {
            return Err(Error::AlreadyExists { path: dir.to_path_buf() });
        }
        layout::create_directory(&dir.join(layout::FILES))?;
        // Arrow's schema metadata is not part of a table's definition.
        let schema = Schema::new(schema.fields().clone());
        Metastore::create(dir, &identity, &schema, &settings, encoding, options.clock.now_ms())?;
        Self::open_locked(dir, options, Some(lock))
    }

    /// Opens the partition in `dir` for reading and writing, after cleaning up what a crash may have left. Blocks.
    ///
    /// # Errors
    /// [`Error::NotAPartition`], [`Error::InUse`], [`Error::Format`]; [`Error::FileMissing`] and
    /// [`Error::FileLength`] when a file that the metastore names is not there in full; [`Error::VectorDamaged`].
    pub fn open(dir: &Path, options: PartitionOptions) -> Result<Self> {
        if !dir.join(layout::METASTORE).exists() {
            return Err(Error::NotAPartition { path: dir.to_path_buf() });
        }
        let lock = lock(dir)?;
        Self::open_locked(dir, options, Some(lock))
    }

    /// Opens the partition in `dir` as it is now, for reading only; a writer may have it open elsewhere. Blocks.
    /// Later versions are not noticed, and the writer does not know of pins taken here: it may remove files of
    /// versions that its retention lets go.
    ///
    /// # Errors
    /// As [`open`](Self::open), without [`Error::InUse`]. A metastore of an older format is [`Error::Format`]: only a
    /// writer converts it.
    pub fn open_read_only(dir: &Path, options: PartitionOptions) -> Result<Self> {
        if !dir.join(layout::METASTORE).exists() {
            return Err(Error::NotAPartition { path: dir.to_path_buf() });
        }
        Self::open_locked(dir, options, None)
    }

    pub(crate) fn open_locked(dir: &Path, options: PartitionOptions, lock: Option<File>) -> Result<Self> {
        let dir = std::path::absolute(dir).map_err(|source| Error::io("resolve", dir, source))?;
        let read_only = lock.is_none();
        let convert = || match options.failpoints.as_ref().map(|hook| hook.at(Step::Convert)) {
            None | Some(Outcome::Continue) => Ok(()),
            Some(Outcome::Fail | Outcome::Crash) => Err(Error::Failpoint(Step::Convert)),
        };
        let (metastore, identity) = Metastore::open(&dir, read_only, convert)?;
        let place = Arc::new(Place { table: identity.table.clone(), partition: identity.partition.clone() });
        let (settings, encoding) = metastore.table_settings()?;
        let mut loaded = metastore.load()?;
        let runs = std::mem::take(&mut loaded.runs);
        let state = State::new(&dir, &place, loaded)?;
        let (schema, pool) = (&state.current().schema, options.key_pool.clone());
        let keyed = match Keyed::new(&settings, schema, options.key_memory_bytes, pool)? {
            Some(keyed) => {
                let expected = keyed.encoder.encoding().id();
                if encoding != Some(expected) {
                    return Err(Error::KeyEncoding { place, found: encoding.unwrap_or_default(), expected });
                }
                Some(Arc::new(keyed))
            }
            None => None,
        };
        let partition = Self {
            inner: Arc::new(Inner {
                place,
                dir,
                identity,
                settings,
                keyed,
                tuning: RwLock::new(Arc::new(Tuning::of(&options))),
                lookup: Catalog::new(options.memory_pool.clone()),
                options,
                log: Arc::clone(metastore.log()),
                metastore: Mutex::new(metastore),
                state: Mutex::new(state),
                read_only,
                crashed: AtomicBool::new(false),
                retired: AtomicBool::new(false),
                closed: AtomicBool::new(false),
                lock,
            }),
        };
        partition.inner.check_lengths()?;
        partition.inner.load_runs(runs);
        if !read_only {
            partition.inner.remove_orphans()?;
        }
        Ok(partition)
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.inner.dir
    }

    /// Which partition this is.
    pub fn identity(&self) -> &PartitionIdentity {
        &self.inner.identity
    }

    /// Ends all work with the partition and releases its lock, whoever still has a clone, a writer or a pin: all that they do
    /// from now on is [`Error::Closed`], but for scans that were planned before, which go on as long as their files are there.
    /// What was being committed is committed first. The log of the metastore is written into it. Blocks.
    pub fn close(&self) {
        self.inner.closed.store(true, Ordering::SeqCst);
        // Whoever commits has this lock, and after it finds the metastore closed.
        self.inner.metastore.lock().close();
        if let Some(lock) = &self.inner.lock
            && let Err(error) = lock.unlock()
        {
            tracing::warn!(dir = %self.inner.dir.display(), %error, "the lock of a closed partition stays until its last user has gone");
        }
    }

    /// Says that the directory is about to be given up: from now on nothing more is written, [`Error::SchemaChanged`]. Writes
    /// under way may fail in any way; [`is_retired`](Self::is_retired) tells why.
    pub fn retire(&self) {
        self.inner.retired.store(true, Ordering::SeqCst);
    }

    /// Whether the directory was given up.
    pub fn is_retired(&self) -> bool {
        self.inner.retired.load(Ordering::SeqCst)
    }

    /// The schema of the current version; scans return exactly these types.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.inner.schema().logical)
    }

    /// What was declared about the table besides its columns, which have the names of the current version.
    pub fn settings(&self) -> TableSettings {
        self.inner.settings.renamed(&self.inner.schema())
    }

    /// The newest published version; 0 before the first one.
    pub fn version(&self) -> u64 {
        self.inner.state.lock().current().version
    }

    /// What the current version holds.
    pub fn summary(&self) -> DataSummary {
        self.inner.state.lock().current().summary.as_ref().clone()
    }

    /// Keeps a version readable until the returned guard and all its clones are gone. `None` means the current one.
    ///
    /// # Errors
    /// [`Error::VersionExpired`], [`Error::VersionNotYetHere`] and [`Error::Closed`].
    pub fn pin(&self, version: Option<u64>) -> Result<PinnedVersion> {
        self.inner.check_open()?;
        let pinned = self.inner.state.lock().pin(version);
        pinned.map(|view| PinnedVersion::new(Arc::clone(&self.inner), view)).map_err(|refused| {
            // Only a version that was asked for by number can be missing.
            self.refused(version.unwrap_or_default(), &refused)
        })
    }

    /// As [`pin`](Self::pin), of the version that was current at `time`.
    ///
    /// # Errors
    /// [`Error::NoVersionAt`] when that version has expired or `time` is before the first one.
    pub fn pin_at(&self, time: SystemTime) -> Result<PinnedVersion> {
        self.inner.check_open()?;
        let time_ms = to_ms(time);
        let mut state = self.inner.state.lock();
        let version = state.version_at(time_ms).map_err(|oldest_ms| Error::NoVersionAt {
            place: Arc::clone(&self.inner.place),
            asked: from_ms(time_ms),
            oldest: from_ms(oldest_ms),
        })?;
        // Versions that are listed can be pinned, and nothing has come between.
        let view = state.pin(Some(version));
        drop(state);
        view.map(|view| PinnedVersion::new(Arc::clone(&self.inner), view))
            .map_err(|refused| self.refused(version, &refused))
    }

    fn refused(&self, version: u64, refused: &NoSuchVersion) -> Error {
        let place = Arc::clone(&self.inner.place);
        match *refused {
            NoSuchVersion::Expired { oldest, current } => Error::VersionExpired { place, version, oldest, current },
            NoSuchVersion::NotYetHere { current } => Error::VersionNotYetHere { place, version, current },
        }
    }

    /// Runs blocking work on Tokio's blocking threads. It runs to its end even if the caller stops waiting.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        task: &'static str,
        work: impl FnOnce(&Arc<Inner>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        inner.check_open()?;
        let joined = tokio::task::spawn_blocking(move || work(&inner)).await;
        joined.map_err(|error| self.inner.died(task, error))?
    }
}

impl Inner {
    /// Meets a failpoint. A real crash cannot be undone, so neither can this one: from then on every step fails.
    pub(crate) fn step(&self, step: Step) -> Result<()> {
        if self.crashed() {
            return Err(Error::Failpoint(step));
        }
        match self.options.failpoints.as_ref().map(|hook| hook.at(step)) {
            None | Some(Outcome::Continue) => Ok(()),
            Some(Outcome::Fail) => Err(Error::Failpoint(step)),
            Some(Outcome::Crash) => {
                self.crashed.store(true, Ordering::SeqCst);
                Err(Error::Failpoint(step))
            }
        }
    }

    /// Waits until a commit of the metastore is durable, together with others that wait. To be called without its lock. Blocks.
    pub(crate) fn make_durable(&self, commit: Committed) -> Result<()> {
        self.log.wait(commit).map_err(|source| Error::io("sync", self.dir.join(layout::METASTORE_LOG), source))
    }

    /// The schema of the current version.
    pub(crate) fn schema(&self) -> Arc<TableSchema> {
        Arc::clone(&self.state.lock().current().schema)
    }

    pub(crate) fn crashed(&self) -> bool {
        self.crashed.load(Ordering::SeqCst)
    }

    /// The key, of a table that keeps one row per key.
    pub(crate) fn key(&self) -> Result<&Arc<Keyed>> {
        self.keyed.as_ref().ok_or_else(|| Error::NoKey { place: Arc::clone(&self.place) })
    }

    fn check_open(&self) -> Result<()> {
        match self.closed.load(Ordering::SeqCst) {
            true => Err(Error::Closed { place: Arc::clone(&self.place) }),
            false => Ok(()),
        }
    }

    pub(crate) fn check_writable(&self) -> Result<()> {
        self.check_open()?;
        if self.read_only {
            return Err(Error::ReadOnly { place: Arc::clone(&self.place) });
        }
        if self.retired.load(Ordering::SeqCst) {
            return Err(Error::SchemaChanged { place: Arc::clone(&self.place) });
        }
        Ok(())
    }

    pub(crate) fn died(&self, task: &'static str, error: tokio::task::JoinError) -> Error {
        // It says what the panic said, or that the task was cancelled.
        Error::TaskDied { place: Arc::clone(&self.place), task, detail: error.to_string() }
    }

    /// The error of a write that a later one got in the way of.
    pub(crate) fn conflict(&self, write_id: Uuid, base: u64, detail: String) -> Error {
        Error::WriteConflict { place: Arc::clone(&self.place), write_id, base, detail }
    }

    pub(crate) fn missing(&self, file: &str) -> Error {
        Error::FileMissing { place: Arc::clone(&self.place), file: file.to_owned() }
    }

    pub(crate) fn check_length(&self, file: &DataFile) -> Result<()> {
        match std::fs::metadata(&file.path) {
            Ok(metadata) if metadata.len() == file.summary.bytes => Ok(()),
            Ok(metadata) => Err(Error::FileLength {
                place: Arc::clone(&self.place),
                file: file.name.clone(),
                expected: file.summary.bytes,
                found: metadata.len(),
            }),
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => Err(self.missing(&file.name)),
            Err(source) => Err(Error::io("look at", &file.path, source)),
        }
    }

    /// Runs of files that have been named now.
    pub(crate) fn take_over_runs(&self, files: &[FileRecord]) {
        for file in files {
            if let Some(id) = layout::file_id(&file.path) {
                self.lookup.add(&self.dir, id, file.summary.rows, &file.runs);
            }
        }
    }

    /// Removes the runs of data files that are gone.
    pub(crate) fn remove_runs<'a>(&self, files: impl IntoIterator<Item = &'a Uuid>) -> Result<()> {
        self.lookup.remove(files).iter().try_for_each(|path| {
            self.step(Step::RemoveRun)?;
            layout::remove_file(path)
        })
    }

    /// Runs that the metastore names. What is missing is made again, and noticed when it is looked for.
    fn load_runs(&self, runs: Vec<(String, RunRecord)>) {
        let rows: HashMap<String, u64> =
            self.state.lock().all_files().iter().map(|file| (file.name.clone(), file.summary.rows)).collect();
        for (file, run) in runs {
            let there = match &run.stored {
                StoredRun::File { name, bytes } => {
                    std::fs::metadata(self.dir.join(name)).is_ok_and(|found| found.len() == *bytes)
                }
                StoredRun::Inline(_) => true,
            };
            match (layout::file_id(&file), rows.get(&file)) {
                (Some(id), Some(rows)) if there => self.lookup.add(&self.dir, id, *rows, &[run]),
                _ => tracing::warn!(partition = %self.place, %file, "an index of a data file is missing"),
            }
        }
    }

    fn check_lengths(&self) -> Result<()> {
        let files = self.state.lock().all_files();
        files.iter().try_for_each(|file| self.check_length(file))
    }

    /// Removes data files that the metastore does not name: what an unfinished write or a removal left behind.
    fn remove_orphans(&self) -> Result<()> {
        let known: std::collections::HashSet<String> =
            self.state.lock().all_files().iter().map(|file| file.name.clone()).collect();
        let mut removed = 0;
        for name in layout::existing_data_files(&self.dir)? {
            if !known.contains(&name) {
                self.step(Step::RemoveOrphan)?;
                layout::remove_file(&self.dir.join(&name))?;
                removed += 1;
            }
        }
        let known = self.lookup.names();
        for name in layout::existing_runs(&self.dir)?.iter().filter(|name| !known.contains(*name)) {
            self.step(Step::RemoveOrphan)?;
            layout::remove_file(&self.dir.join(name))?;
        }
        if removed > 0 {
            layout::sync_directory(&self.dir.join(layout::FILES))?;
            tracing::info!(
                table = %self.place.table,
                partition = %self.place.partition,
                files = removed,
                "removed files that an unfinished write left behind"
            );
        }
        remove_partial(&self.dir.join(layout::FILES))?;
        layout::remove_file(&self.dir.join(layout::NEW_METASTORE))
    }
}

pub(crate) fn lock(dir: &Path) -> Result<File> {
    let path = dir.join(layout::LOCK);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(|source| Error::io("open the lock file", &path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path: dir.to_path_buf() }),
        Err(TryLockError::Error(source)) => Err(Error::io("lock", &path, source)),
    }
}

impl fmt::Debug for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Partition")
            .field("identity", &self.inner.identity)
            .field("dir", &self.inner.dir)
            .field("version", &self.version())
            .finish()
    }
}

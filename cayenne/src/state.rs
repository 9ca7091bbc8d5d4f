//! The in-memory picture of the metastore: what a reader or a publisher needs without touching SQLite.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::Statistics;
use uuid::Uuid;

use crate::metastore::{FileRecord, Loaded, WriteRecord};
use crate::options::WriteMode;
use crate::stats::DataSummary;

/// One immutable data file.
#[derive(Debug)]
pub(crate) struct DataFile {
    pub(crate) file_id: i64,
    /// Relative to the partition directory.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) sha256: [u8; 32],
    pub(crate) summary: DataSummary,
    pub(crate) statistics: Arc<Statistics>,
}

impl DataFile {
    pub(crate) fn new(dir: &Path, record: &FileRecord) -> Self {
        Self {
            file_id: record.file_id,
            name: record.path.clone(),
            path: dir.join(&record.path),
            sha256: record.sha256,
            summary: record.summary.clone(),
            statistics: Arc::new(record.summary.statistics()),
        }
    }
}

/// A file together with the versions that see it.
#[derive(Debug, Clone)]
struct CataloguedFile {
    file: Arc<DataFile>,
    added: u64,
    removed: Option<u64>,
}

impl CataloguedFile {
    fn visible_in(&self, version: u64) -> bool {
        self.added <= version && self.removed.is_none_or(|removed| version < removed)
    }
}

/// A sealed write that is not visible.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    pub(crate) mode: WriteMode,
    pub(crate) summary: DataSummary,
    pub(crate) sealed_ms: u64,
    pub(crate) files: Vec<Arc<DataFile>>,
}

/// What a pin holds on to.
#[derive(Debug, Clone)]
pub(crate) struct VersionView {
    pub(crate) version: u64,
    pub(crate) files: Arc<[Arc<DataFile>]>,
    pub(crate) summary: Arc<DataSummary>,
}

/// Why a version cannot be pinned.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoSuchVersion {
    Expired { oldest: u64, current: u64 },
    NotYetHere { current: u64 },
}

/// What garbage collection may take away.
#[derive(Debug, Default)]
pub(crate) struct Expendable {
    pub(crate) versions: Vec<u64>,
    pub(crate) files: Vec<Arc<DataFile>>,
}

/// The picture. Guarded by one mutex that is never held over I/O.
#[derive(Debug)]
pub(crate) struct State {
    columns: usize,
    /// Every version that can be pinned, with the time at which it was superseded.
    versions: BTreeMap<u64, Option<u64>>,
    files: Vec<CataloguedFile>,
    pins: HashMap<u64, usize>,
    staged: HashMap<Uuid, Staged>,
    /// Writes that have a writer in this process.
    pub(crate) writing: HashSet<Uuid>,
    current: VersionView,
}

impl State {
    pub(crate) fn new(dir: &Path, columns: usize, loaded: &Loaded) -> Self {
        let mut staged: HashMap<Uuid, Staged> =
            loaded.staged.iter().map(|write| (write.write_id, staged(write))).collect();
        let mut files = Vec::new();
        for record in &loaded.files {
            let file = Arc::new(DataFile::new(dir, record));
            match record.added {
                Some(added) => files.push(CataloguedFile { file, added, removed: record.removed }),
                None => {
                    if let Some(write) = staged.get_mut(&record.write_id) {
                        write.files.push(file);
                    }
                }
            }
        }
        let versions: BTreeMap<u64, Option<u64>> =
            loaded.versions.iter().map(|version| (version.version, version.superseded_ms)).collect();
        let newest = versions.keys().next_back().copied().unwrap_or(0);
        let current = view(&files, newest, columns);
        Self { columns, versions, files, pins: HashMap::new(), staged, writing: HashSet::new(), current }
    }

    pub(crate) fn current(&self) -> &VersionView {
        &self.current
    }

    pub(crate) fn staged(&self) -> &HashMap<Uuid, Staged> {
        &self.staged
    }

    /// Every file that is known, visible or staged.
    pub(crate) fn all_files(&self) -> Vec<Arc<DataFile>> {
        let published = self.files.iter().map(|entry| Arc::clone(&entry.file));
        let staged = self.staged.values().flat_map(|write| write.files.iter().cloned());
        published.chain(staged).collect()
    }

    pub(crate) fn seal(&mut self, write_id: Uuid, write: Staged) {
        self.staged.insert(write_id, write);
    }

    pub(crate) fn discard(&mut self, write_id: Uuid) -> Option<Staged> {
        self.staged.remove(&write_id)
    }

    /// Follows a commit of the metastore.
    pub(crate) fn publish(&mut self, write_id: Uuid, version: u64, mode: WriteMode, now_ms: u64) {
        let new = self.staged.remove(&write_id).map(|write| write.files).unwrap_or_default();
        let mut summary = DataSummary::empty(self.columns);
        let mut visible = Vec::new();
        match mode {
            WriteMode::Append => {
                summary = self.current.summary.as_ref().clone();
                visible.extend(self.current.files.iter().cloned());
            }
            WriteMode::Overwrite => {
                for entry in self.files.iter_mut().filter(|entry| entry.removed.is_none()) {
                    entry.removed = Some(version);
                }
            }
        }
        for file in new {
            summary.merge(&file.summary);
            visible.push(Arc::clone(&file));
            self.files.push(CataloguedFile { file, added: version, removed: None });
        }
        if let Some(superseded) = self.versions.get_mut(&self.current.version) {
            *superseded = Some(now_ms);
        }
        self.versions.insert(version, None);
        self.current = VersionView { version, files: visible.into(), summary: Arc::new(summary) };
    }

    /// Counts a pin on `version` (the current one if `None`).
    pub(crate) fn pin(&mut self, version: Option<u64>) -> Result<VersionView, NoSuchVersion> {
        let current = self.current.version;
        let version = version.unwrap_or(current);
        let view = if version == current {
            self.current.clone()
        } else if self.versions.contains_key(&version) {
            view(&self.files, version, self.columns)
        } else if version > current {
            return Err(NoSuchVersion::NotYetHere { current });
        } else {
            let oldest = self.versions.keys().next().copied().unwrap_or(current);
            return Err(NoSuchVersion::Expired { oldest, current });
        };
        *self.pins.entry(version).or_default() += 1;
        Ok(view)
    }

    pub(crate) fn unpin(&mut self, version: u64) {
        if let Some(count) = self.pins.get_mut(&version) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&version);
            }
        }
    }

    /// Takes away the versions that nobody pins and that `keep(age rank, superseded at)` lets go, and the
    /// files that only they saw. From now on none of them can be pinned.
    pub(crate) fn expire(&mut self, keep: impl Fn(u64, u64) -> bool) -> Expendable {
        let mut expendable = Expendable::default();
        for (age, (version, superseded)) in self.versions.iter().rev().enumerate() {
            if let Some(superseded) = superseded
                && !self.pins.contains_key(version)
                && !keep(age as u64, *superseded)
            {
                expendable.versions.push(*version);
            }
        }
        for version in &expendable.versions {
            self.versions.remove(version);
        }
        let versions = &self.versions;
        self.files.retain(|entry| {
            let needed = versions.keys().any(|version| entry.visible_in(*version));
            if !needed {
                expendable.files.push(Arc::clone(&entry.file));
            }
            needed
        });
        expendable
    }
}

fn staged(write: &WriteRecord) -> Staged {
    Staged { mode: write.mode, summary: write.summary.clone(), sealed_ms: write.sealed_ms, files: Vec::new() }
}

fn view(files: &[CataloguedFile], version: u64, columns: usize) -> VersionView {
    let mut summary = DataSummary::empty(columns);
    let files: Arc<[Arc<DataFile>]> = files
        .iter()
        .filter(|entry| entry.visible_in(version))
        .inspect(|entry| summary.merge(&entry.file.summary))
        .map(|entry| Arc::clone(&entry.file))
        .collect();
    VersionView { version, files, summary: Arc::new(summary) }
}

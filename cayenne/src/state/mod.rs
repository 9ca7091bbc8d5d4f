//! The in-memory picture of the metastore: what a reader or a publisher needs without touching SQLite.

mod change;
mod transaction;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::common::Statistics;
use uuid::Uuid;

use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Place, Result};
use crate::keys::encoder::KeyEncoding;
use crate::keys::store::KeyStore;
use crate::keys::write_keys::{KeyRule, WriteKeys};
use crate::layout;
use crate::metastore::{FileRecord, Loaded, WriteRecord};
use crate::options::WriteMode;
use crate::schema::TableSchema;
use crate::stats::{DataSummary, KeyCounts, WriteSummary};

pub(crate) use change::{Change, Deletes};

/// One immutable data file.
#[derive(Debug)]
pub(crate) struct DataFile {
    /// The same wherever the file is copied to.
    pub(crate) id: Uuid,
    /// Relative to the partition directory.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    pub(crate) sha256: [u8; 32],
    /// Of all rows that the file holds, deleted or not; so are the statistics, which makes them fit for pruning.
    pub(crate) summary: DataSummary,
    pub(crate) statistics: Arc<Statistics>,
    /// The schema that it was written with; summary and statistics have its columns.
    pub(crate) schema: Arc<TableSchema>,
}

impl DataFile {
    /// `None` if the record's name is not that of a data file. `schema` is the one that the record names.
    pub(crate) fn new(dir: &Path, record: &FileRecord, schema: &Arc<TableSchema>) -> Option<Self> {
        Some(Self {
            schema: Arc::clone(schema),
            id: layout::file_id(&record.path)?,
            name: record.path.clone(),
            path: dir.join(&record.path),
            sha256: record.sha256,
            summary: record.summary.clone(),
            statistics: Arc::new(record.summary.statistics()),
        })
    }
}

/// The generations that something is part of.
#[derive(Debug, Clone, Copy)]
struct Lifetime {
    added: u64,
    removed: Option<u64>,
}

impl Lifetime {
    fn from(generation: u64) -> Self {
        Self { added: generation, removed: None }
    }

    fn covers(self, generation: u64) -> bool {
        self.added <= generation && self.removed.is_none_or(|removed| generation < removed)
    }
}

/// A published file with all that happened to it.
#[derive(Debug)]
struct CataloguedFile {
    file: Arc<DataFile>,
    lifetime: Lifetime,
    sequence: u64,
    vectors: Vec<(Arc<DeletionVector>, Lifetime)>,
}

impl CataloguedFile {
    fn visible_in(&self, generation: u64, schema: &TableSchema) -> Option<VisibleFile> {
        self.lifetime.covers(generation).then(|| VisibleFile {
            deleted: self.deleted_in(generation).cloned(),
            ..VisibleFile::new(&self.file, self.sequence, schema)
        })
    }

    fn deleted_in(&self, generation: u64) -> Option<&Arc<DeletionVector>> {
        self.vectors.iter().find(|(_, lifetime)| lifetime.covers(generation)).map(|(vector, _)| vector)
    }
}

/// A file as one generation shows it.
#[derive(Debug, Clone)]
pub(crate) struct VisibleFile {
    pub(crate) file: Arc<DataFile>,
    pub(crate) deleted: Option<Arc<DeletionVector>>,
    /// The generation whose deletes the file's rows have seen.
    pub(crate) sequence: u64,
    /// What is known about the file in the columns of the version, where those are not the file's own.
    adapted: Option<Arc<Adapted>>,
}

#[derive(Debug)]
struct Adapted {
    summary: DataSummary,
    statistics: Arc<Statistics>,
}

impl VisibleFile {
    /// A file without deleted rows, in a version with columns `schema`.
    pub(crate) fn new(file: &Arc<DataFile>, sequence: u64, schema: &TableSchema) -> Self {
        let mut visible = Self { file: Arc::clone(file), deleted: None, sequence, adapted: None };
        visible.adapt(schema);
        visible
    }

    /// The same file without some rows.
    pub(crate) fn without(self, deleted: Option<Arc<DeletionVector>>) -> Self {
        Self { deleted, ..self }
    }

    fn adapt(&mut self, schema: &TableSchema) {
        self.adapted = (self.file.schema.id != schema.id).then(|| {
            let summary = self.file.schema.summary_in(schema, &self.file.summary);
            let statistics = Arc::new(summary.statistics());
            Arc::new(Adapted { summary, statistics })
        });
    }

    /// Of all rows that the file holds, in the columns of the version.
    pub(crate) fn summary(&self) -> &DataSummary {
        self.adapted.as_ref().map_or(&self.file.summary, |adapted| &adapted.summary)
    }

    /// The same in DataFusion's form.
    pub(crate) fn statistics(&self) -> &Arc<Statistics> {
        self.adapted.as_ref().map_or(&self.file.statistics, |adapted| &adapted.statistics)
    }

    pub(crate) fn deleted_rows(&self) -> u64 {
        self.deleted.as_ref().map_or(0, |vector| vector.rows())
    }

    pub(crate) fn rows(&self) -> u64 {
        self.file.summary.rows.saturating_sub(self.deleted_rows())
    }
}

/// A sealed write that is not visible.
#[derive(Debug, Clone)]
pub(crate) struct Staged {
    pub(crate) mode: WriteMode,
    /// The schema of its rows, or the one that it gives the table.
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) base_version: u64,
    pub(crate) summary: WriteSummary,
    pub(crate) sealed_ms: u64,
    pub(crate) files: Vec<Arc<DataFile>>,
    /// Rows of stored files, and rows of its own that repeat a key.
    pub(crate) deletes: Deletes,
    /// What it does by key, in a table that keeps one row per key.
    pub(crate) by_key: Option<StagedKeys>,
}

/// The part of a staged write that goes by key.
#[derive(Debug, Clone)]
pub(crate) struct StagedKeys {
    pub(crate) rule: KeyRule,
    pub(crate) deleted: KeyStore,
    /// All its keys, if they fitted in memory when it was sealed by this process.
    pub(crate) keys: Option<Arc<WriteKeys>>,
}

/// What a pin holds on to.
#[derive(Debug, Clone)]
pub(crate) struct VersionView {
    pub(crate) version: u64,
    pub(crate) generation: u64,
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) files: Arc<[VisibleFile]>,
    pub(crate) summary: Arc<DataSummary>,
    /// It also shows what a staged write does, so it is no state that others see.
    pub(crate) private: bool,
}

/// A version that can be pinned.
#[derive(Debug, Clone)]
struct Version {
    schema: Arc<TableSchema>,
    /// Its newest one.
    generation: u64,
    published_ms: u64,
    superseded_ms: Option<u64>,
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
    /// Deletion vectors of files that stay, by file and the generation that added them.
    pub(crate) vectors: Vec<(Arc<DataFile>, u64)>,
}

/// The picture. Guarded by one mutex that is never held over I/O.
#[derive(Debug)]
pub(crate) struct State {
    versions: BTreeMap<u64, Version>,
    files: Vec<CataloguedFile>,
    /// By version and generation.
    pins: HashMap<(u64, u64), usize>,
    staged: HashMap<Uuid, Staged>,
    /// Writes that have a writer in this process.
    pub(crate) writing: HashSet<Uuid>,
    current: VersionView,
}

impl State {
    /// # Errors
    /// [`Error::VectorDamaged`] and [`Error::MetastoreDamaged`] when the metastore contradicts itself.
    pub(crate) fn new(dir: &Path, place: &Arc<Place>, loaded: Loaded) -> Result<Self> {
        let damaged = |detail: String| Error::MetastoreDamaged { place: Arc::clone(place), detail };
        let schema = |id: i64| loaded.schemas.get(&id).ok_or_else(|| damaged(format!("there is no schema {id}")));
        let unknown = |name: &str| damaged(format!("'{name}' is not the name of a data file"));
        let mut deleted_keys = loaded.deleted_keys;
        let mut staged = HashMap::new();
        for write in &loaded.staged {
            let deleted = deleted_keys.remove(&write.write_id);
            staged.insert(write.write_id, staged_write(write, schema(write.schema_id)?, deleted));
        }
        for delete in loaded.staged_deletes {
            let id = layout::file_id(&delete.file).ok_or_else(|| unknown(&delete.file))?;
            if let Some(write) = staged.get_mut(&delete.write_id) {
                write.deletes.insert(id, delete.vector);
            }
        }
        if let Some((id, _)) = staged.iter().find(|(_, write)| {
            write.deletes.values().map(DeletionVector::rows).sum::<u64>()
                != write.summary.deleted_rows + write.summary.data.deleted_rows
        }) {
            return Err(damaged(format!("staged write {id} does not have all its deletes")));
        }
        let mut vectors: HashMap<String, Vec<(Arc<DeletionVector>, Lifetime)>> = HashMap::new();
        for record in loaded.vectors {
            let lifetime = Lifetime { added: record.added, removed: record.removed };
            vectors.entry(record.file).or_default().push((Arc::new(record.vector), lifetime));
        }
        let mut files = Vec::new();
        for record in &loaded.files {
            let file = schema(record.schema_id)?;
            let file = Arc::new(DataFile::new(dir, record, file).ok_or_else(|| unknown(&record.path))?);
            match (record.added, record.sequence) {
                (Some(added), Some(sequence)) => {
                    let lifetime = Lifetime { added, removed: record.removed };
                    let vectors = vectors.remove(&record.path).unwrap_or_default();
                    let newest = vectors.iter().map(|(vector, _)| vector.rows()).max().unwrap_or(0);
                    // Every vector holds all of the one before it. Emptied files keep their last one.
                    if newest != record.deleted_rows {
                        return Err(Error::VectorDamaged {
                            place: Arc::clone(place),
                            file: record.path.clone(),
                            detail: format!("it should name {} rows and names {newest}", record.deleted_rows),
                        });
                    }
                    files.push(CataloguedFile { file, lifetime, sequence, vectors });
                }
                _ => {
                    if let Some(write) = staged.get_mut(&record.write_id) {
                        write.files.push(file);
                    }
                }
            }
        }
        for version in &loaded.versions {
            let found = rows_in(&files, version.generation);
            if found != version.rows {
                let (version, rows) = (version.version, version.rows);
                return Err(damaged(format!("version {version} should have {rows} rows and has {found}")));
            }
        }
        let mut versions = BTreeMap::new();
        for record in &loaded.versions {
            let (generation, published_ms) = (record.generation, record.published_ms);
            let schema = Arc::clone(schema(record.schema_id)?);
            let version = Version { schema, generation, published_ms, superseded_ms: record.superseded_ms };
            versions.insert(record.version, version);
        }
        let (newest, entry) = versions.last_key_value().ok_or_else(|| damaged("there is no version".to_owned()))?;
        let current = view(&files, *newest, entry);
        Ok(Self { versions, files, pins: HashMap::new(), staged, writing: HashSet::new(), current })
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

    /// The generation in which each visible file became visible.
    pub(crate) fn added_generations(&self) -> HashMap<Uuid, u64> {
        let visible = self.files.iter().filter(|entry| entry.lifetime.removed.is_none());
        visible.map(|entry| (entry.file.id, entry.lifetime.added)).collect()
    }

    /// A published file, whether or not it is still visible.
    pub(crate) fn file(&self, id: Uuid) -> Option<&Arc<DataFile>> {
        // Rows that are deleted are mostly in recent files.
        self.files.iter().rev().map(|entry| &entry.file).find(|file| file.id == id)
    }

    /// Visible and staged files, whose rows any later version may show.
    pub(crate) fn living_files(&self) -> impl Iterator<Item = &Arc<DataFile>> {
        let visible = self.current.files.iter().map(|entry| &entry.file);
        visible.chain(self.staged.values().flat_map(|write| &write.files))
    }

    /// A file of a staged write.
    pub(crate) fn staged_file(&self, id: Uuid) -> Option<&Arc<DataFile>> {
        self.staged.values().flat_map(|write| &write.files).find(|file| file.id == id)
    }

    pub(crate) fn seal(&mut self, write_id: Uuid, write: Staged) {
        self.staged.insert(write_id, write);
    }

    pub(crate) fn rebase(&mut self, write_id: Uuid, onto: u64, counts: Option<KeyCounts>) {
        if let Some(write) = self.staged.get_mut(&write_id) {
            write.base_version = onto;
            write.summary.keys = counts.or(write.summary.keys);
        }
    }

    pub(crate) fn discard(&mut self, write_id: Uuid) -> Option<Staged> {
        self.staged.remove(&write_id)
    }

    /// Counts a pin on `version` (the current one if `None`), in its newest generation.
    pub(crate) fn pin(&mut self, version: Option<u64>) -> Result<VersionView, NoSuchVersion> {
        let current = self.current.version;
        let version = version.unwrap_or(current);
        let view = if version == current {
            self.current.clone()
        } else if let Some(entry) = self.versions.get(&version) {
            view(&self.files, version, entry)
        } else if version > current {
            return Err(NoSuchVersion::NotYetHere { current });
        } else {
            let oldest = self.versions.keys().next().copied().unwrap_or(current);
            return Err(NoSuchVersion::Expired { oldest, current });
        };
        *self.pins.entry((version, view.generation)).or_default() += 1;
        Ok(view)
    }

    /// Counts one more pin on a view that is pinned.
    pub(crate) fn pin_again(&mut self, view: &VersionView) {
        *self.pins.entry((view.version, view.generation)).or_default() += 1;
    }

    pub(crate) fn unpin(&mut self, view: &VersionView) {
        let pin = (view.version, view.generation);
        if let Some(count) = self.pins.get_mut(&pin) {
            *count -= 1;
            if *count == 0 {
                self.pins.remove(&pin);
            }
        }
    }

    /// The version that was current at a time, or else when the oldest readable one was published.
    pub(crate) fn version_at(&self, time_ms: u64) -> Result<u64, u64> {
        let found = self.versions.iter().rev().find(|(_, entry)| entry.published_ms <= time_ms);
        found
            .map(|(version, _)| *version)
            .ok_or_else(|| self.versions.first_key_value().map_or(0, |(_, entry)| entry.published_ms))
    }

    /// Takes away the versions that nobody pins and that `keep(age rank, superseded at)` lets go, and the files and
    /// deletion vectors that neither the others nor pinned generations need. From now on none of them can be pinned.
    pub(crate) fn expire(&mut self, keep: impl Fn(u64, u64) -> bool) -> Expendable {
        let mut expendable = Expendable::default();
        let pinned: HashSet<u64> = self.pins.keys().map(|(version, _)| *version).collect();
        for (age, (version, entry)) in self.versions.iter().rev().enumerate() {
            if let Some(superseded) = entry.superseded_ms
                && !pinned.contains(version)
                && !keep(age as u64, superseded)
            {
                expendable.versions.push(*version);
            }
        }
        for version in &expendable.versions {
            self.versions.remove(version);
        }
        let mut needed: Vec<u64> = self.versions.values().map(|entry| entry.generation).collect();
        needed.extend(self.pins.keys().map(|(_, generation)| *generation));
        let is_needed = |lifetime: Lifetime| needed.iter().any(|generation| lifetime.covers(*generation));
        self.files.retain_mut(|entry| {
            if !is_needed(entry.lifetime) {
                expendable.files.push(Arc::clone(&entry.file));
                return false;
            }
            let last = entry.vectors.len().saturating_sub(1);
            let mut index = 0;
            entry.vectors.retain(|(_, lifetime)| {
                // The last one stays with its file: what the file's row says is checked against it.
                let needed = index == last || is_needed(*lifetime);
                index += 1;
                if !needed {
                    expendable.vectors.push((Arc::clone(&entry.file), lifetime.added));
                }
                needed
            });
            true
        });
        expendable
    }
}

fn staged_write(write: &WriteRecord, schema: &Arc<TableSchema>, deleted: Option<KeyStore>) -> Staged {
    Staged {
        mode: write.mode,
        schema: Arc::clone(schema),
        base_version: write.base_version,
        summary: write.summary.clone(),
        sealed_ms: write.sealed_ms,
        files: Vec::new(),
        deletes: Deletes::new(),
        by_key: write.key_rule.map(|rule| StagedKeys {
            rule,
            deleted: deleted.unwrap_or_else(|| KeyStore::new(KeyEncoding::Rows)),
            keys: None,
        }),
    }
}

fn rows_in(files: &[CataloguedFile], generation: u64) -> u64 {
    files
        .iter()
        .filter(|entry| entry.lifetime.covers(generation))
        .map(|entry| {
            let deleted = entry.deleted_in(generation).map_or(0, |vector| vector.rows());
            entry.file.summary.rows.saturating_sub(deleted)
        })
        .sum()
}

fn view(files: &[CataloguedFile], version: u64, entry: &Version) -> VersionView {
    let (generation, schema) = (entry.generation, Arc::clone(&entry.schema));
    let files: Arc<[VisibleFile]> = files.iter().filter_map(|file| file.visible_in(generation, &schema)).collect();
    let summary = Arc::new(change::summarize(&files, schema.columns()));
    VersionView { version, generation, schema, files, summary, private: false }
}

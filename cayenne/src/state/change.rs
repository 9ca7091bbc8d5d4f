//! What a publication or a replacement does to the picture, worked out before anything is committed.
//!
//! The metastore commits a [`Change`], then the picture takes it over; so both follow one plan, and everything that can
//! be refused is refused before the first of them has changed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use roaring::RoaringTreemap;
use uuid::Uuid;

use super::{CataloguedFile, DataFile, Lifetime, State, VersionView, VisibleFile};
use crate::deletion_vector::DeletionVector;
use crate::layout;
use crate::options::WriteMode;
use crate::schema::TableSchema;
use crate::stats::DataSummary;

/// Rows that a write deletes, by file.
pub(crate) type Deletes = BTreeMap<Uuid, DeletionVector>;

/// The step from the current generation to the next one.
#[derive(Debug)]
pub(crate) struct Change {
    /// Files that the next generation does not have.
    pub(crate) removed: Vec<Arc<DataFile>>,
    /// Files that only it has.
    pub(crate) added: Vec<Arc<DataFile>>,
    /// The generation whose deletes the added files have seen.
    pub(crate) sequence: u64,
    /// Files that stay with more rows deleted.
    pub(crate) vectors: Vec<(Arc<DataFile>, Arc<DeletionVector>)>,
    /// What a reader sees then.
    pub(crate) view: VersionView,
}

/// Why a change cannot be made, as the end of a sentence.
pub(crate) type Refusal = String;

impl State {
    /// Whether rows can be deleted now: their files are there and nobody else has deleted them.
    /// Those of the write's own files are nobody else's business.
    pub(crate) fn check_deletes(&self, deletes: &Deletes, own: &[Arc<DataFile>]) -> Result<(), Refusal> {
        if deletes.is_empty() {
            return Ok(());
        }
        let visible = self.visible();
        for (id, wanted) in deletes.iter().filter(|(id, _)| own.iter().all(|file| file.id != **id)) {
            let name = layout::file_name(*id);
            let Some(entry) = visible.get(id) else {
                return Err(format!("the rows of data file '{name}' have been replaced or deleted"));
            };
            if let Some(deleted) = &entry.deleted
                && let Some(row) = first_common(wanted, deleted)
            {
                return Err(format!("row {row} of data file '{name}' has been deleted or updated"));
            }
        }
        Ok(())
    }

    /// What publishing a staged write as `version` does, if it also hides `more` rows, of stored files or its own.
    pub(crate) fn plan_publish(&self, write_id: Uuid, version: u64, more: &Deletes) -> Result<Change, Refusal> {
        let Some(write) = self.staged.get(&write_id) else {
            return Err("it is not staged any more".to_owned());
        };
        self.check_deletes(&write.deletes, &write.files)?;
        self.check_deletes(more, &write.files)?;
        let mut removed = Vec::new();
        let mut vectors = Vec::new();
        let mut hidden: BTreeMap<Uuid, RoaringTreemap> = BTreeMap::new();
        for (id, wanted) in write.deletes.iter().chain(more) {
            *hidden.entry(*id).or_default() |= wanted.positions();
        }
        for file in &write.files {
            if let Some(positions) = hidden.remove(&file.id) {
                vectors.push((Arc::clone(file), Arc::new(DeletionVector::new(positions))));
            }
        }
        match write.mode {
            WriteMode::Alter => {}
            WriteMode::Overwrite => removed.extend(self.current.files.iter().map(|entry| Arc::clone(&entry.file))),
            WriteMode::Append => {
                let visible = self.visible();
                for (id, mut positions) in hidden {
                    let Some(entry) = visible.get(&id) else { continue };
                    if let Some(deleted) = &entry.deleted {
                        positions |= deleted.positions();
                    }
                    let file = Arc::clone(&entry.file);
                    if positions.len() == file.summary.rows {
                        removed.push(file);
                    } else {
                        vectors.push((file, Arc::new(DeletionVector::new(positions))));
                    }
                }
            }
        }
        let generation = self.current.generation + 1;
        let mut change = self.change(version, generation, removed, write.files.clone(), generation, vectors);
        if write.mode == WriteMode::Alter {
            change.view = change.view.with_schema(&write.schema);
        }
        Ok(change)
    }

    /// What replacing files of `read` by `added` does. Refused when one of them has changed since, or when a staged write
    /// counts on its positions. `carried` are the rows of the added files that were deleted since.
    pub(crate) fn plan_replace(
        &self,
        read: &VersionView,
        out: &HashSet<Uuid>,
        added: Vec<Arc<DataFile>>,
        carried: Option<&Deletes>,
    ) -> Result<Change, Refusal> {
        let visible = self.visible();
        let held = self.held();
        let mut removed = Vec::with_capacity(out.len());
        for before in read.files.iter().filter(|entry| out.contains(&entry.file.id)) {
            let name = &before.file.name;
            let Some(now) = visible.get(&before.file.id) else {
                return Err(format!("data file '{name}' is not part of the current version any more"));
            };
            if carried.is_none() && now.deleted != before.deleted {
                return Err(format!("rows of data file '{name}' have been deleted meanwhile"));
            }
            if held.contains(&before.file.id) {
                return Err(format!("a staged write deletes rows of data file '{name}'"));
            }
            removed.push(Arc::clone(&before.file));
        }
        let current = &self.current;
        let (vectors, sequence) = match carried {
            None => (Vec::new(), read.generation),
            // The new files have seen every delete so far.
            Some(carried) => {
                let of = |file: &Arc<DataFile>| {
                    let vector = carried.get(&file.id)?;
                    Some((Arc::clone(file), Arc::new(vector.clone())))
                };
                (added.iter().filter_map(of).collect(), current.generation)
            }
        };
        Ok(self.change(current.version, current.generation + 1, removed, added, sequence, vectors))
    }

    /// What it takes for the current version, if it is `version`, to have just the files `named`, of which `added` are not part of
    /// it yet, and just the rows `deleted` of them deleted. Refused when a staged write counts on positions of a file that
    /// would go, and when these would not be the same rows.
    pub(crate) fn plan_alignment(
        &self,
        version: u64,
        rows: u64,
        named: &HashSet<Uuid>,
        added: Vec<Arc<DataFile>>,
        deleted: &Deletes,
    ) -> Result<Change, Refusal> {
        let current = &self.current;
        if current.version != version {
            return Err(format!("the files are of version {version} and version {} is current", current.version));
        }
        let held = self.held();
        let (mut removed, mut vectors) = (Vec::new(), Vec::new());
        for entry in current.files.iter() {
            let (file, name) = (&entry.file, &entry.file.name);
            if !named.contains(&file.id) {
                if held.contains(&file.id) {
                    return Err(format!("a staged write deletes rows of data file '{name}'"));
                }
                removed.push(Arc::clone(file));
                continue;
            }
            match (&entry.deleted, deleted.get(&file.id)) {
                (None, None) => {}
                (Some(before), Some(now)) if **before == *now => {}
                // A vector holds all that the one before it held.
                (before, Some(now))
                    if before.as_ref().is_none_or(|before| before.positions().is_subset(now.positions())) =>
                {
                    vectors.push((Arc::clone(file), Arc::new(now.clone())));
                }
                _ => return Err(format!("other rows of data file '{name}' have been deleted")),
            }
        }
        for file in &added {
            if let Some(vector) = deleted.get(&file.id) {
                vectors.push((Arc::clone(file), Arc::new(vector.clone())));
            }
        }
        let sequence = current.generation;
        let change = self.change(version, current.generation + 1, removed, added, sequence, vectors);
        let found: u64 = change.view.files.iter().map(VisibleFile::rows).sum();
        if found != rows || current.files.iter().map(VisibleFile::rows).sum::<u64>() != rows {
            return Err(format!("the files hold {found} rows instead of {rows}"));
        }
        Ok(change)
    }

    /// Files whose positions staged writes count on.
    pub(crate) fn held(&self) -> HashSet<Uuid> {
        self.staged.values().flat_map(|write| write.deletes.keys().copied()).collect()
    }

    fn visible(&self) -> HashMap<Uuid, &VisibleFile> {
        self.current.files.iter().map(|entry| (entry.file.id, entry)).collect()
    }

    fn change(
        &self,
        version: u64,
        generation: u64,
        removed: Vec<Arc<DataFile>>,
        added: Vec<Arc<DataFile>>,
        sequence: u64,
        vectors: Vec<(Arc<DataFile>, Arc<DeletionVector>)>,
    ) -> Change {
        let gone: HashSet<Uuid> = removed.iter().map(|file| file.id).collect();
        let newer: HashMap<Uuid, &Arc<DeletionVector>> =
            vectors.iter().map(|(file, vector)| (file.id, vector)).collect();
        let stay = self.current.files.iter().filter(|entry| !gone.contains(&entry.file.id)).map(|entry| {
            let deleted = newer.get(&entry.file.id).map(|vector| Arc::clone(vector)).or_else(|| entry.deleted.clone());
            VisibleFile { deleted, ..entry.clone() }
        });
        let schema = Arc::clone(&self.current.schema);
        let new = added.iter().map(|file| {
            let deleted = newer.get(&file.id).map(|vector| Arc::clone(vector));
            VisibleFile::new(file, sequence, &schema).without(deleted)
        });
        let files: Arc<[VisibleFile]> = stay.chain(new).collect();
        let summary = if gone.is_empty() && newer.is_empty() {
            // A pure append: no need to go through all files.
            let mut summary = self.current.summary.as_ref().clone();
            files[self.current.files.len()..].iter().for_each(|entry| summary.merge(entry.summary()));
            summary
        } else {
            summarize(&files, schema.columns())
        };
        let view = VersionView { version, generation, schema, files, summary: Arc::new(summary), private: false };
        Change { removed, added, sequence, vectors, view }
    }

    /// Follows the commit of a publication.
    pub(crate) fn publish(&mut self, write_id: Uuid, change: Change, now_ms: u64) {
        self.staged.remove(&write_id);
        if let Some(superseded) = self.versions.get_mut(&self.current.version) {
            superseded.superseded_ms = Some(now_ms);
        }
        self.advance(change);
        let VersionView { version, generation, .. } = self.current;
        let schema = Arc::clone(&self.current.schema);
        let entry = super::Version { schema, generation, published_ms: now_ms, superseded_ms: None };
        self.versions.insert(version, entry);
    }

    /// Follows the commit of a replacement.
    pub(crate) fn replace(&mut self, change: Change) {
        self.advance(change);
        if let Some(version) = self.versions.get_mut(&self.current.version) {
            version.generation = self.current.generation;
        }
    }

    fn advance(&mut self, change: Change) {
        let generation = change.view.generation;
        let gone: HashSet<Uuid> = change.removed.iter().map(|file| file.id).collect();
        let mut newer: HashMap<Uuid, Arc<DeletionVector>> =
            change.vectors.into_iter().map(|(file, vector)| (file.id, vector)).collect();
        if !gone.is_empty() || !newer.is_empty() {
            for entry in self.files.iter_mut().filter(|entry| entry.lifetime.removed.is_none()) {
                let vector = newer.remove(&entry.file.id);
                let goes = gone.contains(&entry.file.id);
                if !goes && vector.is_none() {
                    continue;
                }
                for (_, lifetime) in entry.vectors.iter_mut().filter(|(_, lifetime)| lifetime.removed.is_none()) {
                    lifetime.removed = Some(generation);
                }
                if goes {
                    entry.lifetime.removed = Some(generation);
                }
                entry.vectors.extend(vector.map(|vector| (vector, Lifetime::from(generation))));
            }
        }
        self.files.extend(change.added.into_iter().map(|file| CataloguedFile {
            lifetime: Lifetime::from(generation),
            sequence: change.sequence,
            vectors: newer.remove(&file.id).map(|vector| (vector, Lifetime::from(generation))).into_iter().collect(),
            file,
        }));
        self.current = change.view;
    }
}

impl VersionView {
    /// The same rows in other columns.
    fn with_schema(mut self, schema: &Arc<TableSchema>) -> Self {
        let adapted = self.files.iter().cloned().map(|mut entry| {
            entry.adapt(schema);
            entry
        });
        self.files = adapted.collect();
        self.summary = Arc::new(summarize(&self.files, schema.columns()));
        self.schema = Arc::clone(schema);
        self
    }
}

/// What files show together.
pub(super) fn summarize(files: &[VisibleFile], columns: usize) -> DataSummary {
    let mut summary = DataSummary::empty(columns);
    for entry in files {
        summary.merge_without(entry.summary(), entry.deleted_rows());
    }
    summary
}

fn first_common(a: &DeletionVector, b: &DeletionVector) -> Option<u64> {
    if a.positions().is_disjoint(b.positions()) {
        return None;
    }
    (a.positions() & b.positions()).min()
}

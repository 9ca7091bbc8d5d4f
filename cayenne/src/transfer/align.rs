//! A replica takes over how the rows of its version lie in files, from another partition with the same rows at the same version.
//!
//! Rows are named by file and position, and a rewriting gives them new names. So only one replica of a partition rewrites files,
//! and the others follow it: they fetch the files that they do not have, and swap them in as a rewriting of their own would.
//! The version stays, its generation grows; readers of the older generation keep its files.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use super::fetch::Fetch;
use super::install::InstallOptions;
use super::manifest::{ManifestFile, PartitionManifest};
use super::source::FileSource;
use super::staged::{StagedManifest, data_files, own_schema, record_of};
use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::file_set::CreatedFiles;
use crate::layout;
use crate::metastore::FileRecord;
use crate::partition::{Inner, Partition};
use crate::state::{DataFile, Deletes};

/// Files on their way into the place of others with the same rows. Dropped before [`commit`](Self::commit), it removes what it
/// fetched.
pub struct Alignment {
    partition: Partition,
    here: HashSet<Uuid>,
    created: CreatedFiles,
}

impl Partition {
    /// Starts to take over the files of another partition with the same rows.
    ///
    /// # Errors
    /// [`Error::ReadOnly`].
    pub fn begin_alignment(&self) -> Result<Alignment> {
        self.inner.check_writable()?;
        let created = CreatedFiles::of(&self.inner, Vec::new());
        Ok(Alignment { partition: self.clone(), here: HashSet::new(), created })
    }

    /// How many data files the current version has.
    pub fn file_count(&self) -> usize {
        self.inner.state.lock().current().files.len()
    }

    /// Forgets those writes `among` the ones that are staged here that are not staged at the partition that this one is a
    /// replica of, as its manifest says, which was made **after** `among` was looked up. At the same version that means that they
    /// were discarded there; at another one nothing is known. Answers which.
    ///
    /// # Errors
    /// As [`discard`](Self::discard).
    pub async fn discard_others(&self, among: &[Uuid], source: &StagedManifest) -> Result<Vec<Uuid>> {
        if self.version() != source.version {
            return Ok(Vec::new());
        }
        let others: Vec<Uuid> = among.iter().filter(|id| !source.staged.contains(*id)).copied().collect();
        for id in &others {
            self.discard(*id).await?;
        }
        Ok(others)
    }
}

impl Alignment {
    /// Brings the files of a version here that are not here yet.
    ///
    /// # Errors
    /// [`Error::CopyFailed`] and [`Error::CopyDamaged`], which name the file; [`Error::NoRoomForCopy`]; of the disk.
    /// [`Error::FilesChanged`] when a file was part of this partition once and is not any more.
    pub async fn fetch(
        &mut self,
        manifest: &PartitionManifest,
        source: Arc<dyn FileSource>,
        options: &InstallOptions,
    ) -> Result<()> {
        let inner = &self.partition.inner;
        let mut wanted: Vec<ManifestFile> = Vec::new();
        {
            let state = inner.state.lock();
            let visible: HashSet<Uuid> = state.current().files.iter().map(|entry| entry.file.id).collect();
            for file in
                manifest.files.iter().filter(|file| !visible.contains(&file.id) && !self.here.contains(&file.id))
            {
                if state.file(file.id).is_some() {
                    return Err(changed(inner, format!("data file '{}' was replaced here before", file.name())));
                }
                wanted.push(file.clone());
            }
        }
        for file in &wanted {
            self.created.add(file.name());
        }
        let place = Arc::clone(&inner.place);
        let fetch = Fetch { dir: &inner.dir, files: &wanted, place, source, options, alone: false };
        let missing = fetch.missing().await?;
        inner.options.disk.check_copy(&inner.dir, &inner.place, missing.iter().map(|file| file.bytes).sum())?;
        fetch.fetch(missing).await?;
        self.here.extend(wanted.iter().map(|file| file.id));
        Ok(())
    }

    /// Puts the files of a version, all of which are here, in the place of those of the same version here.
    ///
    /// # Errors
    /// [`Error::FilesChanged`] when this partition is at another version, when a staged write deletes rows of a file that would
    /// go, or when the rows are not the same after all; [`Error::ManifestDamaged`]; of the disk. Nothing has changed then.
    pub async fn commit(self, manifest: &PartitionManifest) -> Result<()> {
        let Self { partition, created, .. } = self;
        let keyed = partition.inner.keyed.clone();
        let guard = match &keyed {
            Some(keyed) => Some(keyed.begin_commit().await),
            None => None,
        };
        let manifest = manifest.clone();
        let guard =
            partition.blocking("aligning files", move |inner| swap(inner, &manifest, created).map(|()| guard)).await?;
        // Not needed for what was asked: who needs the index takes in what it does not know.
        if let (Some(keyed), Some(guard)) = (keyed, guard) {
            let covered = match partition.pin(None) {
                Ok(pin) => keyed.cover(&pin, &guard).await,
                Err(error) => Err(error),
            };
            if let Err(error) = covered {
                tracing::debug!(%error, "the keys of new files are not indexed yet");
            }
        }
        Ok(())
    }
}

fn changed(inner: &Inner, detail: String) -> Error {
    Error::FilesChanged { place: Arc::clone(&inner.place), detail }
}

/// The files of a manifest that are not part of the current version, as this partition has them.
fn added(
    inner: &Inner,
    manifest: &PartitionManifest,
    visible: &HashSet<Uuid>,
) -> Result<(Vec<FileRecord>, Vec<Arc<DataFile>>)> {
    let metastore = inner.metastore.lock();
    let mut schemas = HashMap::new();
    for schema in &manifest.schemas {
        if let Some(own) = own_schema(metastore.schemas(), schema).map_err(|detail| manifest.damaged(detail))? {
            schemas.insert(schema.id, own);
        }
    }
    drop(metastore);
    let (mut records, mut files) = (Vec::new(), Vec::new());
    for file in manifest.files.iter().filter(|file| !visible.contains(&file.id)) {
        let schema = schemas.get(&file.schema_id).ok_or_else(|| {
            changed(inner, format!("data file '{}' has columns that were never known here", file.name()))
        })?;
        let record = record_of(file, schema, file.write_id).map_err(|detail| manifest.damaged(detail))?;
        let file =
            data_files(inner, std::slice::from_ref(&record), schema).map_err(|detail| manifest.damaged(detail))?;
        records.push(record);
        files.extend(file);
    }
    Ok((records, files))
}

fn swap(inner: &Arc<Inner>, manifest: &PartitionManifest, mut created: CreatedFiles) -> Result<()> {
    manifest.check()?;
    let mut deleted = Deletes::new();
    for file in &manifest.files {
        if let Some(vector) = &file.deleted {
            let decoded = DeletionVector::decode(&file.name(), file.rows, &vector.positions.0, &vector.sha256.0);
            deleted.insert(file.id, decoded.map_err(|detail| manifest.damaged(detail))?);
        }
    }
    let visible = inner.state.lock().current().files.iter().map(|entry| entry.file.id).collect();
    let (records, files) = added(inner, manifest, &visible)?;
    inner.step(Step::SyncDirectory)?;
    if !records.is_empty() {
        layout::sync_directory(&inner.dir.join(layout::FILES))?;
    }
    let mut metastore = inner.metastore.lock();
    inner.step(Step::Replace)?;
    let named: HashSet<Uuid> = manifest.files.iter().map(|file| file.id).collect();
    let planned = inner.state.lock().plan_alignment(manifest.version, manifest.rows, &named, files, &deleted);
    let change = planned.map_err(|detail| changed(inner, detail))?;
    if change.removed.is_empty() && change.added.is_empty() && change.vectors.is_empty() {
        return Ok(());
    }
    if let Err(error) = metastore.replace(&records, &change) {
        // If the outcome of the commit is unknown the files must stay; start-up removes them if nothing names them.
        let unnamed = records.iter().all(|file| matches!(metastore.knows_file(&file.path), Ok(false)));
        if !unnamed {
            created.keep();
        }
        return Err(error);
    }
    created.keep_only_others(&records.iter().map(|record| record.path.as_str()).collect());
    inner.state.lock().replace(change);
    inner.step(Step::Replaced)
}

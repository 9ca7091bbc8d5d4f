//! A staged write for replicas: what a partition has staged, another one with the same rows stages under the same id.
//!
//! The files are the same, and so are the rows that it deletes by position. So the replica must have the files that these
//! positions are of: see [`Alignment`](super::Alignment). What the write does by key is found out by each partition for
//! itself when it is published.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::encoding::{Blob, Checksum};
use super::fetch::Fetch;
use super::install::InstallOptions;
use super::manifest::{FORMAT, ManifestFile, ManifestSchema, ManifestWrite};
use super::source::{FileSource, read_file};
use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::file_set::{CreatedFiles, FinishedFiles};
use crate::keys::key_set;
use crate::keys::write_keys::KeyRule;
use crate::layout;
use crate::metastore::{FileRecord, Schemas, decode_defaults, decode_schema};
use crate::options::WriteMode;
use crate::partition::{Inner, Partition};
use crate::schema::TableSchema;
use crate::staged_writer::{ReservedId, seal};
use crate::state::{DataFile, Deletes, Staged, StagedKeys};
use crate::stats::{DataSummary, WriteSummary, decode_columns, parse_key_counts};

/// A staged write: everything but the bytes of its data files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StagedManifest {
    /// As of a [`PartitionManifest`](super::PartitionManifest).
    pub format: u32,
    /// Name of the table.
    pub table: String,
    /// The partition as shown to people.
    pub partition: String,
    /// Id of the partition.
    pub partition_id: u64,
    /// The version that the source is at.
    pub version: u64,
    /// The write that made it.
    pub version_write: Option<Uuid>,
    /// Its data files.
    pub version_files: u64,
    /// The schema of its rows.
    pub schema: ManifestSchema,
    /// The write.
    pub write: ManifestWrite,
    /// Keys that it deletes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted_keys: Option<Blob>,
    /// Rows that it deletes, of stored files and of its own.
    pub deletes: Vec<StagedVector>,
    /// Its data files.
    pub files: Vec<ManifestFile>,
    /// All writes that are staged at the source, this one included.
    pub staged: Vec<Uuid>,
}

/// Rows of a file that a staged write deletes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StagedVector {
    /// The file.
    pub file: Uuid,
    /// Their positions, as a roaring bitmap.
    pub positions: Blob,
    /// SHA-256 over the name of the file and the positions.
    pub sha256: Checksum,
}

impl StagedManifest {
    /// Reads a manifest. It is checked when it is staged.
    ///
    /// # Errors
    /// [`Error::ManifestFormat`] and [`Error::ManifestDamaged`].
    pub fn decode(json: &[u8]) -> Result<Self> {
        let damaged = |detail: String| Error::ManifestDamaged { what: "a staged write".to_owned(), detail };
        let manifest: Self = serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
        if manifest.format != FORMAT {
            return Err(Error::ManifestFormat { found: manifest.format, supported: FORMAT });
        }
        Ok(manifest)
    }

    /// As JSON.
    ///
    /// # Errors
    /// [`Error::ManifestDamaged`], which does not happen: nothing in a manifest is without a form in JSON.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| self.damaged(error.to_string()))
    }

    fn damaged(&self, detail: String) -> Error {
        let what = format!("table '{}', partition '{}', write {}", self.table, self.partition, self.write.id);
        Error::ManifestDamaged { what, detail }
    }
}

/// The data files of a staged write, for as long as it is not discarded.
#[derive(Debug)]
pub struct StagedFiles {
    files: BTreeMap<Uuid, Arc<DataFile>>,
}

#[async_trait]
impl FileSource for StagedFiles {
    async fn read(&self, file: &ManifestFile, range: Range<u64>) -> io::Result<Bytes> {
        let Some(known) = self.files.get(&file.id) else {
            let message = format!("data file '{}' is not part of the write", file.name());
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        };
        read_file(known.path.clone(), range).await
    }
}

impl Partition {
    /// A staged write for replicas.
    ///
    /// # Errors
    /// [`Error::UnknownWrite`] when it is not staged (any more), those of the metastore.
    pub async fn export_staged(&self, write_id: Uuid) -> Result<(StagedManifest, StagedFiles)> {
        let export = move |inner: &Arc<Inner>| {
            let metastore = inner.metastore.lock();
            // Nothing is published or staged while the metastore is locked.
            let (current, staged, files) = {
                let state = inner.state.lock();
                let files = state.staged().get(&write_id).map(|write| write.files.clone()).unwrap_or_default();
                let current = (state.current().version, state.current().files.len() as u64);
                (current, state.staged().keys().copied().collect(), files)
            };
            let manifest = metastore.export_staged(&inner.identity, write_id, current, staged)?;
            let unknown = || Error::UnknownWrite { place: Arc::clone(&inner.place), write_id };
            let files = files.into_iter().map(|file| (file.id, file)).collect();
            Ok((manifest.ok_or_else(unknown)?, StagedFiles { files }))
        };
        self.blocking("exporting a staged write", export).await
    }

    /// Whether a write from elsewhere deletes rows of files that are not part of the current version here.
    pub fn lacks_files_of(&self, manifest: &StagedManifest) -> bool {
        let state = self.inner.state.lock();
        let here = |id: &Uuid| state.current().files.iter().any(|entry| entry.file.id == *id);
        let own = |id: &Uuid| manifest.files.iter().any(|file| file.id == *id);
        manifest.deletes.iter().any(|vector| !own(&vector.file) && !here(&vector.file))
    }

    /// Stages what another partition with the same rows has staged, durably, under the same id. Staging it again does nothing.
    ///
    /// # Errors
    /// [`Error::WriteConflict`] when the columns are others here, or rows that it deletes are gone or not in the same files;
    /// [`Error::WriteInProgress`]; [`Error::ManifestDamaged`]; [`Error::CopyFailed`] and [`Error::CopyDamaged`], which name
    /// the file; of the disk. Nothing of the write remains then.
    pub async fn stage_copy(
        &self,
        manifest: &StagedManifest,
        source: Arc<dyn FileSource>,
        options: &InstallOptions,
    ) -> Result<()> {
        let inner = &self.inner;
        inner.check_writable()?;
        let write_id = manifest.write.id;
        let _reserved = ReservedId::take(self, write_id)?;
        let known = self.blocking("looking up a write", move |inner| inner.metastore.lock().write(write_id)).await?;
        if known.is_some() {
            return Ok(());
        }
        inner.check_space()?;
        let (staged, records) = self.staged_of(manifest)?;
        let names = records.iter().map(|record| record.path.clone()).collect();
        // From here on they go with whatever ends this early.
        let created = CreatedFiles::of(inner, names);
        let place = Arc::clone(&inner.place);
        let fetch = Fetch { dir: &inner.dir, files: &manifest.files, place, source, options, alone: false };
        let missing = fetch.missing().await?;
        fetch.fetch(missing).await?;
        let schema = Arc::clone(&staged.schema);
        let files = FinishedFiles { schema, records, summary: staged.summary.data.clone(), created };
        self.blocking("recording a staged write", move |inner| {
            let sealed = seal(inner, write_id, staged, files, None)?;
            inner.make_durable(sealed)?;
            inner.step(Step::Sealed)
        })
        .await
    }

    /// What a manifest says, in the terms of this partition.
    fn staged_of(&self, manifest: &StagedManifest) -> Result<(Staged, Vec<FileRecord>)> {
        let inner = &self.inner;
        let write = &manifest.write;
        let damaged = |detail: String| manifest.damaged(detail);
        let schema = {
            let metastore = inner.metastore.lock();
            own_schema(metastore.schemas(), &manifest.schema).map_err(damaged)?
        };
        let schema = schema.ok_or_else(|| {
            inner.conflict(write.id, write.base_version, "the columns of the table are others here".to_owned())
        })?;
        let mut deletes = Deletes::new();
        for StagedVector { file, positions, sha256 } in &manifest.deletes {
            let vector = DeletionVector::decode(&layout::file_name(*file), u64::MAX, &positions.0, &sha256.0);
            deletes.insert(*file, vector.map_err(damaged)?);
        }
        let deleted: u64 = deletes.values().map(DeletionVector::rows).sum();
        if deleted != write.deleted_rows + write.repeated_rows {
            return Err(damaged(format!("it names {deleted} deleted rows instead of {}", write.deleted_rows)));
        }
        let by_key = match (&write.key_rule, &inner.keyed) {
            (None, _) => None,
            (Some(_), None) => return Err(damaged("it has keys, and the table has none here".to_owned())),
            (Some(rule), Some(keyed)) => {
                let encoding = keyed.encoder.encoding();
                let rule = KeyRule::parse(rule).ok_or_else(|| damaged(format!("it has the key rule '{rule}'")))?;
                let deleted = match &manifest.deleted_keys {
                    Some(keys) => key_set::decode(&keys.0, encoding).map_err(damaged)?,
                    None => crate::keys::store::KeyStore::new(encoding),
                };
                Some(StagedKeys { rule, deleted, keys: None })
            }
        };
        let records = manifest
            .files
            .iter()
            .map(|file| {
                if file.schema_id != manifest.schema.id {
                    return Err(damaged(format!("data file '{}' has another schema", file.name())));
                }
                record_of(file, &schema, write.id).map_err(damaged)
            })
            .collect::<Result<Vec<_>>>()?;
        let files = data_files(inner, &records, &schema).map_err(damaged)?;
        let counts = write.key_counts.as_deref();
        let keys = counts.map(|text| parse_key_counts(text).ok_or_else(|| damaged(format!("key counts '{text}'"))));
        let summary = WriteSummary {
            data: DataSummary {
                rows: write.rows,
                deleted_rows: write.repeated_rows,
                bytes: write.bytes,
                files: write.files,
                columns: columns_of(&write.statistics, &schema).map_err(damaged)?,
            },
            deleted_rows: write.deleted_rows,
            keys: keys.transpose()?,
        };
        let mode = WriteMode::parse(&write.mode).filter(|mode| *mode != WriteMode::Alter);
        let mode = mode.ok_or_else(|| damaged(format!("it has the mode '{}'", write.mode)))?;
        let base_version = write.base_version;
        Ok((Staged { mode, schema, base_version, summary, sealed_ms: 0, files, deletes, by_key }, records))
    }
}

/// The schema of this partition that is the given one of another: the numbers may differ, names and types may not.
pub(super) fn own_schema(
    schemas: &Schemas,
    given: &ManifestSchema,
) -> std::result::Result<Option<Arc<TableSchema>>, String> {
    let logical = decode_schema(&given.columns.0)?;
    let stored = given.stored.as_ref().map_or_else(|| Ok(Arc::clone(&logical)), |stored| decode_schema(&stored.0))?;
    let defaults = given.defaults.as_ref().map_or_else(|| Ok(BTreeMap::new()), |bytes| decode_defaults(&bytes.0))?;
    let same = |schema: &&Arc<TableSchema>| {
        schema.logical.fields() == logical.fields()
            && schema.stored.fields() == stored.fields()
            && schema.defaults == defaults
    };
    Ok(schemas.values().rev().find(same).cloned())
}

/// A file from elsewhere as this partition records it.
pub(super) fn record_of(
    file: &ManifestFile,
    schema: &TableSchema,
    write_id: Uuid,
) -> std::result::Result<FileRecord, String> {
    let columns = columns_of(&file.statistics, schema)?;
    Ok(FileRecord {
        schema_id: schema.id,
        path: file.name(),
        sha256: file.sha256.0,
        summary: DataSummary { rows: file.rows, deleted_rows: 0, bytes: file.bytes, files: 1, columns },
        added: None,
        removed: None,
        sequence: None,
        deleted_rows: 0,
        write_id,
        runs: Vec::new(),
    })
}

pub(super) fn data_files(
    inner: &Inner,
    records: &[FileRecord],
    schema: &Arc<TableSchema>,
) -> std::result::Result<Vec<Arc<DataFile>>, String> {
    let file = |record: &FileRecord| {
        let file = DataFile::new(&inner.dir, record, schema);
        file.map(Arc::new).ok_or_else(|| format!("'{}' is not the name of a data file", record.path))
    };
    records.iter().map(file).collect()
}

fn columns_of(
    statistics: &Blob,
    schema: &TableSchema,
) -> std::result::Result<Vec<crate::stats::ColumnSummary>, String> {
    // The reader of the encoding panics where an offset in it is damaged.
    let columns = schema.columns();
    let decoded = catch_unwind(|| decode_columns(&statistics.0, columns));
    decoded.unwrap_or_else(|_| Err("its statistics cannot be read".to_owned()))
}

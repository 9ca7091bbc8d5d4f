//! The manifest of a partition at one version. As JSON it is what snapshots store and what peers send first.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::catch_unwind;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::encoding::{Blob, Checksum};
use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Result};
use crate::layout;
use crate::metastore::decode_schema;
use crate::options::PartitionIdentity;
use crate::stats::decode_columns;

/// The format that this build writes, and the only one it reads.
pub const FORMAT: u32 = 1;

/// A partition at one version: everything but the bytes of its data files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartitionManifest {
    /// Of the manifest; see [`FORMAT`].
    pub format: u32,
    /// Name of the table.
    pub table: String,
    /// The partition as shown to people.
    pub partition: String,
    /// Id of the partition in the cluster that it comes from.
    pub partition_id: u64,
    /// The version.
    pub version: u64,
    /// The state of the files that was exported.
    pub generation: u64,
    /// When the version was published, in milliseconds since 1970.
    pub published_ms: u64,
    /// Rows that a reader of the version sees.
    pub rows: u64,
    /// Bytes of all data files.
    pub bytes: u64,
    /// The table's settings as its metastore has them, columns by their stored names.
    pub settings: BTreeMap<String, Setting>,
    /// The schema of the version.
    pub schema_id: i64,
    /// SHA-256 of the version's schema as it stands in `schemas`.
    pub schema_fingerprint: Checksum,
    /// Every schema that the table ever had here.
    pub schemas: Vec<ManifestSchema>,
    /// What made the version: `create`, or the mode of its write.
    pub kind: String,
    /// The write that made the version; a request to publish it again is recognised by it.
    pub write: Option<ManifestWrite>,
    /// The data files, in the order in which they became part of the partition.
    pub files: Vec<ManifestFile>,
}

/// A setting of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// A number.
    Number(i64),
    /// A text.
    Text(String),
}

/// A schema of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestSchema {
    /// Its number in this partition.
    pub id: i64,
    /// What the table calls its columns, as an Arrow IPC stream.
    pub columns: Blob,
    /// What the data files call them, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<Blob>,
    /// What files without a column hold in it, as an Arrow IPC stream of one row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Blob>,
}

/// The write that made the version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestWrite {
    /// Its id.
    pub id: Uuid,
    /// Its mode.
    pub mode: String,
    /// The schema of its rows.
    pub schema_id: i64,
    /// Rows added.
    pub rows: u64,
    /// Bytes added.
    pub bytes: u64,
    /// Files added.
    pub files: u64,
    /// Statistics of its rows.
    pub statistics: Blob,
    /// When it was finished, in milliseconds since 1970.
    pub sealed_ms: u64,
    /// The version that it read, or was last checked against.
    pub base_version: u64,
    /// Rows that it deleted by position.
    pub deleted_rows: u64,
    /// Rows of its own that repeated a key.
    pub repeated_rows: u64,
    /// What it did with keys that were there, in a table that keeps one row per key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_rule: Option<String>,
    /// How many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_counts: Option<String>,
}

/// A data file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestFile {
    /// Its identity, the same wherever the file is copied to.
    pub id: Uuid,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its bytes.
    pub sha256: Checksum,
    /// Rows that it holds, deleted or not.
    pub rows: u64,
    /// The schema that it was written with.
    pub schema_id: i64,
    /// Statistics of its rows.
    pub statistics: Blob,
    /// The write that brought it.
    pub write_id: Uuid,
    /// The generation in which it became part of the partition.
    pub added_generation: u64,
    /// The generation whose deletes its rows have seen.
    pub sequence: u64,
    /// Its rows that are deleted in this version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<ManifestVector>,
}

/// Deleted rows of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestVector {
    /// How many.
    pub rows: u64,
    /// The generation in which they were deleted.
    pub added_generation: u64,
    /// Their positions, as a roaring bitmap.
    pub positions: Blob,
    /// SHA-256 over the name of the file and the positions.
    pub sha256: Checksum,
}

impl ManifestFile {
    /// Its name inside a partition directory.
    pub fn name(&self) -> String {
        layout::file_name(self.id)
    }

    fn live_rows(&self) -> u64 {
        self.rows.saturating_sub(self.deleted.as_ref().map_or(0, |vector| vector.rows))
    }
}

impl PartitionManifest {
    /// Reads a manifest and checks it against itself.
    ///
    /// # Errors
    /// [`Error::ManifestFormat`] and [`Error::ManifestDamaged`].
    pub fn decode(json: &[u8]) -> Result<Self> {
        let damaged = |detail: String| Error::ManifestDamaged { what: "a partition".to_owned(), detail };
        // The format comes first: another one may have other fields.
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let head: Head = serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
        if head.format != FORMAT {
            return Err(Error::ManifestFormat { found: head.format, supported: FORMAT });
        }
        // The reader of the statistics' encoding panics where an offset in it is damaged.
        let decoded = catch_unwind(|| {
            let manifest: Self = serde_json::from_slice(json).map_err(|error| damaged(error.to_string()))?;
            manifest.check()?;
            Ok(manifest)
        });
        decoded.unwrap_or_else(|_| Err(damaged("its statistics cannot be read".to_owned())))
    }

    /// As JSON, the same bytes for the same manifest.
    ///
    /// # Errors
    /// [`Error::ManifestDamaged`], which does not happen: nothing in a manifest is without a form in JSON.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| self.damaged(error.to_string()))
    }

    /// Which partition it is of.
    pub fn identity(&self) -> PartitionIdentity {
        PartitionIdentity {
            table: self.table.clone(),
            partition: self.partition.clone(),
            partition_id: self.partition_id,
        }
    }

    /// The same rows as another partition, at a version of its own.
    #[must_use]
    pub fn with_identity(self, identity: &PartitionIdentity, version: u64) -> Self {
        Self {
            table: identity.table.clone(),
            partition: identity.partition.clone(),
            partition_id: identity.partition_id,
            version,
            ..self
        }
    }

    /// The columns of the version.
    ///
    /// # Errors
    /// [`Error::ManifestDamaged`].
    pub fn schema(&self) -> Result<SchemaRef> {
        let schema = self.schemas.iter().find(|schema| schema.id == self.schema_id);
        let schema = schema.ok_or_else(|| self.damaged(format!("there is no schema {}", self.schema_id)))?;
        decode_schema(&schema.columns.0).map_err(|detail| self.damaged(format!("schema {}: {detail}", schema.id)))
    }

    /// Checks that it can be what a partition exported.
    ///
    /// # Errors
    /// [`Error::ManifestFormat`], and [`Error::ManifestDamaged`], which names the file where there is one.
    pub fn check(&self) -> Result<()> {
        if self.format != FORMAT {
            return Err(Error::ManifestFormat { found: self.format, supported: FORMAT });
        }
        let mut columns = BTreeMap::new();
        for schema in &self.schemas {
            let decode = |bytes: &Blob| {
                decode_schema(&bytes.0).map_err(|detail| self.damaged(format!("schema {}: {detail}", schema.id)))
            };
            let logical = decode(&schema.columns)?;
            schema.stored.as_ref().map(decode).transpose()?;
            if columns.insert(schema.id, logical.fields().len()).is_some() {
                return Err(self.damaged(format!("schema {} occurs twice", schema.id)));
            }
            if schema.id == self.schema_id && Checksum::of(&schema.columns.0) != self.schema_fingerprint {
                return Err(self.damaged("the schema has another fingerprint".to_owned()));
            }
        }
        let columns_of =
            |id: i64| columns.get(&id).copied().ok_or_else(|| self.damaged(format!("there is no schema {id}")));
        columns_of(self.schema_id)?;
        let mut ids = BTreeSet::new();
        for file in &self.files {
            let bad = |detail: String| self.damaged(format!("data file '{}': {detail}", file.name()));
            if !ids.insert(file.id) {
                return Err(bad("it occurs twice".to_owned()));
            }
            if file.added_generation > self.generation || file.sequence > self.generation {
                return Err(bad(format!("it is newer than generation {}", self.generation)));
            }
            decode_columns(&file.statistics.0, columns_of(file.schema_id)?).map_err(bad)?;
            if let Some(deleted) = &file.deleted {
                let decoded = DeletionVector::decode(&file.name(), file.rows, &deleted.positions.0, &deleted.sha256.0);
                let found = decoded.map_err(|detail| bad(format!("its deletion vector: {detail}")))?.rows();
                if found != deleted.rows || deleted.added_generation > self.generation {
                    return Err(bad(format!("its deletion vector names {found} rows instead of {}", deleted.rows)));
                }
            }
        }
        if let Some(write) = &self.write {
            decode_columns(&write.statistics.0, columns_of(write.schema_id)?)
                .map_err(|detail| self.damaged(format!("statistics of write {}: {detail}", write.id)))?;
        }
        let rows: u64 = self.files.iter().map(ManifestFile::live_rows).sum();
        let bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        if (rows, bytes) != (self.rows, self.bytes) {
            return Err(self.damaged(format!(
                "its files have {rows} rows and {bytes} bytes, which should be {} and {}",
                self.rows, self.bytes
            )));
        }
        Ok(())
    }

    pub(crate) fn damaged(&self, detail: String) -> Error {
        let what = format!("table '{}', partition '{}', version {}", self.table, self.partition, self.version);
        Error::ManifestDamaged { what, detail }
    }

    pub(crate) fn place(&self) -> Arc<crate::error::Place> {
        Arc::new(crate::error::Place { table: self.table.clone(), partition: self.partition.clone() })
    }
}

//! What a location has of a table: its head, and a listed snapshot as a table that can be scanned.
use std::sync::Arc;

use ancho_common::{
    error::{Error, Result},
    plan::snapshot_scan::{SnapshotPart, SnapshotSource},
    schema,
    snapshot::{Head, HeadEntry, SnapshotLocation, SnapshotSet, SnapshotStore, names, set::sha256_hex},
};
use arrow::datatypes::SchemaRef;

use crate::planner::published::PublishedTable;

/// A snapshot that can be read.
#[derive(Debug)]
pub struct Contents {
    /// What it is made of.
    pub set: SnapshotSet,
    /// Its columns.
    pub schema: SchemaRef,
    /// Its rows.
    pub rows: Arc<PublishedTable>,
}

/// The head of a table's folder, if anything was published there.
///
/// # Errors
/// `Unavailable` where the store does not answer; `Corrupt` for what is no head.
pub async fn head_of(store: &SnapshotStore, folder: &str) -> Result<Option<Head>> {
    let key = names::head(folder);
    let Some((bytes, _)) = store.read_versioned(&key).await? else { return Ok(None) };
    Head::decode(&bytes).map(Some).map_err(|e| e.context(&format!("{}/{key}", store.place())))
}

impl Contents {
    /// Of a listed snapshot. Its manifests and data files are read and checked with its rows.
    ///
    /// # Errors
    /// `Unsupported` for one of another engine; `NotFound` or `Corrupt` where its set is not what the head names;
    /// `Unavailable` where the store does not answer.
    pub async fn open(
        location: &SnapshotLocation,
        store: &SnapshotStore,
        folder: &str,
        entry: &HeadEntry,
    ) -> Result<Self> {
        entry.check_engine()?;
        let set = SnapshotSet::decode(&store.read_checked(&entry.set).await?).map_err(|e| e.context(&entry.set.key))?;
        let columns = schema::from_hex(&set.schema)?;
        let fingerprint = sha256_hex(&columns);
        if set.id != entry.id || fingerprint != set.schema_fingerprint || fingerprint != entry.schema_fingerprint {
            return Err(Error::corrupt(format!(
                "{}/{}: the set is not that of snapshot {}, or its columns were changed",
                store.place(),
                entry.set.key,
                entry.id
            )));
        }
        let schema = schema::from_ipc(&columns)?;
        let source = SnapshotSource {
            table: set.dataset.clone(),
            location: serde_json::to_string(location).map_err(|e| Error::internal(e.to_string()))?,
            folder: folder.to_owned(),
            schema: Arc::clone(&schema),
            parts: set
                .partitions
                .iter()
                .map(|part| SnapshotPart {
                    partition: part.partition,
                    version: part.version,
                    rows: part.rows,
                    manifest: part.manifest.clone(),
                })
                .collect(),
        };
        Ok(Self { set, schema, rows: Arc::new(PublishedTable::new(source)) })
    }
}

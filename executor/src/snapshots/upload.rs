//! A partition at a version becomes a manifest and data files in the store. Data files are there once for all snapshots of a
//! table; those that the newest listed snapshot names are not brought again.
use std::collections::BTreeSet;

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, WriteId},
    plan::host::ScanPartition,
    snapshot::{SnapshotStore, StoredObject, names},
};
use ancho_proto::v1 as proto;
use bytes::Bytes;
use cayenne::PartitionManifest;
use futures::{TryStreamExt, stream};
use uuid::Uuid;

use super::stored_object;
use crate::host::{PartitionHost, from_storage};

/// Files of a partition that are on their way at a time.
const FILES_IN_FLIGHT: usize = 3;

impl PartitionHost {
    /// Uploads a partition, and answers once everything is there.
    ///
    /// # Errors
    /// As [`pin`](Self::pin); `Corrupt` for a data file that is not what was written; `Unavailable` where the store does not
    /// answer. What was brought there by then is named by nobody.
    pub(crate) async fn upload_snapshot(
        &self,
        request: &proto::UploadSnapshotRequest,
    ) -> Result<proto::UploadSnapshotReply> {
        let store = self.snapshots().store(&request.location)?;
        let (partition, version) = (PartitionId(request.partition_id), request.version);
        let made_by = WriteId::parse(&request.version_write_id)
            .map_err(|e| Error::invalid(format!("write id {:?}: {e}", request.version_write_id)))?;
        let wanted = ScanPartition { partition, epoch: request.epoch, version, write_id: Some(made_by), staged: None };
        // The version stays as long as the pin does.
        let pin = self.pin(&wanted).await?;
        let _one = self.snapshots().uploads.acquire().await.map_err(|e| Error::internal(e.to_string()))?;
        let manifest = pin.export().await.map_err(|e| from_storage("exporting a partition", e))?;
        let there = match &request.former_manifest {
            Some(former) => files_of(&store, &stored_object(former)).await,
            None => BTreeSet::new(),
        };
        let dir = self.partition_dir(partition);
        let missing: Vec<_> = manifest.files.iter().filter(|file| !there.contains(&file.id)).collect();
        let (uploaded_files, data_bytes) = (missing.len() as u64, missing.iter().map(|file| file.bytes).sum::<u64>());
        let objects: Vec<_> = missing
            .into_iter()
            .map(|file| {
                let key = names::file(&request.folder, file.id);
                let object = StoredObject { key, bytes: file.bytes, sha256: file.sha256.to_string() };
                Ok::<_, Error>((object, dir.join(file.name())))
            })
            .collect();
        stream::iter(objects)
            .try_for_each_concurrent(FILES_IN_FLIGHT, |(object, path)| {
                let store = store.clone();
                async move {
                    store.write_file(&object, path).await?;
                    arrived(&store, &object).await
                }
            })
            .await?;
        let bytes = Bytes::from(manifest.encode().map_err(|e| from_storage("exporting a partition", e))?);
        let object = StoredObject::of(request.manifest_key.clone(), &bytes);
        store.write(&object.key, bytes).await?;
        arrived(&store, &object).await?;
        drop(pin);
        Ok(proto::UploadSnapshotReply {
            rows: manifest.rows,
            bytes: manifest.bytes,
            files: manifest.files.iter().map(|file| file.id.to_string()).collect(),
            uploaded_files: uploaded_files + 1,
            uploaded_bytes: data_bytes + object.bytes,
            manifest: Some(proto::StoredObject { key: object.key, bytes: object.bytes, sha256: object.sha256 }),
        })
    }
}

/// Data files that a manifest names. None if it cannot be had: then all are brought again.
async fn files_of(store: &SnapshotStore, manifest: &StoredObject) -> BTreeSet<Uuid> {
    let read = async {
        let bytes = store.read_checked(manifest).await?;
        PartitionManifest::decode(&bytes).map_err(|e| from_storage("reading the former manifest", e))
    };
    match read.await {
        Ok(former) => former.files.iter().map(|file| file.id).collect(),
        Err(error) => {
            tracing::warn!(key = %manifest.key, %error, "a former manifest cannot be read; all files are uploaded again");
            BTreeSet::new()
        }
    }
}

/// Whether an object that was written is there at its length.
async fn arrived(store: &SnapshotStore, object: &StoredObject) -> Result<()> {
    match store.look(&object.key).await? {
        Some(found) if found.bytes == object.bytes => Ok(()),
        found => Err(Error::unavailable(format!(
            "{}: {} was written with {} bytes, and {} are there",
            store.place(),
            object.key,
            object.bytes,
            found.map_or(0, |found| found.bytes)
        ))),
    }
}

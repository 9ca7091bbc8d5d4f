//! Whether a manifest is what a snapshot says of it. Pure.
use ancho_common::{
    error::{Error, Result},
    plan::host::StoredScan,
};
use cayenne::PartitionManifest;

use crate::host::from_storage;

/// Whether it is the manifest of the partition that is to be read, with the snapshot's columns.
pub(super) fn check_part(wanted: &StoredScan, manifest: &PartitionManifest) -> Result<()> {
    let part = &wanted.part;
    let odd = |what: String| {
        Err(Error::corrupt(format!("snapshot of table {}: {}: {what}", wanted.table, part.manifest.key)))
    };
    if (manifest.partition_id, manifest.version) != (part.partition.0, part.version) {
        return odd(format!(
            "it is of partition id {} at version {}, not {} at version {}",
            manifest.partition_id, manifest.version, part.partition, part.version
        ));
    }
    if manifest.rows != part.rows {
        return odd(format!("it has {} rows instead of {}", manifest.rows, part.rows));
    }
    let columns = manifest.schema().map_err(|e| from_storage("reading a manifest", e))?;
    let same = columns.fields().len() == wanted.schema.fields().len()
        && columns
            .fields()
            .iter()
            .zip(wanted.schema.fields())
            .all(|(a, b)| a.name() == b.name() && a.data_type().equals_datatype(b.data_type()));
    if same { Ok(()) } else { odd("its columns are not those of the snapshot".to_owned()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ancho_common::{error::ErrorKind, ids::PartitionId, plan::snapshot_scan::SnapshotPart, snapshot::StoredObject};
    use arrow::datatypes::{DataType, Field, Schema};
    use cayenne::{Partition, PartitionIdentity, PartitionOptions};

    use super::*;

    fn schema(columns: &[(&str, DataType)]) -> Arc<Schema> {
        let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), true);
        Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_manifest_of_other_columns_rows_or_versions_is_refused_for_good() {
        let dir = tempfile::tempdir().unwrap();
        let identity = PartitionIdentity { table: "t".into(), partition: "0".into(), partition_id: 7 };
        let columns = [("k", DataType::Int64), ("s", DataType::Utf8View)];
        let path = dir.path().join("p");
        let partition = Partition::create(&path, identity, schema(&columns), PartitionOptions::default()).unwrap();
        let manifest = partition.pin(None).unwrap().export().await.unwrap();
        let object = StoredObject::of("manifest".into(), &manifest.encode().unwrap());
        let wanted = |columns: &[(&str, DataType)], partition, version, rows| StoredScan {
            table: "t".into(),
            location: String::new(),
            folder: String::new(),
            schema: schema(columns),
            projection: vec![0],
            part: SnapshotPart { partition: PartitionId(partition), version, rows, manifest: object.clone() },
        };
        check_part(&wanted(&columns, 7, 0, 0), &manifest).unwrap();
        let [k, s] = columns.clone();
        for (what, odd) in [
            ("another type", wanted(&[k.clone(), ("s", DataType::Int32)], 7, 0, 0)),
            ("another name", wanted(&[k.clone(), ("t", DataType::Utf8View)], 7, 0, 0)),
            ("one less", wanted(&[k.clone()], 7, 0, 0)),
            ("another order", wanted(&[s, k], 7, 0, 0)),
            ("another partition", wanted(&columns, 8, 0, 0)),
            ("another version", wanted(&columns, 7, 1, 0)),
            ("other rows", wanted(&columns, 7, 0, 1)),
        ] {
            let error = check_part(&odd, &manifest).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Corrupt, "{what}: {error}");
            assert!(!error.kind.retryable() && error.message.contains("snapshot of table t"), "{what}: {error}");
        }
    }
}

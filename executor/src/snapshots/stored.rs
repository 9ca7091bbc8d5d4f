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

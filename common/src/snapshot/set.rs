//! A set: one snapshot of a table, as the list of its partitions' manifests. Written once.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::FORMAT;
use crate::{
    error::{Error, Result},
    ids::PartitionId,
    partition::{PartitionKey, PartitionSpec},
};

/// An object and what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredObject {
    /// Below the location.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

impl StoredObject {
    /// Of bytes under a key.
    #[must_use]
    pub fn of(key: String, bytes: &[u8]) -> Self {
        Self { key, bytes: bytes.len() as u64, sha256: sha256_hex(bytes) }
    }

    /// Whether these are the bytes.
    ///
    /// # Errors
    /// `Corrupt` where length or digest are others.
    pub fn check(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() as u64 != self.bytes {
            return Err(Error::corrupt(format!("{} has {} bytes instead of {}", self.key, bytes.len(), self.bytes)));
        }
        let found = sha256_hex(bytes);
        if found != self.sha256 {
            return Err(Error::corrupt(format!("the SHA-256 of {} is {found} instead of {}", self.key, self.sha256)));
        }
        Ok(())
    }
}

/// SHA-256 in hexadecimal digits.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotSet {
    /// See [`FORMAT`].
    pub format: u32,
    /// The snapshot's id.
    pub id: Uuid,
    /// Name of the table.
    pub dataset: String,
    /// The cluster that made it.
    pub cluster_id: String,
    /// The table's id there.
    pub table_id: u64,
    /// The version of the table.
    pub table_version: u64,
    /// The epoch that it was made under.
    pub epoch: u64,
    /// What wrote its data files.
    pub engine: String,
    /// Release that made it.
    pub release: String,
    /// The table's columns: an Arrow IPC message in hexadecimal digits.
    pub schema: String,
    /// SHA-256 of that message.
    pub schema_fingerprint: String,
    /// How rows are spread.
    pub partition_spec: PartitionSpec,
    /// Columns of the primary key.
    pub primary_key: Vec<String>,
    /// The table's parameters, those of snapshots aside.
    pub params: BTreeMap<String, String>,
    /// Rows of all partitions.
    pub rows: u64,
    /// Bytes of all data files.
    pub bytes: u64,
    /// The partitions that ever held rows.
    pub partitions: Vec<SetPartition>,
}

/// One partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetPartition {
    /// Its id in the cluster that made it.
    pub partition: PartitionId,
    /// Its key.
    pub key: PartitionKey,
    /// Its version.
    pub version: u64,
    /// Its manifest.
    pub manifest: StoredObject,
    /// Rows.
    pub rows: u64,
    /// Bytes of its data files.
    pub bytes: u64,
    /// Its data files.
    pub files: Vec<Uuid>,
}

impl SnapshotSet {
    /// Reads a set and checks that its parts fit its sums.
    ///
    /// # Errors
    /// `Corrupt` with what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let set: Self =
            serde_json::from_slice(bytes).map_err(|e| Error::corrupt(format!("it is no set of a snapshot: {e}")))?;
        if set.format != FORMAT {
            return Err(Error::corrupt(format!("it has format {}; this release reads {FORMAT}", set.format)));
        }
        let sum = |of: fn(&SetPartition) -> u64| set.partitions.iter().try_fold(0_u64, |sum, p| sum.checked_add(of(p)));
        if sum(|p| p.rows) != Some(set.rows) || sum(|p| p.bytes) != Some(set.bytes) {
            return Err(Error::corrupt("its partitions do not have the rows and bytes that it names"));
        }
        Ok(set)
    }

    /// As bytes.
    ///
    /// # Errors
    /// Never with a set; the library's signature allows it.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::internal(format!("writing the set of a snapshot: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_whose_parts_do_not_fit_is_refused() {
        let partition = SetPartition {
            partition: PartitionId(1),
            key: PartitionKey(vec![Some("1".to_owned())]),
            version: 3,
            manifest: StoredObject::of("m".to_owned(), b"x"),
            rows: 5,
            bytes: 7,
            files: vec![Uuid::from_u128(3)],
        };
        let mut set = SnapshotSet {
            format: FORMAT,
            id: Uuid::from_u128(1),
            dataset: "t".to_owned(),
            cluster_id: "c".to_owned(),
            table_id: 1,
            table_version: 3,
            epoch: 1,
            engine: "cayenne".to_owned(),
            release: "0".to_owned(),
            schema: String::new(),
            schema_fingerprint: String::new(),
            partition_spec: PartitionSpec::new(vec!["k".to_owned()]),
            primary_key: vec![],
            params: BTreeMap::new(),
            rows: 5,
            bytes: 7,
            partitions: vec![partition],
        };
        assert_eq!(SnapshotSet::decode(&set.encode().unwrap()).unwrap(), set);
        set.rows = 6;
        assert!(SnapshotSet::decode(&set.encode().unwrap()).is_err());
        let object = StoredObject::of("k".to_owned(), b"abc");
        assert!(object.check(b"abc").is_ok() && object.check(b"abd").is_err() && object.check(b"ab").is_err());
    }
}

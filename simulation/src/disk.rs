//! What survives the crash of an executor: its identity and its partitions, each a list of versions and a set of staged
//! writes. A row is the number of the operation that added it.
use std::collections::{BTreeMap, BTreeSet};

use ancho_common::ids::{ExecutorId, PartitionId, WriteId};

/// A client's operation; also the value of the row that it adds.
pub type Operation = u64;

/// What a write does to one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// The rows that are there go first.
    pub overwrite: bool,
    /// Rows that go.
    pub deletes: BTreeSet<Operation>,
    /// Rows that come.
    pub adds: BTreeSet<Operation>,
}

/// A published version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// The write that made it.
    pub write: WriteId,
    /// What it did.
    pub change: Change,
}

/// One partition on one disk.
#[derive(Debug, Clone, Default)]
pub struct PartitionDisk {
    /// Version 1 first.
    pub versions: Vec<Version>,
    /// Durable and invisible.
    pub staged: BTreeMap<WriteId, Change>,
}

impl PartitionDisk {
    /// The newest version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.versions.len() as u64
    }

    /// Rows at a version.
    #[must_use]
    pub fn rows(&self, version: u64) -> BTreeSet<Operation> {
        rows(self.versions.iter().take(usize::try_from(version).unwrap_or(usize::MAX)).map(|v| &v.change))
    }

    /// A staged write becomes the next version.
    pub fn publish(&mut self, write: WriteId) {
        if let Some(change) = self.staged.remove(&write) {
            self.versions.push(Version { write, change });
        }
    }
}

/// The rows that a history of changes leaves.
pub fn rows<'a>(changes: impl Iterator<Item = &'a Change>) -> BTreeSet<Operation> {
    let mut rows = BTreeSet::new();
    for change in changes {
        if change.overwrite {
            rows.clear();
        }
        rows.retain(|row| !change.deletes.contains(row));
        rows.extend(&change.adds);
    }
    rows
}

/// The data directory of one executor.
#[derive(Debug, Clone)]
pub struct ExecutorDisk {
    /// Drawn when the directory was made.
    pub id: ExecutorId,
    /// Partitions by id.
    pub partitions: BTreeMap<PartitionId, PartitionDisk>,
    /// Whole copies of partitions that others own.
    pub copies: BTreeMap<PartitionId, PartitionDisk>,
}

//! Snapshots of tables in object stores, as far as the schedulers agree on them: who may publish, and what was published.
//!
//! The right to publish is a lease with an epoch and an end. Epochs grow over all tables and are never used twice; the head of
//! a table's snapshots in the store refuses a lower one. So the end of a lease only saves work: whoever goes on under a
//! lease that is over is refused, here and there.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    error::Error,
    ids::{PartitionId, TableId},
    snapshot::{SnapshotLocation, StoredObject, policy::SnapshotPolicy},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{
    apply::Applied,
    cluster::{ClusterState, Partition, Table},
    command::Outcome,
};

/// Snapshots of a table that are listed; the head in the store may list more.
pub const LISTED_SNAPSHOTS: usize = 100;
/// Longest lease in milliseconds: a day.
pub const LONGEST_LEASE_MS: u64 = 24 * 3600 * 1000;

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Snapshots {
    /// Where snapshots of tables go that name no place of their own.
    pub location: Option<SnapshotLocation>,
    /// The highest epoch that was given out.
    pub(crate) last_epoch: u64,
    /// The latest lease of each table.
    pub leases: BTreeMap<TableId, SnapshotLease>,
    /// What was published of each table, oldest first.
    pub published: BTreeMap<TableId, Vec<Arc<PublishedSnapshot>>>,
}

/// The right to publish snapshots of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotLease {
    /// Who has it; `None` once it was given back.
    pub holder: Option<String>,
    /// What its changes in the store are known by.
    pub epoch: u64,
    /// When it ends, milliseconds since the epoch of the leader's clock.
    pub ends_ms: u64,
}

/// A snapshot that is in the store, complete and listed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PublishedSnapshot {
    /// Its id.
    pub id: Uuid,
    /// Where it is.
    pub location: SnapshotLocation,
    /// The folder of the table there.
    pub folder: String,
    /// Its set.
    pub set: StoredObject,
    /// The epoch that it was published under.
    pub epoch: u64,
    /// The version of the table that it holds.
    pub table_version: u64,
    /// Rows.
    pub rows: u64,
    /// Bytes of its data files.
    pub bytes: u64,
    /// Bytes that had to be uploaded for it.
    pub uploaded_bytes: u64,
    /// When it was published, milliseconds since 1970.
    pub published_ms: u64,
    /// Its partitions; kept for the newest snapshot of a table only.
    pub partitions: BTreeMap<PartitionId, SnapshotPart>,
}

/// A partition in a snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SnapshotPart {
    /// The version of the partition.
    pub version: u64,
    /// Its manifest.
    pub manifest: StoredObject,
}

impl Snapshots {
    /// The newest snapshot of a table.
    #[must_use]
    pub fn newest(&self, table: TableId) -> Option<&Arc<PublishedSnapshot>> {
        self.published.get(&table)?.last()
    }

    /// Where a partition of a table can be restored from, unless the table's options forbid that: the newest snapshot and its
    /// part.
    #[must_use]
    pub fn part_of(&self, table: &Table, partition: PartitionId) -> Option<(&PublishedSnapshot, &SnapshotPart)> {
        let newest = self.newest(table.id)?;
        let part = newest.partitions.get(&partition)?;
        let policy = SnapshotPolicy::of(&table.params, table.dataset.is_some());
        policy.is_ok_and(|policy| policy.restores).then_some((newest.as_ref(), part))
    }

    /// A table is gone, and what was published of it is nobody's here.
    pub(super) fn forget(&mut self, table: TableId) {
        self.leases.remove(&table);
        self.published.remove(&table);
    }

    /// Every broken invariant.
    ///
    /// | id | invariant |
    /// |---|---|
    /// | SN-1 | an epoch was given to one table and holder only, and none is above the last that was given out |
    /// | SN-2 | published snapshots grow in version and epoch, and hold nothing that is not committed |
    pub(super) fn violations(&self, tables: &BTreeMap<TableId, Arc<Table>>, found: &mut Vec<String>) {
        let mut epochs = BTreeMap::new();
        for (table, lease) in &self.leases {
            if let Some(other) = epochs.insert(lease.epoch, table) {
                found.push(format!("SN-1: tables {other} and {table} both have the lease of epoch {}", lease.epoch));
            }
            if lease.epoch == 0 || lease.epoch > self.last_epoch {
                found.push(format!("SN-1: epoch {} of table {table} was never given out", lease.epoch));
            }
        }
        for (id, snapshots) in &self.published {
            let Some(table) = tables.get(id) else {
                found.push(format!("SN-2: snapshots of table {id}, which does not exist"));
                continue;
            };
            let newest = self.leases.get(id).map_or(0, |lease| lease.epoch);
            let grow = snapshots
                .windows(2)
                .all(|pair| pair[0].table_version <= pair[1].table_version && pair[0].epoch < pair[1].epoch);
            let committed = snapshots.iter().all(|s| s.table_version <= table.version && s.epoch <= newest);
            let parts = snapshots.last().into_iter().flat_map(|s| &s.partitions);
            let known = parts.into_iter().all(|(id, part)| {
                table.partitions.get(id).is_some_and(|p| part.version > 0 && part.version <= p.version)
            });
            if !grow || !committed || !known {
                found.push(format!("SN-2: the snapshots of table {} are not of its past", table.name));
            }
        }
    }
}

impl ClusterState {
    /// Gives the lease of a table to a holder, unless another one has it and it has not ended. Each time it is given it has
    /// another epoch.
    pub(super) fn take_snapshot_lease(&mut self, id: TableId, holder: String, length_ms: u64, now_ms: u64) -> Applied {
        let table = self.existing_table(id)?;
        if let Some(lease) = self.snapshots.leases.get(&id)
            && let Some(other) = lease.holder.as_ref().filter(|other| **other != holder)
            && now_ms < lease.ends_ms
        {
            return Err(Error::conflict(format!(
                "{other} is making a snapshot of table {}; another takes over if it is silent for {} s more",
                table.name,
                (lease.ends_ms - now_ms).div_ceil(1000)
            )));
        }
        self.snapshots.last_epoch += 1;
        let epoch = self.snapshots.last_epoch;
        let ends_ms = now_ms.saturating_add(length_ms.min(LONGEST_LEASE_MS));
        self.snapshots.leases.insert(id, SnapshotLease { holder: Some(holder), epoch, ends_ms });
        Ok(Outcome::Lease { epoch })
    }

    /// Puts the end of a lease off.
    pub(super) fn renew_snapshot_lease(&mut self, id: TableId, epoch: u64, length_ms: u64, now_ms: u64) -> Applied {
        self.check_lease(id, epoch)?;
        if let Some(lease) = self.snapshots.leases.get_mut(&id) {
            lease.ends_ms = lease.ends_ms.max(now_ms.saturating_add(length_ms.min(LONGEST_LEASE_MS)));
        }
        Ok(Outcome::Done)
    }

    /// Gives a lease back. One that was taken over since stays.
    pub(super) fn release_snapshot_lease(&mut self, id: TableId, epoch: u64) -> Applied {
        if let Some(lease) = self.snapshots.leases.get_mut(&id)
            && lease.epoch == epoch
        {
            lease.holder = None;
        }
        Ok(Outcome::Done)
    }

    /// Notes a snapshot that is in the store.
    pub(super) fn record_snapshot(&mut self, id: TableId, snapshot: PublishedSnapshot) -> Applied {
        let table = self.existing_table(id)?;
        if self.snapshots.newest(id).is_some_and(|newest| newest.id == snapshot.id) {
            return Ok(Outcome::Done);
        }
        self.check_lease(id, snapshot.epoch)?;
        let fits = |partition: &Partition, part: &SnapshotPart| part.version > 0 && part.version <= partition.version;
        let known = |(id, part): (&PartitionId, &SnapshotPart)| table.partitions.get(id).is_some_and(|p| fits(p, part));
        if snapshot.table_version > table.version || !snapshot.partitions.iter().all(known) {
            return Err(Error::invalid(format!(
                "snapshot {} holds versions of table {} that were never committed",
                snapshot.id, table.name
            )));
        }
        let published = self.snapshots.published.entry(id).or_default();
        if published.last().is_some_and(|newest| newest.table_version > snapshot.table_version) {
            return Err(Error::conflict(format!(
                "a snapshot of a later version than {} is published",
                snapshot.table_version
            )));
        }
        if let Some(newest) = published.last_mut() {
            Arc::make_mut(newest).partitions.clear();
        }
        published.push(Arc::new(snapshot));
        let surplus = published.len().saturating_sub(LISTED_SNAPSHOTS);
        published.drain(..surplus);
        Ok(Outcome::Done)
    }

    /// Whether the newest snapshot of a table has all rows of a partition: nothing was committed there since but changes of
    /// columns, which need none.
    pub fn is_restorable(&self, table: &Table, partition: &Partition) -> bool {
        let Some((_, part)) = self.snapshots.part_of(table, partition.id) else { return false };
        let since = partition.commits.iter().filter(|commit| commit.version > part.version);
        let (count, needs_no_rows) = since
            .fold((0, true), |(count, all), commit| (count + 1, all && table.alteration(commit.write_id).is_some()));
        needs_no_rows && part.version + count == partition.version
    }

    fn check_lease(&self, id: TableId, epoch: u64) -> Result<(), Error> {
        match self.snapshots.leases.get(&id) {
            Some(lease) if lease.epoch == epoch && lease.holder.is_some() => Ok(()),
            _ => Err(Error::conflict(format!("the lease of epoch {epoch} for snapshots of table {id} is over"))),
        }
    }
}

//! Partitions follow the parameters of their table, and compaction looks after them.
use std::collections::HashMap;

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, TableId},
};
use cayenne::{CompactionReport, CompactionStats, Partition};
use futures::future::join_all;
use tracing::warn;

use super::{Assignment, PartitionHost, from_storage};

/// How many partitions share what is given to a table, or to all.
#[derive(Debug, Default)]
pub(super) struct Shares {
    of_table: HashMap<TableId, usize>,
    /// Partitions that keep an index of keys and have no memory of their own for it.
    keyed: usize,
}

impl Shares {
    pub(super) fn of(assignments: impl Iterator<Item = Assignment>) -> Self {
        let mut shares = Self::default();
        for assignment in assignments {
            *shares.of_table.entry(assignment.table_id).or_default() += 1;
            let keyed = !assignment.settings.primary_key.is_empty();
            shares.keyed += usize::from(keyed && assignment.tuning.key_memory_bytes.is_none());
        }
        shares
    }
}

impl PartitionHost {
    /// Puts the parameters of an assignment in force and has compaction look after the partition.
    pub(super) fn tend(&self, partition: &Partition, assignment: &Assignment, shares: &Shares) {
        let partitions = shares.of_table.get(&assignment.table_id).copied().unwrap_or(1);
        let key_share = self.options.key_memory_bytes / shares.keyed.max(1);
        let tuning = assignment.tuning.for_partition(&self.options.partitions, partitions, key_share);
        if *partition.tuning() != tuning
            && let Err(error) = partition.tune(tuning)
        {
            // How rows are laid down is no reason to keep them from anybody.
            warn!(place = %assignment.place(), %error, "parameters of the table are not in force");
        }
        if let Some(runner) = self.compaction.read().as_ref() {
            runner.add(partition);
            if partition.lacks_indexes().unwrap_or(false) || partition.lacks_keys().unwrap_or(false) {
                runner.written(partition);
            }
        }
    }

    /// Leaves a partition alone from now on.
    pub(super) async fn leave_alone(&self, partition: &Partition) {
        let runner = self.compaction.read().clone();
        if let Some(runner) = runner {
            runner.remove(partition).await;
        }
    }

    /// Something was published in a partition.
    pub(super) fn note_written(&self, partition: &Partition) {
        if let Some(runner) = self.compaction.read().as_ref() {
            runner.written(partition);
        }
    }

    /// Rewrites all files of a partition now. Its version stays, and nobody who reads or writes it is held up.
    ///
    /// # Errors
    /// As [`pin`](Self::pin); `Exhausted` when memory or disk do not suffice.
    pub async fn compact(&self, partition: PartitionId, epoch: u64) -> Result<CompactionReport> {
        self.check_held(partition, epoch)?;
        let slot = self.slot(partition).ok_or_else(|| self.unknown(partition))?;
        let stored = slot.fit_partition()?;
        let stopping = || Error::unavailable("the executor is stopping and rewrites no more files; try again");
        let runner = self.compaction.read().clone().ok_or_else(stopping)?;
        runner.compact_all(&stored).await.map_err(|e| from_storage(&format!("compacting {}", slot.place()), e))
    }

    /// What compaction has done since the start.
    #[must_use]
    pub fn compaction_stats(&self) -> CompactionStats {
        self.compaction.read().as_ref().map(|runner| runner.stats()).unwrap_or_default()
    }

    /// Bytes that compaction holds now.
    pub(crate) fn compaction_bytes(&self) -> usize {
        self.compaction.read().as_ref().map_or(0, |runner| runner.resources().memory_pool().reserved())
    }

    /// Bytes of secondary indexes in memory.
    pub(crate) fn index_bytes(&self) -> usize {
        self.all_slots()
            .iter()
            .filter_map(|slot| slot.partition().ok())
            .map(|partition| partition.index_bytes().0)
            .sum()
    }

    /// Bytes of primary keys in memory: of their indexes, and of writes under way.
    pub(crate) fn key_bytes(&self) -> usize {
        self.options.partitions.key_pool.as_ref().map_or(0, |pool| pool.reserved())
    }

    /// Ends compaction: passes under way are broken off, and leave nothing behind.
    pub async fn stop_compaction(&self) {
        let Some(runner) = self.compaction.write().take() else { return };
        let open: Vec<Partition> = self.all_slots().iter().filter_map(|slot| slot.partition().ok()).collect();
        join_all(open.iter().map(|partition| runner.remove(partition))).await;
    }
}

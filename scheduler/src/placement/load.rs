//! What each live executor holds, kept up to date while partitions are being given out.
use std::collections::BTreeMap;

use ancho_common::ids::ExecutorId;

use crate::state::ClusterState;

/// Bytes that a partition weighs at least. Partitions just made hold nothing yet; without this, all of them would go
/// to whichever executor holds a few bytes less than the others.
pub(super) const LEAST_WEIGHT: u64 = 1 << 20;

/// Load by executor, in order of executor id.
#[derive(Debug, Clone)]
pub(super) struct Load {
    executors: BTreeMap<ExecutorId, Held>,
}

#[derive(Debug, Clone, Default)]
struct Held {
    /// Partitions of the table in hand.
    of_table: u64,
    /// Bytes of all partitions.
    weight: u64,
    /// Partitions of all tables.
    partitions: u64,
}

impl Load {
    /// Of the live executors, but for those that are being emptied.
    pub(super) fn of(state: &ClusterState) -> Self {
        let mut executors: BTreeMap<ExecutorId, Held> =
            state.executors.values().filter(|e| e.may_take()).map(|e| (e.id.clone(), Held::default())).collect();
        for partition in state.tables.values().flat_map(|t| t.partitions.values()) {
            for owner in &partition.owners {
                if let Some(held) = executors.get_mut(owner) {
                    held.weight = held.weight.saturating_add(partition.bytes.max(LEAST_WEIGHT));
                    held.partitions += 1;
                }
            }
        }
        Self { executors }
    }

    /// Turns to a table whose existing partitions have these owners.
    pub(super) fn start_table<'a>(&mut self, owners: impl Iterator<Item = &'a ExecutorId>) {
        for held in self.executors.values_mut() {
            held.of_table = 0;
        }
        for owner in owners {
            if let Some(held) = self.executors.get_mut(owner) {
                held.of_table += 1;
            }
        }
    }

    pub(super) fn is_live(&self, executor: &ExecutorId) -> bool {
        self.executors.contains_key(executor)
    }

    /// Adds a new partition of the table in hand.
    pub(super) fn add_new(&mut self, executor: &ExecutorId) {
        if let Some(held) = self.executors.get_mut(executor) {
            held.of_table += 1;
            held.weight = held.weight.saturating_add(LEAST_WEIGHT);
            held.partitions += 1;
        }
    }

    /// The executor with the fewest partitions of the table in hand; the first by id among equals.
    pub(super) fn least_of_table(&self) -> Option<ExecutorId> {
        self.executors.iter().min_by_key(|(_, held)| held.of_table).map(|(id, _)| id.clone())
    }

    /// As [`Self::least_of_table`], among equals the one with the least weight, then with the fewest partitions.
    pub(super) fn least(&self) -> Option<ExecutorId> {
        self.executors
            .iter()
            .min_by_key(|(_, held)| (held.of_table, held.weight, held.partitions))
            .map(|(id, _)| id.clone())
    }
}

//! Commands about executors: who is up, in which start of its process, and what it can serve.
use std::collections::{BTreeMap, BTreeSet};

use ancho_common::{
    error::Error,
    ids::{ExecutorId, PartitionId},
};

use super::{
    apply::Applied,
    cluster::{ClusterState, Executor, Liveness},
    command::Outcome,
};

/// Longest text of a hindrance in bytes: it is in every copy of the state.
pub(crate) const MAX_HINDRANCE: usize = 300;

impl ClusterState {
    /// Marks an executor up. Another start of its process has loaded nothing yet; the same one keeps its report. One that is
    /// being emptied stays so.
    pub(super) fn register_executor(&mut self, mut executor: Executor) -> Applied {
        for (what, text) in [("id", &executor.id.0), ("incarnation", &executor.incarnation), ("url", &executor.url)] {
            if text.is_empty() {
                return Err(Error::invalid(format!("an executor registers without {what}; send one")));
            }
        }
        if let Some(former) = self.executors.get_mut(&executor.id) {
            executor.draining = former.draining;
            if former.incarnation == executor.incarnation {
                executor.loaded = std::mem::take(&mut former.loaded);
                executor.hindered = std::mem::take(&mut former.hindered);
            }
        }
        // An address leads to one process: whoever held it before is gone.
        for other in self.executors.values_mut() {
            if other.id != executor.id && other.url == executor.url {
                other.liveness = Liveness::Down;
            }
        }
        self.executors.insert(executor.id.clone(), executor);
        Ok(Outcome::Done)
    }

    /// Marks an executor down, unless it has started anew since.
    pub(super) fn executor_down(&mut self, id: &ExecutorId, incarnation: &str) -> Applied {
        if let Some(executor) = self.executors.get_mut(id)
            && executor.incarnation == incarnation
        {
            executor.liveness = Liveness::Down;
        }
        Ok(Outcome::Done)
    }

    /// Replaces what an executor says it can serve by the part of it that it owns at that epoch, and what it says
    /// hinders it by the part that it owns.
    pub(super) fn report_loaded(
        &mut self,
        id: &ExecutorId,
        incarnation: &str,
        loaded: BTreeMap<PartitionId, u64>,
        hindered: BTreeMap<PartitionId, String>,
    ) -> Applied {
        let owned = self.owned_of(id, &loaded);
        let hindered = self.hindered_of(id, hindered);
        if let Some(executor) = self.executors.get_mut(id)
            && executor.incarnation == incarnation
        {
            executor.loaded = owned;
            executor.hindered = hindered;
        }
        Ok(Outcome::Done)
    }

    /// Says whether an executor is to be emptied. Moves to it that have not begun to copy are the leader's to give up.
    pub(super) fn set_draining(&mut self, id: &ExecutorId, draining: bool) -> Applied {
        let Some(executor) = self.executors.get_mut(id) else { return Err(unknown(id)) };
        executor.draining = draining;
        Ok(Outcome::Done)
    }

    /// Forgets an executor that is down and owns nothing.
    pub(super) fn remove_executor(&mut self, id: &ExecutorId) -> Applied {
        let Some(executor) = self.executors.get(id) else {
            return Err(unknown(id));
        };
        if executor.liveness == Liveness::Up {
            return Err(Error::conflict(format!("executor {id} is up; stop it before removing it")));
        }
        let mut owned = self
            .tables
            .values()
            .flat_map(|t| t.partitions.values().map(move |p| (t, p)))
            .filter(|(_, p)| p.owners.contains(id));
        if let Some((table, partition)) = owned.next() {
            let others = owned.count();
            return Err(Error::conflict(format!(
                "executor {id} still owns partition {} of table {} and {others} more; move them first",
                partition.key, table.name
            )));
        }
        if let Some((partition, known)) = self.moves_of(id).next() {
            return Err(Error::conflict(format!(
                "partition {partition} is still moving from executor {} to {}; try again when `ancho cluster status` shows \
                 no move of executor {id}",
                known.from, known.to
            )));
        }
        self.executors.remove(id);
        Ok(Outcome::Done)
    }

    /// The entries of a report that this executor owns at the reported epoch.
    pub(crate) fn owned_of(&self, id: &ExecutorId, loaded: &BTreeMap<PartitionId, u64>) -> BTreeMap<PartitionId, u64> {
        self.tables
            .values()
            .flat_map(|table| table.partitions.values())
            .filter(|p| loaded.get(&p.id) == Some(&p.epoch) && p.owners.contains(id))
            .map(|p| (p.id, p.epoch))
            .collect()
    }

    /// The entries of a report of hindrances for partitions that this executor owns, their texts cut to
    /// [`MAX_HINDRANCE`].
    pub(crate) fn hindered_of(
        &self,
        id: &ExecutorId,
        mut hindered: BTreeMap<PartitionId, String>,
    ) -> BTreeMap<PartitionId, String> {
        if hindered.is_empty() {
            return hindered;
        }
        let owned: BTreeSet<PartitionId> = self
            .tables
            .values()
            .flat_map(|table| table.partitions.values())
            .filter(|p| p.owners.contains(id))
            .map(|p| p.id)
            .collect();
        hindered.retain(|partition, _| owned.contains(partition));
        for reason in hindered.values_mut() {
            reason.truncate(reason.floor_char_boundary(MAX_HINDRANCE));
        }
        hindered
    }

    /// Takes partitions that changed hands, or that are gone, out of every executor's report.
    pub(super) fn forget_loaded(&mut self, partitions: &[PartitionId]) {
        for executor in self.executors.values_mut() {
            for partition in partitions {
                executor.loaded.remove(partition);
                executor.hindered.remove(partition);
            }
        }
    }
}

fn unknown(id: &ExecutorId) -> Error {
    Error::not_found(format!("executor {id} is not known; `ancho cluster status` lists them"))
}

//! Who should hold which partition: pure functions of the state, asked by the leader before it proposes.
//!
//! * [`assign`] chooses owners for partitions that are about to be made;
//! * [`plan`] finds owners for partitions whose owner is gone, where no row is left behind;
//! * [`stamp`] puts the choices of [`assign`] into a request on its way into the log;
//! * [`moves`] says which partitions should go from one executor to another.
//!
//! The order of wishes: partitions of one table are spread evenly over the live executors; tables with the same
//! buckets line up, so that joins on the bucketed column find both sides on one executor; executors hold the same
//! weight of data, then the same number of partitions. The same state always gives the same answer.
mod load;
pub mod moves;
mod shape;
mod units;

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use ancho_common::{
    ids::{ExecutorId, PartitionId, TableId},
    partition::{PartitionKey, PartitionSpec},
};

use self::{load::Load, shape::Shape};
use crate::state::{ClusterState, Command, Liveness, NewPartition, Partition, Placement, Request, Table};

/// Limits of one round of placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlacementPolicy {
    /// Most partitions that one plan places or moves; the next round goes on.
    pub max_placements: usize,
    /// Executors that have been down for so long that others may take over what can be restored.
    pub given_up: BTreeSet<ExecutorId>,
}

impl Default for PlacementPolicy {
    fn default() -> Self {
        Self { max_placements: 10_000, given_up: BTreeSet::new() }
    }
}

/// Decisions of one round, to be proposed as [`Command::Place`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlacementPlan {
    /// In order of table and partition.
    pub placements: Vec<Placement>,
}

impl PlacementPlan {
    /// Nothing is to be done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.placements.is_empty()
    }
}

impl fmt::Display for PlacementPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing to place");
        }
        let mut counts: BTreeMap<&ExecutorId, usize> = BTreeMap::new();
        for owner in self.placements.iter().filter_map(|p| p.owners.first()) {
            *counts.entry(owner).or_default() += 1;
        }
        write!(f, "place {} partitions:", self.placements.len())?;
        for (position, (executor, count)) in counts.iter().enumerate() {
            write!(f, "{} {count} on {executor}", if position == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// Owners for new partitions, one list per key in the order of `keys`; the lists are empty while no executor is live.
///
/// `table` is the table that the keys are added to, if it exists already. `spec` is its partition spec.
#[must_use]
pub fn assign(
    state: &ClusterState,
    table: Option<TableId>,
    spec: &PartitionSpec,
    keys: &[PartitionKey],
) -> Vec<Vec<ExecutorId>> {
    let mut load = Load::of(state);
    let table = table.and_then(|id| state.tables.get(&id));
    if let Some(table) = table {
        load.start_table(table.partitions.values().flat_map(|p| p.owners.first()));
    }
    let layout = layout_to_follow(state, table.map(|t| t.id), spec, keys.iter(), &load, &BTreeMap::new());
    choose(&mut load, Shape::of(spec).is_some(), layout.as_ref(), keys.iter())
}

/// Finds owners for partitions that have none that is up. Partitions that never held rows are given away at once. The rows of the
/// others are on the executor that is down, and are served again when it is back; if it stays away, those are given away
/// whose rows are all in a snapshot.
#[must_use]
pub fn plan(state: &ClusterState, policy: &PlacementPolicy) -> PlacementPlan {
    let mut load = Load::of(state);
    let mut decided: BTreeMap<PartitionId, ExecutorId> = BTreeMap::new();
    let mut placements = Vec::new();
    for table in state.tables.values() {
        let homeless: Vec<&Partition> = in_key_order(table).filter(|p| is_homeless(state, table, p, policy)).collect();
        if homeless.is_empty() {
            continue;
        }
        load.start_table(table.partitions.values().flat_map(|p| p.owners.first()));
        let keys = || homeless.iter().map(|p| &p.key);
        let layout = layout_to_follow(state, Some(table.id), &table.partition_spec, keys(), &load, &decided);
        let owners = choose(&mut load, Shape::of(&table.partition_spec).is_some(), layout.as_ref(), keys());
        for (partition, owners) in homeless.into_iter().zip(owners) {
            let Some(owner) = owners.first() else { continue };
            decided.insert(partition.id, owner.clone());
            placements.push(Placement { partition: partition.id, epoch: partition.epoch, owners });
        }
        if placements.len() >= policy.max_placements {
            break;
        }
    }
    placements.truncate(policy.max_placements);
    PlacementPlan { placements }
}

/// Chooses owners for the new partitions of a request that names none. Owners that are given stay.
pub fn stamp(state: &ClusterState, request: &mut Request) {
    stamp_command(state, &mut request.command);
}

fn stamp_command(state: &ClusterState, command: &mut Command) {
    match command {
        Command::CreateTable(new) => {
            let spec = new.partition_spec.clone();
            stamp_partitions(state, None, &spec, &mut new.partitions);
        }
        Command::EnsurePartitions { table, partitions } => {
            if let Some(existing) = state.tables.get(table) {
                stamp_partitions(state, Some(existing.id), &existing.partition_spec, partitions);
            }
        }
        Command::AcceptLoss { partition, owners, .. } if owners.is_empty() => {
            if let Some((table, lost)) = state.find_partition(*partition) {
                let keys = [lost.key.clone()];
                let assigned = assign(state, Some(table.id), &table.partition_spec, &keys);
                *owners = assigned.into_iter().next().unwrap_or_default();
            }
        }
        Command::Named { command, .. } => stamp_command(state, command),
        _ => {}
    }
}

fn stamp_partitions(
    state: &ClusterState,
    table: Option<TableId>,
    spec: &PartitionSpec,
    partitions: &mut [NewPartition],
) {
    let existing: BTreeSet<&PartitionKey> = table
        .and_then(|id| state.tables.get(&id))
        .map(|t| t.partitions.values().map(|p| &p.key).collect())
        .unwrap_or_default();
    let mut open: Vec<&mut NewPartition> =
        partitions.iter_mut().filter(|p| p.owners.is_empty() && !existing.contains(&p.key)).collect();
    if open.is_empty() {
        return;
    }
    let keys: Vec<PartitionKey> = open.iter().map(|p| p.key.clone()).collect();
    for (partition, owners) in open.iter_mut().zip(assign(state, table, spec, &keys)) {
        partition.owners = owners;
    }
}

/// No owner is up, and no row would be left behind: it never held any, or its owners are given up and a snapshot has them all.
fn is_homeless(state: &ClusterState, table: &Table, partition: &Partition, policy: &PlacementPolicy) -> bool {
    let away = |owner: &ExecutorId| !is_live(state, owner);
    let given_up = |owner: &ExecutorId| policy.given_up.contains(owner);
    partition.owners.iter().all(away)
        && (partition.version == 0 || partition.owners.iter().all(given_up) && state.is_restorable(table, partition))
}

fn is_live(state: &ClusterState, executor: &ExecutorId) -> bool {
    state.executors.get(executor).is_some_and(|e| e.liveness == Liveness::Up)
}

/// Buckets by number, not by the order of their texts.
fn in_key_order(table: &Table) -> impl Iterator<Item = &Partition> {
    let mut partitions: Vec<&Partition> = table.partitions.values().collect();
    partitions.sort_by_cached_key(|p| shape::sort_key(&p.key));
    partitions.into_iter()
}

/// Owner by key of the oldest other table with the same buckets, if every wanted key has a live owner there.
fn layout_to_follow<'a>(
    state: &'a ClusterState,
    table: Option<TableId>,
    spec: &PartitionSpec,
    keys: impl Iterator<Item = &'a PartitionKey> + Clone,
    load: &Load,
    decided: &BTreeMap<PartitionId, ExecutorId>,
) -> Option<BTreeMap<PartitionKey, ExecutorId>> {
    let shape = Shape::of(spec)?;
    state
        .tables
        .values()
        .filter(|other| table != Some(other.id) && Shape::of(&other.partition_spec).as_ref() == Some(&shape))
        .find_map(|other| {
            let layout: BTreeMap<PartitionKey, ExecutorId> = other
                .partitions
                .values()
                .filter_map(|p| {
                    let owner = decided.get(&p.id).or_else(|| p.owners.first())?;
                    load.is_live(owner).then(|| (p.key.clone(), owner.clone()))
                })
                .collect();
            keys.clone().all(|key| layout.contains_key(key)).then_some(layout)
        })
}

fn choose<'a>(
    load: &mut Load,
    buckets: bool,
    layout: Option<&BTreeMap<PartitionKey, ExecutorId>>,
    keys: impl Iterator<Item = &'a PartitionKey>,
) -> Vec<Vec<ExecutorId>> {
    keys.map(|key| {
        let followed = layout.and_then(|layout| layout.get(key)).cloned();
        // Buckets look at nothing but their own table, so that the next table with the same buckets comes out alike.
        let chosen = followed.or_else(|| if buckets { load.least_of_table() } else { load.least() });
        if let Some(owner) = &chosen {
            load.add_new(owner);
        }
        chosen.into_iter().collect()
    })
    .collect()
}

//! What moves as one: a partition, or the partitions of one bucket in tables that are bucketed alike and lie together, so
//! that joins on the bucketed column still find both sides on one executor.
use std::collections::BTreeMap;

use ancho_common::ids::{ExecutorId, PartitionId, TableId};

use super::{is_live, load::LEAST_WEIGHT, shape};
use crate::state::{ClusterState, Partition, Table};

/// Tables that are spread together: all that are bucketed alike, all that are not partitioned, or a single one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Family {
    Buckets(Vec<u32>, u32),
    Table(TableId),
    Whole,
}

impl Family {
    fn of(table: &Table) -> Self {
        match shape::Shape::of(&table.partition_spec) {
            Some(shape) => Self::Buckets(shape.buckets, shape.hash_version),
            None if table.partition_spec.expressions.is_empty() => Self::Whole,
            None => Self::Table(table.id),
        }
    }
}

/// Partitions that move together.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) family: Family,
    /// Who has it, or is about to.
    pub(super) owner: ExecutorId,
    /// Bytes, but no partition weighs nothing.
    pub(super) weight: u64,
    /// Which, and at what epoch.
    pub(super) parts: Vec<Part>,
    /// It stays: it is on its way already, its table is being loaded, or its owner is down or cannot serve it.
    pub(super) fixed: bool,
}

/// One partition of a unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) partition: PartitionId,
    pub(super) epoch: u64,
    pub(super) bytes: u64,
}

/// Names a unit, and orders units: buckets by number.
type UnitKey = (Family, Vec<(Option<u64>, Option<String>)>, ExecutorId, bool, Option<PartitionId>);

/// All partitions that have an owner, as units in a fixed order.
pub(super) fn units(state: &ClusterState) -> Vec<Unit> {
    let mut units: BTreeMap<UnitKey, Unit> = BTreeMap::new();
    for table in state.tables.values() {
        let family = Family::of(table);
        for partition in table.partitions.values() {
            let Some((owner, fixed)) = standing(state, table, partition) else { continue };
            // Only buckets of several tables belong together.
            let alone = (!matches!(family, Family::Buckets(..))).then_some(partition.id);
            let key = (family.clone(), shape::sort_key(&partition.key), owner.clone(), fixed, alone);
            let unit = units.entry(key).or_insert_with(|| Unit {
                family: family.clone(),
                owner: owner.clone(),
                weight: 0,
                parts: Vec::new(),
                fixed,
            });
            unit.weight = unit.weight.saturating_add(partition.bytes.max(LEAST_WEIGHT));
            unit.parts.push(Part { partition: partition.id, epoch: partition.epoch, bytes: partition.bytes });
        }
    }
    units.into_values().collect()
}

/// Who has a partition or is about to, and whether that is settled.
fn standing<'a>(state: &'a ClusterState, table: &Table, partition: &'a Partition) -> Option<(&'a ExecutorId, bool)> {
    match state.moves.get(&partition.id) {
        Some(moving) => Some((&moving.to, true)),
        None => {
            let owner = partition.owners.first()?;
            let hindered = state.executors.get(owner).is_some_and(|e| e.hindered.contains_key(&partition.id));
            Some((owner, table.load.is_some() || hindered || !is_live(state, owner)))
        }
    }
}

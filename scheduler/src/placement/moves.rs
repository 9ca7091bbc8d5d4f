//! Which partitions should move where: pure functions of the state.
//!
//! [`due`] is asked by the leader on its own: an executor that has joined gets its share, one that is being emptied loses what
//! it has. [`rebalance`] is asked by an operator. Both give the same plan: every family of tables is spread evenly by
//! bytes, then all bytes are, and what need not move stays. A plan that was carried out is followed by an empty one.
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use ancho_common::ids::{ExecutorId, PartitionId};

use super::{
    PlacementPolicy,
    units::{Family, Unit, units},
};
use crate::state::{ClusterState, Command, NewMove};

/// An executor has too little if it has less than this part of what all have on average.
const TOO_LITTLE: u64 = 4;
/// A difference of this part of the average is not worth a move.
const TOLERANCE: u64 = 20;

/// A partition that should move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedMove {
    /// Which.
    pub partition: PartitionId,
    /// The epoch the decision was made on.
    pub epoch: u64,
    /// Its owner.
    pub from: ExecutorId,
    /// Who should be.
    pub to: ExecutorId,
    /// Its bytes.
    pub bytes: u64,
}

/// Moves that make the cluster even, to be proposed as [`Command::StartMoves`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MovePlan {
    /// In order of families and keys.
    pub moves: Vec<PlannedMove>,
}

impl MovePlan {
    /// Nothing is to be moved.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// Bytes of all that moves.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.moves.iter().map(|m| m.bytes).sum()
    }

    /// The command that begins the moves.
    #[must_use]
    pub fn into_command(self) -> Command {
        let moves = self.moves.into_iter().map(|m| NewMove { partition: m.partition, epoch: m.epoch, to: m.to });
        Command::StartMoves { moves: moves.collect() }
    }
}

impl fmt::Display for MovePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing to move");
        }
        let mut counts: BTreeMap<(&ExecutorId, &ExecutorId), usize> = BTreeMap::new();
        for planned in &self.moves {
            *counts.entry((&planned.from, &planned.to)).or_default() += 1;
        }
        write!(f, "move {} partitions of {} bytes:", self.moves.len(), self.bytes())?;
        for (position, ((from, to), count)) in counts.iter().enumerate() {
            write!(f, "{} {count} from {from} to {to}", if position == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// What is to be moved without being asked for. Nothing while moves go on.
#[must_use]
pub fn due(state: &ClusterState, policy: &PlacementPolicy) -> MovePlan {
    // Those that are over but for the former owner cannot be moved again yet, and a plan without them would not be even.
    let busy = !state.moves.is_empty();
    if busy || !(lacks(state) || leaves(state)) { MovePlan::default() } else { rebalance(state, policy) }
}

/// An executor is being emptied and owns something.
fn leaves(state: &ClusterState) -> bool {
    let draining: BTreeSet<&ExecutorId> = state.live_executors().filter(|e| e.draining).map(|e| &e.id).collect();
    let mut partitions = state.tables.values().flat_map(|t| t.partitions.values());
    !draining.is_empty() && partitions.any(|p| p.owners.first().is_some_and(|owner| draining.contains(owner)))
}

/// An executor has far less than the others.
fn lacks(state: &ClusterState) -> bool {
    let scales = Scales::of(state, &units(state));
    let (least, all) = (scales.total.values().min().copied().unwrap_or_default(), scales.total.values().sum::<u64>());
    let count = scales.total.len() as u64;
    count > 1 && least.saturating_mul(TOO_LITTLE).saturating_mul(count) < all
}

/// All moves that make the cluster even, and empty executors that are being emptied.
#[must_use]
pub fn rebalance(state: &ClusterState, policy: &PlacementPolicy) -> MovePlan {
    let before = units(state);
    let mut units = before.clone();
    let mut scales = Scales::of(state, &units);
    if scales.total.is_empty() {
        return MovePlan::default();
    }
    scales.empty_those_that_leave(&mut units);
    // Each round takes something off an uneven family, or leaves them and takes something off uneven executors: it ends.
    while scales.even_families(&mut units) | scales.even_executors(&mut units) {}
    let mut moves: Vec<PlannedMove> = before
        .iter()
        .zip(&units)
        .filter(|(before, after)| before.owner != after.owner)
        .flat_map(|(before, after)| {
            before.parts.iter().map(move |part| PlannedMove {
                partition: part.partition,
                epoch: part.epoch,
                from: before.owner.clone(),
                to: after.owner.clone(),
                bytes: part.bytes,
            })
        })
        .collect();
    moves.truncate(policy.max_placements);
    MovePlan { moves }
}

/// What each executor that may be given something has: in all, and of each family.
struct Scales {
    total: BTreeMap<ExecutorId, u64>,
    families: BTreeMap<Family, BTreeMap<ExecutorId, u64>>,
}

impl Scales {
    fn of(state: &ClusterState, units: &[Unit]) -> Self {
        let total: BTreeMap<ExecutorId, u64> =
            state.executors.values().filter(|e| e.may_take()).map(|e| (e.id.clone(), 0)).collect();
        let families = units.iter().map(|unit| (unit.family.clone(), total.clone())).collect();
        let mut scales = Self { total, families };
        for unit in units {
            scales.put(unit);
        }
        scales
    }

    fn of_family(&self, family: &Family, executor: &ExecutorId) -> u64 {
        self.families.get(family).and_then(|weights| weights.get(executor)).copied().unwrap_or_default()
    }

    fn put(&mut self, unit: &Unit) {
        let of_family = self.families.get_mut(&unit.family).and_then(|weights| weights.get_mut(&unit.owner));
        for weight in [self.total.get_mut(&unit.owner), of_family].into_iter().flatten() {
            *weight = weight.saturating_add(unit.weight);
        }
    }

    fn hand_over(&mut self, unit: &mut Unit, to: &ExecutorId) {
        let of_family = self.families.get_mut(&unit.family).and_then(|weights| weights.get_mut(&unit.owner));
        for weight in [self.total.get_mut(&unit.owner), of_family].into_iter().flatten() {
            *weight = weight.saturating_sub(unit.weight);
        }
        unit.owner = to.clone();
        self.put(unit);
    }

    /// Gives away what executors have that are not on the scales, the heaviest first.
    fn empty_those_that_leave(&mut self, units: &mut [Unit]) {
        let mut leaving: Vec<&mut Unit> =
            units.iter_mut().filter(|unit| !unit.fixed && !self.total.contains_key(&unit.owner)).collect();
        leaving.sort_by(|a, b| a.family.cmp(&b.family).then(b.weight.cmp(&a.weight)));
        for unit in leaving {
            let lightest = self
                .total
                .iter()
                .min_by_key(|(id, total)| (self.of_family(&unit.family, id), **total))
                .map(|(id, _)| id.clone());
            if let Some(to) = lightest {
                self.hand_over(unit, &to);
            }
        }
    }

    /// Makes each family even. Answers whether anything was moved.
    fn even_families(&mut self, units: &mut [Unit]) -> bool {
        let families: Vec<Family> = self.families.keys().cloned().collect();
        let mut moved = false;
        for family in families {
            loop {
                let Some(weights) = self.families.get(&family) else { break };
                let step = Gap::all(weights, &self.total).into_iter().find_map(|gap| {
                    let unit = gap.choose(units, |unit| unit.family == family && unit.owner == gap.from)?;
                    Some((unit, gap.to))
                });
                let Some((unit, to)) = step else { break };
                self.hand_over(&mut units[unit], &to);
                moved = true;
            }
        }
        moved
    }

    /// Makes executors even over all families, as far as no family suffers. Answers whether anything was moved.
    fn even_executors(&mut self, units: &mut [Unit]) -> bool {
        let mut moved = false;
        loop {
            let step = Gap::all(&self.total, &self.total).into_iter().find_map(|gap| {
                let fits = |unit: &Unit| {
                    let (has, gets) = (self.of_family(&unit.family, &gap.from), self.of_family(&unit.family, &gap.to));
                    unit.owner == gap.from && has.saturating_sub(gets) >= unit.weight
                };
                Some((gap.choose(units, fits)?, gap.to.clone()))
            });
            let Some((unit, to)) = step else { break };
            self.hand_over(&mut units[unit], &to);
            moved = true;
        }
        moved
    }
}

/// An executor that has more than the one with the least.
struct Gap {
    from: ExecutorId,
    to: ExecutorId,
    /// What the one has more than the other.
    width: u64,
    /// What may go from the one to the other without taking either past the average.
    room: u64,
}

impl Gap {
    /// Those that are worth a move, the widest first. Among equals the total decides, then the id.
    fn all(weights: &BTreeMap<ExecutorId, u64>, total: &BTreeMap<ExecutorId, u64>) -> Vec<Self> {
        let all = |id: &ExecutorId| total.get(id).copied().unwrap_or_default();
        let Some((to, least)) = weights.iter().min_by_key(|&(id, weight)| (*weight, all(id))) else {
            return Vec::new();
        };
        let average = weights.values().sum::<u64>() / weights.len().max(1) as u64;
        let mut gaps: Vec<Self> = weights
            .iter()
            .map(|(from, weight)| {
                let room = weight.saturating_sub(average).min(average.saturating_sub(*least));
                Self { from: from.clone(), to: to.clone(), width: weight - least, room }
            })
            .filter(|gap| gap.width > 0 && gap.width.saturating_mul(TOLERANCE) > average)
            .collect();
        gaps.sort_by(|a, b| (b.width, all(&b.from)).cmp(&(a.width, all(&a.from))));
        gaps
    }

    /// The heaviest unit that takes neither past the average, otherwise the lightest that brings them closer together.
    fn choose(&self, units: &[Unit], fits: impl Fn(&Unit) -> bool) -> Option<usize> {
        let candidates =
            || units.iter().enumerate().filter(|(_, unit)| !unit.fixed && unit.weight < self.width && fits(unit));
        let within = candidates().filter(|(_, unit)| unit.weight <= self.room);
        // The first of several that weigh the same.
        within
            .max_by(|(i, a), (j, b)| a.weight.cmp(&b.weight).then(j.cmp(i)))
            .or_else(|| candidates().min_by_key(|(_, unit)| unit.weight))
            .map(|(position, _)| position)
    }
}

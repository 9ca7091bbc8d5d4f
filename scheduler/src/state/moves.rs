//! Moves of partitions between executors. A move waits for its turn, copies, is closed to commits for a moment if these
//! outrun the copy, changes hands with one entry, and is remembered until the former owner has let go.
//!
//! ```text
//!   Waiting ─Copy─► Copying ──────────Switch──────────► Leaving ─Finish─► (gone)
//!                      │  ▲                                ▲
//!                    Close Reopen                          │
//!                      ▼  │                                │
//!                    Closing ──────────Switch──────────────┘        Abandon: from everywhere before Leaving
//!                                                                   Return: from Leaving, if the new owner died at once
//! ```
//!
//! Nothing here decides when: the leader proposes steps ([`crate::sessions::moving`]), and one that does not fit the
//! state any more changes nothing.
use std::sync::Arc;

use ancho_common::ids::{ExecutorId, PartitionId};
use serde::{Deserialize, Serialize};

use super::{
    apply::Applied,
    cluster::{ClusterState, Liveness, Partition},
    command::Outcome,
};

/// A partition on its way from one executor to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The owner that gives it up. It keeps its copy until the move is over.
    pub from: ExecutorId,
    /// The executor that becomes the owner.
    pub to: ExecutorId,
    /// Epoch of the partition: the one that the move began on, or after the switch the one that the switch made.
    pub epoch: u64,
    /// How far it is.
    pub phase: MovePhase,
    /// The version that both have when the partition changes hands; 0 before.
    pub version: u64,
    /// When it was asked for, milliseconds since the epoch.
    pub since_ms: u64,
}

/// How far a move is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MovePhase {
    /// Others come first.
    Waiting,
    /// The target copies from the owner, which serves on.
    Copying,
    /// As `Copying`, and no write of the partition is committed until it has changed hands.
    Closing,
    /// The target is the owner. The former one answers queries that were planned before.
    Leaving,
}

impl MovePhase {
    /// As people read it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Copying => "copying",
            Self::Closing => "closing",
            Self::Leaving => "leaving",
        }
    }
}

/// A move to begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMove {
    /// Which.
    pub partition: PartitionId,
    /// The epoch the decision was made on.
    pub epoch: u64,
    /// To this executor.
    pub to: ExecutorId,
}

/// A move's next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveStep {
    /// Of this partition.
    pub partition: PartitionId,
    /// The epoch the decision was made on.
    pub epoch: u64,
    /// What to do.
    pub action: MoveAction,
}

/// What becomes of a move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MoveAction {
    /// It is its turn.
    Copy,
    /// Commits wait.
    Close,
    /// Commits go on, the copy with them.
    Reopen,
    /// The target becomes the owner, if the version that it has is the committed one.
    Switch {
        /// The version that it has.
        version: u64,
        /// Of the target: another start of its process has to say again what it has.
        incarnation: String,
    },
    /// The former owner lets go.
    Finish,
    /// The former owner takes the partition back, if the new one is down and has committed nothing.
    Return,
    /// The partition stays where it is.
    Abandon,
}

impl ClusterState {
    /// Begins moves. A partition that never held rows changes hands at once. Skipped are those of partitions that are gone, changed hands, are moving or have no owner, and those to an
    /// executor that may not take any.
    pub(super) fn start_moves(&mut self, moves: Vec<NewMove>, now_ms: u64) -> Applied {
        for NewMove { partition: id, epoch, to } in moves {
            let Some((_, partition)) = self.find_partition(id) else { continue };
            let Some(from) = partition.owners.first().cloned() else { continue };
            let target = self.executors.get(&to).filter(|e| e.may_take());
            let sound = partition.epoch == epoch && !partition.owners.contains(&to) && target.is_some();
            if !sound || self.moves.contains_key(&id) {
                continue;
            }
            if partition.version == 0 {
                self.give(id, to);
                continue;
            }
            let phase = MovePhase::Waiting;
            self.moves.insert(id, Move { from, to, epoch, phase, version: 0, since_ms: now_ms });
        }
        Ok(Outcome::Done)
    }

    /// Carries moves on. A step that does not fit is skipped.
    pub(super) fn advance_moves(&mut self, steps: Vec<MoveStep>) -> Applied {
        for MoveStep { partition, epoch, action } in steps {
            let Some(known) = self.moves.get(&partition).filter(|m| m.epoch == epoch) else { continue };
            match (action, known.phase) {
                (MoveAction::Copy, MovePhase::Waiting) | (MoveAction::Reopen, MovePhase::Closing) => {
                    self.set_phase(partition, MovePhase::Copying);
                }
                (MoveAction::Close, MovePhase::Copying) => self.set_phase(partition, MovePhase::Closing),
                (MoveAction::Switch { version, incarnation }, MovePhase::Copying | MovePhase::Closing) => {
                    self.switch(partition, version, &incarnation);
                }
                (MoveAction::Finish, MovePhase::Leaving) => {
                    self.moves.remove(&partition);
                }
                (MoveAction::Return, MovePhase::Leaving) => self.give_back(partition),
                (MoveAction::Abandon, MovePhase::Waiting | MovePhase::Copying | MovePhase::Closing) => {
                    self.moves.remove(&partition);
                }
                _ => {}
            }
        }
        Ok(Outcome::Done)
    }

    fn set_phase(&mut self, partition: PartitionId, phase: MovePhase) {
        if let Some(known) = self.moves.get_mut(&partition) {
            known.phase = phase;
        }
    }

    /// The one entry with which a partition changes hands.
    fn switch(&mut self, id: PartitionId, version: u64, incarnation: &str) {
        let Some(Move { from, to, .. }) = self.moves.get(&id).cloned() else { return };
        let ready = self
            .executors
            .get(&to)
            .is_some_and(|target| target.liveness == Liveness::Up && target.incarnation == incarnation);
        let Some((_, partition)) = self.find_partition(id) else { return };
        if !ready || partition.version != version || partition.owners.first() != Some(&from) {
            return;
        }
        let epoch = self.give(id, to);
        if let Some(known) = self.moves.get_mut(&id) {
            (known.epoch, known.phase, known.version) = (epoch, MovePhase::Leaving, version);
        }
    }

    /// Undoes a switch before it had any effect on rows.
    fn give_back(&mut self, id: PartitionId) {
        let Some(Move { from, to, version, .. }) = self.moves.get(&id).cloned() else { return };
        let up = |executor: &ExecutorId| self.executors.get(executor).is_some_and(|e| e.liveness == Liveness::Up);
        let unchanged = self.find_partition(id).is_some_and(|(_, partition)| partition.version == version);
        if up(&from) && !up(&to) && unchanged {
            self.give(id, from);
            self.moves.remove(&id);
        }
    }

    /// Puts another executor in the first owner's place; the new epoch.
    fn give(&mut self, id: PartitionId, to: ExecutorId) -> u64 {
        self.forget_loaded(&[id]);
        let home = self.tables.values_mut().find(|table| table.partitions.contains_key(&id));
        let Some(partition) = home.and_then(|table| Arc::make_mut(table).partitions.get_mut(&id)) else { return 0 };
        match partition.owners.first_mut() {
            Some(first) => *first = to,
            None => partition.owners.push(to),
        }
        partition.epoch += 1;
        partition.epoch
    }

    /// Whether commits of a partition wait for it to change hands.
    #[must_use]
    pub fn is_closing(&self, partition: PartitionId) -> bool {
        self.moves.get(&partition).is_some_and(|known| known.phase == MovePhase::Closing)
    }

    /// Moves that this executor has a part in.
    pub fn moves_of<'a>(&'a self, executor: &'a ExecutorId) -> impl Iterator<Item = (PartitionId, &'a Move)> {
        self.moves.iter().filter(move |(_, m)| m.from == *executor || m.to == *executor).map(|(id, m)| (*id, m))
    }
}

/// Every broken invariant of moves.
///
/// | id | invariant |
/// |---|---|
/// | MV-1 | a move is of a partition that exists, between two executors that are known; a partition has one at most |
/// | MV-2 | until the switch the partition is its first owner's, under the epoch that the move began on, and not the target's |
/// | MV-3 | after the switch it is the target's and not the former owner's, under the epoch that the switch made |
/// | MV-4 | no commit of a partition is lost by its switch: the version that both had is not newer than the partition's |
pub(super) fn violations(state: &ClusterState, found: &mut Vec<String>) {
    for (id, known) in &state.moves {
        let Some((table, partition)) = state.find_partition(*id) else {
            found.push(format!("MV-1: partition {id} is moving and does not exist"));
            continue;
        };
        let place = format!("partition {} of table {}", partition.key, table.name);
        let registered = [&known.from, &known.to].into_iter().all(|e| state.executors.contains_key(e));
        if known.from == known.to || !registered {
            found.push(format!("MV-1: {place} moves from executor {} to {}", known.from, known.to));
        }
        check(known, partition, &place, found);
    }
}

fn check(known: &Move, partition: &Partition, place: &str, found: &mut Vec<String>) {
    let (is, was, rule) = match known.phase {
        MovePhase::Leaving => (&known.to, &known.from, "MV-3"),
        _ => (&known.from, &known.to, "MV-2"),
    };
    if partition.owners.first() != Some(is) || partition.owners.contains(was) || partition.epoch != known.epoch {
        found.push(format!(
            "{rule}: {place} is {} from {} to {} under epoch {}, its owners are {:?} under epoch {}",
            known.phase.as_str(),
            known.from,
            known.to,
            known.epoch,
            partition.owners,
            partition.epoch
        ));
    }
    if known.version > partition.version {
        found.push(format!(
            "MV-4: {place} changed hands at version {} and is at version {}",
            known.version, partition.version
        ));
    }
}

//! Moves of partitions, as the leader's background loop carries them on, and an operator who asks for some.
use std::time::Duration;

use ancho_common::ids::{ExecutorId, PartitionId};
use ancho_scheduler::{
    placement::{PlacementPolicy, moves},
    state::{Command, NewMove},
};
use rand::{Rng, seq::IndexedRandom};
use tokio::time::Instant as WatchInstant;

use super::{Scheduler, Then};
use crate::{
    context::Context,
    settings::{OPERATOR_UNTIL, SETTLE},
};

impl Scheduler {
    /// A new leader knows nothing of copies, and begins to wait.
    pub(super) fn forget_moves(&mut self) {
        self.watch.clear();
        self.copied.clear();
        self.moving = false;
        self.due_since = None;
    }

    /// Carries moves on, and begins those that are due.
    pub(super) fn move_on(&mut self, context: &mut Context<'_>) {
        let Some(term) = self.led else { return };
        self.operate(context);
        if self.moving {
            return;
        }
        let steps = self.watch.steps(&self.state, &self.copied, WatchInstant::from_std(context.now));
        if !steps.is_empty() {
            self.moving = true;
            return self.propose_in_term(term, Command::AdvanceMoves { steps }, Then::Moved, context);
        }
        let plan = moves::due(&self.state, &PlacementPolicy::default());
        if plan.is_empty() {
            self.due_since = None;
        } else if context.now.duration_since(*self.due_since.get_or_insert(context.now)) >= SETTLE {
            self.due_since = None;
            self.moving = true;
            self.propose_in_term(term, plan.into_command(), Then::Moved, context);
        }
    }

    /// Now and then somebody empties an executor, takes it back, or has partitions moved to and fro. In the end nobody is
    /// being emptied.
    fn operate(&mut self, context: &mut Context<'_>) {
        let executors: Vec<ExecutorId> = self.state.executors.keys().cloned().collect();
        if context.time > OPERATOR_UNTIL {
            let draining = self.state.executors.values().find(|e| e.draining).map(|e| e.id.clone());
            if let Some(executor) = draining {
                self.propose(Command::SetDraining { executor, draining: false }, Then::Nothing, context);
            }
            return;
        }
        if executors.is_empty() || !context.rng.random_ratio(1, 40) {
            return;
        }
        let Some(executor) = executors.choose(context.rng).cloned() else { return };
        if context.rng.random_bool(0.4) {
            let draining = self.state.executors.get(&executor).is_some_and(|e| !e.draining);
            return self.propose(Command::SetDraining { executor, draining }, Then::Nothing, context);
        }
        let all: Vec<(PartitionId, u64)> =
            self.state.tables.values().flat_map(|t| t.partitions.values().map(|p| (p.id, p.epoch))).collect();
        let count = context.rng.random_range(1..=4);
        let moves: Vec<NewMove> = all
            .choose_multiple(context.rng, count)
            .map(|(partition, epoch)| NewMove { partition: *partition, epoch: *epoch, to: executor.clone() })
            .collect();
        if !moves.is_empty() {
            self.propose(Command::StartMoves { moves }, Then::Nothing, context);
        }
    }
}

/// How long a former owner answers here.
pub(super) const LEAVE_GRACE: Duration = Duration::from_secs(3);

//! How moves of partitions go on: what the leader proposes next, from the state and from what executors say of their
//! copies. Pure: the time is given.
//!
//! A copy that has caught up changes hands at once. One that writes outrun again and again is closed to commits, for
//! [`MovingOptions::close_limit`] at most: then the writes have their way, and it is tried again.
use std::{collections::BTreeMap, time::Duration};

use ancho_common::ids::{ExecutorId, PartitionId};
use ancho_proto::v1;
use tokio::time::Instant;

use crate::state::{ClusterState, Liveness, Move, MoveAction, MovePhase, MoveStep};

/// After so many rounds a copy that is still behind is closed to commits: each round is shorter than the one before.
const ROUNDS_BEFORE_CLOSING: u32 = 3;

/// Limits of moves that go on at the same time, and how long their steps may take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MovingOptions {
    /// Copies that one executor receives at a time.
    pub copies_per_target: usize,
    /// Copies that one executor gives at a time.
    pub copies_per_source: usize,
    /// Longest time for which commits of a partition wait for it to change hands, and how long they go on before it is tried
    /// again.
    pub close_limit: Duration,
    /// How long a former owner answers queries that were planned before the switch.
    pub leave_grace: Duration,
}

impl Default for MovingOptions {
    fn default() -> Self {
        Self {
            copies_per_target: 4,
            copies_per_source: 8,
            close_limit: Duration::from_secs(5),
            leave_grace: Duration::from_secs(30),
        }
    }
}

/// How far a copy is, as its executor said last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Epoch of the assignment.
    pub epoch: u64,
    /// The version that is there, whole.
    pub version: Option<u64>,
    /// How often the newest version was fetched.
    pub rounds: u32,
    /// Bytes of the version that is being fetched: there, and in all.
    pub bytes: (u64, u64),
    /// Bytes fetched in all rounds.
    pub fetched: u64,
    /// Why the last round failed; empty if it did not.
    pub fault: String,
}

/// What executors say of their copies, by executor: in which start of the process, and of which partitions.
#[derive(Debug, Clone, Default)]
pub struct Copies(BTreeMap<ExecutorId, (String, BTreeMap<PartitionId, Copied>)>);

impl Copies {
    /// Takes in what a beat says. Answers whether it says anything new.
    pub fn take(&mut self, executor: &ExecutorId, incarnation: &str, said: &[v1::Copied]) -> bool {
        let said: BTreeMap<PartitionId, Copied> = said
            .iter()
            .map(|copied| {
                let known = Copied {
                    epoch: copied.epoch,
                    version: copied.version,
                    rounds: copied.rounds,
                    bytes: (copied.done_bytes, copied.total_bytes),
                    fetched: copied.fetched_bytes,
                    fault: copied.fault.clone(),
                };
                (PartitionId(copied.partition_id), known)
            })
            .collect();
        let entry = (incarnation.to_owned(), said);
        if self.0.get(executor) == Some(&entry) || (entry.1.is_empty() && !self.0.contains_key(executor)) {
            return false;
        }
        self.0.insert(executor.clone(), entry);
        true
    }

    /// What the target of a move said of it, and in which start of its process.
    #[must_use]
    pub fn of(&self, partition: PartitionId, known: &Move) -> Option<(&str, &Copied)> {
        let (incarnation, copies) = self.0.get(&known.to)?;
        let copied = copies.get(&partition).filter(|copied| copied.epoch == known.epoch)?;
        Some((incarnation.as_str(), copied))
    }

    /// Forgets everything: it was said to another leader.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// What a leader has seen of moves in its term.
#[derive(Debug)]
pub struct MoveWatch {
    options: MovingOptions,
    /// In which phase each is, since when, and when it was closed to commits last.
    seen: BTreeMap<PartitionId, Seen>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    epoch: u64,
    phase: MovePhase,
    since: Instant,
    reopened: Option<Instant>,
}

impl MoveWatch {
    /// With these limits.
    #[must_use]
    pub fn new(options: MovingOptions) -> Self {
        Self { options, seen: BTreeMap::new() }
    }

    /// Forgets everything: a new leader begins to wait when it takes over.
    pub fn clear(&mut self) {
        self.seen.clear();
    }

    /// The next steps. Proposed again they change nothing.
    pub fn steps(&mut self, state: &ClusterState, copies: &Copies, now: Instant) -> Vec<MoveStep> {
        self.observe(state, now);
        let mut lanes = Lanes::of(state, &self.options);
        let mut steps = Vec::new();
        for (id, known) in &state.moves {
            if let Some(action) = self.action(state, (*id, known), copies, &mut lanes, now) {
                steps.push(MoveStep { partition: *id, epoch: known.epoch, action });
            }
        }
        steps
    }

    /// Looks where moves are, and since when.
    fn observe(&mut self, state: &ClusterState, now: Instant) {
        self.seen.retain(|id, _| state.moves.contains_key(id));
        for (id, known) in &state.moves {
            let fresh = Seen { epoch: known.epoch, phase: known.phase, since: now, reopened: None };
            let seen = self.seen.entry(*id).or_insert(fresh);
            if (seen.epoch, seen.phase) != (known.epoch, known.phase) {
                let back = (seen.phase, known.phase) == (MovePhase::Closing, MovePhase::Copying);
                *seen = Seen { reopened: if back { Some(now) } else { seen.reopened }, ..fresh };
            }
        }
    }

    fn action(
        &self,
        state: &ClusterState,
        (id, known): (PartitionId, &Move),
        copies: &Copies,
        lanes: &mut Lanes,
        now: Instant,
    ) -> Option<MoveAction> {
        let up = |executor: &ExecutorId| state.executors.get(executor).filter(|e| e.liveness == Liveness::Up);
        let seen = self.seen.get(&id)?;
        if known.phase == MovePhase::Leaving {
            let served = up(&known.to).is_some_and(|e| e.loaded.get(&id) == Some(&known.epoch));
            let (_, partition) = state.find_partition(id)?;
            if up(&known.to).is_none() && up(&known.from).is_some() && partition.version == known.version {
                return Some(MoveAction::Return);
            }
            let waited = now.duration_since(seen.since) >= self.options.leave_grace;
            return (served && (waited || up(&known.from).is_none())).then_some(MoveAction::Finish);
        }
        let target = up(&known.to);
        // An owner that is away, or cannot serve it, has nothing to give.
        let source = up(&known.from).filter(|source| !source.hindered.contains_key(&id));
        if source.is_none() || target.is_none_or(|target| target.draining) {
            return Some(MoveAction::Abandon);
        }
        if known.phase == MovePhase::Waiting {
            return lanes.enter(known).then_some(MoveAction::Copy);
        }
        let (_, partition) = state.find_partition(id)?;
        let said = copies.of(id, known);
        if let Some((incarnation, copied)) = said
            && copied.version == Some(partition.version)
            && target.is_some_and(|target| target.incarnation == incarnation)
        {
            let incarnation = incarnation.to_owned();
            return Some(MoveAction::Switch { version: partition.version, incarnation });
        }
        match known.phase {
            MovePhase::Closing if now.duration_since(seen.since) >= self.options.close_limit => {
                Some(MoveAction::Reopen)
            }
            MovePhase::Copying => {
                let rested = seen.reopened.is_none_or(|at| now.duration_since(at) >= self.options.close_limit);
                let outrun = said.is_some_and(|(_, copied)| copied.rounds >= ROUNDS_BEFORE_CLOSING);
                (rested && outrun).then_some(MoveAction::Close)
            }
            _ => None,
        }
    }
}

/// How many copies each executor receives and gives.
struct Lanes {
    limits: (usize, usize),
    into: BTreeMap<ExecutorId, usize>,
    out_of: BTreeMap<ExecutorId, usize>,
}

impl Lanes {
    fn of(state: &ClusterState, options: &MovingOptions) -> Self {
        let limits = (options.copies_per_target.max(1), options.copies_per_source.max(1));
        let mut lanes = Self { limits, into: BTreeMap::new(), out_of: BTreeMap::new() };
        for known in state.moves.values() {
            if matches!(known.phase, MovePhase::Copying | MovePhase::Closing) {
                lanes.count(known);
            }
        }
        lanes
    }

    fn count(&mut self, known: &Move) {
        *self.into.entry(known.to.clone()).or_default() += 1;
        *self.out_of.entry(known.from.clone()).or_default() += 1;
    }

    fn enter(&mut self, known: &Move) -> bool {
        let into = self.into.get(&known.to).copied().unwrap_or_default();
        let out_of = self.out_of.get(&known.from).copied().unwrap_or_default();
        let free = into < self.limits.0 && out_of < self.limits.1;
        if free {
            self.count(known);
        }
        free
    }
}

#[cfg(test)]
mod tests {
    use ancho_common::ids::{RequestId, WriteId};

    use super::*;
    use crate::state::{
        Command, NewMove, Request, StagedPart,
        tests::{id, new_table, register},
        violations,
    };

    struct Cluster {
        state: ClusterState,
        copies: Copies,
        watch: MoveWatch,
        start: Instant,
    }

    impl Cluster {
        fn new() -> Self {
            let mut cluster = Self {
                state: ClusterState::default(),
                copies: Copies::default(),
                watch: MoveWatch::new(MovingOptions { copies_per_target: 1, ..MovingOptions::default() }),
                start: Instant::now(),
            };
            cluster.apply(register("a", "1"));
            cluster.apply(register("b", "1"));
            cluster.apply(Command::CreateTable(Box::new(new_table("t", 2, &["a"]))));
            cluster.commit();
            let moves = cluster.ids().map(|partition| NewMove { partition, epoch: 1, to: id("b") }).to_vec();
            cluster.apply(Command::StartMoves { moves });
            cluster
        }

        /// A row in each partition: what never held one moves at once.
        fn commit(&mut self) {
            let parts = self.ids().map(|partition| StagedPart {
                partition,
                epoch: 1,
                executor: id("a"),
                incarnation: "1".into(),
                rows: 1,
                bytes: 10,
                columns: Vec::new(),
                deleted: 0,
                base: None,
            });
            self.apply(Command::CommitWrite {
                table: *self.state.tables.keys().next().unwrap(),
                write_id: WriteId::new(),
                overwrite: false,
                parts: parts.to_vec(),
                refreshed: None,
                based_on: None,
                request: None,
                schema_version: 0,
            });
        }

        fn ids(&self) -> [PartitionId; 2] {
            let table = self.state.tables.values().next().unwrap();
            let ids: Vec<PartitionId> = table.partitions.keys().copied().collect();
            [ids[0], ids[1]]
        }

        fn apply(&mut self, command: Command) {
            self.state.apply(Request { id: RequestId::new(), now_ms: 0, command }).outcome.unwrap();
            assert_eq!(violations(&self.state), Vec::<String>::new());
        }

        fn said(&mut self, partition: PartitionId, version: u64, rounds: u32) {
            let copied = v1::Copied {
                partition_id: partition.0,
                epoch: 1,
                version: Some(version),
                rounds,
                ..Default::default()
            };
            self.copies.take(&id("b"), "1", &[copied]);
        }

        fn steps(&mut self, seconds: u64) -> Vec<(PartitionId, MoveAction)> {
            let now = self.start + Duration::from_secs(seconds);
            let steps = self.watch.steps(&self.state, &self.copies, now);
            self.apply(Command::AdvanceMoves { steps: steps.clone() });
            steps.into_iter().map(|step| (step.partition, step.action)).collect()
        }

        fn phase(&self, partition: PartitionId) -> Option<MovePhase> {
            self.state.moves.get(&partition).map(|m| m.phase)
        }
    }

    fn switch(version: u64) -> MoveAction {
        MoveAction::Switch { version, incarnation: "1".into() }
    }

    #[test]
    fn a_move_takes_its_turn_changes_hands_when_it_has_caught_up_and_ends_when_it_is_served() {
        let mut cluster = Cluster::new();
        let [one, two] = cluster.ids();
        assert_eq!(cluster.steps(0), [(one, MoveAction::Copy)], "one at a time");
        assert_eq!(cluster.steps(1), []);
        cluster.said(one, 1, 1);
        assert_eq!(cluster.steps(2), [(one, switch(1))]);
        let moved = cluster.state.find_partition(one).unwrap().1.clone();
        assert_eq!((moved.owners, moved.epoch), (vec![id("b")], 2));
        assert_eq!(cluster.steps(3), [(two, MoveAction::Copy)]);
        assert_eq!(cluster.steps(50), [], "nobody serves it yet");
        let loaded = BTreeMap::from([(one, 2)]);
        cluster.apply(Command::ReportLoaded {
            executor: id("b"),
            incarnation: "1".into(),
            loaded,
            hindered: BTreeMap::new(),
        });
        assert_eq!(cluster.steps(51), [(one, MoveAction::Finish)]);
        assert_eq!(cluster.phase(one), None);
        cluster.apply(Command::ExecutorDown { executor: id("b"), incarnation: "1".into() });
        assert_eq!(cluster.steps(52), [(two, MoveAction::Abandon)]);
        assert_eq!(cluster.state.find_partition(two).unwrap().1.owners, [id("a")]);
    }

    #[test]
    fn a_copy_that_is_outrun_is_closed_for_a_moment_and_opened_again() {
        let mut cluster = Cluster::new();
        let [one, _] = cluster.ids();
        cluster.steps(0);
        // Behind: what it says of another version than the committed one.
        cluster.said(one, 7, 2);
        assert_eq!(cluster.steps(1), []);
        cluster.said(one, 7, 3);
        assert_eq!(cluster.steps(2), [(one, MoveAction::Close)]);
        assert!(cluster.state.is_closing(one));
        assert_eq!(cluster.steps(2), []);
        assert_eq!(cluster.steps(6), []);
        assert_eq!(cluster.steps(8), [(one, MoveAction::Reopen)]);
        assert_eq!(cluster.steps(9), [], "writes have their time, too");
        assert_eq!(cluster.steps(14), [(one, MoveAction::Close)]);
        cluster.said(one, 1, 4);
        assert_eq!(cluster.steps(15), [(one, switch(1))]);
    }

    #[test]
    fn a_new_owner_that_dies_at_once_gives_the_partition_back() {
        let mut cluster = Cluster::new();
        let [one, _] = cluster.ids();
        cluster.steps(0);
        cluster.said(one, 1, 1);
        assert_eq!(cluster.steps(1), [(one, switch(1))]);
        cluster.apply(Command::ExecutorDown { executor: id("b"), incarnation: "1".into() });
        assert!(cluster.steps(2).contains(&(one, MoveAction::Return)));
        let back = cluster.state.find_partition(one).unwrap().1.clone();
        assert_eq!((back.owners, back.epoch, cluster.phase(one)), (vec![id("a")], 3, None));
    }

    #[test]
    fn what_another_start_of_the_target_said_does_not_count() {
        let mut cluster = Cluster::new();
        let [one, _] = cluster.ids();
        cluster.steps(0);
        cluster.said(one, 1, 1);
        cluster.apply(register("b", "2"));
        cluster.steps(1);
        assert_eq!(cluster.phase(one), Some(MovePhase::Copying));
    }
}

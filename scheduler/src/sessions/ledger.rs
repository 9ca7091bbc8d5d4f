//! The leader's book of sessions: until when each executor is taken to be alive. No I/O and no clock of its own.
//!
//! Rules:
//! * An executor counts its session from the moment it *sent* a message, the leader from the moment it *received* it
//!   and adds a margin: the executor always stops first.
//! * The end of a stream, whatever it looks like, proves nothing about the process: a connection can be cut while both
//!   ends live, and an executor leaves a silent leader while its right to serve still lasts. So the deadline stays
//!   where the last message put it, and only a new session moves it.
//! * A new leader has heard nobody yet: every executor that is up gets a full deadline from the first look.
//! * A leader that was itself held up (suspended, or starved of CPU) could not hear anyone in that time, so it does not count.
use std::{collections::BTreeMap, time::Duration};

use ancho_common::ids::ExecutorId;
use tokio::time::Instant;

use crate::state::{ClusterState, Liveness};

/// One session; a later session of the same executor has another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey(u64);

/// Whether a session still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It does.
    Held,
    /// The session ended before; the executor must open a new one.
    Lapsed,
    /// The executor has opened a newer session.
    Superseded,
}

#[derive(Debug)]
struct Entry {
    incarnation: String,
    deadline: Instant,
    session: Option<SessionKey>,
    lapsed: bool,
}

/// See the module's description.
#[derive(Debug)]
pub struct Ledger {
    /// From a message to the deadline: the session's length plus the margin.
    patience: Duration,
    /// Time between two sweeps.
    interval: Duration,
    term: u64,
    entries: BTreeMap<ExecutorId, Entry>,
    sessions: u64,
    last_sweep: Option<Instant>,
}

impl Ledger {
    /// An empty book. `patience` is the time from a message to the deadline: the session's length plus the margin; `interval`
    /// the time between two sweeps.
    #[must_use]
    pub fn new(patience: Duration, interval: Duration) -> Self {
        Self { patience, interval, term: 0, entries: BTreeMap::new(), sessions: 0, last_sweep: None }
    }

    /// Starts an empty book for a new term of leadership; false for a term that is over.
    fn enter(&mut self, term: u64) -> bool {
        if term > self.term {
            self.term = term;
            self.entries.clear();
            self.last_sweep = None;
        }
        term == self.term
    }

    /// Opens a session; an older one of the executor is superseded. None if the term is over.
    pub fn open(&mut self, term: u64, executor: &ExecutorId, incarnation: &str, now: Instant) -> Option<SessionKey> {
        if !self.enter(term) {
            return None;
        }
        self.sessions += 1;
        let key = SessionKey(self.sessions);
        let entry = Entry {
            incarnation: incarnation.to_owned(),
            deadline: now + self.patience,
            session: Some(key),
            lapsed: false,
        };
        self.entries.insert(executor.clone(), entry);
        Some(key)
    }

    /// Where a session stands.
    #[must_use]
    pub fn standing(&self, term: u64, executor: &ExecutorId, key: SessionKey) -> Standing {
        match self.entries.get(executor) {
            _ if term != self.term => Standing::Lapsed,
            Some(entry) if entry.session == Some(key) && !entry.lapsed => Standing::Held,
            Some(entry) if entry.session.is_some_and(|newer| newer > key) => Standing::Superseded,
            _ => Standing::Lapsed,
        }
    }

    /// A message of a session arrived: it renews a session that is held.
    pub fn heard(&mut self, term: u64, executor: &ExecutorId, key: SessionKey, now: Instant) -> Standing {
        let standing = self.standing(term, executor, key);
        if standing == Standing::Held
            && let Some(entry) = self.entries.get_mut(executor)
        {
            entry.deadline = now + self.patience;
        }
        standing
    }

    /// The stream of a session ended.
    pub fn close(&mut self, term: u64, executor: &ExecutorId, key: SessionKey) {
        if term != self.term {
            return;
        }
        if let Some(entry) = self.entries.get_mut(executor)
            && entry.session == Some(key)
        {
            entry.session = None;
        }
    }

    /// Executors to be marked down, with the start of the process that is meant. An executor is named in each sweep
    /// until the state shows it down.
    pub fn sweep(&mut self, term: u64, state: &ClusterState, now: Instant) -> Vec<(ExecutorId, String)> {
        if !self.enter(term) {
            return Vec::new();
        }
        self.forgive_own_absence(now);
        self.observe(state, now);
        for entry in self.entries.values_mut() {
            entry.lapsed |= entry.deadline <= now;
        }
        self.entries
            .iter()
            .filter(|(_, entry)| entry.lapsed)
            .map(|(id, entry)| (id.clone(), entry.incarnation.clone()))
            .collect()
    }

    fn forgive_own_absence(&mut self, now: Instant) {
        if let Some(last) = self.last_sweep {
            let late = now.duration_since(last).saturating_sub(self.interval);
            // Small delays are what the margin is for.
            if late > self.interval * 4 {
                for entry in self.entries.values_mut().filter(|e| !e.lapsed) {
                    entry.deadline += late;
                }
            }
        }
        self.last_sweep = Some(now);
    }

    /// Takes up executors that are up in the state but not in the book, and drops those that are done with.
    fn observe(&mut self, state: &ClusterState, now: Instant) {
        let deadline = now + self.patience;
        for executor in state.live_executors() {
            let known = self
                .entries
                .get(&executor.id)
                .is_some_and(|entry| entry.session.is_some() || entry.incarnation == executor.incarnation);
            if !known {
                let incarnation = executor.incarnation.clone();
                let entry = Entry { incarnation, deadline, session: None, lapsed: false };
                self.entries.insert(executor.id.clone(), entry);
            }
        }
        self.entries.retain(|id, entry| {
            // A session that is being opened is not in the state yet.
            let open = entry.session.is_some() && !entry.lapsed;
            open || state.executors.get(id).is_some_and(|e| e.liveness == Liveness::Up)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{
        Command, Request,
        tests::{id, register},
    };
    use ancho_common::ids::RequestId;

    const PATIENCE: Duration = Duration::from_secs(12);
    const TICK: Duration = Duration::from_millis(500);

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    struct Leader {
        ledger: Ledger,
        state: ClusterState,
        start: Instant,
        swept: Duration,
    }

    impl Leader {
        fn new(executors: &[&str]) -> Self {
            let mut leader = Self {
                ledger: Ledger::new(PATIENCE, TICK),
                state: ClusterState::default(),
                start: Instant::now(),
                swept: Duration::ZERO,
            };
            for executor in executors {
                leader.apply(register(executor, "1"));
            }
            leader
        }

        fn apply(&mut self, command: Command) {
            self.state.apply(Request { id: RequestId::new(), now_ms: 0, command }).outcome.unwrap();
        }

        /// Sweeps on time until `to` after the start; the executors found lapsed at the end.
        fn sweep_until(&mut self, to: Duration) -> Vec<String> {
            let mut lapsed = self.ledger.sweep(1, &self.state, self.start + self.swept);
            while self.swept < to {
                self.swept += TICK;
                lapsed = self.ledger.sweep(1, &self.state, self.start + self.swept);
            }
            lapsed.into_iter().map(|(id, _)| id.0).collect()
        }

        fn open(&mut self, executor: &str, incarnation: &str, at: Duration) -> SessionKey {
            self.ledger.open(1, &id(executor), incarnation, self.start + at).unwrap()
        }
    }

    #[test]
    fn a_new_leader_waits_a_full_session_before_it_gives_anyone_up() {
        let mut leader = Leader::new(&["a", "b"]);
        assert!(leader.sweep_until(seconds(11)).is_empty());
        let key = leader.open("b", "1", seconds(11));
        assert_eq!(leader.sweep_until(seconds(12)), ["a"]);
        assert_eq!(leader.sweep_until(seconds(13)), ["a"], "named again until the state shows it");
        leader.apply(Command::ExecutorDown { executor: id("a"), incarnation: "1".into() });
        assert!(leader.sweep_until(seconds(14)).is_empty());
        assert_eq!(leader.ledger.heard(1, &id("b"), key, leader.start + seconds(14)), Standing::Held);
        assert!(leader.sweep_until(seconds(25)).is_empty());
        assert_eq!(leader.sweep_until(seconds(26)), ["b"]);
        let late = leader.start + seconds(26);
        assert_eq!(leader.ledger.heard(1, &id("b"), key, late), Standing::Lapsed, "a lapsed session is not renewed");
    }

    #[test]
    fn the_end_of_a_stream_changes_nothing_until_the_time_is_over() {
        let mut leader = Leader::new(&["a", "b"]);
        for executor in ["a", "b"] {
            let key = leader.open(executor, "1", seconds(1));
            leader.ledger.close(1, &id(executor), key);
        }
        assert!(leader.sweep_until(seconds(12)).is_empty());
        leader.open("b", "1", seconds(12));
        assert_eq!(leader.sweep_until(seconds(13)), ["a"]);
    }

    #[test]
    fn the_newest_session_counts_and_the_end_of_an_older_one_does_not() {
        let mut leader = Leader::new(&["a"]);
        let old = leader.open("a", "1", seconds(0));
        let new = leader.open("a", "2", seconds(1));
        let at = leader.start + seconds(2);
        assert_eq!(leader.ledger.heard(1, &id("a"), old, at), Standing::Superseded);
        leader.ledger.close(1, &id("a"), old);
        assert!(leader.sweep_until(seconds(8)).is_empty());
        assert_eq!(leader.ledger.heard(1, &id("a"), new, leader.start + seconds(8)), Standing::Held);
    }

    #[test]
    fn a_new_term_starts_over_and_an_old_one_is_over() {
        let mut leader = Leader::new(&["a"]);
        let key = leader.open("a", "1", seconds(0));
        let later = leader.start + seconds(11);
        assert!(leader.ledger.sweep(2, &leader.state, later).is_empty());
        assert_eq!(leader.ledger.heard(1, &id("a"), key, later), Standing::Lapsed);
        assert!(leader.ledger.open(1, &id("a"), "1", later).is_none());
        assert!(leader.ledger.sweep(2, &leader.state, later + seconds(1)).is_empty());
    }

    #[test]
    fn time_in_which_the_leader_was_held_up_does_not_count() {
        let mut leader = Leader::new(&["a"]);
        leader.open("a", "1", seconds(0));
        assert!(leader.sweep_until(seconds(1)).is_empty());
        leader.swept = seconds(60);
        assert!(leader.sweep_until(seconds(60)).is_empty(), "suspended for a minute");
        assert_eq!(leader.sweep_until(seconds(71)), ["a"]);
    }

    #[test]
    fn an_executor_that_lapsed_and_started_anew_gets_its_time() {
        let mut leader = Leader::new(&["a"]);
        assert_eq!(leader.sweep_until(seconds(12)), ["a"]);
        // Registered through another path: the old start is what lapsed.
        leader.apply(register("a", "2"));
        assert!(leader.sweep_until(seconds(13)).is_empty());
        assert_eq!(leader.sweep_until(seconds(25)), ["a"]);
    }
}

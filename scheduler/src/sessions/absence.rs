//! How long executors have been down, as the leader has seen it: after a while their partitions are given to others where a
//! snapshot has them. Pure.
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ancho_common::ids::ExecutorId;
use tokio::time::Instant;

use crate::state::{ClusterState, Liveness};

/// Since when each executor that is down has been seen so.
#[derive(Debug)]
pub struct Absence {
    patience: Duration,
    /// With the start of its process: another one that went down too begins anew.
    seen: BTreeMap<ExecutorId, (String, Instant)>,
}

impl Absence {
    /// Gives an executor up that was down for so long.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        Self { patience, seen: BTreeMap::new() }
    }

    /// Looks at a state. Answers the executors that are given up, and when to look again although nothing changes.
    pub fn look(&mut self, state: &ClusterState, now: Instant) -> (BTreeSet<ExecutorId>, Option<Instant>) {
        let down = |id: &ExecutorId, incarnation: &String| {
            state.executors.get(id).is_some_and(|e| e.liveness == Liveness::Down && e.incarnation == *incarnation)
        };
        self.seen.retain(|id, (incarnation, _)| down(id, incarnation));
        for executor in state.executors.values().filter(|e| e.liveness == Liveness::Down) {
            self.seen.entry(executor.id.clone()).or_insert_with(|| (executor.incarnation.clone(), now));
        }
        let mut given_up = BTreeSet::new();
        let mut next: Option<Instant> = None;
        for (id, (_, since)) in &self.seen {
            let at = *since + self.patience;
            if at <= now {
                given_up.insert(id.clone());
            } else {
                next = Some(next.map_or(at, |other| other.min(at)));
            }
        }
        (given_up, next)
    }

    /// Forgets everything: another leader may have seen what this one did not.
    pub fn clear(&mut self) {
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use ancho_common::ids::RequestId;

    use super::*;
    use crate::state::{
        Command, Request,
        tests::{id, register},
    };

    #[test]
    fn only_who_stays_away_is_given_up() {
        let mut state = ClusterState::default();
        let mut apply = |command| {
            state.apply(Request { id: RequestId::new(), now_ms: 0, command }).outcome.unwrap();
            state.clone()
        };
        let down = |name: &str, incarnation: &str| Command::ExecutorDown {
            executor: id(name),
            incarnation: incarnation.into(),
        };
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut absence = Absence::new(Duration::from_secs(10));
        apply(register("a", "1"));
        let both = apply(register("b", "1"));
        assert_eq!(absence.look(&both, at(0)), (BTreeSet::new(), None));
        let one = apply(down("a", "1"));
        assert_eq!(absence.look(&one, at(0)), (BTreeSet::new(), Some(at(10))));
        let none = apply(down("b", "1"));
        assert_eq!(absence.look(&none, at(5)), (BTreeSet::new(), Some(at(10))));
        assert_eq!(absence.look(&none, at(10)), (BTreeSet::from([id("a")]), Some(at(15))));
        let back = apply(register("a", "2"));
        assert_eq!(absence.look(&back, at(11)), (BTreeSet::new(), Some(at(15))));
        let again = apply(down("a", "2"));
        assert_eq!(absence.look(&again, at(15)), (BTreeSet::from([id("b")]), Some(at(25))));
        absence.clear();
        assert_eq!(absence.look(&again, at(15)), (BTreeSet::new(), Some(at(25))), "a new leader begins to wait");
    }
}

//! Which loads of tables nobody carries on: a pure record of when each was last renewed, on the leader's own clock.
use std::{collections::HashMap, time::Duration};

use ancho_common::ids::TableId;
use tokio::time::Instant;

use crate::state::ClusterState;

/// What a leader has seen of the loads in its term.
#[derive(Debug)]
pub struct LoadWatch {
    patience: Duration,
    /// The count of renewals of each load, and when it was first seen at that count.
    seen: HashMap<TableId, (u64, Instant)>,
}

impl LoadWatch {
    /// Gives a load up that has not been renewed for `patience`.
    #[must_use]
    pub fn new(patience: Duration) -> Self {
        Self { patience, seen: HashMap::new() }
    }

    /// The loads that stood still for too long, each with its count of renewals. To be asked often: time between two
    /// calls counts as silence only if it is short against the patience.
    pub fn sweep(&mut self, state: &ClusterState, now: Instant) -> Vec<(TableId, u64)> {
        let running = |id: &TableId| state.tables.get(id).and_then(|t| t.load).map(|load| load.renewals);
        self.seen.retain(|id, _| running(id).is_some());
        let mut dead = Vec::new();
        for id in state.tables.keys() {
            let Some(renewals) = running(id) else { continue };
            let (known, since) = *self.seen.entry(*id).or_insert((renewals, now));
            if known != renewals {
                self.seen.insert(*id, (renewals, now));
            } else if now.duration_since(since) >= self.patience {
                dead.push((*id, renewals));
            }
        }
        dead
    }

    /// Forgets everything: another leader may have heard what this one did not.
    pub fn clear(&mut self) {
        self.seen.clear();
    }
}

#[cfg(test)]
mod tests {
    use ancho_common::ids::RequestId;

    use super::*;
    use crate::state::{
        Command, NewTable, Request,
        tests::{new_table, register},
    };

    #[test]
    fn only_a_load_that_stands_still_is_given_up() {
        let mut state = ClusterState::default();
        let mut apply = |command| {
            state.apply(Request { id: RequestId::new(), now_ms: 0, command }).outcome.unwrap();
            state.clone()
        };
        apply(register("a", "1"));
        apply(Command::CreateTable(Box::new(new_table("plain", 1, &["a"]))));
        for name in ["kept", "left"] {
            apply(Command::CreateTable(Box::new(NewTable { loading: true, ..new_table(name, 1, &["a"]) })));
        }
        let (kept, left) = (TableId(2), TableId(3));
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut watch = LoadWatch::new(Duration::from_secs(10));
        for second in 0..30 {
            let state = apply(Command::RenewLoad { table: kept });
            let expected = if second < 10 { vec![] } else { vec![(left, 0)] };
            assert_eq!(watch.sweep(&state, at(second)), expected, "after {second} s");
        }
        watch.clear();
        let state = apply(Command::RenewLoad { table: kept });
        assert_eq!(watch.sweep(&state, at(30)), [], "a new leader begins to wait when it takes over");
        let state = apply(Command::AbandonLoad { table: left, renewals: Some(0) });
        assert_eq!(watch.sweep(&state, at(39)), []);
        assert_eq!(watch.sweep(&state, at(49)), [(kept, 31)]);
    }
}

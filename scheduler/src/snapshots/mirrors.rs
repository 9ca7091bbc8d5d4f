//! When datasets that mirror what another cluster publishes are to be looked at, as the leader sees it. Pure.
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ancho_common::{snapshot::store::ObjectVersion, spec::DatasetSpec};
use tokio::time::Instant;

use crate::state::ClusterState;

/// The first pause after a failure; it doubles, and is never longer than the dataset's own.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// A look at a dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Its name.
    pub name: String,
    /// What it is.
    pub spec: DatasetSpec,
    /// The head that was there at the last look that ended well.
    pub known: Option<ObjectVersion>,
}

/// What is known of these datasets.
#[derive(Debug, Default)]
pub struct Mirrors {
    watches: BTreeMap<String, Watch>,
    running: BTreeSet<String>,
}

#[derive(Debug)]
struct Watch {
    definition: String,
    spec: DatasetSpec,
    known: Option<ObjectVersion>,
    next: Instant,
    failures: u32,
}

impl Mirrors {
    /// The datasets that are to be looked at now. They count as running until they have [ended](Self::ended).
    pub fn sweep(&mut self, state: &ClusterState, now: Instant) -> Vec<Look> {
        let served = state.listed().filter(|table| table.is_published_elsewhere() && table.load.is_none());
        let served = served.filter_map(|table| Some((&table.name.table, &table.dataset.as_ref()?.definition)));
        let awaited = state.awaited.iter().map(|(name, dataset)| (name, &dataset.definition));
        // A table that is there says better what is wanted.
        let declared: BTreeMap<&String, &String> = awaited.chain(served).collect();
        self.watches
            .retain(|name, watch| declared.get(name).is_some_and(|definition| **definition == watch.definition));
        let mut due = Vec::new();
        for (name, definition) in declared {
            if !self.watches.contains_key(name) {
                // One of a newer release is looked at by that.
                let Ok(spec) = DatasetSpec::from_definition(definition) else { continue };
                let watch = Watch { definition: definition.clone(), spec, known: None, next: now, failures: 0 };
                self.watches.insert(name.clone(), watch);
            }
            let Some(watch) = self.watches.get(name) else { continue };
            if now >= watch.next && self.running.insert(name.clone()) {
                due.push(Look { name: name.clone(), spec: watch.spec.clone(), known: watch.known.clone() });
            }
        }
        due
    }

    /// A look has ended: with the head that was found, with none, or with a failure.
    pub fn ended(&mut self, look: &Look, found: Result<Option<ObjectVersion>, ()>, now: Instant) {
        self.running.remove(&look.name);
        // Of one that was declared anew meanwhile this look says nothing.
        let Some(watch) = self.watches.get_mut(&look.name).filter(|watch| watch.spec == look.spec) else { return };
        let interval = watch.spec.acceleration.check_interval();
        let pause = match found {
            Ok(known) => {
                (watch.known, watch.failures) = (known, 0);
                interval
            }
            Err(()) => {
                watch.failures = watch.failures.saturating_add(1);
                FIRST_PAUSE.saturating_mul(1 << watch.failures.saturating_sub(1).min(16)).min(interval)
            }
        };
        watch.next = now + pause;
    }

    /// Forgets everything but what is running: another leader saw what this one did not.
    pub fn clear(&mut self) {
        self.watches.clear();
    }
}

#[cfg(test)]
mod tests {
    use ancho_common::{ids::RequestId, spec::ClusterSpec};

    use super::*;
    use crate::state::{Awaited, Command, Request, TableName};

    fn spec(interval: &str) -> DatasetSpec {
        let yaml = format!(
            "datasets:\n  - from: file:///published\n    name: t\n    params: {{file_format: snapshot}}\n    acceleration: {{refresh_check_interval: {interval}}}\n"
        );
        ClusterSpec::parse(&yaml).unwrap().datasets.remove(0)
    }

    fn wait_for(state: &mut ClusterState, spec: &DatasetSpec) {
        let dataset = Awaited { definition: spec.definition(), from: spec.source.from.to_string() };
        let command = Command::AwaitDataset { name: TableName::public("t"), dataset };
        state.apply(Request { id: RequestId::new(), now_ms: 0, command }).outcome.unwrap();
    }

    #[test]
    fn looks_are_an_interval_apart_and_failures_less() {
        let (mut state, mut mirrors, start) = (ClusterState::default(), Mirrors::default(), Instant::now());
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        assert!(mirrors.sweep(&state, at(0)).is_empty());
        wait_for(&mut state, &spec("10s"));
        let look = mirrors.sweep(&state, at(0)).pop().unwrap();
        assert!(mirrors.sweep(&state, at(99)).is_empty(), "it is being looked at");
        mirrors.ended(&look, Ok(None), at(100));
        assert!(mirrors.sweep(&state, at(109)).is_empty());
        let look = mirrors.sweep(&state, at(110)).pop().unwrap();
        // Pauses after failures: 1, 2, 4, 8, and then what is the interval.
        let mut now = 110;
        for pause in [1, 2, 4, 8, 10, 10] {
            mirrors.ended(&look, Err(()), at(now));
            assert!(mirrors.sweep(&state, at(now + pause - 1)).is_empty(), "{pause}");
            now += pause;
            assert_eq!(mirrors.sweep(&state, at(now)).len(), 1, "{pause}");
        }
        // Declared otherwise it is looked at at once, and the former look says nothing.
        wait_for(&mut state, &spec("5s"));
        assert!(mirrors.sweep(&state, at(now)).is_empty(), "it is being looked at");
        mirrors.ended(&look, Ok(None), at(now));
        assert_eq!(mirrors.sweep(&state, at(now)).len(), 1);
    }

    #[test]
    fn what_is_awaited_is_no_table_and_keeps_its_name() {
        let mut state = ClusterState::default();
        wait_for(&mut state, &spec("5s"));
        let name = TableName::public("t");
        assert!(state.table(&name).is_none() && state.awaited(&name).is_some());
        let mut apply = |command| state.apply(Request { id: RequestId::new(), now_ms: 0, command }).outcome;
        let table = crate::state::tests::new_table("t", 1, &[]);
        let refused = apply(Command::CreateTable(Box::new(table))).unwrap_err();
        assert!(refused.message.contains("waits for the first snapshot in file:///published"), "{}", refused.message);
        let drop = Command::DropTable { name: name.clone(), if_exists: false };
        assert!(apply(drop.clone()).is_ok());
        assert!(apply(drop).is_err());
        assert!(state.awaited.is_empty());
    }
}

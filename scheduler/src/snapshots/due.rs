//! Which tables are due for a snapshot unasked, as the leader sees it. Pure.
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ancho_common::{
    ids::TableId,
    snapshot::policy::{SnapshotPolicy, Trigger},
};
use tokio::time::Instant;

use crate::state::{ClusterState, Table};

/// The first pause after a failure; it doubles.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
/// The longest.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

/// What is known of the snapshots of tables that are made unasked.
#[derive(Debug, Default)]
pub struct Due {
    tables: BTreeMap<TableId, Watch>,
    running: BTreeSet<TableId>,
}

#[derive(Debug)]
struct Watch {
    /// The start of the period.
    since: Instant,
    failures: u32,
    not_before: Instant,
}

impl Due {
    /// The tables whose snapshot is to be made now. They count as running until they have [ended](Self::ended).
    pub fn sweep(&mut self, state: &ClusterState, now: Instant) -> Vec<TableId> {
        let wanted: BTreeMap<TableId, (&Table, SnapshotPolicy, Trigger)> = state
            .listed()
            .filter(|table| table.load.is_none())
            .filter_map(|table| {
                let policy = SnapshotPolicy::of(&table.params, table.dataset.is_some()).ok()?;
                let trigger = policy.automatic?;
                Some((table.id, (table.as_ref(), policy, trigger)))
            })
            .collect();
        self.tables.retain(|id, _| wanted.contains_key(id));
        let mut due = Vec::new();
        for (id, (table, policy, trigger)) in wanted {
            let watch = self.tables.entry(id).or_insert(Watch { since: now, failures: 0, not_before: now });
            let published = state.snapshots.newest(id).map_or(0, |newest| newest.table_version);
            let missing = table.version.saturating_sub(published);
            let is_due = match trigger {
                Trigger::RefreshComplete => {
                    missing > 0 && table.dataset.as_ref().is_some_and(|dataset| dataset.refreshed_at_ms.is_some())
                }
                Trigger::Commits(commits) => missing >= commits,
                Trigger::Interval(period) if now.duration_since(watch.since) < period => watch.failures > 0,
                Trigger::Interval(_) => {
                    watch.since = now;
                    (missing > 0 || policy.always) && table.version > 0
                }
            };
            if !is_due || now < watch.not_before {
                continue;
            }
            if self.running.insert(id) {
                due.push(id);
            } else if matches!(trigger, Trigger::Interval(_)) {
                tracing::warn!(table = %table.name, "the next snapshot is due while the last one is still being made; it is left out");
            }
        }
        due
    }

    /// The snapshot of a table was made, or was not.
    pub fn ended(&mut self, table: TableId, made: bool, now: Instant) {
        self.running.remove(&table);
        if let Some(watch) = self.tables.get_mut(&table) {
            watch.failures = if made { 0 } else { watch.failures.saturating_add(1) };
            let pause = FIRST_PAUSE.saturating_mul(1 << watch.failures.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
            watch.not_before = if made { now } else { now + pause };
        }
    }

    /// Forgets everything but what is running: another leader made what this one did not see.
    pub fn clear(&mut self) {
        self.tables.clear();
    }
}

#[cfg(test)]
mod tests {
    use ancho_common::ids::{RequestId, WriteId};

    use super::*;
    use crate::state::{
        Command, Dataset, NewTable, Outcome, Request, StagedPart,
        tests::{id, new_table, register},
    };

    struct Cluster(ClusterState);

    impl Cluster {
        fn apply(&mut self, command: Command) -> Outcome {
            self.0.apply(Request { id: RequestId::new(), now_ms: 0, command }).outcome.unwrap()
        }

        fn create(&mut self, name: &str, options: &[(&str, &str)], dataset: Option<Dataset>) -> TableId {
            let params = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let table = NewTable { params, dataset, ..new_table(name, 1, &["a"]) };
            match self.apply(Command::CreateTable(Box::new(table))) {
                Outcome::Table { id, .. } => id,
                other => panic!("{other:?}"),
            }
        }

        fn commit(&mut self, table: TableId, refreshed: bool) {
            let known = &self.0.tables[&table];
            let partition = known.partitions.values().next().unwrap();
            let part = StagedPart {
                partition: partition.id,
                epoch: partition.epoch,
                executor: id("a"),
                incarnation: "1".into(),
                rows: 1,
                bytes: 1,
                columns: vec![],
                deleted: 0,
                base: None,
            };
            let refreshed = refreshed.then(|| known.dataset.clone().unwrap());
            self.apply(Command::CommitWrite {
                table,
                write_id: WriteId::new(),
                overwrite: false,
                parts: vec![part],
                refreshed,
                based_on: None,
                request: None,
                schema_version: 0,
            });
        }
    }

    #[test]
    fn each_trigger_has_its_moment() {
        let mut cluster = Cluster(ClusterState::default());
        cluster.apply(register("a", "1"));
        let on = ("snapshots", "enabled");
        let dataset = Dataset {
            definition: "d".into(),
            from: "f".into(),
            refresh_mode: "full".into(),
            refreshed_at_ms: None,
            served: None,
        };
        cluster.create("silent", &[], None);
        let by_time = cluster.create("by_time", &[on, ("snapshots_trigger_threshold", "10s")], None);
        let by_count = cluster.create(
            "by_count",
            &[on, ("snapshots_trigger", "stream_batches"), ("snapshots_trigger_threshold", "2")],
            None,
        );
        let by_refresh = cluster.create("by_refresh", &[on], Some(dataset));
        let always = cluster.create(
            "always",
            &[on, ("snapshots_trigger_threshold", "10s"), ("snapshots_creation_policy", "always")],
            None,
        );
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut due = Due::default();
        assert_eq!(due.sweep(&cluster.0, at(0)), []);
        assert_eq!(due.sweep(&cluster.0, at(10)), [], "no table has rows");
        for table in [by_time, by_count, always] {
            cluster.commit(table, false);
        }
        assert_eq!(due.sweep(&cluster.0, at(15)), [], "the period began anew");
        cluster.commit(by_refresh, true);
        assert_eq!(due.sweep(&cluster.0, at(15)), [by_refresh]);
        cluster.commit(by_count, false);
        assert_eq!(due.sweep(&cluster.0, at(16)), [by_count], "the refreshed one is still being made");
        assert_eq!(due.sweep(&cluster.0, at(20)), [by_time, always]);
        due.ended(by_time, false, at(21));
        assert_eq!(due.sweep(&cluster.0, at(25)), [], "it failed, and waits a little");
        assert_eq!(due.sweep(&cluster.0, at(26)), [by_time], "but not for a whole period");
        due.ended(by_time, true, at(27));
        due.ended(always, true, at(27));
        assert_eq!(
            due.sweep(&cluster.0, at(30)),
            [by_time, always],
            "nothing was noted, so something is still missing"
        );
        due.clear();
        due.ended(by_refresh, false, at(31));
        assert_eq!(due.sweep(&cluster.0, at(31)), [by_refresh]);
    }
}

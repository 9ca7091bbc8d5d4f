//! What must hold of every state, as named checks: tests call them after each command, a running scheduler reports
//! their number as a metric.
use std::collections::{BTreeMap, BTreeSet};

use super::{
    cluster::{ClusterState, Liveness, Partition, Table},
    moves,
    writes::{KEEP_COMMITS, merged_columns},
};

/// Every broken invariant, as `ST-n: what is wrong`; empty for a sound state.
///
/// | id | invariant |
/// |---|---|
/// | ST-1 | names of listed tables are unique, and a table is filed under its own id |
/// | ST-2 | partition keys are unique in a table and have a value per partition expression |
/// | ST-3 | owners are registered executors, each named once |
/// | ST-4 | epochs start at 1 |
/// | ST-5 | remembered commits grow in version, end at the partition's version and name each write once |
/// | ST-6 | a partition without commits is empty; NULLs are no more than rows |
/// | ST-7 | statistics have one entry per column, and the table's are those of its partitions |
/// | ST-8 | ids are unique and below the next id to be given out |
/// | ST-9 | executors say they can serve only what they own at the current epoch |
/// | ST-10 | no two executors that are up have the same URL |
/// | ST-11 | remembered answers are of this state's past |
/// | ST-12 | a table that is being loaded has no commit yet, and replaces no table but an older one |
/// | MV-1 … MV-4 | see [`moves::violations`] |
/// | SN-1, SN-2 | of snapshots: see [`Snapshots`](super::Snapshots) |
#[must_use]
pub fn violations(state: &ClusterState) -> Vec<String> {
    let mut found = Vec::new();
    let mut names = BTreeSet::new();
    let mut partition_ids = BTreeSet::new();
    for (id, table) in &state.tables {
        if *id != table.id || (!table.is_hidden() && !names.insert(&table.name)) {
            found.push(format!("ST-1: table {} ({id}) has another id or a name that is taken", table.name));
        }
        if id.0 == 0 || id.0 > state.next_table {
            found.push(format!("ST-8: table {} has id {id}, given out are 1 to {}", table.name, state.next_table));
        }
        if let Some(load) = &table.load
            && (table.version != 0 || load.replaces.is_some_and(|replaced| replaced >= *id))
        {
            found.push(format!(
                "ST-12: table {} ({id}) is being loaded and has commits or replaces a newer one",
                table.name
            ));
        }
        check_table(state, table, &mut found);
        for partition in table.partitions.values() {
            if !partition_ids.insert(partition.id) || partition.id.0 == 0 || partition.id.0 > state.next_partition {
                found.push(format!(
                    "ST-8: partition {} of table {} has id {}, given out are 1 to {}, each once",
                    partition.key, table.name, partition.id, state.next_partition
                ));
            }
        }
    }
    check_executors(state, &mut found);
    moves::violations(state, &mut found);
    state.snapshots.violations(&state.tables, &mut found);
    if state.answered.newest_revision() > state.revision {
        found.push(format!("ST-11: an answer is newer than revision {}", state.revision));
    }
    found
}

fn check_table(state: &ClusterState, table: &Table, found: &mut Vec<String>) {
    let mut keys = BTreeSet::new();
    for (id, partition) in &table.partitions {
        let place = format!("partition {} of table {}", partition.key, table.name);
        if *id != partition.id {
            found.push(format!("ST-8: {place} has id {} and is filed under {id}", partition.id));
        }
        if !keys.insert(&partition.key) || partition.key.0.len() != table.partition_spec.expressions.len() {
            found.push(format!("ST-2: the key of {place} occurs twice or has a wrong number of values"));
        }
        let owners: BTreeSet<_> = partition.owners.iter().collect();
        if owners.len() != partition.owners.len() || !owners.iter().all(|o| state.executors.contains_key(*o)) {
            found.push(format!("ST-3: {place} has an unknown or repeated owner"));
        }
        if partition.epoch == 0 {
            found.push(format!("ST-4: {place} is at epoch 0"));
        }
        check_partition(partition, &place, found);
        if partition.columns.len() != table.schema.0.fields().len() {
            found.push(format!("ST-7: {place} has statistics of {} columns", partition.columns.len()));
        }
    }
    if table.columns != merged_columns(table) {
        found.push(format!("ST-7: the statistics of table {} are not those of its partitions", table.name));
    }
}

fn check_partition(partition: &Partition, place: &str, found: &mut Vec<String>) {
    let commits = &partition.commits;
    let grows = commits.windows(2).all(|pair| pair[0].version + 1 == pair[1].version);
    let writes: BTreeSet<_> = commits.iter().map(|c| c.write_id).collect();
    let last = commits.last().map_or(0, |c| c.version);
    if !grows || writes.len() != commits.len() || last != partition.version || commits.len() > KEEP_COMMITS {
        found.push(format!("ST-5: the commits of {place} do not lead to version {}", partition.version));
    }
    if partition.version == 0 && (partition.rows, partition.bytes) != (0, 0) {
        found.push(format!("ST-6: {place} has {} rows without a commit", partition.rows));
    }
    if partition.columns.iter().any(|c| c.nulls.is_some_and(|nulls| nulls > partition.rows)) {
        found.push(format!("ST-6: {place} has more NULLs in a column than rows"));
    }
}

fn check_executors(state: &ClusterState, found: &mut Vec<String>) {
    let mut urls = BTreeMap::new();
    for (id, executor) in &state.executors {
        if *id != executor.id {
            found.push(format!("ST-8: executor {} is filed under {id}", executor.id));
        }
        if state.owned_of(id, &executor.loaded) != executor.loaded {
            found.push(format!("ST-9: executor {id} is taken to serve partitions it does not own at their epoch"));
        }
        if state.hindered_of(id, executor.hindered.clone()) != executor.hindered {
            found.push(format!("ST-9: executor {id} is said to be hindered with partitions it does not own"));
        }
        if executor.liveness == Liveness::Up
            && let Some(other) = urls.insert(&executor.url, id)
        {
            found.push(format!("ST-10: executors {other} and {id} are both up at {}", executor.url));
        }
    }
}

//! Placement on clusters that went through real commands.
mod moves;

use std::collections::BTreeMap;

use ancho_common::ids::{PartitionId, RequestId, WriteId};
use proptest::prelude::*;

use super::*;
use crate::state::{
    NewTable, Outcome, StagedPart, TableName,
    tests::{bucket, id, new_table, register},
    violations,
};

fn apply(state: &mut ClusterState, command: Command) -> Outcome {
    let mut request = Request { id: RequestId::new(), now_ms: 0, command };
    stamp(state, &mut request);
    let outcome = state.apply(request).outcome.unwrap();
    assert_eq!(violations(state), Vec::<String>::new());
    outcome
}

fn create(state: &mut ClusterState, table: NewTable) -> TableId {
    match apply(state, Command::CreateTable(Box::new(table))) {
        Outcome::Table { id, .. } => id,
        other => panic!("{other:?}"),
    }
}

fn cluster(executors: usize) -> ClusterState {
    let mut state = ClusterState::default();
    for number in 0..executors {
        apply(&mut state, register(&format!("e{number}"), "1"));
    }
    state
}

fn down(state: &mut ClusterState, executor: &str) {
    let command = Command::ExecutorDown { executor: id(executor), incarnation: "1".into() };
    apply(state, command);
}

fn place(state: &mut ClusterState) -> PlacementPlan {
    let plan = plan(state, &PlacementPolicy::default());
    apply(state, Command::Place { placements: plan.placements.clone() });
    plan
}

fn by_values(name: &str) -> NewTable {
    let spec = PartitionSpec::new(vec!["s".into()]);
    NewTable { partition_spec: spec, partitions: vec![], ..new_table(name, 1, &[]) }
}

fn whole(name: &str) -> NewTable {
    let all = NewPartition { key: PartitionKey::default(), owners: vec![] };
    NewTable { partition_spec: PartitionSpec::default(), partitions: vec![all], ..new_table(name, 1, &[]) }
}

fn owners(state: &ClusterState, table: TableId) -> Vec<String> {
    state.tables[&table].partitions.values().map(|p| p.owners.first().map_or("-".into(), |o| o.0.clone())).collect()
}

/// Partitions of a table per live executor: smallest and largest.
fn spread(state: &ClusterState, table: TableId) -> (usize, usize) {
    let owned = owners(state, table);
    let counts = || state.live_executors().map(|e| owned.iter().filter(|o| **o == e.id.0).count());
    (counts().min().unwrap_or(0), counts().max().unwrap_or(0))
}

/// Puts rows into every partition of a table that has a live owner.
fn fill(state: &mut ClusterState, table: TableId, bytes: u64) {
    let parts: Vec<StagedPart> = state.tables[&table]
        .partitions
        .values()
        .map(|p| StagedPart {
            partition: p.id,
            epoch: p.epoch,
            executor: p.owners[0].clone(),
            incarnation: "1".into(),
            rows: 1,
            bytes,
            columns: vec![],
            deleted: 0,
            base: None,
        })
        .collect();
    let write = Command::CommitWrite {
        table,
        write_id: WriteId::new(),
        overwrite: false,
        parts,
        refreshed: None,
        based_on: None,
        request: None,
        schema_version: 0,
    };
    apply(state, write);
}

#[test]
fn sixteen_buckets_over_two_executors_are_eight_each_and_tables_line_up() {
    let mut state = cluster(2);
    create(&mut state, whole("small"));
    let orders = create(&mut state, new_table("orders", 16, &[]));
    fill(&mut state, orders, 100 << 20);
    let lines = create(&mut state, new_table("lines", 16, &[]));
    assert_eq!(spread(&state, orders), (8, 8));
    assert_eq!(owners(&state, orders), owners(&state, lines));
    // A new executor does not tear apart what belongs together, but takes part in other tables.
    apply(&mut state, register("e2", "1"));
    let third = create(&mut state, new_table("third", 16, &[]));
    assert_eq!(owners(&state, third), owners(&state, orders));
    let twelve = create(&mut state, new_table("twelve", 12, &[]));
    assert_eq!(spread(&state, twelve), (4, 4));
}

#[test]
fn whole_tables_go_where_least_is() {
    let mut state = cluster(3);
    let tables: Vec<TableId> = (0..6).map(|n| create(&mut state, whole(&format!("t{n}")))).collect();
    let all: Vec<String> = tables.iter().flat_map(|t| owners(&state, *t)).collect();
    assert_eq!(all, ["e0", "e1", "e2", "e0", "e1", "e2"]);
    fill(&mut state, tables[0], 1 << 30);
    fill(&mut state, tables[1], 1 << 20);
    let next: Vec<String> = (6..8)
        .flat_map(|n| {
            let table = create(&mut state, whole(&format!("t{n}")));
            owners(&state, table)
        })
        .collect();
    assert_eq!(next, ["e1", "e2"]);
}

#[test]
fn given_owners_and_existing_partitions_stay() {
    let mut state = cluster(2);
    let table = create(&mut state, new_table("t", 4, &["e1"]));
    assert_eq!(owners(&state, table), ["e1"; 4]);
    let values = create(&mut state, by_values("v"));
    let ensure = |keys: &[&str]| Command::EnsurePartitions {
        table: values,
        partitions: keys
            .iter()
            .map(|k| NewPartition { key: PartitionKey(vec![Some((*k).into())]), owners: vec![] })
            .collect(),
    };
    // e1 holds four partitions of the other table, yet this one's are spread evenly first.
    apply(&mut state, ensure(&["a", "b"]));
    apply(&mut state, ensure(&["b", "c"]));
    apply(&mut state, ensure(&["d"]));
    assert_eq!(owners(&state, values), ["e0", "e1", "e0", "e1"]);
}

#[test]
fn only_partitions_that_never_held_rows_move_away_from_a_lost_executor() {
    let mut state = cluster(4);
    let full = create(&mut state, new_table("full", 8, &[]));
    fill(&mut state, full, 1 << 20);
    let first = create(&mut state, new_table("first", 16, &[]));
    let second = create(&mut state, new_table("second", 16, &[]));
    let before = owners(&state, full);
    down(&mut state, "e1");
    down(&mut state, "e3");
    let plan = place(&mut state);
    assert_eq!(plan.to_string(), "place 16 partitions: 8 on e0, 8 on e2");
    assert_eq!(owners(&state, full), before);
    assert_eq!(spread(&state, first), (8, 8));
    assert_eq!(owners(&state, first), owners(&state, second));
    assert_eq!(place(&mut state).to_string(), "nothing to place");
}

#[test]
fn tables_made_before_any_executor_are_placed_once_some_register() {
    let mut state = cluster(0);
    let one = create(&mut state, new_table("one", 5, &[]));
    let two = create(&mut state, new_table("two", 5, &[]));
    assert_eq!(owners(&state, one), ["-"; 5]);
    assert!(plan(&state, &PlacementPolicy::default()).is_empty());
    for name in ["e0", "e1"] {
        apply(&mut state, register(name, "1"));
    }
    let capped = plan(&state, &PlacementPolicy { max_placements: 3, ..PlacementPolicy::default() });
    assert_eq!(capped.placements.len(), 3);
    place(&mut state);
    assert_eq!(owners(&state, one), ["e0", "e1", "e0", "e1", "e0"]);
    assert_eq!(owners(&state, one), owners(&state, two));
    assert!(state.tables[&one].partitions.values().all(|p| p.epoch == 2));
}

#[test]
fn stamping_reads_nothing_but_state_and_request() {
    let state = cluster(3);
    let request =
        Request { id: RequestId::new(), now_ms: 0, command: Command::CreateTable(Box::new(new_table("t", 7, &[]))) };
    let (mut one, mut two) = (request.clone(), request);
    stamp(&state, &mut one);
    stamp(&state, &mut two);
    assert_eq!(one, two);
    stamp(&state, &mut two);
    assert_eq!(one, two);
    let Command::CreateTable(new) = one.command else { panic!() };
    assert_eq!(new.partitions[1], NewPartition { key: bucket(1), owners: vec![id("e1")] });
}

#[derive(Debug, Clone)]
enum Change {
    Table { buckets: u32 },
    Values { count: usize },
    Whole,
    Fill { table: usize },
    Down { executor: usize },
    Up { executor: usize },
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => (1..20u32).prop_map(|buckets| Change::Table { buckets }),
        2 => (1..20usize).prop_map(|count| Change::Values { count }),
        2 => Just(Change::Whole),
        2 => (0..8usize).prop_map(|table| Change::Fill { table }),
        2 => (0..6usize).prop_map(|executor| Change::Down { executor }),
        1 => (0..6usize).prop_map(|executor| Change::Up { executor }),
    ]
}

fn perform(state: &mut ClusterState, number: usize, change: &Change) {
    let name = format!("t{number}");
    match change {
        Change::Table { buckets } => {
            create(state, new_table(&name, *buckets, &[]));
        }
        Change::Whole => {
            create(state, whole(&name));
        }
        Change::Values { count } => {
            let table = create(state, by_values(&name));
            let partitions = (0..*count)
                .map(|k| NewPartition { key: PartitionKey(vec![Some(format!("v{k}"))]), owners: vec![] })
                .collect();
            apply(state, Command::EnsurePartitions { table, partitions });
        }
        Change::Fill { table } => {
            let placed = |t: &Table| t.partitions.values().all(|p| p.owners.iter().any(|o| is_live(state, o)));
            if let Some(id) = state.tables.values().filter(|t| placed(t)).nth(*table).map(|t| t.id) {
                fill(state, id, 3 << 20);
            }
        }
        Change::Down { executor } => down(state, &format!("e{executor}")),
        Change::Up { executor } => {
            apply(state, register(&format!("e{executor}"), "1"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn plans_are_idempotent_deterministic_and_leave_no_empty_partition_without_owner(
        executors in 1..6usize,
        changes in prop::collection::vec(change(), 1..25),
    ) {
        let mut state = cluster(executors);
        for (number, change) in changes.iter().enumerate() {
            perform(&mut state, number, change);
            let before = state.clone();
            let first = plan(&state, &PlacementPolicy::default());
            prop_assert_eq!(&first, &plan(&state, &PlacementPolicy::default()));
            apply(&mut state, Command::Place { placements: first.placements.clone() });
            prop_assert!(plan(&state, &PlacementPolicy::default()).is_empty(), "planning twice changed something");
            let moved: BTreeSet<PartitionId> = first.placements.iter().map(|p| p.partition).collect();
            for (table, partition) in state.tables.values().flat_map(|t| t.partitions.values().map(move |p| (t, p))) {
                let former = &before.tables[&table.id].partitions[&partition.id];
                if moved.contains(&partition.id) {
                    prop_assert!(former.version == 0 && !former.owners.iter().any(|o| is_live(&before, o)));
                } else {
                    prop_assert_eq!(&former.owners, &partition.owners);
                }
                let served = partition.owners.iter().any(|o| is_live(&state, o));
                prop_assert!(served || partition.version > 0 || state.live_executors().count() == 0);
            }
        }
    }

    #[test]
    fn new_tables_are_spread_evenly_and_line_up(
        executors in 1..7usize,
        tables in prop::collection::vec((any::<bool>(), 1..30u32), 1..12),
    ) {
        let mut state = cluster(executors);
        let mut layouts: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (number, (buckets, count)) in tables.iter().enumerate() {
            let change = if *buckets { Change::Table { buckets: *count } } else { Change::Values { count: *count as usize } };
            perform(&mut state, number, &change);
            let table = state.table(&TableName::public(format!("t{number}"))).unwrap().id;
            let (least, most) = spread(&state, table);
            prop_assert!(most - least <= 1, "{least} to {most} of {count}");
            if *buckets {
                let layout = owners(&state, table);
                prop_assert_eq!(layouts.entry(*count).or_insert_with(|| layout.clone()), &layout);
            }
        }
    }
}

fn commit(state: &mut ClusterState, table: TableId, number: usize) {
    let partition = state.tables[&table].partitions.values().nth(number).unwrap();
    let part = StagedPart {
        partition: partition.id,
        epoch: partition.epoch,
        executor: partition.owners[0].clone(),
        incarnation: "1".into(),
        rows: 1,
        bytes: 1,
        columns: vec![],
        deleted: 0,
        base: None,
    };
    let command = Command::CommitWrite {
        table,
        write_id: WriteId::new(),
        overwrite: false,
        parts: vec![part],
        refreshed: None,
        based_on: None,
        request: None,
        schema_version: 0,
    };
    apply(state, command);
}

#[test]
fn partitions_of_an_executor_that_stays_away_go_where_a_snapshot_has_all_their_rows() {
    let mut state = cluster(2);
    let table = create(&mut state, new_table("t", 6, &[]));
    for number in 0..6 {
        commit(&mut state, table, number);
    }
    publish(&mut state, table);
    // Bucket 2 is written to after the snapshot.
    commit(&mut state, table, 2);
    let before = owners(&state, table);
    assert_eq!(before, ["e0", "e1", "e0", "e1", "e0", "e1"]);
    down(&mut state, "e0");
    assert!(plan(&state, &PlacementPolicy::default()).is_empty(), "it may come back");
    let policy = PlacementPolicy { given_up: BTreeSet::from([id("e0")]), ..PlacementPolicy::default() };
    let found = plan(&state, &policy);
    apply(&mut state, Command::Place { placements: found.placements });
    assert_eq!(owners(&state, table), ["e1", "e1", "e0", "e1", "e1", "e1"]);
    assert!(plan(&state, &policy).is_empty());
    assert!(state.tables[&table].partitions.values().all(|p| p.version > 0), "no row was given up");
}

/// Notes a snapshot of all that is committed.
fn publish(state: &mut ClusterState, table: TableId) {
    use crate::state::{PublishedSnapshot, SnapshotPart};
    use ancho_common::snapshot::{SnapshotLocation, StoredObject};
    let taken = apply(state, Command::TakeSnapshotLease { table, holder: "x".into(), length_ms: 1 });
    let Outcome::Lease { epoch } = taken else { panic!("{taken:?}") };
    let manifest = StoredObject { key: "m".into(), bytes: 1, sha256: "00".into() };
    let known = &state.tables[&table];
    let parts = known
        .partitions
        .values()
        .filter(|p| p.version > 0)
        .map(|p| (p.id, SnapshotPart { version: p.version, manifest: manifest.clone() }));
    let snapshot = PublishedSnapshot {
        id: uuid::Uuid::new_v4(),
        location: SnapshotLocation::parse("file:///s", &BTreeMap::new()).unwrap(),
        folder: "f".into(),
        set: manifest.clone(),
        epoch,
        table_version: known.version,
        rows: known.rows(),
        bytes: known.bytes(),
        uploaded_bytes: 0,
        published_ms: 0,
        partitions: parts.collect(),
    };
    apply(state, Command::RecordSnapshot { table, snapshot: Box::new(snapshot) });
}

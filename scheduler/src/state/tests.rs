//! Commands one by one, then random sequences of them against the invariants.
mod alter;
mod history;
mod loads;
mod mirrors;
mod moves;
mod properties;
mod snapshots;
mod transactions;

use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    error::ErrorKind,
    fingerprint::Fingerprint,
    ids::{ExecutorId, PartitionId, RequestId, TableId, WriteId},
    partition::{PartitionKey, PartitionSpec},
};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};

use super::*;

pub(crate) fn schema() -> Schema {
    Schema(Arc::new(ArrowSchema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("s", DataType::Utf8, true),
    ])))
}

pub(crate) fn id(name: &str) -> ExecutorId {
    ExecutorId(name.into())
}

pub(crate) fn register(name: &str, incarnation: &str) -> Command {
    Command::RegisterExecutor {
        executor: id(name),
        incarnation: incarnation.into(),
        url: format!("http://{name}"),
        version: "0.1.0".into(),
        plan_key: "p".into(),
        streams: 4,
    }
}

pub(crate) fn bucket(number: u32) -> PartitionKey {
    PartitionKey(vec![Some(number.to_string())])
}

/// A table of `buckets` buckets, the owners taken in turn.
pub(crate) fn new_table(name: &str, buckets: u32, owners: &[&str]) -> NewTable {
    let partitions = (0..buckets)
        .map(|b| NewPartition {
            key: bucket(b),
            owners: owners.get(b as usize % owners.len().max(1)).map(|o| id(o)).into_iter().collect(),
        })
        .collect();
    NewTable {
        name: TableName::public(name),
        if_not_exists: false,
        or_replace: false,
        schema: schema(),
        partition_spec: PartitionSpec::new(vec![format!("bucket({buckets}, k)")]),
        primary_key: vec![],
        params: BTreeMap::from([("cayenne_compression".into(), "on".into())]),
        dataset: None,
        loading: false,
        partitions,
    }
}

fn dataset(from: &str) -> Dataset {
    Dataset {
        definition: from.into(),
        from: from.into(),
        refresh_mode: "full".into(),
        refreshed_at_ms: None,
        served: None,
    }
}

/// A state to which commands are applied as a scheduler would, with the invariants checked after each.
#[derive(Default)]
struct Cluster(ClusterState);

impl Cluster {
    fn with_executors(names: &[&str]) -> Self {
        let mut cluster = Self::default();
        for name in names {
            cluster.ok(register(name, "1"));
        }
        cluster
    }

    fn apply(&mut self, command: Command) -> Response {
        let response = self.0.apply(Request { id: RequestId::new(), now_ms: 77, command });
        assert_eq!(violations(&self.0), Vec::<String>::new());
        response
    }

    fn ok(&mut self, command: Command) -> Outcome {
        self.apply(command).outcome.unwrap()
    }

    /// The kind of the refusal, having checked that it changed nothing.
    fn refused(&mut self, command: Command) -> Refusal {
        let before = self.0.clone();
        let refusal = self.apply(command).outcome.unwrap_err();
        let mut after = self.0.clone();
        after.revision = before.revision;
        after.answered = before.answered.clone();
        assert_eq!(after, before);
        refusal
    }

    fn create(&mut self, table: NewTable) -> TableId {
        match self.ok(Command::CreateTable(Box::new(table))) {
            Outcome::Table { id, created: true } => id,
            other => panic!("{other:?}"),
        }
    }

    fn partition(&self, table: TableId, number: usize) -> &Partition {
        self.0.tables[&table].partitions.values().nth(number).unwrap()
    }

    fn part(&self, table: TableId, number: usize, rows: u64) -> StagedPart {
        let partition = self.partition(table, number);
        let executor = &self.0.executors[&partition.owners[0]];
        let known =
            |min: &str, max: &str| ColumnSummary { nulls: Some(0), min: Some(min.into()), max: Some(max.into()) };
        StagedPart {
            partition: partition.id,
            epoch: partition.epoch,
            executor: executor.id.clone(),
            incarnation: executor.incarnation.clone(),
            rows,
            bytes: rows * 10,
            columns: if rows == 0 {
                vec![]
            } else {
                vec![known(&number.to_string(), &rows.to_string()), known("a", "b")]
            },
            deleted: 0,
            base: None,
        }
    }
}

fn write(table: TableId, write_id: WriteId, parts: Vec<StagedPart>) -> Command {
    Command::CommitWrite {
        table,
        write_id,
        overwrite: false,
        parts,
        refreshed: None,
        based_on: None,
        request: None,
        schema_version: 0,
    }
}

fn overwrite(table: TableId, parts: Vec<StagedPart>, refreshed: Option<Dataset>) -> Command {
    Command::CommitWrite {
        table,
        write_id: WriteId::new(),
        overwrite: true,
        parts,
        refreshed,
        based_on: None,
        request: None,
        schema_version: 0,
    }
}

#[test]
fn a_request_is_applied_once_whatever_it_was_answered() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let create =
        Request { id: RequestId::new(), now_ms: 0, command: Command::CreateTable(Box::new(new_table("t", 2, &["a"]))) };
    let first = cluster.0.apply(create.clone());
    let state = cluster.0.clone();
    assert_eq!(cluster.0.apply(create), first);
    let missing = Request {
        id: RequestId::new(),
        now_ms: 0,
        command: Command::DropTable { name: TableName::public("u"), if_exists: false },
    };
    assert_eq!(cluster.0, state);
    let refused = cluster.0.apply(missing.clone());
    cluster.create(new_table("u", 1, &["a"]));
    assert_eq!(cluster.0.apply(missing), refused);
    assert_eq!(refused.outcome.unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_cluster_keeps_its_first_identity() {
    let mut cluster = Cluster::default();
    assert_eq!(cluster.refused(Command::InitCluster { cluster_id: String::new() }).kind, ErrorKind::Invalid);
    cluster.ok(Command::InitCluster { cluster_id: "one".into() });
    cluster.ok(Command::InitCluster { cluster_id: "two".into() });
    assert_eq!(cluster.0.cluster_id, "one");
}

#[test]
fn a_new_start_of_an_executor_has_loaded_nothing() {
    let mut cluster = Cluster::with_executors(&["a", "b"]);
    let table = cluster.create(new_table("t", 2, &["a", "b"]));
    let all: BTreeMap<PartitionId, u64> =
        cluster.0.tables[&table].partitions.keys().map(|p| (*p, 1)).chain([(PartitionId(99), 1)]).collect();
    let report = |incarnation: &str, loaded: &BTreeMap<PartitionId, u64>| Command::ReportLoaded {
        executor: id("a"),
        incarnation: incarnation.into(),
        loaded: loaded.clone(),
        hindered: BTreeMap::new(),
    };
    cluster.ok(report("0", &all));
    assert!(cluster.0.executors[&id("a")].loaded.is_empty(), "a report of another start is ignored");
    cluster.ok(report("1", &all));
    let first = cluster.partition(table, 0).clone();
    assert_eq!(cluster.0.executors[&id("a")].loaded, BTreeMap::from([(first.id, 1)]), "only what it owns");
    assert_eq!(cluster.0.serving_owner(&first).unwrap().id, id("a"));

    cluster.ok(Command::ExecutorDown { executor: id("a"), incarnation: "0".into() });
    assert!(cluster.0.serving_owner(&first).is_some(), "the end of another start is ignored");
    cluster.ok(Command::ExecutorDown { executor: id("a"), incarnation: "1".into() });
    assert!(cluster.0.serving_owner(&first).is_none());
    cluster.ok(register("a", "1"));
    assert!(cluster.0.serving_owner(&first).is_some(), "a re-opened session keeps the report");
    cluster.ok(register("a", "2"));
    assert!(cluster.0.serving_owner(&first).is_none(), "a new start reports again");
}

#[test]
fn an_address_belongs_to_the_executor_that_took_it_last() {
    let mut cluster = Cluster::with_executors(&["a"]);
    cluster.ok(Command::RegisterExecutor {
        executor: id("b"),
        incarnation: "1".into(),
        url: "http://a".into(),
        version: String::new(),
        plan_key: String::new(),
        streams: 1,
    });
    assert_eq!(cluster.0.executors[&id("a")].liveness, Liveness::Down);
    assert_eq!(cluster.0.live_executors().map(|e| e.id.clone()).collect::<Vec<_>>(), [id("b")]);
}

#[test]
fn an_executor_is_removed_only_when_down_and_without_partitions() {
    let mut cluster = Cluster::with_executors(&["a", "b"]);
    cluster.create(new_table("t", 2, &["a"]));
    let remove = |name: &str| Command::RemoveExecutor { executor: id(name) };
    assert_eq!(cluster.refused(remove("c")).kind, ErrorKind::NotFound);
    assert!(cluster.refused(remove("b")).message.contains("is up"));
    for name in ["a", "b"] {
        cluster.ok(Command::ExecutorDown { executor: id(name), incarnation: "1".into() });
    }
    let refusal = cluster.refused(remove("a"));
    assert!(refusal.message.contains("partition 0 of table t and 1 more"), "{}", refusal.message);
    cluster.ok(remove("b"));
    assert!(!cluster.0.executors.contains_key(&id("b")));
}

#[test]
fn a_bad_declaration_is_refused_with_the_reason() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    let columns = |fields: Vec<Field>| Schema(Arc::new(ArrowSchema::new(fields)));
    let base = || new_table("t", 2, &["a"]);
    let cases: Vec<(NewTable, &str)> = vec![
        (NewTable { name: TableName::public(""), ..base() }, "table name is empty"),
        (NewTable { name: TableName::public("ä".repeat(101)), ..base() }, "202 bytes"),
        (NewTable { name: TableName::public("a\nb"), ..base() }, "control character"),
        (NewTable { name: TableName { schema: "system".into(), table: "t".into() }, ..base() }, "reserved"),
        (NewTable { schema: columns(vec![]), ..base() }, "no column"),
        (NewTable { schema: columns(vec![field("k"), field("k")]), ..base() }, "declared twice"),
        (NewTable { schema: columns(vec![field("")]), ..base() }, "empty name"),
        (NewTable { primary_key: vec!["x".into()], ..base() }, "\"x\" does not exist"),
        (NewTable { primary_key: vec!["k".into(), "k".into()], ..base() }, "twice"),
        (NewTable { if_not_exists: true, or_replace: true, ..base() }, "exclude"),
        (NewTable { partition_spec: PartitionSpec::default(), ..base() }, "1 values"),
        (NewTable { partitions: [base().partitions, base().partitions].concat(), ..base() }, "given twice"),
    ];
    for (table, reason) in cases {
        let refusal = cluster.refused(Command::CreateTable(Box::new(table)));
        assert_eq!(refusal.kind, ErrorKind::Invalid);
        assert!(refusal.message.contains(reason), "{} lacks {reason}", refusal.message);
    }
    cluster.create(NewTable { schema: columns(vec![field("k"), field("K")]), ..base() });
    cluster.create(NewTable { name: TableName::public("ä".repeat(100)), ..base() });
}

#[test]
fn validation_ties_the_primary_key_to_the_partition_columns() {
    let table = |key: &[&str]| NewTable {
        primary_key: key.iter().map(|k| (*k).to_owned()).collect(),
        ..new_table("t", 2, &[])
    };
    assert!(table(&["s"]).validate().unwrap_err().message.contains("must contain column \"k\""));
    for key in [&[][..], &["k"], &["s", "k"]] {
        assert_eq!(table(key).validate().unwrap().enumerated_keys().unwrap().len(), 2);
    }
    let bad = NewTable { partition_spec: PartitionSpec::new(vec!["nope".into()]), partitions: vec![], ..table(&[]) };
    assert_eq!(bad.validate().unwrap_err().kind, ErrorKind::Invalid);
}

#[test]
fn an_existing_name_is_refused_kept_or_replaced() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let first = cluster.create(new_table("t", 2, &["a"]));
    let create = |table: NewTable| Command::CreateTable(Box::new(table));
    assert_eq!(cluster.refused(create(new_table("t", 2, &["a"]))).kind, ErrorKind::AlreadyExists);
    let kept = cluster.ok(create(NewTable { if_not_exists: true, ..new_table("t", 3, &["a"]) }));
    assert_eq!(kept, Outcome::Table { id: first, created: false });
    let loaded = BTreeMap::from([(cluster.partition(first, 0).id, 1)]);
    cluster.ok(Command::ReportLoaded { executor: id("a"), incarnation: "1".into(), loaded, hindered: BTreeMap::new() });
    let second = cluster.create(NewTable { or_replace: true, ..new_table("t", 3, &["a"]) });
    assert!(second > first && cluster.0.tables.len() == 1);
    assert!(cluster.0.executors[&id("a")].loaded.is_empty());
    assert!(cluster.partition(second, 0).id > PartitionId(2), "partition ids are not reused");

    let drop = |if_exists| Command::DropTable { name: TableName::public("t"), if_exists };
    assert_eq!(cluster.ok(drop(false)), Outcome::Dropped { existed: true });
    assert_eq!(cluster.ok(drop(true)), Outcome::Dropped { existed: false });
    assert_eq!(cluster.refused(drop(false)).kind, ErrorKind::NotFound);
    assert!(cluster.create(new_table("t", 1, &["a"])) > second);
}

#[test]
fn new_keys_get_partitions_and_known_keys_keep_theirs() {
    let mut cluster = Cluster::with_executors(&["a", "b"]);
    let table = cluster.create(new_table("t", 1, &["a"]));
    let ensure = |table: TableId, keys: &[PartitionKey]| Command::EnsurePartitions {
        table,
        partitions: keys
            .iter()
            .map(|key| NewPartition { key: key.clone(), owners: vec![id("b"), id("gone")] })
            .collect(),
    };
    assert_eq!(cluster.refused(ensure(TableId(9), &[bucket(1)])).kind, ErrorKind::NotFound);
    assert_eq!(cluster.refused(ensure(table, &[PartitionKey::default()])).kind, ErrorKind::Invalid);
    let null = PartitionKey(vec![None]);
    let empty = PartitionKey(vec![Some(String::new())]);
    let keys = [null.clone(), bucket(0), empty, null];
    let Outcome::Partitions { partitions } = cluster.ok(ensure(table, &keys)) else { panic!() };
    assert_eq!(partitions.iter().map(|p| p.partition.0).collect::<Vec<_>>(), [2, 1, 3, 2]);
    assert_eq!(partitions[1].owners, [id("a")]);
    assert_eq!((partitions[0].epoch, &partitions[0].owners[..]), (1, &[id("b")][..]), "unknown owners are left out");
    assert_eq!(cluster.ok(ensure(table, &keys)), Outcome::Partitions { partitions });
}

#[test]
fn owners_change_only_on_the_epoch_of_the_decision() {
    let mut cluster = Cluster::with_executors(&["a", "b"]);
    let table = cluster.create(new_table("t", 2, &["a"]));
    let (first, second) = (cluster.partition(table, 0).id, cluster.partition(table, 1).id);
    let loaded = BTreeMap::from([(first, 1), (second, 1)]);
    cluster.ok(Command::ReportLoaded { executor: id("a"), incarnation: "1".into(), loaded, hindered: BTreeMap::new() });
    let place = |partition, epoch, owner: &str| Placement { partition, epoch, owners: vec![id(owner)] };
    cluster.ok(Command::Place {
        placements: vec![
            place(first, 2, "b"),
            place(second, 1, "b"),
            place(first, 1, "gone"),
            place(PartitionId(99), 1, "b"),
        ],
    });
    assert_eq!((cluster.partition(table, 0).epoch, &cluster.partition(table, 0).owners[..]), (1, &[id("a")][..]));
    assert_eq!((cluster.partition(table, 1).epoch, &cluster.partition(table, 1).owners[..]), (2, &[id("b")][..]));
    assert_eq!(cluster.0.executors[&id("a")].loaded, BTreeMap::from([(first, 1)]));
}

#[test]
fn a_commit_changes_all_its_partitions_or_none() {
    let mut cluster = Cluster::with_executors(&["a", "b"]);
    let table = cluster.create(new_table("t", 2, &["a", "b"]));
    let other = cluster.create(new_table("u", 2, &["a"]));
    let parts = |cluster: &Cluster| vec![cluster.part(table, 0, 3), cluster.part(table, 1, 4)];
    let mut check = |change: &dyn Fn(&mut StagedPart), kind: ErrorKind| {
        let mut wrong = parts(&cluster);
        change(&mut wrong[1]);
        let refusal = cluster.refused(write(table, WriteId::new(), wrong));
        assert_eq!(refusal.kind, kind, "{}", refusal.message);
    };
    check(&|p| p.epoch = 2, ErrorKind::StaleRoute);
    check(&|p| p.executor = id("a"), ErrorKind::StaleRoute);
    check(&|p| p.incarnation = "0".into(), ErrorKind::Conflict);
    check(&|p| p.partition = PartitionId(3), ErrorKind::StaleRoute);
    check(&|p| p.partition = PartitionId(1), ErrorKind::StaleRoute);
    check(&|p| p.columns.truncate(1), ErrorKind::Invalid);
    check(&|p| p.columns[0].nulls = Some(5), ErrorKind::Invalid);
    let twice = vec![cluster.part(table, 0, 3), cluster.part(table, 0, 3)];
    assert_eq!(cluster.refused(write(table, WriteId::new(), twice)).kind, ErrorKind::Invalid);
    assert_eq!(cluster.refused(write(TableId(9), WriteId::new(), vec![])).kind, ErrorKind::NotFound);

    let write_id = WriteId::new();
    let committed = cluster.ok(write(table, write_id, parts(&cluster)));
    let versions = vec![
        CommittedPart { partition: PartitionId(1), version: 1 },
        CommittedPart { partition: PartitionId(2), version: 1 },
    ];
    assert_eq!(committed, Outcome::Committed { parts: versions });
    let state = &cluster.0.tables[&table];
    assert_eq!((state.rows(), state.bytes(), state.version), (7, 70, 1));
    let expected = ColumnSummary { nulls: Some(0), min: Some("0".into()), max: Some("4".into()) };
    assert_eq!(state.columns[0], expected);
    assert_eq!(cluster.0.tables[&other].rows(), 0);

    let again = cluster.part(table, 0, 5);
    cluster.ok(write(table, WriteId::new(), vec![again]));
    assert_eq!(cluster.ok(write(table, write_id, parts(&cluster))), committed, "a write is committed once");
    assert_eq!(cluster.0.tables[&table].rows(), 12);
    assert_eq!(cluster.partition(table, 0).version, 2);
}

#[test]
fn deletes_are_committed_on_the_version_that_they_were_checked_against() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 2, &["a"]));
    let first = vec![cluster.part(table, 0, 5), cluster.part(table, 1, 2)];
    cluster.ok(write(table, WriteId::new(), first));
    let delete = |cluster: &Cluster, deleted: u64, base: Option<u64>| StagedPart {
        deleted,
        base,
        columns: vec![],
        ..cluster.part(table, 0, 0)
    };
    for (deleted, base) in [(1, None), (6, Some(1))] {
        let wrong = delete(&cluster, deleted, base);
        assert_eq!(cluster.refused(write(table, WriteId::new(), vec![wrong])).kind, ErrorKind::Invalid);
    }
    let part = delete(&cluster, 2, Some(1));
    cluster.ok(write(table, WriteId::new(), vec![part.clone(), cluster.part(table, 1, 1)]));
    assert_eq!((cluster.partition(table, 0).rows, cluster.0.tables[&table].rows()), (3, 6));
    // The same base again: one of two writes comes first, the other one changes nothing, in no partition.
    let late = vec![part, cluster.part(table, 1, 9)];
    let outdated = vec![CommittedPart { partition: PartitionId(1), version: 2 }];
    assert_eq!(cluster.ok(write(table, WriteId::new(), late)), Outcome::Outdated { parts: outdated });
    assert_eq!((cluster.0.tables[&table].rows(), cluster.0.tables[&table].version), (6, 2));
    // Rows that are only added build on no version.
    let more = cluster.part(table, 0, 1);
    cluster.ok(write(table, WriteId::new(), vec![more]));
    let all = delete(&cluster, 4, Some(3));
    cluster.ok(write(table, WriteId::new(), vec![all]));
    let empty = ColumnSummary { nulls: Some(0), min: None, max: None };
    assert_eq!((cluster.partition(table, 0).rows, &cluster.partition(table, 0).columns[0]), (0, &empty));
}

#[test]
fn a_request_that_comes_again_is_not_applied_again() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 1, &["a"]));
    let asked = |cluster: &Cluster, id: &str, base: Option<u64>| Command::CommitWrite {
        table,
        write_id: WriteId::new(),
        overwrite: false,
        parts: vec![StagedPart { base, ..cluster.part(table, 0, 3) }],
        refreshed: None,
        based_on: None,
        request: Some(WriteRequest { id: id.into(), rows: 3, statement: None }),
        schema_version: 0,
    };
    let outdated = asked(&cluster, "x", Some(7));
    assert!(matches!(cluster.ok(outdated), Outcome::Outdated { .. }));
    let first = asked(&cluster, "x", None);
    assert!(matches!(cluster.ok(first.clone()), Outcome::Committed { .. }), "what changed nothing is not remembered");
    assert!(matches!(cluster.ok(first), Outcome::Committed { .. }), "the same write is answered as before");
    let again = asked(&cluster, "x", None);
    assert_eq!(cluster.ok(again), Outcome::Repeated { rows: 3 });
    let other = asked(&cluster, "y", None);
    cluster.ok(other);
    let (rows, written) = (cluster.0.tables[&table].rows(), cluster.0.written.find("y").unwrap());
    assert_eq!((rows, written.rows, written.version, written.at_ms), (6, 3, 2, 77));
    cluster.ok(Command::DropTable { name: TableName::public("t"), if_exists: false });
    let late = asked_of_dropped(table);
    assert_eq!(cluster.ok(late), Outcome::Repeated { rows: 3 });
}

fn asked_of_dropped(table: TableId) -> Command {
    Command::CommitWrite {
        table,
        write_id: WriteId::new(),
        overwrite: false,
        parts: vec![],
        refreshed: None,
        based_on: None,
        request: Some(WriteRequest { id: "x".into(), rows: 3, statement: None }),
        schema_version: 0,
    }
}

#[test]
fn what_a_named_request_did_is_remembered_also_if_it_was_nothing() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 1, &["a"]));
    let request = |id: &str, statement: &str, rows| WriteRequest {
        id: id.into(),
        rows,
        statement: Fingerprint::of(statement, None).ok(),
    };
    let write = |cluster: &Cluster, request: WriteRequest, rows: u64| Command::CommitWrite {
        table,
        write_id: WriteId::new(),
        overwrite: false,
        parts: (rows > 0).then(|| cluster.part(table, 0, rows)).into_iter().collect(),
        refreshed: None,
        based_on: None,
        request: Some(request),
        schema_version: 0,
    };
    let nothing = write(&cluster, request("x", "DELETE FROM t WHERE k = 1", 0), 0);
    assert_eq!(cluster.ok(nothing), Outcome::Committed { parts: vec![] });
    assert_eq!(cluster.0.tables[&table].version, 0, "no row came or went");
    let later = write(&cluster, request("x", "DELETE FROM t WHERE k = 1", 1), 1);
    assert_eq!(cluster.ok(later), Outcome::Repeated { rows: 0 });
    // The id of one statement is no other one's, whatever it is about.
    let other = write(&cluster, request("x", "DELETE FROM t", 1), 1);
    let drop = |id: &str, if_exists| Command::Named {
        request: request(id, "DROP TABLE t", 0),
        command: Box::new(Command::DropTable { name: TableName::public("t"), if_exists }),
    };
    for command in [other, drop("x", false)] {
        let refusal = cluster.refused(command);
        assert!(refusal.kind == ErrorKind::Invalid && refusal.message.contains("id x"), "{}", refusal.message);
    }
    assert_eq!(cluster.0.tables[&table].rows(), 0);
    assert_eq!(cluster.ok(drop("d", false)), Outcome::Dropped { existed: true });
    let create = |id: &str| Command::Named {
        request: request(id, "CREATE TABLE t", 0),
        command: Box::new(Command::CreateTable(Box::new(new_table("t", 1, &["a"])))),
    };
    assert!(matches!(cluster.ok(create("c")), Outcome::Table { created: true, .. }));
    for repeated in [drop("d", false), create("c")] {
        assert_eq!(cluster.ok(repeated), Outcome::Repeated { rows: 0 });
    }
    assert!(cluster.0.table(&TableName::public("t")).is_some(), "the table that came later stays");
    // What was refused can be tried again under its id.
    assert_eq!(cluster.refused(create("again")).kind, ErrorKind::AlreadyExists);
    cluster.ok(drop("d2", false));
    assert!(matches!(cluster.ok(create("again")), Outcome::Table { created: true, .. }));
    let unnamed = Command::Named {
        request: request("p", "?", 0),
        command: Box::new(Command::InitCluster { cluster_id: "other".into() }),
    };
    assert_eq!(cluster.refused(unnamed).kind, ErrorKind::Internal);
}

#[test]
fn rows_staged_by_an_earlier_start_cannot_be_committed() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 1, &["a"]));
    let part = cluster.part(table, 0, 3);
    cluster.ok(Command::ExecutorDown { executor: id("a"), incarnation: "1".into() });
    cluster.ok(write(table, WriteId::new(), vec![part.clone()]));
    cluster.ok(register("a", "2"));
    assert_eq!(cluster.refused(write(table, WriteId::new(), vec![part])).kind, ErrorKind::Conflict);
}

#[test]
fn an_overwrite_replaces_every_row_of_the_table() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(NewTable { dataset: Some(dataset("file:///d")), ..new_table("t", 3, &["a"]) });
    let first = vec![cluster.part(table, 0, 3), cluster.part(table, 1, 4)];
    cluster.ok(write(table, WriteId::new(), first));
    let short = vec![cluster.part(table, 0, 1)];
    let fresh = || Some(dataset("file:///e"));
    let refusal = cluster.refused(overwrite(table, short, fresh()));
    assert!(refusal.kind.retryable() && refusal.message.contains("partition 1 of table t"), "{}", refusal.message);
    let full = vec![cluster.part(table, 0, 1), cluster.part(table, 1, 0)];
    cluster.ok(overwrite(table, full, fresh()));
    let state = &cluster.0.tables[&table];
    assert_eq!((state.rows(), state.bytes(), state.version), (1, 10, 2));
    assert_eq!(state.columns[0], ColumnSummary { nulls: Some(0), min: Some("0".into()), max: Some("1".into()) });
    let expected = Dataset { refreshed_at_ms: Some(77), ..dataset("file:///e") };
    assert_eq!(state.dataset.as_ref(), Some(&expected), "the definition changes with the rows");
    assert_eq!(cluster.partition(table, 2).version, 0);
    let emptied = vec![cluster.part(table, 0, 0)];
    cluster.ok(overwrite(table, emptied, None));
    assert_eq!(cluster.0.tables[&table].rows(), 0);
}

#[test]
fn only_the_latest_commits_are_remembered() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 1, &["a"]));
    for _ in 0..70 {
        let part = cluster.part(table, 0, 1);
        cluster.ok(write(table, WriteId::new(), vec![part]));
    }
    let partition = cluster.partition(table, 0);
    assert_eq!((partition.version, partition.commits.len(), partition.commits[0].version), (70, KEEP_COMMITS, 7));
}

#[test]
fn only_a_dataset_is_refreshed() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let plain = cluster.create(new_table("p", 1, &["a"]));
    let part = cluster.part(plain, 0, 3);
    let refusal = cluster.refused(overwrite(plain, vec![part], Some(dataset("file:///d"))));
    assert_eq!(refusal.kind, ErrorKind::Invalid);
}

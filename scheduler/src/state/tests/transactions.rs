//! Commits of transactions: all tables or none.
use super::*;

fn part(cluster: &Cluster, table: TableId, number: usize, rows: u64) -> TransactionPart {
    TransactionPart { table, write_id: WriteId::new(), staged: cluster.part(table, number, rows), schema_version: 0 }
}

fn commit(parts: &[TransactionPart], request: &str) -> Command {
    let request = Some(WriteRequest { id: request.into(), rows: 9, statement: None });
    Command::CommitTransaction { parts: parts.to_vec(), request }
}

#[test]
fn all_tables_change_together_or_none() {
    let mut cluster = Cluster::with_executors(&["a", "b"]);
    let (t, u) = (cluster.create(new_table("t", 2, &["a"])), cluster.create(new_table("u", 2, &["b"])));
    let parts = vec![part(&cluster, t, 0, 3), part(&cluster, u, 1, 4), part(&cluster, t, 1, 2)];
    type Fault = fn(&mut TransactionPart);
    let faults: [(Fault, ErrorKind); 5] = [
        (|part| part.staged.epoch = 2, ErrorKind::StaleRoute),
        (|part| part.staged.incarnation = "0".into(), ErrorKind::Conflict),
        (|part| part.staged.partition = PartitionId(1), ErrorKind::StaleRoute),
        (|part| part.table = TableId(9), ErrorKind::NotFound),
        (|part| part.staged.deleted = 1, ErrorKind::Invalid),
    ];
    for (number, (fault, kind)) in faults.into_iter().enumerate() {
        let mut wrong = parts.clone();
        fault(&mut wrong[1]);
        assert_eq!(cluster.refused(commit(&wrong, "wrong")).kind, kind, "fault {number}");
    }
    let twice = [parts[0].clone(), parts[0].clone()];
    assert_eq!(cluster.refused(commit(&twice, "twice")).kind, ErrorKind::Invalid);
    assert_eq!(cluster.refused(commit(&[], "nothing")).kind, ErrorKind::Invalid);

    let Outcome::Committed { parts: committed } = cluster.ok(commit(&parts, "r")) else { panic!("not committed") };
    assert_eq!(committed.len(), 3);
    assert!(committed.iter().all(|part| part.version == 1));
    let of = |cluster: &Cluster, table: TableId| (cluster.0.tables[&table].rows(), cluster.0.tables[&table].version);
    assert_eq!((of(&cluster, t), of(&cluster, u)), ((5, 1), (4, 1)));
    for part in &parts {
        let partition = &cluster.0.tables[&part.table].partitions[&part.staged.partition];
        let commits: Vec<_> = partition.commits.iter().map(|commit| (commit.version, commit.write_id)).collect();
        assert_eq!(commits, [(1, part.write_id)]);
    }
    let known = cluster.0.written.find("r").unwrap();
    assert_eq!((known.rows, known.table_name.as_str()), (9, "t, u"));

    // The same once more, as after a lost answer: under another id of the log it is recognised.
    let Outcome::Committed { parts: again } = cluster.ok(commit(&parts, "r")) else { panic!("not recognised") };
    let sorted = |mut parts: Vec<CommittedPart>| {
        parts.sort_by_key(|part| part.partition);
        parts
    };
    assert_eq!(sorted(again), sorted(committed));
    // Other work under the same request id is not applied.
    let others = [part(&cluster, t, 0, 1)];
    assert_eq!(cluster.ok(commit(&others, "r")), Outcome::Repeated { rows: 9 });
    assert_eq!((of(&cluster, t), of(&cluster, u)), ((5, 1), (4, 1)));
}

#[test]
fn parts_that_another_write_came_before_are_named_and_nothing_changes() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let (t, u) = (cluster.create(new_table("t", 2, &["a"])), cluster.create(new_table("u", 1, &["a"])));
    let first = vec![cluster.part(t, 0, 5), cluster.part(t, 1, 5)];
    cluster.ok(write(t, WriteId::new(), first));
    let based = |cluster: &Cluster, number| {
        let mut part = part(cluster, t, number, 1);
        (part.staged.deleted, part.staged.base) = (1, Some(1));
        part
    };
    let mut parts = vec![based(&cluster, 0), based(&cluster, 1), part(&cluster, u, 0, 1)];
    let other = vec![cluster.part(t, 1, 1)];
    cluster.ok(write(t, WriteId::new(), other));
    let behind = vec![CommittedPart { partition: parts[1].staged.partition, version: 2 }];
    assert_eq!(cluster.ok(commit(&parts, "r")), Outcome::Outdated { parts: behind });
    assert_eq!(cluster.0.tables[&u].rows(), 0);
    parts[1].staged.base = Some(2);
    assert!(matches!(cluster.ok(commit(&parts, "r")), Outcome::Committed { .. }));
    assert_eq!((cluster.0.tables[&t].rows(), cluster.0.tables[&u].rows()), (11, 1));
}

#[test]
fn a_transaction_reads_an_old_state_from_the_owners_of_now() {
    let mut cluster = Cluster::with_executors(&["a", "b"]);
    let t = cluster.create(new_table("t", 1, &["a"]));
    let untouched = cluster.create(new_table("u", 1, &["a"]));
    let snapshot = cluster.0.clone();
    cluster.ok(Command::EnsurePartitions {
        table: t,
        partitions: vec![NewPartition { key: bucket(7), owners: vec![id("b")] }],
    });
    let rows = vec![cluster.part(t, 0, 5), cluster.part(t, 1, 6)];
    cluster.ok(write(t, WriteId::new(), rows));
    let late = cluster.create(new_table("late", 1, &["a"]));
    let moved = cluster.partition(untouched, 0).id;
    cluster.ok(Command::ExecutorDown { executor: id("a"), incarnation: "1".into() });
    cluster.ok(Command::Place { placements: vec![Placement { partition: moved, epoch: 1, owners: vec![id("b")] }] });
    let seen = cluster.0.as_of(&snapshot);
    let table = &seen.tables[&t];
    assert_eq!((table.rows(), table.version, table.partitions.len()), (0, 0, 2));
    assert!(table.partitions.values().all(|p| p.version == 0 && p.commits.is_empty()));
    let partition = &seen.tables[&untouched].partitions[&moved];
    assert_eq!((partition.epoch, &partition.owners), (2, &vec![id("b")]));
    assert!(!seen.tables.contains_key(&late));
    assert_eq!(seen.executors, cluster.0.executors);
}

//! Former versions of a table.
use std::time::Duration;

use ancho_common::alter::ColumnChange;

use super::*;

const RETENTION: Duration = Duration::from_secs(600);

/// Applies a command at a time.
fn at(cluster: &mut Cluster, now_ms: u64, command: Command) {
    cluster.0.apply(Request { id: RequestId::new(), now_ms, command }).outcome.unwrap();
}

#[test]
fn each_version_is_what_its_commit_left() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 2, &["a"]));
    let first = write(table, WriteId::new(), vec![cluster.part(table, 0, 5)]);
    at(&mut cluster, 1_000, first);
    let second = write(table, WriteId::new(), vec![cluster.part(table, 0, 1), cluster.part(table, 1, 7)]);
    at(&mut cluster, 2_000, second);
    let change = ColumnChange::Drop { name: "s".into() };
    at(&mut cluster, 3_000, Command::AlterColumns { table, schema_version: 0, change, write_id: WriteId::new() });

    let state = &cluster.0.tables[&table];
    let versions = |version: u64| -> Vec<u64> {
        let former = state.as_of(version, 4_000, RETENTION).unwrap();
        assert!(former.partitions.values().all(|p| p.columns.len() == former.schema.0.fields().len()));
        former.partitions.values().map(|p| p.version).collect()
    };
    assert_eq!([versions(0), versions(1), versions(2), versions(3)], [[0, 0], [1, 0], [2, 1], [3, 2]]);
    assert_eq!(state.as_of(2, 4_000, RETENTION).unwrap().schema, schema());
    assert_eq!(state.as_of(3, 4_000, RETENTION).unwrap().schema, state.schema);
    let found: Vec<_> = [999, 1_000, 1_999, 2_000, 9_999].iter().map(|ms| state.version_at(*ms).ok()).collect();
    assert_eq!(found, [None, Some(1), Some(1), Some(2), Some(3)]);

    assert_eq!(state.as_of(4, 4_000, RETENTION).unwrap_err().kind, ErrorKind::NotFound);
    // Version 2 was superseded at 3 s, version 1 at 2 s: owners keep them for ten minutes from then on.
    assert!(state.as_of(2, 602_999, RETENTION).is_ok() && state.as_of(2, 603_000, RETENTION).is_err());
    assert!(state.as_of(1, 601_999, RETENTION).is_ok() && state.as_of(1, 602_000, RETENTION).is_err());
    assert!(state.as_of(3, u64::MAX, RETENTION).is_ok());
}

#[test]
fn what_is_not_remembered_is_not_guessed() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 2, &["a"]));
    let early = write(table, WriteId::new(), vec![cluster.part(table, 1, 3)]);
    at(&mut cluster, 1, early);
    for _ in 0..KEEP_COMMITS + 1 {
        let next = write(table, WriteId::new(), vec![cluster.part(table, 0, 1)]);
        at(&mut cluster, 1, next);
    }
    let state = &cluster.0.tables[&table];
    assert!(state.as_of(1, 1, RETENTION).is_err(), "the first commits of partition 0 are forgotten");
    assert_eq!(
        state.as_of(3, 1, RETENTION).unwrap().partitions.values().map(|p| p.version).collect::<Vec<_>>(),
        [2, 1]
    );
}

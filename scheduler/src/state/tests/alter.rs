//! Changes of columns and parameters.
use ancho_common::alter::ColumnChange;

use super::*;

fn alter(table: TableId, schema_version: u64, change: ColumnChange) -> Command {
    Command::AlterColumns { table, schema_version, change, write_id: WriteId::new() }
}

fn rename(name: &str, to: &str) -> ColumnChange {
    ColumnChange::Rename { name: name.into(), to: to.into() }
}

fn names(table: &Table) -> Vec<&str> {
    table.schema.0.fields().iter().map(|field| field.name().as_str()).collect()
}

/// A table of three buckets of which the first two hold rows.
fn filled() -> (Cluster, TableId) {
    let mut cluster = Cluster::with_executors(&["a", "b"]);
    let table = cluster.create(new_table("t", 3, &["a", "b"]));
    let parts = vec![cluster.part(table, 0, 5), cluster.part(table, 1, 7)];
    cluster.ok(write(table, WriteId::new(), parts));
    (cluster, table)
}

#[test]
fn a_change_is_a_version_of_every_partition_that_holds_rows() {
    let (mut cluster, table) = filled();
    let column = Field::new("at", DataType::Date32, true);
    cluster.ok(alter(table, 0, ColumnChange::Add { column: column.clone() }));
    let state = &cluster.0.tables[&table];
    assert_eq!((state.version, state.schema_version), (2, 1));
    assert_eq!(names(state), ["k", "s", "at"]);
    let versions: Vec<u64> = state.partitions.values().map(|p| p.version).collect();
    assert_eq!(versions, [2, 2, 0]);
    let commit = *cluster.partition(table, 0).commits.last().unwrap();
    let alteration = state.alteration(commit.write_id).unwrap();
    assert_eq!((alteration.version, &alteration.change), (2, &ColumnChange::Add { column }));
    assert_eq!(alteration.before, schema());
    // Rows that exist have NULL in it.
    assert_eq!(cluster.partition(table, 1).columns[2].nulls, Some(7));
}

#[test]
fn writes_with_the_former_columns_are_refused_and_may_start_again() {
    let (mut cluster, table) = filled();
    let staged = WriteId::new();
    let parts = vec![cluster.part(table, 2, 3)];
    let command = write(table, staged, parts.clone());
    cluster.ok(command.clone());
    cluster.ok(alter(table, 0, rename("s", "text")));
    // It was committed before: asking again is answered as then.
    assert!(matches!(cluster.ok(command), Outcome::Committed { .. }));
    let late = write(table, WriteId::new(), vec![cluster.part(table, 2, 3)]);
    assert_eq!(cluster.refused(late.clone()).kind, ErrorKind::Conflict);
    let Command::CommitWrite { table, write_id, overwrite, parts, refreshed, based_on, request, .. } = late else {
        panic!("a write");
    };
    let schema_version = 1;
    cluster.ok(Command::CommitWrite {
        table,
        write_id,
        overwrite,
        parts,
        refreshed,
        based_on,
        request,
        schema_version,
    });
}

#[test]
fn a_transaction_with_the_former_columns_changes_nothing() {
    let (mut cluster, table) = filled();
    let part = |cluster: &Cluster, schema_version| TransactionPart {
        table,
        write_id: WriteId::new(),
        staged: cluster.part(table, 2, 3),
        schema_version,
    };
    cluster.ok(alter(table, 0, rename("s", "text")));
    let commit = |part| Command::CommitTransaction { parts: vec![part], request: None };
    let former = part(&cluster, 0);
    assert_eq!(cluster.refused(commit(former)).kind, ErrorKind::Conflict);
    let present = part(&cluster, 1);
    assert!(matches!(cluster.ok(commit(present)), Outcome::Committed { .. }));
    assert_eq!(cluster.partition(table, 2).commits[0].table_version, 3);
}

#[test]
fn changes_that_cannot_be_are_refused() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let mut keyed = new_table("t", 1, &["a"]);
    keyed.primary_key = vec!["k".into()];
    keyed.params = BTreeMap::from([("sort_columns".into(), "s, k".into()), ("time_column".into(), "k".into())]);
    let table = cluster.create(keyed);
    let wide = |name: &str, to: DataType| ColumnChange::Widen { column: Field::new(name, to, true) };
    for (change, kind) in [
        (ColumnChange::Drop { name: "k".into() }, ErrorKind::Invalid),
        (wide("k", DataType::Decimal128(38, 0)), ErrorKind::Invalid),
        (ColumnChange::Drop { name: "s".into() }, ErrorKind::Invalid),
        (ColumnChange::Drop { name: "x".into() }, ErrorKind::NotFound),
        (rename("k", "s"), ErrorKind::AlreadyExists),
        (rename("k", "a,b"), ErrorKind::Invalid),
        (rename("k", ""), ErrorKind::Invalid),
    ] {
        let refusal = cluster.refused(alter(table, 0, change.clone()));
        assert_eq!(refusal.kind, kind, "{change:?}: {}", refusal.message);
    }
    // The columns are others by now.
    assert_eq!(cluster.refused(alter(table, 1, rename("k", "key"))).kind, ErrorKind::Conflict);
    cluster.ok(alter(table, 0, rename("k", "key")));
    let state = &cluster.0.tables[&table];
    assert_eq!(state.primary_key, ["key"]);
    assert_eq!((state.params["sort_columns"].as_str(), state.params["time_column"].as_str()), ("s,key", "key"));
    // Without a row there is no version to make.
    assert_eq!(cluster.partition(table, 0).version, 0);
    let mirror = NewTable { dataset: Some(dataset("file:///x")), ..new_table("d", 1, &["a"]) };
    let mirror = cluster.create(mirror);
    assert_eq!(cluster.refused(alter(mirror, 0, rename("s", "text"))).kind, ErrorKind::Unsupported);
}

#[test]
fn parameters_of_the_layout_change_in_place_and_others_do_not() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let mut new = new_table("t", 1, &["a"]);
    new.params.clear();
    let table = cluster.create(new);
    let set = |params: &[(&str, &str)]| Command::SetParams {
        table,
        schema_version: 0,
        params: params.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
        definition: None,
    };
    cluster.ok(set(&[("sort_columns", "s")]));
    cluster.ok(set(&[("sort_columns", "s")]));
    let state = &cluster.0.tables[&table];
    assert_eq!((state.params["sort_columns"].as_str(), state.params_version, state.version), ("s", 1, 0));
    let refusal = cluster.refused(set(&[("sort_columns", "s"), ("cayenne_deletion_mode", "key")]));
    assert!(refusal.kind == ErrorKind::Unsupported && refusal.message.contains("cayenne_deletion_mode"), "{refusal:?}");
}

#[test]
fn states_without_changes_of_columns_are_still_read() {
    let (cluster, table) = filled();
    let mut json = serde_json::to_value(&cluster.0).unwrap();
    let stored = &mut json["tables"][table.0.to_string()];
    for field in ["schema_version", "params_version", "alterations"] {
        assert!(stored.as_object_mut().unwrap().remove(field).is_some(), "{field}");
    }
    assert_eq!(serde_json::from_value::<ClusterState>(json).unwrap(), cluster.0);
    let mut request = serde_json::to_value(write(table, WriteId::new(), vec![])).unwrap();
    assert!(request["commit_write"].as_object_mut().unwrap().remove("schema_version").is_some());
    serde_json::from_value::<Command>(request).unwrap();
}

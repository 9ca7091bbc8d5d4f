//! Tables that are being loaded: beside the one they replace, given up, renamed.
use super::*;

fn replacement(name: &str, buckets: u32) -> NewTable {
    NewTable { or_replace: true, loading: true, ..new_table(name, buckets, &["a"]) }
}

fn abandon(table: TableId, renewals: Option<u64>) -> Command {
    Command::AbandonLoad { table, renewals }
}

/// A table `t` with 3 rows, loaded by its executor.
fn with_rows() -> (Cluster, TableId) {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 1, &["a"]));
    let part = cluster.part(table, 0, 3);
    cluster.ok(write(table, WriteId::new(), vec![part]));
    (cluster, table)
}

fn holder(cluster: &Cluster, name: &str) -> Option<TableId> {
    cluster.0.table(&TableName::public(name)).map(|t| t.id)
}

#[test]
fn a_replacement_takes_its_place_with_its_first_commit() {
    let (mut cluster, old) = with_rows();
    let loaded = BTreeMap::from([(cluster.partition(old, 0).id, 1)]);
    cluster.ok(Command::ReportLoaded { executor: id("a"), incarnation: "1".into(), loaded, hindered: BTreeMap::new() });
    let new = cluster.create(replacement("t", 2));
    assert_eq!(holder(&cluster, "t"), Some(old), "unseen until it is loaded");
    assert_eq!(cluster.0.listed().count(), 1);

    let write_id = WriteId::new();
    let part = cluster.part(new, 1, 5);
    let committed = cluster.ok(write(new, write_id, vec![part.clone()]));
    assert_eq!(holder(&cluster, "t"), Some(new));
    assert!(!cluster.0.tables.contains_key(&old) && cluster.0.tables[&new].load.is_none());
    assert_eq!(cluster.0.tables[&new].rows(), 5);
    assert!(cluster.0.executors[&id("a")].loaded.is_empty(), "what was replaced is served by nobody");
    assert_eq!(cluster.ok(write(new, write_id, vec![part])), committed, "the commit is applied once");
}

#[test]
fn a_replacement_without_rows_is_complete_too() {
    let (mut cluster, old) = with_rows();
    let new = cluster.create(replacement("t", 2));
    cluster.ok(write(new, WriteId::new(), vec![]));
    assert_eq!((holder(&cluster, "t"), cluster.0.tables.contains_key(&old)), (Some(new), false));
}

#[test]
fn a_load_that_is_given_up_leaves_the_old_table_as_it_was() {
    let (mut cluster, old) = with_rows();
    let before = cluster.0.tables[&old].clone();
    let new = cluster.create(replacement("t", 2));
    cluster.ok(Command::RenewLoad { table: new });
    assert_eq!(cluster.ok(abandon(new, Some(0))), Outcome::Dropped { existed: false }, "renewed since");
    let part = cluster.part(new, 0, 5);
    assert_eq!(cluster.ok(abandon(new, Some(1))), Outcome::Dropped { existed: true });
    assert_eq!(cluster.0.tables[&old], before);
    assert_eq!(cluster.refused(write(new, WriteId::new(), vec![part])).kind, ErrorKind::NotFound);
    assert_eq!(cluster.refused(Command::RenewLoad { table: new }).kind, ErrorKind::NotFound);
}

#[test]
fn a_table_that_has_been_loaded_is_not_given_up() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(NewTable { loading: true, ..new_table("t", 1, &["a"]) });
    assert_eq!(holder(&cluster, "t"), Some(table), "a new name is taken from the start");
    cluster.ok(write(table, WriteId::new(), vec![]));
    cluster.ok(Command::RenewLoad { table });
    for renewals in [None, Some(0), Some(1)] {
        assert_eq!(cluster.ok(abandon(table, renewals)), Outcome::Dropped { existed: false });
    }
    assert_eq!(holder(&cluster, "t"), Some(table));
}

#[test]
fn the_first_of_two_replacements_wins() {
    let (mut cluster, _) = with_rows();
    let (first, second) = (cluster.create(replacement("t", 1)), cluster.create(replacement("t", 2)));
    cluster.ok(write(second, WriteId::new(), vec![]));
    let refusal = cluster.refused(write(first, WriteId::new(), vec![]));
    assert_eq!(refusal.kind, ErrorKind::Conflict);
    assert_eq!(holder(&cluster, "t"), Some(second));
}

#[test]
fn a_replacement_takes_a_name_that_became_free_and_nothing_else() {
    let (mut cluster, old) = with_rows();
    let new = cluster.create(replacement("t", 1));
    let rename = |name: &str, to: &str| Command::RenameTable {
        name: TableName::public(name),
        to: TableName::public(to),
        if_exists: false,
    };
    cluster.ok(rename("t", "u"));
    cluster.ok(write(new, WriteId::new(), vec![]));
    assert_eq!((holder(&cluster, "t"), holder(&cluster, "u")), (Some(new), Some(old)), "a renamed table stays");

    let newer = cluster.create(replacement("t", 1));
    cluster.ok(Command::DropTable { name: TableName::public("t"), if_exists: false });
    cluster.ok(write(newer, WriteId::new(), vec![]));
    assert_eq!(holder(&cluster, "t"), Some(newer));
}

#[test]
fn rows_made_from_a_table_do_not_replace_what_was_written_since() {
    let (mut cluster, old) = with_rows();
    let new = cluster.create(replacement("t", 1));
    let commit = |version| Command::CommitWrite {
        table: new,
        write_id: WriteId::new(),
        overwrite: false,
        parts: vec![],
        refreshed: None,
        based_on: Some((old, version)),
        request: None,
        schema_version: 0,
    };
    let late = cluster.part(old, 0, 1);
    cluster.ok(write(old, WriteId::new(), vec![late]));
    assert_eq!(cluster.refused(commit(1)).kind, ErrorKind::Conflict);
    cluster.ok(commit(2));
    assert_eq!(cluster.refused(commit(2)).kind, ErrorKind::Conflict, "it is gone");
}

#[test]
fn a_table_is_renamed_and_keeps_its_rows() {
    let (mut cluster, table) = with_rows();
    let rename = |name: &str, to: &str, if_exists| Command::RenameTable {
        name: TableName::public(name),
        to: TableName::public(to),
        if_exists,
    };
    let mirror = NewTable { dataset: Some(dataset("file:///d")), ..new_table("d", 1, &["a"]) };
    cluster.create(mirror);
    cluster.create(NewTable { loading: true, ..new_table("l", 1, &["a"]) });
    for (from, to, kind) in [
        ("x", "y", ErrorKind::NotFound),
        ("t", "d", ErrorKind::AlreadyExists),
        ("t", "t", ErrorKind::AlreadyExists),
        ("t", "", ErrorKind::Invalid),
        ("d", "e", ErrorKind::Unsupported),
        ("l", "m", ErrorKind::Unavailable),
    ] {
        assert_eq!(cluster.refused(rename(from, to, false)).kind, kind, "{from} to {to}");
    }
    cluster.ok(rename("x", "y", true));
    cluster.ok(rename("t", "u", false));
    assert_eq!((holder(&cluster, "u"), holder(&cluster, "t")), (Some(table), None));
    assert_eq!(cluster.0.tables[&table].rows(), 3);
}

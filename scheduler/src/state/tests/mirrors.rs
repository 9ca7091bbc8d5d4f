//! Datasets that mirror what another cluster publishes: awaited, made, and written to by nobody else.
use ancho_common::snapshot::Served;
use uuid::Uuid;

use super::*;

fn mirroring(epoch: u64) -> Dataset {
    let served = Served { id: Uuid::nil(), cluster_id: "other".into(), epoch, head_version: epoch, published_ms: 0 };
    Dataset { refresh_mode: "snapshot".into(), served: Some(served), ..dataset("file:///published") }
}

#[test]
fn a_mirror_takes_snapshots_and_nothing_else() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let name = TableName::public("t");
    let awaited = Awaited { definition: "d".into(), from: "file:///published".into() };
    cluster.ok(Command::AwaitDataset { name: name.clone(), dataset: awaited.clone() });
    let create = |table| Command::CreateTable(Box::new(table));
    assert_eq!(cluster.refused(create(new_table("t", 1, &["a"]))).kind, ErrorKind::AlreadyExists);
    cluster.create(new_table("u", 1, &["a"]));
    let rename = Command::RenameTable { name: TableName::public("u"), to: name.clone(), if_exists: false };
    assert_eq!(cluster.refused(rename).kind, ErrorKind::AlreadyExists);

    // A load that is given up leaves it awaited; one that ends makes it a table.
    let table = || NewTable { dataset: Some(mirroring(1)), loading: true, ..new_table("t", 2, &["a"]) };
    let given_up = cluster.create(table());
    cluster.ok(Command::AbandonLoad { table: given_up, renewals: None });
    assert_eq!(cluster.0.awaited(&name), Some(&awaited));
    let id = cluster.create(table());
    let parts = |cluster: &Cluster, rows| vec![cluster.part(id, 0, rows), cluster.part(id, 1, rows)];
    let first = parts(&cluster, 5);
    cluster.ok(overwrite(id, first, Some(mirroring(1))));
    assert!(cluster.0.awaited.is_empty());
    assert_eq!(cluster.0.tables[&id].dataset.as_ref().and_then(|d| d.served.as_ref()).map(|s| s.epoch), Some(1));
    let again = cluster.refused(Command::AwaitDataset { name: name.clone(), dataset: awaited });
    assert_eq!(again.kind, ErrorKind::AlreadyExists);

    let part = cluster.part(id, 0, 1);
    let refused = cluster.refused(write(id, WriteId::new(), vec![part]));
    assert!(refused.kind == ErrorKind::Unsupported && refused.message.contains("read-only"), "{refused:?}");
    let all = parts(&cluster, 1);
    assert_eq!(cluster.refused(overwrite(id, all, None)).kind, ErrorKind::Unsupported);
    let next = parts(&cluster, 7);
    cluster.ok(overwrite(id, next, Some(mirroring(2))));
    assert_eq!(cluster.0.tables[&id].rows(), 14);
}

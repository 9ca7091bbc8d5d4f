//! Who may publish snapshots, and what is noted of them.
use ancho_common::snapshot::{SnapshotLocation, StoredObject};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

fn take(table: TableId, holder: &str) -> Command {
    Command::TakeSnapshotLease { table, holder: holder.into(), length_ms: 1000 }
}

fn at(cluster: &mut Cluster, now_ms: u64, command: Command) -> Result<Outcome, Refusal> {
    let response = cluster.0.apply(Request { id: RequestId::new(), now_ms, command });
    assert_eq!(violations(&cluster.0), Vec::<String>::new());
    response.outcome
}

fn epoch(outcome: Result<Outcome, Refusal>) -> u64 {
    match outcome {
        Ok(Outcome::Lease { epoch }) => epoch,
        other => panic!("{other:?}"),
    }
}

fn snapshot(epoch: u64, table_version: u64, parts: &[(PartitionId, u64)]) -> PublishedSnapshot {
    let part =
        |version| SnapshotPart { version, manifest: StoredObject { key: "m".into(), bytes: 1, sha256: "00".into() } };
    PublishedSnapshot {
        id: Uuid::new_v4(),
        location: SnapshotLocation::parse("file:///s", &BTreeMap::new()).unwrap(),
        folder: "f".into(),
        set: StoredObject { key: "s".into(), bytes: 1, sha256: "00".into() },
        epoch,
        table_version,
        rows: 1,
        bytes: 1,
        uploaded_bytes: 1,
        published_ms: 0,
        partitions: parts.iter().map(|(id, version)| (*id, part(*version))).collect(),
    }
}

fn record(table: TableId, snapshot: &PublishedSnapshot) -> Command {
    Command::RecordSnapshot { table, snapshot: Box::new(snapshot.clone()) }
}

#[test]
fn one_holder_at_a_time_and_each_with_an_epoch_of_its_own() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 1, &["a"]));
    let other = cluster.create(new_table("u", 1, &["a"]));
    assert_eq!(epoch(at(&mut cluster, 0, take(table, "x"))), 1);
    let refused = at(&mut cluster, 999, take(table, "y")).unwrap_err();
    assert!(refused.kind == ErrorKind::Conflict && refused.message.contains("x is making a snapshot of table t"));
    assert_eq!(
        epoch(at(&mut cluster, 999, take(other, "y"))),
        2,
        "epochs are not used twice, also not by another table"
    );
    at(&mut cluster, 999, Command::RenewSnapshotLease { table, epoch: 1, length_ms: 1000 }).unwrap();
    assert!(at(&mut cluster, 1500, take(table, "y")).is_err(), "it was renewed");
    assert_eq!(epoch(at(&mut cluster, 1999, take(table, "y"))), 3, "it has ended");
    assert!(at(&mut cluster, 2000, Command::RenewSnapshotLease { table, epoch: 1, length_ms: 9 }).is_err());
    at(&mut cluster, 2000, Command::ReleaseSnapshotLease { table, epoch: 1 }).unwrap();
    assert!(at(&mut cluster, 2000, take(table, "x")).is_err(), "the late release was of the former lease");
    at(&mut cluster, 2000, Command::ReleaseSnapshotLease { table, epoch: 3 }).unwrap();
    assert_eq!(epoch(at(&mut cluster, 2000, take(table, "x"))), 4);
    assert_eq!(epoch(at(&mut cluster, 2000, take(table, "x"))), 5, "a holder that starts anew has another epoch");
    cluster.ok(Command::DropTable { name: TableName::public("t"), if_exists: false });
    assert!(!cluster.0.snapshots.leases.contains_key(&table));
    let again = cluster.create(new_table("t", 1, &["a"]));
    assert_eq!(epoch(at(&mut cluster, 0, take(again, "x"))), 6, "a table of the same name goes on with later epochs");
}

#[test]
fn what_is_noted_was_committed_and_published_under_the_lease() {
    let mut cluster = Cluster::with_executors(&["a"]);
    let table = cluster.create(new_table("t", 2, &["a"]));
    let part = cluster.part(table, 0, 3);
    let partition = part.partition;
    cluster.ok(write(table, WriteId::new(), vec![part]));
    let first = epoch(at(&mut cluster, 0, take(table, "x")));
    assert_eq!(cluster.refused(record(table, &snapshot(first, 2, &[]))).kind, ErrorKind::Invalid);
    assert_eq!(cluster.refused(record(table, &snapshot(first, 1, &[(partition, 2)]))).kind, ErrorKind::Invalid);
    assert_eq!(cluster.refused(record(table, &snapshot(first + 1, 1, &[(partition, 1)]))).kind, ErrorKind::Conflict);
    let good = snapshot(first, 1, &[(partition, 1)]);
    cluster.ok(record(table, &good));
    cluster.ok(record(table, &good));
    let (newest, found) = cluster.0.snapshots.part_of(&cluster.0.tables[&table], partition).unwrap();
    assert_eq!((newest.id, found.version), (good.id, 1));

    // Another one has taken over: what the first made is of no use any more.
    let second = epoch(at(&mut cluster, 5000, take(table, "y")));
    assert_eq!(cluster.refused(record(table, &snapshot(first, 1, &[(partition, 1)]))).kind, ErrorKind::Conflict);
    cluster.ok(record(table, &snapshot(second, 1, &[(partition, 1)])));
    let listed = &cluster.0.snapshots.published[&table];
    assert!(listed.len() == 2 && listed[0].partitions.is_empty(), "only the newest knows its parts");
    cluster.ok(Command::DropTable { name: TableName::public("t"), if_exists: false });
    assert!(cluster.0.snapshots.published.is_empty());
}

proptest! {
    /// Whoever does what and when: an epoch is given out once, and only its holder's snapshots are noted.
    #[test]
    fn epochs_keep_publishers_apart(steps in prop::collection::vec((0u8..4, 0u8..3, 0u64..700), 1..60)) {
        let mut cluster = Cluster::with_executors(&["a"]);
        let table = cluster.create(new_table("t", 1, &["a"]));
        let mut now = 0;
        let mut held: BTreeMap<u8, u64> = BTreeMap::new();
        let mut given = std::collections::BTreeSet::new();
        for (what, who, later) in steps {
            now += later;
            let own = held.get(&who).copied().unwrap_or(0);
            match what {
                0 => if let Ok(Outcome::Lease { epoch }) = at(&mut cluster, now, take(table, &who.to_string())) {
                    prop_assert!(given.insert(epoch));
                    held.insert(who, epoch);
                },
                1 => drop(at(&mut cluster, now, Command::RenewSnapshotLease { table, epoch: own, length_ms: 1000 })),
                2 => drop(at(&mut cluster, now, Command::ReleaseSnapshotLease { table, epoch: own })),
                _ => {
                    let noted = at(&mut cluster, now, record(table, &snapshot(own, 0, &[]))).is_ok();
                    let lease = cluster.0.snapshots.leases.get(&table);
                    let holds = lease.is_some_and(|l| l.epoch == own && l.holder.as_deref() == Some(who.to_string().as_str()));
                    prop_assert_eq!(holds, noted);
                    // A lease is for one snapshot.
                    drop(at(&mut cluster, now, Command::ReleaseSnapshotLease { table, epoch: own }));
                }
            }
        }
    }
}

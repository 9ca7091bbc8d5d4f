//! A partition on its way to another executor.
use super::*;

fn step(partition: PartitionId, epoch: u64, action: MoveAction) -> Command {
    Command::AdvanceMoves { steps: vec![MoveStep { partition, epoch, action }] }
}

fn switch(version: u64, incarnation: &str) -> MoveAction {
    MoveAction::Switch { version, incarnation: incarnation.into() }
}

/// A table of one partition with a committed version on `a`, and `b` beside it.
fn cluster() -> (Cluster, TableId, PartitionId) {
    let mut cluster = Cluster::with_executors(&["a", "b"]);
    let table = cluster.create(new_table("t", 1, &["a"]));
    let partition = *cluster.0.tables[&table].partitions.keys().next().unwrap();
    assert!(matches!(commit(&mut cluster, table, partition, 1, "a"), Ok(Outcome::Committed { .. })));
    (cluster, table, partition)
}

fn commit(
    cluster: &mut Cluster,
    table: TableId,
    partition: PartitionId,
    epoch: u64,
    executor: &str,
) -> Result<Outcome, Refusal> {
    let part = StagedPart {
        partition,
        epoch,
        executor: id(executor),
        incarnation: "1".into(),
        rows: 1,
        bytes: 10,
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
    cluster.apply(command).outcome
}

fn phase(cluster: &Cluster, partition: PartitionId) -> Option<MovePhase> {
    cluster.0.moves.get(&partition).map(|known| known.phase)
}

fn begin(cluster: &mut Cluster, partition: PartitionId) {
    cluster.ok(Command::StartMoves { moves: vec![NewMove { partition, epoch: 1, to: id("b") }] });
    assert_eq!(phase(cluster, partition), Some(MovePhase::Waiting));
    cluster.ok(step(partition, 1, MoveAction::Copy));
}

#[test]
fn it_changes_hands_only_at_the_committed_version() {
    let (mut cluster, table, partition) = cluster();
    begin(&mut cluster, partition);
    assert!(commit(&mut cluster, table, partition, 1, "a").is_ok(), "the owner serves on");
    for refused in [switch(1, "1"), switch(3, "1"), switch(2, "0"), MoveAction::Finish, MoveAction::Reopen] {
        cluster.ok(step(partition, 1, refused));
        assert_eq!(phase(&cluster, partition), Some(MovePhase::Copying));
    }
    cluster.ok(step(partition, 2, switch(2, "1")));
    assert_eq!(phase(&cluster, partition), Some(MovePhase::Copying), "another epoch");
    cluster.ok(step(partition, 1, switch(2, "1")));
    let moved = &cluster.0.tables[&table].partitions[&partition];
    assert_eq!((moved.owners.as_slice(), moved.epoch, moved.version), ([id("b")].as_slice(), 2, 2));
    let stale = commit(&mut cluster, table, partition, 1, "a").unwrap_err();
    assert_eq!(stale.kind, ErrorKind::StaleRoute);
    assert!(commit(&mut cluster, table, partition, 2, "b").is_ok());
    cluster.ok(step(partition, 2, MoveAction::Abandon));
    assert_eq!(phase(&cluster, partition), Some(MovePhase::Leaving), "it is too late to give up");
    cluster.ok(step(partition, 2, MoveAction::Finish));
    assert_eq!(phase(&cluster, partition), None);
}

#[test]
fn commits_wait_while_it_is_closing() {
    let (mut cluster, table, partition) = cluster();
    begin(&mut cluster, partition);
    cluster.ok(step(partition, 1, MoveAction::Close));
    let waiting = commit(&mut cluster, table, partition, 1, "a").unwrap();
    assert_eq!(waiting, Outcome::Closing { partitions: vec![partition] });
    assert_eq!(cluster.0.tables[&table].partitions[&partition].version, 1);
    cluster.ok(step(partition, 1, MoveAction::Reopen));
    assert!(matches!(commit(&mut cluster, table, partition, 1, "a"), Ok(Outcome::Committed { .. })));
}

#[test]
fn a_move_ends_with_its_partition_and_needs_a_target_that_may_take_it() {
    let (mut cluster, _, partition) = cluster();
    let to = |name: &str, epoch| Command::StartMoves { moves: vec![NewMove { partition, epoch, to: id(name) }] };
    for (name, epoch) in [("a", 1), ("c", 1), ("b", 2)] {
        cluster.ok(to(name, epoch));
        assert_eq!(phase(&cluster, partition), None, "{name} {epoch}");
    }
    cluster.ok(Command::SetDraining { executor: id("b"), draining: true });
    cluster.ok(to("b", 1));
    assert_eq!(phase(&cluster, partition), None);
    // A start of its process changes nothing about that.
    cluster.ok(register("b", "2"));
    assert!(cluster.0.executors[&id("b")].draining);
    cluster.ok(Command::SetDraining { executor: id("b"), draining: false });
    begin(&mut cluster, partition);
    cluster.ok(Command::ExecutorDown { executor: id("b"), incarnation: "2".into() });
    let held = cluster.refused(Command::RemoveExecutor { executor: id("b") });
    assert!(held.message.contains("still moving"), "{}", held.message);
    cluster.ok(Command::DropTable { name: TableName::public("t"), if_exists: false });
    assert_eq!(phase(&cluster, partition), None);
    cluster.ok(Command::RemoveExecutor { executor: id("b") });
    cluster.refused(Command::SetDraining { executor: id("b"), draining: true });
}

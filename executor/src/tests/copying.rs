//! Partitions that go from one executor to another.
use ancho_common::error::ErrorKind;

use super::*;

/// What a target is told until the switch.
fn copy_of(source: &Node, version: u64, commits: &[(u64, WriteId)]) -> proto::Assignment {
    let from = proto::CopySource { url: source.url.clone(), epoch: 1, version: 0 };
    proto::Assignment { duty: proto::Duty::Copy.into(), source: Some(from), ..assignment(1, 1, version, commits) }
}

/// What it is told after it.
fn taken_from(source: &Node, epoch: u64, version: u64, commits: &[(u64, WriteId)]) -> proto::Assignment {
    let from = proto::CopySource { url: source.url.clone(), epoch: epoch - 1, version };
    proto::Assignment { source: Some(from), ..assignment(1, epoch, version, commits) }
}

fn left_at(epoch: u64, version: u64, commits: &[(u64, WriteId)]) -> proto::Assignment {
    proto::Assignment { duty: proto::Duty::Leave.into(), ..assignment(1, epoch, version, commits) }
}

async fn written(node: &Node, epoch: u64, version: u64, keys: std::ops::Range<i64>) -> WriteId {
    let (write, count) = (WriteId::new(), keys.clone().count() as u64);
    node.stage(write, "a", false, &[(1, epoch, rows(keys))]).await.unwrap();
    node.seal(write, false, &[(1, epoch, count)]).await.unwrap();
    node.publish(write, &[(1, epoch, version)]).await.unwrap();
    write
}

fn copied(node: &Node) -> Option<u64> {
    node.host.copies().reports().first().and_then(|report| report.version)
}

fn all(keys: std::ops::Range<i64>) -> Vec<i64> {
    keys.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_partition_goes_over_and_comes_back_with_every_row() {
    let (dir_a, dir_b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (Node::start(dir_a.path()).await, Node::start(dir_b.path()).await);
    a.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let first = written(&a, 1, 1, 0..5_000).await;
    b.assign(2, vec![copy_of(&a, 1, &[(1, first)])]).await;
    eventually("the first copy", || copied(&b) == Some(1)).await;
    assert_eq!(b.loaded(), [], "a copy is nobody's to read");
    assert_eq!(b.keys(&[(1, 1, 1, None)]).await.unwrap_err().kind, ErrorKind::StaleRoute);
    let bulk = b.host.copies().fetched_bytes();

    let second = written(&a, 1, 2, 5_000..5_010).await;
    let commits = [(1, first), (2, second)];
    b.assign(3, vec![copy_of(&a, 2, &commits)]).await;
    eventually("the newer version", || copied(&b) == Some(2)).await;
    assert!(b.host.copies().fetched_bytes() < 2 * bulk, "files that are here are not fetched again");

    b.assign(4, vec![taken_from(&a, 2, 2, &commits)]).await;
    assert_eq!(b.loaded(), [(1, 2, 2)]);
    a.assign(4, vec![left_at(1, 2, &commits)]).await;
    for (node, epoch) in [(&a, 1), (&b, 2)] {
        assert_eq!(node.keys(&[(1, epoch, 2, None)]).await.unwrap(), all(0..5_010));
    }
    let refused = a.stage(WriteId::new(), "a", false, &[(1, 1, rows(0..1))]).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::StaleRoute);
    let third = written(&b, 2, 3, 5_010..5_020).await;
    assert_eq!(b.keys(&[(1, 2, 3, None)]).await.unwrap(), all(0..5_020));
    assert!(!dir_b.path().join("copies/1").exists());

    // It comes back to a directory that has what it was.
    let commits = [(1, first), (2, second), (3, third)];
    let from = proto::CopySource { url: b.url.clone(), epoch: 2, version: 0 };
    let duty = proto::Duty::Copy.into();
    a.assign(5, vec![proto::Assignment { duty, source: Some(from), ..assignment(1, 2, 3, &commits) }]).await;
    eventually("the way back", || copied(&a) == Some(3)).await;
    assert!(a.host.copies().fetched_bytes() < bulk, "most of it was here");
    a.assign(6, vec![taken_from(&b, 3, 3, &commits)]).await;
    assert_eq!(a.loaded(), [(1, 3, 3)]);
    assert_eq!(a.keys(&[(1, 3, 3, None)]).await.unwrap(), all(0..5_020));
    b.assign(6, vec![]).await;
    assert_eq!(b.loaded(), []);
    assert_eq!(b.keys(&[(1, 2, 3, None)]).await.unwrap_err().kind, ErrorKind::StaleRoute);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_without_its_copy_serves_nothing_until_it_has_one() {
    let (dir_a, dir_b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (Node::start(dir_a.path()).await, Node::start(dir_b.path()).await);
    a.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let first = written(&a, 1, 1, 0..100).await;
    b.assign(2, vec![copy_of(&a, 1, &[(1, first)])]).await;
    eventually("the copy", || copied(&b) == Some(1)).await;
    // What was copied outlives the process.
    let b = b.restart(dir_b.path()).await;
    b.assign(3, vec![taken_from(&a, 2, 1, &[(1, first)])]).await;
    assert_eq!(b.loaded(), [(1, 2, 1)]);

    let dir_c = tempfile::tempdir().unwrap();
    let c = Node::start(dir_c.path()).await;
    a.assign(3, vec![left_at(1, 1, &[(1, first)])]).await;
    c.assign(3, vec![taken_from(&a, 2, 1, &[(1, first)])]).await;
    if c.loaded().is_empty() {
        let hindrance = c.partition(1).hindrance.unwrap();
        assert!(hindrance.contains("still being copied"), "{hindrance}");
    }
    eventually("its own copy", || copied(&c) == Some(1) || !c.loaded().is_empty()).await;
    c.host.sweep().await;
    assert_eq!(c.loaded(), [(1, 2, 1)]);
    assert_eq!(c.keys(&[(1, 2, 1, None)]).await.unwrap(), all(0..100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_is_not_wanted_any_more_leaves_nothing() {
    let (dir_a, dir_b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (Node::start(dir_a.path()).await, Node::start(dir_b.path()).await);
    a.assign(1, vec![assignment(1, 1, 0, &[])]).await;
    let first = written(&a, 1, 1, 0..100).await;
    b.assign(2, vec![copy_of(&a, 1, &[(1, first)])]).await;
    eventually("the copy", || copied(&b) == Some(1)).await;
    b.assign(3, vec![]).await;
    assert!(b.host.copies().reports().is_empty() && !dir_b.path().join("copies/1").exists());
    // A source that says no is asked again, and says why.
    let wrong = proto::CopySource { url: a.url.clone(), epoch: 9, version: 0 };
    let duty = proto::Duty::Copy.into();
    b.assign(4, vec![proto::Assignment { duty, source: Some(wrong), ..assignment(1, 9, 1, &[(1, first)]) }]).await;
    eventually("the refusal", || b.host.copies().reports().iter().any(|r| r.fault.contains("epoch 1"))).await;
    b.assign(5, vec![copy_of(&a, 1, &[(1, first)])]).await;
    eventually("the copy after all", || copied(&b) == Some(1)).await;
}

//! Directories that must not take part: wiped, of another node, of another cluster.
use std::time::Duration;

use super::{Group, create_table};
use crate::{
    raft::{Error, RaftNode},
    state::TableName,
};

fn write(group: &Group, via: u64, name: &str) {
    let request = create_table(name);
    let response = group.on(via, |n| async move { n.propose(request).await }).expect("alive").expect("applied");
    response.outcome.expect("created");
}

/// Nodes 1 and 2 hold an acknowledged entry that node 3 lacks; then the directory of node 2 is lost.
fn group_with_wiped_node() -> Group {
    let group = Group::started(3);
    group.kill(3);
    write(&group, 1, "acknowledged");
    group.kill_all();
    std::fs::remove_dir_all(group.dir(2)).expect("wipe");
    group
}

#[test]
fn a_wiped_node_is_refused_at_the_start() {
    let group = group_with_wiped_node();
    group.start(3).expect("start");
    let error = group.start(2).expect_err("wiped");
    assert!(matches!(error, Error::Incarnation { node: 2, peer: 3, .. }), "{error}");
    assert!(error.to_string().contains(&group.dir(2).display().to_string()), "{error}");
}

#[test]
fn a_wiped_node_that_starts_before_the_others_cannot_vote_away_an_acknowledged_entry() {
    let group = group_with_wiped_node();
    group.start(2).expect("nobody is there to object");
    group.start(3).expect("start");
    let error = group.on(2, |n: RaftNode| async move { n.stopped().await }).expect("alive");
    assert!(matches!(error, Error::Incarnation { .. }), "{error}");
    // Longer than any election: 2 and 3 are a majority in number, but must not be one in votes.
    std::thread::sleep(Duration::from_secs(3));
    for id in [2, 3] {
        let (_, node) = group.handle(id).expect("alive");
        assert!(!node.leadership().borrow().is_leader, "node {id} leads without the acknowledged entry");
    }

    group.start(1).expect("start");
    let state = group.on(3, |n| async move { n.linearizable_within(Duration::from_secs(15)).await });
    let state = state.expect("alive").expect("1 and 3 are a majority");
    assert!(state.table(&TableName::public("acknowledged")).is_some());
}

#[test]
fn a_directory_of_another_cluster_is_refused_at_the_start() {
    let old = Group::started(3);
    write(&old, 1, "of_the_old_cluster");
    let old_id = old.on(3, |n| async move { n.linearizable().await }).expect("alive").expect("read").cluster_id.clone();
    old.kill_all();

    let new = Group::started(3);
    let new_id = new.on(1, |n| async move { n.state().cluster_id.clone() }).expect("alive");
    new.kill(3);
    std::fs::remove_dir_all(new.dir(3)).expect("remove");
    std::fs::rename(old.dir(3), new.dir(3)).expect("swap");
    let error = new.start(3).expect_err("other cluster");
    assert!(matches!(error, Error::ClusterId { .. }), "{error}");
    for id in [&old_id, &new_id] {
        assert!(error.to_string().contains(id.as_str()), "{error}");
    }
    write(&new, 2, "goes_on");
}

#[test]
fn a_directory_of_another_node_is_refused() {
    let group = Group::started(3);
    group.kill(2);
    group.kill(3);
    std::fs::remove_dir_all(group.dir(3)).expect("remove");
    std::fs::rename(group.dir(2), group.dir(3)).expect("swap");
    let error = group.start(3).expect_err("node 2's directory");
    assert!(matches!(error, Error::NodeId { stored: 2, configured: 3, .. }), "{error}");
}

#[test]
fn a_group_of_two_is_refused() {
    let group = Group::new(2);
    assert!(matches!(group.start(1), Err(Error::Config(_))));
}

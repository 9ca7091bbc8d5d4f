//! Groups that work: writing, reading, failing over, restarting.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ancho_common::{error::ErrorKind, ids::TableId};
use parking_lot::Mutex;

use super::{Group, create_table};
use crate::{
    raft::RaftNode,
    state::{ClusterState, Outcome, Request, TableName},
};

fn has_table(state: &ClusterState, name: &str) -> bool {
    state.table(&TableName::public(name)).is_some()
}

/// Applies a request; the id of the table it made.
async fn create(node: RaftNode, request: Request) -> Result<TableId, ErrorKind> {
    let response = node.propose(request).await.map_err(|e| e.kind)?;
    match response.outcome {
        Ok(Outcome::Table { id, created: true }) => Ok(id),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_node_writes_and_reads_what_was_acknowledged_elsewhere() {
    let group = Group::started(3);
    let cluster = group.on(1, |n| async move { n.state().cluster_id.clone() }).expect("alive");
    for round in 0..10 {
        for writer in 1..=3 {
            let name = format!("t_{round}_{writer}");
            group.on(writer, |n| create(n, create_table(&name))).expect("alive").expect("created");
            let own = group.on(writer, |n| async move { n.state() }).expect("alive");
            assert!(has_table(&own, &name), "the writer's own state lacks {name}");
            for reader in 1..=3 {
                let state = group.on(reader, |n| async move { n.linearizable().await }).expect("alive").expect("read");
                assert!(has_table(&state, &name), "node {reader} lacks {name}");
                assert_eq!(state.cluster_id, cluster);
            }
        }
    }
    let probe = group.on(2, |n| async move { n.probe() }).expect("alive");
    assert_eq!((probe.node_id, probe.formed, &probe.cluster_id), (2, true, &cluster));
    assert_eq!(probe.leader_id, group.leader());
    let roles: BTreeSet<_> =
        group.ids().iter().filter_map(|id| group.on(*id, |n| async move { n.status().role })).collect();
    assert_eq!(roles, BTreeSet::from(["leader", "follower"]));
}

#[test]
fn the_same_request_through_two_followers_is_applied_once() {
    let group = Group::started(3);
    let followers = group.followers();
    let request = create_table("once");
    let group = &group;
    let ids: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = [followers[0], followers[1], followers[0]]
            .into_iter()
            .map(|id| (id, request.clone()))
            .map(|(id, request)| scope.spawn(move || group.on(id, move |n| create(n, request))))
            .collect();
        calls.into_iter().map(|call| call.join().expect("thread").expect("alive").expect("created")).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn what_a_leader_decides_is_written_in_its_term_or_never() {
    let group = Group::started(3);
    let leader = group.leader();
    let term = group.on(leader, |n| async move { n.status().term }).expect("alive");
    let write = |node: u64, term: u64, name: &str| {
        let request = create_table(name);
        group.on(node, move |n| async move { n.propose_in_term(term, request).await }).expect("alive")
    };
    assert!(write(leader, term, "own").is_ok());
    for (node, term, name) in
        [(leader, term - 1, "earlier"), (leader, term + 1, "later"), (group.followers()[0], term, "follower")]
    {
        let refused = write(node, term, name).expect_err(name);
        assert_eq!(refused.kind, ErrorKind::Unavailable, "{name}: {refused}");
    }
    let state = group.on(leader, |n| async move { n.linearizable().await }).expect("alive").expect("read");
    assert!(has_table(&state, "own"));
    assert!(["earlier", "later", "follower"].iter().all(|name| !has_table(&state, name)));
}

#[test]
fn the_stamper_of_the_leader_completes_requests_made_on_followers() {
    let group = Group::started(3);
    for id in group.ids() {
        let (_, node) = group.handle(id).expect("alive");
        node.set_stamper(Arc::new(|_, request| {
            if let crate::state::Command::CreateTable(table) = &mut request.command {
                table.params.insert("stamped_at".into(), request.now_ms.to_string());
            }
        }));
    }
    let follower = group.followers()[0];
    group.on(follower, |n| create(n, create_table("stamped"))).expect("alive").expect("created");
    let state = group.on(follower, |n| async move { n.state() }).expect("alive");
    let table = state.table(&TableName::public("stamped")).expect("table");
    assert!(table.params["stamped_at"].parse::<u64>().expect("time") > 1_600_000_000_000);
}

/// Writers that each repeat a request under its id until it is acknowledged, through whatever node runs.
fn write_until(group: &Group, stop: &AtomicBool, writer: u64, acknowledged: &Mutex<BTreeMap<String, TableId>>) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("w{writer}_{number}");
        let request = create_table(&name);
        let mut turn = writer;
        loop {
            let ids = group.ids();
            let Some(via) = ids.get(usize::try_from(turn).expect("small") % ids.len().max(1)) else {
                std::thread::sleep(Duration::from_millis(20));
                continue;
            };
            let request = request.clone();
            match group.on(*via, |n| create(n, request)) {
                Some(Ok(id)) => {
                    acknowledged.lock().insert(name, id);
                    break;
                }
                Some(Err(kind)) => assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Unknown), "{kind:?}"),
                None => {}
            }
            turn += 1;
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn killing_the_leader_again_and_again_loses_nothing_and_doubles_nothing() {
    const KILLS: usize = 6;
    let group = Group::started(3);
    let stop = AtomicBool::new(false);
    let acknowledged = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for writer in 0..3 {
            let (group, stop, acknowledged) = (&group, &stop, &acknowledged);
            scope.spawn(move || write_until(group, stop, writer, acknowledged));
        }
        for _ in 0..KILLS {
            let before = acknowledged.lock().len();
            let leader = group.leader();
            group.kill(leader);
            // The others go on without it.
            wait_until("writes went on", || acknowledged.lock().len() > before + 5);
            let seen: Vec<String> = acknowledged.lock().keys().cloned().collect();
            group.start(leader).expect("restart");
            // The restarted node may refuse to answer yet, but never answers with an older state.
            let read = group.on(leader, |n| async move { n.linearizable_within(Duration::from_secs(10)).await });
            let state = read.expect("alive").expect("caught up");
            let missing: Vec<_> = seen.iter().filter(|name| !has_table(&state, name)).collect();
            assert!(missing.is_empty(), "node {leader} lacks {missing:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    let acknowledged = acknowledged.into_inner();
    assert!(acknowledged.len() > 5 * KILLS);
    let states: Vec<_> = group
        .ids()
        .into_iter()
        .map(|id| group.on(id, |n| async move { n.linearizable().await }).expect("alive").expect("read"))
        .collect();
    for state in &states {
        assert_eq!(state.tables.len(), acknowledged.len(), "every request was acknowledged in the end, each once");
        for (name, id) in &acknowledged {
            assert_eq!(state.table(&TableName::public(name)).map(|t| t.id), Some(*id), "{name}");
        }
        assert_eq!(state, &states[0], "all nodes hold the same state");
    }
}

#[test]
fn a_restarted_group_of_one_never_shows_an_older_state() {
    let group = Group::started(1);
    for round in 0..8 {
        let name = format!("t{round}");
        group.on(1, |n| create(n, create_table(&name))).expect("alive").expect("created");
        group.kill(1);
        group.start(1).expect("restart");
        let asked = Instant::now();
        let state = group.on(1, |n| async move { n.linearizable().await }).expect("alive").expect("read");
        assert!(has_table(&state, &name), "{name} is missing after the restart");
        assert!(asked.elapsed() < Duration::from_secs(3), "alone, there is no election to wait for");
        assert_eq!(state.tables.len(), round + 1);
    }
}

#[test]
fn a_node_that_was_away_catches_up_from_a_snapshot() {
    let mut group = Group::new(3);
    group.snapshot_every = 50;
    group.start_all();
    let away = group.followers()[0];
    group.kill(away);
    let via = group.leader();
    for number in 0..1300 / 4 {
        let calls: Vec<_> = (0..4).map(|i| create_table(&format!("t{number}_{i}"))).collect();
        group
            .on(via, |n| async move {
                futures::future::try_join_all(calls.into_iter().map(|request| create(n.clone(), request))).await
            })
            .expect("alive")
            .expect("created");
    }
    group.start(away).expect("restart");
    let all = group.on(via, |n| async move { n.linearizable().await }).expect("alive").expect("read");
    let late = group.on(away, |n| async move { n.linearizable_within(Duration::from_secs(20)).await });
    assert_eq!(late.expect("alive").expect("caught up"), all);

    // Everything again from the directories: snapshot, then the log behind it.
    group.kill_all();
    group.start_all();
    for id in group.ids() {
        let state = group.on(id, |n| async move { n.linearizable().await }).expect("alive").expect("read");
        assert_eq!(state, all);
        group.kill(id);
        let file = rusqlite::Connection::open(group.dir(id).join("raft.db")).expect("open");
        let rows: i64 = file.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).expect("count");
        assert!(rows < 300, "node {id} still has {rows} entries in its log");
        drop(file);
        group.start(id).expect("restart");
    }
}

#[test]
fn without_a_majority_nothing_is_claimed() {
    let group = Group::started(3);
    for id in group.followers() {
        group.kill(id);
    }
    let left = group.ids()[0];
    let request = create_table("limbo");
    let same = request.clone();
    let limit = Duration::from_secs(2);
    let error = group.on(left, move |n| async move { n.propose_within(same, limit).await });
    assert_eq!(error.expect("alive").expect_err("no majority").kind, ErrorKind::Unknown);
    let error = group.on(left, move |n| async move { n.linearizable_within(limit).await });
    let error = error.expect("alive").expect_err("no majority");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert!(error.message.ends_with("try again") && !error.message.contains("voters"), "{error}");

    group.start_all();
    let follower = group.followers()[0];
    // Asking again with the same id tells, and does it once.
    group.on(follower, |n| create(n, request)).expect("alive").expect("resolved");
}

#[test]
fn a_node_whose_leader_is_gone_says_that_nothing_was_applied() {
    let group = Group::started(3);
    let leader = group.leader();
    let (left, other) = (group.followers()[0], group.followers()[1]);
    group.kill(other);
    group.kill(leader);
    let propose = || {
        let limit = Duration::from_secs(2);
        let outcome = group.on(left, move |n| async move { n.propose_within(create_table("nowhere"), limit).await });
        outcome.expect("alive").expect_err("no leader")
    };
    // The first may still go out on the connection that just died, and then nobody can tell what became of it.
    let first = propose();
    assert!(matches!(first.kind, ErrorKind::Unavailable | ErrorKind::Unknown), "{first}");
    // Once the loss is known, nothing is sent.
    let error = propose();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
}

#[test]
fn a_clean_shutdown_releases_the_directory() {
    let group = Group::started(1);
    group.on(1, |n| create(n, create_table("kept"))).expect("alive").expect("created");
    let (handle, node) = group.handle(1).expect("alive");
    handle.block_on(node.shutdown());
    assert_eq!(node.status().role, "stopped");
    let error = handle.block_on(node.propose(create_table("late"))).expect_err("stopped");
    assert_eq!(error.kind, ErrorKind::Unavailable);
    let (db, _) = crate::raft::database::Database::open(&group.dir(1)).expect("free");
    handle.block_on(db.close());
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within 20 s");
        std::thread::sleep(Duration::from_millis(20));
    }
}

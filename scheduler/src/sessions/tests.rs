//! Sessions over a real log of one node: what an executor sees, and what the state says of it.
use std::collections::BTreeMap;

use ancho_common::{
    error::ErrorKind,
    ids::{ExecutorId, TableId, WriteId},
};
use ancho_proto::v1::{
    Assignments, Beat, Hello, Loaded, SessionDown, Welcome, scheduler_client::SchedulerClient,
    session_down::Body as Down, session_up::Body as Up,
};
use tempfile::TempDir;
use tokio::{
    net::TcpListener,
    time::{Instant, timeout},
};
use tokio_stream::wrappers::TcpListenerStream;

use super::*;
use crate::{
    placement,
    raft::{RaftOptions, SchedulerService},
    state::{
        ClusterState, Liveness, Outcome, StagedPart,
        tests::{id, new_table},
        violations,
    },
};

const TTL: Duration = Duration::from_millis(1000);

struct Leader {
    raft: RaftNode,
    manager: SessionManager,
    stop: CancellationToken,
    _dir: TempDir,
}

impl Leader {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let leader = Self::of(RaftOptions::single("http://127.0.0.1:9", dir.path()), dir).await;
        leader.ready().await;
        leader
    }

    /// Waits until the group is formed and, if this node leads it, until it knows.
    async fn ready(&self) {
        self.raft.wait_ready(Duration::from_secs(20)).await.unwrap();
        let own = self.raft.node_id();
        let settled = |l: &crate::raft::Leadership| l.leader_id.is_some() && (l.leader_id != Some(own) || l.is_leader);
        timeout(Duration::from_secs(20), self.raft.leadership().wait_for(settled)).await.unwrap().unwrap();
    }

    async fn of(options: RaftOptions, dir: TempDir) -> Self {
        let raft = RaftNode::start(options).await.unwrap();
        raft.set_stamper(Arc::new(placement::stamp));
        let stop = CancellationToken::new();
        let options = SessionOptions {
            ttl: TTL,
            margin: Duration::from_millis(200),
            scheduler_urls: vec!["http://127.0.0.1:9".into()],
            placement_debounce: Duration::from_millis(20),
            ..SessionOptions::default()
        };
        let manager = SessionManager::new(raft.clone(), options, stop.clone());
        let running = manager.clone();
        tokio::spawn(async move { running.run().await });
        Self { raft, manager, stop, _dir: dir }
    }

    fn open(&self, hello: Hello) -> Client {
        let (up, receiver) = mpsc::channel(16);
        up.try_send(Ok(SessionUp { body: Some(Up::Hello(hello)) })).unwrap();
        Client { up, down: self.manager.open(ReceiverStream::new(receiver)), sequence: 0 }
    }

    /// Opens a session and reads it up to the first assignments.
    async fn join(&self, hello: Hello) -> (Client, Assignments) {
        let mut client = self.open(hello);
        client.welcome().await;
        let assignments = client.assignments().await;
        (client, assignments)
    }

    async fn apply(&self, command: Command) -> Outcome {
        let request = Request { id: RequestId::new(), now_ms: 0, command };
        self.raft.propose(request).await.unwrap().outcome.unwrap()
    }

    async fn create(&self, name: &str, buckets: u32) -> TableId {
        match self.apply(Command::CreateTable(Box::new(new_table(name, buckets, &[])))).await {
            Outcome::Table { id, .. } => id,
            other => panic!("{other:?}"),
        }
    }

    async fn until(&self, what: &str, predicate: impl FnMut(&ClusterState) -> bool) -> Arc<ClusterState> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let state =
            wait_until(self.raft.watch(), predicate, deadline).await.unwrap_or_else(|_| panic!("never: {what}"));
        assert_eq!(violations(&state), Vec::<String>::new());
        state
    }

    async fn end(self) {
        self.stop.cancel();
        self.raft.shutdown().await;
    }
}

fn is_down(executor: &str) -> impl Fn(&ClusterState) -> bool {
    let executor = id(executor);
    move |state| state.executors[&executor].liveness == Liveness::Down
}

fn hello(executor: &str, incarnation: &str) -> Hello {
    Hello {
        cluster_id: String::new(),
        executor_id: executor.into(),
        incarnation: incarnation.into(),
        url: format!("http://{executor}"),
        version: "0.1.0".into(),
        plan_key: "p".into(),
        streams: 2,
        memory_bytes: 0,
    }
}

/// The executor's side of a session, without network.
struct Client {
    up: mpsc::Sender<Result<SessionUp, Status>>,
    down: SessionStream,
    sequence: u64,
}

impl Client {
    async fn next(&mut self) -> Option<Down> {
        let message = timeout(Duration::from_secs(20), self.down.next()).await.expect("silence");
        message.map(|m| m.unwrap().body.unwrap())
    }

    async fn welcome(&mut self) -> Welcome {
        match self.next().await {
            Some(Down::Welcome(welcome)) => welcome,
            other => panic!("{other:?}"),
        }
    }

    /// The next assignments, past acknowledgements.
    async fn assignments(&mut self) -> Assignments {
        loop {
            match self.next().await {
                Some(Down::Assignments(assignments)) => return assignments,
                Some(Down::Ack(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// Sends a beat; false if the session is over.
    async fn beat(&mut self, loaded: &[(u64, u64)]) -> bool {
        self.sequence += 1;
        let loaded = loaded.iter().map(|(partition_id, epoch)| Loaded {
            partition_id: *partition_id,
            epoch: *epoch,
            version: 0,
        });
        let beat = Beat { sequence: self.sequence, loaded: loaded.collect(), ..Beat::default() };
        self.up.send(Ok(SessionUp { body: Some(Up::Beat(beat)) })).await.is_ok()
    }

    /// Reads up to the acknowledgement of the last beat.
    async fn acknowledged(&mut self) {
        loop {
            match self.next().await {
                Some(Down::Ack(ack)) if ack.sequence == self.sequence => return,
                Some(Down::Ack(_) | Down::Assignments(_)) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// What the session ends with, past acknowledgements and assignments.
    async fn last_words(&mut self) -> Option<Down> {
        loop {
            match self.next().await {
                Some(Down::Ack(_) | Down::Assignments(_)) => {}
                other => return other,
            }
        }
    }
}

/// Beats for a while, as an executor does.
async fn live(client: &mut Client, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        assert!(client.beat(&[]).await);
        client.acknowledged().await;
        tokio::time::sleep(TTL / 5).await;
    }
}

/// Serves the node's internal service until it ends.
fn serve(leader: &Leader, listener: TcpListener) {
    let service = SchedulerService::new(leader.raft.clone(), Arc::new(leader.manager.clone())).into_server();
    let stop = leader.stop.clone();
    tokio::spawn(
        tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming_shutdown(TcpListenerStream::new(listener), async move { stop.cancelled().await }),
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_registers_and_is_told_what_to_hold_over_the_network() {
    let leader = Leader::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    serve(&leader, listener);
    let mut client = SchedulerClient::connect(format!("http://{address}")).await.unwrap();
    let (up, receiver) = mpsc::channel(16);
    up.send(SessionUp { body: Some(Up::Hello(hello("a", "1"))) }).await.unwrap();
    let mut down = client.session(ReceiverStream::new(receiver)).await.unwrap().into_inner();
    let mut next = async || -> Down {
        let message: SessionDown = timeout(Duration::from_secs(20), down.message()).await.unwrap().unwrap().unwrap();
        message.body.unwrap()
    };
    let Down::Welcome(welcome) = next().await else { panic!() };
    assert_eq!(welcome.cluster_id, leader.raft.state().cluster_id);
    assert_eq!((welcome.ttl_millis, &welcome.scheduler_urls[..]), (1000, &["http://127.0.0.1:9".to_owned()][..]));
    assert!(matches!(next().await, Down::Assignments(a) if a.partitions.is_empty()));

    let table = leader.create("t", 2).await;
    let Down::Assignments(told) = next().await else { panic!() };
    assert_eq!(
        told.partitions.iter().map(|p| (p.partition_id, p.epoch, p.version)).collect::<Vec<_>>(),
        [(1, 1, 0), (2, 1, 0)]
    );
    let loaded: Vec<Loaded> =
        told.partitions.iter().map(|p| Loaded { partition_id: p.partition_id, epoch: 1, version: 0 }).collect();
    let beat = Beat { sequence: 7, loaded, ..Beat::default() };
    up.send(SessionUp { body: Some(Up::Beat(beat)) }).await.unwrap();
    assert!(matches!(next().await, Down::Ack(ack) if ack.sequence == 7));
    wait_served(leader.raft.watch(), table, |_| true, Instant::now() + Duration::from_secs(20)).await.unwrap();

    let write_id = WriteId::new();
    let part = StagedPart {
        partition: ancho_common::ids::PartitionId(2),
        epoch: 1,
        executor: id("a"),
        incarnation: "1".into(),
        rows: 3,
        bytes: 9,
        columns: vec![],
        deleted: 0,
        base: None,
    };
    leader
        .apply(Command::CommitWrite {
            table,
            write_id,
            overwrite: false,
            parts: vec![part],
            refreshed: None,
            based_on: None,
            request: None,
            schema_version: 0,
        })
        .await;
    let Down::Assignments(told) = next().await else { panic!() };
    assert_eq!((told.partitions[1].version, &told.partitions[1].commits[0].write_id), (1, &write_id.to_string()));
    leader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_executor_is_given_up_and_its_empty_partitions_move() {
    let leader = Leader::start().await;
    let (mut silent, _) = leader.join(hello("a", "1")).await;
    let (mut living, _) = leader.join(hello("b", "1")).await;
    leader.create("t", 4).await;
    assert_eq!(silent.assignments().await.partitions.len(), 2);
    let since = Instant::now();
    assert!(silent.beat(&[]).await);
    let (state, ()) = tokio::join!(leader.until("a is down", is_down("a")), live(&mut living, 2 * TTL));
    assert!(since.elapsed() > TTL, "not before its time");
    assert_eq!(state.executors[&id("b")].liveness, Liveness::Up);
    assert_eq!(silent.last_words().await, None, "the lapsed session ends");
    let owned = |state: &ClusterState| {
        let table = state.tables.values().next().unwrap();
        table.partitions.values().filter(|p| p.owners == [id("b")]).count()
    };
    leader.until("b holds all", |state| owned(state) == 4).await;
    // Back again, it finds nothing to hold.
    let (_client, told) = leader.join(hello("a", "2")).await;
    assert!(told.partitions.is_empty());
    leader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_that_comes_back_in_time_keeps_its_standing() {
    let leader = Leader::start().await;
    let (mut first, _) = leader.join(hello("a", "1")).await;
    let table = leader.create("t", 2).await;
    assert!(first.beat(&[(1, 1), (2, 1), (3, 1), (1, 1)]).await);
    let served =
        |state: &ClusterState| state.tables[&table].partitions.values().all(|p| state.serving_owner(p).is_some());
    leader.until("both are served", served).await;
    drop(first);
    tokio::time::sleep(TTL / 2).await;
    let (mut second, told) = leader.join(hello("a", "1")).await;
    assert_eq!(told.partitions.len(), 2);
    let state = leader.raft.state();
    assert!(served(&state), "the same process, the same report");
    // A third connection of the same executor: the second ends by itself.
    let (mut third, _) = leader.join(hello("a", "1")).await;
    second.beat(&[]).await;
    assert_eq!(second.last_words().await, None);
    live(&mut third, 2 * TTL).await;
    assert!(!is_down("a")(&leader.raft.state()));
    let reported = leader.until("the last report counts", |state| !served(state)).await;
    assert!(reported.executors[&id("a")].loaded.is_empty());
    leader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_belong_here_is_refused_with_the_reason() {
    let leader = Leader::start().await;
    let mine = leader.raft.state().cluster_id.clone();
    let refused = async |hello: Hello| match leader.open(hello).next().await {
        Some(Down::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let reason = refused(Hello { cluster_id: "other".into(), ..hello("a", "1") }).await;
    assert!(reason.contains("cluster other") && reason.contains(&mine), "{reason}");
    assert!(refused(Hello { url: String::new(), ..hello("a", "1") }).await.contains("no url"));
    let (_client, _) = leader.join(Hello { cluster_id: mine, ..hello("a", "1") }).await;

    let (up, receiver) = mpsc::channel(1);
    up.try_send(Ok(SessionUp { body: Some(Up::Beat(Beat::default())) })).unwrap();
    let mut down = leader.manager.open(ReceiverStream::new(receiver));
    let status = down.next().await.unwrap().unwrap_err();
    assert_eq!(ancho_common::error::Error::from(status).kind, ErrorKind::Invalid);
    assert_eq!(leader.raft.state().executors.keys().collect::<Vec<_>>(), [&ExecutorId("a".into())]);
    leader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_verdict_is_corrected_but_a_lost_address_is_not_fought_over() {
    let leader = Leader::start().await;
    let (_a, _) = leader.join(hello("a", "1")).await;
    leader.apply(Command::ExecutorDown { executor: id("a"), incarnation: "1".into() }).await;
    leader.until("a is up again", |state| !is_down("a")(state)).await;

    let (mut b, _) = leader.join(hello("b", "1")).await;
    let (_c, _) = leader.join(Hello { url: "http://b".into(), ..hello("c", "1") }).await;
    match b.last_words().await {
        Some(Down::Refused(reason)) => assert!(reason.contains("executor c registered at http://b"), "{reason}"),
        other => panic!("{other:?}"),
    }
    leader.until("b is down", is_down("b")).await;
    leader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_made_before_any_executor_are_handed_out_when_one_comes() {
    let leader = Leader::start().await;
    leader.create("t", 3).await;
    let mut client = leader.open(hello("a", "1"));
    client.welcome().await;
    let mut told = client.assignments().await;
    while told.partitions.is_empty() {
        told = client.assignments().await;
    }
    assert_eq!(told.partitions.iter().map(|p| p.epoch).collect::<Vec<_>>(), [2, 2, 2]);
    leader.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_end_with_the_office_of_their_leader() {
    let leader = Leader::start().await;
    let (mut client, _) = leader.join(hello("a", "1")).await;
    leader.raft.shutdown().await;
    let ended = client.last_words().await;
    assert!(matches!(ended, Some(Down::NotLeader(_)) | None), "{ended:?}");
    match leader.open(hello("a", "1")).next().await {
        Some(Down::NotLeader(other)) => assert_eq!(other.leader_url, ""),
        other => panic!("{other:?}"),
    }
    leader.end().await;
}

async fn group_of_three() -> Vec<Leader> {
    let mut listeners = Vec::new();
    for _ in 0..3 {
        listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
    }
    let peers: BTreeMap<u64, String> =
        (1..).zip(&listeners).map(|(id, l)| (id, format!("http://{}", l.local_addr().unwrap()))).collect();
    let mut nodes = Vec::new();
    for ((id, url), listener) in peers.clone().into_iter().zip(listeners) {
        let dir = tempfile::tempdir().unwrap();
        let node = Leader::of(RaftOptions::member(id, url, peers.clone(), dir.path()), dir).await;
        serve(&node, listener);
        nodes.push(node);
    }
    for node in &nodes {
        node.ready().await;
    }
    nodes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_leader_gives_executors_their_full_time_to_find_it() {
    let mut nodes = group_of_three().await;
    let at = nodes.iter().position(|n| n.raft.leadership().borrow().is_leader).unwrap();
    let former = nodes.swap_remove(at);
    let url = former.raft.leadership().borrow().leader_url.clone().unwrap();
    match nodes[0].open(hello("a", "1")).next().await {
        Some(Down::NotLeader(other)) => {
            assert_eq!((other.leader_id, other.leader_url), (former.raft.node_id(), url));
        }
        other => panic!("{other:?}"),
    }
    let (mut a, _) = former.join(hello("a", "1")).await;
    let (_b, _) = former.join(hello("b", "1")).await;
    former.create("t", 2).await;
    assert!(a.beat(&[(1, 1)]).await);
    let first_served = |state: &ClusterState| {
        let partition = state.tables.values().next().and_then(|t| t.partitions.values().next());
        partition.is_some_and(|p| state.serving_owner(p).is_some())
    };
    nodes[0].until("the report arrived at a follower", first_served).await;

    former.end().await;
    let elected = |l: &crate::raft::Leadership| l.is_leader;
    let (mut first, mut second) = (nodes[0].raft.leadership(), nodes[1].raft.leadership());
    let at = tokio::select! {
        Ok(_) = first.wait_for(elected) => 0,
        Ok(_) = second.wait_for(elected) => 1,
        () = tokio::time::sleep(Duration::from_secs(30)) => panic!("no new leader"),
    };
    let since = Instant::now();
    // The election took longer than a session, and yet nobody was given up by it.
    let (mut a, told) = nodes[at].join(hello("a", "1")).await;
    assert_eq!(told.partitions.len(), 1);
    assert!(first_served(&nodes[at].raft.state()));
    let (_, ()) = tokio::join!(nodes[at].until("b is given up", is_down("b")), async {
        let end = Instant::now() + 3 * TTL;
        while Instant::now() < end && !is_down("b")(&nodes[at].raft.state()) {
            assert!(a.beat(&[(1, 1)]).await);
            a.acknowledged().await;
            tokio::time::sleep(TTL / 5).await;
        }
    });
    assert!(since.elapsed() > TTL, "b had its full time");
    assert!(!is_down("a")(&nodes[at].raft.state()));
    for node in nodes {
        node.end().await;
    }
}

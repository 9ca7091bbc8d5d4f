//! Groups of schedulers on loopback: each node in a runtime of its own, so that dropping the runtime ends it the way
//! a kill does, with nothing flushed or said goodbye.
mod group;
mod refusals;
mod storage;

use std::{
    collections::BTreeMap,
    future::Future,
    net::SocketAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::{ids::RequestId, partition::PartitionSpec};
use ancho_proto::v1::SessionUp;
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Response, Status, Streaming, transport::Server};

use super::{Error, RaftNode, RaftOptions, SchedulerService, SessionHandler, SessionStream};
use crate::state::{Command, NewTable, Request, Schema, TableName};

/// No executors take part here.
struct NoSessions;

#[async_trait::async_trait]
impl SessionHandler for NoSessions {
    async fn session(&self, _: Streaming<SessionUp>) -> Result<Response<SessionStream>, Status> {
        Err(Status::unimplemented("no sessions in this test"))
    }
}

struct Running {
    runtime: Runtime,
    node: RaftNode,
}

/// Directories and ports of a group, and the nodes that run.
struct Group {
    root: TempDir,
    addresses: BTreeMap<u64, SocketAddr>,
    running: Mutex<BTreeMap<u64, Running>>,
    snapshot_every: u64,
}

impl Group {
    fn new(size: u64) -> Self {
        let root = tempfile::tempdir().expect("directory");
        // All at once, so that no two nodes get the same port.
        let listeners: Vec<_> = (0..size).map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("port")).collect();
        let addresses = (1..=size).zip(&listeners).map(|(id, l)| (id, l.local_addr().expect("address"))).collect();
        Self { root, addresses, running: Mutex::default(), snapshot_every: 5000 }
    }

    /// A group that runs and has a leader.
    fn started(size: u64) -> Self {
        let group = Self::new(size);
        group.start_all();
        group
    }

    fn start_all(&self) {
        let ids: Vec<u64> = self.addresses.keys().copied().filter(|id| !self.running.lock().contains_key(id)).collect();
        for id in &ids {
            self.start(*id).expect("start");
        }
        for id in ids {
            self.on(id, |node| async move { node.wait_ready(Duration::from_secs(20)).await })
                .expect("alive")
                .expect("ready");
        }
    }

    fn dir(&self, id: u64) -> PathBuf {
        self.root.path().join(id.to_string())
    }

    fn options(&self, id: u64) -> RaftOptions {
        let peers: BTreeMap<_, _> = self.addresses.iter().map(|(id, a)| (*id, format!("http://{a}"))).collect();
        RaftOptions {
            heartbeat: Duration::from_millis(100),
            election_timeout: (Duration::from_millis(400), Duration::from_millis(800)),
            snapshot_every: self.snapshot_every,
            ..RaftOptions::member(id, peers[&id].clone(), peers, self.dir(id))
        }
    }

    fn start(&self, id: u64) -> Result<(), Error> {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
        let started = runtime.block_on(async {
            let node = RaftNode::start(self.options(id)).await?;
            let listener = bind(self.addresses[&id]).await;
            let service = SchedulerService::new(node.clone(), Arc::new(NoSessions)).into_server();
            tokio::spawn(Server::builder().add_service(service).serve_with_incoming(TcpListenerStream::new(listener)));
            Ok(node)
        });
        match started {
            Ok(node) => {
                self.running.lock().insert(id, Running { runtime, node });
                Ok(())
            }
            Err(error) => {
                runtime.shutdown_background();
                Err(error)
            }
        }
    }

    /// Ends a node without a goodbye.
    fn kill(&self, id: u64) {
        if let Some(Running { runtime, node }) = self.running.lock().remove(&id) {
            drop(node);
            runtime.shutdown_timeout(Duration::from_secs(5));
        }
    }

    fn kill_all(&self) {
        for id in self.ids() {
            self.kill(id);
        }
    }

    fn ids(&self) -> Vec<u64> {
        self.running.lock().keys().copied().collect()
    }

    fn handle(&self, id: u64) -> Option<(Handle, RaftNode)> {
        self.running.lock().get(&id).map(|r| (r.runtime.handle().clone(), r.node.clone()))
    }

    /// Runs a call inside a node. `None` if the node does not run, or is killed meanwhile.
    fn on<T, F>(&self, id: u64, call: impl FnOnce(RaftNode) -> F) -> Option<T>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let (handle, node) = self.handle(id)?;
        let (sender, receiver) = std::sync::mpsc::channel();
        let work = call(node);
        handle.spawn(async move {
            let _ = sender.send(work.await);
        });
        receiver.recv_timeout(Duration::from_secs(60)).ok()
    }

    /// Which running node leads, once one does and has caught up.
    fn leader(&self) -> u64 {
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            for id in self.ids() {
                if self.handle(id).is_some_and(|(_, node)| node.leadership().borrow().is_leader) {
                    return id;
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("no leader within 20 s");
    }

    fn followers(&self) -> Vec<u64> {
        let leader = self.leader();
        self.ids().into_iter().filter(|id| *id != leader).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// The port is free again soon after its last holder ended.
async fn bind(address: SocketAddr) -> tokio::net::TcpListener {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match tokio::net::TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) if Instant::now() > deadline => panic!("{address}: {error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

/// Not idempotent by itself: applied twice, the second time is refused.
fn create_table(name: &str) -> Request {
    let schema = Schema(Arc::new(ArrowSchema::new(vec![Field::new("k", DataType::Int64, false)])));
    let table = NewTable {
        name: TableName::public(name),
        if_not_exists: false,
        or_replace: false,
        schema,
        partition_spec: PartitionSpec::default(),
        primary_key: vec![],
        params: BTreeMap::new(),
        dataset: None,
        loading: false,
        partitions: vec![],
    };
    Request { id: RequestId::new(), now_ms: 0, command: Command::CreateTable(Box::new(table)) }
}

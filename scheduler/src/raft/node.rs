//! [`RaftNode`]: one member of the group, as the rest of the scheduler sees it.
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ancho_common::ids::RequestId;
use ancho_proto::v1::{ProbeReply, RaftMessage};
use openraft::{
    RaftMetrics, ServerState,
    async_runtime::watch::WatchReceiver,
    raft::{AppendEntriesRequest, VoteRequest},
    storage::RaftLogStorage,
};
use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    channels::{Channels, Use},
    coalesce::Coalescer,
    database::{self, Database, StoredIdentity, key},
    error::{Error, Result},
    forming::{self, Peers, Phase},
    identity::Identity,
    leadership::{self, Leadership},
    log_store::LogStore,
    network::Network,
    options::RaftOptions,
    read::{ReadAnswer, start_reads},
    rules,
    state_machine::{Published, StateMachine},
    types::{Node, Raft, Snapshot, TypeConfig},
    wire::{self, Envelope, Introduction, ReceivedSnapshot, kind},
};
use crate::state::{ClusterState, Command, Request};

/// Called on the leader right before a request is written: fills in the time and placement decisions.
pub type Stamper = Arc<dyn Fn(&ClusterState, &mut Request) + Send + Sync>;

/// A member of the group of schedulers. Cheap to clone.
#[derive(Clone)]
pub struct RaftNode {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) identity: Identity,
    pub(super) raft: Raft,
    pub(super) channels: Channels,
    pub(super) urls: Arc<BTreeMap<u64, String>>,
    pub(super) published: Published,
    pub(super) leadership: watch::Receiver<Leadership>,
    pub(super) stamper: RwLock<Option<Stamper>>,
    /// Read index as this node's own log gives it, if it leads.
    pub(super) leader_reads: Coalescer<ReadAnswer>,
    /// Read index from whoever leads.
    pub(super) reads: Coalescer<ReadAnswer>,
    db: Database,
    had_log: bool,
    phase: watch::Receiver<Phase>,
    cancel: CancellationToken,
}

/// What a node knows of itself and its group.
#[derive(Debug, Clone, Serialize)]
pub struct Status {
    /// This node.
    pub node_id: u64,
    /// Empty until the group is formed.
    pub cluster_id: String,
    /// `leader`, `follower`, `candidate`, `learner` or `stopped`.
    pub role: &'static str,
    /// Current term.
    pub term: u64,
    /// The leader, if known.
    pub leader_id: Option<u64>,
    /// Last entry in the local state; 0 is the first entry.
    pub applied_index: Option<u64>,
    /// Last entry in the local log.
    pub last_log_index: Option<u64>,
    /// All members, by number, with the URLs of their internal services.
    pub peers: BTreeMap<u64, String>,
}

impl RaftNode {
    /// Opens the data directory and takes part in the group that it belongs to, or forms one.
    ///
    /// Returns before the group is formed or a leader known: the peers reach this node only once the caller serves
    /// [`SchedulerService`](super::SchedulerService). [`RaftNode::wait_ready`] waits for both.
    ///
    /// # Errors
    /// The settings or the directory contradict each other or what a peer reports; the directory was wiped while its
    /// node is a member of a formed group; the directory cannot be used.
    pub async fn start(options: RaftOptions) -> Result<Self> {
        let config = Arc::new(options.raft_config()?);
        let (db, identity) = open(&options).await?;
        let started = Self::start_on(&options, config, db.clone(), identity).await;
        if started.is_err() {
            db.close().await;
        }
        started
    }

    async fn start_on(
        options: &RaftOptions,
        config: Arc<openraft::Config>,
        db: Database,
        identity: Identity,
    ) -> Result<Self> {
        let storage = |e: std::io::Error| Error::Storage { path: db.path().to_owned(), reason: e.to_string() };
        let mut log = LogStore::open(db.clone()).await.map_err(storage)?;
        let had_log = log.get_log_state().await.map_err(storage)?.last_log_id.is_some();

        let channels = Channels::default();
        let urls = Arc::new(options.peers.clone());
        let peers = Peers { identity: identity.clone(), channels: channels.clone(), urls: Arc::clone(&urls) };
        // Peers that are not up yet are judged later; one that answers may rule this start out right away.
        let reached = peers.survey().await?;
        tracing::info!(
            node = identity.node_id, cluster = identity.cluster_id(), restart = had_log,
            peers_reached = ?reached.keys(), "starting the consensus layer"
        );

        let (machine, published) = StateMachine::new(db.clone(), identity.clone());
        let network = Network {
            channels: channels.clone(),
            identity: identity.clone(),
            urls: Arc::clone(&urls),
            append_timeout: options.election_timeout.0,
        };
        let raft = Raft::new(identity.node_id, config, network, log, machine)
            .await
            .map_err(|e| Error::Storage { path: db.path().to_owned(), reason: e.to_string() })?;

        let cancel = CancellationToken::new();
        let leadership = leadership::follow(&raft, Arc::clone(&urls), cancel.clone());
        let phase = join_group(peers, &raft, had_log, cancel.clone()).await?;
        let (leader_reads, reads) =
            start_reads(&raft, &channels, leadership.clone(), identity.node_id, cancel.clone());
        let stamper = RwLock::new(None);
        let inner = Arc::new(Inner {
            identity, raft, channels, urls, published, leadership, stamper, leader_reads, reads, db, had_log, phase,
            cancel,
        });
        let node = Self { inner };
        tokio::spawn(node.clone().name_cluster());
        Ok(node)
    }

    /// Gives a new cluster its identity, as soon as this node leads. Ends once there is one.
    async fn name_cluster(self) {
        let cancel = self.inner.cancel.clone();
        let work = async {
            let mut state = self.inner.published.state.clone();
            let mut leadership = self.inner.leadership.clone();
            while state.borrow_and_update().cluster_id.is_empty() {
                if leadership.borrow_and_update().is_leader {
                    let request = Request {
                        id: RequestId::new(),
                        now_ms: now_ms(),
                        command: Command::InitCluster { cluster_id: Uuid::new_v4().to_string() },
                    };
                    if let Err(error) = self.propose(request).await {
                        tracing::warn!(%error, "naming the new cluster");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    continue;
                }
                tokio::select! {
                    changed = state.changed() => if changed.is_err() { return },
                    changed = leadership.changed() => if changed.is_err() { return },
                }
            }
        };
        cancel.run_until_cancelled(work).await;
    }

    /// Waits until the group is formed, has a name and a leader.
    ///
    /// # Errors
    /// This node must not take part (see [`RaftNode::start`]; a peer that came up later can be the reason), has
    /// stopped, or `timeout` has passed.
    pub async fn wait_ready(&self, timeout: Duration) -> Result<()> {
        let mut phase = self.inner.phase.clone();
        let mut state = self.inner.published.state.clone();
        let mut leadership = self.inner.leadership.clone();
        let ready = async {
            loop {
                if let Phase::Refused(error) = &*phase.borrow_and_update() {
                    return Err(error.clone());
                }
                if let Some(error) = self.stop_reason() {
                    return Err(error);
                }
                let named = !state.borrow_and_update().cluster_id.is_empty();
                let leader = leadership.borrow_and_update().leader_id.is_some();
                if named && leader {
                    return Ok(());
                }
                tokio::select! {
                    Ok(()) = phase.changed() => {},
                    Ok(()) = state.changed() => {},
                    Ok(()) = leadership.changed() => {},
                    () = tokio::time::sleep(Duration::from_millis(200)) => {},
                }
            }
        };
        tokio::time::timeout(timeout, ready).await.unwrap_or_else(|_| {
            Err(Error::Unavailable(format!(
                "the schedulers {:?} have not formed a group with a leader within {timeout:?}: start all of them",
                self.inner.urls.keys().collect::<Vec<_>>()
            )))
        })
    }

    /// Resolves when this node can no longer take part, with the reason: it was refused, its store failed, or it was
    /// shut down.
    pub async fn stopped(&self) -> Error {
        let mut phase = self.inner.phase.clone();
        let mut metrics = self.inner.raft.metrics();
        loop {
            if let Phase::Refused(error) = &*phase.borrow_and_update() {
                return error.clone();
            }
            if let Some(error) = self.stop_reason() {
                return error;
            }
            tokio::select! {
                Ok(()) = phase.changed() => {},
                changed = metrics.changed() => if changed.is_err() {
                    let reason = "it was shut down".to_owned();
                    return self.stop_reason().unwrap_or(Error::Stopped { node: self.node_id(), reason });
                },
            }
        }
    }

    /// Answers a consensus message of another scheduler.
    ///
    /// # Errors
    /// The message is not for this node, comes from a stranger, cannot be read, or this node has stopped.
    pub async fn handle(&self, message: RaftMessage) -> Result<RaftMessage> {
        if message.kind == kind::IDENTIFY {
            return wire::encode(kind::IDENTIFY, &self.introduce().await?);
        }
        if let Phase::Refused(error) = &*self.inner.phase.borrow() {
            return Err(error.clone());
        }
        let raft = &self.inner.raft;
        match message.kind.as_str() {
            kind::VOTE => {
                let body: VoteRequest<TypeConfig> = self.open_envelope(&message)?;
                let answer = raft.vote(body).await.map_err(|e| self.fatal(&e))?;
                wire::encode(kind::VOTE, &answer)
            }
            kind::APPEND => {
                let body: AppendEntriesRequest<TypeConfig> = self.open_envelope(&message)?;
                let answer = raft.append_entries(body).await.map_err(|e| self.fatal(&e))?;
                wire::encode(kind::APPEND, &answer)
            }
            kind::SNAPSHOT => {
                let body: ReceivedSnapshot = self.open_envelope(&message)?;
                let snapshot = Snapshot { meta: body.meta, snapshot: Arc::new(body.state) };
                let answer = raft.install_full_snapshot(body.vote, snapshot).await.map_err(|e| self.fatal(&e))?;
                wire::encode(kind::SNAPSHOT, &answer)
            }
            other => Err(Error::Refused(format!("unknown kind `{other}`: the schedulers run different releases"))),
        }
    }

    fn open_envelope<T: serde::de::DeserializeOwned>(&self, message: &RaftMessage) -> Result<T> {
        let envelope: Envelope<T> = wire::decode(message)?;
        rules::admit(&self.inner.identity, &self.members(), &envelope)?;
        Ok(envelope.body)
    }

    fn members(&self) -> BTreeMap<u64, Node> {
        let metrics = self.metrics();
        metrics.membership_config.membership().nodes().map(|(id, node)| (*id, node.clone())).collect()
    }

    async fn introduce(&self) -> Result<Introduction> {
        let inner = &self.inner;
        let members: BTreeMap<u64, Node> = inner
            .raft
            .with_raft_state(|state| {
                let effective = state.membership_state.effective();
                effective.membership().nodes().map(|(id, node)| (*id, node.clone())).collect()
            })
            .await
            .map_err(|e| self.fatal(&e))?;
        Ok(Introduction {
            node_id: self.node_id(),
            incarnation: inner.identity.incarnation.to_string(),
            cluster_id: inner.identity.cluster_id().unwrap_or_default().to_owned(),
            has_log: inner.had_log || !members.is_empty() || self.metrics().last_log_index.is_some(),
            members,
            configured: inner.urls.keys().copied().collect(),
        })
    }

    /// What this node knows of its group; answered also before there is one.
    pub fn probe(&self) -> ProbeReply {
        let metrics = self.metrics();
        let leadership = self.inner.leadership.borrow();
        ProbeReply {
            node_id: self.node_id(),
            cluster_id: self.inner.identity.cluster_id().unwrap_or_default().to_owned(),
            formed: self.inner.had_log || metrics.last_log_index.is_some() || metrics.vote.leader_id.term > 0,
            leader_id: leadership.leader_id.unwrap_or_default(),
            leader_url: leadership.leader_url.clone().unwrap_or_default(),
            term: metrics.current_term,
            applied_index: self.applied_index().unwrap_or_default(),
        }
    }

    /// The local state: complete up to some moment, not necessarily up to now (see [`RaftNode::linearizable`]).
    pub fn state(&self) -> Arc<ClusterState> {
        Arc::clone(&self.inner.published.state.borrow())
    }

    /// The local state whenever it changes.
    pub fn watch(&self) -> watch::Receiver<Arc<ClusterState>> {
        self.inner.published.state.clone()
    }

    /// Who leads, whenever that changes.
    pub fn leadership(&self) -> watch::Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// This node's number.
    pub fn node_id(&self) -> u64 {
        self.inner.identity.node_id
    }

    /// A summary for operators.
    pub fn status(&self) -> Status {
        let metrics = self.metrics();
        let mut peers = (*self.inner.urls).clone();
        for (id, node) in self.members() {
            peers.entry(id).or_insert(node.url);
        }
        Status {
            node_id: self.node_id(),
            cluster_id: self.inner.identity.cluster_id().unwrap_or_default().to_owned(),
            role: role(&metrics),
            term: metrics.current_term,
            leader_id: metrics.current_leader,
            applied_index: self.applied_index(),
            last_log_index: metrics.last_log_index,
            peers,
        }
    }

    /// Sets what is called on the leader right before a request is written. It must be quick and must not block.
    pub fn set_stamper(&self, stamper: Stamper) {
        *self.inner.stamper.write() = Some(stamper);
    }

    /// Leaves the group's traffic and releases the data directory. Calls in flight end with an error.
    pub async fn shutdown(&self) {
        self.inner.cancel.cancel();
        if let Err(error) = self.inner.raft.shutdown().await {
            tracing::warn!(%error, "stopping the consensus layer");
        }
        self.inner.db.close().await;
    }

    pub(super) fn metrics(&self) -> RaftMetrics<TypeConfig> {
        self.inner.raft.metrics().borrow_watched().clone()
    }

    pub(super) fn applied_index(&self) -> Option<u64> {
        self.inner.published.applied.borrow().map(|id| id.index)
    }

    /// Why the node no longer works, if so.
    pub(super) fn stop_reason(&self) -> Option<Error> {
        self.metrics().running_state.err().map(|e| self.fatal(&e))
    }

    fn fatal(&self, error: &dyn std::error::Error) -> Error {
        Error::Stopped { node: self.node_id(), reason: error.to_string() }
    }

    pub(super) fn client(
        &self,
        url: &str,
    ) -> Result<ancho_proto::v1::scheduler_client::SchedulerClient<tonic::transport::Channel>> {
        self.inner.channels.client(Use::Metadata, url)
    }
}

impl std::fmt::Debug for RaftNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RaftNode").field("node_id", &self.node_id()).finish_non_exhaustive()
    }
}

/// The leader's clock, milliseconds since the epoch.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn role(metrics: &RaftMetrics<TypeConfig>) -> &'static str {
    if metrics.running_state.is_err() {
        return "stopped";
    }
    match metrics.state {
        ServerState::Leader => "leader",
        ServerState::Follower => "follower",
        ServerState::Candidate => "candidate",
        ServerState::Learner => "learner",
        ServerState::Shutdown => "stopped",
    }
}

/// Opens the directory and reads, or makes, its identity.
async fn open(options: &RaftOptions) -> Result<(Database, Identity)> {
    let dir = options.data_dir.clone();
    let (db, stored) = tokio::task::spawn_blocking(move || Database::open(&dir))
        .await
        .map_err(|e| Error::Storage { path: options.data_dir.clone(), reason: e.to_string() })??;
    let identity = identify(options, &db, stored).await;
    if identity.is_err() {
        db.close().await;
    }
    Ok((db, identity?))
}

async fn identify(options: &RaftOptions, db: &Database, stored: Option<StoredIdentity>) -> Result<Identity> {
    let node_id = options.resolve_node_id(stored.as_ref().map(|s| s.node_id))?;
    let stored = match stored {
        Some(stored) => stored,
        None => {
            let new = StoredIdentity { node_id, incarnation: Uuid::new_v4().to_string(), cluster_id: None };
            let row = new.clone();
            db.run(move |c| {
                let transaction = c.transaction()?;
                database::set(&transaction, key::NODE_ID, &row.node_id.to_string())?;
                database::set(&transaction, key::INCARNATION, &row.incarnation)?;
                transaction.commit()
            })
            .await
            .map_err(|e| Error::Storage { path: db.path().to_owned(), reason: e.to_string() })?;
            new
        }
    };
    Ok(Identity::new(node_id, &stored.incarnation, options.data_dir.clone(), stored.cluster_id))
}

/// Starts what leads to a group: at once for a group of one, in the background for a larger new one, nothing for a
/// directory that has one.
async fn join_group(
    peers: Peers,
    raft: &Raft,
    had_log: bool,
    cancel: CancellationToken,
) -> Result<watch::Receiver<Phase>> {
    let (sender, phase) = watch::channel(if had_log { Phase::Formed } else { Phase::Forming });
    let stopped = |reason: String| Error::Stopped { node: peers.identity.node_id, reason };
    let alone = peers.urls.len() == 1;
    if !had_log {
        tokio::spawn(forming::form(peers, raft.clone(), sender, cancel));
    } else if alone {
        // Nobody else can lead, so there is nothing to wait for. (A member of a larger group ignores the call's effect:
        // it needs the votes of a majority like any other candidate.)
        raft.trigger().elect(false).await.map_err(|e| stopped(e.to_string()))?;
    }
    Ok(phase)
}

//! [`RaftNode`]: one member of the group, as the rest of the scheduler sees it.
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ancho_proto::v1::{ProbeReply, RaftMessage};
use openraft::{
    RaftMetrics, ServerState,
    async_runtime::watch::WatchReceiver,
    raft::{AppendEntriesRequest, VoteRequest},
};
use parking_lot::RwLock;
use serde::Serialize;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    channels::{Channels, Use},
    coalesce::Coalescer,
    database::Database,
    error::{Error, Result},
    forming::Phase,
    identity::Identity,
    leadership::Leadership,
    read::ReadAnswer,
    rules,
    state_machine::Published,
    types::{Node, Raft, Snapshot, TypeConfig},
    wire::{self, Envelope, Introduction, ReceivedSnapshot, kind},
};
use crate::state::{ClusterState, Request};

/// Called on the leader right before a request is written: fills in the time and placement decisions.
pub type Stamper = Arc<dyn Fn(&ClusterState, &mut Request) + Send + Sync>;

/// A member of the group of schedulers. Cheap to clone. Takes part until [`RaftNode::shutdown`] or the end of the
/// runtime, also when no handle is left.
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
    pub(super) db: Database,
    pub(super) had_log: bool,
    pub(super) phase: watch::Receiver<Phase>,
    pub(super) cancel: CancellationToken,
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

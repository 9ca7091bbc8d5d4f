//! Reading: a state that includes everything acknowledged before the question, on any node.
use std::{sync::Arc, time::Duration};

use ancho_common::error::Error as AnchoError;
use ancho_proto::v1::{ReadIndexRequest, read_index_reply};
use openraft::{
    LinearizerOption,
    errors::{LinearizableReadError, RaftError},
};
use tokio::{
    sync::watch,
    time::{Instant, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    channels::{Channels, Use},
    coalesce::Coalescer,
    leadership::Leadership,
    node::RaftNode,
    types::Raft,
};
use crate::state::ClusterState;

/// How long [`RaftNode::linearizable`] keeps trying.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one question to one leader may take.
const ROUND_TIMEOUT: Duration = Duration::from_secs(1);
/// Pause before asking again.
const PAUSE: Duration = Duration::from_millis(25);

/// An index such that a state that has applied it includes everything acknowledged before the question; or why there
/// is none now.
pub(super) type ReadAnswer = Result<u64, String>;

/// Starts the two shared questions: to this node's own log, and to whoever leads.
pub(super) fn start_reads(
    raft: &Raft,
    channels: &Channels,
    leadership: watch::Receiver<Leadership>,
    node_id: u64,
    cancel: CancellationToken,
) -> (Coalescer<ReadAnswer>, Coalescer<ReadAnswer>) {
    let raft = raft.clone();
    let local = Coalescer::start(cancel.clone(), move || {
        let raft = raft.clone();
        async move { confirm_leadership(&raft).await }
    });
    let (channels, own) = (channels.clone(), local.clone());
    let any = Coalescer::start(cancel, move || {
        let (channels, own, known) = (channels.clone(), own.clone(), leadership.borrow().clone());
        async move {
            match known.leader_url {
                _ if known.leader_id == Some(node_id) => {
                    own.ask().await.unwrap_or_else(|| Err("this scheduler is stopping".into()))
                }
                Some(url) => ask_leader(&channels, &url).await,
                None => Err("no leader is known".into()),
            }
        }
    });
    (local, any)
}

/// The commit index, after a majority has confirmed that no later leader can have acknowledged anything.
async fn confirm_leadership(raft: &Raft) -> ReadAnswer {
    // An acknowledgement from before the question is not good enough: clocks and pauses are not trusted.
    let fresh = LinearizerOption::new(Some(Duration::ZERO), true).with_wait_timeout(ROUND_TIMEOUT);
    match timeout(ROUND_TIMEOUT, raft.get_read_linearizer(fresh)).await {
        Ok(Ok(linearizer)) => Ok(linearizer.read_log_id().index()),
        Ok(Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(_)))) => {
            Err("this scheduler does not lead".into())
        }
        Ok(Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_)))) | Err(_) => {
            Err("no majority of schedulers answers".into())
        }
        Ok(Err(error @ RaftError::Fatal(_))) => {
            tracing::error!(%error, "leadership cannot be confirmed");
            Err("the leader has stopped".into())
        }
    }
}

async fn ask_leader(channels: &Channels, url: &str) -> ReadAnswer {
    let mut client = channels.client(Use::Metadata, url).map_err(|e| e.to_string())?;
    let reply = timeout(2 * ROUND_TIMEOUT, client.read_index(ReadIndexRequest {}))
        .await
        .map_err(|_| format!("the leader at {url} did not answer in time"))?
        .map_err(|status| format!("the leader at {url}: {}", status.message()))?
        .into_inner();
    match reply.outcome {
        Some(read_index_reply::Outcome::Index(index)) => Ok(index),
        Some(read_index_reply::Outcome::NotLeader(_)) => Err(format!("the scheduler at {url} does not lead any more")),
        Some(read_index_reply::Outcome::Unavailable(reason)) => Err(reason),
        None => Err(format!("the leader at {url} sent an empty answer")),
    }
}

impl RaftNode {
    /// An index such that a node that has applied it sees everything acknowledged before this call. Asks the leader
    /// once.
    ///
    /// # Errors
    /// `Unavailable`: there is no leader that a majority confirms.
    pub async fn read_index(&self) -> Result<u64, AnchoError> {
        self.ask_read_index().await.map_err(AnchoError::unavailable)
    }

    async fn ask_read_index(&self) -> ReadAnswer {
        self.inner.reads.ask().await.unwrap_or_else(|| Err("this scheduler is stopping".into()))
    }

    /// The local state, once it includes everything that was acknowledged anywhere before this call.
    ///
    /// # Errors
    /// `Unavailable`: no leader that a majority confirms was found in time, or this node does not catch up.
    pub async fn linearizable(&self) -> Result<Arc<ClusterState>, AnchoError> {
        self.linearizable_within(READ_TIMEOUT).await
    }

    /// [`RaftNode::linearizable`] with another limit on the time.
    ///
    /// # Errors
    /// As for [`RaftNode::linearizable`].
    pub async fn linearizable_within(&self, limit: Duration) -> Result<Arc<ClusterState>, AnchoError> {
        let deadline = Instant::now() + limit;
        let mut leadership = self.inner.leadership.clone();
        let mut last = "no leader is known".to_owned();
        loop {
            match timeout_at(deadline, self.ask_read_index()).await {
                Ok(Ok(index)) => return self.state_at(index, deadline, limit).await,
                Ok(Err(reason)) => last = reason,
                Err(_) => {}
            }
            if let Some(error) = self.stop_reason() {
                return Err(error.into());
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(AnchoError::unavailable(format!(
                    "the current state of the cluster could not be confirmed within {limit:?}: {last}; try again"
                )));
            }
            tokio::select! {
                Ok(()) = leadership.changed() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    async fn state_at(&self, index: u64, deadline: Instant, limit: Duration) -> Result<Arc<ClusterState>, AnchoError> {
        let mut applied = self.inner.published.applied.clone();
        match timeout_at(deadline, applied.wait_for(|at| at.is_some_and(|id| id.index >= index))).await {
            Ok(Ok(_)) => Ok(self.state()),
            Ok(Err(_)) => Err(AnchoError::unavailable("this scheduler is stopping")),
            Err(_) => {
                tracing::warn!(needed = index, applied = ?self.applied_index(), "this scheduler is behind the group");
                Err(AnchoError::unavailable(format!(
                    "this scheduler is behind the others and did not catch up within {limit:?}: try again, or ask another scheduler"
                )))
            }
        }
    }
}

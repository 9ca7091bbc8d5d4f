//! From empty directories to a group.
use std::{collections::BTreeMap, sync::Arc, time::Duration};

use ancho_proto::v1::RaftMessage;
use futures::future::join_all;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    channels::{Channels, Use},
    error::{Error, Result},
    identity::Identity,
    rules,
    types::Raft,
    wire::{self, Introduction, kind},
};

/// Longest wait for a peer's answer, connecting included.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two rounds of looking for the peers.
const ROUND: Duration = Duration::from_millis(200);
/// A wait for the peers is logged this often.
const REPORT_EVERY: u32 = 50;

/// Whether this node has a group.
#[derive(Debug, Clone)]
pub(super) enum Phase {
    /// Its log is empty: it looks for its peers.
    Forming,
    /// It has heard of its group, now or in an earlier life.
    Formed,
    /// It must not take part.
    Refused(Error),
}

/// What is needed to find the peers and to judge them.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    pub(super) identity: Identity,
    pub(super) channels: Channels,
    /// All members as configured, this node included.
    pub(super) urls: Arc<BTreeMap<u64, String>>,
}

impl Peers {
    /// Asks every other peer who it is. Those that do not answer are left out.
    ///
    /// # Errors
    /// A peer's answer rules out that this node takes part.
    pub(super) async fn survey(&self) -> Result<BTreeMap<u64, Introduction>> {
        let others = self.urls.iter().filter(|(id, _)| **id != self.identity.node_id);
        let answers = join_all(others.map(|(id, url)| async move { (*id, url, self.identify(url).await) })).await;
        let mut reached = BTreeMap::new();
        for (id, url, answer) in answers {
            match answer {
                Ok(peer) => {
                    rules::check_peer(&self.identity, id, url, &peer)?;
                    reached.insert(id, peer);
                }
                Err(error) => tracing::debug!(node = id, %url, %error, "a scheduler peer does not answer"),
            }
        }
        Ok(reached)
    }

    async fn identify(&self, url: &str) -> Result<Introduction> {
        let question = RaftMessage { kind: kind::IDENTIFY.to_owned(), payload: Default::default() };
        let mut client = self.channels.client(Use::Metadata, url)?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, client.raft(question))
            .await
            .map_err(|_| Error::Unavailable(format!("no answer within {ANSWER_TIMEOUT:?}")))?
            .map_err(|status| Error::Unavailable(status.to_string()))?;
        wire::decode(&answer.into_inner())
    }

    fn missing(&self, reached: &BTreeMap<u64, Introduction>) -> Vec<u64> {
        self.urls.keys().filter(|id| **id != self.identity.node_id && !reached.contains_key(id)).copied().collect()
    }
}

/// Looks for the peers until the group is formed, by this node or by another, or until it is clear that this node has
/// no place in it.
pub(super) async fn form(peers: Peers, raft: Raft, phase: watch::Sender<Phase>, cancel: CancellationToken) {
    let mut round: u32 = 0;
    loop {
        match attempt(&peers, &raft, round).await {
            Ok(false) => {}
            Ok(true) => {
                phase.send_replace(Phase::Formed);
                return;
            }
            Err(error) => {
                tracing::error!(%error, "this scheduler takes no part in the group");
                phase.send_replace(Phase::Refused(error));
                return;
            }
        }
        round = round.wrapping_add(1);
        if cancel.run_until_cancelled(tokio::time::sleep(ROUND)).await.is_none() {
            return;
        }
    }
}

/// One round. `true` once this node has a group.
async fn attempt(peers: &Peers, raft: &Raft, round: u32) -> Result<bool> {
    if has_members(raft, peers).await? {
        return Ok(true);
    }
    let reached = peers.survey().await?;
    if let Some(members) = rules::first_members(&peers.identity, &peers.urls, &reached) {
        tracing::info!(members = ?members.keys(), "all schedulers are here and new: forming the group");
        if let Err(error) = raft.initialize(members).await {
            // Also when a message of the group came in between: then there is one.
            tracing::info!(%error, "the group was not formed by this node");
        }
        return has_members(raft, peers).await;
    }
    if round % REPORT_EVERY == REPORT_EVERY - 1 {
        let missing = peers.missing(&reached);
        let unlike: Vec<u64> =
            reached.iter().filter(|(_, p)| !p.configured.iter().eq(peers.urls.keys())).map(|(id, _)| *id).collect();
        tracing::warn!(?missing, configured_with_other_peers = ?unlike, "waiting for the other schedulers to form the group");
    }
    Ok(false)
}

async fn has_members(raft: &Raft, peers: &Peers) -> Result<bool> {
    raft.with_raft_state(|state| state.membership_state.effective().membership().nodes().next().is_some())
        .await
        .map_err(|e| Error::Stopped { node: peers.identity.node_id, reason: e.to_string() })
}

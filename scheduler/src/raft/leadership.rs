//! Who leads the group, as a watch that changes only when the answer does.
use std::{collections::BTreeMap, sync::Arc};

use openraft::{RaftMetrics, ServerState, async_runtime::watch::WatchReceiver};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::types::{Raft, TypeConfig};

/// What this node believes about the leader.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leadership {
    /// The leader, if one is known. It may have lost its office already.
    pub leader_id: Option<u64>,
    /// Its internal service.
    pub leader_url: Option<String>,
    /// This node leads, and its state includes everything that earlier leaders committed.
    pub is_leader: bool,
    /// Number of the current term; grows with every election.
    pub term: u64,
}

impl Leadership {
    pub(super) fn read(metrics: &RaftMetrics<TypeConfig>, urls: &BTreeMap<u64, String>) -> Self {
        let leader_id = metrics.current_leader;
        let leader_url = leader_id.and_then(|id| {
            let member = || metrics.membership_config.membership().get_node(&id).map(|node| node.url.clone());
            urls.get(&id).cloned().or_else(member)
        });
        // The blank entry of its own term comes after all entries of earlier terms: with it applied, nothing that was
        // acknowledged is missing.
        let caught_up = metrics
            .last_applied
            .is_some_and(|id| id.leader_id.term == metrics.current_term && id.leader_id.node_id == metrics.id);
        let is_leader = metrics.running_state.is_ok()
            && metrics.state == ServerState::Leader
            && leader_id == Some(metrics.id)
            && caught_up;
        Self { leader_id, leader_url, is_leader, term: metrics.current_term }
    }
}

/// Follows the node's metrics until it stops.
pub(super) fn follow(
    raft: &Raft,
    urls: Arc<BTreeMap<u64, String>>,
    cancel: CancellationToken,
) -> watch::Receiver<Leadership> {
    let mut metrics = raft.metrics();
    let (sender, receiver) = watch::channel(Leadership::read(&metrics.borrow_watched(), &urls));
    tokio::spawn(async move {
        let publish = |now: Leadership| {
            sender.send_if_modified(|current| {
                let changed = *current != now;
                *current = now;
                changed
            })
        };
        while let Some(Ok(())) = cancel.run_until_cancelled(metrics.changed()).await {
            let now = Leadership::read(&metrics.borrow_watched(), &urls);
            publish(now);
        }
        let term = sender.borrow().term;
        publish(Leadership { term, ..Leadership::default() });
    });
    receiver
}

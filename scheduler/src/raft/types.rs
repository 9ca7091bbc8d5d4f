//! The types that openraft is instantiated with, named once.
// The runtime that the macro fills in by default is re-exported under a deprecated name.
#![allow(deprecated, reason = "openraft's own macro names its runtime by the deprecated path")]
use std::fmt;

use openraft::{impls::leader_id_adv, vote::RaftLeaderId};
use serde::{Deserialize, Serialize};

use super::state_machine::StateMachine;
use crate::state::{Request, Response};

openraft::declare_raft_types!(
    /// Requests in, responses out, nodes known by number.
    pub TypeConfig:
        D = Request,
        R = Response,
        NodeId = u64,
        Node = Node
);

/// A member of the group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The internal service of the member.
    pub url: String,
    /// The data directory that holds the member's log. A wiped directory gets another one, and is then a stranger
    /// to the group: it cannot vote away what its predecessor had acknowledged.
    pub incarnation: String,
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {}", self.id)
    }
}

pub(super) type LeaderId = leader_id_adv::LeaderId<u64, u64>;
pub(super) type CommittedLeaderId = <LeaderId as RaftLeaderId>::Committed;
pub(super) type LogId = openraft::LogId<CommittedLeaderId>;
pub(super) type Vote = openraft::Vote<LeaderId>;
pub(super) type Payload = openraft::EntryPayload<Request, u64, Node>;
pub(super) type Entry = openraft::Entry<CommittedLeaderId, Payload>;
pub(super) type StoredMembership = openraft::StoredMembership<CommittedLeaderId, u64, Node>;
pub(super) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId, u64, Node>;
pub(super) type SnapshotData = std::sync::Arc<crate::state::ClusterState>;
pub(super) type Snapshot = openraft::Snapshot<CommittedLeaderId, u64, Node, SnapshotData>;
pub(super) type Raft = openraft::Raft<TypeConfig, StateMachine>;

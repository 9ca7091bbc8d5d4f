//! What schedulers say to each other inside an opaque [`RaftMessage`](ancho_proto::v1::RaftMessage).
use std::collections::BTreeMap;

use ancho_proto::v1::RaftMessage;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    error::{Error, Result},
    types::{Node, SnapshotMeta, Vote},
};
use crate::state::ClusterState;

/// Kinds of messages.
pub(super) mod kind {
    pub(in crate::raft) const VOTE: &str = "vote";
    pub(in crate::raft) const APPEND: &str = "append";
    pub(in crate::raft) const SNAPSHOT: &str = "snapshot";
    /// Who are you: [`super::Introduction`] as the answer. The only kind that needs no envelope.
    pub(in crate::raft) const IDENTIFY: &str = "identify";
}

/// A consensus message with the identity of both ends, so that a directory of another cluster, a wiped directory or
/// a wrong address never takes part in a vote.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Envelope<T> {
    pub(super) from: u64,
    pub(super) from_incarnation: String,
    pub(super) to: u64,
    pub(super) to_incarnation: String,
    /// Empty until the sender knows it.
    pub(super) cluster_id: String,
    pub(super) body: T,
}

/// A snapshot on its way to a follower.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SnapshotMessage<S> {
    pub(super) vote: Vote,
    pub(super) meta: SnapshotMeta,
    pub(super) state: S,
}

pub(super) type ReceivedSnapshot = SnapshotMessage<ClusterState>;

/// What a node says of itself, also before there is a group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Introduction {
    pub(super) node_id: u64,
    pub(super) incarnation: String,
    /// Empty until known.
    pub(super) cluster_id: String,
    /// Its log holds, or held, at least one entry.
    pub(super) has_log: bool,
    /// The members it knows of; empty before the group is formed.
    pub(super) members: BTreeMap<u64, Node>,
    /// Numbers of the peers it is configured with.
    pub(super) configured: Vec<u64>,
}

pub(super) fn encode<T: Serialize>(kind: &str, body: &T) -> Result<RaftMessage> {
    let payload = serde_json::to_vec(body)
        .map_err(|e| Error::Decode { what: format!("consensus message `{kind}`"), reason: e.to_string() })?;
    Ok(RaftMessage { kind: kind.to_owned(), payload: payload.into() })
}

pub(super) fn decode<T: DeserializeOwned>(message: &RaftMessage) -> Result<T> {
    serde_json::from_slice(&message.payload).map_err(|e| Error::Decode {
        what: format!("consensus message `{}` ({} bytes)", message.kind, message.payload.len()),
        reason: e.to_string(),
    })
}

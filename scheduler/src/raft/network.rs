//! Consensus messages to the other members, over the internal gRPC service.
use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

use openraft::{
    OptionalSend,
    errors::{RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable},
    network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2},
    raft::{AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, VoteRequest, VoteResponse},
};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    channels::{Channels, Use},
    identity::Identity,
    types::{Node, Snapshot, SnapshotData, TypeConfig, Vote},
    wire::{self, Envelope, SnapshotMessage, kind},
};

/// Makes a [`Peer`] per member and use.
#[derive(Debug, Clone)]
pub(super) struct Network {
    pub(super) channels: Channels,
    pub(super) identity: Identity,
    /// Where to find the members now; the member list may hold an address from before a move.
    pub(super) urls: Arc<BTreeMap<u64, String>>,
    /// Time for a batch of entries to arrive and become durable.
    pub(super) append_timeout: Duration,
}

impl Network {
    fn peer(&self, target: u64, node: &Node, purpose: Use) -> Peer {
        Peer {
            network: self.clone(),
            target,
            incarnation: node.incarnation.clone(),
            url: self.urls.get(&target).unwrap_or(&node.url).clone(),
            purpose,
            reported: None,
        }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = Peer;

    async fn new_client(&mut self, target: u64, node: &Node) -> Peer {
        self.peer(target, node, Use::Consensus)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &Node) -> Peer {
        self.peer(target, node, Use::Heartbeat)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &Node) -> Peer {
        self.peer(target, node, Use::Snapshot)
    }
}

/// One member, as a target of consensus messages.
#[derive(Debug)]
pub(super) struct Peer {
    network: Network,
    target: u64,
    incarnation: String,
    url: String,
    purpose: Use,
    /// The last refusal that was logged, so that a lasting one is logged once.
    reported: Option<String>,
}

impl Peer {
    async fn call<T, R>(
        &mut self,
        kind: &'static str,
        action: RPCTypes,
        body: T,
        timeout: Duration,
    ) -> Result<R, RPCError<TypeConfig>>
    where
        T: Serialize,
        R: DeserializeOwned,
    {
        let identity = &self.network.identity;
        let envelope = Envelope {
            from: identity.node_id,
            from_incarnation: identity.incarnation.to_string(),
            to: self.target,
            to_incarnation: self.incarnation.clone(),
            cluster_id: identity.cluster_id().unwrap_or_default().to_owned(),
            body,
        };
        let message = wire::encode(kind, &envelope).map_err(|e| self.unreachable(&e))?;
        let mut client = self.network.channels.client(self.purpose, &self.url).map_err(|e| self.unreachable(&e))?;
        let reply = match tokio::time::timeout(timeout, client.raft(message)).await {
            Err(_) => {
                let id = self.network.identity.node_id;
                return Err(RPCError::Timeout(Timeout { action, id, target: self.target, timeout }));
            }
            Ok(Err(status)) => {
                if status.code() == tonic::Code::InvalidArgument {
                    self.report_refusal(status.message());
                }
                return Err(self.unreachable(&status));
            }
            Ok(Ok(reply)) => reply.into_inner(),
        };
        self.reported = None;
        wire::decode(&reply).map_err(|e| self.unreachable(&e))
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> RPCError<TypeConfig> {
        RPCError::Unreachable(Unreachable::from_string(format!("node {} at {}: {error}", self.target, self.url)))
    }

    fn report_refusal(&mut self, reason: &str) {
        if self.reported.as_deref() != Some(reason) {
            tracing::warn!(node = self.target, url = %self.url, reason, "a scheduler refuses our consensus messages");
            self.reported = Some(reason.to_owned());
        }
    }
}

impl RaftNetworkV2<TypeConfig> for Peer {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        // A sign of life must be quick; entries have to reach the follower's disk.
        let timeout =
            if rpc.entries.is_empty() { option.soft_ttl() } else { option.soft_ttl().max(self.network.append_timeout) };
        self.call(kind::APPEND, RPCTypes::AppendEntries, rpc, timeout).await
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        self.call(kind::VOTE, RPCTypes::Vote, rpc, option.soft_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        let body = SnapshotMessage { vote, meta: snapshot.meta, state: &*snapshot.snapshot };
        let call = self.call(kind::SNAPSHOT, RPCTypes::InstallSnapshot, body, option.soft_ttl());
        tokio::select! {
            closed = cancel => Err(StreamingError::Closed(closed)),
            answer = call => Ok(answer?),
        }
    }
}

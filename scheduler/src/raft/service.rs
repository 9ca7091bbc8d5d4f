//! The internal gRPC service of a scheduler.
use std::{pin::Pin, sync::Arc};

use ancho_common::{error::Error as AnchoError, ids::TableId, partition::PartitionKey, plan::router::Route};
use ancho_proto::v1::{
    EnsurePartitionsReply, EnsurePartitionsRequest, NotLeader, ProbeReply, ProbeRequest, ProposeReply, ProposeRequest,
    RaftMessage, ReadIndexReply, ReadIndexRequest, SessionDown, SessionUp, propose_reply, read_index_reply,
    scheduler_server::{Scheduler, SchedulerServer},
};
use async_trait::async_trait;
use futures::Stream;
use tokio::time::Instant;
use tonic::{Response, Status, Streaming};

use super::{
    node::RaftNode,
    propose::{ATTEMPT_TIMEOUT, Attempt},
};
use crate::state::Request;

/// Largest message of the service: a snapshot of the whole state must fit.
pub const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// What a scheduler sends down an executor's session.
pub type SessionStream = Pin<Box<dyn Stream<Item = Result<SessionDown, Status>> + Send + 'static>>;

/// Holds the sessions of executors.
#[async_trait]
pub trait SessionHandler: Send + Sync + 'static {
    /// Serves one session until it ends.
    ///
    /// # Errors
    /// The session cannot be opened; refusals that the executor should act on travel inside the stream.
    async fn session(&self, inbound: Streaming<SessionUp>) -> Result<Response<SessionStream>, Status>;
}

/// Implements the service by way of the consensus layer and a [`SessionHandler`].
#[derive(Clone)]
pub struct SchedulerService {
    node: RaftNode,
    sessions: Arc<dyn SessionHandler>,
}

impl SchedulerService {
    /// A service for this node.
    pub fn new(node: RaftNode, sessions: Arc<dyn SessionHandler>) -> Self {
        Self { node, sessions }
    }

    /// The service with its message limits, to be added to a server.
    pub fn into_server(self) -> SchedulerServer<Self> {
        SchedulerServer::new(self)
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES)
    }

    async fn propose_forwarded(&self, request: Request) -> Result<propose_reply::Outcome, Status> {
        // The forwarder waits a little longer than this, so that it hears how the attempt ended.
        let deadline = Instant::now() + ATTEMPT_TIMEOUT.mul_f32(0.9);
        Ok(match self.node.propose_as_leader(request, deadline).await {
            Attempt::Applied(response) => propose_reply::Outcome::Response(encode(&response)?),
            Attempt::NotLeader(leader) => propose_reply::Outcome::NotLeader(not_leader(leader)),
            Attempt::NotSent(_) => propose_reply::Outcome::NotLeader(NotLeader::default()),
            Attempt::Unknown(reason) => propose_reply::Outcome::Unknown(reason),
        })
    }
}

#[async_trait]
impl Scheduler for SchedulerService {
    async fn raft(&self, request: tonic::Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        Ok(Response::new(self.node.handle(request.into_inner()).await?))
    }

    async fn probe(&self, _: tonic::Request<ProbeRequest>) -> Result<Response<ProbeReply>, Status> {
        Ok(Response::new(self.node.probe()))
    }

    async fn propose(&self, request: tonic::Request<ProposeRequest>) -> Result<Response<ProposeReply>, Status> {
        let message = request.into_inner();
        let request: Request = serde_json::from_slice(&message.request)
            .map_err(|e| AnchoError::invalid(format!("the proposed request cannot be read: {e}")))?;
        let outcome = if message.forwarded {
            self.propose_forwarded(request).await?
        } else {
            propose_reply::Outcome::Response(encode(&self.node.propose(request).await?)?)
        };
        Ok(Response::new(ProposeReply { outcome: Some(outcome) }))
    }

    async fn read_index(&self, _: tonic::Request<ReadIndexRequest>) -> Result<Response<ReadIndexReply>, Status> {
        let leadership = self.node.inner.leadership.borrow().clone();
        let outcome = if leadership.leader_id == Some(self.node.node_id()) {
            match self.node.inner.leader_reads.ask().await {
                Some(Ok(index)) => read_index_reply::Outcome::Index(index),
                Some(Err(reason)) => read_index_reply::Outcome::Unavailable(reason),
                None => read_index_reply::Outcome::Unavailable("the leader is stopping".into()),
            }
        } else {
            read_index_reply::Outcome::NotLeader(not_leader(leadership.leader_id.zip(leadership.leader_url)))
        };
        Ok(Response::new(ReadIndexReply { outcome: Some(outcome) }))
    }

    async fn ensure_partitions(
        &self,
        request: tonic::Request<EnsurePartitionsRequest>,
    ) -> Result<Response<EnsurePartitionsReply>, Status> {
        let message = request.into_inner();
        let table = TableId(message.table_id);
        let keys = message
            .keys
            .iter()
            .map(|text| {
                serde_json::from_str(text).map_err(|e| {
                    AnchoError::invalid(format!("table {table}: partition key `{text}` cannot be read: {e}"))
                })
            })
            .collect::<Result<Vec<PartitionKey>, AnchoError>>()?;
        let routes = self.node.ensure_partitions(table, keys).await?;
        Ok(Response::new(EnsurePartitionsReply { routes: routes.iter().map(Route::to_proto).collect() }))
    }

    type SessionStream = SessionStream;

    async fn session(
        &self,
        request: tonic::Request<Streaming<SessionUp>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        self.sessions.session(request.into_inner()).await
    }
}

fn not_leader(leader: Option<(u64, String)>) -> NotLeader {
    let (leader_id, leader_url) = leader.unwrap_or_default();
    NotLeader { leader_id, leader_url }
}

fn encode<T: serde::Serialize>(value: &T) -> Result<bytes::Bytes, AnchoError> {
    serde_json::to_vec(value).map(Into::into).map_err(|e| AnchoError::internal(format!("encoding an answer: {e}")))
}

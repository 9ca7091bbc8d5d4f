//! What the query path asks of the replicated log: changes, and partitions that a write meets for the first time.
use ancho_common::{
    error::{Error, Result},
    ids::{RequestId, TableId},
    partition::PartitionKey,
    plan::router::{PartitionAssigner, Route},
};
use async_trait::async_trait;

use crate::{
    raft::RaftNode,
    state::{Command, Outcome, Request},
};

/// Through this scheduler, wherever the leader is.
#[derive(Debug, Clone)]
pub struct RaftAssigner {
    node: RaftNode,
}

impl RaftAssigner {
    /// Through this node.
    #[must_use]
    pub fn new(node: RaftNode) -> Self {
        Self { node }
    }
}

#[async_trait]
impl PartitionAssigner for RaftAssigner {
    async fn ensure(&self, table: TableId, keys: &[PartitionKey]) -> Result<Vec<Route>> {
        self.node.ensure_partitions(table, keys.to_vec()).await
    }
}

/// Applies a command once and returns what it did.
///
/// # Errors
/// Refusals of the state machine; `Unavailable` or `Unknown` where the log could not be reached.
pub async fn propose(node: &RaftNode, command: Command) -> Result<Outcome> {
    let request = Request { id: RequestId::new(), now_ms: 0, command };
    let id = request.id;
    let response = node.propose(request).await.map_err(|e| e.context(&format!("request {id}")))?;
    response.outcome.map_err(Error::from)
}

//! Places partitions that a write meets for the first time: one entry of the replicated log for all of them.
use ancho_common::{
    error::{Error, Result},
    ids::{RequestId, TableId},
    partition::PartitionKey,
    plan::router::{PartitionAssigner, Route},
};
use async_trait::async_trait;

use crate::{
    raft::RaftNode,
    state::{AssignedPartition, ClusterState, Command, NewPartition, Outcome, Request},
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
        let partitions = keys.iter().map(|key| NewPartition { key: key.clone(), owners: Vec::new() }).collect();
        let outcome = propose(&self.node, Command::EnsurePartitions { table, partitions }).await?;
        let Outcome::Partitions { partitions } = outcome else {
            return Err(Error::internal("the answer to a request for partitions is of another kind"));
        };
        let state = self.node.state();
        partitions.iter().map(|p| route(&state, p)).collect()
    }
}

fn route(state: &ClusterState, partition: &AssignedPartition) -> Result<Route> {
    let owner = partition.owners.first().and_then(|id| state.executors.get(id)).ok_or_else(|| {
        Error::unavailable(format!("no executor is up to take partition {}; try again", partition.partition))
    })?;
    Ok(Route {
        key: partition.key.clone(),
        partition: partition.partition,
        epoch: partition.epoch,
        executor: owner.id.clone(),
        url: owner.url.clone(),
    })
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

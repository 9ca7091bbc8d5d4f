//! Partitions for keys that a write meets for the first time: one entry of the log for all of them.
use ancho_common::{
    error::{Error, Result},
    ids::{RequestId, TableId},
    partition::PartitionKey,
    plan::router::Route,
};

use super::node::RaftNode;
use crate::state::{AssignedPartition, ClusterState, Command, NewPartition, Outcome, Request};

impl RaftNode {
    /// The partitions of these keys and who takes their writes, in the order of the keys. Missing ones are created, and
    /// placed by the leader.
    ///
    /// # Errors
    /// `NotFound`: the table is gone. `Unavailable`: a partition has no owner, or the log cannot be reached.
    pub async fn ensure_partitions(&self, table: TableId, keys: Vec<PartitionKey>) -> Result<Vec<Route>> {
        let partitions = keys.into_iter().map(|key| NewPartition { key, owners: Vec::new() }).collect();
        let command = Command::EnsurePartitions { table, partitions };
        let response = self.propose(Request { id: RequestId::new(), now_ms: 0, command }).await?;
        let Outcome::Partitions { partitions } = response.outcome.map_err(Error::from)? else {
            return Err(Error::internal("the answer to a request for partitions is of another kind"));
        };
        let state = self.state();
        partitions.into_iter().map(|partition| route(&state, table, partition)).collect()
    }
}

fn route(state: &ClusterState, table: TableId, partition: AssignedPartition) -> Result<Route> {
    let owner = partition.owners.first().and_then(|id| state.executors.get(id)).ok_or_else(|| {
        let name = state.tables.get(&table).map_or_else(|| table.to_string(), |t| t.name.to_string());
        Error::unavailable(format!(
            "table {name}: no executor is up to take the new partition {}; try again",
            partition.key.display()
        ))
    })?;
    Ok(Route {
        partition: partition.partition,
        epoch: partition.epoch,
        executor: owner.id.clone(),
        url: owner.url.clone(),
        key: partition.key,
    })
}

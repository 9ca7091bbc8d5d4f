//! The one view of the cluster that a query plans on: committed versions and owners, taken once.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, WriteId},
    plan::{
        host::ScanPartition,
        scan::{PlacedPartition, Slot},
        session::plan_key,
    },
};

use super::partitioners::Partitioners;
use crate::{
    sessions::unserved,
    state::{ClusterState, Partition, Table},
};

/// In every query's session; all scans of the query see exactly these versions.
#[derive(Debug, Clone)]
pub struct Topology {
    /// The state the query sees.
    pub state: Arc<ClusterState>,
    /// Streams per task.
    pub streams: usize,
    /// Checked partition expressions.
    pub partitioners: Partitioners,
    /// Everything above the scans runs in the scheduler, on one stream.
    pub gather: bool,
    /// Scans tell the planner the bounds of columns.
    pub bounds: bool,
    /// What the transaction that plans has staged, by partition; nothing outside of one.
    pub staged: Arc<StagedWrites>,
}

/// The staged write in each partition that a transaction has changed.
pub type StagedWrites = BTreeMap<PartitionId, WriteId>;

impl Topology {
    /// What to read of a partition, and where.
    ///
    /// # Errors
    /// `Unavailable`, naming table and partition, where no owner can serve it now.
    pub fn place(&self, table: &Table, partition: &Partition) -> Result<PlacedPartition> {
        let Some(owner) = self.state.serving_owner(partition) else {
            return Err(unserved(&self.state, table, partition));
        };
        if owner.plan_key != plan_key() {
            return Err(Error::unavailable(format!(
                "table {}: executor {} runs {}, this scheduler runs {}; bring both to one release",
                table.name,
                owner.url,
                owner.plan_key,
                plan_key()
            )));
        }
        let write_id = partition.commits.iter().rev().find(|c| c.version == partition.version).map(|c| c.write_id);
        let bucket = match partition.key.0.as_slice() {
            [Some(text)] => text.parse().ok(),
            _ => None,
        };
        Ok(PlacedPartition {
            scan: ScanPartition {
                partition: partition.id,
                epoch: partition.epoch,
                version: partition.version,
                write_id,
                staged: self.staged.get(&partition.id).copied(),
            },
            owner: Slot { executor: owner.id.0.clone(), url: owner.url.clone() },
            bucket,
        })
    }
}

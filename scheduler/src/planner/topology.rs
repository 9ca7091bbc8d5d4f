//! The one view of the cluster that a query plans on: committed versions and owners, taken once.
use std::sync::Arc;

use ancho_common::{
    error::{Error, ErrorKind, Result},
    plan::{
        host::ScanPartition,
        scan::{PlacedPartition, Slot},
        session::plan_key,
    },
};

use super::partitioners::Partitioners;
use crate::state::{ClusterState, Liveness, Partition, Table};

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
}

impl Topology {
    /// What to read of a partition, and where.
    ///
    /// # Errors
    /// `Unavailable`, naming table and partition, where no owner can serve it now.
    pub fn place(&self, table: &Table, partition: &Partition, described: &str) -> Result<PlacedPartition> {
        let Some(owner) = self.state.serving_owner(partition) else {
            return Err(self.not_served(table, partition, described));
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
            },
            owner: Slot { executor: owner.id.0.clone(), url: owner.url.clone() },
            bucket,
        })
    }

    fn not_served(&self, table: &Table, partition: &Partition, described: &str) -> Error {
        let place = format!("table {}: partition {} ({described})", table.name, partition.id);
        let mut damaged = !partition.owners.is_empty();
        let mut holders = Vec::with_capacity(partition.owners.len());
        for id in &partition.owners {
            let executor = self.state.executors.get(id);
            let hindrance = executor
                .filter(|e| e.liveness == Liveness::Up)
                .and_then(|e| e.hindered.get(&partition.id))
                .map(|reason| Error::from_text(reason, ErrorKind::Unavailable));
            damaged &= hindrance.as_ref().is_some_and(|h| h.kind == ErrorKind::Corrupt);
            holders.push(match (executor, hindrance) {
                (Some(e), Some(hindrance)) => format!("executor {} cannot serve it: {}", e.url, hindrance.message),
                (Some(e), None) if e.liveness == Liveness::Up => format!("executor {} is still loading it", e.url),
                (Some(e), None) => format!("executor {} is down", e.url),
                (None, _) => format!("executor {id} is gone"),
            });
        }
        let why = holders.join(", ");
        if damaged {
            // Waiting mends nothing.
            return Error::corrupt(format!("{place} is damaged: {why}"));
        }
        let why = if holders.is_empty() { "no executor holds it" } else { &why };
        Error::unavailable(format!("{place} cannot be read now: {why}; try again"))
    }
}

//! The right to publish snapshots of a table: taken, kept up and given back through the log.
use std::time::Duration;

use ancho_common::{
    error::{Error, Result},
    ids::TableId,
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    query::assigner::propose,
    raft::RaftNode,
    state::{Command, Outcome},
};

/// How long a lease lasts without a renewal.
pub const LEASE: Duration = Duration::from_secs(30);

/// A lease that is held.
#[derive(Debug)]
pub struct Lease {
    node: RaftNode,
    table: TableId,
    epoch: u64,
    renewal: AbortOnDropHandle<()>,
}

impl Lease {
    /// Takes the lease of a table.
    ///
    /// # Errors
    /// `Conflict`, naming another holder; `NotFound`; those of the log.
    pub async fn take(node: &RaftNode, table: TableId, holder: &str) -> Result<Self> {
        let command = Command::TakeSnapshotLease { table, holder: holder.to_owned(), length_ms: millis(LEASE) };
        let Outcome::Lease { epoch } = propose(node, command).await? else {
            return Err(Error::internal("the answer to a lease is of another kind"));
        };
        let renewing = node.clone();
        let renewal = async move {
            loop {
                tokio::time::sleep(LEASE / 3).await;
                let command = Command::RenewSnapshotLease { table, epoch, length_ms: millis(LEASE) };
                // One that was taken over is found out by whatever is published under it.
                if let Err(error) = propose(&renewing, command).await {
                    tracing::warn!(%table, epoch, %error, "the lease for a snapshot could not be renewed");
                }
            }
        };
        Ok(Self { node: node.clone(), table, epoch, renewal: AbortOnDropHandle::new(tokio::spawn(renewal)) })
    }

    /// What its changes are known by.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Gives it back, so that others need not wait for its end.
    pub async fn release(self) {
        self.renewal.abort();
        let command = Command::ReleaseSnapshotLease { table: self.table, epoch: self.epoch };
        if let Err(error) = propose(&self.node, command).await {
            tracing::debug!(table = %self.table, %error, "a lease for a snapshot will end by itself");
        }
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

//! Staged writes become versions. Versions follow each other without a gap: a version is published only when all
//! before it are, because skipping one would silently leave out its rows.
use std::sync::Arc;

use ancho_common::{
    alter::ColumnChange,
    error::{Error, Result},
    ids::{PartitionId, WriteId},
};
use cayenne::{Partition, Published, RowOrder, Tuning};
use tracing::{info, warn};

use crate::ingest::effect::Effect;

use super::{PartitionHost, columns::schema_change, from_storage, slot::Slot};

impl PartitionHost {
    /// Makes a committed write visible at its version, and the known ones before it. Asking again is fine.
    ///
    /// # Errors
    /// `StaleRoute` when the partition, the write or a version before it is not here.
    pub async fn publish(&self, partition: PartitionId, version: u64, write: WriteId) -> Result<()> {
        let slot = self.slot(partition).ok_or_else(|| self.unknown(partition))?;
        self.reach(&slot, version, Some(write)).await.map(|_| ())
    }

    /// Checks a staged write against everything published up to a committed version, which `made_by` made. Answers the
    /// version that it may be committed on, and what it does there.
    ///
    /// # Errors
    /// `Conflict` when another write changed a row that this one deletes; `StaleRoute` when the partition, the write or the
    /// version is not here.
    pub(crate) async fn rebase(
        &self,
        partition: PartitionId,
        epoch: u64,
        version: u64,
        made_by: Option<WriteId>,
        write: WriteId,
    ) -> Result<(u64, Effect)> {
        let slot = self.slot(partition).ok_or_else(|| self.unknown(partition))?;
        self.check_held(partition, epoch)?;
        let stored = self.reach(&slot, version, made_by).await?;
        // Nothing is published meanwhile.
        let _work = slot.work.lock().await;
        let current = stored.version();
        let checked = stored.rebase(write.0, current).await;
        let written = checked.map_err(|e| from_storage(&format!("checking write {write}"), e))?;
        Ok((current, Effect::of(&written)))
    }

    /// Brings a partition to at least a version, whose write may be named.
    pub(super) async fn reach(&self, slot: &Arc<Slot>, version: u64, write: Option<WriteId>) -> Result<Partition> {
        let partition = slot.partition()?;
        if let (Some(asked), Some(known)) = (write, slot.write_of(version))
            && asked != known
        {
            return Err(Error::corrupt(format!(
                "{}: version {version} is write {known} on executor {} and write {asked} for the caller; they belong \
                 to different histories",
                slot.place(),
                self.executor_id
            )));
        }
        if partition.version() >= version {
            return Ok(partition);
        }
        let deadline = tokio::time::Instant::now() + self.options.version_wait;
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let advanced = {
                let _work = slot.work.lock().await;
                advance(slot, &partition, version, write.map(|id| (version, id))).await
            };
            match advanced {
                Ok(None) => self.renew_report(),
                Ok(Some(newest)) => {
                    self.note_written(&partition);
                    if partition.version() == slot.committed() {
                        slot.caught_up();
                    }
                    self.announce();
                    // Without the lock: other versions that come meanwhile become durable together.
                    durable(newest).await?;
                }
                Err(error) => {
                    self.renew_report();
                    return Err(error);
                }
            }
            if partition.version() >= version {
                return Ok(partition);
            }
            // The write of a version in between is on its way, or is gone; only time tells.
            if !matches!(tokio::time::timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                return Err(Error::stale_route(format!(
                    "{}: version {version} is not on executor {}, which has version {}; read the routes again",
                    slot.place(),
                    self.executor_id,
                    partition.version()
                )));
            }
        }
    }
}

/// Publishes what is staged and known to be committed, up to and including `target`. Answers the newest version that was
/// made, to be waited for until it is durable. To be called with the slot's work lock held.
pub(super) async fn advance(
    slot: &Slot,
    partition: &Partition,
    target: u64,
    named: Option<(u64, WriteId)>,
) -> Result<Option<Published>> {
    let mut newest = None;
    while let Some((next, write)) = slot.next_version(partition, target, named) {
        if let Some(change) = slot.change_of(write) {
            // Nobody stages a change of columns: its owners make it when they come to it.
            let altered = alter(partition, write, &change).await;
            altered.map_err(|e| from_storage(&format!("changing columns for version {next}"), e))?;
        }
        let published = partition.publish_soon(write.0, next).await;
        newest = Some(published.map_err(|e| from_storage(&format!("publishing version {next}"), e))?);
        slot.published(next, write);
        info!(place = %slot.place(), version = next, write = %write, "published");
    }
    Ok(newest)
}

/// Waits until a version that was made is durable, and all before it.
pub(super) async fn durable(newest: Published) -> Result<()> {
    newest.durable().await.map_err(|e| from_storage("syncing a version", e))
}

async fn alter(partition: &Partition, write: WriteId, change: &ColumnChange) -> cayenne::Result<()> {
    // The order of rows comes with the parameters, after all changes. A former one must not stand in the way.
    partition.tune(Tuning { row_order: RowOrder::Arrival, ..partition.tuning().as_ref().clone() })?;
    partition.alter(write.0, schema_change(&partition.schema(), change)).await
}

/// Drops the staged writes that no commit can name any more. To be called with the slot's work lock held and only when
/// everything committed is published.
pub(super) async fn drop_dead_writes(slot: &Slot, partition: &Partition) {
    for write in slot.dead_writes() {
        match partition.discard(write.0).await {
            Ok(()) => {
                info!(place = %slot.place(), write = %write, "dropped a staged write that was never committed");
                slot.note_discarded(write);
            }
            Err(error) => warn!(place = %slot.place(), write = %write, %error, "cannot drop a staged write"),
        }
    }
}

//! The checks before anything is read or written: the session is held, the partition is here, under that epoch, at
//! that version.
use std::sync::Arc;

use ancho_common::{
    error::{Error, ErrorKind, Result},
    ids::{PartitionId, WriteId},
    plan::host::ScanPartition,
};
use cayenne::{Partition, PinnedVersion};

use super::{Assignment, Duty, PartitionHost, columns::same_columns, from_storage, slot::Slot, tenure::Fit};

impl PartitionHost {
    /// Refuses everything while the session has lapsed.
    ///
    /// # Errors
    /// `Unavailable`.
    pub fn check_lease(&self) -> Result<()> {
        self.lease.check(&self.executor_id.0)
    }

    /// One version of one partition, pinned for a reader. A version that is committed and not yet published here is
    /// published first. Readers inside a transaction also see what it has staged.
    ///
    /// # Errors
    /// `Unavailable` while the session has lapsed or the partition cannot be served; `StaleRoute` when it is not here
    /// under that epoch or not at that version; `Conflict` when what the transaction has staged is gone.
    pub async fn pin(&self, wanted: &ScanPartition) -> Result<PinnedVersion> {
        let ScanPartition { partition, epoch, version, write_id: write, staged } = *wanted;
        self.check_lease()?;
        let slot = self.slot(partition).ok_or_else(|| self.unknown(partition))?;
        self.check_epoch(&slot, epoch)?;
        if let Err(hindrance) = slot.fit_partition() {
            // Behind the committed version: what is asked for may still be readable, or be made now.
            if slot.partition().is_err() || hindrance.kind != ErrorKind::Unavailable {
                return Err(hindrance);
            }
        }
        let stored = self.reach(&slot, version, write).await?;
        let pin = match staged {
            None => stored.pin(Some(version)),
            Some(staged) => stored.pin_with(version, staged.0),
        };
        pin.map_err(|error| match error {
            cayenne::Error::UnknownWrite { .. } => Error::conflict(format!(
                "{}: what the transaction has written is not there any more; run the transaction again",
                slot.place()
            )),
            other => from_storage("reading a partition", other),
        })
    }

    /// The newest version of a partition, for another executor to copy: at least `version`, which `made_by` made.
    ///
    /// # Errors
    /// As [`pin`](Self::pin).
    pub(crate) async fn pin_to_copy(
        &self,
        partition: PartitionId,
        epoch: u64,
        version: u64,
        made_by: Option<WriteId>,
    ) -> Result<PinnedVersion> {
        self.check_held(partition, epoch)?;
        let slot = self.slot(partition).ok_or_else(|| self.unknown(partition))?;
        let stored = self.reach(&slot, version, made_by).await?;
        stored.pin(None).map_err(|error| from_storage("copying a partition", error))
    }

    /// The open partition for a writer that comes with an epoch, and with the number of changes of columns that its rows
    /// know of if they are yet to come. An assignment that is on its way is waited for.
    ///
    /// # Errors
    /// As [`pin`](Self::pin); `StaleRoute` when the columns here are older or newer.
    pub(crate) async fn writable(
        &self,
        partition: PartitionId,
        epoch: u64,
        schema_version: Option<u64>,
    ) -> Result<(Assignment, Partition)> {
        self.check_lease()?;
        // A newer epoch, or a later change of columns, than the known one is an assignment on its way, too.
        let ready = || {
            let slot = self.slot(partition)?;
            let known = slot.epoch()?;
            let looked_at =
                slot.hindrance().is_some() || (slot.fit_partition().is_ok() && slot.schema_version() >= schema_version);
            let settled = known > epoch || (known == epoch && looked_at);
            settled.then_some(slot)
        };
        let slot = match self.wait_for(self.options.assignment_wait, ready).await {
            Some(slot) => slot,
            None => self.slot(partition).ok_or_else(|| self.unknown(partition))?,
        };
        self.check_lease()?;
        self.check_epoch(&slot, epoch)?;
        let assignment = slot.assignment().ok_or_else(|| self.unknown(partition))?;
        if assignment.duty != Duty::Hold {
            // It was handed over.
            return Err(self.unknown(partition));
        }
        let stored = slot.fit_partition()?;
        if let Some(wanted) = schema_version {
            let others = || {
                Error::stale_route(format!(
                    "{}: the columns of the rows are others than those of the partition; read the routes again",
                    slot.place()
                ))
            };
            if assignment.schema_version != wanted {
                return Err(others());
            }
            // The changes among the commits of the assignment may not be made yet.
            self.reach(&slot, assignment.version, None).await?;
            if !same_columns(&stored, &assignment) {
                return Err(others());
            }
        }
        Ok((assignment, stored))
    }

    /// Whether the partition is still held under the epoch, without waiting.
    pub(crate) fn check_held(&self, partition: PartitionId, epoch: u64) -> Result<()> {
        self.check_lease()?;
        let slot = self.slot(partition).ok_or_else(|| self.unknown(partition))?;
        self.check_epoch(&slot, epoch)
    }

    /// A write was staged under an epoch.
    pub(crate) fn note_staged(&self, partition: PartitionId, write: WriteId, epoch: u64) {
        if let Some(slot) = self.slot(partition) {
            slot.note_staged(write, epoch);
        }
    }

    /// Whether a write is durable and not visible in any partition.
    pub(crate) fn is_staged(&self, write: WriteId) -> bool {
        let mut open = self.all_slots().into_iter().filter_map(|slot| slot.partition().ok());
        open.any(|partition| partition.staged().iter().any(|s| s.write_id == write.0))
    }

    /// Drops a write wherever it is staged. Fine if it is nowhere.
    ///
    /// # Errors
    /// `Conflict` when it is known to be committed: then nothing is dropped.
    pub(crate) async fn discard(&self, write: WriteId) -> Result<()> {
        let slots = self.all_slots();
        if let Some(slot) = slots.iter().find(|slot| slot.is_committed(write)) {
            return Err(Error::conflict(format!("{}: write {write} is committed and stays", slot.place())));
        }
        let mut first_error = Ok(());
        for slot in slots {
            let Ok(partition) = slot.partition() else { continue };
            if !partition.staged().iter().any(|s| s.write_id == write.0) {
                continue;
            }
            let _work = slot.work.lock().await;
            match partition.discard(write.0).await {
                Ok(()) => slot.note_discarded(write),
                Err(e) => first_error = first_error.and(Err(from_storage(&slot.place(), e))),
            }
        }
        self.renew_report();
        first_error
    }

    pub(super) fn unknown(&self, partition: PartitionId) -> Error {
        Error::stale_route(format!(
            "executor {} does not hold partition id {partition}; read the routes again",
            self.executor_id
        ))
    }

    fn check_epoch(&self, slot: &Arc<Slot>, epoch: u64) -> Result<()> {
        match slot.fit(epoch) {
            Fit::Held => Ok(()),
            Fit::OtherEpoch(known) => Err(Error::stale_route(format!(
                "{} is held by executor {} under epoch {known}, the request names epoch {epoch}; read the routes again",
                slot.place(),
                self.executor_id
            ))),
            Fit::NotHeld => Err(self.unknown(slot.id)),
        }
    }
}

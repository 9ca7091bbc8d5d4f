//! A partition whose rows are not on this disk: brought back from the newest snapshot if that has them all, otherwise lost.
use std::sync::Arc;

use ancho_common::error::Error;

use super::{
    Assignment, PartitionHost,
    slot::{Slot, Store},
};
use crate::snapshots::{Restore, Snapshots, Wanted};

impl PartitionHost {
    /// What uploads and restores share.
    pub(crate) fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }

    /// Options of the storage engine.
    pub(crate) fn partition_options(&self) -> &cayenne::PartitionOptions {
        &self.options.partitions
    }

    /// Where a partition lies.
    pub(crate) fn partition_dir(&self, partition: ancho_common::ids::PartitionId) -> std::path::PathBuf {
        self.dir.join(partition.to_string())
    }

    /// Sees to it that a partition is brought back, and says what keeps it from being served until then. To be called with
    /// the slot's work lock held.
    pub(super) fn bring_back(self: &Arc<Self>, slot: &Arc<Slot>, assignment: &Assignment) -> Error {
        let place = assignment.place();
        let snapshot = match &assignment.snapshot {
            Some(snapshot) if slot.is_reached_from(snapshot.version) => snapshot,
            other => {
                self.snapshots.running.lock().remove(&slot.id);
                return self.lost(slot, &place, other.as_ref().map(|snapshot| snapshot.version));
            }
        };
        let mut running = self.snapshots.running.lock();
        if let Some(restore) = running.get(&slot.id).filter(|restore| restore.is_of(snapshot)) {
            return restore.hindrance(&place);
        }
        // One of another manifest ends first; both would write into the same directory.
        running.remove(&slot.id);
        let wanted = Wanted {
            partition: slot.id,
            place: place.clone(),
            snapshot: snapshot.clone(),
            dir: slot.dir.clone(),
            options: self.options.partitions.clone(),
        };
        let (host, restored) = (Arc::downgrade(self), Arc::clone(slot));
        let restore = Restore::begin(&self.snapshots, wanted, move |partition| async move {
            let Some(host) = host.upgrade() else { return };
            {
                let _work = restored.work.lock().await;
                if restored.epoch().is_none() || !matches!(restored.store(), Store::Missing) {
                    return;
                }
                restored.set_store(Store::Open(partition));
            }
            host.try_again(&restored).await;
            // Last, since it ends this very task.
            host.snapshots.running.lock().remove(&restored.id);
        });
        let hindrance = restore.hindrance(&place);
        running.insert(slot.id, restore);
        hindrance
    }

    /// Nobody wants the partition here any more.
    pub(super) fn end_restore(&self, slot: &Slot) {
        self.snapshots.running.lock().remove(&slot.id);
    }

    fn lost(&self, slot: &Slot, place: &str, snapshot: Option<u64>) -> Error {
        let found = snapshot.map_or_else(
            || "no snapshot has it".to_owned(),
            |version| format!("the newest snapshot has version {version}"),
        );
        Error::corrupt(format!(
            "{place} is lost: committed version {} has no data on executor {}: its directory was lost, and {found}; \
             put the directory back or restore the table",
            slot.committed(),
            self.executor_id
        ))
    }
}

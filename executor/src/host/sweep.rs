//! What is left behind goes: directories of partitions that nobody assigns any more, and versions that nobody reads.
use std::{sync::Arc, time::SystemTime};

use ancho_common::error::ErrorKind;
use cayenne::{Partition, remove_partition};
use tracing::{info, warn};
use uuid::Uuid;

use super::{
    PartitionHost, open,
    slot::{Slot, Store},
};

impl PartitionHost {
    /// Removes what nobody needs. Called from time to time.
    pub async fn sweep(self: &Arc<Self>) {
        // Before the first assignments nothing is known to be unassigned.
        if self.applied.lock().is_none() {
            return;
        }
        for slot in self.all_slots() {
            if slot.unassigned_since().is_some() {
                self.remove_unassigned(&slot).await;
                self.renew_report();
                continue;
            }
            // Damage does not pass by itself.
            if slot.hindrance().is_some_and(|hindrance| hindrance.kind != ErrorKind::Corrupt) {
                self.try_again(&slot).await;
            }
            if let Ok(partition) = slot.partition()
                && let Err(error) = partition.collect_garbage(SystemTime::now()).await
            {
                warn!(place = %slot.place(), %error, "cannot remove superseded versions");
            }
        }
    }

    /// Bytes on disk of all current versions.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.all_slots().iter().filter_map(|slot| slot.partition().ok()).map(|p| p.summary().bytes).sum()
    }

    /// Closes every partition, although plans that nobody runs any more may still hold it: the directory can be opened again
    /// at once. Nothing can be served afterwards. Blocks.
    pub fn close(&self) {
        self.lease.end();
        self.copies.close();
        self.snapshots.running.lock().clear();
        self.compaction.write().take();
        let slots = std::mem::take(&mut *self.slots.write());
        for slot in slots.into_values() {
            if let Store::Open(partition) = slot.store() {
                partition.close();
            }
        }
        self.announce();
    }

    async fn remove_unassigned(&self, slot: &Arc<Slot>) {
        let _one = self.reconciling.lock().await;
        let _work = slot.work.lock().await;
        let overdue = slot.unassigned_since().is_some_and(|since| since.elapsed() >= self.options.unassigned_grace);
        if !overdue {
            return;
        }
        let (dir, options) = (slot.dir.clone(), self.options.partitions.clone());
        let aside = self.aside.join(format!("{}-{}", slot.id, Uuid::new_v4()));
        let former = slot.store();
        slot.set_store(Store::Missing);
        let openable = matches!(former, Store::Open(_));
        drop(former);
        let id = slot.id;
        let removal = tokio::task::spawn_blocking(move || -> Result<bool, (cayenne::Error, Store)> {
            // Only when the last reader is gone can the directory be opened anew.
            if openable && matches!(Partition::open(&dir, options.clone()), Err(cayenne::Error::InUse { .. })) {
                return Ok(false);
            }
            // What stays is known as what it is, for the case that it is assigned again.
            remove_partition(&dir, &aside).map_err(|error| (error, open::open_one(id, &dir, options)))?;
            Ok(true)
        });
        match removal.await {
            Ok(Ok(true)) => {
                self.slots.write().remove(&slot.id);
                info!(partition = %slot.id, "removed a partition that is not assigned here any more");
            }
            Ok(Ok(false)) => {}
            Ok(Err((error, store))) => {
                slot.set_store(store);
                warn!(partition = %slot.id, %error, "cannot remove a partition");
            }
            Err(error) => warn!(partition = %slot.id, %error, "cannot remove a partition"),
        }
    }
}

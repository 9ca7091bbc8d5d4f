//! Partitions that come from another executor, or go to one: what is to be copied, how a copy takes its place, and what is
//! kept of a partition that was handed over.
use std::collections::{BTreeMap, BTreeSet};

use ancho_common::error::{Error, Result};
use tracing::info;
use uuid::Uuid;

use super::{
    Assignment, Assignments, Duty, PartitionHost, open, publish,
    slot::{Slot, Store},
};
use crate::copy::put_in_place;

impl PartitionHost {
    /// Copies what is to be copied: partitions of other executors, and own ones that are not here yet.
    pub(super) async fn copy_as_told(&self, assignments: &Assignments) {
        let (mut wanted, mut keep) = (BTreeMap::new(), BTreeSet::new());
        for (id, entry) in &assignments.partitions {
            let Ok(assignment) = &entry.assignment else {
                keep.insert(*id);
                continue;
            };
            let here = self.slot(*id).map(|slot| slot.store());
            let needed = assignment.source.as_ref().map_or(0, |source| source.version);
            match (assignment.duty, here) {
                (Duty::Copy, _) => wanted.extend(assignment.to_copy().map(|copy| (*id, copy))),
                (Duty::Hold, Some(Store::Open(partition))) if partition.version() >= needed => {}
                (Duty::Hold, _) => {
                    wanted.extend(assignment.to_copy().map(|copy| (*id, copy)));
                    // One that is whole is about to take its place.
                    keep.insert(*id);
                }
                (Duty::Leave, _) => {}
            }
        }
        self.copies.follow(wanted, keep).await;
    }

    /// Puts a copy in the place of a partition that has just become this executor's. To be called with the slot's work lock
    /// held.
    ///
    /// # Errors
    /// `Unavailable` while it is still being copied.
    pub(super) async fn adopt_copy(&self, slot: &Slot, assignment: &Assignment) -> Result<()> {
        let needed = assignment.source.as_ref().map_or(assignment.version, |source| source.version);
        let store = slot.store();
        let here = match &store {
            Store::Open(partition) => Some(partition.version()),
            Store::Missing | Store::Damaged(_) => None,
        };
        if needed == 0 || here.is_some_and(|version| version >= needed) {
            return Ok(());
        }
        let Some(copy) = self.copies.take(slot.id, needed).await else {
            return match &assignment.source {
                Some(source) => Err(Error::unavailable(format!(
                    "{}: it is still being copied from executor {}; try again",
                    assignment.place(),
                    source.url
                ))),
                // Not a partition that comes from elsewhere.
                None => Ok(()),
            };
        };
        if let Store::Open(former) = &store {
            // Held here long ago, and left since.
            self.leave_alone(former).await;
            former.retire();
        }
        slot.set_store(Store::Missing);
        drop(store);
        let (id, dir, options) = (slot.id, slot.dir.clone(), self.options.partitions.clone());
        let aside = self.aside.join(format!("{id}-{}", Uuid::new_v4()));
        let version = copy.version;
        let opened = tokio::task::spawn_blocking(move || {
            // What lay in the place before goes.
            cayenne::remove_partition(&dir, &aside).map_err(|e| Error::internal(format!("clearing the way: {e}")))?;
            put_in_place(&copy.dir, &dir)
                .map_err(|e| Error::internal(format!("moving {} to {}: {e}", copy.dir.display(), dir.display())))?;
            Ok::<_, Error>(open::open_one(id, &dir, options))
        })
        .await
        .map_err(|e| Error::internal(format!("{}: opening a copy failed: {e}", assignment.place())))?;
        slot.set_store(opened?);
        self.copies.taken(slot.id);
        info!(place = %assignment.place(), version, "a copy became the partition");
        Ok(())
    }

    /// Keeps a partition that was handed over for those who were sent here before. To be called with the slot's work lock
    /// held.
    pub(super) async fn hold_on(&self, slot: &Slot) -> Result<()> {
        let partition = slot.partition()?;
        let made = publish::advance(slot, &partition, slot.committed(), None).await;
        if let Some(newest) = made.map_err(|e| e.context(&slot.place()))? {
            publish::durable(newest).await.map_err(|e| e.context(&slot.place()))?;
        }
        self.leave_alone(&partition).await;
        Ok(())
    }
}

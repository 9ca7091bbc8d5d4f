//! Brings the disk in line with a set of assignments.
use std::{fs, sync::Arc};

use ancho_common::error::{Error, Result};
use cayenne::{Partition, PartitionIdentity};
use futures::{StreamExt, stream};
use tracing::{info, warn};
use uuid::Uuid;

use super::{
    Assignment, Assignments, Duty, PartitionHost, Wanted,
    columns::same_columns,
    from_storage, open, publish,
    slot::{Slot, Store},
    tenure::Standing,
    upkeep::Shares,
};

/// Partitions worked on at the same time; creating one waits for the disk most of the time.
const AT_ONCE: usize = 16;

impl PartitionHost {
    /// Takes in a set of assignments. Faults stay with the partitions that have them, and are kept as the reason why
    /// these are not served.
    pub async fn reconcile(self: &Arc<Self>, assignments: Assignments) {
        let _one = self.reconciling.lock().await;
        let former = *self.applied.lock();
        if assignments.is_older_than(former) {
            warn!(index = assignments.state_index, ?former, "ignored assignments older than the applied ones");
            return;
        }
        let assigned = assignments.partitions.values().filter_map(|wanted| wanted.assignment.clone().ok());
        let shares = Arc::new(Shares::of(assigned.filter(|assignment| assignment.duty == Duty::Hold)));
        self.copy_as_told(&assignments).await;
        let to_copy = |wanted: &Wanted| matches!(&wanted.assignment, Ok(assignment) if assignment.duty == Duty::Copy);
        let wanted: Vec<_> = assignments
            .partitions
            .into_iter()
            .filter(|(_, wanted)| !to_copy(wanted))
            .map(|(id, wanted)| (self.slot_or_new(id), wanted))
            .collect();
        for slot in self.all_slots() {
            if !wanted.iter().any(|(w, _)| w.id == slot.id) && slot.unassign() {
                info!(partition = %slot.id, "partition is not assigned here any more");
                self.end_restore(&slot);
                if let Ok(partition) = slot.partition() {
                    self.leave_alone(&partition).await;
                }
            }
        }
        stream::iter(wanted)
            .for_each_concurrent(AT_ONCE, |(slot, wanted)| {
                let (host, shares) = (Arc::clone(self), Arc::clone(&shares));
                async move {
                    let outcome = match wanted.assignment {
                        Ok(assignment) => host.bring_in_line(&slot, assignment, &shares).await,
                        Err(error) => Err(error),
                    };
                    if let Err(error) = &outcome
                        && slot.hindrance().as_ref() != Some(error)
                    {
                        warn!(place = %slot.place(), %error, "partition is not served");
                    }
                    slot.hinder(wanted.epoch, outcome.err());
                }
            })
            .await;
        *self.applied.lock() = Some(assignments.state_index);
        self.announce();
    }

    /// Looks once more at a partition that is not served: the disk may have room again, or a directory may be back in its place.
    pub(super) async fn try_again(self: &Arc<Self>, slot: &Arc<Slot>) {
        let _one = self.reconciling.lock().await;
        let Some(assignment) = slot.assignment() else { return };
        let epoch = assignment.epoch;
        let shares = Shares::of(self.all_slots().iter().filter_map(|slot| slot.assignment()));
        let outcome = self.bring_in_line(slot, assignment, &shares).await;
        if outcome.is_ok() {
            info!(place = %slot.place(), "partition is served again");
        }
        slot.hinder(epoch, outcome.err());
        self.announce();
    }

    fn slot_or_new(&self, id: ancho_common::ids::PartitionId) -> Arc<Slot> {
        let mut slots = self.slots.write();
        Arc::clone(slots.entry(id).or_insert_with(|| Arc::new(Slot::new(&self.dir, id, Store::Missing))))
    }

    async fn bring_in_line(self: &Arc<Self>, slot: &Arc<Slot>, assignment: Assignment, shares: &Shares) -> Result<()> {
        let _work = slot.work.lock().await;
        slot.assign(assignment.clone());
        if assignment.duty == Duty::Leave {
            return self.hold_on(slot).await;
        }
        self.adopt_copy(slot, &assignment).await?;
        let mut partition = self.partition_for(slot, &assignment).await?;
        let place = assignment.place();
        if slot.committed() == 0 && partition.version() == 0 && !same_columns(&partition, &assignment) {
            // Without a row there is nothing to change. What may be staged here has the old columns and is never committed.
            self.leave_alone(&partition).await;
            partition.retire();
            partition = self.create(slot, &assignment).await?;
        }
        if let Some(newest) = publish::advance(slot, &partition, slot.committed(), None).await? {
            self.note_written(&partition);
            publish::durable(newest).await?;
        }
        // After the changes of columns, whose names the parameters may use.
        self.tend(&partition, &assignment, shares);
        let (local, committed) = (partition.version(), slot.committed());
        match slot.standing(local) {
            Standing::Current => {}
            Standing::Behind => return Err(behind(&place, local, committed, slot)),
            Standing::Ahead => {
                return Err(Error::corrupt(format!(
                    "{place}: version {local} is on disk and the schedulers know only version {committed}; \
                     the directory or the schedulers' state was put back to another time"
                )));
            }
        }
        if !same_columns(&partition, &assignment) {
            return Err(Error::corrupt(format!(
                "{place}: the columns on disk differ from the table's; restore the partition from a snapshot"
            )));
        }
        publish::drop_dead_writes(slot, &partition).await;
        Ok(())
    }

    /// The open partition; an empty one is created, but never in place of one that has rows.
    async fn partition_for(self: &Arc<Self>, slot: &Arc<Slot>, assignment: &Assignment) -> Result<Partition> {
        let place = assignment.place();
        if let Store::Open(partition) = slot.store() {
            return Ok(partition);
        }
        // Looked at again each time: an operator may have put it right, or the system's refusal may be over.
        let (id, dir, options) = (slot.id, slot.dir.clone(), self.options.partitions.clone());
        let opened = tokio::task::spawn_blocking(move || open::open_one(id, &dir, options))
            .await
            .map_err(|e| Error::internal(format!("{place}: opening it failed: {e}")))?;
        slot.set_store(opened);
        match slot.store() {
            Store::Open(partition) => Ok(partition),
            Store::Missing | Store::Damaged(_) if slot.may_start_empty() => self.create(slot, assignment).await,
            Store::Missing => Err(self.bring_back(slot, assignment)),
            Store::Damaged(reason) => Err(Error::corrupt(format!("{place}: {reason}"))),
        }
    }

    async fn create(&self, slot: &Slot, assignment: &Assignment) -> Result<Partition> {
        let identity = PartitionIdentity {
            table: assignment.table.clone(),
            partition: assignment.key.clone(),
            partition_id: assignment.partition.0,
        };
        let options = self.options.partitions.clone();
        let (dir, schema, settings) = (slot.dir.clone(), Arc::clone(&assignment.schema), assignment.settings.clone());
        let aside = self.aside.join(format!("{}-{}", slot.id, Uuid::new_v4()));
        let created = tokio::task::spawn_blocking(move || {
            // What a crash left of a creation, or an empty partition that is damaged: kept for a look, not reused.
            if dir.exists() {
                fs::rename(&dir, &aside)
                    .map_err(|e| Error::internal(format!("moving {} to {}: {e}", dir.display(), aside.display())))?;
            }
            Partition::create_table(&dir, identity, schema, settings, options)
                .map_err(|e| from_storage("creating a partition", e))
        })
        .await
        .map_err(|e| Error::internal(format!("creating a partition: {e}")))?;
        let partition = created.map_err(|e| e.context(&assignment.place()))?;
        slot.set_store(Store::Open(partition.clone()));
        Ok(partition)
    }
}

fn behind(place: &str, local: u64, committed: u64, slot: &Slot) -> Error {
    let next = local + 1;
    let missing = slot.write_of(next).map_or_else(
        || "the schedulers do not list the write any more".to_owned(),
        |write| format!("write {write} is not staged here"),
    );
    Error::unavailable(format!(
        "{place}: version {local} is on disk and version {committed} is committed; version {next} cannot be made: \
         {missing}; restore the table"
    ))
}

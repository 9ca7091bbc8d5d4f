//! Partitions that come from another executor, step by step as the executor's `copy` module and its host do it: the newest
//! version, again when there is a newer one, until the partition is taken over.
use std::{collections::BTreeMap, time::Duration};

use ancho_common::ids::PartitionId;
use ancho_executor::{
    copy::CopyWanted,
    host::{Assignment, Assignments, Duty},
};
use ancho_proto::v1;

use super::Executor;
use crate::{
    context::{Context, Timer},
    disk::{PartitionDisk, Version},
    message::{Answer, Call, Node, Read},
    settings::EXECUTOR_LIMIT,
};

/// The pause after a copy that failed.
const PAUSE: Duration = Duration::from_millis(400);

/// One copy.
#[derive(Debug)]
pub(super) struct Copying {
    wanted: CopyWanted,
    rounds: u32,
    /// The call that is to bring it.
    asked: Option<u64>,
}

impl Executor {
    /// Copies what is to be copied, and forgets other copies.
    pub(super) fn copy_as_told(&mut self, assignments: &Assignments, context: &mut Context<'_>) {
        let disk = &mut context.disks[self.index];
        let mut wanted: BTreeMap<PartitionId, CopyWanted> = BTreeMap::new();
        for (id, entry) in &assignments.partitions {
            let Ok(assignment) = &entry.assignment else { continue };
            let here = disk.partitions.get(id).map_or(0, PartitionDisk::version);
            let needed = assignment.source.as_ref().map_or(0, |source| source.version);
            if assignment.duty == Duty::Copy || (assignment.duty == Duty::Hold && here < needed) {
                wanted.extend(assignment.to_copy().map(|copy| (*id, copy)));
            }
        }
        disk.copies.retain(|id, _| wanted.contains_key(id));
        self.copies.retain(|id, _| wanted.contains_key(id));
        for (id, wanted) in wanted {
            let fresh = Copying { wanted: wanted.clone(), rounds: 0, asked: None };
            self.copies.entry(id).or_insert(fresh).wanted = wanted;
            self.copy_on(id, context);
        }
    }

    /// Asks for the newest version if it is not here.
    pub(super) fn copy_on(&mut self, id: PartitionId, context: &mut Context<'_>) {
        let Some(copying) = self.copies.get_mut(&id) else { return };
        let has = context.disks[self.index].copies.get(&id).map(PartitionDisk::version);
        if copying.asked.is_some() || has.is_some_and(|version| version >= copying.wanted.version) {
            return;
        }
        let CopyWanted { url, source_epoch, version, write, .. } = copying.wanted.clone();
        let Some(node) = url.strip_prefix("http://e").and_then(|n| n.parse().ok()) else { return };
        let read = Read { partition: id, epoch: source_epoch, version, made_by: write };
        let call = context.call(Node::Executor(node), Call::Export(read), EXECUTOR_LIMIT);
        copying.asked = Some(call);
    }

    /// A version came, or did not.
    pub(super) fn exported(&mut self, call: u64, answer: Option<Answer>, context: &mut Context<'_>) {
        let found = self.copies.iter_mut().find(|(_, copying)| copying.asked == Some(call));
        let Some((id, copying)) = found else { return };
        let id = *id;
        copying.asked = None;
        let Some(Answer::Exported(versions)) = answer else {
            return context.after(PAUSE, Timer::Copy(id));
        };
        copying.rounds += 1;
        let disk = &mut context.disks[self.index];
        if disk.copies.get(&id).is_none_or(|copy| copy.version() < versions.len() as u64) {
            disk.copies.insert(id, PartitionDisk { versions, staged: BTreeMap::new() });
        }
        self.report(context);
        self.copy_on(id, context);
    }

    /// Gives another executor a version to copy.
    pub(super) fn export(&mut self, read: &Read, context: &mut Context<'_>) -> Answer {
        let pinned = self
            .check_held(read.partition, read.epoch, context)
            .and_then(|()| self.reach(read.partition, read.version, read.made_by, context));
        if let Err(answer) = pinned {
            return answer;
        }
        let disk = context.disks[self.index].partitions.get(&read.partition);
        let versions: Vec<Version> = disk.map(|disk| disk.versions.clone()).unwrap_or_default();
        Answer::Exported(versions)
    }

    /// Puts a copy in the place of a partition that has just become this executor's.
    pub(super) fn adopt(&mut self, assignment: &Assignment, context: &mut Context<'_>) -> Result<(), (String, bool)> {
        let id = assignment.partition;
        let disk = &mut context.disks[self.index];
        let needed = assignment.source.as_ref().map_or(assignment.version, |source| source.version);
        if needed == 0 || disk.partitions.get(&id).is_some_and(|here| here.version() >= needed) {
            return Ok(());
        }
        if disk.copies.get(&id).is_some_and(|copy| copy.version() >= needed)
            && let Some(copy) = disk.copies.remove(&id)
        {
            disk.partitions.insert(id, copy);
            self.copies.remove(&id);
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.tenure.opened([]);
            }
            return Ok(());
        }
        if assignment.source.is_some() { Err(("it is still being copied".into(), true)) } else { Ok(()) }
    }

    /// How far copies are.
    pub(super) fn copied(&self, context: &Context<'_>) -> Vec<v1::Copied> {
        let copies = &context.disks[self.index].copies;
        let reports = self.copies.iter().map(|(id, copying)| v1::Copied {
            partition_id: id.0,
            epoch: copying.wanted.epoch,
            version: copies.get(id).map(PartitionDisk::version),
            rounds: copying.rounds,
            ..v1::Copied::default()
        });
        reports.collect()
    }
}

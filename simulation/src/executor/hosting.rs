//! Partitions of a simulated executor: the glue between its disk and the real rules, step by step as the host does it.
use std::collections::btree_map::Entry;

use ancho_common::{
    error::ErrorKind,
    ids::{PartitionId, WriteId},
};
use ancho_executor::host::{
    Assignment, Assignments, Duty, Wanted,
    tenure::{Fit, Standing},
};
use ancho_proto::v1;

use super::Executor;
use crate::{
    context::{Context, Timer},
    disk::PartitionDisk,
    message::{Answer, Node, Read, Stage},
    settings::UNASSIGNED_GRACE,
};

pub(super) type Checked<T> = Result<T, Answer>;

fn refused(kind: ErrorKind, text: &str) -> Answer {
    Answer::Refused(kind, text.to_owned())
}

impl Executor {
    /// Brings the disk in line with a set of assignments.
    pub(super) fn reconcile(&mut self, message: &v1::Assignments, context: &mut Context<'_>) {
        let assignments = Assignments::from_proto(message);
        if assignments.is_older_than(self.applied) {
            return;
        }
        self.copy_as_told(&assignments, context);
        let to_copy = |wanted: &Wanted| matches!(&wanted.assignment, Ok(assignment) if assignment.duty == Duty::Copy);
        let told = |id: &PartitionId| assignments.partitions.get(id).is_some_and(|wanted| !to_copy(wanted));
        for (id, slot) in &mut self.slots {
            if !told(id) {
                slot.hindrance = None;
                if slot.tenure.epoch().is_some() || slot.unassigned_since.is_none() {
                    slot.unassigned_since = Some(context.now);
                }
                slot.tenure.leave();
            }
        }
        for (id, wanted) in assignments.partitions {
            let Ok(assignment) = wanted.assignment else { continue };
            if assignment.duty == Duty::Copy {
                continue;
            }
            let slot = self.slots.entry(id).or_default();
            slot.unassigned_since = None;
            slot.tenure.assign(assignment.epoch, assignment.version, &assignment.commits);
            slot.leaving = assignment.duty == Duty::Leave;
            let hindrance = self.bring_in_line(&assignment, context).err();
            if let Some(slot) = self.slots.get_mut(&id) {
                slot.hindrance = hindrance.map(|(text, passes)| (wanted.epoch, text, passes));
            }
        }
        self.applied = Some(assignments.state_index);
    }

    fn bring_in_line(&mut self, assignment: &Assignment, context: &mut Context<'_>) -> Result<(), (String, bool)> {
        let id = assignment.partition;
        if assignment.duty == Duty::Leave {
            if !context.disks[self.index].partitions.contains_key(&id) {
                return Err(("its directory was lost".into(), false));
            }
            self.advance(id, assignment.version, None, context);
            return Ok(());
        }
        self.adopt(assignment, context)?;
        let Some(slot) = self.slots.get_mut(&id) else { return Ok(()) };
        let partitions = &mut context.disks[self.index].partitions;
        if let Entry::Vacant(missing) = partitions.entry(id) {
            if !slot.tenure.may_start_empty() {
                return Err(("its directory was lost".into(), false));
            }
            missing.insert(PartitionDisk::default());
        }
        let committed = slot.tenure.committed();
        let on_disk = self.advance(id, committed, None, context);
        let Some(slot) = self.slots.get_mut(&id) else { return Ok(()) };
        match slot.tenure.standing(on_disk) {
            Standing::Current => {}
            Standing::Behind => return Err(("versions are missing".into(), true)),
            Standing::Ahead => return Err(("versions are on disk that nobody knows".into(), false)),
        }
        for write in slot.tenure.dead_writes() {
            if let Some(disk) = context.disks[self.index].partitions.get_mut(&id) {
                disk.staged.remove(&write);
            }
            slot.tenure.discarded(write);
        }
        Ok(())
    }

    /// Publishes what may be, up to a version. Answers the version on disk.
    fn advance(
        &mut self,
        id: PartitionId,
        target: u64,
        named: Option<(u64, WriteId)>,
        context: &mut Context<'_>,
    ) -> u64 {
        let (Some(slot), Some(disk)) = (self.slots.get_mut(&id), context.disks[self.index].partitions.get_mut(&id))
        else {
            return 0;
        };
        while let Some((version, write)) =
            slot.tenure.next_version(disk.version(), target, named, |id| disk.staged.contains_key(&id))
        {
            disk.publish(write);
            slot.tenure.published(version, write);
        }
        disk.version()
    }

    /// Brings a partition to at least a version, whose write may be named.
    pub(super) fn reach(
        &mut self,
        id: PartitionId,
        version: u64,
        write: Option<WriteId>,
        context: &mut Context<'_>,
    ) -> Checked<()> {
        let Some(slot) = self.slots.get(&id).filter(|_| context.disks[self.index].partitions.contains_key(&id)) else {
            return Err(refused(ErrorKind::StaleRoute, "not here"));
        };
        if let (Some(asked), Some(known)) = (write, slot.tenure.write_of(version))
            && asked != known
        {
            context.oracle.fail("READ", format!("version {version} of partition {id} is {known} and {asked}"));
        }
        let on_disk = self.advance(id, version, write.map(|w| (version, w)), context);
        if let Some(slot) = self.slots.get_mut(&id)
            && slot.tenure.standing(on_disk) == Standing::Current
            && slot.hindrance.as_ref().is_some_and(|(.., passes)| *passes)
        {
            slot.hindrance = None;
        }
        if on_disk < version { Err(refused(ErrorKind::StaleRoute, "not at that version")) } else { Ok(()) }
    }

    pub(super) fn check_held(&self, id: PartitionId, epoch: u64, context: &Context<'_>) -> Checked<()> {
        if !self.may_serve(context) {
            return Err(refused(ErrorKind::Unavailable, "no session"));
        }
        match self.slots.get(&id).map(|slot| slot.tenure.fit(epoch)) {
            Some(Fit::Held) => Ok(()),
            Some(Fit::OtherEpoch(_) | Fit::NotHeld) | None => Err(refused(ErrorKind::StaleRoute, "another epoch")),
        }
    }

    pub(super) fn read(&mut self, read: &Read, context: &mut Context<'_>) -> Answer {
        match self.read_checked(read, context) {
            Ok(answer) | Err(answer) => answer,
        }
    }

    fn read_checked(&mut self, read: &Read, context: &mut Context<'_>) -> Checked<Answer> {
        let id = read.partition;
        self.check_held(id, read.epoch, context)?;
        let hindrance = self.slots.get(&id).and_then(|slot| slot.hindrance.clone());
        if hindrance.is_some_and(|(.., passes)| !passes) {
            return Err(refused(ErrorKind::Corrupt, "hindered"));
        }
        self.reach(id, read.version, read.made_by, context)?;
        self.report(context);
        let disk = context.disks[self.index].partitions.get(&id);
        let rows = disk.map(|disk| disk.rows(read.version)).unwrap_or_default();
        Ok(Answer::Rows(rows))
    }

    pub(super) fn stage(&mut self, from: Node, call: u64, stage: Stage, context: &mut Context<'_>) {
        let fit = self.check_held(stage.partition, stage.epoch, context).and_then(|()| {
            let slot = self.slots.get(&stage.partition);
            if slot.is_some_and(|slot| slot.leaving) {
                return Err(refused(ErrorKind::StaleRoute, "handed over"));
            }
            let served = slot.is_some_and(|slot| slot.hindrance.is_none());
            let there = context.disks[self.index].partitions.contains_key(&stage.partition);
            if served && there { Ok(()) } else { Err(refused(ErrorKind::Unavailable, "hindered")) }
        });
        if let Err(answer) = fit {
            return context.answer(from, call, answer);
        }
        let number = context.number();
        let wait = context.between(1, 300);
        context.after(wait, Timer::Staged(number));
        self.staging.insert(number, (from, call, stage));
    }

    /// The part has become durable.
    pub(super) fn staged(&mut self, number: u64, context: &mut Context<'_>) {
        let Some((from, call, stage)) = self.staging.remove(&number) else { return };
        let id = stage.partition;
        let Some(disk) = context.disks[self.index].partitions.get_mut(&id) else {
            return context.answer(from, call, refused(ErrorKind::StaleRoute, "not here"));
        };
        let (write, epoch) = (stage.write, stage.epoch);
        disk.staged.insert(write, stage.change);
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.tenure.staged(write, epoch);
        }
        let answer = match self.check_held(id, epoch, context) {
            Ok(()) => Answer::Sealed { incarnation: self.incarnation.clone() },
            Err(answer) => {
                self.discard(write, context);
                answer
            }
        };
        context.answer(from, call, answer);
    }

    pub(super) fn rebase(&mut self, write: WriteId, read: &Read, context: &mut Context<'_>) -> Answer {
        match self.rebase_checked(write, read, context) {
            Ok(answer) | Err(answer) => answer,
        }
    }

    fn rebase_checked(&mut self, write: WriteId, read: &Read, context: &mut Context<'_>) -> Checked<Answer> {
        let id = read.partition;
        self.check_held(id, read.epoch, context)?;
        self.reach(id, read.version, read.made_by, context)?;
        let Some(disk) = context.disks[self.index].partitions.get(&id) else {
            return Err(refused(ErrorKind::StaleRoute, "not here"));
        };
        let Some(change) = disk.staged.get(&write) else {
            return Err(refused(ErrorKind::StaleRoute, "not staged"));
        };
        let base = disk.version();
        let present = disk.rows(base);
        if change.deletes.iter().any(|row| !present.contains(row)) {
            return Err(refused(ErrorKind::Conflict, "another write changed a row"));
        }
        Ok(Answer::Rebased { base })
    }

    pub(super) fn publish(&mut self, id: PartitionId, version: u64, write: WriteId, context: &mut Context<'_>) {
        // A lost or early message does no harm: the next reader or session brings the commit along.
        let _ = self.reach(id, version, Some(write), context);
    }

    /// Drops a write wherever it is staged, unless it is known to be committed.
    pub(super) fn discard(&mut self, write: WriteId, context: &mut Context<'_>) {
        if self.slots.values().any(|slot| slot.tenure.is_committed(write)) {
            return;
        }
        self.staging.retain(|_, (_, _, stage)| stage.write != write);
        for (id, disk) in &mut context.disks[self.index].partitions {
            if disk.staged.remove(&write).is_some()
                && let Some(slot) = self.slots.get_mut(id)
            {
                slot.tenure.discarded(write);
            }
        }
    }

    /// Removes partitions that nobody assigns any more.
    pub(super) fn sweep(&mut self, context: &mut Context<'_>) {
        if self.applied.is_none() {
            return;
        }
        let overdue: Vec<PartitionId> = self
            .slots
            .iter()
            .filter(|(_, slot)| {
                slot.unassigned_since.is_some_and(|at| context.now.duration_since(at) >= UNASSIGNED_GRACE)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in overdue {
            context.disks[self.index].partitions.remove(&id);
            self.slots.remove(&id);
        }
    }
}

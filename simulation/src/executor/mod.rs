//! A simulated executor: its messages and its disk are simulated, its lease, its unacknowledged beats and the rules by which
//! it holds partitions ([`Tenure`], [`Assignments`]) are the real ones.
mod copying;
mod hosting;
mod session;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::ids::PartitionId;
use ancho_executor::{
    host::tenure::{Standing, Tenure},
    session::Lease,
};
use ancho_proto::v1;

use self::{copying::Copying, session::Connection};
use crate::{
    clock::Clock,
    context::{Context, Timer},
    message::{Call, Down, Message, Node, Stage},
};

/// Time between two looks at partitions that nobody assigns.
const SWEEP: Duration = Duration::from_secs(5);

/// One partition that this process knows.
#[derive(Debug, Default)]
struct Slot {
    tenure: Tenure,
    /// Why it is not served, with the epoch that this is about. True if time may mend it.
    hindrance: Option<(u64, String, bool)>,
    unassigned_since: Option<Instant>,
    /// It was handed over, and only what was planned before is read here.
    leaving: bool,
}

/// One start of an executor's process.
#[derive(Debug)]
pub struct Executor {
    index: usize,
    schedulers: usize,
    incarnation: String,
    lease: Arc<Lease>,
    slots: BTreeMap<PartitionId, Slot>,
    /// Index of the last set of assignments that was worked off.
    applied: Option<u64>,
    newest: Option<Arc<v1::Assignments>>,
    reconciling: bool,
    connection: Option<Connection>,
    /// Scheduler to turn to next.
    scheduler: usize,
    /// Parts on their way to the disk, with whoever asked.
    staging: BTreeMap<u64, (Node, u64, Stage)>,
    copies: BTreeMap<PartitionId, Copying>,
    stopping: bool,
}

impl Executor {
    /// Starts the process on its disk.
    pub fn start(index: usize, schedulers: usize, start: u64, clock: &Clock, context: &mut Context<'_>) -> Self {
        let lease = Arc::new(Lease::default());
        let incarnation = format!("e{index}.{start}");
        let disk = &context.disks[index];
        context.oracle.started(disk.id.clone(), incarnation.clone(), Arc::clone(&lease), clock.clone());
        let mut slots: BTreeMap<PartitionId, Slot> = BTreeMap::new();
        for (id, partition) in &disk.partitions {
            let slot = slots.entry(*id).or_default();
            slot.tenure.opened(partition.staged.keys().copied());
            slot.unassigned_since = Some(context.now);
        }
        context.after(Duration::from_millis(10), Timer::Connect);
        context.after(SWEEP, Timer::Tick);
        Self {
            index,
            schedulers,
            incarnation,
            lease,
            slots,
            applied: None,
            newest: None,
            reconciling: false,
            connection: None,
            scheduler: index % schedulers,
            staging: BTreeMap::new(),
            copies: BTreeMap::new(),
            stopping: false,
        }
    }

    /// Handles a message.
    pub fn receive(&mut self, from: Node, message: Message, context: &mut Context<'_>) {
        match message {
            Message::Down(connection, down) => self.down(connection, down, context),
            Message::Call(id, call) => self.called(from, id, call, context),
            Message::Answer(id, answer) => self.exported(id, Some(answer), context),
            _ => {}
        }
    }

    fn called(&mut self, from: Node, id: u64, call: Call, context: &mut Context<'_>) {
        match call {
            Call::Read(read) => {
                let answer = self.read(&read, context);
                context.answer(from, id, answer);
            }
            Call::Export(read) => {
                let answer = self.export(&read, context);
                context.answer(from, id, answer);
                self.report(context);
            }
            Call::Stage(stage) => self.stage(from, id, stage, context),
            Call::Rebase { write, read } => {
                let answer = self.rebase(write, &read, context);
                context.answer(from, id, answer);
            }
            Call::Publish { partition, version, write } => {
                self.publish(partition, version, write, context);
                self.report(context);
            }
            Call::Discard { write } => self.discard(write, context),
            Call::Propose(_) | Call::ReadIndex | Call::Ask(_) => {}
        }
    }

    /// Handles a reminder.
    pub fn remind(&mut self, timer: Timer, context: &mut Context<'_>) {
        match timer {
            Timer::Connect => self.connect(context),
            Timer::Welcome(connection) => self.unwelcome(connection, context),
            Timer::Beat(connection) => self.beat_due(connection, context),
            Timer::Reconcile => {
                self.reconciling = false;
                if let Some(newest) = self.newest.take() {
                    self.reconcile(&newest, context);
                    self.report(context);
                }
            }
            Timer::Call(call) => self.exported(call, None, context),
            Timer::Copy(id) => self.copy_on(id, context),
            Timer::Staged(number) => self.staged(number, context),
            Timer::Tick => {
                self.sweep(context);
                context.after(SWEEP, Timer::Tick);
            }
            _ => {}
        }
    }

    /// The process is asked to stop.
    pub fn stop(&mut self, context: &mut Context<'_>) {
        self.stopping = true;
        self.say_goodbye(context);
    }

    /// What can be served: partition and epoch.
    fn loaded(&self, context: &Context<'_>) -> Vec<v1::Loaded> {
        let disk = &context.disks[self.index];
        let served = self.slots.iter().filter(|(_, slot)| slot.hindrance.is_none()).filter_map(|(id, slot)| {
            let (epoch, version) = (slot.tenure.epoch()?, disk.partitions.get(id)?.version());
            let current = slot.tenure.standing(version) == Standing::Current;
            current.then_some(v1::Loaded { partition_id: id.0, epoch, version })
        });
        served.collect()
    }

    fn hindered(&self) -> Vec<v1::Hindrance> {
        let hindered = self.slots.iter().filter_map(|(id, slot)| {
            let (epoch, reason, _) = slot.hindrance.clone()?;
            Some(v1::Hindrance { partition_id: id.0, epoch, reason })
        });
        hindered.collect()
    }
}

/// Whether a message from the leader ends the connection.
fn is_end(down: &Down) -> bool {
    matches!(down, Down::NotLeader(_) | Down::Ended)
}

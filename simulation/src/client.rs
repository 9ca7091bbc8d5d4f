//! A client: one operation after the other, at any scheduler, repeated under the same id until its outcome is known or
//! patience is up.
use std::{collections::BTreeMap, time::Duration};

use ancho_common::ids::PartitionId;
use ancho_scheduler::state::TableName;
use rand::Rng;

use crate::{
    context::{Context, Timer},
    disk::Operation,
    message::{Answer, Ask, Call, Message, Node, Shape, Told},
    settings::CLIENT_LIMIT,
};

/// Tables that clients know.
const TABLES: u32 = 3;
/// Times that a write is sent.
const ATTEMPTS: u32 = 3;

/// See the module's description.
#[derive(Debug)]
pub struct Client {
    schedulers: usize,
    /// From now on it only reads.
    pub only_reads: bool,
    reads: u32,
    now: Option<Asked>,
}

#[derive(Debug)]
struct Asked {
    call: u64,
    ask: Ask,
    attempts: u32,
    /// Every attempt so far certainly failed.
    failed: bool,
    floors: BTreeMap<PartitionId, u64>,
}

impl Client {
    /// A client of a cluster with so many schedulers.
    pub fn start(schedulers: usize, context: &mut Context<'_>) -> Self {
        let wait = context.between(500, 3_000);
        context.after(wait, Timer::Operate);
        Self { schedulers, only_reads: false, reads: 0, now: None }
    }

    /// Handles a message.
    pub fn receive(&mut self, message: Message, context: &mut Context<'_>) {
        if let Message::Answer(call, Answer::Told(told)) = message {
            self.told(call, told, context);
        }
    }

    /// Handles a reminder.
    pub fn remind(&mut self, timer: Timer, context: &mut Context<'_>) {
        match timer {
            Timer::Operate => match &mut self.now {
                Some(_) => self.send(context),
                None => self.operate(context),
            },
            Timer::Call(call) => self.told(call, Told::Unknown, context),
            _ => {}
        }
    }

    fn operate(&mut self, context: &mut Context<'_>) {
        self.reads += 1;
        let named = if self.only_reads { self.reads % TABLES } else { context.rng.random_range(0..TABLES) };
        let table = TableName::public(format!("t{named}"));
        let seed = context.rng.random::<u64>() >> 16;
        let ask = match context.rng.random_range(0..100) {
            _ if self.only_reads => Ask::Read { table },
            0..3 => Ask::Create { table, buckets: context.rng.random_range(0..5), replace: false },
            3 => Ask::Create { table, buckets: context.rng.random_range(0..5), replace: true },
            4 => Ask::Drop { table },
            5 => Ask::Rename { table, to: TableName::public(format!("t{}", context.rng.random_range(0..TABLES))) },
            6..10 => Ask::Ensure { table, values: context.rng.random_range(1..5) },
            10..35 => Ask::Read { table },
            35..40 => write(table, Shape::Overwrite { seed }, context),
            40..65 => write(table, Shape::Transfer { seed }, context),
            _ => write(table, Shape::Insert { seed }, context),
        };
        // Without tables there is nothing to do.
        let empty = context.oracle.state.tables.is_empty() && !self.only_reads;
        let ask = if empty {
            Ask::Create { table: TableName::public(format!("t{named}")), buckets: 3, replace: false }
        } else {
            ask
        };
        let floors = context.oracle.floors();
        self.now = Some(Asked { call: 0, ask, attempts: 0, failed: true, floors });
        self.send(context);
    }

    fn send(&mut self, context: &mut Context<'_>) {
        let scheduler = Node::Scheduler(context.rng.random_range(0..self.schedulers));
        if let Some(asked) = &mut self.now {
            asked.attempts += 1;
            asked.call = context.call(scheduler, Call::Ask(asked.ask.clone()), CLIENT_LIMIT);
        }
    }

    fn told(&mut self, call: u64, told: Told, context: &mut Context<'_>) {
        let Some(asked) = self.now.as_mut().filter(|asked| asked.call == call) else { return };
        asked.failed &= matches!(told, Told::Failed(..));
        let pause = context.between(20, if self.only_reads { 1_500 } else { 600 });
        context.after(pause, Timer::Operate);
        if let Ask::Write { operation, .. } = asked.ask {
            let done = told == Told::Done;
            if !done && asked.attempts < ATTEMPTS {
                // The next attempt, which the reminder makes, must not take this one's late answer for its own.
                asked.call = 0;
                return;
            }
            match (done, asked.failed) {
                (true, _) => context.oracle.told_done(operation),
                (false, true) => context.oracle.told_failed(operation),
                (false, false) => context.oracle.counts.unknown += 1,
            }
        }
        if let (Ask::Read { table }, Told::Rows(rows)) = (&asked.ask, &told) {
            context.oracle.told_rows(table, rows, &asked.floors);
        }
        self.now = None;
    }
}

fn write(table: TableName, shape: Shape, context: &mut Context<'_>) -> Ask {
    let operation: Operation = context.number();
    Ask::Write { operation, table, shape }
}

/// Shortest time in which every table is read once more by one that only reads.
pub const READ_ALL: Duration = Duration::from_secs(12);

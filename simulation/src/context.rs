//! What a process may touch while it handles one event.
use std::time::{Duration, Instant};

use ancho_common::ids::PartitionId;
use rand::{Rng, rngs::StdRng};
use uuid::Uuid;

use crate::{
    clock::Time,
    disk::ExecutorDisk,
    message::{Answer, Call, Message, Node},
    oracle::Oracle,
};

/// Something that a process wants to be reminded of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// Regular work.
    Tick,
    /// A call has had its time.
    Call(u64),
    /// A request is to be tried again, or its attempt of this number has had its time.
    Proposal { id: u64, attempt: u64 },
    /// A read index is to be asked for again.
    Index(u64),
    /// Partitions may be placed.
    Place,
    /// The next beat of a connection.
    Beat(u64),
    /// A connection must have been welcomed by now.
    Welcome(u64),
    /// A connection is to be opened.
    Connect,
    /// Assignments are to be worked off.
    Reconcile,
    /// A part is on disk.
    Staged(u64),
    /// A sealed write is to be committed.
    Commit(u64),
    /// A copy that failed is to be tried again.
    Copy(PartitionId),
    /// The next operation of a client.
    Operate,
}

/// What a process wants to happen.
#[derive(Debug)]
pub enum Output {
    /// A message.
    Send(Node, Message),
    /// A reminder after so much time by the process's own clock.
    After(Duration, Timer),
    /// The process ends by itself.
    Exit,
}

/// See the module's description.
pub struct Context<'a> {
    /// Who handles the event.
    pub me: Node,
    /// By nobody's clock: for checks only.
    pub time: Time,
    /// By the process's monotonic clock.
    pub now: Instant,
    /// By its wall clock.
    pub wall_ms: u64,
    /// The one source of chance.
    pub rng: &'a mut StdRng,
    /// Knows everything.
    pub oracle: &'a mut Oracle,
    /// The disks of all executors.
    pub disks: &'a mut Vec<ExecutorDisk>,
    /// Collects what is to happen.
    pub out: Vec<Output>,
    /// Numbers given out.
    pub numbers: &'a mut u64,
}

impl Context<'_> {
    /// A number that nobody else has.
    pub fn number(&mut self) -> u64 {
        *self.numbers += 1;
        *self.numbers
    }

    /// An id that nobody else has.
    pub fn uuid(&mut self) -> Uuid {
        Uuid::from_u128((u128::from(self.number()) << 64) | u128::from(self.rng.random::<u64>()))
    }

    /// Sends a message.
    pub fn send(&mut self, to: Node, message: Message) {
        self.out.push(Output::Send(to, message));
    }

    /// Calls another process. The number also comes back with [`Timer::Call`] after `limit`.
    pub fn call(&mut self, to: Node, call: Call, limit: Duration) -> u64 {
        let id = self.number();
        self.send(to, Message::Call(id, call));
        self.after(limit, Timer::Call(id));
        id
    }

    /// Answers a call.
    pub fn answer(&mut self, to: Node, id: u64, answer: Answer) {
        self.send(to, Message::Answer(id, answer));
    }

    /// Asks to be reminded.
    pub fn after(&mut self, wait: Duration, timer: Timer) {
        self.out.push(Output::After(wait, timer));
    }

    /// A time between two bounds.
    pub fn between(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(self.rng.random_range(least..=most))
    }
}

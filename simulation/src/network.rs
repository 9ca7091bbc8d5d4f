//! What becomes of messages: delayed, lost, sent twice, kept from passing; and connections, in which order holds until
//! they break.
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use rand::{Rng, rngs::StdRng};

use crate::{
    clock::Time,
    message::{Call, Message, Node},
};

/// One connection of a session.
#[derive(Debug, Clone, Copy)]
struct Ends {
    executor: usize,
    scheduler: usize,
}

/// What is to happen to a message.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives then, maybe once more later.
    Arrives(Time, Option<Time>),
    /// It does not arrive.
    Lost,
    /// It does not, and its connection is over for both ends.
    Breaks(u64),
}

/// See the module's description.
#[derive(Debug)]
pub struct Network {
    /// Ways that nothing passes.
    pub cut: BTreeSet<(Node, Node)>,
    /// Share of messages that are lost.
    pub loss: f64,
    /// Share of messages that come twice, where that can be.
    pub twice: f64,
    /// Longest ordinary delay.
    pub delay: Duration,
    connections: BTreeMap<u64, Ends>,
    /// Latest arrival in each direction of a connection.
    latest: BTreeMap<(u64, Node), Time>,
}

/// Longest ordinary delay in good weather.
const FAIR: Duration = Duration::from_millis(4);

impl Default for Network {
    fn default() -> Self {
        Self {
            cut: BTreeSet::new(),
            loss: 0.0,
            twice: 0.0,
            delay: FAIR,
            connections: BTreeMap::new(),
            latest: BTreeMap::new(),
        }
    }
}

impl Network {
    /// Good weather from now on; what is cut stays so.
    pub fn clear(&mut self) {
        (self.loss, self.twice, self.delay) = (0.0, 0.0, FAIR);
    }

    /// A message's fate.
    pub fn send(&mut self, from: Node, to: Node, message: &Message, now: Time, rng: &mut StdRng) -> Fate {
        let delay = Duration::from_micros(rng.random_range(200..=self.delay.as_micros().max(400) as u64));
        let lost = rng.random_bool(self.loss);
        let blocked = self.cut.contains(&(from, to));
        match message {
            Message::Up(connection, _) | Message::Down(connection, _) => {
                let connection = *connection;
                if let (Node::Executor(executor), Node::Scheduler(scheduler)) = (from, to) {
                    self.connections.entry(connection).or_insert(Ends { executor, scheduler });
                }
                if blocked {
                    return Fate::Breaks(connection);
                }
                // What is lost is sent again.
                let again = if lost { Duration::from_millis(rng.random_range(200..1_500)) } else { Duration::ZERO };
                let latest = self.latest.entry((connection, to)).or_default();
                *latest = (now + delay + again).max(*latest + Duration::from_micros(1));
                Fate::Arrives(*latest, None)
            }
            _ if blocked || lost => Fate::Lost,
            _ => {
                let repeatable = match message {
                    Message::Raft(_) => true,
                    Message::Call(_, call) => {
                        matches!(call, Call::Propose(_) | Call::Publish { .. } | Call::Discard { .. })
                    }
                    _ => false,
                };
                let twice = (repeatable && rng.random_bool(self.twice))
                    .then(|| now + delay + Duration::from_millis(rng.random_range(1..2_000)));
                Fate::Arrives(now + delay, twice)
            }
        }
    }

    /// A connection is over. Its ends, if it was not before.
    pub fn end(&mut self, connection: u64) -> Option<(Node, Node)> {
        let Ends { executor, scheduler } = self.connections.remove(&connection)?;
        Some((Node::Executor(executor), Node::Scheduler(scheduler)))
    }

    /// Whether a connection has not broken.
    #[must_use]
    pub fn is_open(&self, connection: u64) -> bool {
        self.connections.contains_key(&connection)
    }

    /// Connections of a process.
    #[must_use]
    pub fn connections_of(&self, node: Node) -> Vec<u64> {
        let of = |ends: &Ends| node == Node::Executor(ends.executor) || node == Node::Scheduler(ends.scheduler);
        self.connections.iter().filter(|(_, ends)| of(ends)).map(|(id, _)| *id).collect()
    }
}

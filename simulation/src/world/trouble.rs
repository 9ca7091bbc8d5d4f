//! Faults as they strike the processes and the network, and their end.
use std::time::Duration;

use ancho_common::ids::ExecutorId;
use rand::Rng;

use super::{Running, World, event::Event};
use crate::{
    fault::Fault,
    message::{Down, Message, Node},
};

impl World {
    pub(super) fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Crash(nodes, down) => {
                for node in nodes {
                    self.kill(node);
                    self.push(self.now + down, Event::Start(node));
                }
            }
            Fault::Pause(node, lasts) => {
                let until = self.now + lasts;
                let paused = self.paused(node);
                *paused = (*paused).max(until);
            }
            Fault::Cut(ways, lasts) => {
                self.network.cut.extend(ways.iter().copied());
                self.push(self.now + lasts, Event::Open(ways));
            }
            Fault::Weather { loss, twice, delay, lasts } => {
                (self.network.loss, self.network.twice, self.network.delay) = (loss, twice, delay);
                self.push(self.now + lasts, Event::Clear);
            }
            Fault::ClockJump(scheduler, by) => self.schedulers[scheduler].clock.wall_offset_ms += by,
            Fault::Stop(executor, down) => {
                self.with(Node::Executor(executor), |node, context| {
                    if let Running::Executor(executor) = node {
                        executor.stop(context);
                    }
                });
                self.push(self.now + down, Event::Start(Node::Executor(executor)));
            }
            Fault::Wipe { executor, identity, down } => {
                self.kill(Node::Executor(executor));
                let disk = &mut self.disks[executor];
                let owned = self.oracle.state.tables.values().flat_map(|t| t.partitions.values());
                self.oracle.lost.extend(owned.filter(|p| p.owners.contains(&disk.id)).map(|p| p.id));
                self.oracle.lost.extend(disk.partitions.keys().copied());
                disk.partitions.clear();
                disk.copies.clear();
                if identity {
                    disk.id = ExecutorId(format!("e{executor}.{}", self.order));
                }
                self.push(self.now + down, Event::Start(Node::Executor(executor)));
            }
        }
    }

    /// All faults end: what is down starts, what is stopped goes on, everything passes.
    pub fn heal(&mut self) {
        self.say(|| "--- all faults end".into());
        self.network.cut.clear();
        self.network.clear();
        for at in 0..self.schedulers.len() {
            self.schedulers[at].paused_until = self.now;
            self.start(Node::Scheduler(at));
        }
        for at in 0..self.executors.len() {
            self.executors[at].paused_until = self.now;
            self.start(Node::Executor(at));
        }
    }

    /// Kills all executors; they start again at once.
    pub fn restart_executors(&mut self) {
        self.say(|| "--- all executors start anew".into());
        for at in 0..self.executors.len() {
            self.kill(Node::Executor(at));
            self.push(self.now + Duration::from_secs(1), Event::Start(Node::Executor(at)));
        }
    }

    /// From now on clients only read.
    pub fn only_reads(&mut self) {
        for client in self.clients.iter_mut().filter_map(|p| p.running.as_mut()) {
            client.only_reads = true;
        }
    }

    pub(super) fn kill(&mut self, node: Node) {
        match node {
            Node::Scheduler(at) => {
                if let Some(scheduler) = self.schedulers[at].running.take() {
                    self.logs[at] = scheduler.into_stored();
                }
                self.schedulers[at].start += 1;
                self.schedulers[at].paused_until = self.now;
            }
            Node::Executor(at) => {
                if self.executors[at].running.take().is_some() {
                    self.oracle.stopped(&self.disks[at].id);
                }
                self.executors[at].start += 1;
                self.executors[at].paused_until = self.now;
            }
            Node::Client(_) => {}
        }
        for connection in self.network.connections_of(node) {
            self.break_connection(connection, Duration::from_millis(1), Duration::from_millis(60));
        }
    }

    /// Both ends find out, each after some time.
    pub(super) fn break_connection(&mut self, connection: u64, least: Duration, most: Duration) {
        let Some((executor, scheduler)) = self.network.end(connection) else { return };
        for (from, to) in [(scheduler, executor), (executor, scheduler)] {
            let at = self.now + self.rng.random_range(least..=most);
            let (start, message) = (self.start_of(to), Message::Down(connection, Down::Ended));
            self.push(at, Event::Deliver { from, to, start, message });
        }
    }
}

//! The executor's end of a session.
use std::time::Instant;

use ancho_executor::session::Unacknowledged;
use ancho_proto::v1;
use rand::Rng;

use super::{Executor, is_end};
use crate::{
    context::{Context, Output, Timer},
    message::{Down, Message, Node, Up},
    settings::{TTL, WELCOME_LIMIT},
};

/// One connection to one scheduler.
#[derive(Debug)]
pub(super) struct Connection {
    id: u64,
    to: usize,
    hello_sent: Instant,
    welcomed: bool,
    sequence: u64,
    unacknowledged: Unacknowledged,
    reported: Option<(Vec<(u64, u64)>, Vec<v1::Hindrance>, Vec<v1::Copied>)>,
}

impl Executor {
    pub(super) fn connect(&mut self, context: &mut Context<'_>) {
        if self.connection.is_some() || self.stopping {
            return;
        }
        let id = context.number();
        let connection = Connection {
            id,
            to: self.scheduler,
            hello_sent: context.now,
            welcomed: false,
            sequence: 0,
            unacknowledged: Unacknowledged::default(),
            reported: None,
        };
        let hello = v1::Hello {
            executor_id: context.disks[self.index].id.0.clone(),
            incarnation: self.incarnation.clone(),
            url: format!("http://e{}", self.index),
            streams: 1,
            ..v1::Hello::default()
        };
        context.send(Node::Scheduler(connection.to), Message::Up(id, Up::Hello(hello)));
        context.after(WELCOME_LIMIT, Timer::Welcome(id));
        self.connection = Some(connection);
    }

    pub(super) fn down(&mut self, id: u64, down: Down, context: &mut Context<'_>) {
        let Some(connection) = self.connection.as_mut().filter(|c| c.id == id) else { return };
        if is_end(&down) {
            let other = match down {
                Down::NotLeader(leader) => leader,
                _ => None,
            };
            return self.leave(other, context);
        }
        if self.stopping {
            return;
        }
        match down {
            Down::Welcome => {
                connection.welcomed = true;
                self.lease.renew(connection.hello_sent, TTL);
                context.after(TTL / 5, Timer::Beat(id));
                self.beat(true, context);
            }
            Down::Ack(sequence) => {
                if let Some(sent) = connection.unacknowledged.acknowledged(sequence) {
                    self.lease.renew(sent, TTL);
                }
            }
            Down::Assignments(assignments) => {
                self.newest = Some(assignments);
                if !self.reconciling {
                    self.reconciling = true;
                    // Now and then a disk is slow.
                    let slow = context.rng.random_ratio(1, 20);
                    let wait = context.between(1, if slow { 4_000 } else { 120 });
                    context.after(wait, Timer::Reconcile);
                }
            }
            Down::NotLeader(_) | Down::Ended => {}
        }
    }

    pub(super) fn unwelcome(&mut self, id: u64, context: &mut Context<'_>) {
        if self.connection.as_ref().is_some_and(|c| c.id == id && !c.welcomed) {
            self.leave(None, context);
        }
    }

    /// Leaves a scheduler for the one that it names, or for the next one.
    fn leave(&mut self, other: Option<usize>, context: &mut Context<'_>) {
        let Some(connection) = self.connection.take() else { return };
        self.scheduler = other.unwrap_or((connection.to + 1) % self.schedulers);
        if self.stopping {
            context.out.push(Output::Exit);
        } else {
            let pause = context.between(20, 400);
            context.after(pause, Timer::Connect);
        }
    }

    pub(super) fn beat_due(&mut self, id: u64, context: &mut Context<'_>) {
        let Some(connection) = self.connection.as_ref().filter(|c| c.id == id) else { return };
        let oldest = connection.unacknowledged.oldest();
        // A leader that stays silent for half a session is left while there is time to find another one.
        if oldest.is_some_and(|sent| context.now.duration_since(sent) > TTL / 2) {
            return self.leave(None, context);
        }
        self.beat(true, context);
        context.after(TTL / 5, Timer::Beat(id));
    }

    /// Tells the leader what changed.
    pub(super) fn report(&mut self, context: &mut Context<'_>) {
        self.beat(false, context);
    }

    fn beat(&mut self, due: bool, context: &mut Context<'_>) {
        let (loaded, hindered, copies) = (self.loaded(context), self.hindered(), self.copied(context));
        let Some(connection) = self.connection.as_mut().filter(|c| c.welcomed) else { return };
        let pairs = loaded.iter().map(|l| (l.partition_id, l.epoch)).collect();
        let report = (pairs, hindered.clone(), copies.clone());
        if !due && connection.reported.as_ref() == Some(&report) {
            return;
        }
        connection.reported = Some(report);
        connection.sequence += 1;
        let sequence = connection.sequence;
        connection.unacknowledged.sent(sequence, context.now);
        let beat = v1::Beat { sequence, loaded, hindered, copies, ..v1::Beat::default() };
        context.send(Node::Scheduler(connection.to), Message::Up(connection.id, Up::Beat(beat)));
    }

    pub(super) fn say_goodbye(&mut self, context: &mut Context<'_>) {
        self.lease.end();
        self.newest = None;
        match self.connection.as_ref().filter(|c| c.welcomed) {
            Some(connection) => {
                context.send(Node::Scheduler(connection.to), Message::Up(connection.id, Up::Goodbye));
                // It waits a while for the leader to hang up, and goes in any case.
                context.after(std::time::Duration::from_secs(2), Timer::Welcome(connection.id));
                if let Some(connection) = &mut self.connection {
                    connection.welcomed = false;
                }
            }
            None => context.out.push(Output::Exit),
        }
    }

    /// Whether it may serve now.
    pub(super) fn may_serve(&self, context: &Context<'_>) -> bool {
        self.lease.is_held_at(context.now)
    }
}

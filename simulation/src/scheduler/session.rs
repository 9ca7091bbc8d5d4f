//! The leader's end of a session, step by step as the session manager does it.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_scheduler::sessions::{
    assignments::{Digest, assignments},
    claims::{Claims, Correction},
    ledger::{SessionKey, Standing},
};
use tokio::time::Instant as LedgerInstant;

use super::{AfterIndex, Scheduler, Then, propose::Outcome};
use crate::{
    context::Context,
    message::{Down, Message, Node, Up},
    settings::TTL,
};

/// Shortest time between two assignments that differ in nothing but versions.
const VERSIONS_INTERVAL: Duration = Duration::from_millis(200);
/// Shortest time between two attempts to correct what the state says.
const CORRECTION_INTERVAL: Duration = Duration::from_millis(100);

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    executor: usize,
    claims: Claims,
    term: u64,
    key: SessionKey,
    welcomed: bool,
    told: Digest,
    told_at: Instant,
    correcting: bool,
    correct_from: Instant,
}

impl Scheduler {
    /// A message of an executor.
    pub(super) fn up(&mut self, executor: usize, connection: u64, up: Up, context: &mut Context<'_>) {
        let to = Node::Executor(executor);
        match up {
            Up::Hello(hello) => {
                let claims = Claims::new(hello);
                let opened = self.led.and_then(|term| {
                    let now = LedgerInstant::from_std(context.now);
                    let key = self.ledger.open(term, &claims.id, &claims.hello.incarnation, now)?;
                    Some((term, key))
                });
                let Some((term, key)) = opened else {
                    let other = self.raft.leader().filter(|leader| *leader != self.index);
                    return context.send(to, Message::Down(connection, Down::NotLeader(other)));
                };
                let registration = claims.registration();
                let session = Session {
                    executor,
                    claims,
                    term,
                    key,
                    welcomed: false,
                    told: Digest::default(),
                    told_at: context.now,
                    correcting: false,
                    correct_from: context.now,
                };
                self.sessions.insert(connection, session);
                self.propose_in_term(term, registration, Then::Registered(connection), context);
            }
            Up::Beat(beat) => {
                if !self.renew(connection, context) {
                    return;
                }
                let sequence = beat.sequence;
                if let Some(session) = self.sessions.get_mut(&connection) {
                    let claims = &session.claims;
                    self.copied.take(&claims.id, &claims.hello.incarnation, &beat.copies);
                    session.claims.take(beat);
                }
                self.linearize(AfterIndex::Ack(connection, sequence), TTL / 2, context);
                self.correct(connection, context);
            }
            Up::Goodbye => {
                let standing = self.standing(connection);
                let Some(session) = self.sessions.get(&connection) else { return };
                if standing == Some(Standing::Held) {
                    let (term, farewell) = (session.term, session.claims.farewell());
                    self.propose_in_term(term, farewell, Then::LeftBehind(connection), context);
                } else {
                    self.hang_up(connection, context);
                }
            }
        }
    }

    fn standing(&self, connection: u64) -> Option<Standing> {
        let session = self.sessions.get(&connection)?;
        Some(self.ledger.standing(session.term, &session.claims.id, session.key))
    }

    /// A sign of life arrived. False: the session is over.
    fn renew(&mut self, connection: u64, context: &mut Context<'_>) -> bool {
        let Some(session) = self.sessions.get(&connection) else { return false };
        let now = LedgerInstant::from_std(context.now);
        let held = self.ledger.heard(session.term, &session.claims.id, session.key, now) == Standing::Held;
        if !held {
            self.hang_up(connection, context);
        }
        held
    }

    pub(super) fn registered(&mut self, connection: u64, outcome: &Outcome, context: &mut Context<'_>) {
        if !matches!(outcome, Outcome::Applied(response) if response.outcome.is_ok()) {
            return self.hang_up(connection, context);
        }
        if !self.renew(connection, context) {
            return;
        }
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        session.welcomed = true;
        context.send(Node::Executor(session.executor), Message::Down(connection, Down::Welcome));
        self.tell(connection, context);
    }

    pub(super) fn acknowledge(&mut self, connection: u64, sequence: u64, context: &mut Context<'_>) {
        if self.renew(connection, context)
            && let Some(session) = self.sessions.get(&connection)
        {
            context.send(Node::Executor(session.executor), Message::Down(connection, Down::Ack(sequence)));
        }
    }

    pub(super) fn corrected(&mut self, connection: u64, context: &mut Context<'_>) {
        if let Some(session) = self.sessions.get_mut(&connection) {
            session.correcting = false;
            self.correct(connection, context);
        }
    }

    /// Brings the state in line with what the executor says, one command at a time.
    fn correct(&mut self, connection: u64, context: &mut Context<'_>) {
        let standing = self.standing(connection);
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        if session.correcting || !session.welcomed {
            return;
        }
        if standing != Some(Standing::Held) {
            return self.hang_up(connection, context);
        }
        match session.claims.correction(&self.state) {
            Correction::None => {}
            Correction::Refuse(_) | Correction::StartedAnew => self.hang_up(connection, context),
            Correction::Write(command) => {
                if context.now >= session.correct_from {
                    session.correct_from = context.now + CORRECTION_INTERVAL;
                    session.correcting = true;
                    let term = session.term;
                    self.propose_in_term(term, command, Then::Corrected(connection), context);
                }
            }
        }
    }

    /// Looks after all sessions: corrections that waited, assignments that changed.
    pub(super) fn tend_sessions(&mut self, context: &mut Context<'_>) {
        let connections: Vec<u64> = self.sessions.iter().filter(|(_, s)| s.welcomed).map(|(c, _)| *c).collect();
        for connection in connections {
            self.correct(connection, context);
            let Some(session) = self.sessions.get(&connection) else { continue };
            let digest = Digest::of(&self.state, &session.claims.id);
            let due = digest.holds_others_than(&session.told) || context.now >= session.told_at + VERSIONS_INTERVAL;
            if digest != session.told && due {
                self.tell(connection, context);
            }
        }
    }

    fn tell(&mut self, connection: u64, context: &mut Context<'_>) {
        let Some(session) = self.sessions.get_mut(&connection) else { return };
        session.told = Digest::of(&self.state, &session.claims.id);
        session.told_at = context.now;
        let message = Down::Assignments(Arc::new(assignments(&self.state, &session.claims.id)));
        context.send(Node::Executor(session.executor), Message::Down(connection, message));
    }

    /// A connection broke. That proves nothing about the executor.
    pub(super) fn close(&mut self, connection: u64) {
        if let Some(session) = self.sessions.remove(&connection) {
            self.ledger.close(session.term, &session.claims.id, session.key);
        }
    }

    pub(super) fn hang_up(&mut self, connection: u64, context: &mut Context<'_>) {
        if let Some(session) = self.sessions.get(&connection) {
            context.send(Node::Executor(session.executor), Message::Down(connection, Down::Ended));
        }
        self.close(connection);
    }

    /// The office is lost, or new: sessions belong to one term.
    pub(super) fn end_all_sessions(&mut self, context: &mut Context<'_>) {
        let leader = self.raft.leader().filter(|leader| *leader != self.index);
        for (connection, session) in std::mem::take(&mut self.sessions) {
            context.send(Node::Executor(session.executor), Message::Down(connection, Down::NotLeader(leader)));
            self.ledger.close(session.term, &session.claims.id, session.key);
        }
    }
}

//! Linearizable reads: an index that a majority confirms, and the moment when it is applied here.
use std::time::{Duration, Instant};

use super::{Scheduler, Waiting};
use crate::{
    context::{Context, Timer},
    message::{Answer, Call, Node},
    settings::INDEX_ROUND,
};

/// Pause before the index is asked for again.
const PAUSE: Duration = Duration::from_millis(25);

/// What the index is for.
#[derive(Debug, Clone)]
pub(super) enum AfterIndex {
    Statement(u64),
    /// An acknowledgement of a beat in a connection.
    Ack(u64, u64),
    /// Another scheduler asked; it waits by itself until its state is there.
    Answer(Node, u64),
}

/// A question that is open.
#[derive(Debug)]
pub(super) struct Asked {
    deadline: Instant,
    after: AfterIndex,
    /// The index, once known.
    index: Option<u64>,
}

impl Scheduler {
    /// Asks for a state that includes everything acknowledged before now.
    pub(super) fn linearize(&mut self, after: AfterIndex, limit: Duration, context: &mut Context<'_>) {
        let id = context.number();
        self.indices.insert(id, Asked { deadline: context.now + limit, after, index: None });
        self.ask_index(id, context);
    }

    /// Another scheduler takes this one for the leader.
    pub(super) fn ask_own_index(&mut self, from: Node, call: u64, context: &mut Context<'_>) {
        let id = context.number();
        let after = AfterIndex::Answer(from, call);
        if self.raft.confirm(id, context.now) {
            self.indices.insert(id, Asked { deadline: context.now + INDEX_ROUND, after, index: None });
            context.after(INDEX_ROUND, Timer::Index(id));
        } else {
            context.answer(from, call, Answer::Index(None));
        }
    }

    fn ask_index(&mut self, id: u64, context: &mut Context<'_>) {
        if self.raft.leads() {
            let wait = if self.raft.confirm(id, context.now) { INDEX_ROUND / 2 } else { PAUSE };
            return context.after(wait, Timer::Index(id));
        }
        match self.raft.leader() {
            Some(leader) => {
                let call = context.call(Node::Scheduler(leader), Call::ReadIndex, INDEX_ROUND);
                self.calls.insert(call, Waiting::Index(id));
            }
            None => context.after(PAUSE, Timer::Index(id)),
        }
    }

    /// The question is to be put again, or is given up.
    pub(super) fn index_due(&mut self, id: u64, context: &mut Context<'_>) {
        let Some(asked) = self.indices.get(&id) else { return };
        if context.now < asked.deadline {
            if asked.index.is_none() && !matches!(asked.after, AfterIndex::Answer(..)) {
                self.ask_index(id, context);
            } else {
                let wait = asked.deadline.duration_since(context.now);
                context.after(wait, Timer::Index(id));
            }
            return;
        }
        if let Some(asked) = self.indices.remove(&id) {
            self.indexed(asked.after, None, context);
        }
    }

    pub(super) fn index_answered(&mut self, id: u64, answer: Option<Answer>, context: &mut Context<'_>) {
        match answer {
            Some(Answer::Index(Some(index))) => {
                if let Some(asked) = self.indices.get_mut(&id) {
                    asked.index = Some(index);
                    let wait = asked.deadline.saturating_duration_since(context.now);
                    context.after(wait, Timer::Index(id));
                }
            }
            _ => context.after(PAUSE, Timer::Index(id)),
        }
    }

    /// Hands on what a majority has confirmed and this node has applied.
    pub(super) fn settle_indices(&mut self, context: &mut Context<'_>) {
        for (id, index) in std::mem::take(&mut self.raft.confirmed) {
            if let Some(asked) = self.indices.get_mut(&id) {
                asked.index = Some(index);
            }
        }
        let applied = self.raft.applied();
        let ready = |asked: &Asked| {
            asked.index.is_some_and(|index| index <= applied || matches!(asked.after, AfterIndex::Answer(..)))
        };
        let done: Vec<u64> = self.indices.iter().filter(|(_, asked)| ready(asked)).map(|(id, _)| *id).collect();
        for id in done {
            if let Some(asked) = self.indices.remove(&id) {
                self.indexed(asked.after, asked.index, context);
            }
        }
    }

    fn indexed(&mut self, after: AfterIndex, index: Option<u64>, context: &mut Context<'_>) {
        match after {
            AfterIndex::Answer(node, call) => context.answer(node, call, Answer::Index(index)),
            AfterIndex::Ack(connection, sequence) => {
                if index.is_some() {
                    self.acknowledge(connection, sequence, context);
                }
            }
            AfterIndex::Statement(statement) => self.statement_indexed(statement, index.is_some(), context),
        }
    }
}

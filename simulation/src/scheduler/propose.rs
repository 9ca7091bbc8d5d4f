//! Requests on their way into the log: to the leader, wherever they are made, and again under the same id until their outcome
//! is known or time is up.
use std::{sync::Arc, time::Instant};

use ancho_common::ids::{ExecutorId, RequestId};
use ancho_scheduler::{
    placement,
    state::{Command, Request, Response},
};

use super::{Scheduler, Waiting};
use crate::{
    context::{Context, Timer},
    message::{Answer, Call, Node},
    settings::{ATTEMPT_LIMIT, PROPOSE_LIMIT, PROPOSE_PAUSE},
};

/// What the outcome of a request is for.
#[derive(Debug, Clone)]
pub(super) enum Then {
    Nothing,
    /// Another scheduler asked.
    Answer(Node, u64),
    Registered(u64),
    Corrected(u64),
    LeftBehind(u64),
    Verdict(ExecutorId),
    Moved,
    Statement(u64),
}

/// How a request ended.
#[derive(Debug)]
pub(super) enum Outcome {
    Applied(Response),
    /// Certainly not applied.
    NotApplied,
    Unknown,
}

/// One request.
#[derive(Debug)]
pub(super) struct Proposal {
    request: Arc<Request>,
    deadline: Instant,
    attempt: u64,
    /// An attempt left open whether it was written.
    open: bool,
    hint: Option<usize>,
    /// Only by the leader of this term.
    term: Option<u64>,
    then: Then,
}

impl Scheduler {
    /// Applies what this scheduler decides as the leader of a term, in that term only.
    pub(super) fn propose_in_term(&mut self, term: u64, command: Command, then: Then, context: &mut Context<'_>) {
        self.propose_by(Some(term), command, then, context);
    }

    /// Applies a command once, through whoever leads.
    pub(super) fn propose(&mut self, command: Command, then: Then, context: &mut Context<'_>) {
        self.propose_by(None, command, then, context);
    }

    fn propose_by(&mut self, term: Option<u64>, command: Command, then: Then, context: &mut Context<'_>) {
        let request = Arc::new(Request { id: RequestId(context.uuid()), now_ms: 0, command });
        let deadline = context.now + PROPOSE_LIMIT;
        let id = context.number();
        self.proposals.insert(id, Proposal { request, deadline, attempt: 0, open: false, hint: None, term, then });
        self.attempt(id, context);
    }

    /// Writes a request that another scheduler sent, if this one leads.
    pub(super) fn propose_here(&mut self, request: Arc<Request>, then: Then, context: &mut Context<'_>) {
        if !self.raft.leads() {
            return self.conclude(then, Err(Answer::NotLeader(self.raft.leader())), context);
        }
        let id = context.number();
        let deadline = context.now + ATTEMPT_LIMIT;
        let proposal = Proposal { request, deadline, attempt: 1, open: true, hint: None, term: None, then };
        self.write(id, &proposal.request, context);
        self.proposals.insert(id, proposal);
        context.after(ATTEMPT_LIMIT, Timer::Proposal { id, attempt: 1 });
    }

    fn write(&mut self, id: u64, request: &Request, context: &mut Context<'_>) -> bool {
        let mut request = request.clone();
        if request.now_ms == 0 {
            request.now_ms = context.wall_ms;
        }
        placement::stamp(&self.state, &mut request);
        let Some((index, term)) = self.raft.propose(Arc::new(request), context.now) else { return false };
        self.written.insert(index, (term, id));
        true
    }

    fn attempt(&mut self, id: u64, context: &mut Context<'_>) {
        let Some(proposal) = self.proposals.get_mut(&id) else { return };
        proposal.attempt += 1;
        let (attempt, request) = (proposal.attempt, Arc::clone(&proposal.request));
        let hint = proposal.hint.take();
        if let Some(term) = proposal.term
            && (attempt > 1 || !self.raft.leads() || self.raft.term() != term)
        {
            let outcome = if proposal.open { Outcome::Unknown } else { Outcome::NotApplied };
            return self.finish(id, outcome, context);
        }
        if self.raft.leads() {
            self.write(id, &request, context);
            context.after(ATTEMPT_LIMIT, Timer::Proposal { id, attempt });
            return;
        }
        match hint.or(self.raft.leader()).filter(|leader| *leader != self.index) {
            Some(leader) => {
                let call = context.call(Node::Scheduler(leader), Call::Propose(request), ATTEMPT_LIMIT);
                self.calls.insert(call, Waiting::Proposal(id));
            }
            None => context.after(PROPOSE_PAUSE, Timer::Proposal { id, attempt }),
        }
    }

    /// An attempt has had its time, or its pause is over.
    pub(super) fn proposal_due(&mut self, id: u64, attempt: u64, context: &mut Context<'_>) {
        let Some(proposal) = self.proposals.get_mut(&id).filter(|p| p.attempt == attempt) else { return };
        if self.written.values().any(|(_, written)| *written == id) {
            proposal.open = true;
        }
        self.written.retain(|_, (_, written)| *written != id);
        self.again(id, context);
    }

    pub(super) fn proposal_answered(&mut self, id: u64, answer: Option<Answer>, context: &mut Context<'_>) {
        let Some(proposal) = self.proposals.get_mut(&id) else { return };
        match answer {
            Some(Answer::Applied(response)) => return self.finish(id, Outcome::Applied(response), context),
            Some(Answer::NotLeader(leader)) => proposal.hint = leader.filter(|leader| *leader != self.index),
            _ => proposal.open = true,
        }
        let attempt = proposal.attempt;
        context.after(PROPOSE_PAUSE, Timer::Proposal { id, attempt });
    }

    fn again(&mut self, id: u64, context: &mut Context<'_>) {
        let Some(proposal) = self.proposals.get(&id) else { return };
        if context.now + PROPOSE_PAUSE < proposal.deadline {
            return self.attempt(id, context);
        }
        let outcome = if proposal.open { Outcome::Unknown } else { Outcome::NotApplied };
        self.finish(id, outcome, context);
    }

    /// An entry was applied here: whoever wrote it here learns what it did.
    pub(super) fn entry_applied(
        &mut self,
        index: u64,
        term: u64,
        response: Option<Response>,
        context: &mut Context<'_>,
    ) {
        let Some((written_in, id)) = self.written.remove(&index) else { return };
        match response {
            Some(response) if written_in == term => self.finish(id, Outcome::Applied(response), context),
            _ => self.left_open(id, context),
        }
    }

    /// Entries up to an index came as a state: what they answered is not known here.
    pub(super) fn lose_written_up_to(&mut self, index: u64, context: &mut Context<'_>) {
        let behind = self.written.split_off(&(index + 1));
        for (_, (_, id)) in std::mem::replace(&mut self.written, behind) {
            self.left_open(id, context);
        }
    }

    fn left_open(&mut self, id: u64, context: &mut Context<'_>) {
        if self.proposals.get(&id).is_some_and(|p| matches!(p.then, Then::Answer(..))) {
            return self.finish(id, Outcome::Unknown, context);
        }
        if let Some(proposal) = self.proposals.get_mut(&id) {
            proposal.open = true;
            let attempt = proposal.attempt;
            context.after(PROPOSE_PAUSE, Timer::Proposal { id, attempt });
        }
    }

    fn finish(&mut self, id: u64, outcome: Outcome, context: &mut Context<'_>) {
        if let Some(proposal) = self.proposals.remove(&id) {
            self.written.retain(|_, (_, written)| *written != id);
            self.conclude(proposal.then, Ok(outcome), context);
        }
    }

    fn conclude(&mut self, then: Then, outcome: Result<Outcome, Answer>, context: &mut Context<'_>) {
        match (then, outcome) {
            (Then::Answer(node, call), outcome) => {
                let answer = match outcome {
                    Ok(Outcome::Applied(response)) => Answer::Applied(response),
                    Ok(Outcome::Unknown | Outcome::NotApplied) => Answer::Unknown,
                    Err(answer) => answer,
                };
                context.answer(node, call, answer);
            }
            (Then::Registered(connection), Ok(outcome)) => self.registered(connection, &outcome, context),
            (Then::Corrected(connection), _) => self.corrected(connection, context),
            (Then::LeftBehind(connection), _) => self.hang_up(connection, context),
            (Then::Verdict(executor), _) => {
                self.verdicts.remove(&executor);
            }
            (Then::Moved, _) => self.moving = false,
            (Then::Statement(statement), Ok(outcome)) => self.proposed(statement, outcome, context),
            (Then::Nothing | Then::Registered(_) | Then::Statement(_), _) => {}
        }
    }
}

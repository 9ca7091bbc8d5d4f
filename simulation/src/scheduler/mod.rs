//! A simulated scheduler. Its state machine, its ledger of sessions, the claims and assignments of executors, the placement of
//! partitions and their stamping are the real code; messages, timers and the log under them are simulated.
mod index;
mod moving;
mod propose;
mod session;
mod statement;
mod write;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::ids::{ExecutorId, PartitionId};
use ancho_scheduler::{
    placement::{self, PlacementPolicy},
    sessions::{
        ledger::Ledger,
        moving::{Copies, MoveWatch, MovingOptions},
        sweep_interval,
    },
    state::{ClusterState, Command},
};

use self::{
    index::{AfterIndex, Asked},
    moving::LEAVE_GRACE,
    propose::{Proposal, Then},
    session::Session,
    statement::Statement,
};
use crate::{
    context::{Context, Timer},
    message::{Answer, Call, Message, Node},
    raft::{Raft, Stored},
    settings::{DEBOUNCE, MARGIN, TTL},
};

/// Time between two looks at the clock.
const TICK: Duration = Duration::from_millis(100);

/// Who waits for the answer to a call.
#[derive(Debug)]
enum Waiting {
    Proposal(u64),
    Index(u64),
    Statement(u64, PartitionId),
}

/// One start of a scheduler's process.
#[derive(Debug)]
pub struct Scheduler {
    index: usize,
    raft: Raft,
    state: Arc<ClusterState>,
    ledger: Ledger,
    swept: Instant,
    /// The term whose sessions are open here.
    led: Option<u64>,
    sessions: BTreeMap<u64, Session>,
    proposals: BTreeMap<u64, Proposal>,
    /// Entries written here that are not applied yet: term and proposal.
    written: BTreeMap<u64, (u64, u64)>,
    indices: BTreeMap<u64, Asked>,
    statements: BTreeMap<u64, Statement>,
    calls: BTreeMap<u64, Waiting>,
    verdicts: BTreeSet<ExecutorId>,
    placing: bool,
    watch: MoveWatch,
    /// What executors said of their copies since this one leads.
    copied: Copies,
    /// A step of moves is being written.
    moving: bool,
    /// Since when there is something to be moved.
    due_since: Option<Instant>,
}

impl Scheduler {
    /// Starts the process on what its disk holds. The state is read from its stored form.
    pub fn start(index: usize, members: usize, stored: Stored, context: &mut Context<'_>) -> Self {
        let state = stored.saved.as_ref().map(|saved| reread(&saved.state, context)).unwrap_or_default();
        let raft = Raft::new(index, members, stored, context.now, context.rng);
        context.after(TICK, Timer::Tick);
        Self {
            index,
            raft,
            state,
            ledger: Ledger::new(TTL + MARGIN, sweep_interval(TTL)),
            swept: context.now,
            led: None,
            sessions: BTreeMap::new(),
            proposals: BTreeMap::new(),
            written: BTreeMap::new(),
            indices: BTreeMap::new(),
            statements: BTreeMap::new(),
            calls: BTreeMap::new(),
            verdicts: BTreeSet::new(),
            placing: false,
            watch: MoveWatch::new(MovingOptions { leave_grace: LEAVE_GRACE, ..MovingOptions::default() }),
            copied: Copies::default(),
            moving: false,
            due_since: None,
        }
    }

    /// Ends the process; what its disk holds is left.
    #[must_use]
    pub fn into_stored(self) -> Stored {
        self.raft.stored
    }

    /// Whether it takes itself for the leader.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.raft.leads()
    }

    /// Handles a message.
    pub fn receive(&mut self, from: Node, message: Message, context: &mut Context<'_>) {
        match (from, message) {
            (Node::Scheduler(peer), Message::Raft(message)) => {
                self.raft.receive(peer, message, context.now, context.rng);
            }
            (_, Message::Call(id, call)) => self.called(from, id, call, context),
            (_, Message::Answer(id, answer)) => self.answered(id, Some(answer), context),
            (Node::Executor(executor), Message::Up(connection, up)) => self.up(executor, connection, up, context),
            (_, Message::Down(connection, _)) => {
                // The network tells both ends of a connection that it broke.
                self.close(connection);
            }
            _ => {}
        }
        self.settle(context);
    }

    fn called(&mut self, from: Node, id: u64, call: Call, context: &mut Context<'_>) {
        match call {
            Call::Propose(request) => {
                let then = Then::Answer(from, id);
                self.propose_here(request, then, context);
            }
            Call::ReadIndex => self.ask_own_index(from, id, context),
            Call::Ask(ask) => self.begin(from, id, ask, context),
            _ => {}
        }
    }

    fn answered(&mut self, id: u64, answer: Option<Answer>, context: &mut Context<'_>) {
        match self.calls.remove(&id) {
            Some(Waiting::Proposal(proposal)) => self.proposal_answered(proposal, answer, context),
            Some(Waiting::Index(asked)) => self.index_answered(asked, answer, context),
            Some(Waiting::Statement(statement, partition)) => {
                self.statement_answered(statement, partition, answer, context);
            }
            None => {}
        }
    }

    /// Handles a reminder.
    pub fn remind(&mut self, timer: Timer, context: &mut Context<'_>) {
        match timer {
            Timer::Tick => {
                self.raft.tick(context.now, context.rng);
                self.sweep(context);
                self.tend_sessions(context);
                self.move_on(context);
                context.after(TICK, Timer::Tick);
            }
            Timer::Call(id) => self.answered(id, None, context),
            Timer::Proposal { id, attempt } => self.proposal_due(id, attempt, context),
            Timer::Index(id) => self.index_due(id, context),
            Timer::Commit(id) => self.commit(id, context),
            Timer::Place => {
                self.placing = false;
                self.place(context);
            }
            _ => {}
        }
        self.settle(context);
    }

    /// Works off what an event left to do: entries to apply, messages to send, sessions to end.
    fn settle(&mut self, context: &mut Context<'_>) {
        loop {
            let revision = self.state.revision;
            self.change_office(context);
            self.apply(context);
            self.settle_indices(context);
            if self.state.revision != revision {
                self.state_changed(context);
            }
            if self.state.revision == revision && self.raft.confirmed.is_empty() && self.raft.restored.is_none() {
                break;
            }
        }
        for (peer, message) in std::mem::take(&mut self.raft.out) {
            context.send(Node::Scheduler(peer), Message::Raft(message));
        }
    }

    fn apply(&mut self, context: &mut Context<'_>) {
        if let Some(saved) = self.raft.restored.take() {
            self.state = reread(&saved.state, context);
            context.oracle.restored(saved.index, &self.state);
            self.lose_written_up_to(saved.index, context);
        }
        while let Some((index, entry)) = self.raft.next_committed() {
            let response = entry.request.as_ref().map(|r| Arc::make_mut(&mut self.state).apply((**r).clone()));
            let request = entry.request.as_deref();
            let at = (index, entry.term);
            context.oracle.applied(at, request, response.as_ref(), &self.state, context.disks, context.time);
            self.entry_applied(index, entry.term, response, context);
        }
        self.raft.cut_log(&self.state);
    }

    fn change_office(&mut self, context: &mut Context<'_>) {
        let term = self.raft.leads().then(|| self.raft.term());
        if term == self.led {
            return;
        }
        self.led = term;
        self.end_all_sessions(context);
        self.verdicts.clear();
        self.forget_moves();
        if let Some(term) = term {
            context.oracle.leads(term);
            self.plan_placement(context);
        }
    }

    fn state_changed(&mut self, context: &mut Context<'_>) {
        self.tend_sessions(context);
        self.plan_placement(context);
    }

    fn plan_placement(&mut self, context: &mut Context<'_>) {
        if self.led.is_some() && !self.placing {
            self.placing = true;
            context.after(DEBOUNCE, Timer::Place);
        }
    }

    fn place(&mut self, context: &mut Context<'_>) {
        let Some(term) = self.led else { return };
        let plan = placement::plan(&self.state, &PlacementPolicy::default());
        if !plan.is_empty() {
            self.propose_in_term(term, Command::Place { placements: plan.placements }, Then::Nothing, context);
        }
    }

    /// The leader gives up executors that it has not heard for too long.
    fn sweep(&mut self, context: &mut Context<'_>) {
        if context.now.duration_since(self.swept) < sweep_interval(TTL) {
            return;
        }
        self.swept = context.now;
        let Some(term) = self.led else { return };
        let lapsed = self.ledger.sweep(term, &self.state, tokio::time::Instant::from_std(context.now));
        for (executor, incarnation) in lapsed {
            context.oracle.verdict(term, &executor, &incarnation, context.time);
            if self.verdicts.insert(executor.clone()) {
                let then = Then::Verdict(executor.clone());
                self.propose_in_term(term, Command::ExecutorDown { executor, incarnation }, then, context);
            }
        }
    }
}

/// The state as it comes back from its stored form.
fn reread(state: &Arc<ClusterState>, context: &mut Context<'_>) -> Arc<ClusterState> {
    let read = serde_json::to_string(&**state).and_then(|text| serde_json::from_str::<ClusterState>(&text));
    match read {
        Ok(read) if read == **state => Arc::new(read),
        Ok(_) => {
            context.oracle.fail("AGREE", "a stored state comes back as another one");
            Arc::clone(state)
        }
        Err(error) => {
            context.oracle.fail("AGREE", format!("a stored state cannot be read: {error}"));
            Arc::clone(state)
        }
    }
}

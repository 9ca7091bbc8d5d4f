//! A consensus log after the rules of Raft: elections, replication, snapshots and reads that a majority confirms. It stands
//! in for the library, whose rules it shares; what is written to its storage is durable at once.
mod stored;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_scheduler::state::{ClusterState, Request};
use rand::{Rng, rngs::StdRng};

pub use self::stored::{Entry, Saved, Stored};

/// Time between two messages of a leader that has nothing to say.
const HEARTBEAT: Duration = Duration::from_millis(300);
/// Shortest time without a leader before an election; the longest is twice that.
const ELECTION: Duration = Duration::from_millis(1200);
/// Entries in one message.
const BATCH: usize = 32;
/// Entries after which the log is cut behind a snapshot.
const SNAPSHOT_EVERY: u64 = 60;

/// Messages between the nodes of a group.
#[derive(Debug, Clone)]
pub enum RaftMessage {
    /// Asks for a vote.
    Vote { term: u64, last: (u64, u64) },
    /// Answers it.
    VoteReply { term: u64, granted: bool },
    /// Entries behind `previous` (term, index). `round` counts the leader's questions whether it still leads.
    Append { term: u64, previous: (u64, u64), entries: Vec<Entry>, commit: u64, round: u64 },
    /// Up to where the log is the leader's, or that it differs at or before `hint`.
    AppendReply { term: u64, matched: Option<u64>, hint: u64, round: u64 },
    /// A state for a node that is too far behind.
    Install { term: u64, saved: Saved, round: u64 },
}

#[derive(Debug)]
enum Role {
    Follower,
    Candidate(BTreeSet<usize>),
    Leader(Box<Leading>),
}

#[derive(Debug)]
struct Leading {
    next: BTreeMap<usize, u64>,
    matched: BTreeMap<usize, u64>,
    heartbeat_at: Instant,
    round: u64,
    confirmed: BTreeMap<usize, u64>,
    /// Round, commit index at the question, token.
    questions: Vec<(u64, u64, u64)>,
}

/// One node.
#[derive(Debug)]
pub struct Raft {
    id: usize,
    members: usize,
    /// What is on disk.
    pub stored: Stored,
    role: Role,
    leader: Option<usize>,
    commit: u64,
    applied: u64,
    election_at: Instant,
    /// Messages to be sent.
    pub out: Vec<(usize, RaftMessage)>,
    /// A state that replaces the applied one.
    pub restored: Option<Saved>,
    /// Reads that a majority has confirmed: token and index.
    pub confirmed: Vec<(u64, u64)>,
}

impl Raft {
    /// A node that has just started. The state in `stored`, if any, is taken to be applied.
    pub fn new(id: usize, members: usize, stored: Stored, now: Instant, rng: &mut StdRng) -> Self {
        let applied = stored.first() - 1;
        Self {
            id,
            members,
            stored,
            role: Role::Follower,
            leader: None,
            commit: applied,
            applied,
            election_at: now + patience(rng),
            out: Vec::new(),
            restored: None,
            confirmed: Vec::new(),
        }
    }

    /// The newest term that it knows.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.stored.term
    }

    /// Whether it takes itself for the leader, and has applied everything that earlier leaders acknowledged.
    #[must_use]
    pub fn leads(&self) -> bool {
        matches!(self.role, Role::Leader(_)) && self.stored.term_of(self.applied) == Some(self.stored.term)
    }

    /// Whom it takes for the leader.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// Last applied entry.
    #[must_use]
    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// The next committed entry, which counts as applied from now on.
    pub fn next_committed(&mut self) -> Option<(u64, Entry)> {
        if self.applied >= self.commit {
            return None;
        }
        self.applied += 1;
        let entry = self.stored.entry(self.applied)?.clone();
        Some((self.applied, entry))
    }

    /// Puts a state in place of the entries that made it, when they have become many.
    pub fn cut_log(&mut self, state: &Arc<ClusterState>) {
        if self.applied + 1 < self.stored.first() + SNAPSHOT_EVERY {
            return;
        }
        let Some(term) = self.stored.term_of(self.applied) else { return };
        let gone = usize::try_from(self.applied + 1 - self.stored.first()).unwrap_or(0);
        self.stored.entries.drain(..gone);
        self.stored.saved = Some(Saved { index: self.applied, term, state: Arc::clone(state) });
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Instant, rng: &mut StdRng) {
        match &mut self.role {
            Role::Leader(leading) if now >= leading.heartbeat_at => self.send_all(now),
            Role::Leader(_) => {}
            _ if now >= self.election_at => self.stand(now, rng),
            _ => {}
        }
    }

    /// Writes an entry, if it leads: index and term.
    pub fn propose(&mut self, request: Arc<Request>, now: Instant) -> Option<(u64, u64)> {
        if !self.leads() {
            return None;
        }
        let term = self.stored.term;
        self.stored.entries.push(Entry { term, request: Some(request) });
        let index = self.stored.last_index();
        self.advance_commit();
        self.send_all(now);
        Some((index, term))
    }

    /// Begins to ask a majority whether this node still leads. False: it does not, or cannot tell yet.
    pub fn confirm(&mut self, token: u64, now: Instant) -> bool {
        let (commit, term) = (self.commit, self.stored.term);
        let own_term = self.stored.term_of(commit) == Some(term);
        let Role::Leader(leading) = &mut self.role else { return false };
        if !own_term {
            return false;
        }
        leading.round += 1;
        leading.questions.push((leading.round, commit, token));
        self.settle_questions();
        self.send_all(now);
        true
    }

    /// A message came in.
    pub fn receive(&mut self, from: usize, message: RaftMessage, now: Instant, rng: &mut StdRng) {
        let term = match &message {
            RaftMessage::Vote { term, .. }
            | RaftMessage::VoteReply { term, .. }
            | RaftMessage::Append { term, .. }
            | RaftMessage::AppendReply { term, .. }
            | RaftMessage::Install { term, .. } => *term,
        };
        if term > self.stored.term {
            self.stored.term = term;
            self.stored.vote = None;
            self.step_down();
        }
        let current = term == self.stored.term;
        match message {
            RaftMessage::Vote { last, .. } => {
                let free = self.stored.vote.is_none_or(|vote| vote == from);
                let granted = current && free && last >= self.stored.last();
                if granted {
                    self.stored.vote = Some(from);
                    self.election_at = now + patience(rng);
                }
                self.out.push((from, RaftMessage::VoteReply { term: self.stored.term, granted }));
            }
            RaftMessage::VoteReply { granted, .. } => {
                if current
                    && granted
                    && let Role::Candidate(votes) = &mut self.role
                {
                    votes.insert(from);
                    self.win_if_elected(now);
                }
            }
            RaftMessage::Append { previous, entries, commit, round, .. } => {
                let matched = if current {
                    self.follow(from, now, rng);
                    self.append(previous, entries, commit)
                } else {
                    None
                };
                self.reply(from, matched, round);
            }
            RaftMessage::Install { saved, round, .. } => {
                let mut matched = None;
                if current {
                    self.follow(from, now, rng);
                    matched = Some(saved.index);
                    self.install(saved);
                }
                self.reply(from, matched, round);
            }
            RaftMessage::AppendReply { matched, hint, round, .. } if current => {
                self.replied(from, matched, hint, round);
            }
            RaftMessage::AppendReply { .. } => {}
        }
    }

    fn reply(&mut self, to: usize, matched: Option<u64>, round: u64) {
        let hint = self.stored.last_index();
        self.out.push((to, RaftMessage::AppendReply { term: self.stored.term, matched, hint, round }));
    }

    fn append(&mut self, previous: (u64, u64), entries: Vec<Entry>, commit: u64) -> Option<u64> {
        let (term, index) = previous;
        // What lies behind the own snapshot is committed, so it is the same.
        if index >= self.stored.first().saturating_sub(1) && self.stored.term_of(index) != Some(term) {
            return None;
        }
        let mut at = index;
        for entry in entries {
            at += 1;
            if at < self.stored.first() {
                continue;
            }
            match self.stored.term_of(at) {
                Some(term) if term == entry.term => {}
                _ => {
                    self.stored.cut_from(at);
                    self.stored.entries.push(entry);
                }
            }
        }
        self.commit = self.commit.max(commit.min(at));
        Some(at)
    }

    fn install(&mut self, saved: Saved) {
        if saved.index <= self.commit {
            return;
        }
        self.stored.entries.clear();
        self.stored.saved = Some(saved.clone());
        self.commit = saved.index;
        self.applied = saved.index;
        self.restored = Some(saved);
    }

    fn replied(&mut self, from: usize, matched: Option<u64>, hint: u64, round: u64) {
        let Role::Leader(leading) = &mut self.role else { return };
        let confirmed = leading.confirmed.entry(from).or_default();
        *confirmed = round.max(*confirmed);
        match matched {
            Some(matched) => {
                let known = leading.matched.entry(from).or_default();
                *known = matched.max(*known);
                leading.next.insert(from, *known + 1);
            }
            None => {
                let next = leading.next.entry(from).or_insert(1);
                *next = (*next).saturating_sub(1).min(hint + 1).max(1);
            }
        }
        self.settle_questions();
        self.advance_commit();
    }

    fn settle_questions(&mut self) {
        let Role::Leader(leading) = &mut self.role else { return };
        let rounds = |round: u64| 1 + leading.confirmed.values().filter(|c| **c >= round).count();
        let (done, open) = std::mem::take(&mut leading.questions)
            .into_iter()
            .partition(|(round, ..)| 2 * rounds(*round) > self.members);
        leading.questions = open;
        self.confirmed.extend(Vec::into_iter(done).map(|(_, index, token)| (token, index)));
    }

    fn advance_commit(&mut self) {
        let Role::Leader(leading) = &self.role else { return };
        let mut matched: Vec<u64> = leading.matched.values().copied().collect();
        matched.resize(self.members - 1, 0);
        matched.push(self.stored.last_index());
        matched.sort_unstable_by(|a, b| b.cmp(a));
        let index = matched.get(self.members / 2).copied().unwrap_or(0);
        // Entries of earlier terms are committed by one of the own term only.
        if index > self.commit && self.stored.term_of(index) == Some(self.stored.term) {
            self.commit = index;
        }
    }

    fn stand(&mut self, now: Instant, rng: &mut StdRng) {
        self.stored.term += 1;
        self.stored.vote = Some(self.id);
        self.leader = None;
        self.role = Role::Candidate(BTreeSet::from([self.id]));
        self.election_at = now + patience(rng);
        let (term, last) = (self.stored.term, self.stored.last());
        for peer in (0..self.members).filter(|peer| *peer != self.id) {
            self.out.push((peer, RaftMessage::Vote { term, last }));
        }
        self.win_if_elected(now);
    }

    fn win_if_elected(&mut self, now: Instant) {
        let Role::Candidate(votes) = &self.role else { return };
        if 2 * votes.len() <= self.members {
            return;
        }
        let next = self.stored.last_index() + 1;
        self.stored.entries.push(Entry { term: self.stored.term, request: None });
        self.leader = Some(self.id);
        self.role = Role::Leader(Box::new(Leading {
            next: (0..self.members).map(|peer| (peer, next)).collect(),
            matched: BTreeMap::new(),
            heartbeat_at: now,
            round: 0,
            confirmed: BTreeMap::new(),
            questions: Vec::new(),
        }));
        self.advance_commit();
        self.send_all(now);
    }

    fn follow(&mut self, leader: usize, now: Instant, rng: &mut StdRng) {
        self.step_down();
        self.leader = Some(leader);
        self.election_at = now + patience(rng);
    }

    fn step_down(&mut self) {
        self.role = Role::Follower;
        self.leader = None;
    }

    fn send_all(&mut self, now: Instant) {
        let Role::Leader(leading) = &mut self.role else { return };
        leading.heartbeat_at = now + HEARTBEAT;
        let (term, round, commit) = (self.stored.term, leading.round, self.commit);
        for peer in (0..self.members).filter(|peer| *peer != self.id) {
            let next = leading.next.get(&peer).copied().unwrap_or(1);
            let message = match (self.stored.term_of(next - 1), &self.stored.saved) {
                (Some(previous), _) if next >= self.stored.first() => {
                    let from = usize::try_from(next - self.stored.first()).unwrap_or(usize::MAX);
                    let entries = self.stored.entries.iter().skip(from).take(BATCH).cloned().collect();
                    RaftMessage::Append { term, previous: (previous, next - 1), entries, commit, round }
                }
                (_, Some(saved)) => RaftMessage::Install { term, saved: saved.clone(), round },
                (_, None) => continue,
            };
            self.out.push((peer, message));
        }
    }
}

fn patience(rng: &mut StdRng) -> Duration {
    ELECTION.mul_f64(rng.random_range(1.0..2.0))
}

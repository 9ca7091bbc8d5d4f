//! What a node of the group keeps through a crash.
use std::sync::Arc;

use ancho_scheduler::state::{ClusterState, Request};

/// One entry; without a request it only marks the begin of a term.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Term of the leader that wrote it.
    pub term: u64,
    /// What is to be applied.
    pub request: Option<Arc<Request>>,
}

/// A state in place of the entries that made it.
#[derive(Debug, Clone)]
pub struct Saved {
    /// Last entry in it.
    pub index: u64,
    /// That entry's term.
    pub term: u64,
    /// The state.
    pub state: Arc<ClusterState>,
}

/// What survives a crash.
#[derive(Debug, Clone, Default)]
pub struct Stored {
    pub(super) term: u64,
    pub(super) vote: Option<usize>,
    /// The state that the log begins behind.
    pub saved: Option<Saved>,
    pub(super) entries: Vec<Entry>,
}

impl Stored {
    pub(super) fn first(&self) -> u64 {
        self.saved.as_ref().map_or(0, |s| s.index) + 1
    }

    pub(super) fn last_index(&self) -> u64 {
        self.first() + self.entries.len() as u64 - 1
    }

    pub(super) fn entry(&self, index: u64) -> Option<&Entry> {
        let at = index.checked_sub(self.first())?;
        self.entries.get(usize::try_from(at).ok()?)
    }

    pub(super) fn term_of(&self, index: u64) -> Option<u64> {
        match &self.saved {
            _ if index == 0 => Some(0),
            Some(saved) if saved.index == index => Some(saved.term),
            _ => self.entry(index).map(|e| e.term),
        }
    }

    pub(super) fn last(&self) -> (u64, u64) {
        let index = self.last_index();
        (self.term_of(index).unwrap_or(0), index)
    }

    pub(super) fn cut_from(&mut self, index: u64) {
        let keep = usize::try_from(index.saturating_sub(self.first())).unwrap_or(usize::MAX);
        self.entries.truncate(keep);
    }
}

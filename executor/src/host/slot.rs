//! One partition on this executor: what is on disk, what the schedulers say of it, and whether the two agree.
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Instant,
};

use ancho_common::{
    alter::ColumnChange,
    error::{Error, ErrorKind, Result},
    ids::{PartitionId, WriteId},
};
use cayenne::Partition;
use parking_lot::Mutex;

use super::{
    Assignment, HinderedPartition,
    tenure::{Fit, Standing, Tenure},
};

/// Longest reason that goes upwards, in bytes: the schedulers keep it in their replicated state.
const MAX_REASON: usize = 300;

/// What is on disk.
#[derive(Debug, Clone)]
pub(super) enum Store {
    /// No partition: nothing, or what a creation that did not end left behind.
    Missing,
    /// Open.
    Open(Partition),
    /// A partition that cannot be opened, and why. It stays on disk for repair.
    Damaged(String),
}

/// One partition, shared by everything that works on it.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) id: PartitionId,
    pub(super) dir: PathBuf,
    /// Held while the directory, the version or the set of staged writes changes, so that such changes come one after
    /// the other. Readers do not take it.
    pub(super) work: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    store: Store,
    assignment: Option<Assignment>,
    /// Why it cannot be served although it is assigned; set by the last look at it.
    hindrance: Option<Error>,
    /// Epoch of the assignment that the hindrance is about.
    hindered_epoch: u64,
    /// What the schedulers said of it.
    tenure: Tenure,
    /// Its commits that change columns.
    changes: HashMap<WriteId, ColumnChange>,
    /// Since when nobody assigns it.
    unassigned_since: Instant,
}

impl Slot {
    pub(super) fn new(partitions_dir: &Path, id: PartitionId, store: Store) -> Self {
        let mut tenure = Tenure::default();
        if let Store::Open(partition) = &store {
            tenure.opened(staged_in(partition));
        }
        Self {
            id,
            dir: partitions_dir.join(id.to_string()),
            work: tokio::sync::Mutex::new(()),
            state: Mutex::new(State {
                store,
                assignment: None,
                hindrance: None,
                hindered_epoch: 0,
                tenure,
                changes: HashMap::new(),
                unassigned_since: Instant::now(),
            }),
        }
    }

    /// The partition as errors name it.
    pub(super) fn place(&self) -> String {
        self.state.lock().assignment.as_ref().map_or_else(|| format!("partition id {}", self.id), Assignment::place)
    }

    pub(super) fn assignment(&self) -> Option<Assignment> {
        self.state.lock().assignment.clone()
    }

    pub(super) fn epoch(&self) -> Option<u64> {
        self.state.lock().tenure.epoch()
    }

    pub(super) fn store(&self) -> Store {
        self.state.lock().store.clone()
    }

    /// What is staged in a partition that is opened anew, and not by this start of the process, is inherited.
    pub(super) fn set_store(&self, store: Store) {
        let mut state = self.state.lock();
        if let Store::Open(partition) = &store {
            state.tenure.opened(staged_in(partition));
        }
        state.store = store;
    }

    /// The open partition, or why there is none.
    pub(super) fn partition(&self) -> Result<Partition> {
        let state = self.state.lock();
        match (&state.store, &state.hindrance) {
            (Store::Open(partition), _) => Ok(partition.clone()),
            (_, Some(hindrance)) => Err(hindrance.clone()),
            (Store::Damaged(reason), None) => Err(Error::corrupt(format!("partition id {}: {reason}", self.id))),
            (Store::Missing, None) => Err(Error::unavailable(format!("partition id {} is being created", self.id))),
        }
    }

    /// The open partition if it is fit to be read and written as assigned.
    pub(super) fn fit_partition(&self) -> Result<Partition> {
        let hindrance = self.state.lock().hindrance.clone();
        hindrance.map_or_else(|| self.partition(), Err)
    }

    /// How often the columns of the table have changed, after the assignment.
    pub(super) fn schema_version(&self) -> Option<u64> {
        self.state.lock().assignment.as_ref().map(|assignment| assignment.schema_version)
    }

    /// Takes in a newer assignment. The committed version never goes back within the life of the process.
    pub(super) fn assign(&self, assignment: Assignment) {
        let mut state = self.state.lock();
        state.tenure.assign(assignment.epoch, assignment.version, &assignment.commits);
        state.changes.clone_from(&assignment.changes);
        state.assignment = Some(assignment);
    }

    /// Nobody assigns it any more. Answers whether that is news.
    pub(super) fn unassign(&self) -> bool {
        let mut state = self.state.lock();
        state.hindrance = None;
        state.tenure.leave();
        let news = state.assignment.take().is_some();
        if news {
            state.unassigned_since = Instant::now();
        }
        news
    }

    /// Since when nobody assigns it; `None` while somebody does, be it with a message that cannot be used.
    pub(super) fn unassigned_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (state.assignment.is_none() && state.hindrance.is_none()).then_some(state.unassigned_since)
    }

    pub(super) fn hinder(&self, epoch: u64, hindrance: Option<Error>) {
        let mut state = self.state.lock();
        state.hindrance = hindrance;
        state.hindered_epoch = epoch;
    }

    /// Why it is not served, as the schedulers are told.
    pub(super) fn hindered(&self) -> Option<HinderedPartition> {
        let state = self.state.lock();
        let hindrance = state.hindrance.as_ref()?;
        // What time may mend needs no kind; for the rest the kind tells what a reader must be told.
        let mut reason = match hindrance.kind {
            ErrorKind::Unavailable => hindrance.message.clone(),
            _ => hindrance.to_string(),
        };
        reason.truncate(reason.floor_char_boundary(MAX_REASON));
        Some(HinderedPartition { partition: self.id, epoch: state.hindered_epoch, reason })
    }

    pub(super) fn hindrance(&self) -> Option<Error> {
        self.state.lock().hindrance.clone()
    }

    /// A partition that was behind has caught up.
    pub(super) fn caught_up(&self) {
        let mut state = self.state.lock();
        if state.hindrance.as_ref().is_some_and(|h| h.kind == ErrorKind::Unavailable) {
            state.hindrance = None;
        }
    }

    pub(super) fn committed(&self) -> u64 {
        self.state.lock().tenure.committed()
    }

    /// The write that became a version, as far as it is known.
    pub(super) fn write_of(&self, version: u64) -> Option<WriteId> {
        self.state.lock().tenure.write_of(version)
    }

    /// The change of columns that a commit is, if it is one.
    pub(super) fn change_of(&self, write: WriteId) -> Option<ColumnChange> {
        self.state.lock().changes.get(&write).cloned()
    }

    /// Whether a write is known to be committed.
    pub(super) fn is_committed(&self, write: WriteId) -> bool {
        self.state.lock().tenure.is_committed(write)
    }

    /// Whether a request that names an epoch may be served.
    pub(super) fn fit(&self, epoch: u64) -> Fit {
        self.state.lock().tenure.fit(epoch)
    }

    /// How a version on disk stands to what is committed.
    pub(super) fn standing(&self, on_disk: u64) -> Standing {
        self.state.lock().tenure.standing(on_disk)
    }

    /// See [`Tenure::is_reached_from`]: changes of columns need no rows.
    pub(super) fn is_reached_from(&self, version: u64) -> bool {
        let state = self.state.lock();
        state.tenure.is_reached_from(version, |write| state.changes.contains_key(&write))
    }

    /// Whether an empty partition may stand in for one that is not on disk.
    pub(super) fn may_start_empty(&self) -> bool {
        self.state.lock().tenure.may_start_empty()
    }

    /// See [`Tenure::next_version`].
    pub(super) fn next_version(
        &self,
        partition: &Partition,
        target: u64,
        named: Option<(u64, WriteId)>,
    ) -> Option<(u64, WriteId)> {
        let state = self.state.lock();
        // What changes columns needs no rows.
        let is_here =
            |id: WriteId| state.changes.contains_key(&id) || partition.staged().iter().any(|s| s.write_id == id.0);
        state.tenure.next_version(partition.version(), target, named, is_here)
    }

    /// A write became a version here.
    pub(super) fn published(&self, version: u64, write: WriteId) {
        self.state.lock().tenure.published(version, write);
    }

    /// A write was staged by this start of the process under the epoch.
    pub(super) fn note_staged(&self, write: WriteId, epoch: u64) {
        self.state.lock().tenure.staged(write, epoch);
    }

    /// A staged write was dropped.
    pub(super) fn note_discarded(&self, write: WriteId) {
        self.state.lock().tenure.discarded(write);
    }

    /// See [`Tenure::dead_writes`].
    pub(super) fn dead_writes(&self) -> Vec<WriteId> {
        self.state.lock().tenure.dead_writes()
    }
}

fn staged_in(partition: &Partition) -> Vec<WriteId> {
    partition.staged().into_iter().map(|s| WriteId(s.write_id)).collect()
}

//! The partitions of this executor: opened at start, brought in line with the assignments of the schedulers, and
//! handed to readers and writers that come with the right epoch and version.
//!
//! * [`assignment`] – what the schedulers say, checked on receipt
//! * `adopt` – a copy takes its place
//! * `columns` – columns here and those of the table
//! * `slot` – one partition: on disk, assigned, committed
//! * [`tenure`] – what the schedulers said of a partition, and what follows: the rules, without disk and clock
//! * `open` – what is on disk at start
//! * `reconcile` – disk brought in line with a set of assignments
//! * `restore` – partitions whose rows are not on this disk
//! * `publish` – staged writes become versions, strictly one after the other
//! * `scan` – plans over pinned versions
//! * `row_names` – names of rows in a scan
//! * `serve` – the checks before anything is read or written
//! * `table_params` – what the parameters of a table mean here
//! * `upkeep` – they are put in force; compaction
//! * `verify` – what is stored is read again
//! * `usage` – bytes on disk by kind
//! * `sweep` – what is left behind goes: unassigned partitions, superseded versions
mod adopt;
pub mod assignment;
pub(crate) mod columns;
mod open;
mod publish;
mod reconcile;
mod restore;
mod row_names;
mod scan;
mod serve;
mod slot;
mod storage_error;
mod sweep;
mod table_params;
pub mod tenure;
mod upkeep;
mod usage;
mod verify;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::{
    ids::{ExecutorId, PartitionId},
    plan::host::VERSION_RETENTION,
};
use cayenne::{CompactionRunner, CompactionRunnerOptions, PartitionOptions, Retention};
use datafusion::execution::memory_pool::MemoryPool;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use self::slot::Slot;
pub use self::{
    assignment::{Assignment, Assignments, Duty, Wanted},
    table_params::TableTuning,
    verify::verify_directory,
};
pub(crate) use self::{scan::failure, storage_error::from_storage};
use crate::{copy::Copies, session::Lease, snapshots::Snapshots};

/// Hindrances that are reported. They travel with every beat; when there are more, one cause is behind them all.
const MOST_HINDRANCES: usize = 200;

/// A partition that can be served now.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LoadedPartition {
    /// Which.
    pub partition: PartitionId,
    /// Epoch it is held under.
    pub epoch: u64,
    /// Version it is at; equal to the committed one.
    pub version: u64,
}

/// A partition that is assigned and cannot be served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HinderedPartition {
    /// Which.
    pub partition: PartitionId,
    /// Epoch of the assignment that could not be carried out.
    pub epoch: u64,
    /// Why, for people; at most 300 bytes.
    pub reason: String,
}

/// A partition as it stands here, for tests and system tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionInfo {
    /// Which.
    pub partition: PartitionId,
    /// Table, empty while nobody assigns the partition and it cannot be opened.
    pub table: String,
    /// Key, for people.
    pub key: String,
    /// Epoch it is assigned under; `None` while nobody assigns it.
    pub epoch: Option<u64>,
    /// Version on disk; `None` when it cannot be opened or is not there.
    pub version: Option<u64>,
    /// Committed version as known here.
    pub committed: u64,
    /// Rows at the version on disk.
    pub rows: u64,
    /// Bytes at the version on disk.
    pub bytes: u64,
    /// Durable writes that are not visible.
    pub staged: usize,
    /// Why it is assigned and not served, with Ancho's error code in front.
    pub hindrance: Option<String>,
}

/// How a host behaves; the defaults are right outside tests.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// How long a partition that nobody assigns any more stays on disk.
    pub unassigned_grace: Duration,
    /// How long a request waits for an assignment that is on its way.
    pub assignment_wait: Duration,
    /// How long a request waits for versions that are on their way.
    pub version_wait: Duration,
    /// Options of the storage engine.
    pub partitions: PartitionOptions,
    /// Bytes that the indexes of keys may take together, in tables that set none of their own.
    pub key_memory_bytes: usize,
    /// What compaction may use.
    pub compaction: CompactionRunnerOptions,
    /// Bytes that copies from other executors may fetch in a second, all together; no limit if `None`.
    pub copy_rate: Option<u64>,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            unassigned_grace: Duration::from_secs(60),
            assignment_wait: Duration::from_secs(10),
            version_wait: Duration::from_secs(2),
            partitions: PartitionOptions {
                retention: Retention { versions: 0, grace: VERSION_RETENTION },
                ..PartitionOptions::default()
            },
            key_memory_bytes: 256 << 20,
            compaction: CompactionRunnerOptions::default(),
            copy_rate: None,
        }
    }
}

/// Holds the partitions of this executor. Shared behind an [`Arc`].
#[derive(Debug)]
pub struct PartitionHost {
    executor_id: ExecutorId,
    /// Directory of the partitions' directories.
    dir: PathBuf,
    /// Where directories go before they are removed or kept aside; on the same file system.
    aside: PathBuf,
    options: HostOptions,
    lease: Arc<Lease>,
    copies: Copies,
    snapshots: Arc<Snapshots>,
    /// `None` once it has ended.
    compaction: RwLock<Option<Arc<CompactionRunner>>>,
    slots: RwLock<BTreeMap<PartitionId, Arc<Slot>>>,
    /// Index of the last set of assignments that was applied; `None` before the first.
    applied: Mutex<Option<u64>>,
    reconciling: tokio::sync::Mutex<()>,
    loaded: watch::Sender<Arc<Vec<LoadedPartition>>>,
    hindered: watch::Sender<Arc<Vec<HinderedPartition>>>,
    /// Grows with every change that a waiting request may be waiting for.
    changes: watch::Sender<u64>,
}

impl PartitionHost {
    /// Who this is.
    #[must_use]
    pub fn id(&self) -> &ExecutorId {
        &self.executor_id
    }

    /// The right to serve.
    #[must_use]
    pub fn lease(&self) -> &Arc<Lease> {
        &self.lease
    }

    /// What can be served now; changes are sent when they happen.
    #[must_use]
    pub fn loaded(&self) -> watch::Receiver<Arc<Vec<LoadedPartition>>> {
        self.loaded.subscribe()
    }

    /// What is assigned and cannot be served now, the first 200 by id; changes are sent when they happen.
    #[must_use]
    pub fn hindered(&self) -> watch::Receiver<Arc<Vec<HinderedPartition>>> {
        self.hindered.subscribe()
    }

    /// Partitions that are being copied from other executors.
    #[must_use]
    pub fn copies(&self) -> &Copies {
        &self.copies
    }

    /// Every partition here, in the order of ids.
    #[must_use]
    pub fn partitions(&self) -> Vec<PartitionInfo> {
        self.all_slots().iter().map(|slot| info(slot)).collect()
    }

    /// Where the memory of writes is accounted.
    pub(crate) fn memory_pool(&self) -> Option<Arc<dyn MemoryPool>> {
        self.options.partitions.memory_pool.clone()
    }

    /// Footers of data files that are kept, and the most bytes that they may take.
    pub(crate) fn footers(&self) -> (usize, usize) {
        let cache = &self.options.partitions.cache;
        (cache.len(), cache.limit_bytes())
    }

    fn slot(&self, id: PartitionId) -> Option<Arc<Slot>> {
        self.slots.read().get(&id).cloned()
    }

    fn all_slots(&self) -> Vec<Arc<Slot>> {
        self.slots.read().values().cloned().collect()
    }

    /// Something changed: waiting requests look again, and the report upwards is renewed if it differs.
    fn announce(&self) {
        self.renew_report();
        self.changes.send_modify(|n| *n += 1);
    }

    /// Renews the report upwards if it differs. Whoever releases a slot's work lock calls it (or `announce`), changed
    /// or not: the report of another one may have left the slot out because it was locked.
    fn renew_report(&self) {
        let slots = self.all_slots();
        self.hindered.send_if_modified(|former| {
            let newer = slots.iter().filter_map(|slot| report_hindrance(slot, former)).take(MOST_HINDRANCES).collect();
            replace(former, newer)
        });
        self.loaded.send_if_modified(|former| {
            let newer = slots.iter().filter_map(|slot| report(slot, former)).collect();
            replace(former, newer)
        });
    }

    /// Looks until `look` finds something or `wait` is over.
    async fn wait_for<T>(&self, wait: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + wait;
        let mut changes = self.changes.subscribe();
        loop {
            changes.borrow_and_update();
            if let Some(found) = look() {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if !matches!(tokio::time::timeout(left, changes.changed()).await, Ok(Ok(()))) {
                return look();
            }
        }
    }
}

/// A partition that is being worked on keeps its former report: half-way to its next version it would look unfit, and
/// taking that back and forth costs the cluster a commit each.
fn report(slot: &Slot, former: &[LoadedPartition]) -> Option<LoadedPartition> {
    if slot.work.try_lock().is_err() {
        let kept = former.iter().find(|l| l.partition == slot.id);
        return kept.filter(|l| slot.epoch() == Some(l.epoch)).cloned();
    }
    loaded(slot)
}

fn report_hindrance(slot: &Slot, former: &[HinderedPartition]) -> Option<HinderedPartition> {
    if slot.work.try_lock().is_err() {
        return former.iter().find(|h| h.partition == slot.id).cloned();
    }
    slot.hindered()
}

/// Answers whether that is another list.
fn replace<T: PartialEq>(former: &mut Arc<Vec<T>>, newer: Vec<T>) -> bool {
    let changed = **former != newer;
    if changed {
        *former = Arc::new(newer);
    }
    changed
}

fn loaded(slot: &Slot) -> Option<LoadedPartition> {
    let epoch = slot.epoch()?;
    let version = slot.fit_partition().ok()?.version();
    (slot.standing(version) == tenure::Standing::Current).then_some(LoadedPartition {
        partition: slot.id,
        epoch,
        version,
    })
}

fn info(slot: &Slot) -> PartitionInfo {
    let assignment = slot.assignment();
    let partition = slot.partition().ok();
    let summary = partition.as_ref().map(cayenne::Partition::summary);
    let named = |assigned: Option<&String>, stored: fn(&cayenne::PartitionIdentity) -> &String| {
        assigned.or_else(|| partition.as_ref().map(|p| stored(p.identity()))).cloned().unwrap_or_default()
    };
    PartitionInfo {
        partition: slot.id,
        table: named(assignment.as_ref().map(|a| &a.table), |i| &i.table),
        key: named(assignment.as_ref().map(|a| &a.key), |i| &i.partition),
        epoch: assignment.map(|a| a.epoch),
        version: partition.as_ref().map(cayenne::Partition::version),
        committed: slot.committed(),
        rows: summary.as_ref().map_or(0, |s| s.rows),
        bytes: summary.as_ref().map_or(0, |s| s.bytes),
        staged: partition.as_ref().map_or(0, |p| p.staged().len()),
        hindrance: slot.hindrance().map(|h| h.to_string()),
    }
}

//! The partitions that this executor is to copy: one task each, which fetches the newest version, again whenever there is a
//! newer one, until the partition is taken over or not wanted any more.
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, WriteId},
    plan::channels::Channels,
};
use cayenne::{InstallLimit, InstallOptions, InstallProgress, Partition, PartitionOptions};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::{
    peer::{Peer, Throttle},
    service::MAX_RANGE,
    shelf::{Shelf, WholeCopy, is_whole},
};
use crate::host::from_storage;

/// First copies that are fetched at the same time; those that only catch up do not wait for them.
const AT_ONCE: usize = 4;
/// Bytes of one range, ranges under way per copy, and bytes of all copies in memory.
const RANGE: u64 = 4 << 20;
const IN_FLIGHT: usize = 4;
const IN_MEMORY: u64 = 64 << 20;
/// The pause after a round that failed; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Longest text of a fault, in bytes.
const MAX_FAULT: usize = 300;

const _: () = assert!(RANGE <= MAX_RANGE);

/// A partition to copy, as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyWanted {
    /// Epoch of the assignment.
    pub epoch: u64,
    /// The executor that has it.
    pub url: String,
    /// The epoch under which that one has it.
    pub source_epoch: u64,
    /// The version to be had at least.
    pub version: u64,
    /// The write that made it, if it is known.
    pub write: Option<WriteId>,
}

/// How far a copy is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Which.
    pub partition: PartitionId,
    /// Epoch of the assignment.
    pub epoch: u64,
    /// The version that is here, whole.
    pub version: Option<u64>,
    /// How often the newest version was fetched.
    pub rounds: u32,
    /// Bytes of the version that is being fetched: here, and in all.
    pub bytes: (u64, u64),
    /// Bytes that were fetched by all rounds of this copy.
    pub fetched: u64,
    /// Why the last round failed; empty if it did not.
    pub fault: String,
}

/// All copies of an executor. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Copies {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shelf: Shelf,
    /// Directory of the partitions that are held: one that was held before has files of use.
    partitions: PathBuf,
    options: PartitionOptions,
    channels: Channels,
    throttle: Arc<Throttle>,
    bulk: Semaphore,
    memory: InstallLimit,
    running: Mutex<BTreeMap<PartitionId, Running>>,
    /// Grows with everything worth a report.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Running {
    wanted: watch::Sender<CopyWanted>,
    state: Arc<Mutex<Progress>>,
    task: AbortOnDropHandle<()>,
}

#[derive(Debug, Default)]
struct Progress {
    whole: Option<WholeCopy>,
    rounds: u32,
    round: Arc<InstallProgress>,
    fetched: u64,
    fault: String,
}

impl Copies {
    /// Copies in `dir`, of partitions whose place is in `partitions`, at most `rate` bytes a second.
    #[must_use]
    pub(crate) fn new(dir: PathBuf, partitions: PathBuf, options: PartitionOptions, rate: Option<u64>) -> Self {
        let inner = Inner {
            shelf: Shelf::new(dir),
            partitions,
            options,
            channels: Channels::default(),
            throttle: Arc::new(Throttle::new(rate)),
            bulk: Semaphore::new(AT_ONCE),
            memory: InstallLimit::bytes(IN_MEMORY),
            running: Mutex::default(),
            changes: watch::Sender::new(0),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Copies these partitions from now on, and no others. What there is of others goes, but for those in `keep`.
    pub(crate) async fn follow(&self, wanted: BTreeMap<PartitionId, CopyWanted>, keep: BTreeSet<PartitionId>) {
        let dropped: Vec<Running> = {
            let mut running = self.inner.running.lock();
            let gone: Vec<PartitionId> = running.keys().filter(|id| !wanted.contains_key(*id)).copied().collect();
            let dropped = gone.iter().filter_map(|id| running.remove(id)).collect();
            for (id, wanted) in &wanted {
                match running.get(id) {
                    Some(known) => {
                        known.wanted.send_if_modified(|former| {
                            let news = *former != *wanted;
                            former.clone_from(wanted);
                            news
                        });
                    }
                    None => {
                        running.insert(*id, self.start(*id, wanted.clone()));
                    }
                }
            }
            dropped
        };
        let news = !dropped.is_empty();
        drop(dropped);
        let inner = Arc::clone(&self.inner);
        let cleared = tokio::task::spawn_blocking(move || {
            for id in inner.shelf.partitions()? {
                if !wanted.contains_key(&id) && !keep.contains(&id) {
                    inner.shelf.clear(id)?;
                }
            }
            std::io::Result::Ok(())
        });
        match cleared.await {
            Ok(Ok(())) => {}
            // A round that was broken off may still have been writing; the next assignments try again.
            Ok(Err(error)) => warn!(%error, "cannot remove copies that are not wanted any more"),
            Err(error) => warn!(%error, "cannot remove copies that are not wanted any more"),
        }
        if news {
            self.inner.announce();
        }
    }

    /// The newest whole copy of a partition, which nobody goes on with from now on.
    pub(crate) async fn take(&self, id: PartitionId, at_least: u64) -> Option<WholeCopy> {
        if !self.inner.shelf.has(id) {
            return None;
        }
        let ready = || self.inner.shelf.newest(id).0.filter(|copy| copy.version >= at_least);
        ready()?;
        let former = self.inner.running.lock().remove(&id);
        if let Some(former) = former {
            // It must not put a newer copy there, and remove this one, at the same time.
            former.task.abort();
            let _ = former.task.await;
            self.inner.announce();
        }
        ready()
    }

    /// Removes what is left of a partition that has been taken over.
    pub(crate) fn taken(&self, id: PartitionId) {
        if let Err(error) = self.inner.shelf.clear(id) {
            warn!(partition = %id, %error, "cannot remove the rest of a copy");
        }
    }

    /// How far each is.
    #[must_use]
    pub fn reports(&self) -> Vec<CopyReport> {
        let running = self.inner.running.lock();
        running
            .iter()
            .map(|(id, running)| {
                let state = running.state.lock();
                CopyReport {
                    partition: *id,
                    epoch: running.wanted.borrow().epoch,
                    version: state.whole.as_ref().map(|copy| copy.version),
                    rounds: state.rounds,
                    bytes: (state.round.done_bytes(), state.round.total_bytes()),
                    fetched: state.fetched,
                    fault: state.fault.clone(),
                }
            })
            .collect()
    }

    /// Changes with everything in the reports that is worth telling at once.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.inner.changes.subscribe()
    }

    /// Bytes fetched from other executors since the start.
    #[must_use]
    pub fn fetched_bytes(&self) -> u64 {
        self.inner.throttle.bytes()
    }

    /// Ends all work; what is there stays.
    pub(crate) fn close(&self) {
        self.inner.running.lock().clear();
    }

    fn start(&self, id: PartitionId, wanted: CopyWanted) -> Running {
        let (wanted, receiver) = watch::channel(wanted);
        let state = Arc::new(Mutex::new(Progress::default()));
        // The task must not keep the copies, and with them itself, alive.
        let task = tokio::spawn(run(Arc::downgrade(&self.inner), id, receiver, Arc::clone(&state)));
        Running { wanted, state, task: AbortOnDropHandle::new(task) }
    }
}

async fn run(
    inner: std::sync::Weak<Inner>,
    id: PartitionId,
    mut wanted: watch::Receiver<CopyWanted>,
    state: Arc<Mutex<Progress>>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let now = wanted.borrow_and_update().clone();
        let has = state.lock().whole.as_ref().map(|copy| copy.version);
        if has.is_some_and(|version| version >= now.version) {
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        }
        let Some(inner) = inner.upgrade() else { return };
        let outcome = inner.round(id, &now, &state).await;
        let failed = outcome.is_err();
        {
            let mut state = state.lock();
            match outcome {
                Ok(whole) => {
                    pause = FIRST_PAUSE;
                    state.fault.clear();
                    state.whole = Some(whole);
                }
                Err(error) => {
                    warn!(partition = %id, from = %now.url, %error, "a partition could not be copied yet");
                    let mut fault = error.to_string();
                    fault.truncate(fault.floor_char_boundary(MAX_FAULT));
                    state.fault = fault;
                }
            }
        }
        inner.announce();
        drop(inner);
        if failed {
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = wanted.changed() => if changed.is_err() { return },
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl Inner {
    fn announce(&self) {
        self.changes.send_modify(|n| *n += 1);
    }

    /// Fetches the source's newest version, of which files that are here are not fetched again.
    async fn round(&self, id: PartitionId, wanted: &CopyWanted, state: &Mutex<Progress>) -> Result<WholeCopy> {
        let (whole, older) = self.shelf.newest(id);
        if let Some(whole) = whole.clone().filter(|copy| copy.version >= wanted.version) {
            // Of an earlier start of the process.
            return Ok(whole);
        }
        let _turn = match whole {
            Some(_) => None,
            None => Some(self.bulk.acquire().await.map_err(|e| Error::internal(e.to_string()))?),
        };
        let (manifest, peer) = Peer::export(&self.channels, &self.throttle, id, wanted).await?;
        let version = manifest.version;
        let dir = self.shelf.of_version(id, version);
        if !is_whole(&dir) {
            fs::create_dir_all(&dir).map_err(|e| Error::internal(format!("creating {}: {e}", dir.display())))?;
            let held = self.partitions.join(id.to_string());
            let progress = Arc::new(InstallProgress::default());
            state.lock().round = Arc::clone(&progress);
            let peer = Arc::new(peer);
            let install = InstallOptions {
                range_bytes: RANGE,
                in_flight: IN_FLIGHT,
                limit: Some(self.memory.clone()),
                older_copy: older.filter(|older| *older != dir).or_else(|| is_whole(&held).then_some(held)),
                progress,
                ..InstallOptions::default()
            };
            let source = Arc::clone(&peer) as Arc<dyn cayenne::FileSource>;
            let installed = Partition::install(&dir, &manifest, source, self.options.clone(), &install).await;
            state.lock().fetched += peer.fetched();
            drop(installed.map_err(|e| from_storage(&format!("copying partition id {id}"), e))?);
        }
        state.lock().rounds += 1;
        info!(partition = %id, version, from = %wanted.url, "copied a partition");
        self.shelf
            .keep_only(id, version)
            .map_err(|e| Error::internal(format!("removing former copies of partition id {id}: {e}")))?;
        Ok(WholeCopy { dir, version })
    }
}

//! Compaction in the background: one runner for all partitions of a process, on threads and memory of its own.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{AbortHandle, Abortable};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::pass::CompactionReport;
use super::resources::CompactionResources;
use crate::error::{Error, Result};
use crate::partition::{Inner, Partition};

/// Writes that follow each other faster than this are looked at together.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// What a runner may use.
#[derive(Debug, Clone)]
pub struct CompactionRunnerOptions {
    /// Threads, at least one; as many partitions are compacted at once.
    pub threads: usize,
    /// Memory for sorting.
    pub memory_bytes: usize,
    /// Where sorting spills to; `None` for the system's temporary directory.
    pub spill_directory: Option<PathBuf>,
}

impl Default for CompactionRunnerOptions {
    fn default() -> Self {
        Self { threads: 1, memory_bytes: 256 << 20, spill_directory: None }
    }
}

/// What a runner has done since it was started.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompactionStats {
    /// Looks at a partition.
    pub runs: u64,
    /// Looks that ended with an error.
    pub failures: u64,
    /// What the others did.
    pub done: CompactionReport,
}

/// Looks after partitions until it is dropped: each at the [`interval`](crate::CompactionOptions::interval) of its own, and
/// soon after it was written to. It does not keep them open.
pub struct CompactionRunner {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    resources: CompactionResources,
    /// One for each thread.
    turns: Arc<Semaphore>,
    partitions: Mutex<HashMap<usize, Entry>>,
    stats: Mutex<CompactionStats>,
    /// Something is due earlier than was known.
    earlier: Notify,
}

struct Entry {
    partition: Weak<Inner>,
    running: Option<AbortHandle>,
    /// Held while the partition is worked on.
    busy: Arc<tokio::sync::Mutex<()>>,
    /// When it was looked at last, or added.
    looked: Instant,
    /// Written to since.
    written: bool,
    /// Its turn has come, or is waited for.
    queued: bool,
}

impl Entry {
    fn due(&self) -> Option<Instant> {
        if self.queued {
            return None;
        }
        if self.written {
            return Some(self.looked + SHORTEST_PAUSE);
        }
        let interval = self.partition.upgrade()?.tuning().compaction.interval?;
        Some(self.looked + interval)
    }
}

impl CompactionRunner {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`Error::Io`] when the system gives no threads, DataFusion's when it cannot use the spill directory.
    pub fn start(options: CompactionRunnerOptions) -> Result<Self> {
        let threads = options.threads.max(1);
        // First: what can fail must not leave a runtime behind, which cannot be dropped everywhere.
        let resources = CompactionResources::new(options.memory_bytes, options.spill_directory)?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            // Encoding and syncing run on these; each partition keeps a few busy at most.
            .max_blocking_threads(threads * 4)
            .thread_name("compaction-worker")
            .enable_all()
            .build()
            .map_err(|source| Error::io("start threads for", "compaction", source))?;
        let shared = Arc::new(Shared {
            resources,
            turns: Arc::new(Semaphore::new(threads)),
            partitions: Mutex::default(),
            stats: Mutex::default(),
            earlier: Notify::new(),
        });
        runtime.spawn(look_after(Arc::clone(&shared)));
        Ok(Self { shared, runtime: Some(runtime) })
    }

    /// Looks after a partition until it is closed or removed; the first time after its interval. Its options are asked anew,
    /// so this is also to be called when they have changed.
    pub fn add(&self, partition: &Partition) {
        {
            let mut partitions = self.shared.partitions.lock();
            // Another partition may have had this place in memory.
            partitions.retain(|_, entry| entry.partition.strong_count() > 0);
            partitions.entry(key(&partition.inner)).or_insert_with(|| Entry {
                partition: Arc::downgrade(&partition.inner),
                running: None,
                busy: Arc::default(),
                looked: Instant::now(),
                written: false,
                queued: false,
            });
        }
        self.shared.earlier.notify_one();
    }

    /// Leaves a partition alone. A pass over it is broken off and leaves nothing behind, unless
    /// its commit has begun: that runs to its end. No other begins.
    pub async fn remove(&self, partition: &Partition) {
        let Some(entry) = self.shared.partitions.lock().remove(&key(&partition.inner)) else { return };
        if let Some(running) = entry.running {
            running.abort();
        }
        drop(entry.busy.lock().await);
    }

    /// A write was published, or something is missing: the partition is looked at soon.
    pub fn written(&self, partition: &Partition) {
        if let Some(entry) = self.shared.partitions.lock().get_mut(&key(&partition.inner)) {
            entry.written = true;
        }
        self.shared.earlier.notify_one();
    }

    /// Rewrites all files of a partition now, on the threads and with the memory of this runner, after the pass that may be
    /// under way.
    ///
    /// # Errors
    /// As [`Partition::compact_all`].
    pub async fn compact_all(&self, partition: &Partition) -> Result<CompactionReport> {
        let Some(runtime) = &self.runtime else { return Ok(CompactionReport::default()) };
        let busy = {
            let partitions = self.shared.partitions.lock();
            partitions.get(&key(&partition.inner)).map(|entry| Arc::clone(&entry.busy)).unwrap_or_default()
        };
        let (shared, partition) = (Arc::clone(&self.shared), partition.clone());
        let inner = Arc::clone(&partition.inner);
        let pass = runtime.spawn(async move {
            let _busy = busy.lock_owned().await;
            // Never closed.
            let _turn = shared.turns.acquire().await;
            let result = partition.compact_all(&shared.resources).await;
            shared.count(&result);
            result
        });
        pass.await.map_err(|error| inner.died("compaction", error))?
    }

    /// What has been done so far.
    pub fn stats(&self) -> CompactionStats {
        self.shared.stats.lock().clone()
    }

    /// Memory and disk space of this runner.
    pub fn resources(&self) -> &CompactionResources {
        &self.shared.resources
    }
}

impl Drop for CompactionRunner {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Not waiting: this may run on a thread that must not block.
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for CompactionRunner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionRunner")
            .field("partitions", &self.shared.partitions.lock().len())
            .field("resources", &self.shared.resources)
            .finish()
    }
}

impl Shared {
    fn count(&self, result: &Result<CompactionReport>) {
        let mut stats = self.stats.lock();
        stats.runs += 1;
        match result {
            Ok(report) => stats.done.add(report),
            Err(_) => stats.failures += 1,
        }
    }

    /// Takes what is due, and says when the next one will be.
    fn take_due(&self) -> (Vec<usize>, Option<Instant>) {
        let now = Instant::now();
        let mut partitions = self.partitions.lock();
        partitions.retain(|_, entry| entry.partition.strong_count() > 0);
        let (mut due, mut next) = (Vec::new(), None::<Instant>);
        for (key, entry) in partitions.iter_mut() {
            match entry.due() {
                Some(at) if at <= now => {
                    entry.queued = true;
                    due.push(*key);
                }
                Some(at) => next = Some(next.map_or(at, |next| next.min(at))),
                None => {}
            }
        }
        (due, next)
    }
}

/// The same for all handles of an open partition.
fn key(inner: &Arc<Inner>) -> usize {
    Arc::as_ptr(inner).addr()
}

async fn look_after(shared: Arc<Shared>) {
    loop {
        let (due, next) = shared.take_due();
        for key in due {
            tokio::spawn(look_at(Arc::clone(&shared), key));
        }
        match next {
            // Either way it is time.
            Some(next) => {
                let _ = tokio::time::timeout_at(next, shared.earlier.notified()).await;
            }
            None => shared.earlier.notified().await,
        }
    }
}

/// Rewrites what is worth it, then makes indexes of what is left without, and has the index of keys know what is there.
async fn look_after_one(partition: &Partition, shared: &Shared) -> Result<CompactionReport> {
    let report = partition.compact(&shared.resources).await;
    if let Err(error) = partition.build_indexes(&shared.resources).await {
        tracing::warn!(partition = %partition.inner.place, %error, "files are read in full until they have their indexes");
    }
    if let Err(error) = partition.index_keys().await {
        tracing::warn!(partition = %partition.inner.place, %error, "rows are not found by their key until the next write");
    }
    report
}

/// Compacts one partition when its turn has come.
async fn look_at(shared: Arc<Shared>, key: usize) {
    // Never closed.
    let _turn = shared.turns.acquire().await;
    let (partition, busy, registration) = {
        let mut partitions = shared.partitions.lock();
        let Some(entry) = partitions.get_mut(&key) else { return };
        let (handle, registration) = AbortHandle::new_pair();
        let free = Arc::clone(&entry.busy).try_lock_owned().ok();
        let Some((inner, busy)) = entry.partition.upgrade().zip(free) else {
            // It is being rewritten as a whole, or closed.
            (entry.queued, entry.looked) = (false, Instant::now());
            return;
        };
        (entry.running, entry.written) = (Some(handle), false);
        (Partition { inner }, busy, registration)
    };
    // On a task of its own, so that a panic ends here.
    let task = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            let place = Arc::clone(&partition.inner.place);
            let result = Abortable::new(look_after_one(&partition, &shared), registration).await;
            drop(partition);
            if let Ok(result) = result {
                shared.count(&result);
                if let Err(error) = result {
                    tracing::warn!(partition = %place, %error, "compaction failed; the files stay as they were");
                }
            }
            drop(busy);
        }
    });
    if let Err(error) = task.await {
        shared.stats.lock().failures += 1;
        tracing::error!(%error, "compaction died; the files stay as they were");
    }
    if let Some(entry) = shared.partitions.lock().get_mut(&key) {
        entry.running = None;
        (entry.queued, entry.looked) = (false, Instant::now());
    }
    shared.earlier.notify_one();
}

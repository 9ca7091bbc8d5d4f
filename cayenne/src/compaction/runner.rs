//! Compaction in the background: one runner for all partitions of a process, on threads and memory of its own.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::{AbortHandle, Abortable};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

use super::pass::CompactionReport;
use super::resources::CompactionResources;
use crate::error::{Error, Result};
use crate::partition::{Inner, Partition};

/// What a runner may use.
#[derive(Debug, Clone)]
pub struct CompactionRunnerOptions {
    /// Threads, at least one; as many partitions are compacted at once.
    pub threads: usize,
    /// Memory for sorting.
    pub memory_bytes: usize,
    /// Where sorting spills to; `None` for the system's temporary directory.
    pub spill_directory: Option<PathBuf>,
    /// How often every partition is looked at (`cayenne_compaction_background_interval_ms`); `None` for only when
    /// [`CompactionRunner::wake`] is called.
    pub interval: Option<Duration>,
}

impl Default for CompactionRunnerOptions {
    fn default() -> Self {
        Self { threads: 1, memory_bytes: 256 << 20, spill_directory: None, interval: Some(Duration::from_secs(30)) }
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

/// Looks after partitions until it is dropped. It does not keep them open.
pub struct CompactionRunner {
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

struct Shared {
    resources: CompactionResources,
    threads: usize,
    interval: Option<Duration>,
    partitions: Mutex<HashMap<usize, Entry>>,
    stats: Mutex<CompactionStats>,
    wake: Notify,
}

struct Entry {
    partition: Weak<Inner>,
    running: Option<AbortHandle>,
    /// Held while the partition is worked on.
    busy: Arc<tokio::sync::Mutex<()>>,
}

impl CompactionRunner {
    /// Starts the threads. The first look is after an interval.
    ///
    /// # Errors
    /// [`Error::Io`] when the system gives no threads, DataFusion's when it cannot use the spill directory.
    pub fn start(options: CompactionRunnerOptions) -> Result<Self> {
        let threads = options.threads.max(1);
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            // Encoding and syncing run on these; each partition keeps a few busy at most.
            .max_blocking_threads(threads * 4)
            .thread_name("compaction-worker")
            .enable_all()
            .build()
            .map_err(|source| Error::io("start threads for", "compaction", source))?;
        let shared = Arc::new(Shared {
            resources: CompactionResources::new(options.memory_bytes, options.spill_directory)?,
            threads,
            interval: options.interval,
            partitions: Mutex::default(),
            stats: Mutex::default(),
            wake: Notify::new(),
        });
        runtime.spawn(look_after(Arc::clone(&shared)));
        Ok(Self { shared, runtime: Some(runtime) })
    }

    /// Looks after a partition until it is closed or removed.
    pub fn add(&self, partition: &Partition) {
        let entry = Entry { partition: Arc::downgrade(&partition.inner), running: None, busy: Arc::default() };
        let mut partitions = self.shared.partitions.lock();
        // Another partition may have had this place in memory.
        partitions.retain(|_, entry| entry.partition.strong_count() > 0);
        partitions.entry(key(&partition.inner)).or_insert(entry);
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

    /// Has every partition looked at now, for example after a write.
    pub fn wake(&self) {
        self.shared.wake.notify_one();
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

/// The same for all handles of an open partition.
fn key(inner: &Arc<Inner>) -> usize {
    Arc::as_ptr(inner).addr()
}

async fn look_after(shared: Arc<Shared>) {
    loop {
        match shared.interval {
            Some(interval) => {
                // Either way it is time.
                let _ = tokio::time::timeout(interval, shared.wake.notified()).await;
            }
            None => shared.wake.notified().await,
        }
        let keys: Vec<usize> = {
            let mut partitions = shared.partitions.lock();
            partitions.retain(|_, entry| entry.partition.strong_count() > 0);
            partitions.keys().copied().collect()
        };
        stream::iter(keys).for_each_concurrent(shared.threads, |key| look_at(Arc::clone(&shared), key)).await;
    }
}

/// Compacts one partition on a task of its own, so that several run at once.
async fn look_at(shared: Arc<Shared>, key: usize) {
    let (partition, busy, registration) = {
        let mut partitions = shared.partitions.lock();
        let Some(entry) = partitions.get_mut(&key) else { return };
        let Some(inner) = entry.partition.upgrade() else { return };
        let Ok(busy) = Arc::clone(&entry.busy).try_lock_owned() else { return };
        let (handle, registration) = AbortHandle::new_pair();
        entry.running = Some(handle);
        (Partition { inner }, busy, registration)
    };
    let task = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            let place = Arc::clone(&partition.inner.place);
            let result = Abortable::new(partition.compact(&shared.resources), registration).await;
            drop(partition);
            let mut stats = shared.stats.lock();
            stats.runs += 1;
            match result {
                Ok(Ok(report)) => stats.done.add(&report),
                Ok(Err(error)) => {
                    stats.failures += 1;
                    tracing::warn!(partition = %place, %error, "compaction failed; the files stay as they were");
                }
                Err(_) => {}
            }
            drop(stats);
            drop(busy);
        }
    });
    if let Err(error) = task.await {
        shared.stats.lock().failures += 1;
        tracing::error!(%error, "compaction died; the files stay as they were");
    }
    if let Some(entry) = shared.partitions.lock().get_mut(&key) {
        entry.running = None;
    }
}

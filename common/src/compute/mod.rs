//! Where queries compute: on threads of their own, apart from those that serve the network.
//!
//! An operator works for as long as it takes between two awaits. On the threads of the network it would keep heartbeats,
//! HTTP/2 keep-alives and other statements from being served, and peers would take a busy process for a dead one. So
//! each process has two runtimes:
//!
//! * the *network* runtime, on which the process was started: listeners, connections, sessions, the log;
//! * the *compute* runtime: planning, tasks of plans, the streams between them.
//!
//! What computes needs the network, too: connections that are made on a compute thread are driven by the network
//! runtime, which [`network`] finds.
mod service;

use std::{cell::RefCell, fmt, sync::Arc};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio_util::task::AbortOnDropHandle;

pub use self::service::{OnCompute, end_of_call};
use crate::error::{Error, Result};

/// Stack of a thread that may plan a query, in bytes: planning recurses with the depth of the statement.
pub const STACK_BYTES: usize = 16 << 20;

thread_local! {
    /// The network runtime of a compute thread's process.
    static NETWORK: RefCell<Option<Handle>> = const { RefCell::new(None) };
}

/// The runtime that connections belong to: the process's own on a compute thread, otherwise the current one. None
/// outside of any runtime.
#[must_use]
pub fn network() -> Option<Handle> {
    NETWORK.with_borrow(Clone::clone).or_else(|| Handle::try_current().ok())
}

/// The compute runtime. Clones share it; it ends with the last one, without waiting for what still runs.
#[derive(Clone)]
pub struct Compute {
    handle: Handle,
    _runtime: Arc<Owned>,
}

impl fmt::Debug for Compute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compute")
    }
}

struct Owned(Option<Runtime>);

impl Drop for Owned {
    fn drop(&mut self) {
        // The last owner may be a task, which must not wait for a runtime to end.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Compute {
    /// Starts the threads; the current runtime becomes their network runtime.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn start() -> Result<Self> {
        let network = network();
        let runtime = Builder::new_multi_thread()
            .enable_all()
            .worker_threads(threads())
            .thread_stack_size(STACK_BYTES)
            .thread_name("ancho-compute")
            .on_thread_start(move || NETWORK.set(network.clone()))
            .build()
            .map_err(|e| Error::internal(format!("the threads that compute cannot be started: {e}")))?;
        Ok(Self { handle: runtime.handle().clone(), _runtime: Arc::new(Owned(Some(runtime))) })
    }

    /// The runtime, to start tasks on.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs `work` there and gives its outcome. It is started at once; dropping the future ends it at its next await.
    ///
    /// # Errors
    /// Besides those of `work`: it panicked (`Internal`), or the process is ending (`Unavailable`).
    pub fn run<T, F>(&self, work: F) -> impl Future<Output = Result<T>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let task = AbortOnDropHandle::new(self.handle.spawn(work));
        async move {
            match task.await {
                Ok(outcome) => outcome,
                Err(ended) if ended.is_panic() => Err(Error::internal(format!("a task ended abnormally: {ended}"))),
                Err(_) => Err(Error::unavailable("this process is ending; try again")),
            }
        }
    }
}

/// More threads than cores: some operators work for seconds between two awaits (sorting a large batch, building a hash
/// table), and the system shares the cores fairly between those and the statements beside them.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).saturating_mul(4).max(8)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::error::ErrorKind;

    #[tokio::test]
    async fn the_network_is_served_while_all_compute_threads_are_busy() {
        let compute = Compute::start().unwrap();
        let busy: Vec<_> = (0..threads() * 2)
            .map(|_| {
                compute.run(async {
                    let begun = Instant::now();
                    while begun.elapsed() < Duration::from_millis(300) {
                        std::hint::spin_loop();
                    }
                    Ok(())
                })
            })
            .collect();
        let begun = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert!(begun.elapsed() < Duration::from_millis(250), "{:?}", begun.elapsed());
        for work in busy {
            work.await.unwrap();
        }
    }

    #[tokio::test]
    async fn compute_threads_know_the_network_and_others_are_it() {
        let compute = Compute::start().unwrap();
        let here = Handle::current().id();
        assert_eq!(network().unwrap().id(), here);
        let there = compute.run(async { Ok((Handle::current().id(), network().unwrap().id())) }).await.unwrap();
        assert_eq!(there.1, here);
        assert_ne!(there.0, here);
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_a_dropped_future_ends_its_work() {
        let compute = Compute::start().unwrap();
        let panicked = compute.run::<(), _>(async { panic!("oh no") }).await.unwrap_err();
        assert_eq!(panicked.kind, ErrorKind::Internal);
        assert!(panicked.message.contains("oh no"), "{panicked}");
        let (alive, mut gone) = tokio::sync::mpsc::channel::<()>(1);
        let work = compute.run(async move {
            let _alive = alive;
            std::future::pending::<Result<()>>().await
        });
        drop(work);
        assert_eq!(tokio::time::timeout(Duration::from_secs(10), gone.recv()).await, Ok(None));
    }
}

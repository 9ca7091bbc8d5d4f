//! Callers that ask the same question at the same time share one answer.
use std::future::Future;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// Answers any number of concurrent callers with one run of a future. A caller only shares a run that began after it
/// asked, so the answer is never older than the question.
#[derive(Debug, Clone)]
pub(super) struct Coalescer<T> {
    asking: mpsc::UnboundedSender<oneshot::Sender<T>>,
}

impl<T: Clone + Send + 'static> Coalescer<T> {
    /// Starts the task that runs `call`; it ends with `cancel`.
    pub(super) fn start<F, R>(cancel: CancellationToken, call: F) -> Self
    where
        F: Fn() -> R + Send + 'static,
        R: Future<Output = T> + Send,
    {
        let (asking, mut waiting) = mpsc::unbounded_channel::<oneshot::Sender<T>>();
        tokio::spawn(async move {
            while let Some(Some(first)) = cancel.run_until_cancelled(waiting.recv()).await {
                let mut askers = vec![first];
                while let Ok(another) = waiting.try_recv() {
                    askers.push(another);
                }
                askers.retain(|asker| !asker.is_closed());
                if askers.is_empty() {
                    continue;
                }
                let Some(answer) = cancel.run_until_cancelled(call()).await else { return };
                for asker in askers {
                    // Whoever has given up needs no answer.
                    let _ = asker.send(answer.clone());
                }
            }
        });
        Self { asking }
    }

    /// Asks. `None` after the task has ended.
    pub(super) async fn ask(&self) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.asking.send(reply).ok()?;
        answer.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{
            Arc,
            atomic::{AtomicU64, Ordering},
        },
        time::Duration,
    };

    use super::*;

    #[tokio::test]
    async fn concurrent_callers_share_a_run_that_began_after_they_asked() {
        let runs = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&runs);
        let shared = Coalescer::start(CancellationToken::new(), move || {
            let run = counter.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                run
            }
        });
        let first = tokio::spawn({
            let shared = shared.clone();
            async move { shared.ask().await }
        });
        tokio::time::sleep(Duration::from_millis(5)).await;
        let later = futures::future::join_all((0..50).map(|_| shared.ask())).await;
        assert_eq!(first.await.expect("task"), Some(1));
        assert!(later.iter().all(|answer| *answer == Some(2)), "{later:?}");
        assert_eq!(runs.load(Ordering::SeqCst), 2);
    }
}

//! Commits of one metastore share the syncs of its log.
//!
//! A commit writes to SQLite's write-ahead log and does not sync it. Whoever may only go on when the commit is durable waits here:
//! one of those who wait syncs the log for all commits so far, and those who come meanwhile share the next sync.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

/// A commit that may not be durable yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[must_use = "what follows from a commit waits until it is durable"]
pub(crate) struct Committed(u64);

/// See the module.
#[derive(Debug)]
pub(crate) struct SyncGroup {
    log: PathBuf,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Commits so far.
    committed: u64,
    /// Of these, so many are durable.
    synced: u64,
    syncing: bool,
    /// Why nobody knows what of the log is on disk. A second sync would not tell.
    failed: Option<Arc<io::Error>>,
}

impl SyncGroup {
    pub(super) fn new(log: PathBuf) -> Self {
        Self { log, state: Mutex::default(), changed: Condvar::new() }
    }

    /// A commit has been written to the log.
    pub(super) fn committed(&self) -> Committed {
        let mut state = self.state.lock();
        state.committed += 1;
        Committed(state.committed)
    }

    /// The newest commit, if there was any.
    pub(crate) fn latest(&self) -> Option<Committed> {
        let committed = self.state.lock().committed;
        (committed > 0).then_some(Committed(committed))
    }

    /// Nothing may be committed after a failed sync, before the partition is opened again.
    pub(super) fn check(&self) -> io::Result<()> {
        self.state.lock().failed.as_ref().map_or(Ok(()), |failed| Err(again(failed)))
    }

    /// Waits until a commit is durable. Blocks.
    ///
    /// # Errors
    /// The log cannot be synced: it is not known whether the commit will be there after a crash.
    pub(crate) fn wait(&self, commit: Committed) -> io::Result<()> {
        self.wait_with(commit, || match File::open(&self.log) {
            Ok(log) => log.sync_data(),
            // SQLite removes a log when all of it is in the database, and durable there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        })
    }

    fn wait_with(&self, commit: Committed, sync: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let mut state = self.state.lock();
        loop {
            if state.synced >= commit.0 {
                return Ok(());
            }
            if let Some(failed) = &state.failed {
                return Err(again(failed));
            }
            if state.syncing {
                self.changed.wait(&mut state);
                continue;
            }
            state.syncing = true;
            let all = state.committed;
            drop(state);
            let outcome = sync();
            state = self.state.lock();
            state.syncing = false;
            match outcome {
                Ok(()) => state.synced = all,
                Err(error) => state.failed = Some(Arc::new(error)),
            }
            self.changed.notify_all();
        }
    }
}

fn again(failed: &Arc<io::Error>) -> io::Error {
    io::Error::new(
        failed.kind(),
        format!("the log of the metastore could not be synced: {failed}; open the partition again"),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn who_waits_at_the_same_time_shares_a_sync() {
        let group = SyncGroup::new(PathBuf::from("none"));
        let syncs = AtomicU64::new(0);
        let durable = AtomicU64::new(0);
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let commit = group.committed();
                        let sync = || {
                            // What was committed when the sync begins is on disk when it ends.
                            let covered = group.state.lock().committed;
                            thread::sleep(Duration::from_millis(1));
                            durable.fetch_max(covered, Ordering::SeqCst);
                            syncs.fetch_add(1, Ordering::SeqCst);
                            Ok(())
                        };
                        group.wait_with(commit, sync).unwrap();
                        assert!(durable.load(Ordering::SeqCst) >= commit.0, "{commit:?} is not on disk");
                    }
                });
            }
        });
        assert_eq!(group.state.lock().synced, 320);
        assert!(syncs.load(Ordering::SeqCst) <= 320);
        let alone = group.committed();
        let before = syncs.load(Ordering::SeqCst);
        let count = || {
            syncs.fetch_add(1, Ordering::SeqCst);
            Ok(())
        };
        group.wait_with(alone, count).unwrap();
        group.wait_with(alone, count).unwrap();
        assert_eq!(syncs.load(Ordering::SeqCst), before + 1, "what is durable needs no other sync");
    }

    #[test]
    fn commits_that_come_during_a_sync_wait_for_the_next_one() {
        let group = SyncGroup::new(PathBuf::from("none"));
        let first = group.committed();
        let later = Mutex::new(None);
        group
            .wait_with(first, || {
                *later.lock() = Some(group.committed());
                Ok(())
            })
            .unwrap();
        let later = later.lock().unwrap();
        let syncs = AtomicU64::new(0);
        group
            .wait_with(later, || {
                syncs.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
            .unwrap();
        assert_eq!(syncs.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn after_a_failed_sync_nothing_is_durable_any_more() {
        let group = SyncGroup::new(PathBuf::from("none"));
        let durable = group.committed();
        group.wait_with(durable, || Ok(())).unwrap();
        let commit = group.committed();
        assert!(group.wait_with(commit, || Err(io::Error::from(io::ErrorKind::StorageFull))).is_err());
        let error = group.wait_with(commit, || Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(group.check().is_err());
        group.wait_with(durable, || Ok(())).unwrap();
    }
}

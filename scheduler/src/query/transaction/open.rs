//! The transactions that this scheduler has begun.
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use ancho_common::error::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::MutexGuard;
use uuid::Uuid;

use super::own::{OwnWrite, OwnWrites};
use crate::{
    frontend::caller::Caller,
    planner::topology::StagedWrites,
    query::write::Writer,
    state::{ClusterState, WriteRequest},
};

/// Transactions that may be open at a time.
const MAX_OPEN: usize = 10_000;
/// A transaction lasts no longer after its first statement: executors keep versions for ten minutes.
const MAX_AGE: Duration = Duration::from_secs(480);
/// Drivers begin a transaction with the connection, and the next one with the end of the last; it waits so long to be used.
const MAX_UNUSED: Duration = Duration::from_secs(24 * 3600);
/// Pauses of the task that looks after a transaction.
const LEAST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Transactions whose end is remembered.
const REMEMBERED: usize = 1000;

/// One transaction.
#[derive(Debug)]
pub struct Transaction {
    id: String,
    /// Held by the statement that runs: they come one after the other.
    turn: tokio::sync::Mutex<()>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    touched: Instant,
    /// What it reads, and since when: the newest state at its first statement.
    snapshot: Option<(Arc<ClusterState>, Instant)>,
    own: OwnWrites,
    /// Rows that its statements were told.
    rows: u64,
    /// Why nothing of it will be applied.
    failed: Option<Error>,
}

impl Transaction {
    fn new() -> Self {
        let inner = Inner { touched: Instant::now(), snapshot: None, own: OwnWrites::default(), rows: 0, failed: None };
        Self { id: Uuid::now_v7().to_string(), turn: tokio::sync::Mutex::default(), inner: Mutex::new(inner) }
    }

    /// The state that it reads, in the hands of those who hold the partitions in `newest`.
    #[must_use]
    pub fn sees(&self, newest: &Arc<ClusterState>) -> Arc<ClusterState> {
        let mut inner = self.inner.lock();
        let (snapshot, _) = inner.snapshot.get_or_insert_with(|| (Arc::clone(newest), Instant::now()));
        if Arc::ptr_eq(snapshot, newest) { Arc::clone(newest) } else { Arc::new(newest.as_of(snapshot)) }
    }

    /// Refuses what cannot be taken back once it has changed something.
    ///
    /// # Errors
    /// `Unsupported`, saying what to do.
    pub(in crate::query) fn check_unchanged(&self, what: &str) -> Result<()> {
        if self.inner.lock().own.is_empty() {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "{what} takes effect at once, so it cannot follow changes of rows in a transaction; commit them first"
        )))
    }

    /// What it reads from now on is the newest state.
    pub(in crate::query) fn renew(&self) {
        self.inner.lock().snapshot = None;
    }

    /// What it has staged in which partition.
    #[must_use]
    pub fn staged(&self) -> Arc<StagedWrites> {
        Arc::new(self.inner.lock().own.staged())
    }

    /// Begins a statement, when the one before has ended.
    ///
    /// # Errors
    /// That of the statement that failed before.
    pub(super) async fn begin_statement(&self) -> Result<MutexGuard<'_, ()>> {
        let turn = self.turn.lock().await;
        let mut inner = self.inner.lock();
        inner.touched = Instant::now();
        inner.failed.as_ref().map_or(Ok(turn), |failed| Err(after_failure(failed)))
    }

    /// Goes on with what a statement has staged; how many rows of its table that concerned.
    pub(in crate::query) fn staged_more(&self, new: OwnWrite) -> u64 {
        let rows = new.sent.values().map(|sent| sent.rows + sent.removed).sum();
        let mut inner = self.inner.lock();
        inner.own.push(new);
        inner.rows += rows;
        inner.touched = Instant::now();
        rows
    }

    /// A statement failed: nothing of the transaction will be applied.
    pub(super) fn fail(&self, error: &Error) {
        self.inner.lock().failed.get_or_insert_with(|| error.clone());
    }

    /// Why it is to be ended, or else after what time to ask again.
    fn expiry(&self, idle: Duration) -> Result<&'static str, Duration> {
        let running = self.turn.try_lock().is_err();
        let inner = self.inner.lock();
        let untouched = inner.touched.elapsed();
        let left = match &inner.snapshot {
            None => MAX_UNUSED.saturating_sub(untouched),
            Some((_, since)) if since.elapsed() >= MAX_AGE => {
                return Ok("lasted longer than eight minutes and was rolled back");
            }
            Some((_, since)) => idle.saturating_sub(untouched).min(MAX_AGE.saturating_sub(since.elapsed())),
        };
        if left.is_zero() && !running {
            return Ok("was rolled back because nobody went on with it");
        }
        Err(left.max(LEAST_PAUSE))
    }
}

fn after_failure(failed: &Error) -> Error {
    let text = format!("a statement of the transaction failed before ({}); roll it back", failed.message);
    Error::new(failed.kind, text)
}

/// All of them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Transactions {
    writer: Writer,
    idle: Duration,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    open: HashMap<String, Arc<Transaction>>,
    /// Why they are not open any more.
    ended: HashMap<String, &'static str>,
    order: VecDeque<String>,
}

impl Known {
    fn end(&mut self, id: &str, how: &'static str) -> Option<Arc<Transaction>> {
        let transaction = self.open.remove(id)?;
        self.ended.insert(id.to_owned(), how);
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        Some(transaction)
    }
}

impl Transactions {
    /// None yet. One that nobody goes on with for `idle` is rolled back.
    #[must_use]
    pub fn new(writer: Writer, idle: Duration) -> Self {
        Self { writer, idle, known: Arc::default() }
    }

    /// Begins one; its id. It reads the state at its first statement.
    ///
    /// # Errors
    /// `Exhausted` when too many are open.
    pub fn begin(&self) -> Result<String> {
        let transaction = Arc::new(Transaction::new());
        let id = transaction.id.clone();
        let mut known = self.known.lock();
        if known.open.len() >= MAX_OPEN {
            let text =
                format!("{MAX_OPEN} transactions are open at this scheduler; end some of them, or try again later");
            return Err(Error::new(ErrorKind::Exhausted, text));
        }
        known.open.insert(id.clone(), Arc::clone(&transaction));
        drop(known);
        tokio::spawn(watch(self.clone(), Arc::downgrade(&transaction)));
        Ok(id)
    }

    /// An open transaction.
    ///
    /// # Errors
    /// `Conflict` if it is not open here: nothing of it was applied, unless it was committed.
    pub fn get(&self, id: &str) -> Result<Arc<Transaction>> {
        let known = self.known.lock();
        match known.open.get(id) {
            Some(transaction) => Ok(Arc::clone(transaction)),
            None => Err(not_open(known.ended.get(id).copied())),
        }
    }

    /// Applies all that a transaction did, and says how many rows its statements changed. It is over, whatever comes of it.
    ///
    /// # Errors
    /// `Conflict` if another write came first, or a partition changed hands: nothing was applied. `Unknown` names the
    /// request that tells the outcome.
    pub async fn commit(&self, id: &str, caller: &Caller) -> Result<()> {
        let transaction = self.get(id)?;
        // A statement that still runs comes before its end.
        let _turn = transaction.turn.lock().await;
        if self.known.lock().end(id, "was ended before").is_none() {
            return Err(not_open(Some("was ended before")));
        }
        let (mut own, rows, failed) = {
            let mut inner = transaction.inner.lock();
            (std::mem::take(&mut inner.own), inner.rows, inner.failed.clone())
        };
        if let Some(failed) = failed {
            self.writer.discard_transaction(&mut own).await;
            let text = format!("nothing was committed: a statement of the transaction had failed ({})", failed.message);
            return Err(Error::new(failed.kind, text));
        }
        if own.is_empty() {
            return Ok(());
        }
        self.writer.commit_transaction(&mut own, WriteRequest { id: caller.request().to_owned(), rows }).await
    }

    /// Ends a transaction without effect. Fine if it is not open any more.
    pub async fn roll_back(&self, id: &str) {
        self.end(id, "was ended before").await;
    }

    async fn end(&self, id: &str, how: &'static str) {
        let Some(transaction) = self.known.lock().end(id, how) else { return };
        transaction.fail(&not_open(Some(how)));
        let _turn = transaction.turn.lock().await;
        let mut own = std::mem::take(&mut transaction.inner.lock().own);
        self.writer.discard_transaction(&mut own).await;
    }
}

fn not_open(how: Option<&str>) -> Error {
    let how = how.unwrap_or("is not open at this scheduler: it was begun at another one, or this one was started anew");
    Error::conflict(format!("the transaction {how}; nothing more of it can be applied, begin a new one"))
}

/// Rolls a transaction back when nobody goes on with it, or when it lasts too long.
async fn watch(transactions: Transactions, transaction: Weak<Transaction>) {
    while let Some(open) = transaction.upgrade() {
        if !transactions.known.lock().open.contains_key(&open.id) {
            return;
        }
        match open.expiry(transactions.idle) {
            Ok(how) => return transactions.end(&open.id, how).await,
            Err(pause) => {
                drop(open);
                // It may end long before; then nothing but this task is left of it.
                tokio::time::sleep(pause.min(transactions.idle).min(LONGEST_PAUSE)).await;
            }
        }
    }
}

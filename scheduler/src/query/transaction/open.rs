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
    /// How those ended that are not open any more.
    ended: HashMap<String, Ended>,
    order: VecDeque<String>,
}

/// How a transaction ended.
#[derive(Debug, Clone)]
enum Ended {
    Committed,
    /// Nothing was applied, for this reason.
    RolledBack(&'static str),
    /// Nobody knows.
    Unknown(Error),
}

impl Ended {
    /// What is told who goes on with it.
    fn error(&self) -> Error {
        match self {
            Self::Committed => over("was committed"),
            Self::RolledBack(why) => over(why),
            Self::Unknown(error) => error.clone(),
        }
    }
}

impl Known {
    fn find(&self, id: &str) -> Result<Arc<Transaction>, Option<&Ended>> {
        self.open.get(id).cloned().ok_or_else(|| self.ended.get(id))
    }

    fn end(&mut self, id: &str, how: Ended) {
        if self.open.remove(id).is_none() {
            return;
        }
        self.ended.insert(id.to_owned(), how);
        self.order.push_back(id.to_owned());
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ended.remove(&oldest);
        }
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
    /// `Conflict` if it is not open here.
    pub fn get(&self, id: &str) -> Result<Arc<Transaction>> {
        self.known.lock().find(id).map_err(|ended| ended.map_or_else(unknown_here, Ended::error))
    }

    /// Applies all that a transaction did. It is over, whatever comes of it; to commit it again is fine, and answers
    /// the same.
    ///
    /// # Errors
    /// `Conflict` if another write came first, or a partition changed hands: nothing was applied. `Unknown` names the
    /// request that tells the outcome.
    pub async fn commit(&self, id: &str, caller: &Caller) -> Result<()> {
        let found = self.known.lock().find(id).map_err(Option::<&Ended>::cloned);
        let transaction = match found {
            Ok(transaction) => transaction,
            Err(Some(Ended::Committed)) => return Ok(()),
            Err(ended) => return Err(ended.as_ref().map_or_else(unknown_here, Ended::error)),
        };
        // A statement that still runs comes before its end; so does another call that ends it.
        let _turn = transaction.turn.lock().await;
        if let Err(ended) = self.known.lock().find(id) {
            return match ended {
                Some(Ended::Committed) => Ok(()),
                other => Err(other.map_or_else(unknown_here, Ended::error)),
            };
        }
        let outcome = self.apply(&transaction, caller).await;
        let ended = match &outcome {
            Ok(()) => Ended::Committed,
            Err(error) if error.kind == ErrorKind::Unknown => Ended::Unknown(error.clone()),
            Err(_) => Ended::RolledBack("could not be committed"),
        };
        transaction.fail(&ended.error());
        self.known.lock().end(id, ended);
        outcome
    }

    async fn apply(&self, transaction: &Transaction, caller: &Caller) -> Result<()> {
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
        self.end(id, "was rolled back").await;
    }

    async fn end(&self, id: &str, why: &'static str) {
        let Ok(transaction) = self.get(id) else { return };
        let _turn = transaction.turn.lock().await;
        // A commit may have been the turn before.
        if self.get(id).is_err() {
            return;
        }
        let ended = Ended::RolledBack(why);
        transaction.fail(&ended.error());
        self.known.lock().end(id, ended);
        let mut own = std::mem::take(&mut transaction.inner.lock().own);
        self.writer.discard_transaction(&mut own).await;
    }
}

fn over(how: &str) -> Error {
    Error::conflict(format!("the transaction {how}; nothing more of it can be applied, begin a new one"))
}

fn unknown_here() -> Error {
    Error::conflict(
        "the transaction is not open at this scheduler: it was begun at another one, or this one was started anew; begin a new \
         one (if its COMMIT was sent before, system.writes tells whether it was applied)",
    )
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

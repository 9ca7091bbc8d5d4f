//! `raft.db`: one SQLite file with the log, the vote, the snapshot and the identity of a node.
//!
//! One thread owns the connection and works through commands in the order they were given, so a read sees
//! everything that was written before it, and *has been made durable* before it. Appends that wait in the queue
//! share one transaction, hence one fsync.
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};
use tokio::sync::oneshot;

use super::error::{Error, Result};

/// Layout of the tables, in `PRAGMA user_version`. Raised when a release can no longer read what an older one wrote.
const FORMAT_VERSION: i64 = 1;
/// The committed index rides along with the next append; alone it is written after this long.
const COMMITTED_DELAY: Duration = Duration::from_millis(50);
/// How long another process (or a predecessor that is still closing) may hold the file.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const MAX_GROUP_ROWS: usize = 8192;

/// Keys of the table `meta`.
pub(super) mod key {
    pub(in crate::raft) const NODE_ID: &str = "node_id";
    pub(in crate::raft) const INCARNATION: &str = "incarnation";
    pub(in crate::raft) const CLUSTER_ID: &str = "cluster_id";
    pub(in crate::raft) const VOTE: &str = "vote";
    pub(in crate::raft) const COMMITTED: &str = "committed";
    pub(in crate::raft) const PURGED: &str = "purged";
}

const SCHEMA: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE log (idx INTEGER PRIMARY KEY, entry TEXT NOT NULL);
    CREATE TABLE snapshot (
        slot INTEGER PRIMARY KEY CHECK (slot = 1),
        last_index INTEGER NOT NULL,
        meta TEXT NOT NULL,
        state TEXT NOT NULL
    );
";

type Done = Box<dyn FnOnce(io::Result<()>) + Send>;
type Job = Box<dyn FnOnce(&mut Connection) + Send>;

enum Command {
    Append { rows: Vec<(u64, String)>, done: Done },
    Committed(String),
    WriteCommitted,
    Run(Job),
    Close(oneshot::Sender<()>),
}

/// The identity rows of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredIdentity {
    pub(super) node_id: u64,
    pub(super) incarnation: String,
    pub(super) cluster_id: Option<String>,
}

/// A handle to the thread that owns the file. The file is closed when [`Database::close`] is called or the last
/// handle is gone.
#[derive(Debug, Clone)]
pub(super) struct Database {
    commands: Sender<Command>,
    path: Arc<PathBuf>,
}

impl Database {
    /// Opens or makes `<dir>/raft.db` and holds it exclusively. Blocks.
    ///
    /// # Errors
    /// The file is held by another process, was written by a newer release, or cannot be written.
    pub(super) fn open(dir: &Path) -> Result<(Self, Option<StoredIdentity>)> {
        let path = dir.join("raft.db");
        let fail = |reason: String| Error::Storage { path: path.clone(), reason };
        std::fs::create_dir_all(dir).map_err(|e| fail(format!("cannot make its directory: {e}")))?;
        let mut connection = Connection::open(&path).map_err(|e| fail(describe(&e)))?;
        prepare(&mut connection).map_err(|e| fail(describe(&e)))?.map_err(fail)?;
        let identity = read_identity(&connection).map_err(|e| fail(describe(&e)))?.map_err(fail)?;

        let (commands, queue) = mpsc::channel();
        std::thread::Builder::new()
            .name("raft-db".into())
            .spawn(move || serve(connection, &queue))
            .map_err(|e| fail(format!("cannot start its thread: {e}")))?;
        Ok((Self { commands, path: Arc::new(path) }, identity))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Queues log rows; `done` is called once they are durable, or with the reason why they are not.
    pub(super) fn append(&self, rows: Vec<(u64, String)>, done: Done) -> io::Result<()> {
        self.send(Command::Append { rows, done })
    }

    /// Queues the committed index (JSON). It may be lost in a crash: the group knows better by then.
    pub(super) fn set_committed(&self, committed: String) -> io::Result<()> {
        self.send(Command::Committed(committed))
    }

    /// The committed index (JSON) as last set.
    pub(super) async fn committed(&self) -> io::Result<Option<String>> {
        self.send(Command::WriteCommitted)?;
        self.get(key::COMMITTED).await
    }

    /// Runs `job` on the connection after everything queued before it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(Command::Run(Box::new(move |connection| {
            // A caller that no longer waits does not undo the work.
            let _ = reply.send(job(connection));
        })))?;
        answer.await.map_err(|_| self.closed())?.map_err(|e| io::Error::other(describe(&e)))
    }

    /// Reads a row of `meta`.
    pub(super) async fn get(&self, key: &'static str) -> io::Result<Option<String>> {
        self.run(move |c| get(c, key)).await
    }

    /// Writes a row of `meta`, durably.
    pub(super) async fn set(&self, key: &'static str, value: String) -> io::Result<()> {
        self.run(move |c| set(c, key, &value)).await
    }

    /// Writes what is pending and releases the file. Later calls fail.
    pub(super) async fn close(&self) {
        let (reply, answer) = oneshot::channel();
        if self.send(Command::Close(reply)).is_ok() {
            // An error means that the thread had ended already.
            let _ = answer.await;
        }
    }

    fn send(&self, command: Command) -> io::Result<()> {
        self.commands.send(command).map_err(|_| self.closed())
    }

    fn closed(&self) -> io::Error {
        io::Error::other(format!("raft store {} is closed", self.path.display()))
    }
}

/// Sets the connection up and makes the tables. The inner error is one to tell the operator in our own words.
fn prepare(connection: &mut Connection) -> rusqlite::Result<Result<(), String>> {
    connection.busy_timeout(LOCK_WAIT)?;
    connection.execute_batch(
        "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    match version {
        0 => {
            transaction.execute_batch(SCHEMA)?;
            transaction.pragma_update(None, "user_version", FORMAT_VERSION)?;
            transaction.commit()?;
        }
        FORMAT_VERSION => {}
        other => {
            return Ok(Err(format!(
                "its format is {other}, this release reads format {FORMAT_VERSION}: run the release that wrote it"
            )));
        }
    }
    Ok(Ok(()))
}

fn read_identity(connection: &Connection) -> rusqlite::Result<Result<Option<StoredIdentity>, String>> {
    let (Some(node_id), Some(incarnation)) = (get(connection, key::NODE_ID)?, get(connection, key::INCARNATION)?)
    else {
        return Ok(Ok(None));
    };
    let Ok(node_id) = node_id.parse() else {
        return Ok(Err(format!("its node id `{node_id}` is no number: the file is damaged")));
    };
    let cluster_id = get(connection, key::CLUSTER_ID)?;
    Ok(Ok(Some(StoredIdentity { node_id, incarnation, cluster_id })))
}

pub(super) fn get(connection: &Connection, key: &str) -> rusqlite::Result<Option<String>> {
    connection.prepare_cached("SELECT value FROM meta WHERE key = ?1")?.query_row([key], |r| r.get(0)).optional()
}

pub(super) fn set(connection: &Connection, key: &str, value: &str) -> rusqlite::Result<()> {
    connection
        .prepare_cached("INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2")?
        .execute([key, value])
        .map(drop)
}

fn describe(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "it is held by another scheduler process: stop that one first".into()
        }
        Some(ErrorCode::DiskFull) => format!("the disk is full ({error}): free space"),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => format!("the file is damaged ({error})"),
        _ => error.to_string(),
    }
}

/// The thread: commands in order, neighbouring appends in one transaction.
fn serve(mut connection: Connection, queue: &Receiver<Command>) {
    let mut writer = Writer { committed: None, failed: None };
    let mut held = None;
    loop {
        let next = match held.take() {
            Some(command) => Some(command),
            None => writer.wait(&connection, queue),
        };
        match next {
            None => {
                writer.write_committed(&connection);
                return;
            }
            Some(Command::Append { rows, done }) => {
                held = writer.append_group(&mut connection, queue, rows, done);
            }
            Some(Command::Committed(value)) => writer.note_committed(value),
            Some(Command::WriteCommitted) => writer.write_committed(&connection),
            Some(Command::Run(job)) => job(&mut connection),
            Some(Command::Close(reply)) => {
                writer.write_committed(&connection);
                // SQLite also removes the write-ahead log here.
                if let Err((_, error)) = connection.close() {
                    tracing::warn!(%error, "closing the raft store");
                }
                let _ = reply.send(());
                return;
            }
        }
    }
}

struct Writer {
    /// Not yet written, and since when.
    committed: Option<(String, Instant)>,
    /// After a failed append nothing may follow, or the log would have a hole.
    failed: Option<String>,
}

impl Writer {
    /// The next command; `None` when every handle is gone.
    fn wait(&mut self, connection: &Connection, queue: &Receiver<Command>) -> Option<Command> {
        if let Some((_, since)) = &self.committed {
            let left = COMMITTED_DELAY.saturating_sub(since.elapsed());
            match queue.recv_timeout(left) {
                Ok(command) => return Some(command),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => self.write_committed(connection),
            }
        }
        queue.recv().ok()
    }

    fn note_committed(&mut self, value: String) {
        let since = self.committed.take().map_or_else(Instant::now, |(_, since)| since);
        self.committed = Some((value, since));
    }

    fn write_committed(&mut self, connection: &Connection) {
        if let Some((value, _)) = self.committed.take()
            && let Err(error) = set(connection, key::COMMITTED, &value)
        {
            // Only a hint: without it the node learns from the group what is committed.
            tracing::warn!(%error, "writing the committed index");
        }
    }

    /// Writes an append and those queued right behind it. Returns the first command that is none.
    fn append_group(
        &mut self,
        connection: &mut Connection,
        queue: &Receiver<Command>,
        rows: Vec<(u64, String)>,
        done: Done,
    ) -> Option<Command> {
        let mut waiting = vec![done];
        let mut group = rows;
        let mut held = None;
        while group.len() < MAX_GROUP_ROWS {
            match queue.try_recv() {
                Ok(Command::Append { rows, done }) => {
                    group.extend(rows);
                    waiting.push(done);
                }
                Ok(Command::Committed(value)) => self.note_committed(value),
                Ok(other) => {
                    held = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        if self.failed.is_none()
            && let Err(error) = self.write_group(connection, &group)
        {
            let reason = describe(&error);
            tracing::error!(%reason, "appending to the raft log");
            self.failed = Some(reason);
        }
        for done in waiting {
            done(match &self.failed {
                None => Ok(()),
                Some(reason) => Err(io::Error::other(format!("appending to the raft log: {reason}"))),
            });
        }
        held
    }

    fn write_group(&mut self, connection: &mut Connection, group: &[(u64, String)]) -> rusqlite::Result<()> {
        let transaction = connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO log (idx, entry) VALUES (?1, ?2)")?;
            for (index, entry) in group {
                insert.execute(params![sql_index(*index), entry])?;
            }
        }
        if let Some((value, _)) = self.committed.take() {
            set(&transaction, key::COMMITTED, &value)?;
        }
        transaction.commit()
    }
}

/// SQLite's integers are signed; a log index never gets near the sign.
pub(super) fn sql_index(index: u64) -> i64 {
    i64::try_from(index).unwrap_or(i64::MAX)
}

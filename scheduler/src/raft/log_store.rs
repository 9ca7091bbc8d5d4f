//! The log and the vote, as openraft wants them, on top of [`Database`].
use std::{fmt::Debug, io, ops::Bound, ops::RangeBounds, sync::Arc};

use openraft::{
    OptionalSend,
    storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage},
};
use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    database::{self, Database, key, sql_index},
    types::{Entry, LogId, TypeConfig, Vote},
};

/// A message to a follower holds about this many bytes of log at most.
const MAX_READ_BYTES: usize = 4 << 20;

/// The stored log of a node. Cheap to clone; also its own reader.
#[derive(Debug, Clone)]
pub(super) struct LogStore {
    db: Database,
    /// The last saved vote; every replication round asks for it.
    vote: Arc<Mutex<Option<Vote>>>,
}

impl LogStore {
    pub(super) async fn open(db: Database) -> io::Result<Self> {
        let vote = db.get(key::VOTE).await?.map(|text| from_json("vote", &text)).transpose()?;
        Ok(Self { db, vote: Arc::new(Mutex::new(vote)) })
    }

    /// Entries `first..=last`, without gaps; ends early after `max_bytes`, but not before the first entry.
    async fn read(&self, first: u64, last: u64, max_bytes: usize) -> io::Result<Vec<Entry>> {
        if first > last {
            return Ok(Vec::new());
        }
        let texts = self.db.run(move |c| read_entries(c, first, last, max_bytes)).await?;
        let mut entries: Vec<Entry> = Vec::with_capacity(texts.len());
        for text in &texts {
            let entry: Entry = from_json("log entry", text)?;
            if let Some(before) = entries.last()
                && before.log_id.index + 1 != entry.log_id.index
            {
                return Err(io::Error::other(format!(
                    "raft log {} has a hole between entries {} and {}: the file is damaged",
                    self.db.path().display(),
                    before.log_id.index,
                    entry.log_id.index
                )));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let Some((first, last)) = inclusive(&range) else { return Ok(Vec::new()) };
        self.read(first, last, usize::MAX).await
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(*self.vote.lock())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        let Some((first, last)) = inclusive(&(start..end)) else { return Ok(Vec::new()) };
        self.read(first, last, MAX_READ_BYTES).await
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let (purged, last) = self
            .db
            .run(|c| {
                let last: Option<String> =
                    c.query_row("SELECT entry FROM log ORDER BY idx DESC LIMIT 1", [], |r| r.get(0)).optional()?;
                Ok((database::get(c, key::PURGED)?, last))
            })
            .await?;
        let last_purged_log_id: Option<LogId> = purged.map(|t| from_json("purged log id", &t)).transpose()?;
        let last: Option<Entry> = last.map(|t| from_json("log entry", &t)).transpose()?;
        Ok(LogState { last_log_id: last.map(|e| e.log_id).or(last_purged_log_id), last_purged_log_id })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        self.db.set(key::VOTE, to_json("vote", vote)?).await?;
        *self.vote.lock() = Some(*vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        self.db.set_committed(to_json("committed log id", &committed)?)
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        match self.db.committed().await? {
            None => Ok(None),
            Some(text) => from_json("committed log id", &text),
        }
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<TypeConfig>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let rows = entries
            .into_iter()
            .map(|entry| Ok((entry.log_id.index, to_json("log entry", &entry)?)))
            .collect::<io::Result<Vec<_>>>()?;
        // Readable at once, since reads queue behind it.
        self.db.append(rows, Box::new(move |result| callback.io_completed(result)))
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        let from = last_log_id.map_or(0, |id| id.index + 1);
        self.db.run(move |c| c.execute("DELETE FROM log WHERE idx >= ?1", [sql_index(from)]).map(drop)).await
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        let text = to_json("purged log id", &log_id)?;
        self.db
            .run(move |c| {
                let transaction = c.transaction()?;
                transaction.execute("DELETE FROM log WHERE idx <= ?1", [sql_index(log_id.index)])?;
                database::set(&transaction, key::PURGED, &text)?;
                transaction.commit()
            })
            .await
    }
}

fn read_entries(c: &Connection, first: u64, last: u64, max_bytes: usize) -> rusqlite::Result<Vec<String>> {
    let mut select = c.prepare_cached("SELECT entry FROM log WHERE idx BETWEEN ?1 AND ?2 ORDER BY idx")?;
    let mut rows = select.query(params![sql_index(first), sql_index(last)])?;
    let mut entries = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let entry: String = row.get(0)?;
        bytes += entry.len();
        if bytes > max_bytes && !entries.is_empty() {
            break;
        }
        entries.push(entry);
    }
    Ok(entries)
}

/// First and last index of a range; `None` if it is empty.
fn inclusive(range: &impl RangeBounds<u64>) -> Option<(u64, u64)> {
    let first = match range.start_bound() {
        Bound::Included(i) => *i,
        Bound::Excluded(i) => i.checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let last = match range.end_bound() {
        Bound::Included(i) => *i,
        Bound::Excluded(i) => i.checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    (first <= last).then_some((first, last))
}

pub(super) fn to_json<T: Serialize>(what: &str, value: &T) -> io::Result<String> {
    serde_json::to_string(value).map_err(|e| io::Error::other(format!("{what} cannot be encoded: {e}")))
}

pub(super) fn from_json<T: DeserializeOwned>(what: &str, text: &str) -> io::Result<T> {
    serde_json::from_str(text)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, format!("stored {what} cannot be decoded: {e}")))
}

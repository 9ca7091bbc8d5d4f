//! What became of the latest writes, by the id of the request that asked for them: a client that lost the answer finds it
//! here, and a request that comes again is not applied again.
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use ancho_common::{
    error::Error,
    fingerprint::Fingerprint,
    ids::{TableId, WriteId},
};
use serde::{Deserialize, Serialize};

/// At least so many writes are remembered.
const KEEP_WRITES: usize = 10_000;
/// Writes per chunk.
const CHUNK: usize = 128;

/// A request that was applied, be it that it found nothing to change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenRecord {
    /// Its table; none where there was none, as for `DROP TABLE IF EXISTS`.
    pub table: Option<TableId>,
    /// The table's name then.
    pub table_name: String,
    /// The write; none where the table itself was made, dropped or renamed.
    pub write_id: Option<WriteId>,
    /// Rows that the client is told.
    pub rows: u64,
    /// Version of the table that it made.
    pub version: u64,
    /// When, milliseconds since the epoch.
    pub at_ms: u64,
    /// What was asked for, if the client chose the request's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<Fingerprint>,
}

/// A bounded map, oldest out first. The state is copied on write, so all but the newest chunk are shared between copies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Written {
    chunks: VecDeque<Arc<BTreeMap<String, WrittenRecord>>>,
}

impl Written {
    /// What a request did, if it did and is still known.
    #[must_use]
    pub fn find(&self, request: &str) -> Option<&WrittenRecord> {
        self.chunks.iter().rev().find_map(|chunk| chunk.get(request))
    }

    /// As [`find`](Self::find), for a request that asks for `statement`.
    ///
    /// # Errors
    /// `Invalid`: under this id something else was asked for.
    pub fn repeated(&self, request: &str, statement: Option<Fingerprint>) -> Result<Option<&WrittenRecord>, Error> {
        let Some(record) = self.find(request) else { return Ok(None) };
        match (record.statement, statement) {
            (Some(before), Some(now)) if before != now => Err(Error::invalid(format!(
                "request id {request} was used before, for another statement on table {}; nothing was changed now: give each \
                 statement an id of its own, and repeat one with the same text and values",
                record.table_name
            ))),
            _ => Ok(Some(record)),
        }
    }

    /// All that is remembered, by request.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &WrittenRecord)> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    pub(super) fn push(&mut self, request: String, record: WrittenRecord) {
        if self.chunks.back().is_none_or(|chunk| chunk.len() >= CHUNK) {
            self.chunks.push_back(Arc::default());
        }
        if let Some(chunk) = self.chunks.back_mut() {
            Arc::make_mut(chunk).insert(request, record);
        }
        let known: usize = self.chunks.iter().map(|chunk| chunk.len()).sum();
        if self.chunks.front().is_some_and(|oldest| known - oldest.len() >= KEEP_WRITES) {
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_writes_are_known_and_memory_is_bounded() {
        let mut written = Written::default();
        let record = |rows| WrittenRecord {
            table: Some(TableId(1)),
            table_name: "t".into(),
            write_id: Some(WriteId::new()),
            rows,
            version: 1,
            at_ms: 0,
            statement: None,
        };
        for i in 0..10_500 {
            written.push(i.to_string(), record(i));
        }
        assert!(written.find("0").is_none() && written.iter().count() < KEEP_WRITES + CHUNK);
        for i in 500..10_500 {
            assert_eq!(written.find(&i.to_string()).map(|r| r.rows), Some(i));
        }
    }

    #[test]
    fn records_of_earlier_releases_are_read() {
        let id = WriteId::new();
        let old = format!(r#"{{"table":7,"table_name":"t","write_id":"{id}","rows":2,"version":3,"at_ms":4}}"#);
        let record: WrittenRecord = serde_json::from_str(&old).unwrap();
        assert_eq!((record.table, record.write_id, record.statement), (Some(TableId(7)), Some(id), None));
        let mut written = Written::default();
        written.push("x".into(), record);
        let asked = Fingerprint::of("DELETE FROM t", None).ok();
        assert_eq!(written.repeated("x", asked).unwrap().map(|r| r.rows), Some(2), "what it asked for is not known");
    }
}

//! The head of a dataset's folder, `metadata.json`: which snapshots there are, and which of them is the current one. Pure.
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{ENGINE, FORMAT, set::StoredObject};
use crate::error::{Error, Result};

/// Entries that a head has at most. It is read and written as a whole; retention keeps it far below.
pub const MOST_ENTRIES: usize = 10_000;

/// The document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// See [`FORMAT`].
    pub format: u32,
    /// Name of the table.
    pub dataset: String,
    /// The cluster that publishes here.
    pub cluster_id: String,
    /// Another one with every change: the writer recognises its own.
    pub change_id: Uuid,
    /// Grows with every change, so that an old copy is known as such.
    pub head_version: u64,
    /// The highest epoch that it was changed under.
    pub epoch: u64,
    /// The snapshot that is to be used.
    pub current: Option<Uuid>,
    /// The snapshot that stays the current one, if one was chosen: readers go back to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<Uuid>,
    /// All snapshots, oldest first.
    pub snapshots: Vec<HeadEntry>,
}

/// One snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeadEntry {
    /// Its id.
    pub id: Uuid,
    /// What wrote its data files.
    pub engine: String,
    /// Its set.
    pub set: StoredObject,
    /// The table's id in the cluster that made it.
    pub table_id: u64,
    /// The version of the table that it holds.
    pub table_version: u64,
    /// Rows of the table.
    pub rows: u64,
    /// Bytes of its data files.
    pub bytes: u64,
    /// The epoch that it was published under.
    pub epoch: u64,
    /// When it was published, milliseconds since 1970.
    pub published_ms: u64,
    /// SHA-256 of the schema in the set, so that a reader sees without the set whether it can use it.
    pub schema_fingerprint: String,
}

/// A change that came with an epoch that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced {
    /// The epoch of the change.
    pub epoch: u64,
    /// The epoch of the head.
    pub current: u64,
}

impl Head {
    /// Of a dataset without snapshots.
    #[must_use]
    pub fn new(dataset: &str, cluster_id: &str) -> Self {
        Self {
            format: FORMAT,
            dataset: dataset.to_owned(),
            cluster_id: cluster_id.to_owned(),
            change_id: Uuid::nil(),
            head_version: 0,
            epoch: 0,
            current: None,
            pinned: None,
            snapshots: Vec::new(),
        }
    }

    /// Reads a head and checks that it makes sense.
    ///
    /// # Errors
    /// `Corrupt` with what is wrong.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let unreadable = |e: serde_json::Error| Error::corrupt(format!("it is no head of snapshots: {e}"));
        let Versioned { format } = serde_json::from_slice(bytes).map_err(unreadable)?;
        if format != FORMAT {
            return Err(Error::corrupt(format!("it has format {format}; this release reads {FORMAT}")));
        }
        let head: Self = serde_json::from_slice(bytes).map_err(unreadable)?;
        let known = |id: &Uuid| head.entry(*id).is_some();
        if !head.current.iter().all(known) {
            return Err(Error::corrupt("its current snapshot is not in its list"));
        }
        Ok(head)
    }

    /// As bytes.
    ///
    /// # Errors
    /// Never with a head; the library's signature allows it.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec_pretty(self).map_err(|e| Error::internal(format!("writing a head of snapshots: {e}")))
    }

    /// The snapshot of this id.
    #[must_use]
    pub fn entry(&self, id: Uuid) -> Option<&HeadEntry> {
        self.snapshots.iter().find(|entry| entry.id == id)
    }

    /// The snapshot that was published last.
    #[must_use]
    pub fn newest(&self) -> Option<&HeadEntry> {
        self.snapshots.last()
    }

    /// Whether a change may come with this epoch, which then is the head's.
    ///
    /// # Errors
    /// [`Fenced`] where a later one has been here.
    pub fn enter(&mut self, epoch: u64) -> Result<(), Fenced> {
        if epoch < self.epoch {
            return Err(Fenced { epoch, current: self.epoch });
        }
        self.epoch = epoch;
        Ok(())
    }

    /// Adds a snapshot, which becomes the current one unless another is pinned. Adding it again changes nothing. A pin of a
    /// snapshot that is not listed goes.
    pub fn publish(&mut self, entry: HeadEntry) {
        if self.entry(entry.id).is_some() {
            return;
        }
        self.pinned = self.pinned.filter(|id| self.entry(*id).is_some());
        if self.pinned.is_none() {
            self.current = Some(entry.id);
        }
        self.snapshots.push(entry);
    }

    /// Makes a snapshot the current one until another is pinned or none is. Answers whether that changed anything.
    ///
    /// # Errors
    /// `NotFound` where it is not listed.
    pub fn pin(&mut self, id: Uuid) -> Result<bool> {
        if self.entry(id).is_none() {
            return Err(self.unknown(id));
        }
        let change = (self.pinned, self.current) != (Some(id), Some(id));
        (self.pinned, self.current) = (Some(id), Some(id));
        Ok(change)
    }

    /// Makes the newest snapshot the current one again. Answers whether that changed anything: nothing does if none is pinned.
    pub fn unpin(&mut self) -> bool {
        if self.pinned.take().is_none() {
            return false;
        }
        self.current = self.newest().map(|entry| entry.id);
        true
    }

    /// What is said of a snapshot that is not listed.
    #[must_use]
    pub fn unknown(&self, id: Uuid) -> Error {
        Error::not_found(format!(
            "snapshot {id} of table {} is not listed: it never was, or its time is over; list the snapshots to see which are",
            self.dataset
        ))
    }

    /// Takes out the snapshots that were published before a moment, milliseconds since 1970: never the current one, nor the
    /// newest `min_keep`, nor those that are `needed`. Answers how many went.
    pub fn prune(&mut self, before_ms: u64, min_keep: usize, needed: &[Uuid]) -> usize {
        let count = self.snapshots.len();
        let newest = count.saturating_sub(min_keep.max(1));
        let chosen = [self.current, self.pinned];
        let mut surplus = count.saturating_sub(MOST_ENTRIES);
        let mut position = 0;
        self.snapshots.retain(|entry| {
            let stays = position >= newest || chosen.contains(&Some(entry.id)) || needed.contains(&entry.id);
            position += 1;
            let goes = !stays && (entry.published_ms < before_ms || surplus > 0);
            if goes {
                surplus = surplus.saturating_sub(1);
            }
            !goes
        });
        count - self.snapshots.len()
    }

    /// Whether this cluster may publish here.
    ///
    /// # Errors
    /// `Conflict` where another one does.
    pub fn check_cluster(&self, cluster_id: &str) -> Result<()> {
        if self.cluster_id == cluster_id {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "cluster {} publishes snapshots of {} here; give this cluster another location",
            self.cluster_id, self.dataset
        )))
    }
}

impl HeadEntry {
    /// Whether this release can read its data files.
    ///
    /// # Errors
    /// `Unsupported`, naming both engines.
    pub fn check_engine(&self) -> Result<()> {
        if self.engine == ENGINE {
            return Ok(());
        }
        Err(Error::unsupported(format!("snapshot {} was made by engine {}, not by {ENGINE}", self.id, self.engine)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn entry(n: u128) -> HeadEntry {
        HeadEntry {
            id: Uuid::from_u128(n),
            engine: ENGINE.to_owned(),
            set: StoredObject { key: format!("sets/{n}"), bytes: 1, sha256: "00".to_owned() },
            table_id: 1,
            table_version: u64::try_from(n).unwrap(),
            rows: 1,
            bytes: 1,
            epoch: 1,
            published_ms: 0,
            schema_fingerprint: String::new(),
        }
    }

    #[test]
    fn an_epoch_that_is_over_is_refused() {
        let mut head = Head::new("t", "c");
        head.enter(3).unwrap();
        assert_eq!(head.enter(2), Err(Fenced { epoch: 2, current: 3 }));
        head.enter(3).unwrap();
        head.publish(entry(1));
        head.publish(entry(1));
        assert_eq!((head.snapshots.len(), head.current), (1, Some(Uuid::from_u128(1))));
        assert!(head.check_cluster("c").is_ok() && head.check_cluster("d").unwrap_err().message.contains("cluster c"));
        let strange = HeadEntry { engine: "duckdb".to_owned(), ..entry(2) };
        assert!(strange.check_engine().unwrap_err().message.contains("duckdb, not by cayenne"));
    }

    #[test]
    fn a_head_that_makes_no_sense_is_refused() {
        let mut head = Head::new("t", "c");
        head.publish(entry(1));
        let good = head.encode().unwrap();
        assert_eq!(Head::decode(&good).unwrap(), head);
        let other = String::from_utf8(good.clone()).unwrap().replacen("\"format\": 1", "\"format\": 9", 1);
        assert!(Head::decode(other.as_bytes()).unwrap_err().message.contains("format 9"));
        head.current = Some(Uuid::from_u128(9));
        assert!(Head::decode(&head.encode().unwrap()).is_err());
        assert!(Head::decode(&good[..good.len() - 2]).is_err());
    }

    #[test]
    fn old_snapshots_go_and_what_is_needed_stays() {
        let at = |n: u128, published_ms| HeadEntry { published_ms, ..entry(n) };
        let ids = |head: &Head| head.snapshots.iter().map(|entry| entry.table_version).collect::<Vec<_>>();
        let mut head = Head::new("t", "c");
        for n in 1..=6 {
            head.publish(at(n, u64::try_from(n).unwrap() * 10));
        }
        head.current = Some(Uuid::from_u128(2));
        assert_eq!(head.prune(45, 1, &[Uuid::from_u128(3)]), 2);
        assert_eq!(ids(&head), [2, 3, 5, 6]);
        assert_eq!(head.prune(1000, 2, &[]), 1);
        assert_eq!(ids(&head), [2, 5, 6], "the current one and the newest two");
        assert_eq!(head.prune(1000, 0, &[]), 1);
        assert_eq!(ids(&head), [2, 6], "the newest stays in any case");
    }

    #[test]
    fn a_pin_holds_until_it_is_taken_out() {
        let id = Uuid::from_u128;
        let mut head = Head::new("t", "c");
        (1..=3).for_each(|n| head.publish(entry(n)));
        assert!(!head.unpin());
        assert!(head.pin(id(9)).unwrap_err().message.contains("not listed"));
        assert_eq!((head.pin(id(1)), head.pin(id(1))), (Ok(true), Ok(false)));
        head.publish(entry(4));
        assert_eq!(
            (head.current, head.pinned),
            (Some(id(1)), Some(id(1))),
            "what is published does not become current"
        );
        assert_eq!(head.prune(1000, 1, &[]), 2, "the pinned one stays at any age");
        assert!(head.entry(id(1)).is_some());
        assert!(head.unpin());
        assert_eq!((head.current, head.pinned), (Some(id(4)), None));

        // Somebody has pinned what is not listed: the next snapshot ends that.
        head.pinned = Some(id(9));
        head.publish(entry(5));
        assert_eq!((head.current, head.pinned), (Some(id(5)), None));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(at in 0usize..400, byte: u8) {
            let mut head = Head::new("t", "c");
            head.publish(entry(1));
            let mut bytes = head.encode().unwrap();
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = Head::decode(&bytes);
        }
    }
}

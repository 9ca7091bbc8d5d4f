//! Deletes of rows that are being rewritten.
//!
//! A rewrite reads files as one generation shows them. Rows that are deleted while it writes are in the new files, in
//! other positions; their keys say which. So a rewrite goes on beside writers of its files.

use std::collections::{BTreeMap, HashSet};

use futures::StreamExt;
use roaring::RoaringTreemap;
use uuid::Uuid;

use super::Keyed;
use super::reader::KeyReader;
use crate::deletion_vector::DeletionVector;
use crate::error::Result;
use crate::keys::encoder::Key;
use crate::keys::memory::KeyMemory;
use crate::keys::write_keys::{KeyRule, WriteKeys};
use crate::partition::Partition;
use crate::pin::PinnedVersion;
use crate::state::{Deletes, VisibleFile};

impl Partition {
    /// Whether rewrites of files follow deletes that come meanwhile, or give way to them.
    pub(crate) fn carries_deletes(&self) -> bool {
        let inner = &self.inner;
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let (bytes, target) = (self.summary().bytes, inner.tuning().target_file_bytes);
        inner.settings.deletion_mode.goes_by_key(inner.keyed.is_some(), bytes, target, cpus)
    }
}

/// The rows of `new` files that were deleted in the files `out` from `read` until `now`. `None` when that cannot be said,
/// because one of the files is gone.
pub(crate) async fn carry(
    keyed: &Keyed,
    read: &PinnedVersion,
    now: &PinnedVersion,
    out: &HashSet<Uuid>,
    new: &[VisibleFile],
) -> Result<Option<Deletes>> {
    let mut gone = WriteKeys::new(keyed.encoder.encoding(), KeyRule::LastArrival, false, KeyMemory::unaccounted());
    for before in read.files().iter().filter(|entry| out.contains(&entry.file.id)) {
        let Some(after) = now.files().iter().find(|entry| entry.file.id == before.file.id) else {
            return Ok(None);
        };
        let mut deleted = after.deleted.as_ref().map(|vector| vector.positions().clone()).unwrap_or_default();
        if let Some(before) = &before.deleted {
            deleted -= before.positions();
        }
        if deleted.is_empty() {
            continue;
        }
        let mut batches = KeyReader::new(read, keyed).read_rows(before, deleted)?;
        while let Some(batch) = batches.next().await {
            let keys = batch?.keys;
            (0..keys.len()).for_each(|index| {
                gone.delete(keys.get(index));
            });
        }
    }
    if gone.len() == 0 {
        return Ok(Some(Deletes::new()));
    }
    let wanted: Vec<Key<'_>> = gone.keys().iter().collect();
    let reader = KeyReader::new(now, keyed);
    let conditions = reader.conditions(&wanted)?;
    let mut carried: BTreeMap<Uuid, RoaringTreemap> = BTreeMap::new();
    for entry in new {
        let mut batches = reader.read(entry, conditions.clone())?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            for (index, &row) in batch.rows.iter().enumerate() {
                if gone.number(batch.keys.get(index)).is_some() {
                    carried.entry(entry.file.id).or_default().insert(u64::from(row));
                }
            }
        }
    }
    let found: u64 = carried.values().map(RoaringTreemap::len).sum();
    if found != gone.len() as u64 {
        return Ok(None);
    }
    Ok(Some(carried.into_iter().map(|(file, rows)| (file, DeletionVector::new(rows))).collect()))
}

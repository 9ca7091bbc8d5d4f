//! The keys of a write while it is written.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use roaring::RoaringTreemap;

use super::Keyed;
use crate::error::{Place, Result};
use crate::file_set::Placed;
use crate::keys::encoder::{Key, Keys};
use crate::keys::position::Position;
use crate::keys::spec::KeySpec;
use crate::keys::store::KeyStore;
use crate::keys::times::{time_at, times_of};
use crate::keys::write_keys::{Arrival, KeyRule, WriteKeys};
use crate::schema::TableSchema;

/// Rows of the write's own files that it hides, by the number of the file.
pub(crate) type HiddenRows = BTreeMap<u32, RoaringTreemap>;

/// Collects keys in the order in which rows and deletes arrive, as long as they fit in memory.
pub(crate) struct KeyedRows {
    /// Of the schema of the write.
    spec: KeySpec,
    pub(crate) rule: KeyRule,
    pub(crate) collected: Option<CollectedKeys>,
    pub(crate) deletes: OrderedDeletes,
    arrived: u64,
}

/// The keys that a write leaves, and what it hides of itself.
pub(crate) struct CollectedKeys {
    pub(crate) keys: WriteKeys,
    pub(crate) hidden: HiddenRows,
}

/// Deleted keys, and after how many rows of the write each came.
#[derive(Debug, Clone)]
pub(crate) struct OrderedDeletes {
    pub(crate) keys: KeyStore,
    pub(crate) after: Vec<u64>,
}

impl OrderedDeletes {
    /// Keys that are deleted before any row comes.
    pub(crate) fn before_all(keys: KeyStore) -> Self {
        let after = vec![0; keys.len()];
        Self { keys, after }
    }
}

/// Two rows of one write have the same key, and the rule allows only one.
pub(crate) struct Repeated {
    pub(crate) key: String,
}

impl CollectedKeys {
    pub(crate) fn new(keyed: &Keyed, rule: KeyRule) -> Self {
        let keys = WriteKeys::new(keyed.encoder.encoding(), rule, keyed.timed, keyed.memory());
        Self { keys, hidden: HiddenRows::new() }
    }

    /// Takes in a row. False if the rule refuses it.
    pub(crate) fn row(&mut self, key: Key<'_>, at: Position, time: Option<i64>) -> bool {
        let goes = match self.keys.arrive(key, at, time) {
            Arrival::First => return true,
            Arrival::Repeated => return false,
            Arrival::Replaces(before) => before,
            Arrival::Late => at,
        };
        self.hide(goes);
        true
    }

    pub(crate) fn delete(&mut self, key: Key<'_>) {
        if let Some(goes) = self.keys.delete(key) {
            self.hide(goes);
        }
    }

    fn hide(&mut self, row: Position) {
        self.hidden.entry(row.file).or_default().insert(u64::from(row.row));
    }

    /// Whether there is memory for them. Bitmaps are small beside the keys.
    fn fit(&self) -> bool {
        self.keys.fit()
    }
}

impl KeyedRows {
    pub(crate) fn new(keyed: &Keyed, rule: KeyRule, schema: &TableSchema) -> Result<Self> {
        let spec = keyed.spec(schema)?;
        let deletes = OrderedDeletes { keys: KeyStore::new(keyed.encoder.encoding()), after: Vec::new() };
        let collected = Some(CollectedKeys::new(keyed, rule));
        Ok(Self { spec, rule, collected, deletes, arrived: 0 })
    }

    /// Refuses rows without a whole key.
    pub(crate) fn check_not_null(&self, place: &Arc<Place>, batch: &RecordBatch) -> Result<()> {
        self.spec.check_not_null(place, batch)
    }

    /// Takes in the rows of a batch, which were placed as given. The error names a key that the rule refuses.
    pub(crate) fn write(&mut self, keyed: &Keyed, batch: &RecordBatch, placed: &[Placed]) -> Result<Option<Repeated>> {
        self.arrived += batch.num_rows() as u64;
        let Some(collected) = &mut self.collected else { return Ok(None) };
        let keys = keyed.encoder.encode(&self.spec.key_columns(batch))?;
        let times = match self.spec.time {
            Some(column) => Some(times_of(batch.column(column))?),
            None => None,
        };
        let mut index = 0;
        for place in placed {
            for row in place.row..place.row + place.rows {
                let time = times.as_ref().and_then(|times| time_at(times, index));
                let key = keys.get(index);
                if !collected.row(key, Position { file: place.file, row }, time) {
                    return Ok(Some(Repeated { key: keyed.encoder.describe(key) }));
                }
                index += 1;
            }
        }
        self.keep_within_budget();
        Ok(None)
    }

    /// Takes in deletes.
    pub(crate) fn delete(&mut self, keys: &Keys) {
        for index in 0..keys.len() {
            let key = keys.get(index);
            self.deletes.keys.push(key);
            self.deletes.after.push(self.arrived);
            if let Some(collected) = &mut self.collected {
                collected.delete(key);
            }
        }
        self.keep_within_budget();
    }

    /// Too many keys are forgotten; the files are read again, a share of the keys at a time.
    fn keep_within_budget(&mut self) {
        if self.collected.as_ref().is_some_and(|collected| !collected.fit()) {
            self.collected = None;
        }
    }
}

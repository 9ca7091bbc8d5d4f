//! Rows by key: where the index knows them, nothing but their blocks is read; where it is a filter, the files that may hold them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{ArrayRef, new_empty_array};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_plan::ExecutionPlan;
use roaring::RoaringTreemap;
use uuid::Uuid;

use super::Keyed;
use super::resolve::{find, visible};
use crate::error::Result;
use crate::keys::encoder::Key;
use crate::keys::index::Found;
use crate::keys::memory::KeyMemory;
use crate::keys::write_keys::{KeyRule, StoredRow, WriteKeys};
use crate::lookup_index::values::{as_type, asked};
use crate::partition::Partition;
use crate::pin::PinnedVersion;
use crate::scan::reader::PinnedFile;
use crate::scan::{ScanRequest, scan_files};

impl Partition {
    /// A plan that returns the rows of the current version that have one of these keys and satisfy the request. Columns of
    /// `keys` are those of the primary key, found by name.
    ///
    /// # Errors
    /// [`Error::NoKey`](crate::Error::NoKey), [`Error::SchemaMismatch`](crate::Error::SchemaMismatch) and
    /// [`Error::NullInKey`](crate::Error::NullInKey); those of [`scan`](crate::scan).
    pub async fn lookup(&self, keys: &RecordBatch, request: &ScanRequest) -> Result<Arc<dyn ExecutionPlan>> {
        let inner = &self.inner;
        let keyed = inner.key()?;
        let columns = keyed.key_columns(&inner.place, &inner.schema(), keys)?;
        let encoded = keyed.encoder.encode(&columns)?;
        let mut wanted =
            WriteKeys::new(keyed.encoder.encoding(), KeyRule::LastArrival, false, KeyMemory::unaccounted());
        for index in 0..encoded.len() {
            wanted.delete(encoded.get(index));
        }
        let pin = self.pin(None)?;
        let known: Option<Vec<Option<StoredRow>>> = keyed.with_index(|indexed| {
            if !indexed.is_of(&pin) || !indexed.index.is_exact() {
                return None;
            }
            Some(wanted.keys().iter().map(|key| locate(&pin, indexed, key)).collect())
        });
        let (pin, rows) = match known {
            Some(rows) => (pin, rows),
            None => {
                let guard = keyed.begin_commit().await;
                let pin = self.pin(None)?;
                keyed.cover(&pin, &guard).await?;
                let rows = find(keyed, &pin, &wanted).await?;
                (pin, rows)
            }
        };
        let files = files_of(&pin, rows.into_iter().flatten());
        scan_files(&pin, &pin.view().schema, files, pin.files().len(), request)
    }
}

impl Partition {
    /// Whether the index of the primary key does not know the current version: after the partition was opened, after writes whose keys
    /// did not fit in memory, after a change of columns. `false` in tables without a key.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed).
    pub fn lacks_keys(&self) -> Result<bool> {
        let Some(keyed) = &self.inner.keyed else { return Ok(false) };
        let pin = self.pin(None)?;
        Ok(keyed.with_index(|indexed| !indexed.is_of(&pin)))
    }

    /// Has the index of the primary key know the current version, so that rows are found by it; reads the keys of the files that it
    /// does not know, as the next commit would have to. Commits wait meanwhile, readers do not.
    ///
    /// # Errors
    /// As [`scan`](crate::scan).
    pub async fn index_keys(&self) -> Result<()> {
        let Some(keyed) = &self.inner.keyed else { return Ok(()) };
        let guard = keyed.begin_commit().await;
        let pin = self.pin(None)?;
        if keyed.with_index(|indexed| indexed.is_of(&pin)) {
            return Ok(());
        }
        keyed.cover(&pin, &guard).await
    }
}

/// More keys than this are not looked up one by one.
const MAX_KEYS: usize = 2048;

/// What the index of keys did for a scan whose conditions fix the whole key, by partition, as the plan shows it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KeyFacts {
    /// It knew the row of each key.
    pub(crate) exact: usize,
    /// It knew in which files the keys may be.
    pub(crate) filtered: usize,
    /// It did not know the version that is read, or not yet.
    pub(crate) unknown: usize,
}

impl KeyFacts {
    pub(crate) fn add(&mut self, other: KeyFacts) {
        self.exact += other.exact;
        self.filtered += other.filtered;
        self.unknown += other.unknown;
    }

    /// What it was, for each kind of answer that there was.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        let all = [("exact", self.exact), ("filter", self.filtered), ("none", self.unknown)];
        all.into_iter().filter(|(_, count)| *count > 0)
    }
}

/// The files, or rows of files, of a pinned version that can satisfy conditions which fix its whole key to some values; `None`
/// when the conditions do not. Without files where the index cannot say.
pub(crate) fn narrow(
    pin: &PinnedVersion,
    predicates: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<(Option<Vec<PinnedFile>>, KeyFacts)>> {
    let Some(keyed) = &pin.inner().keyed else { return Ok(None) };
    let Some(columns) = fixed_keys(keyed, pin, predicates)? else { return Ok(None) };
    let keys = keyed.encoder.encode(&columns)?;
    let all = || (0..keys.len()).map(|index| keys.get(index));
    Ok(Some(keyed.with_index(|indexed| {
        if !indexed.is_of(pin) {
            (None, KeyFacts { unknown: 1, ..KeyFacts::default() })
        } else if indexed.index.is_exact() {
            let rows = all().filter_map(|key| locate(pin, indexed, key));
            (Some(files_of(pin, rows)), KeyFacts { exact: 1, ..KeyFacts::default() })
        } else {
            // A file that it does not know may hold anything.
            let may_hold = |file: Uuid| {
                indexed.index.number_of(file).is_none_or(|number| all().any(|key| indexed.index.may_be_in(number, key)))
            };
            let files = pin.files().iter().filter(|entry| may_hold(entry.file.id));
            let files = files.map(|entry| PinnedFile::new(pin, entry)).collect();
            (Some(files), KeyFacts { filtered: 1, ..KeyFacts::default() })
        }
    })))
}

/// The keys that rows may have if they are to satisfy all conditions, by columns; `None` if they may have any, or too many.
fn fixed_keys(
    keyed: &Keyed,
    pin: &PinnedVersion,
    predicates: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<Vec<ArrayRef>>> {
    let schema = &pin.view().schema;
    let conditions: Vec<&Arc<dyn PhysicalExpr>> = predicates.iter().flat_map(split_conjunction).collect();
    let mut columns: Vec<Vec<ScalarValue>> = Vec::new();
    for index in keyed.spec(schema)?.columns {
        let data_type = schema.logical.field(index).data_type();
        let values = conditions.iter().filter_map(|condition| asked(condition, index)).min_by_key(Vec::len);
        let values = values.and_then(|values| {
            values.iter().map(|value| as_type(value, data_type).filter(|v| v.data_type() == *data_type)).collect()
        });
        let Some(values) = values else { return Ok(None) };
        columns.push(values);
    }
    let keys = columns.iter().fold(1_usize, |keys, values| keys.saturating_mul(values.len()));
    if keys > MAX_KEYS {
        return Ok(None);
    }
    let mut repeat = keys;
    let mut combined = Vec::with_capacity(columns.len());
    for (values, index) in columns.iter().zip(keyed.spec(schema)?.columns) {
        if keys == 0 {
            combined.push(new_empty_array(schema.logical.field(index).data_type()));
            continue;
        }
        repeat /= values.len();
        combined.push(ScalarValue::iter_to_array((0..keys).map(|key| values[(key / repeat) % values.len()].clone()))?);
    }
    Ok(Some(combined))
}

fn locate(pin: &PinnedVersion, indexed: &super::Indexed, key: Key<'_>) -> Option<StoredRow> {
    let Found::At(row) = indexed.index.find(key) else { return None };
    let file = indexed.index.file(row.position.file);
    let at = pin.files().iter().position(|entry| entry.file.id == file)?;
    visible(pin, &HashMap::from([(row.position.file, at as u32)]), row)
}

fn files_of(pin: &PinnedVersion, rows: impl IntoIterator<Item = StoredRow>) -> Vec<PinnedFile> {
    let mut by_file: BTreeMap<u32, RoaringTreemap> = BTreeMap::new();
    for row in rows {
        by_file.entry(row.position.file).or_default().insert(u64::from(row.position.row));
    }
    by_file.into_iter().map(|(file, rows)| PinnedFile::rows(pin, &pin.files()[file as usize], rows)).collect()
}

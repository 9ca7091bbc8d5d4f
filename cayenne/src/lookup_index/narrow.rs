//! A scan of the rows that an index leaves.

use std::fmt;
use std::io;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::compute::take;
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use roaring::RoaringTreemap;

use super::definition::{Definition, name};
use super::hasher::Hasher;
use super::values::{as_type, asked};
use crate::error::{Error, Result};
use crate::scan::reader::PinnedFile;
use crate::schema::TableSchema;

/// More keys than this are not looked up one by one.
const MAX_KEYS: usize = 2048;
/// A look-up of several keys that leaves more rows than this is none.
const MAX_ROWS: u64 = 1_000_000;

/// What an index did for a scan, as the plan shows it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LookupFacts {
    /// The index, as `(a, b)`.
    pub(crate) index: Option<String>,
    /// Why none.
    pub(crate) reason: Option<&'static str>,
    /// Files with rows that may match.
    pub(crate) candidate_files: usize,
    /// Their rows.
    pub(crate) candidate_rows: u64,
    /// Files that are read in full because the index does not have them.
    pub(crate) uncovered_files: usize,
}

impl fmt::Display for LookupFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.index {
            None => write!(f, ", lookup_index=none, lookup_index_reason={}", self.reason.unwrap_or("none")),
            Some(index) => write!(
                f,
                ", lookup_index={index}, candidate_files={}, uncovered_files={}, candidate_rows={}",
                self.candidate_files, self.uncovered_files, self.candidate_rows
            ),
        }
    }
}

/// The keys that conditions ask an index for.
struct Asked<'a> {
    columns: &'a [String],
    definition: Definition,
    hashes: Vec<u64>,
}

/// Leaves of `files` what an index says may satisfy the conditions. `None` in tables without an index.
pub(crate) fn narrow(
    files: Vec<PinnedFile>,
    conditions: &[Arc<dyn PhysicalExpr>],
    table: &TableSchema,
) -> Result<(Vec<PinnedFile>, Option<LookupFacts>)> {
    let Some(first) = files.first() else { return Ok((files, None)) };
    let tuning = first.pin.inner().tuning();
    if tuning.indexes.is_empty() || files.iter().any(|file| file.selected_rows().is_some()) {
        return Ok((files, None));
    }
    let asked = match choose(&tuning.indexes, conditions, table)? {
        Ok(asked) => asked,
        Err(reason) => return Ok((files, Some(LookupFacts { reason: Some(reason), ..LookupFacts::default() }))),
    };
    let mut facts = LookupFacts { index: Some(name(asked.columns)), ..LookupFacts::default() };
    let mut left = Vec::with_capacity(files.len());
    for file in &files {
        match rows_of(file, &asked) {
            None => {
                facts.uncovered_files += 1;
                left.push(file.clone());
            }
            Some(rows) if rows.is_empty() => {}
            Some(rows) => {
                facts.candidate_files += 1;
                facts.candidate_rows += rows.len();
                // Picking most rows one by one costs more than reading them all.
                let most = rows.len() > file.entry.rows() / 2;
                left.push(if most { file.clone() } else { PinnedFile::rows(&file.pin, &file.entry, rows) });
            }
        }
    }
    if asked.hashes.len() > 1 && facts.candidate_rows > MAX_ROWS {
        return Ok((files, Some(LookupFacts { reason: Some("too_many_candidates"), ..LookupFacts::default() })));
    }
    Ok((left, Some(facts)))
}

/// The index with the most columns of those whose columns all have values. Otherwise why there is none.
fn choose<'a>(
    indexes: &'a [Vec<String>],
    conditions: &[Arc<dyn PhysicalExpr>],
    table: &TableSchema,
) -> Result<std::result::Result<Asked<'a>, &'static str>> {
    let mut reason = "no_key_pinned";
    let mut best: Option<Asked<'a>> = None;
    for columns in indexes {
        if best.as_ref().is_some_and(|best| best.columns.len() >= columns.len()) {
            continue;
        }
        let Some(definition) = Definition::of(columns, table) else { continue };
        let values: Option<Vec<Vec<ScalarValue>>> = definition
            .columns
            .iter()
            .map(|&column| conditions.iter().filter_map(|c| asked(c, column)).min_by_key(Vec::len))
            .collect();
        let Some(values) = values else { continue };
        let keys = values.iter().fold(1_usize, |keys, values| keys.saturating_mul(values.len()));
        if keys > MAX_KEYS {
            reason = "too_many_keys";
            continue;
        }
        match hashes(&definition, &values, table)? {
            Some(hashes) => best = Some(Asked { columns, definition, hashes }),
            None => reason = "value_not_indexable",
        }
    }
    Ok(best.ok_or(reason))
}

/// Hashes of all combinations, sorted; `None` if a value is of another kind than the column.
fn hashes(definition: &Definition, values: &[Vec<ScalarValue>], table: &TableSchema) -> Result<Option<Vec<u64>>> {
    let hasher = Hasher::new(definition.columns.iter().map(|&column| table.logical.field(column).data_type()))?;
    let keys: usize = values.iter().map(Vec::len).product();
    if keys == 0 {
        return Ok(Some(Vec::new()));
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(values.len());
    let mut repeat = keys;
    for (values, data_type) in values.iter().zip(hasher.types()) {
        let Some(values) = values.iter().map(|value| as_type(value, data_type)).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        repeat /= values.len();
        let count = values.len();
        let array = ScalarValue::iter_to_array(values)?;
        let picked: UInt64Array = (0..keys).map(|key| Some(((key / repeat) % count) as u64)).collect();
        let picked = take(&array, &picked, None);
        columns.push(picked.map_err(|source| Error::Arrow { action: "cannot combine values", source })?);
    }
    let mut hashes: Vec<u64> = hasher.hash(&columns)?.into_iter().flatten().collect();
    hashes.sort_unstable();
    hashes.dedup();
    Ok(Some(hashes))
}

/// The rows of a file that may match and are not deleted; `None` if the index does not have the file.
fn rows_of(file: &PinnedFile, asked: &Asked<'_>) -> Option<RoaringTreemap> {
    let inner = file.pin.inner();
    let data = &file.entry.file;
    let run = inner.lookup.find(data.id, &asked.definition.text)?;
    let mut rows = RoaringTreemap::new();
    let mut beyond = false;
    let found = run.find(&asked.hashes, |row| {
        beyond |= u64::from(row) >= data.summary.rows;
        rows.insert(u64::from(row));
    });
    let found = found.and_then(|()| match beyond {
        true => Err(io::Error::new(io::ErrorKind::InvalidData, "it names rows that the file does not have")),
        false => Ok(()),
    });
    if let Err(error) = found {
        tracing::warn!(partition = %inner.place, file = %data.name, %error, "an index of a data file is made again");
        inner.lookup.give_up(data.id, &run);
        return None;
    }
    if let Some(deleted) = &file.entry.deleted {
        rows -= deleted.positions();
    }
    Some(rows)
}

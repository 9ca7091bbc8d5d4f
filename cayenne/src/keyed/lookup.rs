//! Rows by key: where the index knows them, nothing but their blocks is read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use roaring::RoaringTreemap;

use super::Keyed;
use super::resolve::{find, visible};
use crate::error::Result;
use crate::keys::encoder::Key;
use crate::keys::index::Found;
use crate::keys::write_keys::{KeyRule, StoredRow, WriteKeys};
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
        let mut wanted = WriteKeys::new(keyed.encoder.encoding(), KeyRule::LastArrival, false);
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

/// The rows of a pinned version that can satisfy conditions which fix its whole key to one value; `None` when they do not, or
/// when the index cannot say.
pub(crate) fn narrow(pin: &PinnedVersion, predicates: &[Arc<dyn PhysicalExpr>]) -> Result<Option<Vec<PinnedFile>>> {
    let Some(keyed) = &pin.inner().keyed else { return Ok(None) };
    let Some(columns) = fixed_key(keyed, pin, predicates)? else { return Ok(None) };
    let keys = keyed.encoder.encode(&columns)?;
    let found = keyed.with_index(|indexed| {
        (indexed.is_of(pin) && indexed.index.is_exact()).then(|| locate(pin, indexed, keys.get(0)))
    });
    Ok(found.map(|row| files_of(pin, row)))
}

/// The one value of each key column.
fn fixed_key(
    keyed: &Keyed,
    pin: &PinnedVersion,
    predicates: &[Arc<dyn PhysicalExpr>],
) -> Result<Option<Vec<ArrayRef>>> {
    let schema = &pin.view().schema;
    let key = keyed.spec(schema)?.columns;
    let mut columns = Vec::with_capacity(key.len());
    for index in key {
        let Some(literal) = predicates.iter().find_map(|predicate| equal_to(predicate, index)) else {
            return Ok(None);
        };
        let value = literal.value();
        if value.is_null() || &value.data_type() != schema.logical.field(index).data_type() {
            return Ok(None);
        }
        columns.push(value.to_array_of_size(1)?);
    }
    Ok(Some(columns))
}

fn equal_to(predicate: &Arc<dyn PhysicalExpr>, index: usize) -> Option<&Literal> {
    let binary = predicate.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == Operator::Eq)?;
    let sides = [(binary.left(), binary.right()), (binary.right(), binary.left())];
    sides.into_iter().find_map(|(column, value)| {
        column.downcast_ref::<Column>().filter(|column| column.index() == index)?;
        value.downcast_ref::<Literal>()
    })
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

//! Reads the keys of data files, with the positions of their rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array};
use arrow::datatypes::{Schema, UInt64Type};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use futures::{Stream, StreamExt};
use roaring::RoaringTreemap;

use super::Keyed;
use crate::error::Result;
use crate::keys::encoder::{Key, Keys};
use crate::keys::times::times_of;
use crate::pin::PinnedVersion;
use crate::row_id::ROW_COLUMN;
use crate::scan::reader::PinnedFile;
use crate::scan::{ScanRequest, scan_files};
use crate::state::VisibleFile;

/// Up to so many keys are looked for one by one, more of them by their range.
const MAX_LISTED: usize = 64;

/// Keys of rows that are not deleted.
pub(crate) struct StoredKeys {
    pub(crate) keys: Keys,
    /// Where the key goes by time.
    pub(crate) times: Option<Int64Array>,
    /// Position of each row in the file.
    pub(crate) rows: Vec<u32>,
}

/// Reads files of a partition, staged ones too.
pub(crate) struct KeyReader<'a> {
    pin: &'a PinnedVersion,
    keyed: &'a Keyed,
}

impl<'a> KeyReader<'a> {
    pub(crate) fn new(pin: &'a PinnedVersion, keyed: &'a Keyed) -> Self {
        Self { pin, keyed }
    }

    /// The rows of a file that are not deleted, in order. `predicates` exclude rows that are not of interest.
    pub(crate) fn read(
        &self,
        file: &VisibleFile,
        predicates: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<impl Stream<Item = Result<StoredKeys>> + Send + use<>> {
        let request = self.request(predicates)?;
        self.read_file(PinnedFile::new(self.pin, file), request)
    }

    /// Some rows of a file, by their positions.
    pub(crate) fn read_rows(
        &self,
        file: &VisibleFile,
        positions: RoaringTreemap,
    ) -> Result<impl Stream<Item = Result<StoredKeys>> + Send + use<>> {
        let request = self.request(Vec::new())?;
        self.read_file(PinnedFile::rows(self.pin, file, positions), request)
    }

    fn request(&self, predicates: Vec<Arc<dyn PhysicalExpr>>) -> Result<ScanRequest> {
        let spec = self.keyed.spec(&self.pin.view().schema)?;
        let mut projection = spec.columns;
        projection.extend(spec.time);
        Ok(ScanRequest { projection: Some(projection), predicates, row_ids: true, ..ScanRequest::default() })
    }

    fn read_file(
        &self,
        file: PinnedFile,
        request: ScanRequest,
    ) -> Result<impl Stream<Item = Result<StoredKeys>> + Send + use<>> {
        let timed = self.keyed.timed;
        let columns = request.projection.as_ref().map_or(0, Vec::len) - usize::from(timed);
        let plan = scan_files(self.pin, &self.pin.view().schema, vec![file], 1, &request)?;
        let batches = plan.execute(0, Arc::new(TaskContext::default()))?;
        let inner = Arc::clone(self.pin.inner());
        Ok(batches.map(move |batch| {
            let batch = batch?;
            let encoder = &inner.key()?.encoder;
            let times = if timed { Some(times_of(batch.column(columns))?) } else { None };
            Ok(StoredKeys { keys: encoder.encode(&batch.columns()[..columns])?, times, rows: rows_of(&batch) })
        }))
    }

    /// Conditions that every row with one of these keys meets, and few others.
    pub(crate) fn conditions(&self, keys: &[Key<'_>]) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
        let Some(first) = keys.first() else { return Ok(Vec::new()) };
        let table = &self.pin.view().schema;
        let schema = &table.logical;
        let columns = self.keyed.spec(table)?.columns;
        let column =
            |index: usize| -> Arc<dyn PhysicalExpr> { Arc::new(Column::new(schema.field(index).name(), index)) };
        // The values of a dictionary come back as they are, without one: nothing to compare the column with.
        let comparable = |index: usize, values: &ArrayRef| schema.field(index).data_type() == values.data_type();
        if keys.len() <= MAX_LISTED {
            let values = self.keyed.encoder.decode(keys)?;
            let listed = columns.iter().zip(values).filter(|(index, values)| comparable(**index, values));
            return listed.map(|(&index, values)| one_of(column(index), &values, schema)).collect();
        }
        // Keys are in the order of their columns, so the first column is between those of the least and the greatest.
        let (least, greatest) =
            keys.iter().fold((*first, *first), |(least, greatest), &key| (least.min(key), greatest.max(key)));
        let bounds = self.keyed.encoder.decode(&[least, greatest])?;
        let (Some(bounds), Some(&index)) = (bounds.first(), columns.first()) else { return Ok(Vec::new()) };
        if !comparable(index, bounds) {
            return Ok(Vec::new());
        }
        let bound = |operator, row| -> Result<Arc<dyn PhysicalExpr>> {
            let value = ScalarValue::try_from_array(bounds, row)?;
            Ok(Arc::new(BinaryExpr::new(column(index), operator, Arc::new(Literal::new(value)))))
        };
        Ok(vec![bound(Operator::GtEq, 0)?, bound(Operator::LtEq, 1)?])
    }
}

fn one_of(column: Arc<dyn PhysicalExpr>, values: &ArrayRef, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    let literals = (0..values.len())
        .map(|row| Ok(Arc::new(Literal::new(ScalarValue::try_from_array(values, row)?)) as Arc<dyn PhysicalExpr>))
        .collect::<Result<Vec<_>>>()?;
    match literals.as_slice() {
        [literal] => Ok(Arc::new(BinaryExpr::new(column, Operator::Eq, Arc::clone(literal)))),
        _ => Ok(Arc::new(InListExpr::try_new(column, literals, false, schema)?)),
    }
}

fn rows_of(batch: &RecordBatch) -> Vec<u32> {
    match batch.column_by_name(ROW_COLUMN) {
        Some(rows) => {
            // Files of keyed tables end before their positions need more bits.
            rows.as_primitive::<UInt64Type>()
                .values()
                .iter()
                .map(|row| u32::try_from(*row).unwrap_or(u32::MAX))
                .collect()
        }
        None => Vec::new(),
    }
}

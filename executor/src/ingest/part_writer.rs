//! Rows of one partition of one write: held back while they are few, written to files when they are many.
use std::sync::Arc;

use ancho_common::error::{Condition, Error, Result};
use arrow::{array::RecordBatch, compute::concat_batches, datatypes::SchemaRef};
use cayenne::{Partition, StagedWriter, TransactionPart, TransactionSummary, WriteSummary};

use super::{
    encoders::{Buffered, EncoderPermit, Encoders, OpenPart, leaf_columns},
    open_write::WriteForm,
};
use crate::host::from_storage;

/// An open file is given to a waiting part at the latest when so many bytes went into it.
const FAIR_FILE_BYTES: usize = 64 << 20;
/// Small batches are joined up to this many rows before they are encoded.
const JOINED_ROWS: usize = 65_536;

/// The writer of one part.
pub(super) struct PartWriter {
    table: String,
    doing: String,
    writer: StagedWriter,
    encoders: Arc<Encoders>,
    columns: u32,
    partition: Partition,
    schema: SchemaRef,
    held: Vec<RecordBatch>,
    held_bytes: Buffered,
    /// There exactly while a file is open.
    permit: Option<EncoderPermit>,
    file_bytes: usize,
    /// Names of rows taken in, and the rows that they name.
    named: u64,
    deleted: u64,
    /// A version that deletes are checked against when the part is sealed, or a later one.
    base_version: u64,
    _part: OpenPart,
}

/// A part that is durable.
#[derive(Debug)]
pub(super) struct Staged {
    /// What it does.
    pub(super) summary: WriteSummary,
    /// The same together with what its transaction did before.
    pub(super) whole: WriteSummary,
    /// Deletes were checked against this version.
    pub(super) base_version: u64,
}

impl PartWriter {
    pub(super) async fn begin(partition: &Partition, form: &WriteForm, encoders: &Arc<Encoders>) -> Result<Self> {
        let doing = format!("staging write {}", form.id);
        let base_version = partition.version();
        let writer = partition
            .begin_write_with(form.id.0, form.mode, form.options)
            .await
            .map_err(|e| fault(partition, &doing, e))?;
        Ok(Self {
            table: partition.identity().table.clone(),
            doing,
            writer,
            encoders: Arc::clone(encoders),
            columns: leaf_columns(partition.schema().fields()),
            partition: partition.clone(),
            schema: partition.schema(),
            held: Vec::new(),
            held_bytes: Buffered::none(encoders),
            permit: None,
            file_bytes: 0,
            named: 0,
            deleted: 0,
            base_version,
            _part: encoders.open_part(),
        })
    }

    /// Whether a file is open.
    pub(super) fn has_file(&self) -> bool {
        self.permit.is_some()
    }

    /// Takes in rows of about `bytes`. May wait for a file to be opened.
    pub(super) async fn take_in(&mut self, batch: RecordBatch, bytes: usize) -> Result<()> {
        // Rows have the columns of the table as the sender knows it, which may be older or newer than what is here.
        if !same_types(&batch, &self.schema) {
            return Err(Error::stale_route(format!(
                "table {}: the columns of the rows are others than those of the partition; read the routes again",
                self.table
            )));
        }
        // Now, and not when the rows are written: the sender is told at once.
        self.writer.check(&batch).map_err(|e| fault(&self.partition, &self.doing, e))?;
        if self.has_file() {
            self.file_bytes += bytes;
            self.write(batch).await?;
            if self.file_bytes >= FAIR_FILE_BYTES && self.encoders.is_wanted() {
                self.end_file().await?;
            }
            return Ok(());
        }
        self.held.push(batch);
        let fits = self.held_bytes.add(bytes);
        if !fits || self.held_bytes.bytes() >= self.encoders.buffer_limit() { self.open_file().await } else { Ok(()) }
    }

    /// Deletes the rows of these names.
    pub(super) fn delete(&mut self, names: &RecordBatch) -> Result<()> {
        self.named += names.num_rows() as u64;
        self.deleted += self.writer.delete_batch(names).map_err(|e| fault(&self.partition, &self.doing, e))?;
        Ok(())
    }

    /// Makes everything durable, perhaps as a part of a transaction.
    pub(super) async fn finish(mut self, within: Option<TransactionPart>) -> Result<Staged> {
        if self.deleted != self.named {
            return Err(Error::invalid(format!(
                "table {}: a stored row is matched by more than one row of the source; make the condition unique for it",
                self.table
            ))
            .with(Condition::TooManyRows));
        }
        if !self.held.is_empty() {
            self.open_file().await?;
        }
        let Self { doing, writer, permit, base_version, partition, .. } = self;
        let finished = match within {
            None => writer.finish().await.map(|whole| TransactionSummary { own: whole.clone(), whole }),
            Some(part) => writer.finish_within(part).await,
        };
        // Only now are the encoder's buffers gone.
        drop(permit);
        let TransactionSummary { own, whole } = finished.map_err(|e| fault(&partition, &doing, e))?;
        // What was written went to a directory that was put aside.
        if partition.is_retired() {
            return Err(made_anew(&partition, &doing));
        }
        Ok(Staged { summary: own, whole, base_version })
    }

    /// Gives the open file back.
    pub(super) async fn end_file(&mut self) -> Result<()> {
        self.writer.end_file().await.map_err(|e| fault(&self.partition, &self.doing, e))?;
        self.permit = None;
        Ok(())
    }

    /// Opens a file for the rows that wait.
    async fn open_file(&mut self) -> Result<()> {
        self.permit = Some(self.encoders.acquire(self.columns).await?);
        self.file_bytes = self.held_bytes.bytes();
        for batch in joined(std::mem::take(&mut self.held))? {
            self.write(batch).await?;
        }
        self.held_bytes.clear();
        Ok(())
    }

    async fn write(&mut self, batch: RecordBatch) -> Result<()> {
        if self.permit.is_none() {
            // The last file reached its size in the middle of the rows that waited.
            self.permit = Some(self.encoders.acquire(self.columns).await?);
            self.file_bytes = 0;
        }
        self.writer.write(batch).await.map_err(|e| fault(&self.partition, &self.doing, e))?;
        if !self.writer.has_open_file() {
            self.permit = None;
        }
        Ok(())
    }
}

/// What the engine says, unless the reason is that the partition was made anew with other columns.
fn fault(partition: &Partition, doing: &str, error: cayenne::Error) -> Error {
    if partition.is_retired() { made_anew(partition, doing) } else { from_storage(doing, error) }
}

fn made_anew(partition: &Partition, doing: &str) -> Error {
    let table = &partition.identity().table;
    Error::stale_route(format!("{doing}: the columns of table {table} were changed; read the routes again"))
}

fn same_types(batch: &RecordBatch, schema: &SchemaRef) -> bool {
    let (given, wanted) = (batch.schema_ref().fields(), schema.fields());
    given.len() == wanted.len()
        && given.iter().zip(wanted).all(|(a, b)| a.name() == b.name() && a.data_type().equals_datatype(b.data_type()))
}

/// Neighbours joined, so that the encoder does not work on crumbs.
fn joined(batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    let mut groups: Vec<Vec<RecordBatch>> = Vec::new();
    let mut rows = JOINED_ROWS;
    for batch in batches {
        if rows + batch.num_rows() > JOINED_ROWS {
            groups.push(Vec::new());
            rows = 0;
        }
        rows += batch.num_rows();
        // One was pushed at the latest with the first batch.
        if let Some(group) = groups.last_mut() {
            group.push(batch);
        }
    }
    let join = |group: Vec<RecordBatch>| match group.as_slice() {
        [single] => Ok(single.clone()),
        several => concat_batches(several[0].schema_ref(), several)
            .map_err(|e| Error::internal(format!("rows cannot be joined: {e}"))),
    };
    groups.into_iter().map(join).collect()
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::Int64Array,
        datatypes::{DataType, Field, Schema},
    };

    use super::*;

    #[test]
    fn small_batches_are_joined_and_none_is_lost() {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let batch = |from: i64, to: i64| {
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from_iter_values(from..to))]).unwrap()
        };
        let sizes = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>();
        let small: Vec<RecordBatch> = (0..20).map(|i| batch(i * 10_000, (i + 1) * 10_000)).collect();
        let all = joined(small).unwrap();
        assert_eq!(sizes(&all), [60_000, 60_000, 60_000, 20_000]);
        assert_eq!(concat_batches(&schema, &all).unwrap(), batch(0, 200_000));
        assert_eq!(sizes(&joined(vec![batch(0, 100_000), batch(0, 5), batch(0, 5)]).unwrap()), [100_000, 10]);
        assert!(joined(Vec::new()).unwrap().is_empty());
    }
}

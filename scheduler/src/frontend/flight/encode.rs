//! Encodes rows as Flight messages that stay below the size a client takes.
//!
//! arrow-flight's own encoder is not used: it announces `LargeList` as `List`, and splits by the size of buffers,
//! which for slices, views and dictionaries says little about the message.
use std::{collections::VecDeque, sync::Arc};

use ancho_common::error::{Error, ErrorKind, Result};
use arrow::{
    array::{RecordBatch, UInt32Array},
    compute::take_record_batch,
    datatypes::SchemaRef,
    ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions},
};
use arrow_flight::{FlightData, IpcMessage, SchemaAsIpc};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream, stream::BoxStream};
use prost::Message;
use tonic::{Status, metadata::MetadataMap};

use crate::frontend::{metrics::StatementMeter, statements::EdgeRows, status::to_status};

/// What gRPC clients take per message unless told otherwise.
pub const DEFAULT_MESSAGE_BYTES: usize = 4 * 1024 * 1024;

/// Size that slices of rows aim for: the estimate may be off and the message still fits.
pub const TARGET_MESSAGE_BYTES: usize = 2 * 1024 * 1024;

/// Call header by which a client that takes larger messages says so, in bytes.
pub const MESSAGE_BYTES_HEADER: &str = "x-ancho-max-message-bytes";

/// The largest message the client of a call takes: what its header says, never below the default.
///
/// # Errors
/// The header is no number of bytes.
pub fn message_limit(metadata: &MetadataMap) -> Result<usize> {
    let Some(value) = metadata.get(MESSAGE_BYTES_HEADER) else { return Ok(DEFAULT_MESSAGE_BYTES) };
    value
        .to_str()
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok())
        .map(|bytes| bytes.max(DEFAULT_MESSAGE_BYTES))
        .ok_or_else(|| Error::invalid(format!("header {MESSAGE_BYTES_HEADER} must be a number of bytes")))
}

/// The schema as clients expect it in FlightInfo, schema results and prepared statements.
///
/// # Errors
/// The schema cannot be encoded.
pub fn schema_bytes(schema: &SchemaRef) -> Result<Bytes> {
    let IpcMessage(bytes) = SchemaAsIpc::new(schema, &IpcWriteOptions::default())
        .try_into()
        .map_err(|e| Error::internal(format!("schema cannot be encoded: {e}")))?;
    Ok(bytes)
}

/// Encodes rows: first the schema, also if no row follows, then batches of at most `limit` bytes.
///
/// One message is made when the transport asks for it. A row that alone exceeds `limit` ends the stream with
/// `RESOURCE_EXHAUSTED` that names its size. Dropping the stream drops the query behind it.
pub fn encode(
    rows: EdgeRows,
    limit: usize,
    meter: StatementMeter,
) -> impl Stream<Item = Result<FlightData, Status>> + Send {
    let encoder = Encoder {
        schema: rows.schema,
        rows: rows.rows,
        pending: VecDeque::new(),
        schema_sent: false,
        limit,
        generator: IpcDataGenerator::default(),
        // Dictionaries do not pass the edge; the generator wants a tracker all the same.
        tracker: DictionaryTracker::new(true),
        context: IpcWriteContext::default(),
        options: IpcWriteOptions::default(),
        meter,
    };
    stream::unfold(Some(encoder), |encoder| async move {
        let mut encoder = encoder?;
        match encoder.next().await {
            Ok(Some(message)) => Some((Ok(message), Some(encoder))),
            Ok(None) => {
                encoder.meter.succeed();
                None
            }
            Err(error) => {
                encoder.meter.fail(error.kind);
                Some((Err(to_status(error)), None))
            }
        }
    })
}

struct Encoder {
    schema: SchemaRef,
    rows: BoxStream<'static, Result<RecordBatch>>,
    /// Halves of a slice that came out too large.
    pending: VecDeque<RecordBatch>,
    schema_sent: bool,
    limit: usize,
    generator: IpcDataGenerator,
    tracker: DictionaryTracker,
    context: IpcWriteContext,
    options: IpcWriteOptions,
    meter: StatementMeter,
}

impl Encoder {
    async fn next(&mut self) -> Result<Option<FlightData>> {
        if !self.schema_sent {
            self.schema_sent = true;
            return Ok(Some(SchemaAsIpc::new(&self.schema, &self.options).into()));
        }
        loop {
            let batch = match self.pending.pop_front() {
                Some(batch) => batch,
                None => match self.rows.next().await {
                    Some(batch) => batch?,
                    None => return Ok(None),
                },
            };
            if batch.num_rows() == 0 {
                continue;
            }
            let message = self.message(&batch)?;
            if message.encoded_len() <= self.limit {
                self.meter.add_rows(batch.num_rows());
                return Ok(Some(message));
            }
            self.shrink(&batch, message.encoded_len())?;
        }
    }

    fn message(&mut self, batch: &RecordBatch) -> Result<FlightData> {
        let (_, encoded) = self
            .generator
            .encode(batch, &mut self.tracker, &self.options, &mut self.context)
            .map_err(|e| Error::internal(format!("rows cannot be encoded: {e}")))?;
        Ok(encoded.into())
    }

    /// Puts a batch that is too large back as two halves.
    fn shrink(&mut self, batch: &RecordBatch, bytes: usize) -> Result<()> {
        let rows = batch.num_rows();
        if rows > 1 {
            self.pending.push_front(batch.slice(rows / 2, rows - rows / 2));
            self.pending.push_front(batch.slice(0, rows / 2));
            return Ok(());
        }
        // The children of a dense union are written whole however short the slice: copy the row out of them.
        let compact = take_record_batch(batch, &UInt32Array::from(vec![0]))
            .and_then(|row| row.with_schema(Arc::clone(&self.schema)))
            .map_err(|e| Error::internal(format!("row cannot be copied: {e}")))?;
        let row_bytes = self.message(&compact)?.encoded_len();
        if row_bytes < bytes && row_bytes <= self.limit {
            self.pending.push_front(compact);
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Exhausted,
            format!(
                "a row of the result takes {row_bytes} bytes, more than the {} that the client takes per message; raise the \
                 client's limit and send it as header {MESSAGE_BYTES_HEADER}, or select less per row",
                self.limit
            ),
        ))
    }
}

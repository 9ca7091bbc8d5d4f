//! Statement handles that carry the statement.
//!
//! A handle is opaque to clients and whole in itself: text, kind and bound parameters. So every scheduler of the
//! cluster can run it, two clients that prepare the same text never share a binding, nothing expires, and closing one
//! has nothing to release. Tickets of plain statements have the same form.
use std::sync::Arc;

use ancho_common::error::{Error, ErrorKind, Result};
use arrow::{
    array::RecordBatch,
    compute::concat_batches,
    datatypes::{Schema, SchemaRef},
    ipc::{reader::StreamReader, writer::StreamWriter},
};
use bytes::Bytes;
use prost::Message;

use super::{flight::MESSAGE_BYTES_HEADER, service::StatementKind};

/// First bytes of every handle; the digit counts changes of the form.
const MAGIC: &[u8] = b"ancho/statement/1\0";

/// What a message leaves for all that stands around a handle: schemas, names, frames.
const AROUND_HANDLE_BYTES: usize = 256 * 1024;

/// A statement, and what is bound to it.
#[derive(Debug, Clone, PartialEq)]
pub struct StatementHandle {
    /// The text, placeholders numbered.
    pub sql: String,
    /// What preparing it told.
    pub kind: StatementKind,
    /// The parameters of the statement, in the types that the planner wants.
    pub wanted: SchemaRef,
    /// The bound rows; `None` before the first binding.
    pub parameters: Option<RecordBatch>,
    /// The update was applied and changed so many rows: what is left is to tell.
    pub changed: Option<i64>,
    /// The transaction that it is part of, known to the scheduler that began it.
    pub transaction: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Wire {
    #[prost(string, tag = "1")]
    sql: String,
    #[prost(bool, tag = "2")]
    is_update: bool,
    /// An Arrow IPC stream without a batch; empty if there are no parameters.
    #[prost(bytes = "bytes", tag = "3")]
    wanted: Bytes,
    /// An Arrow IPC stream of one batch.
    #[prost(bytes = "bytes", optional, tag = "4")]
    parameters: Option<Bytes>,
    #[prost(int64, optional, tag = "5")]
    changed: Option<i64>,
    #[prost(string, optional, tag = "6")]
    transaction: Option<String>,
}

impl StatementHandle {
    /// A statement without parameters.
    #[must_use]
    pub fn plain(sql: String, kind: StatementKind) -> Self {
        Self { sql, kind, wanted: Arc::new(Schema::empty()), parameters: None, changed: None, transaction: None }
    }

    /// The handle as bytes, for a client that takes messages of at most `limit` bytes: it gets the handle in one.
    ///
    /// # Errors
    /// `Exhausted`: text and parameters together are larger than that.
    pub fn encode(&self, limit: usize) -> Result<Bytes> {
        let parameters = self.parameters.as_ref().map(|batch| encode_rows(&batch.schema(), Some(batch))).transpose()?;
        let wanted = if self.wanted.fields().is_empty() { Bytes::new() } else { encode_rows(&self.wanted, None)? };
        let wire = Wire {
            sql: self.sql.clone(),
            is_update: self.kind == StatementKind::Update,
            wanted,
            parameters,
            changed: self.changed,
            transaction: self.transaction.clone(),
        };
        let bytes = [MAGIC, &wire.encode_to_vec()].concat();
        let room = limit.saturating_sub(AROUND_HANDLE_BYTES);
        if bytes.len() > room {
            return Err(Error::new(
                ErrorKind::Exhausted,
                format!(
                    "statement and bound parameters take {} bytes, and the handle that carries them back to the client has room for \
                     {room}: send the rows together with the update (executemany in Python), by bulk ingestion (adbc_ingest) or by \
                     COPY; or raise the client's limit for messages, {limit} bytes now, and send it as header \
                     {MESSAGE_BYTES_HEADER}",
                    bytes.len()
                ),
            ));
        }
        Ok(bytes.into())
    }

    /// Reads what [`StatementHandle::encode`] wrote.
    ///
    /// # Errors
    /// `NotFound`: the bytes are no handle of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let unknown = || Error::not_found("unknown statement handle; prepare the statement again");
        let wire = bytes.strip_prefix(MAGIC).and_then(|rest| Wire::decode(rest).ok()).ok_or_else(unknown)?;
        let rows = |bytes: Bytes| decode_rows(&bytes).map_err(|_| unknown());
        let wanted = if wire.wanted.is_empty() { Arc::new(Schema::empty()) } else { rows(wire.wanted)?.schema() };
        let parameters = wire.parameters.map(rows).transpose()?;
        Ok(Self {
            sql: wire.sql,
            kind: if wire.is_update { StatementKind::Update } else { StatementKind::Query },
            wanted,
            parameters,
            changed: wire.changed,
            transaction: wire.transaction,
        })
    }
}

fn encode_rows(schema: &Schema, batch: Option<&RecordBatch>) -> Result<Bytes> {
    let mut out = Vec::new();
    StreamWriter::try_new(&mut out, schema)
        .and_then(|mut writer| batch.map_or(Ok(()), |batch| writer.write(batch)).and_then(|()| writer.finish()))
        .map_err(|e| Error::invalid(format!("bound parameters cannot be kept: {e}")))?;
    Ok(out.into())
}

fn decode_rows(bytes: &[u8]) -> Result<RecordBatch, arrow::error::ArrowError> {
    let reader = StreamReader::try_new(bytes, None)?;
    let schema = reader.schema();
    let batches = reader.collect::<Result<Vec<_>, _>>()?;
    concat_batches(&schema, &batches)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::*;
    use crate::frontend::flight::DEFAULT_MESSAGE_BYTES;

    #[test]
    fn a_handle_survives_the_trip_and_garbage_is_refused() {
        let ids = Arc::new(Int64Array::from(vec![Some(1), None]));
        let names = Arc::new(StringArray::from(vec!["a", "b"]));
        let batch = RecordBatch::try_from_iter(vec![("a", ids as _), ("a", names as _)]).unwrap();
        for parameters in [None, Some(batch.clone()), Some(batch.slice(1, 0)), Some(batch.slice(1, 1))] {
            for kind in [StatementKind::Query, StatementKind::Update] {
                let handle = StatementHandle {
                    sql: "SELECT '語'".to_string(),
                    kind,
                    wanted: batch.schema(),
                    parameters: parameters.clone(),
                    changed: (kind == StatementKind::Update).then_some(0),
                    transaction: (kind == StatementKind::Query).then(|| "t".to_owned()),
                };
                let bytes = handle.encode(DEFAULT_MESSAGE_BYTES).unwrap();
                assert_eq!(StatementHandle::decode(&bytes).unwrap(), handle);
                assert!(StatementHandle::decode(&bytes[1..]).is_err());
            }
        }
        for garbage in [&b""[..], b"garbage", MAGIC, b"ancho/statement/1\0\xff\xff"] {
            let read = StatementHandle::decode(garbage);
            assert!(garbage == MAGIC || read.is_err_and(|e| e.kind == ErrorKind::NotFound));
        }
        let large = StatementHandle::plain("x".repeat(DEFAULT_MESSAGE_BYTES), StatementKind::Query);
        let refused = large.encode(DEFAULT_MESSAGE_BYTES).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Exhausted);
        assert!(refused.message.contains(MESSAGE_BYTES_HEADER), "{refused}");
        assert_eq!(StatementHandle::decode(&large.encode(2 * DEFAULT_MESSAGE_BYTES).unwrap()).unwrap(), large);
    }
}

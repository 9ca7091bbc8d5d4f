//! Rows out of an Arrow IPC stream.
use ancho_common::error::{Error, Result};
use arrow::{array::RecordBatch, buffer::Buffer, ipc::reader::StreamDecoder};
use bytes::Bytes;

/// Larger messages are decoded on a blocking thread: decompression and realignment take milliseconds.
const INLINE_LIMIT: usize = 256 << 10;

/// The batches of one message. Buffers are shared with the message where they are aligned and not compressed.
pub(super) async fn batches(ipc: Bytes) -> Result<Vec<RecordBatch>> {
    if ipc.len() <= INLINE_LIMIT {
        return decode(ipc);
    }
    tokio::task::spawn_blocking(move || decode(ipc))
        .await
        .map_err(|e| Error::internal(format!("decoding rows stopped: {e}")))?
}

fn decode(ipc: Bytes) -> Result<Vec<RecordBatch>> {
    let bad = |e| Error::invalid(format!("rows are not a whole Arrow IPC stream: {e}"));
    let mut decoder = StreamDecoder::new();
    let mut buffer = Buffer::from(ipc);
    let mut batches = Vec::new();
    while !buffer.is_empty() {
        if let Some(batch) = decoder.decode(&mut buffer).map_err(bad)? {
            batches.push(batch);
        }
    }
    decoder.finish().map_err(bad)?;
    Ok(batches)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::{
        array::Int64Array,
        datatypes::{DataType, Field, Schema},
        ipc::writer::StreamWriter,
    };

    use super::*;

    #[tokio::test]
    async fn small_and_big_messages_decode_and_cut_ones_are_refused() {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        for rows in [0i64, 10, 100_000] {
            let batch =
                RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from_iter_values(0..rows))])
                    .unwrap();
            let mut writer = StreamWriter::try_new(Vec::new(), &schema).unwrap();
            writer.write(&batch).unwrap();
            writer.write(&batch).unwrap();
            let ipc = Bytes::from(writer.into_inner().unwrap());
            assert_eq!(batches(ipc.clone()).await.unwrap(), vec![batch.clone(), batch]);
            let error = batches(ipc.slice(..ipc.len() - 20)).await.unwrap_err();
            assert_eq!(error.kind, ancho_common::error::ErrorKind::Invalid);
        }
    }
}

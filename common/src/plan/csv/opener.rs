//! Opens a CSV file and reads it from its first byte to its last.
use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    csv::reader::{Decoder, ReaderBuilder},
    datatypes::{DataType, SchemaRef},
};
use bytes::{Buf, Bytes};
use datafusion::{
    datasource::{
        listing::PartitionedFile,
        physical_plan::{FileOpenFuture, FileOpener, FileSource},
    },
    error::{DataFusionError, Result},
};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{ObjectStore, ObjectStoreExt};

use super::{
    WholeCsvSource,
    empty_texts::{Dialect, Marker, restored},
};
use crate::error::Error;

/// See the module.
pub(super) struct WholeFileOpener {
    source: WholeCsvSource,
    store: Arc<dyn ObjectStore>,
    /// Columns that are read, in the order of the file.
    columns: Vec<usize>,
    batch_size: usize,
}

impl WholeFileOpener {
    pub(super) fn new(
        source: &WholeCsvSource,
        store: Arc<dyn ObjectStore>,
        columns: Vec<usize>,
        batch_size: usize,
    ) -> Self {
        Self { source: source.clone(), store, columns, batch_size }
    }

    fn schema(&self) -> &SchemaRef {
        self.source.inner.table_schema().file_schema()
    }

    fn decoder(&self) -> Decoder {
        let csv = &self.source.inner;
        let mut builder = ReaderBuilder::new(Arc::clone(self.schema()))
            .with_delimiter(csv.delimiter())
            .with_batch_size(self.batch_size)
            .with_header(csv.has_header())
            .with_quote(csv.quote())
            .with_truncated_rows(csv.truncate_rows())
            .with_projection(self.columns.clone());
        if let Some(escape) = csv.escape() {
            builder = builder.with_escape(escape);
        }
        if let Some(comment) = csv.comment() {
            builder = builder.with_comment(comment);
        }
        builder.build_decoder()
    }

    fn marker(&self) -> Option<Marker> {
        let csv = &self.source.inner;
        let dialect =
            Dialect { delimiter: csv.delimiter(), quote: csv.quote(), escape: csv.escape(), comment: csv.comment() };
        let is_text =
            |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let texts = self.schema().fields().iter().map(|field| is_text(field.data_type())).collect();
        (!self.source.quoted_is_null).then(|| Marker::new(dialect, texts, csv.has_header()))
    }
}

impl FileOpener for WholeFileOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        if file.range.is_some() {
            return Err(
                Error::internal("a CSV file is to be read in parts, but line breaks may stand in its values").into()
            );
        }
        let (store, decoder, marker) = (Arc::clone(&self.store), self.decoder(), self.marker());
        Ok(Box::pin(async move {
            let bytes = store.get(&file.object_meta.location).await?.into_stream();
            let bytes = bytes.map_err(DataFusionError::from).boxed();
            let reading = Reading { bytes, marker, decoder, held: Bytes::new(), ended: false };
            Ok(stream::try_unfold(reading, |mut reading| async move {
                Ok(reading.next().await?.map(|batch| (batch, reading)))
            })
            .boxed())
        }))
    }
}

struct Reading {
    bytes: stream::BoxStream<'static, Result<Bytes>>,
    marker: Option<Marker>,
    decoder: Decoder,
    /// Bytes that are not decoded yet.
    held: Bytes,
    ended: bool,
}

impl Reading {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            while self.held.is_empty() && !self.ended {
                self.fetch().await?;
            }
            // No byte at all tells the decoder that the file has ended.
            let decoded = self.decoder.decode(&self.held)?;
            self.held.advance(decoded);
            if decoded == 0 || self.decoder.capacity() == 0 {
                match self.decoder.flush()? {
                    Some(batch) if self.marker.is_some() => return Ok(Some(restored(batch)?)),
                    Some(batch) => return Ok(Some(batch)),
                    None if self.held.is_empty() && self.ended => return Ok(None),
                    None => {}
                }
            }
        }
    }

    async fn fetch(&mut self) -> Result<()> {
        let piece = self.bytes.try_next().await?;
        self.ended = piece.is_none();
        self.held = match (&mut self.marker, piece) {
            (None, piece) => piece.unwrap_or_default(),
            (Some(marker), Some(piece)) => marker.mark(&piece).into(),
            (Some(marker), None) => marker.end().into(),
        };
        Ok(())
    }
}

//! Opens a CSV file and reads it from its first byte to its last.
use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array},
    csv::reader::{Decoder, ReaderBuilder},
    datatypes::{DataType, Schema, SchemaRef},
};
use bytes::{Buf, Bytes, BytesMut};
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
    compression::content,
    empty_texts::{Dialect, Marker, restored},
    header::{columns_of, end_of_header},
};
use crate::error::Error;

/// See the module.
#[derive(Clone)]
pub(super) struct WholeFileOpener {
    source: WholeCsvSource,
    store: Arc<dyn ObjectStore>,
    /// Columns of the table that are read.
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

    fn dialect(&self) -> Dialect {
        let csv = &self.source.inner;
        Dialect { delimiter: csv.delimiter(), quote: csv.quote(), escape: csv.escape(), comment: csv.comment() }
    }

    /// For a file with these columns of the table in this order.
    fn decoder(&self, file: &Schema, wanted: Vec<usize>) -> Decoder {
        let csv = &self.source.inner;
        let mut builder = ReaderBuilder::new(Arc::new(file.clone()))
            .with_delimiter(csv.delimiter())
            .with_batch_size(self.batch_size)
            .with_header(csv.has_header())
            .with_quote(csv.quote())
            .with_truncated_rows(csv.truncate_rows())
            .with_projection(wanted);
        if let Some(escape) = csv.escape() {
            builder = builder.with_escape(escape);
        }
        if let Some(comment) = csv.comment() {
            builder = builder.with_comment(comment);
        }
        builder.build_decoder()
    }

    fn marker(&self, file: &Schema) -> Marker {
        let is_text =
            |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let texts = match self.source.quoted_is_null {
            true => Vec::new(),
            false => file.fields().iter().map(|field| is_text(field.data_type())).collect(),
        };
        Marker::new(self.dialect(), texts, self.source.inner.has_header())
    }

    async fn reading(&self, file: &PartitionedFile) -> Result<Reading> {
        let bytes = self.store.get(&file.object_meta.location).await?.into_stream();
        let mut bytes = content(file.object_meta.location.as_ref(), bytes.map_err(DataFusionError::from).boxed())?;
        let table = self.schema();
        let mut in_file: Vec<usize> = (0..table.fields().len()).collect();
        if self.source.inner.has_header() {
            let (mut start, dialect) = (BytesMut::new(), self.dialect());
            let header = loop {
                if let Some(last) = end_of_header(dialect, &start) {
                    break last + 1;
                }
                match bytes.try_next().await? {
                    Some(piece) => start.extend_from_slice(&piece),
                    None => break start.len(),
                }
            };
            in_file = columns_of(dialect, &start[..header], table)?;
            bytes = stream::once(async move { Ok(start.freeze()) }).chain(bytes).boxed();
        }
        let schema = table.project(&in_file)?;
        // Where in the file each wanted column stands; one that is not there is NULL.
        let places: Vec<_> = self.columns.iter().map(|wanted| in_file.iter().position(|c| c == wanted)).collect();
        let found = places.iter().flatten().copied().collect();
        let mut next = 0..;
        let places = places.into_iter().map(|place| place.and_then(|_| next.next())).collect();
        Ok(Reading {
            bytes,
            marker: self.marker(&schema),
            restores: !self.source.quoted_is_null,
            decoder: self.decoder(&schema, found),
            places,
            schema: Arc::new(table.project(&self.columns)?),
            held: Bytes::new(),
            ended: false,
        })
    }
}

impl FileOpener for WholeFileOpener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        if file.range.is_some() {
            return Err(
                Error::internal("a CSV file is to be read in parts, but line breaks may stand in its values").into()
            );
        }
        let opener = self.clone();
        Ok(Box::pin(async move {
            // Without its root, as the stores keep it.
            let name = format!("file /{}", file.object_meta.location);
            let named = move |error: DataFusionError| DataFusionError::from(Error::from(error).context(&name));
            let reading = opener.reading(&file).await.map_err(&named)?;
            let batches = stream::try_unfold(reading, |mut reading| async move {
                Ok(reading.next().await?.map(|batch| (batch, reading)))
            });
            Ok(batches.map_err(named).boxed())
        }))
    }
}

struct Reading {
    bytes: stream::BoxStream<'static, Result<Bytes>>,
    marker: Marker,
    /// Marked texts are to be restored.
    restores: bool,
    decoder: Decoder,
    /// Of each wanted column its place among the decoded ones, if the file has it.
    places: Vec<Option<usize>>,
    /// The wanted columns.
    schema: SchemaRef,
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
                    Some(batch) => return Ok(Some(self.arranged(&batch)?)),
                    None if self.held.is_empty() && self.ended => return Ok(None),
                    None => {}
                }
            }
        }
    }

    /// The wanted columns of decoded rows.
    fn arranged(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.places.iter().zip(self.schema.fields()).map(|(place, field)| match place {
            Some(place) if self.restores => restored(batch.column(*place)),
            Some(place) => Arc::clone(batch.column(*place)),
            None => new_null_array(field.data_type(), batch.num_rows()),
        });
        let columns: Vec<ArrayRef> = columns.collect();
        let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?)
    }

    async fn fetch(&mut self) -> Result<()> {
        let piece = self.bytes.try_next().await?;
        self.ended = piece.is_none();
        self.held = match piece {
            Some(piece) => self.marker.mark(&piece).into(),
            None => self.marker.end()?.into(),
        };
        Ok(())
    }
}

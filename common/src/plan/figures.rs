//! What plan nodes of Ancho's own tell `EXPLAIN ANALYZE`: rows, batches and bytes of their streams, and time.
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::utils::memory::get_record_batch_memory_size,
    error::Result,
    execution::{RecordBatchStream, SendableRecordBatchStream},
    physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, Time},
};
use futures::{Stream, StreamExt};

/// Time that a node spends inside the polls of its input, where its own work is nothing.
const INPUT_TIME: &str = "input_time";

/// Figures of one stream of a node.
#[derive(Debug)]
pub struct Figures {
    rows: Count,
    batches: Count,
    bytes: Count,
    time: Time,
}

impl Figures {
    /// Of a node that makes its rows: all time inside its stream is its own.
    #[must_use]
    pub fn of_source(metrics: &ExecutionPlanMetricsSet, stream: usize) -> Self {
        Self::new(metrics, stream, MetricBuilder::new(metrics).elapsed_compute(stream))
    }

    /// Of a node that hands on what its input gives: the time is that of its input, with all below.
    #[must_use]
    pub fn of_passage(metrics: &ExecutionPlanMetricsSet, stream: usize) -> Self {
        Self::new(metrics, stream, MetricBuilder::new(metrics).subset_time(INPUT_TIME, stream))
    }

    fn new(metrics: &ExecutionPlanMetricsSet, stream: usize, time: Time) -> Self {
        Self {
            rows: MetricBuilder::new(metrics).output_rows(stream),
            batches: MetricBuilder::new(metrics).output_batches(stream),
            bytes: MetricBuilder::new(metrics).output_bytes(stream),
            time,
        }
    }
}

/// The same rows, counted.
#[must_use]
pub fn counted(rows: SendableRecordBatchStream, figures: Figures) -> SendableRecordBatchStream {
    Box::pin(Counted { rows, figures })
}

struct Counted {
    rows: SendableRecordBatchStream,
    figures: Figures,
}

impl Stream for Counted {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let since = Instant::now();
        let polled = self.rows.poll_next_unpin(context);
        self.figures.time.add_elapsed(since);
        let next = ready!(polled);
        if let Some(Ok(batch)) = &next {
            self.figures.rows.add(batch.num_rows());
            self.figures.batches.add(1);
            self.figures.bytes.add(get_record_batch_memory_size(batch));
        }
        Poll::Ready(next)
    }
}

impl RecordBatchStream for Counted {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use arrow::{
        array::Int64Array,
        datatypes::{DataType, Field, Schema},
    };
    use datafusion::{
        error::DataFusionError,
        physical_plan::{metrics::MetricValue, stream::RecordBatchStreamAdapter},
    };
    use futures::stream;

    use super::*;

    #[tokio::test]
    async fn rows_bytes_and_time_of_all_streams_are_counted_and_errors_are_not() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let metrics = ExecutionPlanMetricsSet::new();
        for stream in 0..2 {
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![7; 100]))]);
            let given = [Ok(batch.unwrap()), Err(DataFusionError::Internal("broken".into()))];
            let slow = stream::iter(given).inspect(|_| std::thread::sleep(Duration::from_millis(2)));
            let rows = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), slow));
            let rows = counted(rows, Figures::of_source(&metrics, stream));
            assert_eq!(rows.schema(), schema);
            assert_eq!(rows.filter(|batch| std::future::ready(batch.is_ok())).count().await, 1);
        }
        let shown = metrics.clone_inner();
        assert_eq!(shown.output_rows(), Some(200));
        let batches = shown.sum(|metric| matches!(metric.value(), MetricValue::OutputBatches(_)));
        assert_eq!(batches.unwrap().as_usize(), 2);
        let bytes = shown.sum(|metric| matches!(metric.value(), MetricValue::OutputBytes(_)));
        assert!(bytes.unwrap().as_usize() >= 1600);
        assert!(shown.elapsed_compute().unwrap() >= 8_000_000, "{shown}");
    }
}

//! What the suite asks of an engine.

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use std::time::{Duration, Instant};

/// The rows of one run with the time it took.
#[derive(Debug)]
pub struct TimedResult {
    /// All rows; at least one batch, without rows when the result has none.
    pub batches: Vec<RecordBatch>,
    /// From handing over the SQL text to having the last row as Arrow.
    pub elapsed: Duration,
}

impl TimedResult {
    /// Number of rows over all batches.
    pub fn row_count(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// A database with the TPC-H tables loaded, which runs one query at a time.
#[async_trait]
pub trait SqlEngine: Send {
    /// The name in reports.
    fn name(&self) -> &str;

    /// Whether the engine shares no code with the one under test, so that its answers can judge.
    fn is_independent(&self) -> bool {
        false
    }

    /// Runs a query to its end and gives all its rows. A result without rows comes as one empty batch,
    /// so that its columns are known.
    async fn run(&mut self, sql: &str) -> anyhow::Result<Vec<RecordBatch>>;

    /// As [`SqlEngine::run`], timed. An engine whose answers take a detour on their way here (a file
    /// that another process writes) measures inside, so that the detour does not count.
    async fn run_timed(&mut self, sql: &str) -> anyhow::Result<TimedResult> {
        let start = Instant::now();
        let batches = self.run(sql).await?;
        Ok(TimedResult { batches, elapsed: start.elapsed() })
    }

    /// Runs a query and gives the time that its planning took, where the engine tells; `None` otherwise.
    async fn planning(&mut self, _sql: &str) -> anyhow::Result<Option<Duration>> {
        Ok(None)
    }
}

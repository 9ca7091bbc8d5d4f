//! One rewriting of files: read without the deleted rows, put in order, written in full, swapped in.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::error::DataFusionError;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::StreamExt;
use uuid::Uuid;

use super::policy::{self, CompactionTrigger, FileFacts, Pick, TableFacts};
use super::resources::CompactionResources;
use crate::encoder_memory;
use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::options::WriteOptions;
use crate::partition::Partition;
use crate::pin::PinnedVersion;
use crate::scan::{ScanRequest, scan};
use crate::stats::DataSummary;

/// How often a pass is begun again when somebody changes its files meanwhile.
const ATTEMPTS: usize = 3;

/// Rows that are sorted at a time …
const BATCH_ROWS: usize = 8192;
/// … and how few there may be, where memory is short.
const FEWEST_BATCH_ROWS: usize = BATCH_ROWS / 64;

/// What compactions did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompactionReport {
    /// Passes that put new files in place.
    pub passes: u64,
    /// Passes that were given up, because writes changed their files meanwhile. The next run picks again.
    pub conflicts: u64,
    /// Files that were rewritten.
    pub files_in: u64,
    /// Files that took their place.
    pub files_out: u64,
    /// Bytes of the files that were rewritten.
    pub bytes_in: u64,
    /// Bytes of the files that took their place.
    pub bytes_out: u64,
    /// Rows that were written again.
    pub rows: u64,
    /// Deleted rows that are no longer stored.
    pub rows_dropped: u64,
    /// Why the first pass began.
    pub trigger: Option<CompactionTrigger>,
}

impl CompactionReport {
    /// Adds what another one did.
    pub fn add(&mut self, other: &CompactionReport) {
        self.passes += other.passes;
        self.conflicts += other.conflicts;
        self.files_in += other.files_in;
        self.files_out += other.files_out;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.rows += other.rows;
        self.rows_dropped += other.rows_dropped;
        self.trigger = self.trigger.or(other.trigger);
    }
}

impl Partition {
    /// Rewrites files that are worth it by the partition's [`compaction`](crate::PartitionOptions::compaction) options,
    /// and puts their rows in its [`row_order`](crate::PartitionOptions::row_order). The version stays the same and so do its rows;
    /// readers and writers are not held up. Does nothing when nothing is worth it.
    ///
    /// # Errors
    /// Of the disk, the encoder, of [`resources`](CompactionResources) too small to sort with, and [`Error::ReadOnly`]. Passes
    /// before the failed one stay, the failed one leaves nothing behind.
    pub async fn compact(&self, resources: &CompactionResources) -> Result<CompactionReport> {
        let options = self.inner.tuning().compaction.clone().checked()?;
        let mut report = CompactionReport::default();
        for _ in 0..options.max_levels {
            if !self.compact_once(resources, &mut report, |files, table| policy::pick(files, table, &options)).await? {
                break;
            }
        }
        Ok(report)
    }

    /// Rewrites all files as one, whether or not it is worth it.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub async fn compact_all(&self, resources: &CompactionResources) -> Result<CompactionReport> {
        let mut report = CompactionReport::default();
        self.compact_once(resources, &mut report, |files, table| policy::pick_all(files, table.ordered)).await?;
        Ok(report)
    }

    /// One pass over what `pick` chooses. Whether there was one.
    async fn compact_once(
        &self,
        resources: &CompactionResources,
        report: &mut CompactionReport,
        pick: impl Fn(&[FileFacts], TableFacts) -> Option<Pick>,
    ) -> Result<bool> {
        self.inner.check_writable()?;
        for _ in 0..ATTEMPTS {
            let pin = self.pin(None)?;
            let Some(chosen) = pick(&self.file_facts(&pin), self.table_facts()) else { return Ok(false) };
            self.inner.step(Step::CompactionPicked)?;
            match self.rewrite(&pin, &chosen, resources).await {
                Ok(done) => {
                    report.add(&done);
                    return Ok(true);
                }
                Err(Error::FilesChanged { detail, .. }) => {
                    tracing::debug!(partition = %self.inner.place, detail, "compaction begins again");
                }
                Err(error) => return Err(error),
            }
        }
        report.conflicts += 1;
        Ok(false)
    }

    /// Sorting needs room for a few batches at least, so long rows are sorted in smaller ones.
    async fn rewrite(
        &self,
        pin: &PinnedVersion,
        pick: &Pick,
        resources: &CompactionResources,
    ) -> Result<CompactionReport> {
        let mut rows = BATCH_ROWS;
        loop {
            match self.rewrite_in_batches(pin, pick, resources, rows).await {
                Err(Error::DataFusion(error)) if is_short_of_memory(&error) && rows > FEWEST_BATCH_ROWS => {
                    tracing::debug!(partition = %self.inner.place, %error, "compaction begins again with smaller batches");
                    rows /= 8;
                }
                other => return other,
            }
        }
    }

    async fn rewrite_in_batches(
        &self,
        pin: &PinnedVersion,
        pick: &Pick,
        resources: &CompactionResources,
        batch_rows: usize,
    ) -> Result<CompactionReport> {
        let picked: Vec<_> = pick.files.iter().filter_map(|index| pin.files().get(*index)).collect();
        let ids: Vec<Uuid> = picked.iter().map(|entry| entry.file.id).collect();
        let schema = &pin.view().schema;
        let mut stored = DataSummary::empty(schema.columns());
        picked.iter().for_each(|entry| stored.merge(entry.summary()));
        let options = self.inner.tuning();
        let writing = WriteOptions { compression: options.compaction.compression, ..WriteOptions::default() };
        // Before sorting takes what is left. The pool of writers is not for this.
        let _encoder = encoder_memory::reserve(resources.memory_pool(), &self.inner.place, &schema.logical)?;
        let mut replacement = self.replace_files(pin, &ids, writing)?;
        replacement.charge_nothing();

        let request = ScanRequest {
            files: Some(Arc::new(ids.into_iter().collect::<HashSet<_>>())),
            // Sorting does not care.
            in_order: !options.row_order.is_sorting(),
            ..ScanRequest::default()
        };
        let mut plan = scan(std::slice::from_ref(pin), &request)?;
        if let Some(ordering) = options.row_order.ordering(&schema.logical, &stored)? {
            plan = Arc::new(SortExec::new(ordering, plan)) as Arc<dyn ExecutionPlan>;
        }
        let mut rows = execute_stream(plan, resources.batches_of(batch_rows))?;
        while let Some(batch) = rows.next().await {
            replacement.write(batch?).await?;
        }
        drop(rows);
        let replaced = replacement.commit().await?;
        Ok(CompactionReport {
            passes: 1,
            files_in: replaced.files_out,
            files_out: replaced.new.files,
            bytes_in: replaced.bytes_out,
            bytes_out: replaced.new.bytes,
            rows: replaced.new.rows,
            rows_dropped: stored.rows.saturating_sub(replaced.new.rows),
            trigger: Some(pick.trigger),
            ..CompactionReport::default()
        })
    }

    fn file_facts(&self, pin: &PinnedVersion) -> Vec<FileFacts> {
        let held = self.held_files();
        let added = self.inner.state.lock().added_generations();
        pin.files()
            .iter()
            .map(|entry| {
                let generation = added.get(&entry.file.id).copied().unwrap_or(entry.sequence);
                FileFacts {
                    bytes: entry.file.summary.bytes,
                    rows: entry.file.summary.rows,
                    deleted_rows: entry.deleted_rows(),
                    tombstones: 0,
                    generation,
                    since_ms: created_ms(entry.file.id),
                    // A rewritten file has seen the deletes of the generation it was read from, which is an older one.
                    settled: entry.sequence < generation,
                    busy: held.contains(&entry.file.id),
                }
            })
            .collect()
    }

    fn table_facts(&self) -> TableFacts {
        let options = self.inner.tuning();
        TableFacts {
            keyless: self.inner.keyed.is_none(),
            ordered: options.row_order.is_sorting(),
            target_bytes: options.target_file_bytes,
            now_ms: self.inner.options.clock.now_ms(),
        }
    }
}

fn is_short_of_memory(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// When a file was begun, which its id says.
fn created_ms(file: Uuid) -> u64 {
    let Some(timestamp) = file.get_timestamp() else { return 0 };
    let (seconds, nanos) = timestamp.to_unix();
    seconds.saturating_mul(1_000).saturating_add(u64::from(nanos / 1_000_000))
}

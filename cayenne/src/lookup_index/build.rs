//! Runs of files that have none: they were there before the index, or came without it, or what they had is damaged.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::UInt64Type;
use datafusion::physical_plan::execute_stream;
use futures::StreamExt;

use super::collector::{Collector, RunRecord, StoredRun, remove};
use super::definition::{Definition, definitions};
use crate::compaction::CompactionResources;
use crate::error::Result;
use crate::failpoint::Step;
use crate::layout;
use crate::partition::{Inner, Partition};
use crate::pin::PinnedVersion;
use crate::row_id::ROW_COLUMN;
use crate::scan::reader::PinnedFile;
use crate::scan::{ScanRequest, scan_files};
use crate::state::VisibleFile;

/// What [`Partition::build_indexes`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexReport {
    /// Data files that all indexes have now.
    pub covered: u64,
    /// Data files of the current version.
    pub files: u64,
    /// Data files that were read for it.
    pub read: u64,
    /// Runs of indexes that are not declared any more, or of columns that have changed since.
    pub dropped: u64,
}

impl Partition {
    /// Whether a data file of the current version lacks an index that is declared.
    ///
    /// # Errors
    /// [`Error::Closed`](crate::Error::Closed).
    pub fn lacks_indexes(&self) -> Result<bool> {
        let pin = self.pin(None)?;
        let wanted = wanted(&pin);
        Ok(pin.files().iter().any(|entry| wanted.iter().any(|definition| !has(&self.inner, entry, definition))))
    }

    /// Makes the indexes that are declared for the files of the current version that lack them, and drops those that are not
    /// declared any more. Readers and writers are not held up. A file that cannot be indexed is left to the next call.
    ///
    /// # Errors
    /// Of the disk, and those of [`scan`](crate::scan); what was made before stays.
    pub async fn build_indexes(&self, resources: &CompactionResources) -> Result<IndexReport> {
        self.inner.check_writable()?;
        let mut report = IndexReport::default();
        let pin = self.pin(None)?;
        let wanted = wanted(&pin);
        report.dropped = self.drop_unwanted(wanted.iter().map(|definition| definition.text.clone()).collect()).await?;
        for entry in pin.files() {
            report.files += 1;
            let lacking: Vec<Definition> =
                wanted.iter().filter(|definition| !has(&self.inner, entry, definition)).cloned().collect();
            if !lacking.is_empty() {
                self.build(&pin, entry, lacking, resources).await?;
                report.read += 1;
            }
            report.covered += u64::from(wanted.iter().all(|definition| has(&self.inner, entry, definition)));
        }
        if report.read > 0 {
            let IndexReport { covered, files, .. } = report;
            tracing::info!(partition = %self.inner.place, "indexes cover {covered} of its {files} files");
        }
        Ok(report)
    }

    async fn build(
        &self,
        pin: &PinnedVersion,
        entry: &VisibleFile,
        lacking: Vec<Definition>,
        resources: &CompactionResources,
    ) -> Result<()> {
        let schema = &pin.view().schema;
        let mut projection: Vec<usize> = lacking.iter().flat_map(|definition| definition.columns.clone()).collect();
        projection.sort_unstable();
        projection.dedup();
        let at: HashMap<usize, usize> = projection.iter().enumerate().map(|(at, &column)| (column, at)).collect();
        let request = ScanRequest { projection: Some(projection), row_ids: true, ..ScanRequest::default() };
        // Older versions show rows that were deleted since.
        let file = PinnedFile::new(pin, &entry.clone().without(None));
        let plan = scan_files(pin, schema, vec![file], 1, &request)?;
        let mut batches = execute_stream(plan, resources.task_context())?;
        let columns: Vec<Vec<usize>> = lacking.iter().map(|definition| definition.columns.clone()).collect();
        let mut collector =
            Collector::over(&self.inner, schema, entry.file.id, lacking, Some(resources.memory_pool()))?;
        let mut leftovers = Leftovers { inner: Arc::clone(&self.inner), names: collector.names().to_vec() };
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let Some(rows) = batch.column_by_name(ROW_COLUMN) else { continue };
            // Files end before their positions need more bits.
            let rows: Vec<u32> = rows
                .as_primitive::<UInt64Type>()
                .values()
                .iter()
                .map(|&row| u32::try_from(row).unwrap_or(u32::MAX))
                .collect();
            for (number, columns) in columns.iter().enumerate() {
                let columns: Vec<ArrayRef> = columns
                    .iter()
                    .filter_map(|column| at.get(column))
                    .map(|&at| Arc::clone(batch.column(at)))
                    .collect();
                collector.push_columns(number, &columns, rows.iter().copied()).await;
            }
        }
        drop(batches);
        let records = collector.finish(entry.file.summary.rows).await;
        let (name, id, rows) = (entry.file.name.clone(), entry.file.id, entry.file.summary.rows);
        let pin = pin.clone();
        self.blocking("recording an index", move |inner| {
            // Until here the file could not go.
            let _pin = pin;
            inner.step(Step::RecordRuns)?;
            let replaced = inner.metastore.lock().add_runs(&name, &records)?;
            leftovers.keep(&records);
            inner.lookup.add(&inner.dir, id, rows, &records);
            inner.step(Step::RunsRecorded)?;
            replaced.iter().try_for_each(|name| {
                inner.step(Step::RemoveRun)?;
                layout::remove_file(&inner.dir.join(name))
            })
        })
        .await
    }

    /// Strikes the runs of other definitions.
    async fn drop_unwanted(&self, wanted: HashSet<String>) -> Result<u64> {
        let unwanted = self.inner.lookup.unwanted(&wanted);
        if unwanted.is_empty() {
            return Ok(0);
        }
        self.blocking("dropping indexes", move |inner| {
            let named: Vec<(String, String)> =
                unwanted.iter().map(|(file, definition)| (layout::file_name(*file), definition.clone())).collect();
            inner.step(Step::DropRuns)?;
            inner.metastore.lock().remove_runs(&named)?;
            for (file, definition) in &unwanted {
                // What fails here is done again by the next call.
                inner.step(Step::RemoveRun)?;
                if let Some(path) = inner.lookup.strike(*file, definition) {
                    layout::remove_file(&path)?;
                }
            }
            Ok(unwanted.len() as u64)
        })
        .await
    }

    /// Bytes that indexes hold in memory, and that they have on disk.
    pub fn index_bytes(&self) -> (usize, u64) {
        self.inner.lookup.bytes()
    }
}

fn wanted(pin: &PinnedVersion) -> Vec<Definition> {
    definitions(&pin.inner().tuning().indexes, &pin.view().schema)
}

fn has(inner: &Inner, entry: &VisibleFile, definition: &Definition) -> bool {
    inner.lookup.find(entry.file.id, &definition.text).is_some()
}

/// Files of runs that nobody names, unless they are kept.
struct Leftovers {
    inner: Arc<Inner>,
    names: Vec<String>,
}

impl Leftovers {
    fn keep(&mut self, records: &[RunRecord]) {
        let kept = |name: &String| {
            records.iter().any(|r| matches!(&r.stored, StoredRun::File { name: kept, .. } if kept == name))
        };
        self.names.retain(|name| !kept(name));
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        self.names.iter().for_each(|name| remove(&self.inner, &self.inner.dir.join(name)));
    }
}

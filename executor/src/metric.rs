//! What an executor counts and measures, for Prometheus.
//!
//! | name | kind | labels | what |
//! |---|---|---|---|
//! | `ancho_executor_partitions` | gauge | `executor`, `state` | partitions: `loaded` can be served, `hindered` cannot |
//! | `ancho_executor_session_held` | gauge | `executor` | 1 while the session with the leading scheduler stands |
//! | `ancho_executor_staged_rows_total` | counter | | rows made durable, whether or not they were committed later |
//! | `ancho_executor_staged_bytes_total` | counter | | their bytes in data files |
//! | `ancho_executor_scans_total` | counter | | scans of partitions that were begun |
//! | `ancho_executor_copied_bytes_total` | counter | | bytes of partitions that came from other executors |
//! | `ancho_scan_rows_total` | counter | | rows that came out of them |
//! | `cayenne_data_dir_bytes` | gauge | `executor`, `kind` | bytes on disk: `data`, `metastore`, `aside` |
//! | `cayenne_memory_account_bytes` | gauge | `kind` | memory: `write_buffer` is rows that wait for their file, `pool` what queries and writes hold, `compaction` what it holds, `keys` what primary keys hold, `lookup_index` what secondary indexes hold, `footer_cache_limit` the most that footers may |
//! | `cayenne_cached_footers` | gauge | | footers of data files in the cache |
//! | `cayenne_compaction_runs_total` | counter | | looks at a partition |
//! | `cayenne_compaction_failures_total` | counter | | looks that ended with an error |
//! | `cayenne_compaction_conflicts_total` | counter | | passes that gave way to writes |
//! | `cayenne_compaction_passes_total` | counter | | passes that put new files in place |
//! | `cayenne_compaction_files_total` | counter | `side` | files: `in` were rewritten, `out` took their place |
//! | `cayenne_compaction_bytes_total` | counter | `side` | their bytes |
//! | `cayenne_compaction_rows_total` | counter | `kind` | rows: `written` again, `dropped` since they were deleted |
use std::sync::Arc;

use cayenne::CompactionStats;
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use tokio::sync::watch;

use crate::{
    host::{HinderedPartition, LoadedPartition, PartitionHost},
    session::SessionStatus,
};

const PARTITIONS: &str = "ancho_executor_partitions";
const SESSION_HELD: &str = "ancho_executor_session_held";
pub(crate) const STAGED_ROWS: &str = "ancho_executor_staged_rows_total";
pub(crate) const STAGED_BYTES: &str = "ancho_executor_staged_bytes_total";
pub(crate) const SCANS: &str = "ancho_executor_scans_total";
pub(crate) const COPIED_BYTES: &str = "ancho_executor_copied_bytes_total";
const DATA_DIR_BYTES: &str = "cayenne_data_dir_bytes";
const MEMORY_BYTES: &str = "cayenne_memory_account_bytes";
const CACHED_FOOTERS: &str = "cayenne_cached_footers";
const COMPACTION_RUNS: &str = "cayenne_compaction_runs_total";
const COMPACTION_FAILURES: &str = "cayenne_compaction_failures_total";
const COMPACTION_CONFLICTS: &str = "cayenne_compaction_conflicts_total";
const COMPACTION_PASSES: &str = "cayenne_compaction_passes_total";
const COMPACTION_FILES: &str = "cayenne_compaction_files_total";
const COMPACTION_BYTES: &str = "cayenne_compaction_bytes_total";
const COMPACTION_ROWS: &str = "cayenne_compaction_rows_total";

/// Texts for whoever reads the metrics.
pub(crate) fn describe() {
    describe_gauge!(PARTITIONS, "Partitions that are assigned, by whether they can be served");
    describe_gauge!(SESSION_HELD, "1 while the session with the leading scheduler stands");
    describe_counter!(STAGED_ROWS, "Rows made durable");
    describe_counter!(STAGED_BYTES, Unit::Bytes, "Bytes of data files made durable");
    describe_counter!(SCANS, "Scans of partitions that were begun");
    describe_counter!(COPIED_BYTES, Unit::Bytes, "Bytes of partitions that came from other executors");
    describe_counter!("ancho_scan_rows_total", "Rows that came out of scans");
    describe_gauge!(DATA_DIR_BYTES, Unit::Bytes, "Bytes on disk, by kind");
    describe_gauge!(MEMORY_BYTES, Unit::Bytes, "Memory of the storage engine, by kind");
    describe_gauge!(CACHED_FOOTERS, "Footers of data files in the cache");
    describe_counter!(COMPACTION_RUNS, "Looks of compaction at a partition");
    describe_counter!(COMPACTION_FAILURES, "Looks of compaction that ended with an error");
    describe_counter!(COMPACTION_CONFLICTS, "Passes of compaction that gave way to writes");
    describe_counter!(COMPACTION_PASSES, "Passes of compaction that put new files in place");
    describe_counter!(COMPACTION_FILES, "Files that compaction rewrote, and those that took their place");
    describe_counter!(COMPACTION_BYTES, Unit::Bytes, "Bytes of files that compaction rewrote, and of their successors");
    describe_counter!(COMPACTION_ROWS, "Rows that compaction wrote again, and deleted rows that it dropped");
}

/// Bytes of rows that wait for their file.
pub(crate) fn write_buffer(bytes: usize) {
    gauge!(MEMORY_BYTES, "kind" => "write_buffer").set(number(bytes));
}

/// What the storage engine holds and has done.
pub(crate) fn measure_engine(host: &PartitionHost, pool_bytes: usize) {
    let (footers, footer_limit) = host.footers();
    let accounts = [
        ("pool", pool_bytes),
        ("compaction", host.compaction_bytes()),
        ("footer_cache_limit", footer_limit),
        ("lookup_index", host.index_bytes()),
        ("keys", host.key_bytes()),
    ];
    for (kind, bytes) in accounts {
        gauge!(MEMORY_BYTES, "kind" => kind).set(number(bytes));
    }
    gauge!(CACHED_FOOTERS).set(number(footers));
    let CompactionStats { runs, failures, done } = host.compaction_stats();
    counter!(COMPACTION_RUNS).absolute(runs);
    counter!(COMPACTION_FAILURES).absolute(failures);
    counter!(COMPACTION_CONFLICTS).absolute(done.conflicts);
    counter!(COMPACTION_PASSES).absolute(done.passes);
    for (side, files, bytes) in [("in", done.files_in, done.bytes_in), ("out", done.files_out, done.bytes_out)] {
        counter!(COMPACTION_FILES, "side" => side).absolute(files);
        counter!(COMPACTION_BYTES, "side" => side).absolute(bytes);
    }
    for (kind, rows) in [("written", done.rows), ("dropped", done.rows_dropped)] {
        counter!(COMPACTION_ROWS, "kind" => kind).absolute(rows);
    }
}

/// Measures the directories. Blocks.
pub(crate) fn measure_directories(host: &PartitionHost) {
    let bytes = host.dir_bytes();
    for (kind, bytes) in [("data", bytes.data), ("metastore", bytes.metastore), ("aside", bytes.aside)] {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        gauge!(DATA_DIR_BYTES, "executor" => host.id().0.clone(), "kind" => kind).set(number(bytes));
    }
}

/// Follows what can be served and how the session stands, for as long as the host lives.
pub(crate) async fn follow(
    executor: String,
    mut loaded: watch::Receiver<Arc<Vec<LoadedPartition>>>,
    mut hindered: watch::Receiver<Arc<Vec<HinderedPartition>>>,
    mut session: watch::Receiver<SessionStatus>,
) {
    loop {
        let partitions = |state: &'static str| gauge!(PARTITIONS, "executor" => executor.clone(), "state" => state);
        partitions("loaded").set(number(loaded.borrow_and_update().len()));
        partitions("hindered").set(number(hindered.borrow_and_update().len()));
        let held = session.borrow_and_update().scheduler.is_some();
        gauge!(SESSION_HELD, "executor" => executor.clone()).set(if held { 1.0 } else { 0.0 });
        let changed = tokio::select! {
            changed = loaded.changed() => changed,
            changed = hindered.changed() => changed,
            changed = session.changed() => changed,
        };
        if changed.is_err() {
            return;
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "gauges are for people")]
fn number(n: usize) -> f64 {
    n as f64
}

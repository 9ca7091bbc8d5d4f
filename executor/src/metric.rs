//! What an executor counts and measures, for Prometheus.
//!
//! | name | kind | labels | what |
//! |---|---|---|---|
//! | `ancho_executor_partitions` | gauge | `executor`, `state` | partitions: `loaded` can be served, `hindered` cannot |
//! | `ancho_executor_session_held` | gauge | `executor` | 1 while the session with the leading scheduler stands |
//! | `ancho_executor_staged_rows_total` | counter | | rows made durable, whether or not they were committed later |
//! | `ancho_executor_staged_bytes_total` | counter | | their bytes in data files |
//! | `ancho_executor_scans_total` | counter | | scans of partitions that were begun |
//! | `ancho_scan_rows_total` | counter | | rows that came out of them |
//! | `cayenne_data_dir_bytes` | gauge | `executor`, `kind` | bytes on disk: `data`, `metastore`, `aside` |
//! | `cayenne_memory_account_bytes` | gauge | `kind` | memory: `write_buffer` is rows that wait for their file |
use std::sync::Arc;

use metrics::{Unit, describe_counter, describe_gauge, gauge};
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
const DATA_DIR_BYTES: &str = "cayenne_data_dir_bytes";
const MEMORY_BYTES: &str = "cayenne_memory_account_bytes";

/// Texts for whoever reads the metrics.
pub(crate) fn describe() {
    describe_gauge!(PARTITIONS, "Partitions that are assigned, by whether they can be served");
    describe_gauge!(SESSION_HELD, "1 while the session with the leading scheduler stands");
    describe_counter!(STAGED_ROWS, "Rows made durable");
    describe_counter!(STAGED_BYTES, Unit::Bytes, "Bytes of data files made durable");
    describe_counter!(SCANS, "Scans of partitions that were begun");
    describe_counter!("ancho_scan_rows_total", "Rows that came out of scans");
    describe_gauge!(DATA_DIR_BYTES, Unit::Bytes, "Bytes on disk, by kind");
    describe_gauge!(MEMORY_BYTES, Unit::Bytes, "Memory of the storage engine, by kind");
}

/// Bytes of rows that wait for their file.
pub(crate) fn write_buffer(bytes: usize) {
    gauge!(MEMORY_BYTES, "kind" => "write_buffer").set(number(bytes));
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

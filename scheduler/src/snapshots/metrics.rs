//! What is counted and measured of snapshots, for Prometheus.
//!
//! | name | kind | labels | what |
//! |---|---|---|---|
//! | `dataset_acceleration_snapshot_failure_count` | counter | `dataset` | snapshots that could not be made |
//! | `dataset_acceleration_snapshot_write_timestamp` | gauge | `dataset` | when this scheduler last published one, seconds since 1970 by the store's clock |
use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};

use crate::state::TableName;

const FAILURES: &str = "dataset_acceleration_snapshot_failure_count";
const WRITTEN: &str = "dataset_acceleration_snapshot_write_timestamp";

/// Texts for whoever reads the metrics.
pub(crate) fn describe() {
    describe_counter!(FAILURES, "Snapshots that could not be made");
    describe_gauge!(WRITTEN, Unit::Seconds, "When this scheduler last published a snapshot");
}

#[expect(clippy::cast_precision_loss, reason = "gauges are for people")]
pub(super) fn published(table: &TableName, at_ms: u64) {
    counter!(FAILURES, "dataset" => table.to_string()).increment(0);
    gauge!(WRITTEN, "dataset" => table.to_string()).set(at_ms as f64 / 1000.0);
}

pub(super) fn failed(table: &TableName) {
    counter!(FAILURES, "dataset" => table.to_string()).increment(1);
}

//! The metrics recorder of a process and its Prometheus text.
use std::{sync::OnceLock, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use crate::error::{Error, Result};

/// How often histograms are to be folded, so that a process nobody scrapes does not grow.
pub const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Upper bounds in seconds of the buckets of every `…_seconds` histogram.
const SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

static RECORDER: OnceLock<Result<PrometheusHandle>> = OnceLock::new();

/// Installs the recorder on the first call and gives access to it on every call: all nodes of one process share it.
///
/// # Errors
/// Another recorder was installed by other means.
pub fn install() -> Result<PrometheusHandle> {
    RECORDER
        .get_or_init(|| {
            let recorder = PrometheusBuilder::new()
                .set_buckets_for_metric(Matcher::Suffix("_seconds".to_string()), SECONDS)
                .map_err(|e| Error::internal(format!("metrics buckets: {e}")))?
                .build_recorder();
            let handle = recorder.handle();
            metrics::set_global_recorder(recorder)
                .map_err(|_| Error::internal("another metrics recorder is installed in this process"))?;
            Ok(handle)
        })
        .clone()
}

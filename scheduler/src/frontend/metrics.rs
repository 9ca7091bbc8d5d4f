//! Prometheus metrics: the recorder of the process, its text form, and what the front ends count.
//!
//! | name | kind | labels | counts |
//! |---|---|---|---|
//! | `ancho_query_total` | counter | `frontend`, `kind`, `code` | statements that ended; `code` is `ok` or the error's code |
//! | `ancho_query_rows_total` | counter | `frontend` | rows handed to clients, or changed by updates |
//! | `ancho_query_seconds` | histogram | `frontend`, `kind` | from arrival to the last row |
//! | `ancho_query_active` | gauge | `frontend` | statements under way |
//!
//! A statement whose client goes away before the end counts as `cancelled`.
use std::time::Instant;

use ancho_common::error::{ErrorKind, Result};
use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::PrometheusHandle;

pub use ancho_common::recorder::UPKEEP_INTERVAL;

/// The recorder of this process, which all its nodes share, with what is counted here described.
///
/// # Errors
/// Another recorder was installed by other means.
pub fn install_recorder() -> Result<PrometheusHandle> {
    let handle = ancho_common::recorder::install()?;
    crate::snapshots::metrics::describe();
    describe_counter!("ancho_query_total", "Statements that ended, by outcome");
    describe_counter!("ancho_query_rows_total", "Rows handed to clients or changed by updates");
    describe_histogram!("ancho_query_seconds", Unit::Seconds, "From the arrival of a statement to its last row");
    describe_gauge!("ancho_query_active", "Statements under way");
    Ok(handle)
}

/// What a statement is counted as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// Planned only.
    Prepare,
    /// Run for its rows.
    Query,
    /// Run for its effect.
    Update,
    /// A management action.
    Action,
}

impl Measured {
    fn label(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Query => "query",
            Self::Update => "update",
            Self::Action => "action",
        }
    }
}

/// Counts one statement from here until it is dropped.
pub struct StatementMeter {
    frontend: &'static str,
    measured: Measured,
    started: Instant,
    rows: u64,
    code: &'static str,
}

impl StatementMeter {
    /// Starts counting a statement that came in by `frontend` (`flight` or `http`).
    #[must_use]
    pub fn start(frontend: &'static str, measured: Measured) -> Self {
        gauge!("ancho_query_active", "frontend" => frontend).increment(1.0);
        Self { frontend, measured, started: Instant::now(), rows: 0, code: ErrorKind::Cancelled.code() }
    }

    /// Counts it as something else than it looked like at first.
    pub fn measure(&mut self, measured: Measured) {
        self.measured = measured;
    }

    /// Rows that went out, or that an update changed.
    pub fn add_rows(&mut self, rows: usize) {
        self.rows += rows as u64;
    }

    /// The statement ended well.
    pub fn succeed(&mut self) {
        self.code = "ok";
    }

    /// The statement ended with an error.
    pub fn fail(&mut self, kind: ErrorKind) {
        self.code = kind.code();
    }

    /// Ends with the outcome of `result`, which is passed on.
    ///
    /// # Errors
    /// That of `result`.
    pub fn finish<T>(mut self, result: Result<T>) -> Result<T> {
        match &result {
            Ok(_) => self.succeed(),
            Err(error) => self.fail(error.kind),
        }
        result
    }

    /// As [`StatementMeter::finish`], for an answer that comes with a count of changed rows.
    ///
    /// # Errors
    /// That of `result`.
    pub fn finish_counted<T>(mut self, result: Result<(T, i64)>) -> Result<T> {
        if let Ok((_, rows)) = &result {
            self.add_rows(usize::try_from(*rows).unwrap_or(0));
        }
        self.finish(result.map(|(answer, _)| answer))
    }
}

impl Drop for StatementMeter {
    fn drop(&mut self) {
        let (frontend, kind) = (self.frontend, self.measured.label());
        gauge!("ancho_query_active", "frontend" => frontend).decrement(1.0);
        counter!("ancho_query_total", "frontend" => frontend, "kind" => kind, "code" => self.code).increment(1);
        counter!("ancho_query_rows_total", "frontend" => frontend).increment(self.rows);
        histogram!("ancho_query_seconds", "frontend" => frontend, "kind" => kind)
            .record(self.started.elapsed().as_secs_f64());
    }
}

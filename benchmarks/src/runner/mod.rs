//! The suite runner: the same queries on several engines in turn, timed and verified.

mod cayenne_tables;
mod datafusion;
mod duckdb;
mod engine;
mod flight_sql;
mod report;
mod suite;

pub use self::datafusion::DataFusionEngine;
pub use duckdb::DuckDbEngine;
pub use engine::{SqlEngine, TimedResult};
pub use flight_sql::FlightSqlEngine;
pub use report::{EngineResult, QueryReport, Report};
pub use suite::{SuiteOptions, run_suite};

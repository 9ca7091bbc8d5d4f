//! What writes, look-ups and scans of changed tables cost, next to DuckDB and SQLite on the same rows and cores.
//!
//! The parts that a client of a cluster sees run through Flight SQL; look-ups by key and the size of files are those of
//! the storage engine in this process. After every change both sides must hold the same rows.

mod cluster;
mod lookups;
mod peer;
mod report;

pub use cluster::{Loader, StorageOptions, run_storage};
pub use report::{Better, Measure, StorageReport};

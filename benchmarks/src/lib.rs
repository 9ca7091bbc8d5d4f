//! TPC-H data, queries and answers, the comparison of results, and the suite that runs the same
//! queries on several engines in turn.
//!
//! * [`tpch`]: tables, generator, queries and reference answers;
//! * [`compare`]: equality of results under SQL's rules, also used by the differential tests;
//! * [`runner`]: engines behind one trait and [`runner::run_suite`];
//! * [`storage`]: what writes, look-ups and changed tables cost, next to DuckDB and SQLite;
//! * [`python`]: the virtual environment with the pinned Python peers.

pub mod compare;
mod peer;
pub mod python;
pub mod runner;
pub mod storage;
pub mod tpch;

//! The scheduler of Ancho: owns placement and commits (through Raft) and plans distributed queries.
//!
//! * [`state`] – what the schedulers agree on, and its pure transition function
//! * [`raft`] – the replicated log that feeds it
//! * [`placement`] – who should hold which partition, as a pure function of the state
//! * [`sessions`] – executors' sessions: liveness upwards, assignments downwards
//! * [`snapshots`] – tables into object stores, under leases
//! * [`planner`] – tables for the query engine, routing of scans to owners, checks on plans
//! * [`query`] – one statement from text to rows: parse, plan, run, retry
//! * [`frontend`] – Flight SQL and HTTP
//! * [`node`] – the process: all of these, started and stopped in order
pub mod frontend;
pub mod node;
pub mod placement;
pub mod planner;
pub mod query;
pub mod raft;
pub mod sessions;
pub mod snapshots;
pub mod state;

pub use node::{Scheduler, SchedulerHandle, SchedulerOptions};

//! Consensus between schedulers: the replicated log that feeds [`ClusterState`](crate::state::ClusterState).
//!
//! [`RaftNode`] is the only thing the rest of the scheduler talks to. `OVERVIEW.md` beside this file tells how
//! a group is formed, restarted, written to and read from.
mod channels;
mod coalesce;
mod database;
mod error;
mod forming;
mod identity;
mod leadership;
mod log_store;
mod network;
mod node;
mod options;
mod propose;
mod read;
mod routes;
mod rules;
mod service;
mod start;
mod state_machine;
mod types;
mod wire;

#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use leadership::Leadership;
pub use node::{RaftNode, Stamper, Status};
pub use options::RaftOptions;
pub use service::{MAX_MESSAGE_BYTES, SchedulerService, SessionHandler, SessionStream};
pub use types::Node;

//! The executor: holds partitions on local disk, keeps a session with the leading scheduler, takes in rows of writes
//! and runs fragments of queries.
//!
//! ```text
//!            session (own thread)                 gRPC server
//!      Hello, Beat ▲   │ Assignments          rows │        │ fragments
//!                  │   ▼                           ▼        ▼
//!              ┌───────────────┐             ┌────────┐ ┌────────┐
//!   lease ◄────┤ PartitionHost │◄────────────┤ ingest │ │ worker │
//!              └───────┬───────┘             └────────┘ └────────┘
//!                      ▼
//!      <data_dir>/partitions/<id>/   one Cayenne partition each
//! ```
//!
//! * [`executor`] – starts and stops the parts
//! * [`identity`] – the data directory: who this is, which cluster it belongs to, one process at a time
//! * [`session`] – the session with the leader, and the lease that it gives
//! * [`host`] – the partitions: assigned, loaded, published, pinned, scanned
//! * [`copy`] – partitions that come from other executors, or go to them
//! * [`ingest`] – writes: stage, seal, publish, discard
//!
//! Nothing here knows of Raft: a set of assignments, each partition with epoch, version and latest commits, is all that
//! an executor learns of the cluster.
pub mod copy;
pub mod error;
pub mod executor;
pub mod host;
pub mod identity;
pub mod ingest;
pub mod options;
pub mod session;
pub mod worker;

mod disk;
#[cfg(debug_assertions)]
mod failpoint;
mod metric;
mod metrics_server;
mod resources;
mod server;
mod snapshots;
#[cfg(test)]
mod tests;

pub use executor::{Executor, ExecutorHandle};
pub use host::{HinderedPartition, HostOptions, LoadedPartition, PartitionHost, PartitionInfo, verify_directory};
pub use options::ExecutorOptions;

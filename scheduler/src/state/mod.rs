//! The replicated state and its pure transition function.
//!
//! [`ClusterState::apply`] is the only thing that changes a [`ClusterState`], and it is a pure function of the state and
//! the [`Request`]: no clock, no randomness, no I/O. Times and ids arrive inside the request; placement decisions are
//! made by the leader before it proposes ([`crate::placement`]) and arrive as plain data, so that schedulers of
//! different releases cannot disagree about them.
mod cluster;
mod command;

mod alter;
mod apply;
mod executors;
mod history;
mod layout;
mod loads;
mod moves;
mod snapshots;
mod tables;
mod transactions;
mod writes;

mod answered;
mod statistics;
mod written;

mod invariants;

#[cfg(test)]
pub(crate) mod tests;

pub use alter::{Alteration, fixed_difference};
pub use cluster::{
    Awaited, ClusterState, ColumnSummary, CommitRecord, Dataset, Executor, Liveness, Load, Partition, Schema, Table,
    TableName,
};
pub use command::{
    AssignedPartition, Command, CommittedPart, NewPartition, NewTable, Outcome, Placement, Refusal, Request, Response,
    StagedPart, TransactionPart, WriteRequest,
};
pub use invariants::violations;
pub use layout::check_layout;
pub use moves::{Move, MoveAction, MovePhase, MoveStep, NewMove};
pub use snapshots::{LISTED_SNAPSHOTS, PublishedSnapshot, SnapshotLease, SnapshotPart, Snapshots};
pub use tables::MAX_NAME_BYTES;
pub use writes::{KEEP_COMMITS, read_only};
pub use written::{Written, WrittenRecord};

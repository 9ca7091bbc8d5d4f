//! Everything that travels between simulated processes.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ancho_common::{
    error::ErrorKind,
    ids::{PartitionId, WriteId},
};
use ancho_proto::v1;
use ancho_scheduler::state::{Request, Response, TableName};

use crate::{
    disk::{Change, Operation, Version},
    raft::RaftMessage,
};

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// A scheduler.
    Scheduler(usize),
    /// An executor.
    Executor(usize),
    /// A client.
    Client(usize),
}

/// A message.
#[derive(Debug, Clone)]
pub enum Message {
    /// Between schedulers.
    Raft(RaftMessage),
    /// A call; the number comes back with its answer.
    Call(u64, Call),
    /// The answer to a call.
    Answer(u64, Answer),
    /// Of an executor, in a connection.
    Up(u64, Up),
    /// Of the leader, in a connection.
    Down(u64, Down),
}

/// Of an executor to the leader. Messages of one connection arrive in order.
#[derive(Debug, Clone)]
pub enum Up {
    /// Opens the session.
    Hello(v1::Hello),
    /// A sign of life.
    Beat(v1::Beat),
    /// The process stops.
    Goodbye,
}

/// Of the leader to an executor.
#[derive(Debug, Clone)]
pub enum Down {
    /// The session is open.
    Welcome,
    /// A beat was heard, by a leader that a majority confirms.
    Ack(u64),
    /// What to hold.
    Assignments(Arc<v1::Assignments>),
    /// Somebody else leads.
    NotLeader(Option<usize>),
    /// The connection is over.
    Ended,
}

/// A call.
#[derive(Debug, Clone)]
pub enum Call {
    /// A request for the log, sent on by another scheduler.
    Propose(Arc<Request>),
    /// An index that includes everything acknowledged.
    ReadIndex,
    /// Of a client.
    Ask(Ask),
    /// Rows of a partition at a version.
    Read(Read),
    /// Stages and seals a part of a write.
    Stage(Stage),
    /// Checks a staged part against a newer version.
    Rebase { write: WriteId, read: Read },
    /// A write was committed as a version.
    Publish { partition: PartitionId, version: u64, write: WriteId },
    /// A write will not be committed.
    Discard { write: WriteId },
    /// The newest version, at least that one, for another executor.
    Export(Read),
}

/// One partition at one version.
#[derive(Debug, Clone)]
pub struct Read {
    /// Which.
    pub partition: PartitionId,
    /// Epoch that the caller knows.
    pub epoch: u64,
    /// Version.
    pub version: u64,
    /// The write that made it.
    pub made_by: Option<WriteId>,
}

/// A part of a write.
#[derive(Debug, Clone)]
pub struct Stage {
    /// The write.
    pub write: WriteId,
    /// Which partition.
    pub partition: PartitionId,
    /// Epoch that the caller knows.
    pub epoch: u64,
    /// What it does.
    pub change: Change,
}

/// What a client asks for.
#[derive(Debug, Clone)]
pub enum Ask {
    /// A table of so many buckets; of none is one that gets a partition for each value.
    Create { table: TableName, buckets: u32, replace: bool },
    /// Its end.
    Drop { table: TableName },
    /// Another name for it.
    Rename { table: TableName, to: TableName },
    /// Partitions for some values.
    Ensure { table: TableName, values: u32 },
    /// A write.
    Write { operation: Operation, table: TableName, shape: Shape },
    /// All rows of a table.
    Read { table: TableName },
}

/// Kind of a write; `seed` chooses partitions and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A row in each of some partitions.
    Insert { seed: u64 },
    /// A row goes in one partition and another one comes in a second.
    Transfer { seed: u64 },
    /// All rows go, one comes.
    Overwrite { seed: u64 },
}

/// An answer.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The request was applied.
    Applied(Response),
    /// Certainly not written here.
    NotLeader(Option<usize>),
    /// Written or not.
    Unknown,
    /// An index, if this node leads.
    Index(Option<u64>),
    /// To a client.
    Told(Told),
    /// Rows.
    Rows(BTreeSet<Operation>),
    /// All versions of a partition.
    Exported(Vec<Version>),
    /// The part is durable.
    Sealed { incarnation: String },
    /// The version that the part may be committed on.
    Rebased { base: u64 },
    /// Done.
    Done,
    /// Refused.
    Refused(ErrorKind, String),
}

/// What a client is told.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// It is done; certainly, and once.
    Done,
    /// It is certainly not done.
    Failed(ErrorKind, String),
    /// It may be done, or may yet be.
    Unknown,
    /// Version and rows of every partition of the table.
    Rows(BTreeMap<PartitionId, (u64, BTreeSet<Operation>)>),
}

//! Requests that change the state, and their answers.
use std::collections::BTreeMap;

use ancho_common::{
    alter::ColumnChange,
    error::Error,
    fingerprint::Fingerprint,
    ids::{ExecutorId, PartitionId, RequestId, TableId, WriteId},
    partition::{PartitionKey, PartitionSpec},
    snapshot::SnapshotLocation,
};
use serde::{Deserialize, Serialize};

use super::{
    cluster::{Awaited, ColumnSummary, Dataset, Schema, TableName},
    moves::{MoveStep, NewMove},
    snapshots::PublishedSnapshot,
};

/// A command with what makes it idempotent and deterministic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Asking twice with the same id applies it once.
    pub id: RequestId,
    /// The proposer's clock, milliseconds since the epoch.
    pub now_ms: u64,
    /// What to do.
    pub command: Command,
}

/// Every change of the replicated state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Gives a new cluster its identity; later ones change nothing.
    InitCluster {
        /// Chosen by the first leader.
        cluster_id: String,
    },
    /// An executor started, or came back.
    RegisterExecutor {
        /// Stable id.
        executor: ExecutorId,
        /// New for each start of the process.
        incarnation: String,
        /// Where it is reached.
        url: String,
        /// Release it runs.
        version: String,
        /// Plan compatibility.
        plan_key: String,
        /// Streams per task.
        streams: u32,
    },
    /// Its session lapsed or ended.
    ExecutorDown {
        /// Which.
        executor: ExecutorId,
        /// Only if it is still this start of the process.
        incarnation: String,
    },
    /// What an executor can serve changed.
    ReportLoaded {
        /// Which.
        executor: ExecutorId,
        /// Only if it is still this start of the process.
        incarnation: String,
        /// Partition and epoch; replaces the former report.
        loaded: BTreeMap<PartitionId, u64>,
        /// Why assigned partitions are not served, a short text each; replaces the former report.
        #[serde(default)]
        hindered: BTreeMap<PartitionId, String>,
    },
    /// Creates a table and its first partitions.
    CreateTable(Box<NewTable>),
    /// Drops a table.
    DropTable {
        /// Which.
        name: TableName,
        /// A missing table is fine.
        if_exists: bool,
    },
    /// Adds the partitions of new keys; those that exist are answered as they are.
    EnsurePartitions {
        /// Of this table.
        table: TableId,
        /// Keys with the owners chosen for them.
        partitions: Vec<NewPartition>,
    },
    /// Places partitions that lost or never had an owner.
    Place {
        /// Decisions; one whose epoch is not the current one is skipped.
        placements: Vec<Placement>,
    },
    /// Begins moves of partitions to other executors.
    StartMoves {
        /// Decisions; one that does not fit the state any more is skipped.
        moves: Vec<NewMove>,
    },
    /// Carries moves on.
    AdvanceMoves {
        /// Steps; one that does not fit the state any more is skipped.
        steps: Vec<MoveStep>,
    },
    /// Makes a staged write visible in all its partitions at once. One without parts changes nothing but is remembered.
    CommitWrite {
        /// Of this table.
        table: TableId,
        /// The write.
        write_id: WriteId,
        /// Replaces all rows of the table: partitions without a part become empty.
        overwrite: bool,
        /// One per touched partition.
        parts: Vec<StagedPart>,
        /// The definition that the rows were loaded under, where the write ends a load of a dataset.
        refreshed: Option<Dataset>,
        /// The rows were made from those of this table at this version: refused if it has changed since.
        #[serde(default)]
        based_on: Option<(TableId, u64)>,
        /// The request that asks for the write; one that was applied before is not applied again.
        #[serde(default)]
        request: Option<WriteRequest>,
        /// The rows have the columns of the table as they were at this [`schema_version`](super::Table::schema_version):
        /// refused if they have changed since.
        #[serde(default)]
        schema_version: u64,
    },
    /// Changes a column of a table.
    AlterColumns {
        /// Which.
        table: TableId,
        /// The change was checked against the columns at this version: refused if they have changed since.
        schema_version: u64,
        /// The change.
        change: ColumnChange,
        /// What commits call it; chosen by the proposer.
        write_id: WriteId,
    },
    /// Changes the parameters of a table.
    SetParams {
        /// Which.
        table: TableId,
        /// The parameters were checked against the columns at this version: refused if they have changed since.
        schema_version: u64,
        /// All of them, as they will be.
        params: BTreeMap<String, String>,
        /// The definition that they are from, of a dataset.
        definition: Option<String>,
    },
    /// Makes everything visible at once that a transaction has staged, in any number of tables.
    CommitTransaction {
        /// One per touched partition.
        parts: Vec<TransactionPart>,
        /// The request that asks for the commit; one that was applied before is not applied again.
        request: Option<WriteRequest>,
    },
    /// Says that the load of a table goes on.
    RenewLoad {
        /// Which.
        table: TableId,
    },
    /// Drops a table whose load was broken off. One that has been loaded stays.
    AbandonLoad {
        /// Which.
        table: TableId,
        /// Only if the load has not been renewed since this count.
        renewals: Option<u64>,
    },
    /// Gives a table another name.
    RenameTable {
        /// Which.
        name: TableName,
        /// Its new name.
        to: TableName,
        /// A missing table is fine.
        if_exists: bool,
    },
    /// Says whether an executor is to be emptied: it takes nothing new, and what it owns moves to others.
    SetDraining {
        /// Which.
        executor: ExecutorId,
        /// It is, or is not any more.
        draining: bool,
    },
    /// Puts an empty partition in the place of one that nobody can serve: its rows are given up.
    AcceptLoss {
        /// Which.
        partition: PartitionId,
        /// Only if it has not changed hands since.
        epoch: u64,
        /// Owners chosen for the empty one.
        owners: Vec<ExecutorId>,
    },
    /// Forgets an executor that holds nothing.
    RemoveExecutor {
        /// Which.
        executor: ExecutorId,
    },
    /// Says where snapshots of tables go that name no place of their own.
    SetSnapshotLocation {
        /// The place.
        location: SnapshotLocation,
    },
    /// Takes the right to publish snapshots of a table.
    TakeSnapshotLease {
        /// Which.
        table: TableId,
        /// Who asks.
        holder: String,
        /// For how long, milliseconds.
        length_ms: u64,
    },
    /// Keeps that right for longer.
    RenewSnapshotLease {
        /// Which.
        table: TableId,
        /// The epoch of the lease; of a former one nothing is kept.
        epoch: u64,
        /// For how long from now on, milliseconds.
        length_ms: u64,
    },
    /// Gives that right back.
    ReleaseSnapshotLease {
        /// Which.
        table: TableId,
        /// The epoch of the lease; a later one stays.
        epoch: u64,
    },
    /// Notes a snapshot that is complete in the store.
    RecordSnapshot {
        /// Of this table.
        table: TableId,
        /// The snapshot, with the epoch of the lease that it was made under.
        snapshot: Box<PublishedSnapshot>,
    },
    /// Declares a dataset that mirrors what is not published yet. It is made by whoever finds that something is.
    AwaitDataset {
        /// Its name.
        name: TableName,
        /// Its definition.
        dataset: Awaited,
    },
    /// Creates, drops or renames a table for a client that named its request: one that was applied before is not applied
    /// again.
    Named {
        /// Who asks for it.
        request: WriteRequest,
        /// What to do.
        command: Box<Command>,
    },
}

/// Who asks for a write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteRequest {
    /// Chosen by the client, or for it.
    pub id: String,
    /// Rows that it is told the write concerned.
    pub rows: u64,
    /// The statement, where the client chose the id: another statement cannot have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub statement: Option<Fingerprint>,
}

/// A table to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewTable {
    /// Name.
    pub name: TableName,
    /// An existing table of that name is fine and stays.
    pub if_not_exists: bool,
    /// An existing table of that name is replaced: at once, or with the commit that ends the new table's load.
    pub or_replace: bool,
    /// Columns.
    pub schema: Schema,
    /// How rows are spread.
    pub partition_spec: PartitionSpec,
    /// Declared primary key.
    pub primary_key: Vec<String>,
    /// Engine parameters.
    pub params: BTreeMap<String, String>,
    /// Source, for a dataset.
    pub dataset: Option<Dataset>,
    /// The table cannot be read before its first commit.
    #[serde(default)]
    pub loading: bool,
    /// Partitions known beforehand (all buckets, or the one of an unpartitioned table).
    pub partitions: Vec<NewPartition>,
}

/// A partition to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NewPartition {
    /// Key.
    pub key: PartitionKey,
    /// Chosen owners; empty where no executor was live.
    pub owners: Vec<ExecutorId>,
}

/// New owners of a partition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// Which.
    pub partition: PartitionId,
    /// The epoch the decision was made on.
    pub epoch: u64,
    /// Chosen owners.
    pub owners: Vec<ExecutorId>,
}

/// What the owner of a partition staged for a write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StagedPart {
    /// Which.
    pub partition: PartitionId,
    /// Epoch it was staged under.
    pub epoch: u64,
    /// Who staged it, and in which start of the process: an earlier one's staged rows are gone.
    pub executor: ExecutorId,
    /// See `executor`.
    pub incarnation: String,
    /// Rows added (all rows, when overwriting).
    pub rows: u64,
    /// Bytes added (all bytes, when overwriting).
    pub bytes: u64,
    /// Statistics of the staged rows, one per column.
    pub columns: Vec<ColumnSummary>,
    /// Rows deleted one by one; 0 when overwriting.
    #[serde(default)]
    pub deleted: u64,
    /// The version that the part builds on: one that deletes rows, or that says how many it replaces, is only committed
    /// right after it. Rows that are merely added build on none.
    #[serde(default)]
    pub base: Option<u64>,
}

/// What a transaction staged in a partition.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TransactionPart {
    /// Of this table.
    pub table: TableId,
    /// The staged write.
    pub write_id: WriteId,
    /// What it does.
    pub staged: StagedPart,
    /// The columns that its rows have, as in [`Command::CommitWrite`].
    #[serde(default)]
    pub schema_version: u64,
}

/// The answer to a request: what happened, or why nothing did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Response {
    /// Result.
    pub outcome: Result<Outcome, Refusal>,
    /// Revision of the state after the request.
    pub revision: u64,
}

/// A refused command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// What the caller should do.
    pub kind: ancho_common::error::ErrorKind,
    /// To read.
    pub message: String,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self { kind: error.kind, message: error.message }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.kind, refusal.message)
    }
}

/// What an applied command did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done, or nothing to do.
    Done,
    /// The table; `created` is false where it existed and that was fine.
    Table {
        /// Its id.
        id: TableId,
        /// It is new.
        created: bool,
    },
    /// `false`: there was none, and that was fine.
    Dropped {
        /// It existed.
        existed: bool,
    },
    /// The partitions asked for, in the order of the request.
    Partitions {
        /// Each with owners and epoch.
        partitions: Vec<AssignedPartition>,
    },
    /// The write is visible.
    Committed {
        /// New version of each changed partition.
        parts: Vec<CommittedPart>,
    },
    /// The right to publish snapshots of a table.
    Lease {
        /// Its epoch.
        epoch: u64,
    },
    /// Nothing was changed: the request was applied before, by another write.
    Repeated {
        /// Rows that it was told then.
        rows: u64,
    },
    /// Nothing was changed: a partition of the write is about to change hands. The same commit is welcome when it has, or
    /// when it stays after all.
    Closing {
        /// These partitions.
        partitions: Vec<PartitionId>,
    },
    /// Nothing was changed: other writes came between the version that a part builds on and this commit.
    Outdated {
        /// These partitions have other versions by now than the write builds on.
        parts: Vec<CommittedPart>,
    },
}

/// A partition and who holds it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AssignedPartition {
    /// Key.
    pub key: PartitionKey,
    /// Id.
    pub partition: PartitionId,
    /// Epoch of the owners.
    pub epoch: u64,
    /// Owners, primary first.
    pub owners: Vec<ExecutorId>,
}

/// A partition that a commit changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedPart {
    /// Which.
    pub partition: PartitionId,
    /// Its new version.
    pub version: u64,
}

//! What the schedulers agree on: tables, partitions, executors, and what was committed.
use std::{collections::BTreeMap, fmt, sync::Arc};

use ancho_common::{
    ids::{ExecutorId, PartitionId, TableId, WriteId},
    partition::{PartitionKey, PartitionSpec},
    snapshot::Served,
    spec::SNAPSHOT_MODE,
};
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use super::{alter::Alteration, answered::Answered, moves::Move, snapshots::Snapshots, written::Written};

/// The whole replicated state. Cloned on write only while a reader holds the former one.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterState {
    /// Identity of the cluster, set by the first command.
    pub cluster_id: String,
    /// Number of commands applied. Not the log index: blank and membership entries do not count.
    pub revision: u64,
    pub(crate) next_table: u64,
    pub(crate) next_partition: u64,
    /// Tables by id.
    pub tables: BTreeMap<TableId, Arc<Table>>,
    /// Every executor that ever registered and was not removed.
    pub executors: BTreeMap<ExecutorId, Executor>,
    /// Partitions on their way to another executor. A partition has one move at most.
    #[serde(default)]
    pub moves: BTreeMap<PartitionId, Move>,
    /// Answers of the latest requests, so that a repeated request is answered and not applied again.
    pub(crate) answered: Answered,
    /// What became of the latest writes.
    #[serde(default)]
    pub written: Written,
    /// Snapshots in object stores.
    #[serde(default)]
    pub snapshots: Snapshots,
    /// Datasets of the schema `public` that wait for what they mirror, by name.
    #[serde(default)]
    pub awaited: BTreeMap<String, Awaited>,
}

/// A table's full name. Names are compared as written; SQL folds unquoted ones to lower case before they get here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TableName {
    /// Schema, `public` by default.
    pub schema: String,
    /// Name in the schema.
    pub table: String,
}

impl TableName {
    /// A table of the schema `public`.
    pub fn public(table: impl Into<String>) -> Self {
        Self { schema: "public".into(), table: table.into() }
    }
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.schema == "public" { write!(f, "{}", self.table) } else { write!(f, "{}.{}", self.schema, self.table) }
    }
}

/// An Arrow schema that serialises as an IPC message: the one stable form Arrow has.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema(pub SchemaRef);

impl Serialize for Schema {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = ancho_common::schema::to_ipc(&self.0);
        serializer.serialize_str(&ancho_common::schema::to_hex(&bytes))
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        ancho_common::schema::from_hex(&text)
            .and_then(|bytes| ancho_common::schema::from_ipc(&bytes))
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

/// A named dataset with a schema, a partition spec and a policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Never reused.
    pub id: TableId,
    /// Full name; unique among the tables that are listed.
    pub name: TableName,
    /// Columns.
    pub schema: Schema,
    /// How rows are spread.
    pub partition_spec: PartitionSpec,
    /// Columns of the declared primary key; empty without one.
    pub primary_key: Vec<String>,
    /// Engine parameters (`cayenne_*` and others), as given.
    pub params: BTreeMap<String, String>,
    /// Where the rows come from, if the table mirrors a source.
    pub dataset: Option<Dataset>,
    /// Its first rows are still on their way: until they are committed it cannot be read, since it would look empty.
    #[serde(default)]
    pub load: Option<Load>,
    /// Grows with every commit to the table.
    pub version: u64,
    /// Grows with every change of its columns.
    #[serde(default)]
    pub schema_version: u64,
    /// Grows with every change of its parameters that is not one of its columns.
    #[serde(default)]
    pub params_version: u64,
    /// The latest changes of its columns, oldest first.
    #[serde(default)]
    pub alterations: Vec<Alteration>,
    /// Partitions by id.
    pub partitions: BTreeMap<PartitionId, Partition>,
    /// Statistics over all partitions, one per column of the schema.
    pub columns: Vec<ColumnSummary>,
}

impl Table {
    /// It mirrors what another cluster publishes, so nothing else is written to it.
    pub fn is_published_elsewhere(&self) -> bool {
        self.dataset.as_ref().is_some_and(|dataset| dataset.refresh_mode == SNAPSHOT_MODE)
    }

    /// It waits, unseen, to take the place of another table.
    pub fn is_hidden(&self) -> bool {
        self.load.as_ref().is_some_and(|load| load.replaces.is_some())
    }

    /// Rows of all partitions at their committed versions.
    pub fn rows(&self) -> u64 {
        self.partitions.values().map(|p| p.rows).sum()
    }

    /// Stored bytes of all partitions at their committed versions (one copy).
    pub fn bytes(&self) -> u64 {
        self.partitions.values().map(|p| p.bytes).sum()
    }

    /// The partition with this key.
    pub fn partition(&self, key: &PartitionKey) -> Option<&Partition> {
        self.partitions.values().find(|p| p.key == *key)
    }
}

/// The load that brings a table its first rows; it ends with their commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Grows while somebody carries the load out. One that stands still for long was broken off.
    pub renewals: u64,
    /// The table whose place it takes, under the same name. Until then it is not found by its name.
    pub replaces: Option<TableId>,
}

/// The source of a table that mirrors one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Dataset {
    /// The definition as applied, canonical JSON: compared to tell whether anything changed.
    pub definition: String,
    /// URL of the source.
    pub from: String,
    /// `full`, or `snapshot` for one that mirrors what another cluster publishes.
    pub refresh_mode: String,
    /// When the last refresh was committed, milliseconds since the epoch.
    pub refreshed_at_ms: Option<u64>,
    /// The snapshot whose rows the table has, of one that mirrors such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
}

/// A dataset whose table is made when something is published that it can mirror.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    /// Its definition, canonical JSON.
    pub definition: String,
    /// URL of the place where that is awaited.
    pub from: String,
}

/// The unit of placement and recovery.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Partition {
    /// Never reused.
    pub id: PartitionId,
    /// Values of the table's partition expressions.
    pub key: PartitionKey,
    /// Grows with every change of owners.
    pub epoch: u64,
    /// Who holds it; the first takes writes.
    pub owners: Vec<ExecutorId>,
    /// Grows with every commit; 0 is empty.
    pub version: u64,
    /// Rows at `version`.
    pub rows: u64,
    /// Stored bytes at `version`.
    pub bytes: u64,
    /// What became of the latest writes, oldest first. An owner that crashed between commit and publish
    /// learns from it which staged write is which version.
    pub commits: Vec<CommitRecord>,
    /// Statistics at `version`, one per column.
    pub columns: Vec<ColumnSummary>,
}

/// A write that was committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRecord {
    /// Version it made.
    pub version: u64,
    /// The staged write that became that version.
    pub write_id: WriteId,
    /// The version of the table that it made; 0 where an earlier release did not note it.
    #[serde(default)]
    pub table_version: u64,
    /// When, in milliseconds since the epoch; 0 where an earlier release did not note it.
    #[serde(default)]
    pub at_ms: u64,
}

/// Statistics of one column. Bounds are text in the partition key's canonical form; every value lies between them, and
/// they are values of the column unless rows were deleted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnSummary {
    /// Number of NULLs, if known.
    pub nulls: Option<u64>,
    /// Smallest value.
    pub min: Option<String>,
    /// Largest value.
    pub max: Option<String>,
}

/// A process that holds partitions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Executor {
    /// Stable over restarts.
    pub id: ExecutorId,
    /// New for each start of the process.
    pub incarnation: String,
    /// Where it is reached.
    pub url: String,
    /// Release it runs.
    pub version: String,
    /// Plans are exchanged only between processes with the same one.
    pub plan_key: String,
    /// Streams per task that it wants (its cores).
    pub streams: u32,
    /// Whether its session is held.
    pub liveness: Liveness,
    /// What it can serve: partition and epoch.
    pub loaded: BTreeMap<PartitionId, u64>,
    /// What it owns and says it cannot serve, and why.
    #[serde(default)]
    pub hindered: BTreeMap<PartitionId, String>,
    /// It is to be emptied, and takes nothing new.
    #[serde(default)]
    pub draining: bool,
}

impl Executor {
    /// Whether partitions may be given to it.
    #[must_use]
    pub fn may_take(&self) -> bool {
        self.liveness == Liveness::Up && !self.draining
    }
}

/// Whether an executor's session is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Liveness {
    /// It holds a session.
    Up,
    /// Its session lapsed or was ended.
    Down,
}

impl ClusterState {
    /// The table of this name.
    pub fn table(&self, name: &TableName) -> Option<&Arc<Table>> {
        self.listed().find(|t| t.name == *name)
    }

    /// The tables that have their names: all but those that wait to replace another one.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().filter(|t| !t.is_hidden())
    }

    /// The owner that can serve a partition now, primary first: it is up and has loaded the current epoch.
    pub fn serving_owner(&self, partition: &Partition) -> Option<&Executor> {
        partition
            .owners
            .iter()
            .filter_map(|id| self.executors.get(id))
            .find(|e| e.liveness == Liveness::Up && e.loaded.get(&partition.id) == Some(&partition.epoch))
    }

    /// Executors with a session.
    pub fn live_executors(&self) -> impl Iterator<Item = &Executor> {
        self.executors.values().filter(|e| e.liveness == Liveness::Up)
    }
}

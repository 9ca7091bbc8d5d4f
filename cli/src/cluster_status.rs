//! The reply of the action `ancho.cluster_status`. Fields that a newer server adds are passed over.
use serde::Deserialize;

/// A cluster at a moment, as one scheduler sees it.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct ClusterStatus {
    /// Identity of the cluster; empty before it has formed.
    #[serde(default)]
    pub cluster_id: String,
    /// Why this may be old: no majority of schedulers is reached.
    #[serde(default)]
    pub problem: Option<String>,
    /// Members of the group.
    #[serde(default)]
    pub schedulers: Vec<SchedulerStatus>,
    /// Every executor that was ever part of it.
    #[serde(default)]
    pub executors: Vec<ExecutorStatus>,
    /// Tables.
    #[serde(default)]
    pub tables: Vec<TableStatus>,
    /// Partitions on their way to another executor.
    #[serde(default)]
    pub moves: Vec<MoveStatus>,
}

/// A partition on its way.
#[derive(Debug, Clone, Deserialize)]
pub struct MoveStatus {
    /// Its id.
    pub partition: u64,
    /// Its table.
    pub table: String,
    /// Who gives it.
    pub from: String,
    /// Who gets it.
    pub to: String,
    /// `waiting`, `copying`, `closing` or `leaving`.
    pub phase: String,
    /// Its bytes.
    pub bytes: u64,
}

/// A scheduler.
#[derive(Debug, Clone, Deserialize)]
pub struct SchedulerStatus {
    /// Number in the group.
    pub node_id: u64,
    /// Internal URL.
    pub url: String,
    /// `leader`, `follower`, `candidate` or `learner`.
    #[serde(default)]
    pub role: Option<String>,
    /// Term of the group.
    #[serde(default)]
    pub term: Option<u64>,
    /// Last log entry in its state.
    #[serde(default)]
    pub applied_index: Option<u64>,
    /// Whether the answering scheduler can talk to it.
    #[serde(default)]
    pub reachable: bool,
}

/// An executor.
#[derive(Debug, Clone, Deserialize)]
pub struct ExecutorStatus {
    /// Stable id.
    pub id: String,
    /// Where it is reached.
    pub url: String,
    /// `up` or `down`.
    pub state: String,
    /// It is being emptied.
    #[serde(default)]
    pub draining: bool,
    /// Release it runs.
    #[serde(default)]
    pub version: String,
    /// Partitions it owns.
    #[serde(default)]
    pub partitions: u64,
    /// Stored bytes of these.
    #[serde(default)]
    pub bytes: u64,
    /// Streams per task it offers.
    #[serde(default)]
    pub streams: u64,
}

/// A table.
#[derive(Debug, Clone, Deserialize)]
pub struct TableStatus {
    /// Name.
    pub name: String,
    /// Number of partitions.
    #[serde(default)]
    pub partitions: u64,
    /// Committed rows.
    #[serde(default)]
    pub rows: u64,
    /// Stored bytes.
    #[serde(default)]
    pub bytes: u64,
    /// Partitions without an owner that serves them.
    #[serde(default)]
    pub unassigned: u64,
    /// Grows with every commit.
    #[serde(default)]
    pub version: u64,
}

impl ClusterStatus {
    /// Whether the group has a leader.
    #[must_use]
    pub fn has_leader(&self) -> bool {
        self.schedulers.iter().any(|s| s.role.as_deref().is_some_and(|role| role.eq_ignore_ascii_case("leader")))
    }

    /// The executors that hold a session.
    pub fn up_executors(&self) -> impl Iterator<Item = &ExecutorStatus> {
        self.executors.iter().filter(|executor| executor.state.eq_ignore_ascii_case("up"))
    }

    /// Partitions that nobody serves, over all tables.
    #[must_use]
    pub fn unassigned(&self) -> u64 {
        self.tables.iter().map(|table| table.unassigned).sum()
    }
}

//! What a caller chooses when a partition is created or opened.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::SecondsFormat;

use datafusion::execution::memory_pool::MemoryPool;

use crate::cache::ReadCache;
use crate::compaction::{CompactionOptions, RowOrder};
use crate::disk_space::DiskLimit;
use crate::failpoint::Failpoints;
use crate::keys::write_keys::KeyRule;

/// Which partition a directory holds. Recorded at creation and never changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionIdentity {
    /// Name of the table.
    pub table: String,
    /// The partition as shown to people, for example `bucket(16, k)=3`.
    pub partition: String,
    /// The cluster-wide id of the partition.
    pub partition_id: u64,
}

/// How a write changes the rows that are visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteMode {
    /// The new rows are added.
    Append,
    /// The new rows replace all rows.
    Overwrite,
    /// The columns change and the rows stay. Only [`Partition::alter`](crate::Partition::alter) stages such a write.
    Alter,
}

impl WriteMode {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            WriteMode::Append => "append",
            WriteMode::Overwrite => "overwrite",
            WriteMode::Alter => "alter",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "append" => Some(WriteMode::Append),
            "overwrite" => Some(WriteMode::Overwrite),
            "alter" => Some(WriteMode::Alter),
            _ => None,
        }
    }
}

/// How rows are encoded. Files of both kinds are read alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Light encodings that are chosen per block and evaluated without decoding.
    #[default]
    Btrblocks,
    /// Also Zstandard for texts and Pco for numbers: smaller files, slower to write and to read.
    Zstd,
}

/// How one write is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// A file is ended once it has about this many bytes; `None` for the partition's
    /// [`target_file_bytes`](PartitionOptions::target_file_bytes).
    pub target_file_bytes: Option<u64>,
    /// How rows are encoded.
    pub compression: Compression,
    /// The version that the write has read; `None` for the current one when it begins. Rows that it deletes must not have
    /// been changed by a later version.
    pub base_version: Option<u64>,
    /// What happens to rows whose key is there already; `None` for the newest time if the table has a time column, and
    /// for the last arrival if not. Of no effect in tables without a primary key or without conflict detection.
    pub key_rule: Option<KeyRule>,
}

/// How long superseded versions stay readable. A version is dropped by
/// [`Partition::collect_garbage`](crate::Partition::collect_garbage) only when both rules let it go and nobody has it pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How many superseded versions stay, whatever their age.
    pub versions: u64,
    /// How long a version stays after it was superseded.
    pub grace: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { versions: 0, grace: Duration::from_secs(600) }
    }
}

/// Where the engine gets the time from. Only the age of superseded versions depends on it.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// A clock that calls `now`.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now_ms(&self) -> u64 {
        to_ms((self.0)())
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new(SystemTime::now)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// Milliseconds since 1970; times before that count as 1970.
pub(crate) fn to_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A point of time as people write it.
pub(crate) fn from_ms(ms: u64) -> String {
    let time = i64::try_from(ms).ok().and_then(chrono::DateTime::from_timestamp_millis);
    time.map_or_else(|| format!("{ms} ms after 1970"), |time| time.to_rfc3339_opts(SecondsFormat::Millis, true))
}

/// Options of an open partition. They are not stored: each open may choose others.
#[derive(Debug, Clone)]
pub struct PartitionOptions {
    /// A writer starts a new file once the current one has about this many bytes. A file may end up
    /// larger by what the encoder had buffered (a few MiB per column).
    pub target_file_bytes: u64,
    /// How long superseded versions stay readable.
    pub retention: Retention,
    /// Where the time comes from.
    pub clock: Clock,
    /// Footers of data files, shared by all partitions that are given the same cache.
    pub cache: ReadCache,
    /// Memory in bytes for finding stored keys of a table with a primary key, and as much for the keys of each write that is
    /// under way. With less, more is read from files.
    pub key_memory_bytes: usize,
    /// Where that memory is accounted, `None` for nowhere. If it has no room, less is taken as if `key_memory_bytes` were less; what few
    /// rows need is taken in any case.
    pub key_pool: Option<Arc<dyn MemoryPool>>,
    /// When [`Partition::compact`](crate::Partition::compact) rewrites files.
    pub compaction: CompactionOptions,
    /// The order of rows inside rewritten files. Files that exist keep theirs until they are rewritten.
    pub row_order: RowOrder,
    /// Secondary indexes, each over some columns in their order. Files that have none are read in full until
    /// [`Partition::build_indexes`](crate::Partition::build_indexes) has made them.
    pub indexes: Vec<Vec<String>>,
    /// How much of the disk writes leave free; nothing unless set.
    pub disk: DiskLimit,
    /// Where the memory of files that are being written is accounted; `None` for nowhere.
    pub memory_pool: Option<Arc<dyn MemoryPool>>,
    /// Hook for tests.
    pub failpoints: Option<Arc<dyn Failpoints>>,
}

impl Default for PartitionOptions {
    fn default() -> Self {
        Self {
            target_file_bytes: 256 << 20,
            retention: Retention::default(),
            clock: Clock::default(),
            cache: ReadCache::shared(),
            key_memory_bytes: 256 << 20,
            key_pool: None,
            compaction: CompactionOptions::default(),
            row_order: RowOrder::default(),
            indexes: Vec::new(),
            disk: DiskLimit::default(),
            memory_pool: None,
            failpoints: None,
        }
    }
}

//! The one error type of the engine. Every variant names what it is about: the table and
//! partition, and where there is one the file or the column.

mod kinds;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::error::DataFusionError;
use uuid::Uuid;

use crate::failpoint::Step;
use crate::stats::WriteSummary;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Which partition an error is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Name of the table the partition belongs to.
    pub table: String,
    /// The partition as shown to people.
    pub partition: String,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table '{}', partition '{}'", self.table, self.partition)
    }
}

/// What went wrong in a partition. `file` is a path inside the partition directory, `column` has the path of a nested field, sizes
/// are bytes.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The version existed and has been dropped by [`Partition::collect_garbage`](crate::Partition::collect_garbage).
    #[error(
        "{place}: version {version} has expired, the oldest readable one is {oldest} and the current one {current}; \
         read the current version instead"
    )]
    VersionExpired {
        place: Arc<Place>,
        /// The version that was asked for.
        version: u64,
        /// The oldest version that can still be read.
        oldest: u64,
        current: u64,
    },
    /// The version has not been published here.
    #[error(
        "{place}: version {version} is not here yet, the newest one is {current}; retry once it has been published"
    )]
    VersionNotYetHere {
        place: Arc<Place>,
        /// The version that was asked for.
        version: u64,
        current: u64,
    },
    /// A file that the metastore names does not exist.
    #[error("{place}: data file '{file}' is missing; restore the partition from a snapshot or a replica")]
    FileMissing { place: Arc<Place>, file: String },
    /// A file that the metastore names has another length on disk.
    #[error(
        "{place}: data file '{file}' has {found} bytes instead of {expected}; \
         restore the partition from a snapshot or a replica"
    )]
    FileLength {
        place: Arc<Place>,
        file: String,
        /// Length in bytes the metastore recorded.
        expected: u64,
        /// Length in bytes on disk.
        found: u64,
    },
    /// A file does not hold what was written to it.
    #[error("{place}: data file '{file}' is damaged: {detail}; restore the partition from a snapshot or a replica")]
    FileDamaged { place: Arc<Place>, file: String, detail: String },
    /// [`Partition::create`](crate::Partition::create) on a directory that holds a partition.
    #[error("'{}' already holds a partition; open it or choose another directory", path.display())]
    AlreadyExists { path: PathBuf },
    /// [`Partition::open`](crate::Partition::open) on a directory without a partition.
    #[error("'{}' holds no partition (there is no partition.db); create one or check the path", path.display())]
    NotAPartition { path: PathBuf },
    /// Another handle, in this process or in another one, has the partition open for writing.
    #[error("'{}' is in use by another process or handle; close that one first", path.display())]
    InUse { path: PathBuf },
    /// The metastore was written by another version of the engine.
    #[error(
        "'{}' has metastore format {found}, this build reads format {supported}; use a matching build",
        path.display()
    )]
    Format {
        path: PathBuf,
        /// Format in the directory.
        found: i64,
        /// Format of this build.
        supported: i64,
    },
    /// The metastore holds something this engine never writes.
    #[error("{place}: the metastore is damaged: {detail}; restore the partition from a snapshot or a replica")]
    MetastoreDamaged { place: Arc<Place>, detail: String },
    /// A column's type cannot be stored without loss.
    #[error(
        "column '{column}' has type {data_type}, which cannot be stored without loss: {reason}; declare another type"
    )]
    UnsupportedType {
        column: String,
        /// Its Arrow type.
        data_type: DataType,
        /// Why not.
        reason: String,
    },
    /// The schema as a whole is not usable.
    #[error("the schema cannot be used: {detail}")]
    BadSchema { detail: String },
    /// The primary key or the time column cannot be as declared.
    #[error("column '{column}' cannot be used as declared: {detail}")]
    BadKey { column: String, detail: String },
    /// A NULL in a column of the primary key.
    #[error("{place}: column '{column}' is in the primary key and the batch holds {nulls} NULL values")]
    NullInKey {
        place: Arc<Place>,
        column: String,
        /// How many NULLs the batch holds.
        nulls: usize,
    },
    /// Something that goes by key was asked of a table that does not keep one row per key.
    #[error("{place}: the table has no primary key that is enforced; go by row instead")]
    NoKey { place: Arc<Place> },
    /// Keys were stored in another form than this build has for the table.
    #[error("{place}: keys are stored in encoding {found} and this build has {expected}; use a matching build")]
    KeyEncoding {
        place: Arc<Place>,
        /// The encoding of the stored keys.
        found: u8,
        /// The encoding that this build has for the columns of the key.
        expected: u8,
    },
    /// A row with a key that must not be there already.
    #[error("{place}: the key {key} is there already{}; nothing of this write has become visible", if *within { " in the same write" } else { "" })]
    DuplicateKey {
        place: Arc<Place>,
        key: String,
        /// Whether the other row is of the same write, not a stored one.
        within: bool,
    },
    /// A change of the columns that is not possible, or that could lose values.
    #[error("column '{column}' cannot be changed like this: {detail}")]
    SchemaChangeRefused {
        /// Path of the column.
        column: String,
        /// Why not.
        detail: String,
    },
    /// An option that cannot work.
    #[error("option {option}: {detail}")]
    BadOption {
        /// Its name.
        option: &'static str,
        /// What is wrong with it and what to do.
        detail: String,
    },
    /// A batch does not have the schema of the partition.
    #[error("{place}: column '{column}' does not match the table: {detail}")]
    SchemaMismatch { place: Arc<Place>, column: String, detail: String },
    /// A NULL in a column that is declared NOT NULL.
    #[error("{place}: column '{column}' is declared NOT NULL and the batch holds {nulls} NULL values")]
    NullInColumn {
        place: Arc<Place>,
        column: String,
        /// How many NULLs the batch holds.
        nulls: usize,
    },
    /// A value that the file format cannot hold.
    #[error("{place}: column '{column}' cannot be stored: {detail}")]
    ValueOutOfRange {
        place: Arc<Place>,
        column: String,
        /// The value and what is allowed.
        detail: String,
    },
    /// An earlier batch was not taken in completely, because it failed or because its caller stopped waiting.
    #[error("{place}: write {write_id} has lost rows of an earlier batch; drop the writer and start the write again")]
    WriterBroken { place: Arc<Place>, write_id: Uuid },
    /// The write id has been finished before: the rows are durable. Not a failure of the caller who repeats a request.
    #[error("{place}: write {write_id} is already sealed{}", published.map(|v| format!(" and published as version {v}")).unwrap_or_default())]
    WriteSealed {
        place: Arc<Place>,
        write_id: Uuid,
        /// The version that made it visible, if it is.
        published: Option<u64>,
        /// What the write holds.
        summary: Box<WriteSummary>,
    },
    /// Two writers with one write id.
    #[error("{place}: write {write_id} is in progress; wait for it or use another write id")]
    WriteInProgress { place: Arc<Place>, write_id: Uuid },
    /// Another write changed the rows that this one is about, after the version that it read.
    #[error(
        "{place}: write {write_id}, which read version {base}, conflicts with a later one: {detail}; \
         none of it is visible, run the statement again"
    )]
    WriteConflict {
        place: Arc<Place>,
        write_id: Uuid,
        /// The version that it read.
        base: u64,
        /// An example of what both have changed.
        detail: String,
    },
    /// Files changed while their rows were being rewritten.
    #[error("{place}: files were not replaced, because {detail}; nothing has changed, start again")]
    FilesChanged {
        place: Arc<Place>,
        /// Which file, and what happened to it.
        detail: String,
    },
    /// Replacing files must not change the rows.
    #[error(
        "{place}: files that show {expected} rows cannot be replaced by files of {found} rows; nothing has changed"
    )]
    ReplacementRows {
        place: Arc<Place>,
        /// Rows that the replaced files show.
        expected: u64,
        /// Rows that the new files hold.
        found: u64,
    },
    /// A delete that does not name rows of the partition.
    #[error("{place}: rows cannot be deleted: {detail}")]
    InvalidDelete { place: Arc<Place>, detail: String },
    /// No version from that time is readable.
    #[error(
        "{place}: there is no readable version from {asked}, the oldest one is from {oldest}; ask for a later time"
    )]
    NoVersionAt {
        place: Arc<Place>,
        /// The time that was asked for.
        asked: String,
        /// When the oldest readable version was published.
        oldest: String,
    },
    /// A deletion vector is missing or does not hold what was written to it.
    #[error(
        "{place}: the deletion vector of data file '{file}' is damaged: {detail}; \
         restore the partition from a snapshot or a replica"
    )]
    VectorDamaged { place: Arc<Place>, file: String, detail: String },
    /// The write id was never sealed here, or has been discarded.
    #[error("{place}: write {write_id} is not staged here; stage it again")]
    UnknownWrite { place: Arc<Place>, write_id: Uuid },
    /// Versions are published one after the other; this one is not the next.
    #[error("{place}: write {write_id} cannot become version {asked}, because the current version is {current}")]
    VersionConflict {
        place: Arc<Place>,
        write_id: Uuid,
        /// The version that was asked for.
        asked: u64,
        current: u64,
    },
    /// The write is visible already, under another version.
    #[error("{place}: write {write_id} is already version {published} and cannot become version {asked}")]
    PublishedElsewhere {
        place: Arc<Place>,
        write_id: Uuid,
        /// The version that was asked for.
        asked: u64,
        /// The version it has.
        published: u64,
    },
    /// A change was asked of a handle from [`Partition::open_read_only`](crate::Partition::open_read_only).
    #[error("{place}: opened for reading only; open it for writing to change it")]
    ReadOnly { place: Arc<Place> },
    /// The partition was [closed](crate::Partition::close).
    #[error("{place}: closed; open it again")]
    Closed { place: Arc<Place> },
    /// The columns have changed since whoever asks learnt of them.
    #[error("{place}: its columns have changed; look at them again and retry")]
    SchemaChanged { place: Arc<Place> },
    /// Scans over several partitions need one schema.
    #[error("{place}: its schema differs from that of the other partitions in the scan")]
    MixedSchemas {
        /// The partition that differs.
        place: Arc<Place>,
    },
    /// A scan or a table over no partition at all has no schema.
    #[error("at least one partition is needed")]
    NoPartition,
    /// The manifest of a copy was written by another version of the engine.
    #[error("the manifest of the copy has format {found}, this build reads format {supported}; use a matching build")]
    ManifestFormat {
        /// Format of the manifest.
        found: u32,
        /// Format of this build.
        supported: u32,
    },
    /// The manifest of a copy cannot be what a partition exported.
    #[error("the manifest of {what} is damaged: {detail}; use another snapshot or replica")]
    ManifestDamaged {
        /// Of which partition.
        what: String,
        detail: String,
    },
    /// A data file of a copy could not be fetched.
    #[error("{place}: data file '{file}' cannot be copied: {source}")]
    CopyFailed {
        place: Arc<Place>,
        file: String,
        #[source]
        source: std::io::Error,
    },
    /// A data file was fetched and is not what the manifest says.
    #[error("{place}: the copy of data file '{file}' is damaged: {detail}; use another snapshot or replica")]
    CopyDamaged { place: Arc<Place>, file: String, detail: String },
    /// A copy does not fit on the disk.
    #[error(
        "{place}: the copy needs {needed} more bytes and writes leave {limit} bytes free, and {free} bytes are free on the disk of '{}'; \
         free some space",
        path.display()
    )]
    NoRoomForCopy {
        place: Arc<Place>,
        path: PathBuf,
        /// Bytes that are still to come.
        needed: u64,
        free: u64,
        /// Bytes that must stay free.
        limit: u64,
    },
    /// [`remove_partition`](crate::remove_partition) on a directory that holds what is not the partition's own.
    #[error("'{}' is not removed, because '{}' {detail}; move that elsewhere first", path.display(), entry.display())]
    NotRemoved { path: PathBuf, entry: PathBuf, detail: &'static str },
    /// The operating system refused.
    #[error("cannot {action} '{}': {source}", path.display())]
    Io {
        action: &'static str,
        /// To which file or directory.
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// So little of the disk is free that nothing new is written.
    #[error(
        "{place}: {free} of {total} bytes are free on the disk of '{}' and writes leave {limit} free; \
         free some space and retry, reads go on",
        path.display()
    )]
    DiskAlmostFull {
        place: Arc<Place>,
        path: PathBuf,
        free: u64,
        /// All bytes of the disk.
        total: u64,
        /// Bytes that must be free.
        limit: u64,
    },
    /// The memory pool has no room for another file.
    #[error("{place}: writing a file needs {bytes} bytes of memory: {source}; retry when other work is done")]
    OutOfMemory {
        place: Arc<Place>,
        /// How many bytes were asked for.
        bytes: usize,
        /// What the pool said.
        #[source]
        source: Box<DataFusionError>,
    },
    /// SQLite refused.
    #[error("cannot {action} in the metastore of '{}': {source}", path.display())]
    Metastore {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: rusqlite::Error,
    },
    /// The Vortex library refused.
    #[error("{place}: cannot {action} '{file}': {}", brief(source))]
    Vortex {
        place: Arc<Place>,
        action: &'static str,
        file: String,
        #[source]
        source: Box<vortex::error::VortexError>,
    },
    /// An encoder or a background task died.
    #[error("{place}: {task} stopped: {detail}; nothing of this write has become visible")]
    TaskDied {
        place: Arc<Place>,
        /// What it was doing.
        task: &'static str,
        /// The panic message or "cancelled".
        detail: String,
    },
    /// Arrow refused.
    #[error("{action}: {source}")]
    Arrow {
        action: &'static str,
        #[source]
        source: arrow::error::ArrowError,
    },
    /// DataFusion refused.
    #[error(transparent)]
    DataFusion(#[from] DataFusionError),
    /// A failpoint of a test stopped the engine at this step, as a crash would.
    #[error("failpoint at step {0:?}")]
    Failpoint(Step),
}

/// The library's message without the backtrace that it appends when backtraces are on.
fn brief(error: &vortex::error::VortexError) -> String {
    let text = error.to_string();
    text.split("\nBacktrace:").next().unwrap_or_default().trim_end().to_owned()
}

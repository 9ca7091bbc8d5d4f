//! Cayenne, the storage engine of **one partition**: a directory that holds a SQLite metastore and
//! immutable Vortex files, and that can be moved or copied as a whole.
//!
//! ```text
//!                 begin_write ─▶ StagedWriter::write … ─▶ finish ─▶ publish(version)
//!                                     │                     │          │
//!                                     ▼                     ▼          ▼
//! <partition>/  files/<id>.vortex   appended, synced,   row in       one transaction:
//!               partition.db        read back           partition.db  the commit point
//!
//!                 pin(version) ─▶ scan(pins, request) ─▶ DataFusion plan
//! ```
//!
//! * A *version* is what readers see. It is numbered by whoever coordinates partitions; here it only has to be the next one.
//! * A *generation* is one state of the files. Rewriting files ([`Partition::replace_files`]) changes it, and not the version.
//! * A *write* is staged under an id of the caller's choice: durable, invisible, idempotent. It adds rows, deletes rows, or both.
//! * A *pin* keeps a version readable. Files go only by [`Partition::collect_garbage`], when no pin and no retained version needs them.
//!
//! The crate knows nothing of other nodes. `OVERVIEW.md` beside this file's folder describes the layout, the
//! write and read paths and what happens after a crash. Start reading at [`Partition`], then [`StagedWriter`], then [`scan`].

mod alter;
mod cache;
mod compaction;
mod deletion_vector;
mod disk_space;
mod encoder_memory;
mod error;
mod failpoint;
mod file_set;
mod garbage;
mod keyed;
mod keys;
mod lookup_index;
mod null_values;
mod options;
mod partition;
mod pin;
mod publish;
mod removal;
mod replace;
mod row_id;
mod scan;
mod schema;
mod schema_check;
mod staged_writer;
mod stats;
mod table;
mod transaction;
pub mod transfer;
mod tuning;
mod type_conversion;
mod value_range;
mod verify;

mod data_file_writer;
mod layout;
mod metastore;
mod session;
mod sink;
mod state;

pub use cache::ReadCache;
pub use compaction::{
    CompactionOptions, CompactionReport, CompactionResources, CompactionRunner, CompactionRunnerOptions,
    CompactionStats, CompactionTrigger, DEFAULT_MEMORY_FRACTION, RowOrder,
};
pub use disk_space::{DiskLimit, DiskSpace};
pub use error::{Error, Place, Result};
pub use failpoint::{Failpoints, Outcome, Step};
pub use garbage::GarbageReport;
pub use keys::spec::{ConflictDetection, DeletionMode, TableSettings, is_key_type};
pub use keys::write_keys::KeyRule;
pub use lookup_index::IndexReport;
pub use options::{Clock, Compression, PartitionIdentity, PartitionOptions, Retention, WriteMode, WriteOptions};
pub use partition::Partition;
pub use pin::{FileInfo, PinnedVersion};
pub use publish::{Published, StagedInfo};
pub use removal::remove_partition;
pub use replace::{Replaced, Replacement};
pub use row_id::{FILE_COLUMN, ROW_COLUMN};
pub use scan::{ScanRequest, scan};
pub use schema::SchemaChange;
pub use schema_check::check_schema;
pub use staged_writer::StagedWriter;
pub use stats::{ColumnSummary, DataSummary, KeyCounts, WriteSummary};
pub use table::CayenneTable;
pub use transaction::{TransactionPart, TransactionSummary};
pub use transfer::{
    Alignment, FileSource, InstallLimit, InstallOptions, InstallProgress, ManifestFile, PartitionManifest, StagedFiles,
    StagedManifest,
};
pub use tuning::Tuning;
pub use type_conversion::{TypeConversion, UnsupportedTypeAction};
pub use verify::{DamagedFile, VerifyReport};

//! The SQLite side of a partition: what exists, which version sees it, what is staged.
//!
//! What changes with time carries *generations*: a file or a deletion vector is part of generation `g` when
//! `added_generation <= g < removed_generation`; a staged file has no `added_generation`. A version is one row
//! of `versions` and names its newest generation. Publishing inserts a version with a new generation, replacing
//! files gives the current version a new one; either is one transaction, which is the commit point.
//!
//! Every call blocks; callers run it on a blocking thread.

mod change;
mod format;
mod read;
mod runs;
mod schemas;
mod sync_group;
mod table_settings;
mod transfer;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::Schema;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use uuid::Uuid;

use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Place, Result};
use crate::keys::encoder::KeyEncoding;
use crate::keys::spec::TableSettings;
use crate::keys::store::KeyStore;
use crate::keys::write_keys::KeyRule;
use crate::layout;
use crate::lookup_index::collector::RunRecord;
use crate::options::{PartitionIdentity, WriteMode};
use crate::schema::TableSchema;
use crate::stats::{DataSummary, WriteSummary};
pub(crate) use change::{Expired, NewWrite};
use format::FORMAT;
use schemas::encode_schema;
pub(crate) use schemas::{decode_defaults, decode_schema};
pub(crate) use sync_group::{Committed, SyncGroup};

/// A data file as the metastore knows it.
#[derive(Debug, Clone)]
pub(crate) struct FileRecord {
    /// The schema that it was written with.
    pub(crate) schema_id: i64,
    /// Relative to the partition directory.
    pub(crate) path: String,
    pub(crate) sha256: [u8; 32],
    /// Of all rows that the file holds.
    pub(crate) summary: DataSummary,
    pub(crate) added: Option<u64>,
    pub(crate) removed: Option<u64>,
    /// The generation whose deletes the file's rows have seen.
    pub(crate) sequence: Option<u64>,
    /// Rows of the file's newest deletion vector.
    pub(crate) deleted_rows: u64,
    pub(crate) write_id: Uuid,
    /// Its runs of indexes, when it is new.
    pub(crate) runs: Vec<RunRecord>,
}

/// A deletion vector as the metastore knows it.
#[derive(Debug)]
pub(crate) struct VectorRecord {
    pub(crate) file: String,
    pub(crate) vector: DeletionVector,
    pub(crate) added: u64,
    pub(crate) removed: Option<u64>,
}

/// The rows of one file that a staged write deletes.
#[derive(Debug)]
pub(crate) struct StagedDelete {
    pub(crate) write_id: Uuid,
    pub(crate) file: String,
    pub(crate) vector: DeletionVector,
}

/// A version as the metastore knows it.
#[derive(Debug, Clone)]
pub(crate) struct VersionRecord {
    pub(crate) version: u64,
    pub(crate) schema_id: i64,
    pub(crate) generation: u64,
    /// Rows that it shows.
    pub(crate) rows: u64,
    pub(crate) published_ms: u64,
    pub(crate) superseded_ms: Option<u64>,
}

/// A sealed write as the metastore knows it.
#[derive(Debug, Clone)]
pub(crate) struct WriteRecord {
    pub(crate) write_id: Uuid,
    pub(crate) mode: WriteMode,
    /// The schema of its rows, or the one that it gives the table.
    pub(crate) schema_id: i64,
    pub(crate) base_version: u64,
    pub(crate) summary: WriteSummary,
    pub(crate) sealed_ms: u64,
    pub(crate) version: Option<u64>,
    /// In tables that keep one row per key.
    pub(crate) key_rule: Option<KeyRule>,
    /// Keys that it deletes, encoded.
    pub(crate) deleted_keys: Option<Vec<u8>>,
}

/// Everything that is read when a partition is opened.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) schemas: Schemas,
    pub(crate) versions: Vec<VersionRecord>,
    pub(crate) files: Vec<FileRecord>,
    pub(crate) vectors: Vec<VectorRecord>,
    pub(crate) staged: Vec<WriteRecord>,
    pub(crate) staged_deletes: Vec<StagedDelete>,
    /// Keys that staged writes delete.
    pub(crate) deleted_keys: HashMap<Uuid, KeyStore>,
    /// Runs of indexes, by data file.
    pub(crate) runs: Vec<(String, RunRecord)>,
}

/// Every schema that the table ever had, by id.
pub(crate) type Schemas = BTreeMap<i64, Arc<TableSchema>>;

/// An open metastore.
pub(crate) struct Metastore {
    connection: Connection,
    dir: PathBuf,
    place: Arc<Place>,
    schemas: Schemas,
    log: Arc<SyncGroup>,
    closed: bool,
}

impl Metastore {
    /// Writes a new metastore under a temporary name and moves it into place when it is complete and durable.
    pub(crate) fn create(
        dir: &Path,
        identity: &PartitionIdentity,
        schema: &Schema,
        table: &TableSettings,
        encoding: Option<KeyEncoding>,
        now_ms: u64,
    ) -> Result<()> {
        let temporary = dir.join(layout::NEW_METASTORE);
        layout::remove_file(&temporary)?;
        let failed = |source| Error::Metastore { action: "create tables", path: dir.to_path_buf(), source };
        let schema_ipc = encode_schema(schema)?;
        let mut connection = Connection::open(&temporary).map_err(failed)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        let tx = connection.transaction().map_err(failed)?;
        tx.execute_batch(format::TABLES).map_err(failed)?;
        tx.execute_batch(format::DELETE_TABLES).map_err(failed)?;
        {
            let mut set = tx.prepare("INSERT INTO settings (key, value) VALUES (?1, ?2)").map_err(failed)?;
            set.execute(params!["format", FORMAT]).map_err(failed)?;
            set.execute(params!["table", identity.table]).map_err(failed)?;
            set.execute(params!["partition", identity.partition]).map_err(failed)?;
            set.execute(params!["partition_id", identity.partition_id.to_string()]).map_err(failed)?;
            for (key, value) in table_settings::to_rows(table) {
                set.execute(params![key, value]).map_err(failed)?;
            }
            if let Some(encoding) = encoding {
                set.execute(params![table_settings::KEY_ENCODING, encoding.id()]).map_err(failed)?;
            }
        }
        tx.execute("INSERT INTO schemas (schema_id, arrow_ipc) VALUES (1, ?1)", params![schema_ipc]).map_err(failed)?;
        tx.execute(
            "INSERT INTO versions (version, kind, schema_id, rows, bytes, published_ms) VALUES (0, 'create', 1, 0, 0, ?1)",
            params![signed(now_ms)],
        )
        .map_err(failed)?;
        tx.commit().map_err(failed)?;
        connection.close().map_err(|(_, source)| failed(source))?;
        Self::put_in_place(dir)
    }

    /// Opens an existing metastore and reads whose it is. One of an older format is converted after `convert` agreed.
    pub(crate) fn open(
        dir: &Path,
        read_only: bool,
        convert: impl FnOnce() -> Result<()>,
    ) -> Result<(Self, PartitionIdentity)> {
        let failed = |action: &'static str| {
            let path = dir.to_path_buf();
            move |source| Error::Metastore { action, path, source }
        };
        let mut connection = match connect(dir, read_only, false) {
            // With no room for the index of its log SQLite can still keep the index in memory.
            Err(source) if !read_only && out_of_space(&source) => {
                tracing::warn!(path = %dir.display(), error = %source, "the disk is full; the partition is opened all the same");
                connect(dir, read_only, true)
            }
            other => other,
        }
        .map_err(failed("open the database"))?;
        let format: i64 = setting(&connection, "format").map_err(failed("read the format"))?;
        if format::convertible(format) && !read_only {
            convert()?;
            format::convert(&mut connection).map_err(failed("convert an older format"))?;
            tracing::info!(path = %dir.display(), from = format, to = FORMAT, "converted the metastore");
        } else if format != FORMAT {
            return Err(Error::Format { path: dir.to_path_buf(), found: format, supported: FORMAT });
        }
        let read_identity = || -> rusqlite::Result<(String, String, String)> {
            Ok((
                setting(&connection, "table")?,
                setting(&connection, "partition")?,
                setting(&connection, "partition_id")?,
            ))
        };
        let (table, partition, id) = read_identity().map_err(failed("read the identity"))?;
        let place = Arc::new(Place { table: table.clone(), partition: partition.clone() });
        let damaged = |detail: String| Error::MetastoreDamaged { place: Arc::clone(&place), detail };
        let identity = PartitionIdentity {
            table,
            partition,
            partition_id: id.parse().map_err(|_| damaged(format!("partition id '{id}' is no number")))?,
        };
        if !read_only {
            connection.execute_batch(format::RUNS).map_err(failed("make the table of indexes"))?;
            // From here on commits share syncs.
            connection.pragma_update(None, "synchronous", "NORMAL").map_err(failed("set it up"))?;
        }
        let mut metastore = Self {
            connection,
            dir: dir.to_path_buf(),
            place,
            schemas: Schemas::new(),
            log: Arc::new(SyncGroup::new(dir.join(layout::METASTORE_LOG))),
            closed: false,
        };
        metastore.schemas = metastore.read_schemas()?;
        Ok((metastore, identity))
    }

    /// Lets go of the database, after its log was written into it. Everything fails afterwards.
    pub(crate) fn close(&mut self) {
        if self.closed {
            return;
        }
        self.closed = true;
        // The last connection to a database writes its log into it.
        match Connection::open_in_memory() {
            Ok(nothing) => self.connection = nothing,
            Err(error) => {
                tracing::warn!(path = %self.dir.display(), %error, "the metastore stays open until its last user has gone")
            }
        }
    }

    /// Where commits are made durable, without the lock of the metastore.
    pub(crate) fn log(&self) -> &Arc<SyncGroup> {
        &self.log
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(rusqlite::Error) -> Error + use<> {
        let path = self.dir.clone();
        let closed = self.closed.then(|| Arc::clone(&self.place));
        move |source| match closed {
            Some(place) => Error::Closed { place },
            None => Error::Metastore { action, path, source },
        }
    }

    fn begin(&mut self) -> Result<Transaction<'_>> {
        if self.closed {
            return Err(Error::Closed { place: Arc::clone(&self.place) });
        }
        self.log.check().map_err(|source| Error::io("write to", self.dir.join(layout::METASTORE), source))?;
        let failed = self.failed("begin a transaction");
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)
    }
}

/// Opens the database and reads from it once. `exclusive` keeps the index of the log in memory.
fn connect(dir: &Path, read_only: bool, exclusive: bool) -> rusqlite::Result<Connection> {
    let access = if read_only { OpenFlags::SQLITE_OPEN_READ_ONLY } else { OpenFlags::SQLITE_OPEN_READ_WRITE };
    let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(dir.join(layout::METASTORE), flags)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    if exclusive {
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    }
    if !read_only {
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
    }
    let _: i64 = setting(&connection, "format")?;
    Ok(connection)
}

fn out_of_space(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode;
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DiskFull | ErrorCode::SystemIoFailure | ErrorCode::CannotOpen))
}

fn setting<T: rusqlite::types::FromSql>(connection: &Connection, key: &str) -> rusqlite::Result<T> {
    connection
        .query_row("SELECT value FROM settings WHERE key = ?1", params![key], |row| row.get(0))
        .optional()?
        .ok_or(rusqlite::Error::QueryReturnedNoRows)
}

// SQLite integers are signed; counts and versions never reach the sign bit.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

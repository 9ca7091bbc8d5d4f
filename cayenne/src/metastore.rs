//! The SQLite side of a partition: what exists, which version sees it, what is staged.
//!
//! A file is visible in version `v` when `added_version <= v < removed_version`; a staged file has no
//! `added_version`. A version is one row of `versions`; publishing inserts it and stamps the files in
//! the same transaction, which is the commit point. Later features add tables (deletion vectors are
//! keyed by file and version range like files themselves, source checkpoints by version).
//!
//! Every call blocks; callers run it on a blocking thread.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params};
use uuid::Uuid;

use crate::error::{Error, Place, Result};
use crate::layout;
use crate::options::{PartitionIdentity, WriteMode};
use crate::stats::{DataSummary, decode_columns, encode_columns};

const FORMAT: i64 = 1;

const TABLES: &str = "
CREATE TABLE settings (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE schemas (schema_id INTEGER PRIMARY KEY, arrow_ipc BLOB NOT NULL);
CREATE TABLE versions (
    version INTEGER PRIMARY KEY,
    write_id TEXT,
    kind TEXT NOT NULL,
    schema_id INTEGER NOT NULL REFERENCES schemas,
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    published_ms INTEGER NOT NULL,
    superseded_ms INTEGER
);
CREATE TABLE writes (
    write_id TEXT PRIMARY KEY,
    mode TEXT NOT NULL,
    schema_id INTEGER NOT NULL REFERENCES schemas,
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    files INTEGER NOT NULL,
    column_stats BLOB NOT NULL,
    sealed_ms INTEGER NOT NULL,
    version INTEGER
) WITHOUT ROWID;
CREATE TABLE files (
    file_id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    write_id TEXT NOT NULL,
    schema_id INTEGER NOT NULL REFERENCES schemas,
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    column_stats BLOB NOT NULL,
    added_version INTEGER,
    removed_version INTEGER
);
CREATE INDEX files_by_write ON files (write_id);
";

/// A data file as the metastore knows it.
#[derive(Debug, Clone)]
pub(crate) struct FileRecord {
    /// 0 until the file is recorded.
    pub(crate) file_id: i64,
    /// Relative to the partition directory.
    pub(crate) path: String,
    pub(crate) sha256: [u8; 32],
    pub(crate) summary: DataSummary,
    pub(crate) added: Option<u64>,
    pub(crate) removed: Option<u64>,
    pub(crate) write_id: Uuid,
}

/// A version as the metastore knows it.
#[derive(Debug, Clone)]
pub(crate) struct VersionRecord {
    pub(crate) version: u64,
    pub(crate) superseded_ms: Option<u64>,
}

/// A sealed write as the metastore knows it.
#[derive(Debug, Clone)]
pub(crate) struct WriteRecord {
    pub(crate) write_id: Uuid,
    pub(crate) mode: WriteMode,
    pub(crate) summary: DataSummary,
    pub(crate) sealed_ms: u64,
    pub(crate) version: Option<u64>,
}

/// Everything that is read when a partition is opened.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) versions: Vec<VersionRecord>,
    pub(crate) files: Vec<FileRecord>,
    pub(crate) staged: Vec<WriteRecord>,
}

/// How a call of [`Metastore::publish`] ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Published {
    /// This call made the write visible at the given time.
    Now { mode: WriteMode, now_ms: u64 },
    /// An earlier call did, as this very version.
    Before,
}

/// An open metastore.
pub(crate) struct Metastore {
    connection: Connection,
    dir: PathBuf,
    place: Arc<Place>,
    schema: SchemaRef,
}

impl Metastore {
    /// Writes a new metastore under a temporary name and moves it into place when it is complete and durable.
    pub(crate) fn create(dir: &Path, identity: &PartitionIdentity, schema: &Schema, now_ms: u64) -> Result<()> {
        let temporary = dir.join(layout::NEW_METASTORE);
        layout::remove_file(&temporary)?;
        let failed = |source| Error::Metastore {
            action: "create tables",
            path: dir.to_path_buf(),
            source,
        };
        let schema_ipc = encode_schema(schema)?;
        let mut connection = Connection::open(&temporary).map_err(failed)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        let tx = connection.transaction().map_err(failed)?;
        tx.execute_batch(TABLES).map_err(failed)?;
        {
            let mut set = tx.prepare("INSERT INTO settings (key, value) VALUES (?1, ?2)").map_err(failed)?;
            set.execute(params!["format", FORMAT]).map_err(failed)?;
            set.execute(params!["table", identity.table]).map_err(failed)?;
            set.execute(params!["partition", identity.partition]).map_err(failed)?;
            set.execute(params!["partition_id", identity.partition_id.to_string()]).map_err(failed)?;
        }
        tx.execute("INSERT INTO schemas (schema_id, arrow_ipc) VALUES (1, ?1)", params![schema_ipc])
            .map_err(failed)?;
        tx.execute(
            "INSERT INTO versions (version, kind, schema_id, rows, bytes, published_ms) VALUES (0, 'create', 1, 0, 0, ?1)",
            params![signed(now_ms)],
        )
        .map_err(failed)?;
        tx.commit().map_err(failed)?;
        connection.close().map_err(|(_, source)| failed(source))?;
        let target = dir.join(layout::METASTORE);
        std::fs::rename(&temporary, &target).map_err(|source| Error::io("move into place", &target, source))?;
        layout::sync_directory(dir)
    }

    /// Opens an existing metastore and reads whose it is.
    pub(crate) fn open(dir: &Path, read_only: bool) -> Result<(Self, PartitionIdentity, SchemaRef)> {
        let failed = |action: &'static str| {
            let path = dir.to_path_buf();
            move |source| Error::Metastore { action, path, source }
        };
        let access = if read_only {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        } else {
            OpenFlags::SQLITE_OPEN_READ_WRITE
        };
        let connection = Connection::open_with_flags(
            dir.join(layout::METASTORE),
            access | OpenFlags::SQLITE_OPEN_NO_MUTEX,
        )
        .map_err(failed("open the database"))?;
        connection.busy_timeout(Duration::from_secs(10)).map_err(failed("set the busy timeout"))?;
        if !read_only {
            connection
                .pragma_update(None, "journal_mode", "WAL")
                .and_then(|()| connection.pragma_update(None, "synchronous", "FULL"))
                .and_then(|()| connection.pragma_update(None, "foreign_keys", true))
                .map_err(failed("set the journal mode"))?;
        }
        let format: i64 = setting(&connection, "format").map_err(failed("read the format"))?;
        if format != FORMAT {
            return Err(Error::Format {
                path: dir.to_path_buf(),
                found: format,
                supported: FORMAT,
            });
        }
        let read_identity = || -> rusqlite::Result<(String, String, String, Vec<u8>)> {
            let ipc = connection.query_row(
                "SELECT arrow_ipc FROM schemas WHERE schema_id =
                   (SELECT schema_id FROM versions ORDER BY version DESC LIMIT 1)",
                [],
                |row| row.get(0),
            )?;
            Ok((
                setting(&connection, "table")?,
                setting(&connection, "partition")?,
                setting(&connection, "partition_id")?,
                ipc,
            ))
        };
        let (table, partition, id, ipc) = read_identity().map_err(failed("read the identity"))?;
        let place = Arc::new(Place {
            table: table.clone(),
            partition: partition.clone(),
        });
        let damaged = |detail: String| Error::MetastoreDamaged {
            place: Arc::clone(&place),
            detail,
        };
        let identity = PartitionIdentity {
            table,
            partition,
            partition_id: id.parse().map_err(|_| damaged(format!("partition id '{id}' is no number")))?,
        };
        let schema = StreamReader::try_new(ipc.as_slice(), None)
            .map_err(|e| damaged(format!("the schema cannot be read: {e}")))?
            .schema();
        let metastore = Self {
            connection,
            dir: dir.to_path_buf(),
            place,
            schema: Arc::clone(&schema),
        };
        Ok((metastore, identity, schema))
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(rusqlite::Error) -> Error + use<> {
        let path = self.dir.clone();
        move |source| Error::Metastore { action, path, source }
    }

    fn begin(&mut self) -> Result<Transaction<'_>> {
        let failed = self.failed("begin a transaction");
        self.connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failed)
    }

    /// Reads everything but published writes.
    pub(crate) fn load(&self) -> Result<Loaded> {
        let versions = self
            .connection
            .prepare("SELECT version, superseded_ms FROM versions ORDER BY version")
            .and_then(|mut statement| {
                statement
                    .query_map([], |row| {
                        Ok(VersionRecord {
                            version: unsigned(row.get(0)?),
                            superseded_ms: row.get::<_, Option<i64>>(1)?.map(unsigned),
                        })
                    })?
                    .collect::<rusqlite::Result<Vec<_>>>()
            })
            .map_err(self.failed("read versions"))?;
        let mut files = Vec::new();
        let mut statement = self
            .connection
            .prepare(
                "SELECT file_id, path, write_id, rows, bytes, sha256, column_stats, added_version, removed_version
                 FROM files ORDER BY file_id",
            )
            .map_err(self.failed("read files"))?;
        let mut rows = statement.query([]).map_err(self.failed("read files"))?;
        while let Some(row) = rows.next().map_err(self.failed("read files"))? {
            files.push(self.file_from_row(row)?);
        }
        let staged = self.read_writes("SELECT * FROM writes WHERE version IS NULL ORDER BY sealed_ms, write_id", &[])?;
        Ok(Loaded {
            versions,
            files,
            staged,
        })
    }

    fn file_from_row(&self, row: &rusqlite::Row<'_>) -> Result<FileRecord> {
        let read = || -> rusqlite::Result<(FileRecord, String, Vec<u8>, Vec<u8>)> {
            let record = FileRecord {
                file_id: row.get(0)?,
                path: row.get(1)?,
                sha256: [0; 32],
                summary: DataSummary {
                    rows: unsigned(row.get(3)?),
                    bytes: unsigned(row.get(4)?),
                    files: 1,
                    columns: Vec::new(),
                },
                added: row.get::<_, Option<i64>>(7)?.map(unsigned),
                removed: row.get::<_, Option<i64>>(8)?.map(unsigned),
                write_id: Uuid::nil(),
            };
            Ok((record, row.get(2)?, row.get(5)?, row.get(6)?))
        };
        let (mut record, write_id, sha256, stats) = read().map_err(self.failed("read a file entry"))?;
        record.sha256 = sha256
            .try_into()
            .map_err(|_| self.damaged(format!("file '{}' has no SHA-256", record.path)))?;
        record.write_id = self.parse_id(&write_id)?;
        record.summary.columns = decode_columns(&stats, self.schema.fields().len())
            .map_err(|detail| self.damaged(format!("statistics of file '{}': {detail}", record.path)))?;
        Ok(record)
    }

    fn damaged(&self, detail: String) -> Error {
        Error::MetastoreDamaged {
            place: Arc::clone(&self.place),
            detail,
        }
    }

    fn parse_id(&self, text: &str) -> Result<Uuid> {
        Uuid::parse_str(text).map_err(|_| self.damaged(format!("write id '{text}' is no UUID")))
    }

    fn read_writes(&self, sql: &str, parameters: &[&dyn rusqlite::ToSql]) -> Result<Vec<WriteRecord>> {
        type Raw = (String, String, i64, i64, i64, Vec<u8>, i64, Option<i64>);
        let raw: Vec<Raw> = self
            .connection
            .prepare(sql)
            .and_then(|mut statement| {
                statement
                    .query_map(parameters, |row| {
                        Ok((
                            row.get("write_id")?,
                            row.get("mode")?,
                            row.get("rows")?,
                            row.get("bytes")?,
                            row.get("files")?,
                            row.get("column_stats")?,
                            row.get("sealed_ms")?,
                            row.get("version")?,
                        ))
                    })?
                    .collect()
            })
            .map_err(self.failed("read writes"))?;
        raw.into_iter()
            .map(|(write_id, mode, rows, bytes, files, stats, sealed_ms, version)| {
                Ok(WriteRecord {
                    mode: WriteMode::parse(&mode)
                        .ok_or_else(|| self.damaged(format!("write {write_id} has the unknown mode '{mode}'")))?,
                    summary: DataSummary {
                        rows: unsigned(rows),
                        bytes: unsigned(bytes),
                        files: unsigned(files),
                        columns: decode_columns(&stats, self.schema.fields().len())
                            .map_err(|detail| self.damaged(format!("statistics of write {write_id}: {detail}")))?,
                    },
                    sealed_ms: unsigned(sealed_ms),
                    version: version.map(unsigned),
                    write_id: self.parse_id(&write_id)?,
                })
            })
            .collect()
    }

    /// A sealed write, staged or published.
    pub(crate) fn write(&self, write_id: Uuid) -> Result<Option<WriteRecord>> {
        let id = write_id.to_string();
        Ok(self.read_writes("SELECT * FROM writes WHERE write_id = ?1", &[&id])?.pop())
    }

    /// Records a finished write and its files. After this the write survives a crash, and nobody sees it.
    /// Gives the files their ids.
    pub(crate) fn seal(
        &mut self,
        write_id: Uuid,
        mode: WriteMode,
        summary: &DataSummary,
        files: &mut [FileRecord],
        now_ms: u64,
    ) -> Result<()> {
        let failed = self.failed("record a staged write");
        let schema = Arc::clone(&self.schema);
        let stats = encode_columns(&summary.columns, &schema)?;
        let file_stats = files
            .iter()
            .map(|file| encode_columns(&file.summary.columns, &schema))
            .collect::<Result<Vec<_>>>()?;
        let tx = self.begin()?;
        let mut insert = || -> rusqlite::Result<()> {
            let schema_id: i64 =
                tx.query_row("SELECT schema_id FROM versions ORDER BY version DESC LIMIT 1", [], |row| row.get(0))?;
            tx.execute(
                "INSERT INTO writes (write_id, mode, schema_id, rows, bytes, files, column_stats, sealed_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    write_id.to_string(),
                    mode.as_str(),
                    schema_id,
                    signed(summary.rows),
                    signed(summary.bytes),
                    signed(summary.files),
                    stats,
                    signed(now_ms)
                ],
            )?;
            let mut insert_file = tx.prepare(
                "INSERT INTO files (path, write_id, schema_id, rows, bytes, sha256, column_stats)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?;
            for (file, stats) in files.iter_mut().zip(&file_stats) {
                insert_file.execute(params![
                    file.path,
                    write_id.to_string(),
                    schema_id,
                    signed(file.summary.rows),
                    signed(file.summary.bytes),
                    file.sha256.as_slice(),
                    stats
                ])?;
                file.file_id = tx.last_insert_rowid();
            }
            Ok(())
        };
        match insert().and_then(|()| tx.commit()) {
            Ok(()) => Ok(()),
            Err(source) => Err(failed(source)),
        }
    }

    /// Makes a staged write visible as `version`, in one transaction.
    pub(crate) fn publish(&mut self, write_id: Uuid, version: u64, now_ms: u64) -> Result<Published> {
        let place = Arc::clone(&self.place);
        let record = self.write(write_id)?.ok_or_else(|| Error::UnknownWrite {
            place: Arc::clone(&place),
            write_id,
        })?;
        match record.version {
            Some(published) if published == version => return Ok(Published::Before),
            Some(published) => {
                return Err(Error::PublishedElsewhere {
                    place,
                    write_id,
                    asked: version,
                    published,
                });
            }
            None => {}
        }
        let failed = self.failed("publish a version");
        let tx = self.begin()?;
        let current: i64 = match tx.query_row("SELECT max(version) FROM versions", [], |row| row.get(0)) {
            Ok(current) => current,
            Err(source) => return Err(failed(source)),
        };
        let current = unsigned(current);
        if current.checked_add(1) != Some(version) {
            return Err(Error::VersionConflict {
                place,
                write_id,
                asked: version,
                current,
            });
        }
        let apply = || -> rusqlite::Result<()> {
            let id = write_id.to_string();
            let at = signed(version);
            tx.execute("UPDATE writes SET version = ?2 WHERE write_id = ?1", params![id, at])?;
            if record.mode == WriteMode::Overwrite {
                tx.execute(
                    "UPDATE files SET removed_version = ?1 WHERE added_version IS NOT NULL AND removed_version IS NULL",
                    params![at],
                )?;
            }
            tx.execute("UPDATE files SET added_version = ?2 WHERE write_id = ?1", params![id, at])?;
            tx.execute(
                "UPDATE versions SET superseded_ms = ?2 WHERE version = ?1",
                params![signed(current), signed(now_ms)],
            )?;
            tx.execute(
                "INSERT INTO versions (version, write_id, kind, schema_id, rows, bytes, published_ms)
                 SELECT ?1, ?2, w.mode, w.schema_id,
                        coalesce((SELECT sum(rows) FROM files WHERE added_version IS NOT NULL AND removed_version IS NULL), 0),
                        coalesce((SELECT sum(bytes) FROM files WHERE added_version IS NOT NULL AND removed_version IS NULL), 0),
                        ?3
                 FROM writes w WHERE w.write_id = ?2",
                params![at, id, signed(now_ms)],
            )?;
            Ok(())
        };
        match apply().and_then(|()| tx.commit()) {
            Ok(()) => Ok(Published::Now {
                mode: record.mode,
                now_ms,
            }),
            Err(source) => Err(failed(source)),
        }
    }

    /// Forgets a staged write and its files. Fine if it is not there.
    pub(crate) fn discard(&mut self, write_id: Uuid) -> Result<()> {
        let failed = self.failed("discard a staged write");
        let tx = self.begin()?;
        let id = write_id.to_string();
        let apply = || -> rusqlite::Result<()> {
            tx.execute("DELETE FROM files WHERE write_id = ?1 AND added_version IS NULL", params![id])?;
            tx.execute("DELETE FROM writes WHERE write_id = ?1 AND version IS NULL", params![id])?;
            Ok(())
        };
        match apply().and_then(|()| tx.commit()) {
            Ok(()) => Ok(()),
            Err(source) => Err(failed(source)),
        }
    }

    /// Strikes versions and files that nothing needs any more.
    pub(crate) fn expire(&mut self, versions: &[u64], files: &[i64]) -> Result<()> {
        let failed = self.failed("expire versions");
        let tx = self.begin()?;
        let apply = || -> rusqlite::Result<()> {
            for version in versions {
                tx.execute("DELETE FROM versions WHERE version = ?1", params![signed(*version)])?;
            }
            for file_id in files {
                tx.execute("DELETE FROM files WHERE file_id = ?1", params![file_id])?;
            }
            Ok(())
        };
        match apply().and_then(|()| tx.commit()) {
            Ok(()) => Ok(()),
            Err(source) => Err(failed(source)),
        }
    }
}

fn setting<T: rusqlite::types::FromSql>(connection: &Connection, key: &str) -> rusqlite::Result<T> {
    connection
        .query_row("SELECT value FROM settings WHERE key = ?1", params![key], |row| row.get(0))
        .optional()?
        .ok_or(rusqlite::Error::QueryReturnedNoRows)
}

fn encode_schema(schema: &Schema) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    StreamWriter::try_new(&mut bytes, schema)
        .and_then(|mut writer| writer.finish())
        .map_err(|source| Error::Arrow {
            action: "cannot encode the schema",
            source,
        })?;
    Ok(bytes)
}

// SQLite integers are signed; counts and versions never reach the sign bit.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn unsigned(value: i64) -> u64 {
    u64::try_from(value).unwrap_or(0)
}

//! The tables of a metastore, and how an older one becomes a current one.

use rusqlite::{Connection, TransactionBehavior};

/// The format that this build writes.
pub(super) const FORMAT: i64 = 2;
/// The oldest format that is converted.
const OLDEST: i64 = 1;

pub(super) const TABLES: &str = "
CREATE TABLE settings (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE schemas (schema_id INTEGER PRIMARY KEY, arrow_ipc BLOB NOT NULL, stored_ipc BLOB, defaults_ipc BLOB);
CREATE TABLE versions (
    version INTEGER PRIMARY KEY,
    write_id TEXT,
    kind TEXT NOT NULL,
    schema_id INTEGER NOT NULL REFERENCES schemas,
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    published_ms INTEGER NOT NULL,
    superseded_ms INTEGER,
    generation INTEGER NOT NULL DEFAULT 0
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
    version INTEGER,
    base_version INTEGER NOT NULL DEFAULT 0,
    deleted_rows INTEGER NOT NULL DEFAULT 0,
    repeated_rows INTEGER NOT NULL DEFAULT 0,
    key_rule TEXT,
    key_counts TEXT,
    deleted_keys BLOB
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
    added_generation INTEGER,
    removed_generation INTEGER,
    sequence INTEGER,
    deleted_rows INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX files_by_write ON files (write_id);
";

/// What format 2 added to format 1 as tables of their own.
pub(super) const DELETE_TABLES: &str = "
CREATE TABLE deletion_vectors (
    file TEXT NOT NULL,
    added_generation INTEGER NOT NULL,
    removed_generation INTEGER,
    rows INTEGER NOT NULL,
    positions BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    PRIMARY KEY (file, added_generation)
) WITHOUT ROWID;
CREATE TABLE staged_deletes (
    write_id TEXT NOT NULL,
    file TEXT NOT NULL,
    positions BLOB NOT NULL,
    sha256 BLOB NOT NULL,
    PRIMARY KEY (write_id, file)
) WITHOUT ROWID;
";

/// Runs of secondary indexes. Without them everything is read right, so an older build may ignore them, and the format is the same.
pub(super) const RUNS: &str = "
CREATE TABLE IF NOT EXISTS lookup_runs (
    file TEXT NOT NULL,
    definition TEXT NOT NULL,
    path TEXT,
    bytes INTEGER NOT NULL,
    run BLOB,
    PRIMARY KEY (file, definition)
) WITHOUT ROWID;
";

/// In format 1 every version was one state of the files; so its number becomes that of its generation.
const FROM_1: &str = "
ALTER TABLE versions ADD COLUMN generation INTEGER NOT NULL DEFAULT 0;
UPDATE versions SET generation = version;
ALTER TABLE writes ADD COLUMN base_version INTEGER NOT NULL DEFAULT 0;
ALTER TABLE writes ADD COLUMN deleted_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE writes ADD COLUMN repeated_rows INTEGER NOT NULL DEFAULT 0;
ALTER TABLE writes ADD COLUMN key_rule TEXT;
ALTER TABLE writes ADD COLUMN key_counts TEXT;
ALTER TABLE writes ADD COLUMN deleted_keys BLOB;
ALTER TABLE files RENAME COLUMN added_version TO added_generation;
ALTER TABLE files RENAME COLUMN removed_version TO removed_generation;
ALTER TABLE files ADD COLUMN sequence INTEGER;
ALTER TABLE files ADD COLUMN deleted_rows INTEGER NOT NULL DEFAULT 0;
UPDATE files SET sequence = added_generation;
ALTER TABLE schemas ADD COLUMN stored_ipc BLOB;
ALTER TABLE schemas ADD COLUMN defaults_ipc BLOB;
";

/// Whether a metastore of this format can be made a current one.
pub(super) fn convertible(format: i64) -> bool {
    (OLDEST..FORMAT).contains(&format)
}

/// Makes a metastore of format 1 a current one, in one transaction.
pub(super) fn convert(connection: &mut Connection) -> rusqlite::Result<()> {
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    tx.execute_batch(FROM_1)?;
    tx.execute_batch(DELETE_TABLES)?;
    tx.execute("UPDATE settings SET value = ?1 WHERE key = 'format'", [FORMAT])?;
    tx.commit()
}

//! Partitions of older formats are opened, and newer ones are refused.

use std::path::Path;

use cayenne::{Error, Partition, PartitionOptions, WriteMode};
use tempfile::TempDir;

use crate::harness::*;

/// The tables of format 1, as its builds created them.
const FORMAT_1: &str = "
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

/// Gives a partition without deletes and replaced files the metastore that a build of format 1 would have written.
pub fn make_format_1(dir: &Path) {
    let connection = rusqlite::Connection::open(dir.join("partition.db")).unwrap();
    connection
        .execute_batch(&format!(
            "PRAGMA foreign_keys = OFF;
             BEGIN;
             DROP INDEX files_by_write;
             ALTER TABLE versions RENAME TO new_versions;
             ALTER TABLE writes RENAME TO new_writes;
             ALTER TABLE files RENAME TO new_files;
             {FORMAT_1}
             INSERT INTO versions SELECT version, write_id, kind, schema_id, rows, bytes, published_ms, superseded_ms
                 FROM new_versions;
             INSERT INTO writes SELECT write_id, mode, schema_id, rows, bytes, files, column_stats, sealed_ms, version
                 FROM new_writes;
             INSERT INTO files SELECT file_id, path, write_id, schema_id, rows, bytes, sha256, column_stats,
                 added_generation, removed_generation FROM new_files;
             DROP TABLE new_files;
             DROP TABLE new_writes;
             DROP TABLE new_versions;
             DROP TABLE deletion_vectors;
             DROP TABLE staged_deletes;
             ALTER TABLE schemas DROP COLUMN stored_ipc;
             ALTER TABLE schemas DROP COLUMN defaults_ipc;
             UPDATE settings SET value = 1 WHERE key = 'format';
             COMMIT;"
        ))
        .unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_of_format_1_keeps_versions_and_staged_writes() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    put(&partition, WriteMode::Append, &[numbers(0, 500)]).await;
    put(&partition, WriteMode::Append, &[numbers(500, 900)]).await;
    put(&partition, WriteMode::Overwrite, &[numbers(0, 300)]).await;
    let staged = stage(&partition, WriteMode::Append, &[numbers(300, 400)]).await.unwrap();
    drop(partition);
    make_format_1(dir.path());

    let refused = Partition::open_read_only(dir.path(), PartitionOptions::default());
    assert!(matches!(refused, Err(Error::Format { found: 1, .. })), "{refused:?}");
    let partition = Partition::open(dir.path(), PartitionOptions::default()).unwrap();
    assert_eq!(partition.version(), 3);
    assert_eq!(ids(&partition, Some(2)).await, (0..900).collect::<Vec<_>>());
    assert_eq!(ids(&partition, None).await, (0..300).collect::<Vec<_>>());
    partition.publish(staged, 4).await.unwrap();
    assert_eq!(delete(&partition, |id| id % 2 == 1).await, 200);
    rewrite_all(&partition).await.unwrap();
    drop(partition);
    let partition = Partition::open(dir.path(), PartitionOptions::default()).unwrap();
    assert_eq!(ids(&partition, None).await, (0..400).step_by(2).collect::<Vec<_>>());
    assert_eq!(ids(&partition, Some(4)).await, (0..400).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_format_to_come_is_refused() {
    let dir = TempDir::new().unwrap();
    drop(create(dir.path(), numbers_schema()));
    let connection = rusqlite::Connection::open(dir.path().join("partition.db")).unwrap();
    connection.execute("UPDATE settings SET value = 99 WHERE key = 'format'", []).unwrap();
    drop(connection);
    let refused = Partition::open(dir.path(), PartitionOptions::default());
    assert!(matches!(refused, Err(Error::Format { found: 99, supported: 2, .. })), "{refused:?}");
}

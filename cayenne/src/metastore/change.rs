//! The transactions that change a partition.

use std::sync::Arc;

use rusqlite::params;
use uuid::Uuid;

use super::{FileRecord, Metastore, Published, signed, unsigned};
use crate::error::{Error, Result};
use crate::options::WriteMode;
use crate::stats::{DataSummary, encode_columns};

impl Metastore {
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
        let file_stats =
            files.iter().map(|file| encode_columns(&file.summary.columns, &schema)).collect::<Result<Vec<_>>>()?;
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
        let record =
            self.write(write_id)?.ok_or_else(|| Error::UnknownWrite { place: Arc::clone(&place), write_id })?;
        match record.version {
            Some(published) if published == version => return Ok(Published::Before),
            Some(published) => {
                return Err(Error::PublishedElsewhere { place, write_id, asked: version, published });
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
            return Err(Error::VersionConflict { place, write_id, asked: version, current });
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
            Ok(()) => Ok(Published::Now { mode: record.mode, now_ms }),
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

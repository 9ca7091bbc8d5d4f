//! A version as a manifest, and a metastore made from a manifest.

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, Transaction, params};
use uuid::Uuid;

use super::{FORMAT, Metastore, format, signed, unsigned};
use crate::error::{Error, Result};
use crate::layout;
use crate::options::PartitionIdentity;
use crate::transfer::PartitionManifest;
use crate::transfer::encoding::{Blob, Checksum};
use crate::transfer::manifest::{self, ManifestFile, ManifestSchema, ManifestVector, ManifestWrite, Setting};
use crate::transfer::staged::{StagedManifest, StagedVector};

/// Settings that say what the directory is, not what the table is.
const OWN: [&str; 4] = ["format", "table", "partition", "partition_id"];

const EXPORT_FILES: &str = "
    SELECT f.path, f.bytes, f.sha256, f.rows, f.schema_id, f.column_stats, f.write_id, f.added_generation, f.sequence,
           v.rows, v.added_generation, v.positions, v.sha256
    FROM files f
    LEFT JOIN deletion_vectors v
        ON v.file = f.path AND v.added_generation <= ?1 AND (v.removed_generation IS NULL OR ?1 < v.removed_generation)
    WHERE f.added_generation <= ?1 AND (f.removed_generation IS NULL OR ?1 < f.removed_generation)
    ORDER BY f.file_id";

const EXPORT_STAGED: &str = "
    SELECT f.path, f.bytes, f.sha256, f.rows, f.schema_id, f.column_stats, f.write_id, 0, 0, NULL, NULL, NULL, NULL
    FROM files f WHERE f.write_id = ?1 AND f.added_generation IS NULL ORDER BY f.file_id";

impl Metastore {
    /// A version in one of its generations. Somebody must have it pinned.
    pub(crate) fn export(
        &self,
        identity: &PartitionIdentity,
        version: u64,
        generation: u64,
    ) -> Result<PartitionManifest> {
        let failed = || self.failed("export a version");
        let (write_id, kind, schema_id, published_ms): (Option<String>, String, i64, i64) = self
            .connection
            .query_row(
                "SELECT write_id, kind, schema_id, published_ms FROM versions WHERE version = ?1",
                params![signed(version)],
                |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
            )
            .map_err(failed())?;
        let schemas = self.export_schemas().map_err(failed())?;
        let schema_fingerprint = schemas
            .iter()
            .find(|schema| schema.id == schema_id)
            .map(|schema| Checksum::of(&schema.columns.0))
            .ok_or_else(|| self.damaged(format!("there is no schema {schema_id}")))?;
        let write = match write_id {
            Some(id) => self.export_write(&id)?,
            None => None,
        };
        let files = self.export_files(EXPORT_FILES, &signed(generation))?;
        let deleted = |file: &ManifestFile| file.deleted.as_ref().map_or(0, |vector| vector.rows);
        let exported = PartitionManifest {
            format: manifest::FORMAT,
            table: identity.table.clone(),
            partition: identity.partition.clone(),
            partition_id: identity.partition_id,
            version,
            generation,
            published_ms: unsigned(published_ms),
            rows: files.iter().map(|file| file.rows.saturating_sub(deleted(file))).sum(),
            bytes: files.iter().map(|file| file.bytes).sum(),
            settings: self.export_settings().map_err(failed())?,
            schema_id,
            schema_fingerprint,
            schemas,
            kind,
            write,
            files,
        };
        exported.check()?;
        Ok(exported)
    }

    /// A write that is staged, at a partition whose current version and its number of files are given and where all of `staged`
    /// are staged. `None` if it is not.
    pub(crate) fn export_staged(
        &self,
        identity: &PartitionIdentity,
        write_id: Uuid,
        (version, version_files): (u64, u64),
        staged: Vec<Uuid>,
    ) -> Result<Option<StagedManifest>> {
        let Some(record) = self.write(write_id)?.filter(|record| record.version.is_none()) else { return Ok(None) };
        let id = write_id.to_string();
        let Some(write) = self.export_write(&id)? else { return Ok(None) };
        let schemas = self.export_schemas().map_err(self.failed("export a write"))?;
        let schema = schemas.into_iter().find(|schema| schema.id == write.schema_id);
        let schema = schema.ok_or_else(|| self.damaged(format!("there is no schema {}", write.schema_id)))?;
        let published_by = self
            .connection
            .query_row("SELECT write_id FROM versions WHERE version = ?1", params![signed(version)], |row| {
                row.get::<_, Option<String>>(0)
            })
            .optional()
            .map_err(self.failed("export a write"))?
            .flatten();
        let raw: Vec<(String, Vec<u8>, Vec<u8>)> = self
            .connection
            .prepare("SELECT file, positions, sha256 FROM staged_deletes WHERE write_id = ?1 ORDER BY file")
            .and_then(|mut statement| {
                statement.query_map(params![id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
            })
            .map_err(self.failed("export a write"))?;
        let deletes = raw
            .into_iter()
            .map(|(path, positions, sha256)| {
                let sha256 = sha256.try_into().map_err(|_| self.damaged(format!("'{path}' has no SHA-256")))?;
                let file = layout::file_id(&path)
                    .ok_or_else(|| self.damaged(format!("'{path}' is not the name of a data file")))?;
                Ok(StagedVector { file, positions: Blob(positions), sha256: Checksum(sha256) })
            })
            .collect::<Result<_>>()?;
        Ok(Some(StagedManifest {
            format: manifest::FORMAT,
            table: identity.table.clone(),
            partition: identity.partition.clone(),
            partition_id: identity.partition_id,
            version,
            version_files,
            version_write: published_by.map(|id| self.parse_id(&id)).transpose()?,
            schema,
            write,
            deleted_keys: record.deleted_keys.map(Blob),
            deletes,
            files: self.export_files(EXPORT_STAGED, &id)?,
            staged,
        }))
    }

    fn export_settings(&self) -> rusqlite::Result<BTreeMap<String, Setting>> {
        let mut statement = self.connection.prepare("SELECT key, value FROM settings")?;
        let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Value>(1)?)))?;
        let mut settings = BTreeMap::new();
        for row in rows {
            let (key, value) = row?;
            if OWN.contains(&key.as_str()) {
                continue;
            }
            let setting = match value {
                Value::Integer(number) => Setting::Number(number),
                Value::Text(text) => Setting::Text(text),
                other => return Err(rusqlite::Error::InvalidColumnType(1, key, other.data_type())),
            };
            settings.insert(key, setting);
        }
        Ok(settings)
    }

    fn export_schemas(&self) -> rusqlite::Result<Vec<ManifestSchema>> {
        let mut statement = self
            .connection
            .prepare("SELECT schema_id, arrow_ipc, stored_ipc, defaults_ipc FROM schemas ORDER BY schema_id")?;
        let schema = |row: &Row<'_>| {
            Ok(ManifestSchema {
                id: row.get(0)?,
                columns: Blob(row.get(1)?),
                stored: row.get::<_, Option<Vec<u8>>>(2)?.map(Blob),
                defaults: row.get::<_, Option<Vec<u8>>>(3)?.map(Blob),
            })
        };
        statement.query_map([], schema)?.collect()
    }

    fn export_write(&self, id: &str) -> Result<Option<ManifestWrite>> {
        let write_id = self.parse_id(id)?;
        let write = |row: &Row<'_>| {
            let number = |column: &str| row.get::<_, i64>(column).map(unsigned);
            Ok(ManifestWrite {
                id: write_id,
                mode: row.get("mode")?,
                schema_id: row.get("schema_id")?,
                rows: number("rows")?,
                bytes: number("bytes")?,
                files: number("files")?,
                statistics: Blob(row.get("column_stats")?),
                sealed_ms: number("sealed_ms")?,
                base_version: number("base_version")?,
                deleted_rows: number("deleted_rows")?,
                repeated_rows: number("repeated_rows")?,
                key_rule: row.get("key_rule")?,
                key_counts: row.get("key_counts")?,
            })
        };
        self.connection
            .query_row("SELECT * FROM writes WHERE write_id = ?1", params![id], write)
            .optional()
            .map_err(self.failed("export a write"))
    }

    fn export_files(&self, sql: &str, which: &dyn ToSql) -> Result<Vec<ManifestFile>> {
        type Vector = (i64, i64, Vec<u8>, Vec<u8>);
        type Raw = (String, i64, Vec<u8>, i64, i64, Vec<u8>, String, i64, i64, Option<Vector>);
        let raw: Vec<Raw> = self
            .connection
            .prepare(sql)
            .and_then(|mut statement| {
                let file = |row: &Row<'_>| {
                    let vector = match row.get::<_, Option<i64>>(9)? {
                        Some(rows) => Some((rows, row.get(10)?, row.get(11)?, row.get(12)?)),
                        None => None,
                    };
                    Ok((
                        row.get(0)?,
                        row.get(1)?,
                        row.get(2)?,
                        row.get(3)?,
                        row.get(4)?,
                        row.get(5)?,
                        row.get(6)?,
                        row.get(7)?,
                        row.get(8)?,
                        vector,
                    ))
                };
                statement.query_map(params![which], file)?.collect()
            })
            .map_err(self.failed("export files"))?;
        raw.into_iter()
            .map(|(path, bytes, sha256, rows, schema_id, statistics, write_id, added, sequence, vector)| {
                let checksum = |bytes: Vec<u8>| {
                    let bytes = bytes.try_into().map_err(|_| self.damaged(format!("'{path}' has no SHA-256")))?;
                    Ok::<_, Error>(Checksum(bytes))
                };
                let deleted = match vector {
                    Some((rows, added, positions, sha256)) => Some(ManifestVector {
                        rows: unsigned(rows),
                        added_generation: unsigned(added),
                        positions: Blob(positions),
                        sha256: checksum(sha256)?,
                    }),
                    None => None,
                };
                Ok(ManifestFile {
                    id: layout::file_id(&path)
                        .ok_or_else(|| self.damaged(format!("'{path}' is not the name of a data file")))?,
                    bytes: unsigned(bytes),
                    sha256: checksum(sha256)?,
                    rows: unsigned(rows),
                    schema_id,
                    statistics: Blob(statistics),
                    write_id: self.parse_id(&write_id)?,
                    added_generation: unsigned(added),
                    sequence: unsigned(sequence),
                    deleted,
                })
            })
            .collect()
    }

    /// Writes the metastore of a copy under a temporary name, complete and durable. [`put_in_place`](Self::put_in_place)
    /// makes the directory a partition.
    pub(crate) fn prepare(dir: &Path, manifest: &PartitionManifest) -> Result<()> {
        let temporary = dir.join(layout::NEW_METASTORE);
        layout::remove_file(&temporary)?;
        let failed = |source| Error::Metastore { action: "record a copy", path: dir.to_path_buf(), source };
        let mut connection = Connection::open(&temporary).map_err(failed)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
        let tx = connection.transaction().map_err(failed)?;
        fill(&tx, manifest).map_err(failed)?;
        tx.commit().map_err(failed)?;
        connection.close().map_err(|(_, source)| failed(source))
    }

    /// Moves a complete new metastore into place, which is what makes a directory a partition.
    pub(crate) fn put_in_place(dir: &Path) -> Result<()> {
        let target = dir.join(layout::METASTORE);
        std::fs::rename(dir.join(layout::NEW_METASTORE), &target)
            .map_err(|source| Error::io("move into place", &target, source))?;
        layout::sync_directory(dir)
    }
}

fn fill(tx: &Transaction<'_>, manifest: &PartitionManifest) -> rusqlite::Result<()> {
    tx.execute_batch(format::TABLES)?;
    tx.execute_batch(format::DELETE_TABLES)?;
    let mut set = tx.prepare("INSERT INTO settings (key, value) VALUES (?1, ?2)")?;
    set.execute(params!["format", FORMAT])?;
    set.execute(params!["table", manifest.table])?;
    set.execute(params!["partition", manifest.partition])?;
    set.execute(params!["partition_id", manifest.partition_id.to_string()])?;
    for (key, value) in &manifest.settings {
        match value {
            Setting::Number(number) => set.execute(params![key, number])?,
            Setting::Text(text) => set.execute(params![key, text])?,
        };
    }
    let mut add =
        tx.prepare("INSERT INTO schemas (schema_id, arrow_ipc, stored_ipc, defaults_ipc) VALUES (?1, ?2, ?3, ?4)")?;
    for schema in &manifest.schemas {
        let bytes = |blob: &Option<Blob>| blob.as_ref().map(|blob| blob.0.clone());
        add.execute(params![schema.id, schema.columns.0, bytes(&schema.stored), bytes(&schema.defaults)])?;
    }
    let write_id = manifest.write.as_ref().map(|write| write.id.to_string());
    tx.execute(
        "INSERT INTO versions (version, write_id, kind, schema_id, rows, bytes, published_ms, generation)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            signed(manifest.version),
            write_id,
            manifest.kind,
            manifest.schema_id,
            signed(manifest.rows),
            signed(manifest.bytes),
            signed(manifest.published_ms),
            signed(manifest.generation),
        ],
    )?;
    if let Some(write) = &manifest.write {
        insert_write(tx, write, manifest.version)?;
    }
    manifest.files.iter().try_for_each(|file| insert_file(tx, file))
}

fn insert_write(tx: &Transaction<'_>, write: &ManifestWrite, version: u64) -> rusqlite::Result<()> {
    tx.execute(
        "INSERT INTO writes
            (write_id, mode, schema_id, rows, bytes, files, column_stats, sealed_ms, version, base_version, deleted_rows,
             repeated_rows, key_rule, key_counts)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        params![
            write.id.to_string(),
            write.mode,
            write.schema_id,
            signed(write.rows),
            signed(write.bytes),
            signed(write.files),
            write.statistics.0,
            signed(write.sealed_ms),
            signed(version),
            signed(write.base_version),
            signed(write.deleted_rows),
            signed(write.repeated_rows),
            write.key_rule,
            write.key_counts,
        ],
    )?;
    Ok(())
}

fn insert_file(tx: &Transaction<'_>, file: &ManifestFile) -> rusqlite::Result<()> {
    let path = file.name();
    let deleted_rows = file.deleted.as_ref().map_or(0, |vector| vector.rows);
    tx.prepare_cached(
        "INSERT INTO files
            (path, write_id, schema_id, rows, bytes, sha256, column_stats, added_generation, sequence, deleted_rows)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute(params![
        path,
        file.write_id.to_string(),
        file.schema_id,
        signed(file.rows),
        signed(file.bytes),
        file.sha256.0.as_slice(),
        file.statistics.0,
        signed(file.added_generation),
        signed(file.sequence),
        signed(deleted_rows),
    ])?;
    if let Some(vector) = &file.deleted {
        tx.prepare_cached(
            "INSERT INTO deletion_vectors (file, added_generation, rows, positions, sha256) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![
            path,
            signed(vector.added_generation),
            signed(vector.rows),
            vector.positions.0,
            vector.sha256.0.as_slice(),
        ])?;
    }
    Ok(())
}

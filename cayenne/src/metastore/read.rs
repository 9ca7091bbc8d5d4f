//! Reading versions, files and writes.

use uuid::Uuid;

use super::{FileRecord, Loaded, Metastore, VersionRecord, WriteRecord, unsigned};
use crate::error::{Error, Result};
use crate::options::WriteMode;
use crate::stats::{DataSummary, decode_columns};

impl Metastore {
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
        let staged =
            self.read_writes("SELECT * FROM writes WHERE version IS NULL ORDER BY sealed_ms, write_id", &[])?;
        Ok(Loaded { versions, files, staged })
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
        record.sha256 =
            sha256.try_into().map_err(|_| self.damaged(format!("file '{}' has no SHA-256", record.path)))?;
        record.write_id = self.parse_id(&write_id)?;
        record.summary.columns = decode_columns(&stats, self.schema.fields().len())
            .map_err(|detail| self.damaged(format!("statistics of file '{}': {detail}", record.path)))?;
        Ok(record)
    }

    fn damaged(&self, detail: String) -> Error {
        Error::MetastoreDamaged { place: std::sync::Arc::clone(&self.place), detail }
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
}

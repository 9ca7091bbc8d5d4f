//! Reading versions, files and writes.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use super::{FileRecord, Loaded, Metastore, StagedDelete, VectorRecord, VersionRecord, WriteRecord, unsigned};
use crate::deletion_vector::DeletionVector;
use crate::error::{Error, Result};
use crate::keys::encoder::KeyEncoding;
use crate::keys::key_set;
use crate::keys::store::KeyStore;
use crate::keys::write_keys::KeyRule;
use crate::options::WriteMode;
use crate::stats::{DataSummary, WriteSummary, decode_columns, parse_key_counts};

impl Metastore {
    /// Reads everything but published writes.
    pub(crate) fn load(&self) -> Result<Loaded> {
        let versions = self
            .connection
            .prepare("SELECT version, generation, rows, published_ms, superseded_ms, schema_id FROM versions ORDER BY version")
            .and_then(|mut statement| {
                statement
                    .query_map([], |row| {
                        Ok(VersionRecord {
                            version: unsigned(row.get(0)?),
                            generation: unsigned(row.get(1)?),
                            rows: unsigned(row.get(2)?),
                            published_ms: unsigned(row.get(3)?),
                            superseded_ms: row.get::<_, Option<i64>>(4)?.map(unsigned),
                            schema_id: row.get(5)?,
                        })
                    })?
                    .collect::<rusqlite::Result<Vec<_>>>()
            })
            .map_err(self.failed("read versions"))?;
        let mut files = Vec::new();
        let mut statement = self
            .connection
            .prepare(
                "SELECT path, write_id, rows, bytes, sha256, column_stats, added_generation, removed_generation,
                        sequence, deleted_rows, schema_id
                 FROM files ORDER BY file_id",
            )
            .map_err(self.failed("read files"))?;
        let mut rows = statement.query([]).map_err(self.failed("read files"))?;
        while let Some(row) = rows.next().map_err(self.failed("read files"))? {
            files.push(self.file_from_row(row)?);
        }
        let staged =
            self.read_writes("SELECT * FROM writes WHERE version IS NULL ORDER BY sealed_ms, write_id", &[])?;
        let vectors = self.vectors(&files)?;
        let staged_deletes = self.staged_deletes()?;
        let deleted_keys = self.deleted_keys(&staged)?;
        let schemas = self.schemas.clone();
        let runs = self.runs()?;
        Ok(Loaded { schemas, versions, files, vectors, staged, staged_deletes, deleted_keys, runs })
    }

    /// The keys that staged writes delete, checked.
    fn deleted_keys(&self, staged: &[WriteRecord]) -> Result<HashMap<Uuid, KeyStore>> {
        let mut deleted = HashMap::new();
        for write in staged {
            let Some(bytes) = &write.deleted_keys else { continue };
            let damaged = |detail: &str| self.damaged(format!("keys that write {} deletes: {detail}", write.write_id));
            let (_, encoding) = self.table_settings()?;
            let encoding = encoding.and_then(KeyEncoding::from_id).ok_or_else(|| damaged("the table has no key"))?;
            let keys = key_set::decode(bytes, encoding).map_err(|detail| damaged(&detail))?;
            deleted.insert(write.write_id, keys);
        }
        Ok(deleted)
    }

    /// Every deletion vector, checked.
    fn vectors(&self, files: &[FileRecord]) -> Result<Vec<VectorRecord>> {
        let rows_of: HashMap<&str, u64> = files.iter().map(|file| (file.path.as_str(), file.summary.rows)).collect();
        let mut vectors = Vec::new();
        self.each_vector(|file, raw| {
            let rows = rows_of.get(file).copied().ok_or_else(|| self.bad_vector(file, "the file is not known"))?;
            let vector = raw.decode(file, rows).map_err(|detail| self.bad_vector(file, &detail))?;
            vectors.push(VectorRecord { file: file.to_owned(), vector, added: raw.added, removed: raw.removed });
            Ok(())
        })?;
        Ok(vectors)
    }

    /// Reads every deletion vector again; `known(file)` gives the rows of files whose vectors matter. Returns how many there
    /// are and what is wrong with them, by file.
    pub(crate) fn check_vectors(&self, known: impl Fn(&str) -> Option<u64>) -> Result<(u64, Vec<(String, Error)>)> {
        let mut count = 0;
        let mut bad = Vec::new();
        self.each_vector(|file, raw| {
            let Some(rows) = known(file) else { return Ok(()) };
            count += 1;
            if let Err(detail) = raw.decode(file, rows) {
                bad.push((file.to_owned(), self.bad_vector(file, &detail)));
            }
            Ok(())
        })?;
        Ok((count, bad))
    }

    fn each_vector(&self, mut visit: impl FnMut(&str, &RawVector) -> Result<()>) -> Result<()> {
        let failed = || self.failed("read deletion vectors");
        let mut statement = self
            .connection
            .prepare(
                "SELECT file, added_generation, removed_generation, rows, positions, sha256
                 FROM deletion_vectors ORDER BY file, added_generation",
            )
            .map_err(failed())?;
        let mut rows = statement.query([]).map_err(failed())?;
        while let Some(row) = rows.next().map_err(failed())? {
            let read = || -> rusqlite::Result<(String, RawVector)> {
                let raw = RawVector {
                    added: unsigned(row.get(1)?),
                    removed: row.get::<_, Option<i64>>(2)?.map(unsigned),
                    rows: unsigned(row.get(3)?),
                    positions: row.get(4)?,
                    sha256: row.get(5)?,
                };
                Ok((row.get(0)?, raw))
            };
            let (file, raw) = read().map_err(failed())?;
            visit(&file, &raw)?;
        }
        Ok(())
    }

    fn staged_deletes(&self) -> Result<Vec<StagedDelete>> {
        let raw: Vec<(String, String, Vec<u8>, Vec<u8>)> = self
            .connection
            .prepare("SELECT write_id, file, positions, sha256 FROM staged_deletes ORDER BY write_id, file")
            .and_then(|mut statement| {
                statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?.collect()
            })
            .map_err(self.failed("read staged deletes"))?;
        raw.into_iter()
            .map(|(write_id, file, positions, sha256)| {
                // The file may be gone by now, which is a conflict and no damage; positions were checked when they came.
                let vector = DeletionVector::decode(&file, u64::MAX, &positions, &sha256)
                    .map_err(|detail| self.bad_vector(&file, &format!("staged by write {write_id}: {detail}")))?;
                Ok(StagedDelete { write_id: self.parse_id(&write_id)?, file, vector })
            })
            .collect()
    }

    fn bad_vector(&self, file: &str, detail: &str) -> Error {
        Error::VectorDamaged { place: Arc::clone(&self.place), file: file.to_owned(), detail: detail.to_owned() }
    }

    fn file_from_row(&self, row: &rusqlite::Row<'_>) -> Result<FileRecord> {
        let read = || -> rusqlite::Result<(FileRecord, String, Vec<u8>, Vec<u8>)> {
            let record = FileRecord {
                schema_id: row.get(10)?,
                path: row.get(0)?,
                sha256: [0; 32],
                summary: DataSummary {
                    rows: unsigned(row.get(2)?),
                    deleted_rows: 0,
                    bytes: unsigned(row.get(3)?),
                    files: 1,
                    columns: Vec::new(),
                },
                added: row.get::<_, Option<i64>>(6)?.map(unsigned),
                removed: row.get::<_, Option<i64>>(7)?.map(unsigned),
                sequence: row.get::<_, Option<i64>>(8)?.map(unsigned),
                deleted_rows: unsigned(row.get(9)?),
                write_id: Uuid::nil(),
                runs: Vec::new(),
            };
            Ok((record, row.get(1)?, row.get(4)?, row.get(5)?))
        };
        let (mut record, write_id, sha256, stats) = read().map_err(self.failed("read a file entry"))?;
        record.sha256 =
            sha256.try_into().map_err(|_| self.damaged(format!("file '{}' has no SHA-256", record.path)))?;
        record.write_id = self.parse_id(&write_id)?;
        record.summary.columns = decode_columns(&stats, self.schema(record.schema_id)?.columns())
            .map_err(|detail| self.damaged(format!("statistics of file '{}': {detail}", record.path)))?;
        Ok(record)
    }

    pub(super) fn damaged(&self, detail: String) -> Error {
        Error::MetastoreDamaged { place: Arc::clone(&self.place), detail }
    }

    pub(super) fn parse_id(&self, text: &str) -> Result<Uuid> {
        Uuid::parse_str(text).map_err(|_| self.damaged(format!("write id '{text}' is no UUID")))
    }

    fn read_writes(&self, sql: &str, parameters: &[&dyn rusqlite::ToSql]) -> Result<Vec<WriteRecord>> {
        type Raw = (String, String, i64, [i64; 6], Vec<u8>, i64, Option<i64>, [Option<String>; 2], Option<Vec<u8>>);
        let raw: Vec<Raw> = self
            .connection
            .prepare(sql)
            .and_then(|mut statement| {
                statement
                    .query_map(parameters, |row| {
                        Ok((
                            row.get("write_id")?,
                            row.get("mode")?,
                            row.get("schema_id")?,
                            [
                                row.get("rows")?,
                                row.get("bytes")?,
                                row.get("files")?,
                                row.get("base_version")?,
                                row.get("deleted_rows")?,
                                row.get("repeated_rows")?,
                            ],
                            row.get("column_stats")?,
                            row.get("sealed_ms")?,
                            row.get("version")?,
                            [row.get("key_rule")?, row.get("key_counts")?],
                            row.get("deleted_keys")?,
                        ))
                    })?
                    .collect()
            })
            .map_err(self.failed("read writes"))?;
        raw.into_iter()
            .map(|(write_id, mode, schema_id, numbers, stats, sealed_ms, version, [rule, counts], deleted_keys)| {
                let [rows, bytes, files, base_version, deleted_rows, repeated_rows] = numbers.map(unsigned);
                let unknown = |what: &str, text: &str| self.damaged(format!("write {write_id} has {what} '{text}'"));
                let key_rule = rule
                    .map(|text| KeyRule::parse(&text).ok_or_else(|| unknown("the unknown key rule", &text)))
                    .transpose()?;
                let keys = counts
                    .map(|text| parse_key_counts(&text).ok_or_else(|| unknown("unreadable key counts", &text)))
                    .transpose()?;
                Ok(WriteRecord {
                    mode: WriteMode::parse(&mode)
                        .ok_or_else(|| self.damaged(format!("write {write_id} has the unknown mode '{mode}'")))?,
                    schema_id,
                    base_version,
                    summary: WriteSummary {
                        data: DataSummary {
                            rows,
                            deleted_rows: repeated_rows,
                            bytes,
                            files,
                            columns: decode_columns(&stats, self.schema(schema_id)?.columns())
                                .map_err(|detail| self.damaged(format!("statistics of write {write_id}: {detail}")))?,
                        },
                        deleted_rows,
                        keys,
                    },
                    key_rule,
                    deleted_keys,
                    sealed_ms: unsigned(sealed_ms),
                    version: version.map(unsigned),
                    write_id: self.parse_id(&write_id)?,
                })
            })
            .collect()
    }

    /// Whether a data file is recorded.
    pub(crate) fn knows_file(&self, path: &str) -> Result<bool> {
        self.connection
            .query_row("SELECT EXISTS (SELECT 1 FROM files WHERE path = ?1)", [path], |row| row.get(0))
            .map_err(self.failed("look up a file"))
    }

    /// A sealed write, staged or published.
    pub(crate) fn write(&self, write_id: Uuid) -> Result<Option<WriteRecord>> {
        let id = write_id.to_string();
        Ok(self.read_writes("SELECT * FROM writes WHERE write_id = ?1", &[&id])?.pop())
    }
}

/// A deletion vector before it is checked.
struct RawVector {
    added: u64,
    removed: Option<u64>,
    rows: u64,
    positions: Vec<u8>,
    sha256: Vec<u8>,
}

impl RawVector {
    fn decode(&self, file: &str, file_rows: u64) -> std::result::Result<DeletionVector, String> {
        let vector = DeletionVector::decode(file, file_rows, &self.positions, &self.sha256)?;
        if vector.rows() != self.rows {
            return Err(format!("it names {} positions instead of {}", vector.rows(), self.rows));
        }
        Ok(vector)
    }
}

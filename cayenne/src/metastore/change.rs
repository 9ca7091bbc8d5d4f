//! The transactions that change a partition.

use rusqlite::{Transaction, params};
use uuid::Uuid;

use super::runs::insert_runs;
use super::{Committed, FileRecord, Metastore, signed};
use crate::deletion_vector::EncodedVector;
use crate::error::{Error, Result};
use crate::keys::key_set;
use crate::keys::store::KeyStore;
use crate::keys::write_keys::KeyRule;
use crate::layout;
use crate::options::WriteMode;
use crate::schema::TableSchema;
use crate::state::{Change, Deletes};
use crate::stats::{KeyCounts, WriteSummary, encode_columns, key_counts_text};

/// A finished write that is about to be recorded.
pub(crate) struct NewWrite<'a> {
    pub(crate) write_id: Uuid,
    pub(crate) mode: WriteMode,
    pub(crate) schema: &'a TableSchema,
    pub(crate) base_version: u64,
    pub(crate) summary: &'a WriteSummary,
    pub(crate) files: &'a [FileRecord],
    pub(crate) deletes: &'a Deletes,
    pub(crate) key_rule: Option<KeyRule>,
    pub(crate) deleted_keys: Option<&'a KeyStore>,
    pub(crate) now_ms: u64,
    /// The staged write that it goes on with, and whose files become its own.
    pub(crate) over: Option<Uuid>,
}

/// What expires: versions, files by name, and deletion vectors by file name and the generation that added them.
#[derive(Debug, Default)]
pub(crate) struct Expired<'a> {
    pub(crate) versions: &'a [u64],
    pub(crate) files: Vec<&'a str>,
    pub(crate) vectors: Vec<(&'a str, u64)>,
}

impl Metastore {
    /// Records a finished write, its files and its deletes. Once this is durable the write survives a crash, and nobody sees it.
    pub(crate) fn seal(&mut self, write: &NewWrite<'_>) -> Result<Committed> {
        let stats = encode_columns(&write.summary.data.columns, &write.schema.logical)?;
        let file_stats = self.file_stats(write.files)?;
        let deletes = write
            .deletes
            .iter()
            .map(|(id, vector)| {
                let file = layout::file_name(*id);
                self.encoded(&file, vector.encode(&file)).map(|encoded| (file, encoded))
            })
            .collect::<Result<Vec<_>>>()?;
        let id = write.write_id.to_string();
        let key_counts = write.summary.keys.map(|counts| key_counts_text(&counts));
        let deleted_keys = write.deleted_keys.map(key_set::encode);
        self.commit("record a staged write", |tx| {
            tx.execute(
                "INSERT INTO writes
                    (write_id, mode, schema_id, rows, bytes, files, column_stats, sealed_ms, base_version, deleted_rows,
                     repeated_rows, key_rule, key_counts, deleted_keys)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
                params![
                    id,
                    write.mode.as_str(),
                    write.schema.id,
                    signed(write.summary.data.rows),
                    signed(write.summary.data.bytes),
                    signed(write.summary.data.files),
                    stats,
                    signed(write.now_ms),
                    signed(write.base_version),
                    signed(write.summary.deleted_rows),
                    signed(write.summary.data.deleted_rows),
                    write.key_rule.map(KeyRule::as_str),
                    key_counts,
                    deleted_keys,
                ],
            )?;
            if let Some(over) = write.over.map(|over| over.to_string()) {
                tx.execute("UPDATE files SET write_id = ?2 WHERE write_id = ?1", params![over, id])?;
                tx.execute("DELETE FROM staged_deletes WHERE write_id = ?1", params![over])?;
                tx.execute("DELETE FROM writes WHERE write_id = ?1 AND version IS NULL", params![over])?;
            }
            insert_files(tx, write.files, &file_stats)?;
            let mut insert =
                tx.prepare("INSERT INTO staged_deletes (write_id, file, positions, sha256) VALUES (?1, ?2, ?3, ?4)")?;
            for (file, EncodedVector { bytes, sha256 }) in &deletes {
                insert.execute(params![id, file, bytes, sha256.as_slice()])?;
            }
            Ok(())
        })
    }

    /// Makes a staged write visible, as the version and generation that `change` names.
    pub(crate) fn publish(
        &mut self,
        write_id: Uuid,
        change: &Change,
        counts: Option<KeyCounts>,
        now_ms: u64,
    ) -> Result<Committed> {
        let vectors = self.encode_vectors(change)?;
        self.commit("publish a version", |tx| {
            let id = write_id.to_string();
            let version = signed(change.view.version);
            tx.execute(
                "UPDATE writes SET version = ?2, deleted_keys = NULL, key_counts = coalesce(?3, key_counts) WHERE write_id = ?1",
                params![id, version, counts.map(|counts| key_counts_text(&counts))],
            )?;
            tx.execute("DELETE FROM staged_deletes WHERE write_id = ?1", params![id])?;
            apply(tx, change, &vectors)?;
            tx.execute(
                "UPDATE versions SET superseded_ms = ?2 WHERE version = ?1",
                params![version - 1, signed(now_ms)],
            )?;
            tx.execute(
                "INSERT INTO versions (version, write_id, kind, schema_id, rows, bytes, published_ms, generation)
                 SELECT ?1, ?2, w.mode, ?7, ?3, ?4, ?5, ?6 FROM writes w WHERE w.write_id = ?2",
                params![
                    version,
                    id,
                    signed(change.view.summary.rows),
                    signed(change.view.summary.bytes),
                    signed(now_ms),
                    signed(change.view.generation),
                    change.view.schema.id,
                ],
            )?;
            Ok(())
        })
    }

    /// Gives the current version the generation that `change` names; `files` are new ones, not recorded before.
    pub(crate) fn replace(&mut self, files: &[FileRecord], change: &Change) -> Result<()> {
        let file_stats = self.file_stats(files)?;
        let vectors = self.encode_vectors(change)?;
        self.commit_durably("replace files", |tx| {
            insert_files(tx, files, &file_stats)?;
            apply(tx, change, &vectors)?;
            tx.execute(
                "UPDATE versions SET generation = ?2, bytes = ?3 WHERE version = ?1",
                params![signed(change.view.version), signed(change.view.generation), signed(change.view.summary.bytes)],
            )?;
            Ok(())
        })
    }

    /// Records that a staged write has been checked against everything up to version `onto`, and what it does there.
    pub(crate) fn rebase(&mut self, write_id: Uuid, onto: u64, counts: Option<KeyCounts>) -> Result<Committed> {
        self.commit("rebase a staged write", |tx| {
            tx.execute(
                "UPDATE writes SET base_version = ?2, key_counts = coalesce(?3, key_counts)
                 WHERE write_id = ?1 AND version IS NULL",
                params![write_id.to_string(), signed(onto), counts.map(|counts| key_counts_text(&counts))],
            )?;
            Ok(())
        })
    }

    /// Forgets a staged write, its files and its deletes. Fine if it is not there.
    pub(crate) fn discard(&mut self, write_id: Uuid) -> Result<()> {
        self.commit_durably("discard a staged write", |tx| {
            let id = write_id.to_string();
            tx.execute(
                "DELETE FROM lookup_runs
                 WHERE file IN (SELECT path FROM files WHERE write_id = ?1 AND added_generation IS NULL)",
                params![id],
            )?;
            tx.execute("DELETE FROM files WHERE write_id = ?1 AND added_generation IS NULL", params![id])?;
            tx.execute("DELETE FROM staged_deletes WHERE write_id = ?1", params![id])?;
            tx.execute("DELETE FROM writes WHERE write_id = ?1 AND version IS NULL", params![id])?;
            Ok(())
        })
    }

    /// Strikes what nothing needs any more.
    pub(crate) fn expire(&mut self, expired: &Expired<'_>) -> Result<()> {
        self.commit_durably("expire versions", |tx| {
            for version in expired.versions {
                tx.execute("DELETE FROM versions WHERE version = ?1", params![signed(*version)])?;
            }
            for file in &expired.files {
                tx.execute("DELETE FROM deletion_vectors WHERE file = ?1", params![file])?;
                tx.execute("DELETE FROM lookup_runs WHERE file = ?1", params![file])?;
                tx.execute("DELETE FROM files WHERE path = ?1", params![file])?;
            }
            for (file, added) in &expired.vectors {
                tx.execute(
                    "DELETE FROM deletion_vectors WHERE file = ?1 AND added_generation = ?2",
                    params![file, signed(*added)],
                )?;
            }
            Ok(())
        })
    }

    /// Runs `work` in one transaction, which is durable afterwards.
    pub(super) fn commit_durably(
        &mut self,
        action: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<()> {
        let commit = self.commit(action, work)?;
        self.log.wait(commit).map_err(|source| Error::io("sync", self.dir.join(layout::METASTORE_LOG), source))
    }

    /// Runs `work` in one transaction. It survives the end of the process, but is not durable yet.
    pub(super) fn commit(
        &mut self,
        action: &'static str,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<Committed> {
        let failed = self.failed(action);
        let tx = self.begin()?;
        match work(&tx).and_then(|()| tx.commit()) {
            Ok(()) => Ok(self.log.committed()),
            Err(source) => Err(failed(source)),
        }
    }

    fn file_stats(&self, files: &[FileRecord]) -> Result<Vec<Vec<u8>>> {
        let encode = |file: &FileRecord| encode_columns(&file.summary.columns, &self.schema(file.schema_id)?.logical);
        files.iter().map(encode).collect()
    }

    fn encode_vectors(&self, change: &Change) -> Result<Vec<EncodedVector>> {
        let vectors = change.vectors.iter();
        vectors.map(|(file, vector)| self.encoded(&file.name, vector.encode(&file.name))).collect()
    }

    fn encoded(&self, file: &str, encoded: std::io::Result<EncodedVector>) -> Result<EncodedVector> {
        encoded.map_err(|source| Error::io("encode the deletion vector of", self.dir.join(file), source))
    }
}

fn insert_files(tx: &Transaction<'_>, files: &[FileRecord], stats: &[Vec<u8>]) -> rusqlite::Result<()> {
    let mut insert = tx.prepare(
        "INSERT INTO files (path, write_id, schema_id, rows, bytes, sha256, column_stats)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (file, stats) in files.iter().zip(stats) {
        insert.execute(params![
            file.path,
            file.write_id.to_string(),
            file.schema_id,
            signed(file.summary.rows),
            signed(file.summary.bytes),
            file.sha256.as_slice(),
            stats
        ])?;
        insert_runs(tx, &file.path, &file.runs)?;
    }
    Ok(())
}

/// Stamps files and deletion vectors with the generation of a change.
fn apply(tx: &Transaction<'_>, change: &Change, vectors: &[EncodedVector]) -> rusqlite::Result<()> {
    let generation = signed(change.view.generation);
    let mut end_vector = tx.prepare(
        "UPDATE deletion_vectors SET removed_generation = ?2 WHERE file = ?1 AND removed_generation IS NULL",
    )?;
    let mut remove = tx.prepare("UPDATE files SET removed_generation = ?2 WHERE path = ?1")?;
    for file in &change.removed {
        end_vector.execute(params![file.name, generation])?;
        remove.execute(params![file.name, generation])?;
    }
    let mut add = tx.prepare("UPDATE files SET added_generation = ?2, sequence = ?3 WHERE path = ?1")?;
    for file in &change.added {
        add.execute(params![file.name, generation, signed(change.sequence)])?;
    }
    let mut add_vector = tx.prepare(
        "INSERT INTO deletion_vectors (file, added_generation, rows, positions, sha256) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let mut count = tx.prepare("UPDATE files SET deleted_rows = ?2 WHERE path = ?1")?;
    for ((file, vector), encoded) in change.vectors.iter().zip(vectors) {
        end_vector.execute(params![file.name, generation])?;
        let rows = signed(vector.rows());
        add_vector.execute(params![file.name, generation, rows, encoded.bytes, encoded.sha256.as_slice()])?;
        count.execute(params![file.name, rows])?;
    }
    Ok(())
}

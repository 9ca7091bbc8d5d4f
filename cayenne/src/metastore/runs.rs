//! Runs of secondary indexes.

use rusqlite::{OptionalExtension, Transaction, params};

use super::{Metastore, signed, unsigned};
use crate::error::Result;
use crate::lookup_index::collector::{RunRecord, StoredRun};

impl Metastore {
    /// Every run, by the name of its data file. None where nobody ever wrote one.
    pub(super) fn runs(&self) -> Result<Vec<(String, RunRecord)>> {
        let failed = || self.failed("read indexes");
        let known: bool = self
            .connection
            .query_row("SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'lookup_runs')", [], |row| row.get(0))
            .map_err(failed())?;
        if !known {
            return Ok(Vec::new());
        }
        self.connection
            .prepare("SELECT file, definition, path, bytes, run FROM lookup_runs")
            .and_then(|mut statement| {
                statement
                    .query_map([], |row| {
                        let stored = match row.get::<_, Option<String>>(2)? {
                            Some(name) => StoredRun::File { name, bytes: unsigned(row.get(3)?) },
                            None => StoredRun::Inline(row.get::<_, Option<Vec<u8>>>(4)?.unwrap_or_default()),
                        };
                        Ok((row.get(0)?, RunRecord { definition: row.get(1)?, stored }))
                    })?
                    .collect()
            })
            .map_err(failed())
    }

    /// Records runs of a data file. Gives the names of the files that held those which they replace.
    pub(crate) fn add_runs(&mut self, file: &str, runs: &[RunRecord]) -> Result<Vec<String>> {
        let mut replaced = Vec::new();
        self.commit_durably("record an index", |tx| {
            for run in runs {
                let before: Option<Option<String>> = tx
                    .query_row(
                        "SELECT path FROM lookup_runs WHERE file = ?1 AND definition = ?2",
                        params![file, run.definition],
                        |row| row.get(0),
                    )
                    .optional()?;
                replaced.extend(before.flatten());
            }
            insert_runs(tx, file, runs)
        })?;
        Ok(replaced)
    }

    /// Strikes runs, each named by its data file and its definition.
    pub(crate) fn remove_runs(&mut self, runs: &[(String, String)]) -> Result<()> {
        self.commit_durably("drop an index", |tx| {
            let mut delete = tx.prepare("DELETE FROM lookup_runs WHERE file = ?1 AND definition = ?2")?;
            runs.iter().try_for_each(|(file, definition)| delete.execute(params![file, definition]).map(drop))
        })
    }
}

pub(super) fn insert_runs(tx: &Transaction<'_>, file: &str, runs: &[RunRecord]) -> rusqlite::Result<()> {
    let mut insert = tx.prepare_cached(
        "INSERT OR REPLACE INTO lookup_runs (file, definition, path, bytes, run) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for run in runs {
        match &run.stored {
            StoredRun::File { name, bytes } => {
                insert.execute(params![file, run.definition, name, signed(*bytes), None::<Vec<u8>>])?
            }
            StoredRun::Inline(bytes) => {
                insert.execute(params![file, run.definition, None::<String>, signed(bytes.len() as u64), bytes])?
            }
        };
    }
    Ok(())
}

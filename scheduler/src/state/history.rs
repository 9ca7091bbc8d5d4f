//! Former versions of a table, as far as the commits of its partitions are remembered.
use std::time::Duration;

use ancho_common::error::Error;

use super::cluster::{ColumnSummary, CommitRecord, Partition, Table};

impl Table {
    /// The version that was current at a time, in milliseconds since the epoch.
    ///
    /// # Errors
    /// `NotFound`: the time is before the first commit, or before those that are remembered.
    pub fn version_at(&self, at_ms: u64) -> Result<u64, Error> {
        let known =
            || self.partitions.values().flat_map(|partition| &partition.commits).filter(|c| c.table_version > 0);
        let found = known().filter(|commit| commit.at_ms <= at_ms).map(|commit| commit.table_version).max();
        found.ok_or_else(|| {
            let oldest = known().map(|commit| commit.table_version).min();
            let oldest = oldest.map_or_else(String::new, |version| format!("; its oldest known version is {version}"));
            Error::not_found(format!("table {} had no version at that time{oldest}", self.name))
        })
    }

    /// The table as it was at a version, for reading. Owners keep what was superseded for `retention`.
    ///
    /// # Errors
    /// `NotFound`: there is no such version yet, it is not remembered any more, or owners need not have it any more.
    pub fn as_of(&self, version: u64, now_ms: u64, retention: Duration) -> Result<Self, Error> {
        if version > self.version {
            return Err(Error::not_found(format!(
                "table {} has no version {version} yet; its newest is {}",
                self.name, self.version
            )));
        }
        let expired = || {
            Error::not_found(format!(
                "version {version} of table {} has expired; former versions are kept for {} seconds",
                self.name,
                retention.as_secs()
            ))
        };
        let mut table = self.clone();
        // Changes that are not remembered may lie between that version and the first that is.
        let forgotten = self.schema_version > self.alterations.len() as u64;
        if let Some(next) = self.alterations.iter().find(|alteration| alteration.version > version) {
            if forgotten && self.alterations.first().is_some_and(|first| first.version == next.version) {
                return Err(expired());
            }
            table.schema = next.before.clone();
        }
        let columns = vec![ColumnSummary::default(); table.schema.0.fields().len()];
        for partition in table.partitions.values_mut() {
            let next = partition.go_back(version).ok_or_else(expired)?;
            let kept = |next: CommitRecord| {
                now_ms.saturating_sub(next.at_ms) < u64::try_from(retention.as_millis()).unwrap_or(u64::MAX)
            };
            if !next.is_none_or(kept) {
                return Err(expired());
            }
            partition.columns.clone_from(&columns);
        }
        table.columns = columns;
        table.version = version;
        Ok(table)
    }
}

impl Partition {
    /// Goes back to the last commit up to a version of the table. Answers the one after it, if there is one; nothing if what
    /// was before is not remembered.
    fn go_back(&mut self, table_version: u64) -> Option<Option<CommitRecord>> {
        let later = self.commits.iter().position(|commit| commit.table_version > table_version);
        let Some(later) = later else { return Some(None) };
        let next = self.commits[later];
        if later == 0 && next.version > 1 {
            return None;
        }
        self.commits.truncate(later);
        self.version = self.commits.last().map_or(0, |commit| commit.version);
        Some(Some(next))
    }
}

//! The commit of a write: staged rows of any number of partitions become visible together, or none of them.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ancho_common::{
    error::Error,
    ids::{PartitionId, TableId, WriteId},
};
use arrow::datatypes::Schema;

use super::{
    apply::Applied,
    cluster::{ClusterState, CommitRecord, Dataset, Partition, Table},
    command::{CommittedPart, Outcome, StagedPart, WriteRequest},
    statistics::Statistics,
    written::WrittenRecord,
};

/// Commits that a partition remembers by write id.
pub const KEEP_COMMITS: usize = 64;

/// What made a commit, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct MadeBy {
    /// The write.
    pub(super) write_id: WriteId,
    /// Milliseconds since the epoch.
    pub(super) at_ms: u64,
}

/// A table that mirrors what another cluster publishes, and is to be written to.
pub fn read_only(table: &Table) -> Error {
    let from = table.dataset.as_ref().map_or("", |dataset| dataset.from.as_str());
    Error::unsupported(format!(
        "table {} shows what is published in {from} and is read-only here; write to it where it is published, or copy it: \
         CREATE TABLE … AS SELECT * FROM {}",
        table.name, table.name
    ))
}

impl ClusterState {
    /// Makes a staged write visible. `refreshed` is set for a write that ends a load of a dataset. The first write of a
    /// table that is to replace another one puts it in that one's place.
    pub(super) fn commit_write(
        &mut self,
        id: TableId,
        MadeBy { write_id, at_ms }: MadeBy,
        overwrite: bool,
        parts: Vec<StagedPart>,
        refreshed: Option<Dataset>,
        based_on: Option<(TableId, u64)>,
    ) -> Applied {
        let table = self.existing_table(id)?;
        if let Some(parts) = committed_before(table, write_id) {
            return Ok(Outcome::Committed { parts });
        }
        let mut seen = BTreeSet::new();
        for part in &parts {
            self.check_part(table, part)?;
            if !seen.insert(part.partition) {
                return Err(Error::invalid(format!(
                    "write {write_id} of table {} has two parts for partition {}; send one",
                    table.name, part.partition
                )));
            }
        }
        let closing: Vec<PartitionId> = seen.iter().copied().filter(|id| self.is_closing(*id)).collect();
        if !closing.is_empty() {
            return Ok(Outcome::Closing { partitions: closing });
        }
        if overwrite {
            check_covered(table, &seen)?;
        }
        let outdated: Vec<CommittedPart> = parts.iter().filter_map(|part| outdated(table, part)).collect();
        if !outdated.is_empty() {
            return Ok(Outcome::Outdated { parts: outdated });
        }
        if refreshed.is_some() && table.dataset.is_none() {
            return Err(Error::invalid(format!(
                "table {} mirrors no source, so a write cannot end a refresh of it",
                table.name
            )));
        }
        if refreshed.is_none() && table.is_published_elsewhere() {
            return Err(read_only(table));
        }
        if let Some((source, version)) = based_on {
            self.check_unchanged(source, version)?;
        }
        if parts.is_empty() && refreshed.is_none() && table.load.is_none() {
            // Nothing was found to change: there is a request to remember, and no new version.
            return Ok(Outcome::Committed { parts: Vec::new() });
        }
        if let Some(replaced) = self.replaced_by(table)? {
            self.remove_table(replaced);
        }
        let Some(table) = self.tables.get_mut(&id).map(Arc::make_mut) else {
            return Err(Error::internal(format!("table with id {id} vanished during its commit")));
        };
        let mut committed = Vec::with_capacity(parts.len());
        for part in parts {
            if let Some(partition) = table.partitions.get_mut(&part.partition) {
                let commit =
                    CommitRecord { version: partition.version + 1, write_id, table_version: table.version + 1, at_ms };
                partition.take_part(part, commit, overwrite, &table.schema.0);
                committed.push(CommittedPart { partition: partition.id, version: partition.version });
            }
        }
        table.version += 1;
        table.load = None;
        table.columns = merged_columns(table);
        if refreshed.is_some() {
            table.dataset = refreshed;
            self.awaited.remove(&table.name.table);
        }
        Ok(Outcome::Committed { parts: committed })
    }

    /// Rows with other columns than the table's must not be committed, unless they were before.
    pub(super) fn check_columns(&self, id: TableId, write_id: WriteId, schema_version: u64) -> Result<(), Error> {
        let table = self.existing_table(id)?;
        if table.schema_version == schema_version || committed_before(table, write_id).is_some() {
            return Ok(());
        }
        Err(Error::conflict(format!(
            "the columns of table {} were changed while rows were written; nothing was written, run the statement again",
            table.name
        )))
    }

    /// Rows made from a table must not replace what was written to it since.
    fn check_unchanged(&self, source: TableId, version: u64) -> Result<(), Error> {
        match self.tables.get(&source) {
            Some(table) if table.version == version => Ok(()),
            Some(table) => Err(Error::conflict(format!(
                "table {} was written to after its rows were read to replace it; nothing was changed, try again",
                table.name
            ))),
            None => Err(Error::conflict(format!(
                "table with id {source} was dropped or replaced after its rows were read; nothing was changed, try again"
            ))),
        }
    }

    /// Rows of the write that a request made before, unless it is this one and its commits are still remembered.
    pub(super) fn written_before(&self, request: &WriteRequest, write_id: WriteId) -> Result<Option<u64>, Error> {
        let Some(record) = self.written.repeated(&request.id, request.statement)? else { return Ok(None) };
        let table = record.table.and_then(|id| self.tables.get(&id));
        let remembered = table.is_some_and(|table| committed_before(table, write_id).is_some());
        Ok((!remembered).then_some(record.rows))
    }

    /// Remembers what a request did.
    pub(super) fn note_written(&mut self, request: WriteRequest, id: TableId, write_id: WriteId, at_ms: u64) {
        let WriteRequest { id: request, rows, statement } = request;
        let Some(table) = self.tables.get(&id).filter(|_| self.written.find(&request).is_none()) else { return };
        let (table_name, version) = (table.name.to_string(), table.version);
        let (table, write_id) = (Some(id), Some(write_id));
        self.written.push(request, WrittenRecord { table, table_name, write_id, rows, version, at_ms, statement });
    }

    /// Whether a part was staged by who may write its partition now, in the start of the process that still runs.
    pub(super) fn check_part(&self, table: &Table, part: &StagedPart) -> Result<(), Error> {
        let Some(partition) = table.partitions.get(&part.partition) else {
            return Err(Error::stale_route(format!("table {} has no partition {}", table.name, part.partition)));
        };
        let place = format!("partition {} of table {}", partition.key, table.name);
        if partition.epoch != part.epoch {
            return Err(Error::stale_route(format!(
                "{place} was staged under epoch {}, it is at epoch {} now",
                part.epoch, partition.epoch
            )));
        }
        if partition.owners.first() != Some(&part.executor) {
            return Err(Error::stale_route(format!(
                "{place} was staged by executor {}, which does not take its writes",
                part.executor
            )));
        }
        let running = self.executors.get(&part.executor).map(|e| e.incarnation.as_str());
        if running != Some(part.incarnation.as_str()) {
            return Err(Error::conflict(format!(
                "executor {} started anew after it staged rows of {place}, so they are gone; write again",
                part.executor
            )));
        }
        check_statistics(table, part).and_then(|()| check_deleted(partition, part)).map_err(|e| e.context(&place))
    }
}

/// The present version of a part's partition, if the part builds on another one.
pub(super) fn outdated(table: &Table, part: &StagedPart) -> Option<CommittedPart> {
    let partition = table.partitions.get(&part.partition)?;
    let base = part.base?;
    (base != partition.version).then_some(CommittedPart { partition: partition.id, version: partition.version })
}

fn check_deleted(partition: &Partition, part: &StagedPart) -> Result<(), Error> {
    if part.deleted > 0 && part.base.is_none() {
        return Err(Error::invalid("a staged part deletes rows without saying of which version"));
    }
    if part.base == Some(partition.version) && part.deleted > partition.rows {
        return Err(Error::invalid(format!("{} rows are deleted of {}", part.deleted, partition.rows)));
    }
    Ok(())
}

fn check_statistics(table: &Table, part: &StagedPart) -> Result<(), Error> {
    let columns = table.schema.0.fields().len();
    // No statistics at all mean that nothing is known.
    if !part.columns.is_empty() && part.columns.len() != columns {
        return Err(Error::invalid(format!(
            "staged statistics cover {} columns, the table has {columns}",
            part.columns.len()
        )));
    }
    if part.columns.iter().any(|c| c.nulls.is_some_and(|nulls| nulls > part.rows)) {
        return Err(Error::invalid(format!("staged statistics count more NULLs than the {} rows", part.rows)));
    }
    Ok(())
}

/// The outcome of a write that was committed under another request id.
pub(super) fn committed_before(table: &Table, write_id: WriteId) -> Option<Vec<CommittedPart>> {
    let parts: Vec<CommittedPart> = table
        .partitions
        .values()
        .filter_map(|p| {
            let record = p.commits.iter().rev().find(|c| c.write_id == write_id)?;
            Some(CommittedPart { partition: p.id, version: record.version })
        })
        .collect();
    (!parts.is_empty()).then_some(parts)
}

/// An overwriting write empties a partition by an empty part; without one its rows would outlive the overwrite.
fn check_covered(table: &Table, seen: &BTreeSet<PartitionId>) -> Result<(), Error> {
    match table.partitions.values().find(|p| p.rows > 0 && !seen.contains(&p.id)) {
        Some(partition) => Err(Error::conflict(format!(
            "partition {} of table {} got rows since the overwriting write began; write again",
            partition.key, table.name
        ))),
        None => Ok(()),
    }
}

impl Partition {
    pub(super) fn take_part(&mut self, part: StagedPart, commit: CommitRecord, overwrite: bool, schema: &Schema) {
        let former = if overwrite {
            self.bytes = 0;
            Statistics::empty(schema)
        } else {
            Statistics { rows: self.rows, columns: std::mem::take(&mut self.columns) }
        };
        let merged = former.without(part.deleted, schema).merge(part.rows, &part.columns, schema);
        self.rows = merged.rows;
        self.columns = merged.columns;
        self.bytes = self.bytes.saturating_add(part.bytes);
        self.version = commit.version;
        self.remember(commit);
    }

    pub(super) fn remember(&mut self, commit: CommitRecord) {
        if self.commits.len() >= KEEP_COMMITS {
            self.commits.drain(..=self.commits.len() - KEEP_COMMITS);
        }
        self.commits.push(commit);
    }
}

/// Statistics over all partitions.
pub(super) fn merged_columns(table: &Table) -> Vec<super::cluster::ColumnSummary> {
    let schema = &table.schema.0;
    let partitions: &BTreeMap<PartitionId, Partition> = &table.partitions;
    partitions.values().fold(Statistics::empty(schema), |all, p| all.merge(p.rows, &p.columns, schema)).columns
}

//! The commit of a transaction: what it staged in partitions of any number of tables becomes visible together, or nothing
//! of it.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ancho_common::{
    error::Error,
    ids::{PartitionId, TableId},
};

use super::{
    apply::Applied,
    cluster::{ClusterState, CommitRecord, Table},
    command::{CommittedPart, Outcome, TransactionPart, WriteRequest},
    statistics::Statistics,
    writes::{committed_before, merged_columns, outdated},
    written::WrittenRecord,
};

impl ClusterState {
    /// Commits a transaction and remembers the request that asked for it.
    pub(super) fn end_transaction(
        &mut self,
        parts: Vec<TransactionPart>,
        request: Option<WriteRequest>,
        now_ms: u64,
    ) -> Applied {
        let Some(first) = parts.first() else {
            return Err(Error::invalid("a transaction without changes needs no commit"));
        };
        let (table, write_id) = (first.table, first.write_id);
        if let Some(request) = &request
            && let Some(rows) = self.written_before(request, write_id)?
        {
            return Ok(Outcome::Repeated { rows });
        }
        let names = self.names_of(&parts);
        let outcome = self.commit_transaction(parts, now_ms)?;
        if let (Outcome::Committed { .. }, Some(WriteRequest { id, rows, statement })) = (&outcome, request)
            && self.written.find(&id).is_none()
            && let Some(version) = self.tables.get(&table).map(|table| table.version)
        {
            let record = WrittenRecord {
                table: Some(table),
                table_name: names,
                write_id: Some(write_id),
                rows,
                version,
                at_ms: now_ms,
                statement,
            };
            self.written.push(id, record);
        }
        Ok(outcome)
    }

    fn commit_transaction(&mut self, parts: Vec<TransactionPart>, at_ms: u64) -> Applied {
        if let Some(parts) = self.committed_transaction(&parts)? {
            return Ok(Outcome::Committed { parts });
        }
        let mut seen = BTreeSet::new();
        let mut behind = Vec::new();
        for TransactionPart { table, write_id, staged, schema_version } in &parts {
            self.check_columns(*table, *write_id, *schema_version)?;
            let table = self.existing_table(*table)?;
            if table.load.is_some() {
                return Err(Error::conflict(format!(
                    "table {} has not been loaded yet; nothing was changed",
                    table.name
                )));
            }
            self.check_part(table, staged)?;
            if !seen.insert(staged.partition) {
                return Err(Error::invalid(format!(
                    "write {write_id} of table {} is a second part for partition {}; send one",
                    table.name, staged.partition
                )));
            }
            behind.extend(outdated(table, staged));
        }
        let closing: Vec<PartitionId> = seen.iter().copied().filter(|id| self.is_closing(*id)).collect();
        if !closing.is_empty() {
            return Ok(Outcome::Closing { partitions: closing });
        }
        if !behind.is_empty() {
            return Ok(Outcome::Outdated { parts: behind });
        }
        let mut committed = Vec::with_capacity(parts.len());
        let mut by_table: BTreeMap<TableId, Vec<TransactionPart>> = BTreeMap::new();
        for part in parts {
            by_table.entry(part.table).or_default().push(part);
        }
        for (id, parts) in by_table {
            let Some(table) = self.tables.get_mut(&id).map(Arc::make_mut) else { continue };
            for TransactionPart { write_id, staged, .. } in parts {
                if let Some(partition) = table.partitions.get_mut(&staged.partition) {
                    let (version, table_version) = (partition.version + 1, table.version + 1);
                    let commit = CommitRecord { version, write_id, table_version, at_ms };
                    partition.take_part(staged, commit, false, &table.schema.0);
                    committed.push(CommittedPart { partition: partition.id, version: partition.version });
                }
            }
            table.version += 1;
            table.columns = merged_columns(table);
        }
        Ok(Outcome::Committed { parts: committed })
    }

    /// The outcome if the parts were committed under another request id.
    fn committed_transaction(&self, parts: &[TransactionPart]) -> Result<Option<Vec<CommittedPart>>, Error> {
        let mut committed = Vec::new();
        for part in parts {
            committed.extend(committed_before(self.existing_table(part.table)?, part.write_id).unwrap_or_default());
        }
        committed.sort_by_key(|part| part.partition);
        committed.dedup();
        Ok((!committed.is_empty()).then_some(committed))
    }

    fn names_of(&self, parts: &[TransactionPart]) -> String {
        let tables: BTreeSet<TableId> = parts.iter().map(|part| part.table).collect();
        let names: Vec<String> =
            tables.iter().filter_map(|id| self.tables.get(id)).map(|table| table.name.to_string()).collect();
        names.join(", ")
    }

    /// The tables as an older state shows them, in the hands of those who hold them now: what a transaction reads.
    /// Partitions that came since are there and empty. Tables that were dropped since are still there, for what it helps.
    #[must_use]
    pub fn as_of(&self, snapshot: &Self) -> Self {
        let tables = snapshot.tables.iter().map(|(id, old)| match self.tables.get(id) {
            Some(now) if !Arc::ptr_eq(old, now) => (*id, Arc::new(held_as(old, now))),
            _ => (*id, Arc::clone(old)),
        });
        Self { tables: tables.collect(), ..self.clone() }
    }
}

/// An older state of a table with the owners of a newer one.
fn held_as(old: &Table, now: &Table) -> Table {
    let mut table = old.clone();
    for (id, current) in &now.partitions {
        match table.partitions.get_mut(id) {
            Some(partition) => {
                partition.epoch = current.epoch;
                partition.owners.clone_from(&current.owners);
            }
            None => {
                let mut new = current.clone();
                (new.version, new.rows, new.bytes) = (0, 0, 0);
                new.commits.clear();
                new.columns = Statistics::empty(&table.schema.0).columns;
                table.partitions.insert(*id, new);
            }
        }
    }
    table
}

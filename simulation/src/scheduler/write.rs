//! The plan of a write: which partitions it touches and how, and the command that commits it.
use std::collections::{BTreeMap, BTreeSet};

use ancho_common::ids::{ExecutorId, PartitionId, TableId, WriteId};
use ancho_scheduler::state::{Command, Partition, StagedPart, Table, TableName, TransactionPart, WriteRequest};

use crate::{
    disk::{Change, Operation},
    message::Shape,
};

/// One write.
#[derive(Debug)]
pub(super) struct Write {
    pub(super) operation: Operation,
    pub(super) table: TableName,
    pub(super) id: TableId,
    pub(super) shape: Shape,
    pub(super) write: WriteId,
    pub(super) parts: BTreeMap<PartitionId, Part>,
    /// Answers that are still to come.
    pub(super) open: BTreeSet<PartitionId>,
    pub(super) staged: bool,
    pub(super) rebases: u32,
}

/// Its part in one partition.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) node: usize,
    pub(super) owner: ExecutorId,
    pub(super) epoch: u64,
    pub(super) change: Change,
    pub(super) base: Option<u64>,
    pub(super) incarnation: String,
}

impl Write {
    /// Which partitions the write touches, and how.
    pub(super) fn plan(&mut self, table: &Table, routes: &BTreeMap<PartitionId, (usize, ExecutorId)>) {
        let all: Vec<&Partition> = table.partitions.values().collect();
        let at = |n: u64| usize::try_from(n % all.len().max(1) as u64).ok().and_then(|n| all.get(n).copied());
        let adds = BTreeSet::from([self.operation]);
        let mut changes: BTreeMap<PartitionId, Change> = BTreeMap::new();
        match self.shape {
            Shape::Insert { seed } => {
                for n in 0..=seed % 3 {
                    if let Some(partition) = at(seed / 3 + n) {
                        changes.insert(partition.id, Change { adds: adds.clone(), ..Change::default() });
                    }
                }
            }
            Shape::Transfer { seed } => {
                if let (Some(from), Some(to)) = (at(seed), at(seed + 1)) {
                    changes.insert(from.id, Change::default());
                    changes.insert(to.id, Change { adds, ..Change::default() });
                }
            }
            Shape::Overwrite { seed } => {
                let full = all.iter().filter(|p| p.rows > 0);
                changes.extend(full.map(|p| (p.id, Change { overwrite: true, ..Change::default() })));
                if let Some(partition) = at(seed) {
                    changes.insert(partition.id, Change { overwrite: true, adds, ..Change::default() });
                }
            }
        }
        self.parts = changes
            .into_iter()
            .filter_map(|(id, change)| {
                let (partition, (node, owner)) = (table.partitions.get(&id)?, routes.get(&id)?);
                let part = Part {
                    node: *node,
                    owner: owner.clone(),
                    epoch: partition.epoch,
                    change,
                    base: None,
                    incarnation: String::new(),
                };
                Some((id, part))
            })
            .collect();
    }

    /// The partition that a row is taken from, if the write takes one.
    pub(super) fn victim_in<'a>(&mut self, table: &'a Table) -> Option<&'a Partition> {
        let Shape::Transfer { seed } = self.shape else { return None };
        let at = usize::try_from(seed % table.partitions.len().max(1) as u64).ok()?;
        let partition = table.partitions.values().nth(at)?;
        self.parts.get_mut(&partition.id)?.base = Some(partition.version);
        Some(partition)
    }

    pub(super) fn choose_victim(&mut self, partition: PartitionId, rows: &BTreeSet<Operation>) {
        let Shape::Transfer { seed } = self.shape else { return };
        let at = usize::try_from(seed % rows.len().max(1) as u64).unwrap_or(0);
        if let (Some(part), Some(row)) = (self.parts.get_mut(&partition), rows.iter().nth(at)) {
            part.change.deletes.insert(*row);
        } else {
            // Nothing to take: the row is merely added.
            self.parts.retain(|id, part| *id != partition || !part.change.adds.is_empty());
        }
    }

    pub(super) fn commit(&self) -> Command {
        let parts = self.parts.iter().map(|(id, part)| StagedPart {
            partition: *id,
            epoch: part.epoch,
            executor: part.owner.clone(),
            incarnation: part.incarnation.clone(),
            rows: part.change.adds.len() as u64,
            bytes: 100,
            columns: Vec::new(),
            deleted: part.change.deletes.len() as u64,
            base: part.base.filter(|_| !part.change.deletes.is_empty()),
        });
        let request = Some(WriteRequest { id: request_id(self.operation), rows: 1, statement: None });
        if self.in_transaction() {
            let (table, write_id) = (self.id, self.write);
            let parts = parts.map(|staged| TransactionPart { table, write_id, staged, schema_version: 0 }).collect();
            return Command::CommitTransaction { parts, request };
        }
        Command::CommitWrite {
            table: self.id,
            write_id: self.write,
            overwrite: matches!(self.shape, Shape::Overwrite { .. }),
            parts: parts.collect(),
            refreshed: None,
            based_on: None,
            request,
            // Columns do not change here.
            schema_version: 0,
        }
    }

    /// Whether it is committed as a transaction of one statement.
    fn in_transaction(&self) -> bool {
        matches!(self.shape, Shape::Insert { seed } | Shape::Transfer { seed } if seed.is_multiple_of(4))
    }
}

/// How a request for an operation is named.
pub(super) fn request_id(operation: Operation) -> String {
    format!("operation-{operation}")
}

//! What a transaction has staged so far.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    ids::PartitionId,
    plan::{router::SentRows, write::WriteTarget},
};

use crate::{
    planner::topology::StagedWrites,
    state::{StagedPart, TransactionPart},
};

/// The sealed parts of one statement.
#[derive(Debug)]
pub(in crate::query) struct OwnWrite {
    /// Its write.
    pub(in crate::query) target: Arc<WriteTarget>,
    /// Where its parts are.
    pub(in crate::query) sent: BTreeMap<PartitionId, SentRows>,
    /// What they do, together with the parts of earlier statements in the same partitions.
    pub(in crate::query) parts: Vec<StagedPart>,
}

/// The writes of a transaction. Each partition is in one of them: the last that changed it.
#[derive(Debug, Default)]
pub(in crate::query) struct OwnWrites {
    writes: Vec<OwnWrite>,
}

impl OwnWrites {
    /// Goes on with a statement, whose parts hold what was staged in their partitions before.
    pub(in crate::query) fn push(&mut self, new: OwnWrite) {
        for write in &mut self.writes {
            write.sent.retain(|partition, _| !new.sent.contains_key(partition));
            write.parts.retain(|part| !new.sent.contains_key(&part.partition));
        }
        self.writes.retain(|write| !write.parts.is_empty());
        self.writes.push(new);
    }

    /// The write that holds all that was staged in a partition.
    pub(in crate::query) fn staged(&self) -> StagedWrites {
        let of = |write: &OwnWrite| {
            let id = write.target.write_id;
            write.sent.keys().map(move |partition| (*partition, id)).collect::<Vec<_>>()
        };
        self.writes.iter().flat_map(of).collect()
    }

    /// Nothing was changed.
    pub(in crate::query) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// What is to be committed.
    pub(in crate::query) fn parts(&self) -> Vec<TransactionPart> {
        let of = |write: &OwnWrite| {
            let (table, write_id) = (write.target.table_id, write.target.write_id);
            let schema_version = write.target.schema_version;
            write
                .parts
                .iter()
                .cloned()
                .map(move |staged| TransactionPart { table, write_id, staged, schema_version })
                .collect::<Vec<_>>()
        };
        self.writes.iter().flat_map(of).collect()
    }

    pub(in crate::query) fn iter(&self) -> impl Iterator<Item = &OwnWrite> {
        self.writes.iter()
    }

    pub(in crate::query) fn iter_mut(&mut self) -> impl Iterator<Item = &mut OwnWrite> {
        self.writes.iter_mut()
    }

    /// Takes everything out.
    pub(in crate::query) fn drain(&mut self) -> Vec<OwnWrite> {
        std::mem::take(&mut self.writes)
    }
}

#[cfg(test)]
mod tests {
    use ancho_common::{
        ids::{ExecutorId, TableId, WriteId},
        partition::{PartitionKey, PartitionSpec},
        plan::{
            changes::{KeyRule, WriteForm},
            router::Route,
        },
    };
    use arrow::datatypes::Schema;

    use super::*;

    fn write(partitions: &[u64]) -> OwnWrite {
        let target = WriteTarget {
            write_id: WriteId::new(),
            table_id: TableId(1),
            table: "t".into(),
            schema: Arc::new(Schema::empty()),
            schema_version: 0,
            form: WriteForm::Rows,
            key_rule: KeyRule::LastArrival,
            partition_spec: PartitionSpec::default(),
            overwrite: false,
            routes: Vec::new(),
        };
        let route = |id: u64| Route {
            key: PartitionKey(Vec::new()),
            partition: PartitionId(id),
            epoch: 1,
            executor: ExecutorId("e".into()),
            url: "http://e".into(),
        };
        let part = |id: u64| StagedPart {
            partition: PartitionId(id),
            epoch: 1,
            executor: ExecutorId("e".into()),
            incarnation: "1".into(),
            rows: 1,
            bytes: 1,
            columns: Vec::new(),
            deleted: 0,
            base: None,
        };
        OwnWrite {
            target: Arc::new(target),
            sent: partitions.iter().map(|id| (PartitionId(*id), SentRows::none(route(*id)))).collect(),
            parts: partitions.iter().map(|id| part(*id)).collect(),
        }
    }

    #[test]
    fn each_partition_is_in_the_last_write_that_changed_it() {
        let mut own = OwnWrites::default();
        assert!(own.is_empty());
        let (first, second, third) = (write(&[1, 2]), write(&[2, 3]), write(&[1, 2]));
        let ids = [&first, &second, &third].map(|write| write.target.write_id);
        own.push(first);
        own.push(second);
        assert_eq!(own.staged()[&PartitionId(1)], ids[0]);
        assert_eq!(own.staged()[&PartitionId(2)], ids[1]);
        own.push(third);
        let staged: Vec<(u64, WriteId)> = own.staged().into_iter().map(|(partition, id)| (partition.0, id)).collect();
        assert_eq!(staged, [(1, ids[2]), (2, ids[2]), (3, ids[1])]);
        let mut parts: Vec<(u64, WriteId)> =
            own.parts().into_iter().map(|part| (part.staged.partition.0, part.write_id)).collect();
        parts.sort();
        assert_eq!(parts, staged);
        assert_eq!(own.iter().count(), 2);
        assert_eq!(own.drain().len(), 2);
        assert!(own.is_empty());
    }
}

//! What may change about a table while its partitions are open. Nothing of it changes which rows there are.

use std::sync::Arc;

use crate::compaction::{CompactionOptions, RowOrder};
use crate::error::Result;
use crate::lookup_index::definition;
use crate::options::PartitionOptions;
use crate::partition::{Inner, Partition};
use crate::schema::TableSchema;

/// The options of an open partition that may be exchanged. It begins with those it was opened with.
#[derive(Debug, Clone, PartialEq)]
pub struct Tuning {
    /// As [`PartitionOptions::target_file_bytes`].
    pub target_file_bytes: u64,
    /// As [`PartitionOptions::key_memory_bytes`].
    pub key_memory_bytes: usize,
    /// As [`PartitionOptions::compaction`].
    pub compaction: CompactionOptions,
    /// As [`PartitionOptions::row_order`].
    pub row_order: RowOrder,
    /// As [`PartitionOptions::indexes`].
    pub indexes: Vec<Vec<String>>,
}

impl Tuning {
    pub(crate) fn of(options: &PartitionOptions) -> Self {
        Self {
            target_file_bytes: options.target_file_bytes,
            key_memory_bytes: options.key_memory_bytes,
            compaction: options.compaction.clone(),
            row_order: options.row_order.clone(),
            indexes: options.indexes.clone(),
        }
    }
}

impl Partition {
    /// The options in force.
    pub fn tuning(&self) -> Arc<Tuning> {
        self.inner.tuning()
    }

    /// Puts others in force, for writes and passes of compaction that begin from now on. Files that exist keep their form
    /// and the order of their rows until they are rewritten.
    ///
    /// # Errors
    /// [`Error::BadOption`](crate::Error::BadOption) when rows of the present columns cannot be put in that order, or as from
    /// [`CompactionOptions::checked`]; the former options stay then.
    pub fn tune(&self, tuning: Tuning) -> Result<()> {
        tuning.row_order.check(&self.schema())?;
        definition::check(&tuning.indexes, &self.schema())?;
        let tuning = Tuning { compaction: tuning.compaction.checked()?, ..tuning };
        if let Some(keyed) = &self.inner.keyed {
            keyed.set_budget(tuning.key_memory_bytes);
        }
        *self.inner.tuning.write() = Arc::new(tuning);
        Ok(())
    }
}

impl Inner {
    /// The order of rows and the indexes are those of columns, whatever they are called.
    pub(crate) fn follow_columns(&self, before: &TableSchema, after: &TableSchema) {
        if before.id != after.id {
            let mut tuning = self.tuning.write();
            let row_order = tuning.row_order.follow(before, after);
            let indexes = definition::follow(&tuning.indexes, before, after);
            *tuning = Arc::new(Tuning { row_order, indexes, ..tuning.as_ref().clone() });
        }
    }

    pub(crate) fn tuning(&self) -> Arc<Tuning> {
        Arc::clone(&self.tuning.read())
    }
}

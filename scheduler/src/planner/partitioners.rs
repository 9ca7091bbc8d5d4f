//! Checked partition expressions by table: checking them takes longer than planning a small query.
use std::{collections::HashMap, sync::Arc};

use ancho_common::{error::Result, ids::TableId, partition::Partitioner};
use parking_lot::Mutex;

use crate::state::Table;

/// Tables kept; beyond, all are checked anew.
const MAX_KEPT: usize = 1024;

/// Shared by all statements of a scheduler.
#[derive(Debug, Clone, Default)]
pub struct Partitioners {
    known: Arc<Mutex<HashMap<TableId, Arc<Partitioner>>>>,
}

impl Partitioners {
    /// The partitioner of a table.
    ///
    /// # Errors
    /// As [`Partitioner::try_new`].
    pub fn of(&self, table: &Table) -> Result<Arc<Partitioner>> {
        let fits = |p: &Partitioner| *p.schema() == table.schema.0 && *p.spec() == table.partition_spec;
        if let Some(known) = self.known.lock().get(&table.id).filter(|known| fits(known)) {
            return Ok(Arc::clone(known));
        }
        let checked = Arc::new(Partitioner::try_new(Arc::clone(&table.schema.0), &table.partition_spec)?);
        let mut known = self.known.lock();
        if known.len() >= MAX_KEPT {
            known.clear();
        }
        known.insert(table.id, Arc::clone(&checked));
        Ok(checked)
    }
}

//! Commands about tables whose first rows are on their way. The scheduler that brings the rows keeps the load alive; one
//! that nobody keeps alive is given up, and its table goes. A table that is to replace another one waits beside it,
//! unseen, and takes its place with the commit of its rows.
use std::sync::Arc;

use ancho_common::{error::Error, ids::TableId};

use super::{
    apply::Applied,
    cluster::{ClusterState, Load, Table},
    command::Outcome,
};

impl ClusterState {
    /// Notes that a load still goes on. Fine for a table that has been loaded meanwhile.
    pub(super) fn renew_load(&mut self, id: TableId) -> Applied {
        if self.existing_table(id)?.load.is_some()
            && let Some(Load { renewals, .. }) = self.tables.get_mut(&id).and_then(|t| Arc::make_mut(t).load.as_mut())
        {
            *renewals += 1;
        }
        Ok(Outcome::Done)
    }

    /// Drops a table that is still being loaded; with `renewals` only if the load has not been renewed since.
    pub(super) fn abandon_load(&mut self, id: TableId, renewals: Option<u64>) -> Applied {
        let load = self.tables.get(&id).and_then(|t| t.load.as_ref());
        let dead = load.is_some_and(|load| renewals.is_none_or(|seen| seen == load.renewals));
        if dead {
            self.remove_table(id);
        }
        Ok(Outcome::Dropped { existed: dead })
    }

    /// The table that goes when this one has been loaded: the one that it was made to replace, if that still has the
    /// name. `Err` if the name belongs to yet another table now.
    pub(super) fn replaced_by(&self, table: &Table) -> Result<Option<TableId>, Error> {
        let Some(replaces) = table.load.as_ref().and_then(|load| load.replaces) else { return Ok(None) };
        match self.table(&table.name) {
            None => Ok(None),
            Some(holder) if holder.id == replaces => Ok(Some(replaces)),
            Some(_) => Err(Error::conflict(format!(
                "table {} was replaced by another statement meanwhile; nothing was changed, try again",
                table.name
            ))),
        }
    }
}

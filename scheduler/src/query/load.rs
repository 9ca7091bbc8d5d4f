//! The first load of a table: announced in the replicated state, kept alive while it runs, taken back when it fails.
//!
//! A scheduler that is killed in the middle stops renewing its loads, and the leader gives them up
//! (`sessions/background.rs`). Until its rows are committed a load has changed nothing that anybody reads: a table that
//! replaces another one takes its place with that commit.
use std::{future::Future, sync::Arc, time::Duration};

use ancho_common::{
    error::{Error, ErrorKind, Result},
    ids::TableId,
};

use super::{assigner::propose, ddl};
use crate::{
    raft::RaftNode,
    state::{ClusterState, Command, NewTable, Outcome, Table},
};

/// A table whose rows this scheduler brings. Dropped before its end, as when the client goes away, it is taken back.
#[derive(Debug)]
pub struct TableLoad {
    node: RaftNode,
    table: TableId,
    renewal: Duration,
    settled: bool,
}

/// What became of the wish to load a table.
#[derive(Debug)]
pub enum Begun {
    /// It is to be loaded now.
    Load(TableLoad),
    /// There is a table of that name already, and that is fine.
    Exists(TableId),
}

impl TableLoad {
    /// Creates the table for a load that is renewed every `renewal`.
    ///
    /// # Errors
    /// The declaration is wrong, or the name is taken and may not be.
    pub async fn begin(node: &RaftNode, table: NewTable, renewal: Duration) -> Result<Begun> {
        let table = NewTable { loading: true, ..table };
        let outcome = propose(node, Command::CreateTable(Box::new(table))).await?;
        let (table, created) = ddl::created(&outcome)?;
        Ok(if created {
            Begun::Load(Self { node: node.clone(), table, renewal, settled: false })
        } else {
            Begun::Exists(table)
        })
    }

    /// The table's id.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.table
    }

    /// The table, as a state knows it.
    ///
    /// # Errors
    /// `NotFound`: it was dropped, or the load was given up.
    pub fn table(&self, state: &ClusterState) -> Result<Arc<Table>> {
        state.tables.get(&self.table).cloned().ok_or_else(|| given_up(self.table))
    }

    /// Runs the work that ends with the commit of the first rows, whose number it gives.
    ///
    /// # Errors
    /// What the work raises; the table is gone then. `Unknown` where the log cannot be reached to find out.
    pub async fn run(mut self, work: impl Future<Output = Result<u64>>) -> Result<u64> {
        let outcome = tokio::select! {
            outcome = work => outcome,
            lost = self.keep_alive() => Err(lost),
        };
        let error = match outcome {
            Ok(rows) => {
                self.settled = true;
                return Ok(rows);
            }
            Err(error) => error,
        };
        let taken_back = propose(&self.node, abandon(self.table)).await;
        self.settled = taken_back.is_ok();
        match taken_back {
            // A commit whose answer was lost is settled by the log: either it came first, or it never will.
            Ok(Outcome::Dropped { existed: false }) if error.kind == ErrorKind::Unknown => {
                self.node.state().tables.get(&self.table).map(|t| t.rows()).ok_or(error)
            }
            Ok(_) if error.kind == ErrorKind::Unknown => {
                Err(Error::unavailable(format!("{}; the load was taken back, try again", error.message)))
            }
            _ => Err(error),
        }
    }

    /// Renews the load; ends only when there is nothing left to renew.
    async fn keep_alive(&self) -> Error {
        loop {
            tokio::time::sleep(self.renewal).await;
            match propose(&self.node, Command::RenewLoad { table: self.table }).await {
                Err(error) if error.kind == ErrorKind::NotFound => return given_up(self.table),
                Err(error) => tracing::warn!(table = %self.table, %error, "a load could not be renewed yet"),
                Ok(_) => {}
            }
        }
    }
}

fn abandon(table: TableId) -> Command {
    Command::AbandonLoad { table, renewals: None }
}

/// The error of a load whose table is gone.
pub(super) fn given_up(table: TableId) -> Error {
    Error::not_found(format!(
        "the table that was being loaded (id {table}) was dropped, or its load was given up because the schedulers did \
         not hear of it; load it again"
    ))
}

impl Drop for TableLoad {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        // Where nothing can be run any more, the leader notices that nobody renews the load.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (node, table) = (self.node.clone(), self.table);
            runtime.spawn(async move {
                if let Err(error) = propose(&node, abandon(table)).await {
                    tracing::warn!(%table, %error, "a load that was broken off could not be taken back yet");
                }
            });
        }
    }
}

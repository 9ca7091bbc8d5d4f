//! The transition function: one request in, the changed state and an answer out.
use ancho_common::error::Error;

use super::{
    cluster::{ClusterState, Dataset, Executor, Liveness},
    command::{Command, Outcome, Refusal, Request, Response, WriteRequest},
    writes::MadeBy,
    written::WrittenRecord,
};

/// What a command does to the state: an outcome, or a refusal that changed nothing.
pub(super) type Applied = Result<Outcome, Error>;

impl ClusterState {
    /// Applies a request and answers it. A request that was answered before is answered again with the same response
    /// and changes nothing. A refused command changes nothing but `revision`.
    pub fn apply(&mut self, request: Request) -> Response {
        if let Some(answer) = self.answered.find(&request.id) {
            return answer.clone();
        }
        self.revision += 1;
        let outcome = self.execute(request.command, request.now_ms).map_err(Refusal::from);
        let response = Response { outcome, revision: self.revision };
        self.answered.push(request.id, response.clone());
        response
    }

    /// Every command is checked as a whole before the first change: nothing may fail after it.
    fn execute(&mut self, command: Command, now_ms: u64) -> Applied {
        match command {
            Command::InitCluster { cluster_id } => self.init_cluster(cluster_id),
            Command::RegisterExecutor { executor, incarnation, url, version, plan_key, streams } => self
                .register_executor(Executor {
                    id: executor,
                    incarnation,
                    url,
                    version,
                    plan_key,
                    streams,
                    liveness: Liveness::Up,
                    loaded: Default::default(),
                    hindered: Default::default(),
                    draining: false,
                }),
            Command::ExecutorDown { executor, incarnation } => self.executor_down(&executor, &incarnation),
            Command::ReportLoaded { executor, incarnation, loaded, hindered } => {
                self.report_loaded(&executor, &incarnation, loaded, hindered)
            }
            Command::RemoveExecutor { executor } => self.remove_executor(&executor),
            Command::CreateTable(table) => self.create_table(*table),
            Command::DropTable { name, if_exists } => self.drop_table(&name, if_exists),
            Command::RenewLoad { table } => self.renew_load(table),
            Command::AbandonLoad { table, renewals } => self.abandon_load(table, renewals),
            Command::RenameTable { name, to, if_exists } => self.rename_table(&name, to, if_exists),
            Command::AlterColumns { table, schema_version, change, write_id } => {
                self.alter_columns(table, schema_version, change, write_id, now_ms)
            }
            Command::SetParams { table, schema_version, params, definition } => {
                self.set_params(table, schema_version, params, definition)
            }
            Command::EnsurePartitions { table, partitions } => self.ensure_partitions(table, partitions),
            Command::Place { placements } => self.place(placements),
            Command::StartMoves { moves } => self.start_moves(moves, now_ms),
            Command::AdvanceMoves { steps } => self.advance_moves(steps),
            Command::AcceptLoss { partition, epoch, owners } => self.accept_loss(partition, epoch, owners),
            Command::SetDraining { executor, draining } => self.set_draining(&executor, draining),
            Command::CommitWrite {
                table,
                write_id,
                overwrite,
                parts,
                refreshed,
                based_on,
                request,
                schema_version,
            } => {
                if let Some(request) = &request
                    && let Some(rows) = self.written_before(request, write_id)?
                {
                    return Ok(Outcome::Repeated { rows });
                }
                self.check_columns(table, write_id, schema_version)?;
                let refreshed = refreshed.map(|dataset| Dataset { refreshed_at_ms: Some(now_ms), ..dataset });
                let outcome = self.commit_write(
                    table,
                    MadeBy { write_id, at_ms: now_ms },
                    overwrite,
                    parts,
                    refreshed,
                    based_on,
                )?;
                if let (Outcome::Committed { .. }, Some(request)) = (&outcome, request) {
                    self.note_written(request, table, write_id, now_ms);
                }
                Ok(outcome)
            }
            Command::SetSnapshotLocation { location } => {
                self.snapshots.location = Some(location);
                Ok(Outcome::Done)
            }
            Command::TakeSnapshotLease { table, holder, length_ms } => {
                self.take_snapshot_lease(table, holder, length_ms, now_ms)
            }
            Command::RenewSnapshotLease { table, epoch, length_ms } => {
                self.renew_snapshot_lease(table, epoch, length_ms, now_ms)
            }
            Command::ReleaseSnapshotLease { table, epoch } => self.release_snapshot_lease(table, epoch),
            Command::RecordSnapshot { table, snapshot } => self.record_snapshot(table, *snapshot),
            Command::AwaitDataset { name, dataset } => self.await_dataset(name, dataset),
            Command::Named { request, command } => self.define_once(request, *command, now_ms),
            Command::CommitTransaction { parts, request } => self.end_transaction(parts, request, now_ms),
        }
    }

    /// Applies a change of tables, unless its request was applied before.
    fn define_once(&mut self, request: WriteRequest, command: Command, now_ms: u64) -> Applied {
        let name = match &command {
            Command::CreateTable(table) => table.name.clone(),
            Command::DropTable { name, .. } | Command::RenameTable { name, .. } => name.clone(),
            Command::AlterColumns { table, .. } | Command::SetParams { table, .. } => match self.tables.get(table) {
                Some(table) => table.name.clone(),
                // It says that the table is gone.
                None => return self.execute(command, now_ms),
            },
            _ => return Err(Error::internal("a request can name only writes and changes of tables")),
        };
        if let Some(record) = self.written.repeated(&request.id, request.statement)? {
            return Ok(Outcome::Repeated { rows: record.rows });
        }
        let former = self.table(&name).map(|table| table.id);
        let outcome = self.execute(command, now_ms)?;
        let table = match outcome {
            Outcome::Table { id, .. } => Some(id),
            _ => former,
        };
        self.written.push(
            request.id,
            WrittenRecord {
                table,
                table_name: name.to_string(),
                write_id: None,
                rows: request.rows,
                version: table.and_then(|id| self.tables.get(&id)).map_or(0, |table| table.version),
                at_ms: now_ms,
                statement: request.statement,
            },
        );
        Ok(outcome)
    }

    fn init_cluster(&mut self, cluster_id: String) -> Applied {
        if cluster_id.is_empty() {
            return Err(Error::invalid("the cluster id is empty; give the new cluster an id"));
        }
        if self.cluster_id.is_empty() {
            self.cluster_id = cluster_id;
        }
        Ok(Outcome::Done)
    }
}

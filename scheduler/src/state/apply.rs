//! The transition function: one request in, the changed state and an answer out.
use ancho_common::error::Error;

use super::{
    cluster::{ClusterState, Dataset, Executor, Liveness},
    command::{Command, Outcome, Refusal, Request, Response},
    writes::MadeBy,
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
                if let Some(rows) = request.as_ref().and_then(|request| self.written_before(request, write_id)) {
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
            Command::CommitTransaction { parts, request } => self.end_transaction(parts, request, now_ms),
        }
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

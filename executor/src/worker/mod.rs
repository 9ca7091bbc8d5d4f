//! Runs tasks of distributed plans on this executor's partitions.
use std::sync::Arc;

use ancho_common::{
    error::{Error, Result},
    ids::TableId,
    partition::PartitionKey,
    plan::{
        channels::Channels,
        host::ScanHost,
        router::{PartitionAssigner, Route},
        running::RunningQueries,
        session::{WorkerParts, worker},
    },
};
use ancho_proto::v1::{EnsurePartitionsRequest, scheduler_client::SchedulerClient};
use async_trait::async_trait;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion_distributed::Worker;

/// The query worker of an executor: `host` holds its partitions, `scheduler_urls` place rows of new partitions, and
/// queries share the memory of `runtime`.
#[must_use]
pub fn query_worker(host: Arc<dyn ScanHost>, scheduler_urls: Vec<String>, runtime: Arc<RuntimeEnv>) -> Worker {
    let channels = Channels::default();
    let assigner = Arc::new(SchedulerAssigner { urls: scheduler_urls, channels: channels.clone() });
    worker(WorkerParts { host: Some(host), assigner, channels, runtime, running: RunningQueries::default() })
}

/// Asks the schedulers for partitions; any of them forwards to the leader.
#[derive(Debug)]
struct SchedulerAssigner {
    urls: Vec<String>,
    channels: Channels,
}

#[async_trait]
impl PartitionAssigner for SchedulerAssigner {
    async fn ensure(&self, table: TableId, keys: &[PartitionKey]) -> Result<Vec<Route>> {
        let keys = keys
            .iter()
            .map(|key| serde_json::to_string(key).map_err(|e| Error::internal(e.to_string())))
            .collect::<Result<Vec<_>>>()?;
        let request = EnsurePartitionsRequest { table_id: table.0, keys };
        let mut last = Error::unavailable("no scheduler is known");
        for url in &self.urls {
            let mut client = SchedulerClient::new(self.channels.get(url)?);
            match client.ensure_partitions(request.clone()).await {
                Ok(reply) => return reply.into_inner().routes.iter().map(Route::from_proto).collect(),
                // Creating partitions is idempotent by key, so another scheduler may be asked.
                Err(status) => last = Error::from(status),
            }
            if !last.kind.retryable() {
                break;
            }
        }
        Err(last.context("placing rows of a new partition"))
    }
}

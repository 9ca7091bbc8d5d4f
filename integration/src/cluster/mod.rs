//! Clusters to test against.
//!
//! [`in_process`] runs all nodes in the test's process, over real sockets: quick to start and easy to debug.
//! [`processes`] runs the `ancho` binary, so that nodes can be killed and paused.
pub mod in_process;
mod metrics;
pub mod processes;

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde_json::Value;

use crate::{client::Client, wait::wait_until};

/// Longest time for a cluster to be ready, on a busy machine and in a debug build.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Waits until a scheduler sees this many executors up and answers a query.
async fn wait_serving(client: &Client, executors: usize) -> anyhow::Result<()> {
    wait_until(&format!("{executors} executors up, as {} sees it", client.url()), START_LIMIT, || async {
        let status = client.status().await?;
        let up = executors_up(&status)?;
        ensure!(up == executors, "{up} executors are up: {status}");
        client.query("SELECT 1").await?;
        Ok(Some(()))
    })
    .await
}

/// How many executors a status document says are up.
///
/// # Errors
/// The document has another form.
pub fn executors_up(status: &Value) -> anyhow::Result<usize> {
    let Some(Value::Array(executors)) = status.get("executors") else {
        bail!("the status has no list of executors: {status}");
    };
    Ok(executors.iter().filter(|e| e["state"].as_str().is_some_and(|s| s.eq_ignore_ascii_case("up"))).count())
}

/// The node id of the scheduler that a status document calls leader; none during an election.
///
/// # Errors
/// The document has another form.
pub fn leader(status: &Value) -> anyhow::Result<Option<u64>> {
    let Some(Value::Array(schedulers)) = status.get("schedulers") else {
        bail!("the status has no list of schedulers: {status}");
    };
    let found = schedulers.iter().find(|s| s["role"].as_str().is_some_and(|r| r.eq_ignore_ascii_case("leader")));
    found.map(|s| s["node_id"].as_u64().with_context(|| format!("a scheduler without a node id: {s}"))).transpose()
}

//! `ancho partition verify`: all executors read what they hold again, and say what is damaged.
use std::collections::BTreeMap;

use ancho_common::error::{Error, Result};
use ancho_proto::v1::{VerifiedPartition, VerifyRequest};
use futures::future::join_all;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ddl, engine::QueryEngine};

/// What is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Only partitions of this table.
    #[serde(default)]
    table: Option<String>,
}

/// Verifies partitions, side by side on all executors. The answer lists each with what was found, and the executors
/// that did not answer.
///
/// # Errors
/// `NotFound` for a table that does not exist; no majority of schedulers is reached.
pub async fn verify(engine: &QueryEngine, body: &[u8]) -> Result<Value> {
    let wanted: Wanted = if body.is_empty() {
        Wanted::default()
    } else {
        serde_json::from_slice(body).map_err(|e| Error::invalid(format!("what to verify cannot be read: {e}")))?
    };
    let state = engine.node().linearizable().await?;
    let only = match &wanted.table {
        None => None,
        Some(name) => {
            let name = ddl::table_name(&datafusion::common::TableReference::from(name.as_str()))?;
            Some(super::engine::existing(&state, &name)?.id)
        }
    };
    let mut by_executor: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for table in state.tables.values().filter(|table| only.is_none_or(|id| table.id == id)) {
        // Without a commit there is nothing to read.
        for partition in table.partitions.values().filter(|partition| partition.version > 0) {
            for owner in &partition.owners {
                by_executor.entry(owner.clone()).or_default().push(partition.id.0);
            }
        }
    }
    let calls = by_executor.into_iter().map(|(executor, partition_ids)| {
        let url = state.executors.get(&executor).map(|e| e.url.clone()).unwrap_or_default();
        async move {
            let ask = async {
                let mut client = engine.writer().client(&url)?;
                Ok(client.verify(VerifyRequest { partition_ids }).await.map_err(Error::from)?.into_inner().partitions)
            };
            (executor, ask.await)
        }
    });
    let (mut partitions, mut silent) = (Vec::new(), Vec::new());
    for (executor, answer) in join_all(calls).await {
        match answer {
            Ok(verified) => partitions.extend(verified.iter().map(|partition| found(&executor.0, partition))),
            Err(error) => {
                let error: Error = error;
                silent.push(json!({"executor": executor, "error": error.message}));
            }
        }
    }
    Ok(json!({ "partitions": partitions, "unreached": silent }))
}

fn found(executor: &str, partition: &VerifiedPartition) -> Value {
    json!({
        "executor": executor, "partition_id": partition.partition_id, "table": partition.table,
        "partition": partition.partition, "files": partition.files, "bytes": partition.bytes,
        "deletion_vectors": partition.deletion_vectors, "problems": partition.problems,
    })
}

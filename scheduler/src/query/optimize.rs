//! `OPTIMIZE TABLE`: the owners rewrite the files of a table. No row and no version changes, so the log is not asked.
use std::collections::HashMap;

use ancho_common::error::{Error, Result};
use ancho_proto::v1::{CompactPartition, CompactRequest};
use futures::future::try_join_all;

use super::write::{Writer, routes};
use crate::state::{ClusterState, Table};

/// Has all partitions of a table that hold rows rewritten, on all owners side by side.
///
/// # Errors
/// `Unavailable` while a partition has no serving owner; what an owner raises, naming it. Partitions that were rewritten
/// before stay so.
pub(crate) async fn optimize(writer: &Writer, state: &ClusterState, table: &Table) -> Result<()> {
    let mut by_owner: HashMap<String, Vec<CompactPartition>> = HashMap::new();
    for route in routes(state, table)? {
        let filled = table.partitions.get(&route.partition).is_some_and(|partition| partition.version > 0);
        if filled {
            let part = CompactPartition { partition_id: route.partition.0, epoch: route.epoch };
            by_owner.entry(route.url).or_default().push(part);
        }
    }
    let calls = by_owner.into_iter().map(|(url, partitions)| async move {
        let reply = writer.client(&url)?.compact(CompactRequest { partitions }).await.map_err(Error::from);
        let done = reply.map_err(|e| e.context(&format!("executor {url}")))?.into_inner();
        tracing::info!(
            table = %table.name, %url, files_in = done.files_in, files_out = done.files_out,
            bytes_in = done.bytes_in, bytes_out = done.bytes_out, "optimized"
        );
        Ok::<_, Error>(())
    });
    try_join_all(calls).await.map(|_| ())
}

//! The cluster at a glance: for `ancho cluster status`, `GET /v1/cluster` and readiness.
use std::time::Duration;

use ancho_common::plan::channels::endpoint;
use ancho_proto::v1::{ProbeRequest, scheduler_client::SchedulerClient};
use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    frontend::service::Readiness,
    planner::system::liveness,
    raft::RaftNode,
    state::{ClusterState, Table},
};

/// Longest time to wait for another scheduler's answer.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time to wait for a majority before telling what is known without it.
const MAJORITY_TIMEOUT: Duration = Duration::from_secs(3);

/// Schedulers, executors and tables as JSON. Without a majority it is what this scheduler knew last, with the reason under
/// `problem`, and no scheduler is called the leader.
pub async fn cluster_status(node: &RaftNode) -> Value {
    let status = node.status();
    let (state, problem) = match node.linearizable_within(MAJORITY_TIMEOUT).await {
        Ok(state) => (state, None),
        Err(error) => {
            let known = format!("this is what scheduler {} knew last: {}", status.node_id, error.message);
            (node.state(), Some(known))
        }
    };
    let confirmed = problem.is_none();
    let probes = status.peers.iter().map(|(id, url)| async move { (*id, url.clone(), probe(url).await) });
    let schedulers: Vec<Value> = join_all(probes)
        .await
        .into_iter()
        .map(|(id, url, reply)| match reply {
            Some(reply) => json!({
                "node_id": id, "url": url, "reachable": true, "term": reply.term,
                "applied_index": reply.applied_index,
                "role": if reply.leader_id == id && confirmed { "leader" } else { "follower" },
            }),
            None => json!({"node_id": id, "url": url, "reachable": false, "role": "unknown"}),
        })
        .collect();
    let mut answer = json!({
        "cluster_id": state.cluster_id,
        "schedulers": schedulers,
        "executors": executors(&state),
        "moves": moves(&state),
        "tables": state.listed().map(|t| table(&state, t)).collect::<Vec<_>>(),
    });
    if let Some(problem) = problem {
        answer["problem"] = problem.into();
    }
    answer
}

async fn probe(url: &str) -> Option<ancho_proto::v1::ProbeReply> {
    let channel = endpoint(url).ok()?.connect_lazy();
    let mut client = SchedulerClient::new(channel);
    let reply = tokio::time::timeout(PROBE_TIMEOUT, client.probe(ProbeRequest {})).await;
    Some(reply.ok()?.ok()?.into_inner())
}

fn executors(state: &ClusterState) -> Vec<Value> {
    let partitions = || state.tables.values().flat_map(|t| t.partitions.values());
    state
        .executors
        .values()
        .map(|e| {
            let held: Vec<_> = partitions().filter(|p| p.owners.contains(&e.id)).collect();
            json!({
                "id": e.id, "url": e.url, "state": liveness(e.liveness), "draining": e.draining, "version": e.version, "streams": e.streams,
                "partitions": held.len(), "bytes": held.iter().map(|p| p.bytes).sum::<u64>(),
            })
        })
        .collect()
}

fn moves(state: &ClusterState) -> Vec<Value> {
    let moves = state.moves.iter().filter_map(|(id, moving)| {
        let (table, partition) = state.find_partition(*id)?;
        Some(json!({
            "partition": id, "table": table.name.to_string(), "from": moving.from, "to": moving.to,
            "phase": moving.phase.as_str(), "bytes": partition.bytes, "since_ms": moving.since_ms,
        }))
    });
    moves.collect()
}

fn table(state: &ClusterState, table: &Table) -> Value {
    let unassigned = table.partitions.values().filter(|p| state.serving_owner(p).is_none()).count();
    json!({
        "name": table.name.to_string(), "partitions": table.partitions.len(), "rows": table.rows(),
        "bytes": table.bytes(), "unassigned": unassigned, "version": table.version,
    })
}

/// A node is ready when it knows a leader, an executor is up, and every partition with rows is served.
#[must_use]
pub fn readiness(node: &RaftNode) -> Readiness {
    let mut reasons = Vec::new();
    if node.leadership().borrow().leader_id.is_none() {
        reasons.push("no leader is known".to_owned());
    }
    let state = node.state();
    if state.live_executors().next().is_none() {
        reasons.push("no executor is up".to_owned());
    }
    for table in state.tables.values() {
        let waiting = table.partitions.values().filter(|p| p.version > 0 && state.serving_owner(p).is_none()).count();
        if waiting > 0 {
            reasons.push(format!("table {}: {waiting} partitions are not served", table.name));
        }
    }
    Readiness { ready: reasons.is_empty(), reasons }
}

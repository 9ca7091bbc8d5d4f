//! What operators do to executors and partitions: empty one, take it back, forget it, make the cluster even, and give up rows
//! that are lost.
use ancho_common::{
    error::{Error, Result},
    ids::{ExecutorId, PartitionId},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{assigner::propose, engine::QueryEngine};
use crate::{
    placement::{PlacementPolicy, moves},
    sessions::unserved,
    state::{ClusterState, Command, Executor, Outcome},
};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfExecutor {
    /// Its id, the beginning of its id, or its URL.
    executor: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rebalance {
    /// Only say what would be moved.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Recover {
    partition: u64,
    /// The rows are given up.
    #[serde(default)]
    accept_loss: bool,
}

fn read<T: DeserializeOwned>(action: &str, body: &[u8]) -> Result<T> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|e| Error::invalid(format!("{action}: what is asked for cannot be read: {e}")))
}

/// The executor that somebody means.
fn find<'a>(state: &'a ClusterState, named: &str) -> Result<&'a Executor> {
    let exact = state.executors.values().find(|e| e.id.0 == named || e.url == named.trim_end_matches('/'));
    if let Some(executor) = exact {
        return Ok(executor);
    }
    let mut alike = state.executors.values().filter(|e| !named.is_empty() && e.id.0.starts_with(named));
    match (alike.next(), alike.next()) {
        (Some(executor), None) => Ok(executor),
        (Some(_), Some(_)) => Err(Error::invalid(format!("several executors begin with {named:?}; give the whole id"))),
        (None, _) => Err(Error::not_found(format!(
            "executor {named} is not known; `ancho cluster status` lists ids and addresses"
        ))),
    }
}

/// Empties an executor, or stops emptying it.
///
/// # Errors
/// `NotFound` for an executor that is not known; `Conflict` when nobody is left to take its partitions.
pub(super) async fn drain(engine: &QueryEngine, body: &[u8], draining: bool) -> Result<Value> {
    let wanted: OfExecutor = read("drain", body)?;
    let state = engine.node().linearizable().await?;
    let executor = find(&state, &wanted.executor)?;
    let others = state.executors.values().any(|e| e.id != executor.id && e.may_take());
    if draining && !others {
        return Err(Error::conflict(format!(
            "no other executor is up that could take the partitions of executor {}; start one first",
            executor.id
        )));
    }
    propose(engine.node(), Command::SetDraining { executor: executor.id.clone(), draining }).await?;
    Ok(json!({ "executor": executor.id, "draining": draining, "partitions": owned(&state, &executor.id) }))
}

fn owned(state: &ClusterState, executor: &ExecutorId) -> usize {
    let partitions = state.tables.values().flat_map(|t| t.partitions.values());
    partitions.filter(|p| p.owners.contains(executor)).count()
}

/// Forgets an executor that is down and owns nothing.
///
/// # Errors
/// `NotFound`, and `Conflict` saying what is to be done first.
pub(super) async fn remove(engine: &QueryEngine, body: &[u8]) -> Result<Value> {
    let wanted: OfExecutor = read("remove", body)?;
    let state = engine.node().linearizable().await?;
    let executor = find(&state, &wanted.executor)?;
    propose(engine.node(), Command::RemoveExecutor { executor: executor.id.clone() }).await?;
    Ok(json!({ "executor": executor.id }))
}

/// Moves partitions until executors are even, or says what would be moved.
///
/// # Errors
/// `Conflict` while other moves go on.
pub(super) async fn rebalance(engine: &QueryEngine, body: &[u8]) -> Result<Value> {
    let wanted: Rebalance = read("rebalance", body)?;
    let state = engine.node().linearizable().await?;
    if !wanted.dry_run && !state.moves.is_empty() {
        return Err(Error::conflict(format!(
            "{} partitions are on their way already; `ancho cluster status` shows them, try again when they have arrived",
            state.moves.len()
        )));
    }
    let plan = moves::rebalance(&state, &PlacementPolicy::default());
    let listed: Vec<Value> = plan
        .moves
        .iter()
        .filter_map(|planned| {
            let (table, partition) = state.find_partition(planned.partition)?;
            Some(json!({
                "table": table.name.to_string(), "partition": planned.partition, "key": partition.key.display(),
                "from": planned.from, "to": planned.to, "bytes": planned.bytes,
            }))
        })
        .collect();
    let (bytes, empty) = (plan.bytes(), plan.is_empty());
    if !wanted.dry_run && !empty {
        propose(engine.node(), plan.into_command()).await?;
    }
    Ok(json!({ "dry_run": wanted.dry_run, "bytes": bytes, "moves": listed }))
}

/// Makes a partition that nobody can serve an empty one.
///
/// # Errors
/// `NotFound`; `Invalid` when the loss is not accepted; `Conflict` when the partition can be served.
pub(super) async fn recover(engine: &QueryEngine, body: &[u8]) -> Result<Value> {
    let wanted: Recover = read("recover", body)?;
    let id = PartitionId(wanted.partition);
    let state = engine.node().linearizable().await?;
    let (table, partition) = state.find_partition(id).ok_or_else(|| {
        Error::not_found(format!("partition {id} does not exist; SELECT * FROM system.partitions lists them"))
    })?;
    if !wanted.accept_loss {
        return Err(Error::invalid(format!(
            "partition {id} of table {} has {} rows that would be given up for good; say accept_loss if that is meant",
            table.name, partition.rows
        )));
    }
    let why = unserved(&state, table, partition).message;
    let command = Command::AcceptLoss { partition: id, epoch: partition.epoch, owners: Vec::new() };
    let Outcome::Partitions { partitions } = propose(engine.node(), command).await? else {
        return Err(Error::internal("the answer to a loss that was accepted is of another kind"));
    };
    tracing::warn!(table = %table.name, partition = %id, rows = partition.rows, why, "rows were given up");
    Ok(json!({
        "table": table.name.to_string(), "key": partition.key.display(), "partition": id, "rows": partition.rows,
        "new_partition": partitions.first().map(|p| p.partition),
    }))
}

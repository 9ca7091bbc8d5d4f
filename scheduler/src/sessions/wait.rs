//! Waiting for the replicated state to get somewhere.
use std::sync::Arc;

use ancho_common::{
    error::{Error, ErrorKind},
    ids::TableId,
    partition::Partitioner,
};
use tokio::{sync::watch, time::Instant};

use crate::state::{ClusterState, Liveness, Partition, Table};

/// Why a wait ended without what it waited for.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WaitError {
    /// The deadline passed; carries the state at that time.
    #[error("the cluster state did not get there in time")]
    Deadline(Arc<ClusterState>),
    /// This scheduler stops.
    #[error("this scheduler is stopping")]
    Closed,
}

/// Waits until the state satisfies `predicate`, the present one included, and returns that state.
///
/// # Errors
/// The deadline passed, or the scheduler stops.
pub async fn wait_until(
    mut watch: watch::Receiver<Arc<ClusterState>>,
    mut predicate: impl FnMut(&ClusterState) -> bool,
    deadline: Instant,
) -> Result<Arc<ClusterState>, WaitError> {
    loop {
        let state = Arc::clone(&watch.borrow_and_update());
        if predicate(&state) {
            return Ok(state);
        }
        match tokio::time::timeout_at(deadline, watch.changed()).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(WaitError::Closed),
            // A change that came together with the deadline still counts.
            Err(_) => {
                let state = Arc::clone(&watch.borrow_and_update());
                return if predicate(&state) { Ok(state) } else { Err(WaitError::Deadline(state)) };
            }
        }
    }
}

/// Waits until each of the table's partitions for which `wanted` holds can be served by an owner.
///
/// # Errors
/// The table does not exist (any more), or at the deadline a partition, which the message names, is not served.
pub async fn wait_served(
    watch: watch::Receiver<Arc<ClusterState>>,
    table: TableId,
    wanted: impl Fn(&Partition) -> bool,
    deadline: Instant,
) -> Result<Arc<ClusterState>, Error> {
    let gone = || Error::not_found(format!("table with id {table} does not exist; it was dropped or replaced"));
    let settled = |state: &ClusterState| match state.tables.get(&table) {
        Some(table) => first_unserved(state, table, &wanted).is_none(),
        None => true,
    };
    let state = match wait_until(watch, settled, deadline).await {
        Ok(state) | Err(WaitError::Deadline(state)) => state,
        Err(e @ WaitError::Closed) => return Err(Error::unavailable(e.to_string())),
    };
    let table = state.tables.get(&table).ok_or_else(gone)?;
    match first_unserved(&state, table, &wanted) {
        Some(partition) => Err(unserved(&state, table, partition)),
        None => Ok(state),
    }
}

fn first_unserved<'a>(
    state: &ClusterState,
    table: &'a Table,
    wanted: &impl Fn(&Partition) -> bool,
) -> Option<&'a Partition> {
    table.partitions.values().find(|p| wanted(p) && state.serving_owner(p).is_none())
}

/// The error for a partition that no owner can serve now, for readers and writers alike.
pub fn unserved(state: &ClusterState, table: &Table, partition: &Partition) -> Error {
    let described = Partitioner::try_new(Arc::clone(&table.schema.0), &table.partition_spec)
        .map_or_else(|_| partition.key.display(), |partitioner| partitioner.describe(&partition.key));
    let place = format!("table {}: partition {} ({described})", table.name, partition.id);
    let (damaged, why) = hindrance(state, partition);
    if damaged {
        // Waiting mends nothing.
        return Error::corrupt(format!("{place} is damaged: {why}"));
    }
    Error::unavailable(format!("{place} cannot be served now: {why}; try again"))
}

/// What keeps a partition from being served that no owner can serve now, and whether that is damage, which does not pass.
pub fn hindrance(state: &ClusterState, partition: &Partition) -> (bool, String) {
    let mut damaged = !partition.owners.is_empty();
    let mut holders = Vec::with_capacity(partition.owners.len());
    for id in &partition.owners {
        let executor = state.executors.get(id);
        let hindrance = executor
            .filter(|e| e.liveness == Liveness::Up)
            .and_then(|e| e.hindered.get(&partition.id))
            .map(|reason| Error::from_text(reason, ErrorKind::Unavailable));
        damaged &= hindrance.as_ref().is_some_and(|h| h.kind == ErrorKind::Corrupt);
        holders.push(match (executor, hindrance) {
            (Some(e), Some(hindrance)) => format!("executor {} cannot serve it: {}", e.url, hindrance.message),
            (Some(e), None) if e.liveness == Liveness::Up => format!("executor {} is still loading it", e.url),
            (Some(e), None) => format!("executor {} is down", e.url),
            (None, _) => format!("executor {id} is gone"),
        });
    }
    let why = if holders.is_empty() { "no executor holds it".to_owned() } else { holders.join(", ") };
    (damaged, why)
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use ancho_common::ids::{PartitionId, RequestId};

    use super::*;
    use crate::state::{
        Command, Request,
        tests::{id, new_table, register},
    };

    fn apply(sender: &watch::Sender<Arc<ClusterState>>, command: Command) {
        sender.send_modify(|state| {
            let request = Request { id: RequestId::new(), now_ms: 0, command };
            Arc::make_mut(state).apply(request).outcome.unwrap();
        });
    }

    #[tokio::test]
    async fn a_table_is_waited_for_and_what_is_missing_is_named() {
        let (sender, receiver) = watch::channel(Arc::new(ClusterState::default()));
        let soon = || Instant::now() + Duration::from_millis(20);
        let later = || Instant::now() + Duration::from_secs(20);
        let missing = wait_served(receiver.clone(), TableId(1), |_| true, soon()).await.unwrap_err();
        assert_eq!(missing.kind, ErrorKind::NotFound);

        apply(&sender, Command::CreateTable(Box::new(new_table("t", 1, &[]))));
        let served = |deadline| wait_served(receiver.clone(), TableId(1), |_| true, deadline);
        assert!(
            served(soon()).await.unwrap_err().message.contains("(bucket(1, k)=0) cannot be served now: no executor")
        );
        apply(&sender, register("a", "1"));
        let table =
            Command::CreateTable(Box::new(crate::state::NewTable { or_replace: true, ..new_table("t", 1, &["a"]) }));
        apply(&sender, table);
        let served = |deadline| wait_served(receiver.clone(), TableId(2), |_| true, deadline);
        let loading = served(soon()).await.unwrap_err();
        assert!(
            loading.kind.retryable() && loading.message.contains("executor http://a is still loading it"),
            "{loading}"
        );
        let partition = *sender.borrow().tables[&TableId(2)].partitions.keys().next().unwrap();
        let report =
            |loaded, hindered| Command::ReportLoaded { executor: id("a"), incarnation: "1".into(), loaded, hindered };
        let hindered = BTreeMap::from([(partition, "no room".repeat(50)), (PartitionId(99), "not owned".into())]);
        apply(&sender, report(BTreeMap::new(), hindered));
        let hindered = served(soon()).await.unwrap_err();
        assert!(hindered.message.contains("executor http://a cannot serve it: no room"), "{hindered}");
        let kept = sender.borrow().executors[&id("a")].hindered.clone();
        assert_eq!((kept.len(), kept[&partition].len()), (1, 300), "only what it owns, and short");

        let waiting = tokio::spawn(wait_served(receiver.clone(), TableId(2), |_| true, later()));
        tokio::task::yield_now().await;
        let loaded = BTreeMap::from([(partition, 1)]);
        apply(&sender, report(loaded, BTreeMap::new()));
        assert!(waiting.await.unwrap().is_ok());
        apply(&sender, Command::ExecutorDown { executor: id("a"), incarnation: "1".into() });
        assert!(served(soon()).await.unwrap_err().message.contains("executor http://a is down"));
        assert!(wait_served(receiver.clone(), TableId(2), |_| false, soon()).await.is_ok());
        drop(sender);
        assert!(matches!(wait_until(receiver, |_| false, later()).await, Err(WaitError::Closed)));
    }
}

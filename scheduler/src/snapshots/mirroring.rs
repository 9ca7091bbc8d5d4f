//! Datasets that mirror what another cluster publishes are looked at, by the leader, and brought to the snapshot that they should
//! show.
use std::sync::Arc;

use ancho_common::{
    compute::Compute,
    error::{Error, Result},
    snapshot::{
        SnapshotLocation, names,
        store::{Look as Found, ObjectVersion},
    },
};
use tokio::{
    task::JoinSet,
    time::{Duration, Instant, MissedTickBehavior},
};

use super::mirrors::{Look, Mirrors};
use crate::{
    query::{engine::QueryEngine, mirror::mirrored},
    raft::RaftNode,
    state::TableName,
};

/// How often it is looked which datasets are due.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Datasets that are looked at at a time.
const AT_ONCE: usize = 4;

/// Looks at them for as long as it is polled; rows are planned and moved on `compute`.
pub async fn run(node: RaftNode, engine: Arc<QueryEngine>, compute: Compute) {
    let mut mirrors = Mirrors::default();
    let mut waiting: Vec<Look> = Vec::new();
    let mut running: JoinSet<(Look, Result<Option<ObjectVersion>>)> = JoinSet::new();
    let mut term = None;
    let mut ticker = tokio::time::interval(LOOK_EVERY);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticker.tick() => {}
            Some(ended) = running.join_next() => match ended {
                Ok((look, found)) => {
                    if let Err(error) = &found {
                        tracing::warn!(table = %look.name, %error, "what a dataset mirrors could not be taken yet");
                    }
                    mirrors.ended(&look, found.map_err(|_| ()), Instant::now());
                }
                Err(error) => tracing::error!(%error, "looking at what a dataset mirrors"),
            },
        }
        let led = Some(node.leadership().borrow().clone()).filter(|now| now.is_leader).map(|now| now.term);
        if led != term {
            mirrors.clear();
            term = led;
        }
        if led.is_some() {
            waiting.extend(mirrors.sweep(&node.state(), Instant::now()));
        } else {
            for look in waiting.drain(..) {
                mirrors.ended(&look, Err(()), Instant::now());
            }
        }
        while running.len() < AT_ONCE && !waiting.is_empty() {
            let look = waiting.remove(0);
            let (engine, wanted) = (Arc::clone(&engine), look.clone());
            let work = compute.run(async move { looked(&engine, &wanted).await });
            running.spawn(async move { (look, work.await) });
        }
    }
}

/// Looks at the head of a dataset, and brings its table to the snapshot that it should show if the head is another one.
async fn looked(engine: &QueryEngine, look: &Look) -> Result<Option<ObjectVersion>> {
    let name = TableName::public(&look.name);
    let store = SnapshotLocation::of(&look.spec.source).map_err(Error::invalid)?.open()?;
    let key = names::head(&names::dataset_folder(&name.to_string()));
    match store.read_if_changed(&key, look.known.as_ref()).await? {
        Found::Same => Ok(look.known.clone()),
        Found::Missing if engine.node().state().table(&name).is_none() => Ok(None),
        Found::Missing => {
            Err(Error::not_found(format!("{}: {key} is gone; table {name} keeps the rows that it has", store.place())))
        }
        Found::Other(_, version) => {
            let done = mirrored(engine, &look.spec).await?;
            // One that still waits is looked at again whatever the head says.
            Ok(Some(version).filter(|_| done["action"] != "waiting"))
        }
    }
}

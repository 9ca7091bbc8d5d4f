//! Snapshots that are made unasked, by the leader.
use ancho_common::ids::TableId;
use tokio::{
    task::JoinSet,
    time::{Duration, Instant, MissedTickBehavior},
};

use super::{due::Due, publisher::Publisher};
use crate::raft::RaftNode;

/// How often tables are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Snapshots that are made at a time.
const AT_ONCE: usize = 2;

/// Makes them for as long as it is polled.
pub async fn run(node: RaftNode, publisher: Publisher) {
    let mut due = Due::default();
    let mut waiting: Vec<TableId> = Vec::new();
    let mut running: JoinSet<(TableId, bool)> = JoinSet::new();
    let mut term = None;
    let mut ticker = tokio::time::interval(LOOK_EVERY);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticker.tick() => {}
            Some(ended) = running.join_next() => match ended {
                Ok((table, made)) => due.ended(table, made, Instant::now()),
                Err(error) => tracing::error!(%error, "making a snapshot"),
            },
        }
        let led = Some(node.leadership().borrow().clone()).filter(|now| now.is_leader).map(|now| now.term);
        if led != term {
            due.clear();
            term = led;
        }
        let state = node.state();
        if led.is_some() {
            waiting.extend(due.sweep(&state, Instant::now()));
        }
        while running.len() < AT_ONCE && !waiting.is_empty() {
            let id = waiting.remove(0);
            let Some(table) = state.tables.get(&id).filter(|_| led.is_some()) else {
                due.ended(id, true, Instant::now());
                continue;
            };
            let (publisher, name) = (publisher.clone(), table.name.clone());
            running.spawn(async move {
                let made = publisher.automatic(&name).await;
                if let Err(error) = &made {
                    tracing::warn!(table = %name, %error, "a snapshot could not be made yet");
                }
                (id, made.is_ok())
            });
        }
    }
}

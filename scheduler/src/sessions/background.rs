//! What a scheduler does unasked: the leader gives up silent executors and broken-off loads, places partitions without an
//! owner and moves others, and every scheduler checks its state's invariants.
use std::{collections::BTreeSet, sync::Arc, time::Duration};

use ancho_common::ids::ExecutorId;
use tokio::{
    task::JoinSet,
    time::{Instant, MissedTickBehavior},
};

use super::{Inner, absence::Absence, loads::LoadWatch, moving::MoveWatch, sweep_interval};
use crate::{
    placement::{self, PlacementPolicy},
    state::{ClusterState, Command, violations},
};

/// Pause after a placement that could not be written.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Time between two checks of the invariants.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Proposes [`Command::ExecutorDown`] for every executor whose session has lapsed, until the state shows it down.
pub(super) async fn mark_down(inner: &Arc<Inner>) {
    let mut ticker = tokio::time::interval(sweep_interval(inner.options.ttl));
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut proposals: JoinSet<(ExecutorId, String, Result<(), ancho_common::error::Error>)> = JoinSet::new();
    let mut in_flight: BTreeSet<ExecutorId> = BTreeSet::new();
    loop {
        tokio::select! {
            _ = ticker.tick() => {}
            Some(done) = proposals.join_next() => {
                match done {
                    Ok((executor, incarnation, Ok(()))) => {
                        tracing::warn!(%executor, incarnation, "executor went silent, marked down");
                        in_flight.remove(&executor);
                    }
                    Ok((executor, _, Err(error))) => {
                        tracing::warn!(%executor, %error, "executor went silent, but could not be marked down yet");
                        in_flight.remove(&executor);
                    }
                    // A task that did not end properly does not say whose it was.
                    Err(error) => {
                        tracing::error!(%error, "marking an executor down");
                        in_flight.clear();
                    }
                }
                continue;
            }
        }
        let Some(term) = inner.term_led() else { continue };
        let state = inner.raft.state();
        let lapsed = inner.ledger.lock().sweep(term, &state, Instant::now());
        for (executor, incarnation) in lapsed {
            if in_flight.insert(executor.clone()) {
                let inner = Arc::clone(inner);
                proposals.spawn(async move {
                    let command =
                        Command::ExecutorDown { executor: executor.clone(), incarnation: incarnation.clone() };
                    let outcome = inner.propose(term, command).await;
                    (executor, incarnation, outcome)
                });
            }
        }
    }
}

/// Runs [`placement::plan`] after each change of the state, and when an executor has been down for long enough, and proposes
/// what it finds.
pub(super) async fn place(inner: &Inner) {
    let mut states = inner.raft.watch();
    let mut leadership = inner.raft.leadership();
    let mut absence = Absence::new(inner.options.failover_after);
    let mut former_term = None;
    loop {
        let led = Some(leadership.borrow_and_update()).filter(|now| now.is_leader).map(|now| now.term);
        if led != former_term {
            absence.clear();
            former_term = led;
        }
        let mut look_again = None;
        if let Some(term) = led {
            let state = Arc::clone(&states.borrow_and_update());
            let (given_up, next) = absence.look(&state, Instant::now());
            look_again = next;
            let plan = placement::plan(&state, &PlacementPolicy { given_up, ..inner.options.placement.clone() });
            if !plan.is_empty() {
                tracing::info!(%plan, "placing partitions");
                if let Err(error) = inner.propose(term, Command::Place { placements: plan.placements }).await {
                    tracing::warn!(%error, "partitions could not be placed yet");
                    tokio::time::sleep(RETRY_PAUSE).await;
                    states.mark_changed();
                }
            }
        }
        let changed = tokio::select! {
            changed = states.changed() => changed,
            changed = leadership.changed() => changed,
            () = until(look_again) => Ok(()),
        };
        if changed.is_err() {
            return;
        }
        tokio::time::sleep(inner.options.placement_debounce).await;
    }
}

/// Longest time between two looks at moves.
const MOVE_INTERVAL: Duration = Duration::from_millis(500);

/// Carries moves on, and begins those that give an executor its share or empty one.
pub(super) async fn move_partitions(inner: &Inner) {
    let mut states = inner.raft.watch();
    let mut watch = MoveWatch::new(inner.options.moving.clone());
    let mut term = None;
    // Since when there is something to be moved.
    let mut wanted: Option<Instant> = None;
    let mut looked = None;
    loop {
        let led = inner.term_led();
        if led != term {
            watch.clear();
            inner.copies.lock().clear();
            (term, wanted) = (led, None);
        }
        if let Some(term) = led {
            let state = Arc::clone(&states.borrow_and_update());
            let command = steps(inner, &mut watch, &state).or_else(|| {
                // Looking at everything takes a while in a large cluster that changes all the time.
                let due = looked.is_none_or(|at: Instant| at.elapsed() >= MOVE_INTERVAL);
                if due { due_moves(inner, &state, &mut wanted, &mut looked) } else { None }
            });
            if let Some(command) = command
                && let Err(error) = inner.propose(term, command).await
            {
                tracing::warn!(%error, "moves of partitions could not be carried on yet");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
        let changed = tokio::select! {
            changed = states.changed() => changed,
            () = inner.copied.notified() => Ok(()),
            () = tokio::time::sleep(MOVE_INTERVAL) => Ok(()),
        };
        if changed.is_err() {
            return;
        }
    }
}

/// The next steps of moves that go on.
fn steps(inner: &Inner, watch: &mut MoveWatch, state: &ClusterState) -> Option<Command> {
    let steps = watch.steps(state, &inner.copies.lock(), Instant::now());
    for step in &steps {
        tracing::info!(partition = %step.partition, action = ?step.action, "moving a partition");
    }
    (!steps.is_empty()).then_some(Command::AdvanceMoves { steps })
}

/// Moves to begin, once the same need has been there for a while.
fn due_moves(
    inner: &Inner,
    state: &ClusterState,
    wanted: &mut Option<Instant>,
    looked: &mut Option<Instant>,
) -> Option<Command> {
    let now = Instant::now();
    *looked = Some(now);
    let plan = placement::moves::due(state, &inner.options.placement);
    if plan.is_empty() {
        *wanted = None;
        return None;
    }
    if now.duration_since(*wanted.get_or_insert(now)) < inner.options.settle {
        return None;
    }
    *wanted = None;
    tracing::info!(%plan, "moving partitions");
    Some(plan.into_command())
}

/// Waits for a moment, for ever without one.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Proposes [`Command::AbandonLoad`] for every load of a table that nobody has renewed for long.
pub(super) async fn give_up_loads(inner: &Inner) {
    let patience = inner.options.load_patience;
    let mut watch = LoadWatch::new(patience);
    let mut term = None;
    let mut ticker = tokio::time::interval(patience / 20);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = Instant::now();
    loop {
        ticker.tick().await;
        let now = Instant::now();
        let held_up = now.duration_since(last) > patience / 2;
        last = now;
        let led = inner.term_led();
        if led != term || held_up {
            watch.clear();
            term = led;
        }
        let Some(led) = led else { continue };
        for (table, renewals) in watch.sweep(&inner.raft.state(), now) {
            tracing::warn!(%table, "nobody carries the load of a table on, giving it up");
            if let Err(error) = inner.propose(led, Command::AbandonLoad { table, renewals: Some(renewals) }).await {
                tracing::warn!(%table, %error, "a broken-off load could not be given up yet");
            }
        }
        // Proposing takes its time, too.
        last = last.max(Instant::now());
    }
}

/// Reports broken invariants of the local state as a metric and in the log.
pub(super) async fn check_invariants(inner: &Inner) {
    let mut ticker = tokio::time::interval(CHECK_INTERVAL);
    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticker.tick().await;
        let state = inner.raft.state();
        // A large state takes a while.
        let Ok(found) = tokio::task::spawn_blocking(move || violations(&state)).await else { continue };
        for violation in &found {
            tracing::error!(violation, "the replicated state is not sound");
        }
        metrics::gauge!("ancho_scheduler_state_violations").set(u32::try_from(found.len()).unwrap_or(u32::MAX));
    }
}

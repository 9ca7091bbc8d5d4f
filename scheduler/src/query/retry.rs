//! Trying again: a statement whose partition has no serving owner waits for one, as long as nothing was sent or changed.
use std::{future::Future, sync::Arc, time::Duration};

use ancho_common::error::{Error, ErrorKind, Result};
use tokio::time::Instant;

use crate::{
    planner::{refusal::PlanResult, session::PlanOptions},
    raft::RaftNode,
    state::ClusterState,
};

/// Pause before the next try, unless the state changes first.
const PAUSE: Duration = Duration::from_millis(250);

/// Runs `attempt` on the newest state, again and again while it fails for a reason that passes: an owner that is down,
/// a partition that is being loaded, a route that is out of date. A plan that is refused is made again as the refusal
/// says.
///
/// # Errors
/// What the last attempt raised; `Unavailable` at once where no majority of schedulers is reached.
pub async fn until_served<T, F, Fut>(node: &RaftNode, wait: Duration, mut attempt: F) -> Result<T>
where
    F: FnMut(Arc<ClusterState>, PlanOptions) -> Fut,
    Fut: Future<Output = PlanResult<T>>,
{
    let deadline = Instant::now() + wait;
    let mut options = PlanOptions::default();
    let mut changes = node.watch();
    loop {
        let state = node.linearizable().await?;
        changes.borrow_and_update();
        let failure = match attempt(state, options).await {
            Ok(value) => return Ok(value),
            Err(failure) => failure,
        };
        if let Some(next) = failure.replan.and_then(|replan| replan.next(options)) {
            options = next;
            continue;
        }
        let error = failure.error;
        if !passes(&error) || Instant::now() >= deadline {
            return Err(surface(error));
        }
        tracing::debug!(%error, "trying a statement again");
        // A changed state is tried at once, but not in a hot loop.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _ = tokio::time::timeout(PAUSE, changes.changed()).await;
    }
}

/// First pause after a conflict; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(8);
/// Longest pause after a conflict.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// Runs a statement from its start again while other writes come between, for at most `wait`: a conflict means that it
/// changed nothing.
///
/// # Errors
/// What the last run raised.
pub async fn until_alone<T, F, Fut>(wait: Duration, mut statement: F) -> Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + wait;
    let mut pause = FIRST_PAUSE;
    loop {
        let outcome = statement().await;
        match outcome {
            Err(error) if error.kind == ErrorKind::Conflict && Instant::now() < deadline => {
                tracing::debug!(%error, "running a statement again");
                tokio::time::sleep(pause.mul_f64(random())).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            other => return other,
        }
    }
}

/// Between 0 and 1, so that writers that met do not meet again.
fn random() -> f64 {
    f64::from(uuid::Uuid::new_v4().as_fields().0) / f64::from(u32::MAX)
}

fn passes(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Unavailable | ErrorKind::StaleRoute)
}

/// What a client sees: an outdated route is nothing it knows of.
#[must_use]
pub fn surface(error: Error) -> Error {
    match error.kind {
        ErrorKind::StaleRoute => Error::unavailable(error.message),
        _ => error,
    }
}

//! Trying again: a statement whose partition has no serving owner waits for one, as long as nothing was sent or changed.
use std::{future::Future, sync::Arc, time::Duration};

use ancho_common::error::{Error, ErrorKind, Result};
use tokio::time::Instant;

use crate::{
    planner::{
        gather::NEEDS_ONE_PIECE, guard::ORDER_ACROSS_SHUFFLE, handlers::NARROW_BUCKETED_STAGE, session::PlanOptions,
    },
    raft::RaftNode,
    state::ClusterState,
};

/// Pause before the next try, unless the state changes first.
const PAUSE: Duration = Duration::from_millis(250);

/// What the engine says when it reckons from the bounds of columns that more rows pass a filter than there are
/// (`ts >= CAST(ts AS DATE)`).
const BOUNDS_MISUSED: &str = "Selectivity is out of limit";

/// Runs `attempt` on the newest state, again and again while it fails for a reason that passes: an owner that is down,
/// a partition that is being loaded, a route that is out of date.
///
/// # Errors
/// What the last attempt raised; `Unavailable` at once where no majority of schedulers is reached.
pub async fn until_served<T, F, Fut>(node: &RaftNode, wait: Duration, mut attempt: F) -> Result<T>
where
    F: FnMut(Arc<ClusterState>, PlanOptions) -> Fut,
    Fut: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + wait;
    let mut options = PlanOptions::default();
    let mut changes = node.watch();
    loop {
        let state = node.linearizable().await?;
        changes.borrow_and_update();
        let error = match attempt(state, options).await {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        if error.message.contains(NARROW_BUCKETED_STAGE) && options.colocate {
            options.colocate = false;
            continue;
        }
        let in_one_piece = [ORDER_ACROSS_SHUFFLE, NEEDS_ONE_PIECE].iter().any(|m| error.message.contains(m));
        if in_one_piece && !options.gather {
            options.gather = true;
            continue;
        }
        if error.message.contains(BOUNDS_MISUSED) && options.bounds {
            options.bounds = false;
            continue;
        }
        if !passes(&error) || Instant::now() >= deadline {
            return Err(surface(error));
        }
        tracing::debug!(%error, "trying a statement again");
        // A changed state is tried at once, but not in a hot loop.
        tokio::time::sleep(Duration::from_millis(20)).await;
        let _ = tokio::time::timeout(PAUSE, changes.changed()).await;
    }
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

//! Waiting for a condition instead of for a time.
use std::{future::Future, time::Duration};

use anyhow::bail;
use tokio::time::{Instant, sleep, timeout_at};

/// Asks `probe` until it gives a value. An error is a reason to ask again, and is told if the time runs out.
///
/// # Errors
/// No value came within `limit`.
pub async fn wait_until<T, F, Fut>(what: &str, limit: Duration, mut probe: F) -> anyhow::Result<T>
where
    F: FnMut() -> Fut,
    Fut: Future<Output = anyhow::Result<Option<T>>>,
{
    let start = Instant::now();
    let deadline = start + limit;
    let mut last = String::from("it was not so");
    while Instant::now() < deadline {
        match timeout_at(deadline, probe()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => last = format!("{error:#}"),
            Err(_) => last = format!("no reply; before that: {last}"),
        }
        sleep(Duration::from_millis(50)).await;
    }
    bail!("{what}: not within {limit:?}; last: {last}")
}

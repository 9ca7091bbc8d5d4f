//! Who may use the machine: tests that measure time or kill processes run alone, the others side by side.
//!
//! A lock on a file serves test runners that start a process per test as well as those that start a thread.
use std::{env, fs::File, path::PathBuf};

use anyhow::Context;

/// Held for as long as a test runs.
#[derive(Debug)]
pub struct Turn {
    _file: File,
}

/// Waits for a turn together with other shared ones.
///
/// # Errors
/// The lock file cannot be opened or locked.
pub async fn shared() -> anyhow::Result<Turn> {
    take(false).await
}

/// Waits for a turn without company.
///
/// # Errors
/// As [`shared`].
pub async fn alone() -> anyhow::Result<Turn> {
    take(true).await
}

async fn take(alone: bool) -> anyhow::Result<Turn> {
    tokio::task::spawn_blocking(move || {
        let path = scratch_dir()?.join("turns.lock");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        let locked = if alone { file.lock() } else { file.lock_shared() };
        locked.with_context(|| format!("lock {}", path.display()))?;
        Ok(Turn { _file: file })
    })
    .await
    .context("wait for a turn")?
}

/// A folder that all test processes of this user share.
///
/// # Errors
/// It cannot be created.
pub fn scratch_dir() -> anyhow::Result<PathBuf> {
    let user = env::var("USER").unwrap_or_else(|_| "user".to_owned());
    let dir = env::temp_dir().join(format!("ancho-tests-{user}"));
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    Ok(dir)
}

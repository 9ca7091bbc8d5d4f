//! What the two server roles share: their ready line, their end, and being started in the background.
use std::{fs, path::Path};

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or SIGINT. A hang-up of the terminal ends only what runs in its foreground group, so it is
/// taken here and means nothing.
pub(super) async fn stop_signal() -> anyhow::Result<&'static str> {
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let mut hangup = signal(SignalKind::hangup()).context("listen for SIGHUP")?;
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok("SIGTERM"),
            _ = interrupt.recv() => return Ok("SIGINT"),
            _ = hangup.recv() => tracing::info!("hang-up ignored"),
        }
    }
}

/// Leaves the terminal's session, so that closing the terminal or pressing Ctrl-C in it does not end this process.
pub(super) fn detach(detached: bool) {
    if detached && let Err(error) = nix::unistd::setsid() {
        tracing::warn!("this process stays in its terminal's session: {error}");
    }
}

/// Says that the server is up: on standard output, and in `file` for whoever started it.
pub(super) fn announce(line: &str, file: Option<&Path>) -> anyhow::Result<()> {
    use std::io::Write;
    // Whoever closed the pipe is not interested; the server goes on.
    let _ = writeln!(std::io::stdout(), "{line}");
    let Some(file) = file else { return Ok(()) };
    let staged = file.with_extension("tmp");
    fs::write(&staged, format!("{}\n{line}\n", std::process::id()))
        .and_then(|()| fs::rename(&staged, file))
        .with_context(|| format!("write {}", file.display()))
}

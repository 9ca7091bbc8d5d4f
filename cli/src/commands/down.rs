//! `ancho down`: stops what `ancho up` started.
use std::{io::Write, path::PathBuf};

use crate::local::{self, How};

/// What to stop.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory that was given to `ancho up`
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// End the processes at once, without letting them finish
    #[arg(long)]
    kill: bool,
}

/// Stops it and tells what was stopped.
///
/// # Errors
/// A process could not be stopped.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let stopped = local::down(&args.data_dir, args.kill).await?;
    let mut out = std::io::stdout().lock();
    if stopped.is_empty() {
        writeln!(out, "nothing runs in {}", args.data_dir.display())?;
    }
    let mut left = 0;
    for process in &stopped {
        let name = format!("{} (process {})", process.name, process.pid);
        match &process.how {
            How::Gracefully => writeln!(out, "stopped {name}")?,
            How::Killed => writeln!(out, "killed {name}")?,
            How::KilledAfterWaiting => writeln!(out, "killed {name}, which did not stop in time")?,
            How::Not(reason) => {
                left += 1;
                writeln!(out, "{name} still runs: {reason}")?;
            }
        }
    }
    anyhow::ensure!(left == 0, "{left} of {} processes could not be stopped", stopped.len());
    Ok(())
}

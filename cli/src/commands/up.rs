//! `ancho up`: a cluster of processes on this machine.
use std::{io::Write, path::PathBuf, time::Duration};

use crate::{
    local::{self, ClusterFile, StartFailure, UpOptions},
    output::{Reported, program},
    values::duration,
};

/// What to start.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of schedulers: 1, 3 or 5
    #[arg(long, value_name = "N", default_value_t = 1)]
    schedulers: usize,
    /// Number of executors
    #[arg(long, value_name = "N", default_value_t = 2)]
    executors: usize,
    /// Directory for data, logs and cluster.json
    #[arg(long, value_name = "DIR")]
    data_dir: PathBuf,
    /// First of the ports to use; by default free ones are taken
    #[arg(long, value_name = "PORT")]
    base_port: Option<u16>,
    /// Streams per task of each executor; by default one per core
    #[arg(long, value_name = "N")]
    streams: Option<u32>,
    /// Longest time until everything is ready
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = duration)]
    timeout: Duration,
}

/// Starts what does not run, waits until it serves, and prints the addresses.
///
/// # Errors
/// A process did not come up; the end of its log is shown.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let options = UpOptions {
        data_dir: args.data_dir.clone(),
        schedulers: args.schedulers,
        executors: args.executors,
        base_port: args.base_port,
        streams: args.streams,
        timeout: args.timeout,
        program: None,
    };
    let tell = |text: &str| eprintln!("{text}");
    let started = local::up(&options, &tell).await.map_err(report)?;
    let mut out = std::io::stdout().lock();
    let shown = args.data_dir.display();
    if started.started.is_empty() {
        writeln!(out, "the cluster in {shown} is already running")?;
    } else {
        writeln!(out, "the cluster in {shown} is up")?;
    }
    print_addresses(&started.cluster, &mut out)?;
    let program = program();
    if let Some(url) = started.cluster.flight_urls.first() {
        writeln!(out, "\nconnect   {program} sql --url {url}")?;
        writeln!(out, "look      {program} cluster status --url {url}")?;
    }
    writeln!(out, "stop      {program} down --data-dir {shown}")?;
    Ok(())
}

fn print_addresses(cluster: &ClusterFile, out: &mut dyn Write) -> anyhow::Result<()> {
    for s in &cluster.schedulers {
        writeln!(
            out,
            "{:<12} Flight SQL grpc://{}   HTTP http://{}   metrics http://{}/metrics",
            s.name, s.flight, s.http, s.metrics
        )?;
    }
    for e in &cluster.executors {
        writeln!(out, "{:<12} http://{}", e.name, e.address)?;
    }
    Ok(())
}

/// Shows a log's lines as they are; the one-line form of other errors would run them together.
pub(super) fn report(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<StartFailure>() {
        Some(failure) => {
            eprintln!("error: {failure}");
            anyhow::Error::new(Reported)
        }
        None => error,
    }
}

//! `ancho executor`: one executor, until it is told to stop.
use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
};

use ancho_executor::{Executor, ExecutorOptions};

use super::server;
use crate::values::{bytes, fraction, http_url};

/// Options of an executor.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// URLs of the schedulers' internal services; one is enough, the others are learned
    #[arg(
        long,
        value_name = "URL,…",
        value_delimiter = ',',
        value_parser = http_url,
        required = true,
        env = "ANCHO_SCHEDULER_ADDRESS"
    )]
    scheduler_address: Vec<String>,
    /// Directory of its own: identity and partitions
    #[arg(long, value_name = "DIR", env = "ANCHO_DATA_DIR")]
    data_dir: PathBuf,
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", env = "ANCHO_BIND")]
    bind: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, value_name = "PORT", default_value_t = 50053)]
    port: u16,
    /// URL at which schedulers and other executors reach it; needed when listening on all addresses
    #[arg(long, value_name = "URL", value_parser = http_url, env = "ANCHO_ADVERTISE_URL")]
    advertise_url: Option<String>,
    /// Streams per task of a plan; by default one per core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    streams: Option<u32>,
    /// Memory for queries, writes and compaction together, as 4GiB (the default)
    #[arg(long, visible_alias = "memory-limit", value_name = "SIZE", value_parser = bytes)]
    memory: Option<u64>,
    /// Share of the memory that is compaction's, from 0.05 to 0.5
    #[arg(long, value_name = "FRACTION", default_value_t = 0.2, value_parser = fraction)]
    compaction_memory_fraction: f64,
    /// Partitions that are compacted at the same time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=256))]
    compaction_threads: u32,
    /// Memory for footers of data files, beside the other memory
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = bytes)]
    footer_cache: u64,
    /// Space that writes leave free on the disk of the data directory: with less no rows are taken in, and reads go on; by
    /// default a twentieth of the disk, at most 1GiB
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    disk_reserve: Option<u64>,
    /// Bytes per second that copies of partitions from other executors may take, all together; no limit by default
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    copy_rate: Option<u64>,
    /// Port for Prometheus: /metrics, at the address it listens on; without it nothing is served
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,
    /// Leave the terminal's session (set by `ancho up`)
    #[arg(long, hide = true)]
    detached: bool,
    /// File to write once others can connect (set by `ancho up`)
    #[arg(long, hide = true)]
    ready_file: Option<PathBuf>,
}

/// Runs it until SIGTERM or SIGINT.
///
/// # Errors
/// It cannot start (its directory is in use, or belongs to another cluster), or ends by itself.
pub async fn run(args: Args) -> anyhow::Result<()> {
    server::detach(args.detached);
    if args.bind.is_unspecified() && args.advertise_url.is_none() {
        anyhow::bail!(
            "--bind {} has no address that others could connect to: give --advertise-url http://this-host:{}",
            args.bind,
            args.port
        );
    }
    let mut options = ExecutorOptions::new(args.data_dir, args.scheduler_address);
    options.bind = SocketAddr::new(args.bind, args.port);
    options.metrics = args.metrics_port.map(|port| SocketAddr::new(args.bind, port));
    options.advertise_url = args.advertise_url;
    options.streams = args.streams.unwrap_or(options.streams);
    options.memory_bytes = args.memory.unwrap_or(options.memory_bytes);
    options.compaction_memory_fraction = args.compaction_memory_fraction;
    options.compaction_threads = usize::try_from(args.compaction_threads)?;
    options.footer_cache_bytes = args.footer_cache;
    options.disk_reserve_bytes = args.disk_reserve;
    options.copy_bytes_per_second = args.copy_rate;
    let handle = Executor::start(options).await?;
    let metrics = handle.metrics_address().map(|at| format!(", metrics http://{at}/metrics")).unwrap_or_default();
    let line = format!("executor ready: {} at {}{metrics}", handle.id(), handle.url());
    server::announce(&line, args.ready_file.as_deref())?;
    tokio::select! {
        signal = server::stop_signal() => tracing::info!("{}: stopping", signal?),
        ended = handle.wait() => {
            ended?;
            anyhow::bail!("the executor ended by itself; its log says why");
        }
    }
    handle.shutdown().await;
    Ok(())
}

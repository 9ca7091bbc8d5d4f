//! `ancho scheduler`: one scheduler of the group, until it is told to stop.
use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use ancho_scheduler::{Scheduler, SchedulerOptions};

use super::server;
use crate::values::{bytes, duration, peer};

/// Options of a scheduler. A group has 1, 3 or 5 members; each is started with the same list of peers.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Directory of its own: identity, log and snapshots of the group
    #[arg(long, value_name = "DIR", env = "ANCHO_DATA_DIR")]
    data_dir: PathBuf,
    /// Number in the group; by default the stored one, or that of the peer with the advertised URL
    #[arg(long, value_name = "N", env = "ANCHO_NODE_ID")]
    node_id: Option<u64>,
    /// All members with the URLs of their internal services, as 1=http://a:50052,2=http://b:50052
    #[arg(long, value_name = "N=URL,…", value_delimiter = ',', value_parser = peer, env = "ANCHO_PEERS")]
    peers: Vec<(u64, String)>,
    /// Address to listen on
    #[arg(long, value_name = "IP", default_value = "127.0.0.1", env = "ANCHO_BIND")]
    bind: IpAddr,
    /// Port for Flight SQL; 0 takes a free one, as for the other ports
    #[arg(long, value_name = "PORT", default_value_t = 50051)]
    flight_port: u16,
    /// Port for HTTP: /health, /v1/ready, /v1/sql
    #[arg(long, value_name = "PORT", default_value_t = 8090)]
    http_port: u16,
    /// Port for Prometheus: /metrics
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    metrics_port: u16,
    /// Port for the other schedulers and for executors
    #[arg(long, value_name = "PORT", default_value_t = 50052)]
    internal_port: u16,
    /// URL at which the others reach the internal service; needed when listening on all addresses
    #[arg(long, value_name = "URL", env = "ANCHO_ADVERTISE_URL")]
    advertise_url: Option<String>,
    /// Longest time that a query waits for a partition without a loaded owner
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    partition_wait: Duration,
    /// Folder with files that COPY may read and write on this machine and on those of the executors; repeatable
    #[arg(long, value_name = "FOLDER", env = "ANCHO_LOCAL_FILES", value_delimiter = ':')]
    local_files: Vec<PathBuf>,
    /// Longest time that nobody goes on with an open transaction before it is rolled back
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    transaction_idle: Duration,
    /// Time without a sign of life after which an executor's session ends
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    session_ttl: Duration,
    /// Time that an executor is down before others take over its partitions that are in a snapshot
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    failover_after: Duration,
    /// Streams per task of a plan; by default what the executors offer
    #[arg(long, value_name = "N")]
    streams: Option<usize>,
    /// Memory for the parts of queries that run here, as 2GiB (the default)
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<usize>,
    /// Leave the terminal's session (set by `ancho up`)
    #[arg(long, hide = true)]
    detached: bool,
    /// File to write once clients can connect (set by `ancho up`)
    #[arg(long, hide = true)]
    ready_file: Option<PathBuf>,
}

/// Runs it until SIGTERM or SIGINT.
///
/// # Errors
/// It cannot start, or ends by itself.
pub async fn run(args: Args) -> anyhow::Result<()> {
    server::detach(args.detached);
    let ready_file = args.ready_file.clone();
    let handle = Scheduler::start(options(args)?).await?;
    let optional =
        |name: &str, address: Option<SocketAddr>| address.map_or(String::new(), |a| format!(", {name} http://{a}"));
    let line = format!(
        "scheduler ready: Flight SQL grpc://{}{}{}, internal http://{}",
        handle.flight_addr(),
        optional("HTTP", handle.http_addr()),
        optional("metrics", handle.metrics_addr()),
        handle.internal_addr(),
    );
    server::announce(&line, ready_file.as_deref())?;
    tokio::select! {
        signal = server::stop_signal() => tracing::info!("{}: stopping", signal?),
        error = handle.wait() => return Err(anyhow::Error::new(error).context("the scheduler ended by itself")),
    }
    handle.shutdown().await;
    Ok(())
}

fn options(args: Args) -> anyhow::Result<SchedulerOptions> {
    if args.bind.is_unspecified() && args.advertise_url.is_none() {
        anyhow::bail!(
            "--bind {} has no address that others could connect to: give --advertise-url http://this-host:{}",
            args.bind,
            args.internal_port
        );
    }
    let mut peers = BTreeMap::new();
    for (id, url) in args.peers {
        if peers.insert(id, url).is_some() {
            anyhow::bail!("--peers lists node {id} twice");
        }
    }
    let at = |port| SocketAddr::new(args.bind, port);
    Ok(SchedulerOptions {
        data_dir: args.data_dir,
        node_id: args.node_id,
        internal: at(args.internal_port),
        flight: at(args.flight_port),
        http: Some(at(args.http_port)),
        metrics: Some(at(args.metrics_port)),
        advertise_url: args.advertise_url,
        peers,
        session_ttl: args.session_ttl,
        failover_after: args.failover_after,
        partition_wait: args.partition_wait,
        local_files: args.local_files,
        transaction_idle: args.transaction_idle,
        streams: args.streams,
        memory_bytes: args.memory,
    })
}

fn memory(text: &str) -> Result<usize, String> {
    usize::try_from(bytes(text)?).map_err(|_| format!("`{text}` is more than this machine can address"))
}

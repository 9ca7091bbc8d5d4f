//! `ancho bench`: a cluster measured, next to peers on the same data and the same cores.
mod peers;
mod storage;

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use ancho_benchmarks::{
    runner::{FlightSqlEngine, SqlEngine, SuiteOptions, run_suite},
    tpch::{AnswerKey, DEFAULT_BUCKETS, GeneratedData},
};
use anyhow::Context;
use clap::{Subcommand, ValueEnum};

use self::storage::StorageArgs;
use super::{server::stop_signal, up::report};
use crate::{
    connection,
    local::{self, UpOptions},
    output::{Reported, grouped, time},
    tpch,
    values::scale,
};

/// What to measure.
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The 22 queries of TPC-H
    Tpch(TpchArgs),
    /// Loads, upserts, deletes, single-row inserts and look-ups by key, beside DuckDB and SQLite
    Storage(StorageArgs),
}

/// Systems to run the same queries on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// DuckDB from PyPI, on its own native file
    Duckdb,
    /// DataFusion in this process, over the cluster's Vortex files and over the Parquet files
    Datafusion,
}

/// How to measure.
#[derive(Debug, clap::Args)]
pub struct TpchArgs {
    /// Scale factor: 1 is 1 GB of raw data
    #[arg(long, value_name = "S", default_value = "0.1", value_parser = scale)]
    scale: f64,
    /// Executors of the cluster to start
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    executors: u16,
    /// Compare all rows with the right ones: stored at scales 0.01 and 1, else those of single-process DataFusion
    #[arg(long)]
    verify: bool,
    /// Timed runs per query, after one that is not timed
    #[arg(long, value_name = "R", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeat: u16,
    /// Systems to compare with, in the same call on the same data
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PEER,…")]
    peers: Vec<Peer>,
    /// Write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measure the cluster at this Flight SQL address instead of starting one; it loads the tables from this machine's
    /// files, so its executors must see them
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Partitions of each large table
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BUCKETS, value_parser = clap::value_parser!(u32).range(1..=1024))]
    buckets: u32,
    /// Directory for the generated files (kept) and the cluster (removed at the end); by default in the cache folder
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Streams per task of each executor; by default the cores divided among the executors
    #[arg(long, value_name = "N")]
    streams: Option<u32>,
    /// Leave the cluster's directory in place
    #[arg(long)]
    keep: bool,
}

/// Measures.
///
/// # Errors
/// The cluster or a peer cannot be started, or a query failed.
pub async fn run(command: BenchCommand) -> anyhow::Result<()> {
    if cfg!(debug_assertions) {
        eprintln!(
            "note: this binary is not optimised, so the times mean little; `make release` builds the one to measure"
        );
    }
    match command {
        BenchCommand::Tpch(args) => tpch(args).await,
        BenchCommand::Storage(args) => {
            let dir = working_dir(args.data_dir.as_deref())?;
            storage::run(args, &dir).await
        }
    }
}

async fn tpch(args: TpchArgs) -> anyhow::Result<()> {
    let dir = working_dir(args.data_dir.as_deref())?;
    let data = tpch::generate(&dir.join(format!("tpch-{}", args.scale)), args.scale).await?;
    if let Some(url) = &args.url {
        return measure(&args, url, &data, &dir, &[]).await;
    }
    let executors = usize::from(args.executors);
    let cluster = Cluster { dir: &dir, executors, streams: args.streams, keep: args.keep };
    let measured =
        async |url: String, executor_dirs: Vec<PathBuf>| measure(&args, &url, &data, &dir, &executor_dirs).await;
    with_cluster(&cluster, measured).await
}

fn working_dir(wanted: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = match wanted {
        Some(dir) => dir.to_owned(),
        None => default_dir()?,
    };
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    fs::canonicalize(&dir).with_context(|| format!("find {}", dir.display()))
}

/// A cluster of processes to measure.
struct Cluster<'a> {
    /// Where its directory is made.
    dir: &'a Path,
    executors: usize,
    /// Streams per task of each executor; `None` divides the cores among them.
    streams: Option<u32>,
    /// Leave its directory in place.
    keep: bool,
}

/// Starts a cluster of processes, measures it by its Flight SQL address and the executors' directories, and stops it
/// whatever happens.
async fn with_cluster(
    cluster: &Cluster<'_>,
    measure: impl AsyncFnOnce(String, Vec<PathBuf>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let cluster_dir = cluster.dir.join(format!("cluster-{}", std::process::id()));
    let streams = u32::try_from(cores().div_ceil(cluster.executors)).unwrap_or(1);
    let options = UpOptions {
        data_dir: cluster_dir.clone(),
        schedulers: 1,
        executors: cluster.executors,
        base_port: None,
        streams: Some(cluster.streams.unwrap_or(streams)),
        timeout: Duration::from_secs(60),
        program: None,
    };
    let started = local::up(&options, &|_| {}).await.map_err(report)?;
    let url = started.cluster.flight_urls.first().cloned().context("the cluster has no scheduler")?;
    let executor_dirs: Vec<PathBuf> = started.cluster.executors.iter().map(|e| cluster_dir.join(&e.name)).collect();
    let result = tokio::select! {
        result = measure(url, executor_dirs) => result,
        signal = stop_signal() => signal.and_then(|signal| Err(anyhow::anyhow!("stopped by {signal} before the end"))),
    };
    let stopped = local::down(&cluster_dir, false).await;
    if cluster.keep || result.is_err() {
        eprintln!("the cluster's directory and logs are kept in {}", cluster_dir.display());
    } else {
        fs::remove_dir_all(&cluster_dir).with_context(|| format!("remove {}", cluster_dir.display()))?;
    }
    result.and(stopped.map(|_| ()))
}

async fn measure(
    args: &TpchArgs,
    url: &str,
    data: &GeneratedData,
    dir: &Path,
    executor_dirs: &[PathBuf],
) -> anyhow::Result<()> {
    let started = std::time::Instant::now();
    tpch::load(url, data, args.buckets).await?;
    eprintln!("loaded {} rows in {}", grouped(tpch::total_rows(data)), time(started.elapsed()));
    let mut engines: Vec<Box<dyn SqlEngine>> =
        vec![Box::new(FlightSqlEngine::from_channel("ancho", connection::channel(url).await?))];
    let mut wanted = args.peers.clone();
    // Where no answers are stored, another engine's are the measure.
    let stored = AnswerKey::for_scale(args.scale).is_some();
    if args.verify && !stored && !wanted.contains(&Peer::Datafusion) {
        wanted.push(Peer::Datafusion);
    }
    engines.extend(peers::start(&wanted, data, dir, executor_dirs, cores()).await?);
    let options = SuiteOptions {
        repeat: usize::from(args.repeat),
        verify: args.verify,
        ..SuiteOptions::new(args.scale, cores())
    };
    let mut out = io::stdout();
    let report = run_suite(&mut engines, &options, &mut out).await?;
    if let Some(file) = &args.json {
        let text = report.to_json()? + "\n";
        fs::write(file, text).with_context(|| format!("write {}", file.display()))?;
    }
    out.flush()?;
    // The last line says how many failed.
    if report.failed() > 0 { Err(Reported.into()) } else { Ok(()) }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// `$XDG_CACHE_HOME/ancho/bench`, or the same under `~/.cache`.
fn default_dir() -> anyhow::Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(cache.context("no cache folder: set HOME, or give --data-dir")?.join("ancho").join("bench"))
}

//! `ancho demo`: a cluster in this process, TPC-H loaded into it, and the 22 queries checked.
//!
//! Scheduler and executors are the ones of the server commands; they talk over loopback with the real protocols.
mod embedded;
mod queries;

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    time::Instant,
};

use ancho_benchmarks::tpch::DEFAULT_BUCKETS;
use anyhow::Context;

use self::embedded::EmbeddedCluster;
use super::server::stop_signal;
use crate::{
    output::{counted, grouped},
    tpch,
    values::scale,
};

/// How large a demonstration.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of executors
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    executors: u16,
    /// TPC-H scale factor: 1 is 1 GB of raw data
    #[arg(long, value_name = "S", default_value = "0.05", value_parser = scale)]
    scale: f64,
    /// Directory to keep data in; by default a temporary one, removed at the end
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Stay up after the queries, to be connected to
    #[arg(long)]
    serve: bool,
    /// Partitions of each large table
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BUCKETS, value_parser = clap::value_parser!(u32).range(1..=1024))]
    buckets: u32,
}

/// Runs it.
///
/// # Errors
/// Something failed, or an answer was wrong.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let temporary;
    let dir = match &args.data_dir {
        Some(dir) => {
            std::fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
            std::fs::canonicalize(dir).with_context(|| format!("find {}", dir.display()))?
        }
        None => {
            temporary =
                tempfile::Builder::new().prefix("ancho-demo-").tempdir().context("create a temporary directory")?;
            temporary.path().to_owned()
        }
    };
    let cluster = EmbeddedCluster::start(&dir, usize::from(args.executors), args.serve).await?;
    // Ctrl-C must not leave the temporary directory behind.
    let shown = tokio::select! {
        shown = show(&args, &dir, &cluster) => shown,
        signal = stop_signal() => signal.and_then(|signal| Err(anyhow::anyhow!("stopped by {signal} before the end"))),
    };
    let result = match shown {
        Ok(()) if args.serve => serve(&cluster).await,
        Ok(()) => hints(),
        Err(error) => Err(error),
    };
    cluster.shutdown().await;
    result
}

async fn show(args: &Args, dir: &Path, cluster: &EmbeddedCluster) -> anyhow::Result<()> {
    // Not locked: progress bars and the stop handling run at the same time.
    let mut out = io::stdout();
    let url = cluster.url();
    writeln!(
        out,
        "cluster up: 1 scheduler at {url}, {} (all in this process, over loopback)",
        counted(u64::from(args.executors), "executor")
    )?;
    let started = Instant::now();
    let data = tpch::generate(&dir.join("tpch"), args.scale).await?;
    writeln!(
        out,
        "TPC-H at scale {}: {} rows in 8 tables as Parquet ({})",
        args.scale,
        grouped(tpch::total_rows(&data)),
        crate::output::time(started.elapsed())
    )?;
    let started = Instant::now();
    tpch::load(url, &data, args.buckets).await?;
    writeln!(
        out,
        "loaded through the cluster: {} per large table, every row counted ({})",
        counted(u64::from(args.buckets), "partition"),
        crate::output::time(started.elapsed())
    )?;
    let verdict = queries::run(url, &data).await?;
    writeln!(out, "{}", verdict.table())?;
    writeln!(out, "{}", verdict.summary())?;
    if verdict.wrong() > 0 {
        anyhow::bail!("{} of the {} queries went wrong", verdict.wrong(), verdict.total());
    }
    Ok(())
}

fn hints() -> anyhow::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "\nnext, with {}:", crate::output::program())?;
    for (command, what) in [
        ("demo --serve", "the same, and stays up to be queried"),
        ("demo --executors 4 --scale 0.2", "more executors, more data"),
        ("up --schedulers 3 --executors 3 --data-dir D", "a cluster of separate processes"),
        ("bench tpch --scale 1 --executors 2 --verify", "measured; build with `make release` first"),
    ] {
        writeln!(out, "  {command:<46} {what}")?;
    }
    Ok(())
}

async fn serve(cluster: &EmbeddedCluster) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let url = cluster.url();
    writeln!(out, "\nthe cluster stays up until Ctrl-C. Connect with")?;
    writeln!(out, "  {} sql --url {url}", crate::output::program())?;
    writeln!(out, "or from Python (pip install adbc-driver-flightsql pyarrow):")?;
    writeln!(out, "  from adbc_driver_flightsql import dbapi")?;
    writeln!(out, "  with dbapi.connect(\"{url}\") as connection, connection.cursor() as cursor:")?;
    writeln!(out, "      cursor.execute(\"select count(*) from lineitem\")")?;
    writeln!(out, "      print(cursor.fetch_arrow_table())")?;
    if let Some(http) = cluster.http() {
        writeln!(out, "or over HTTP")?;
        writeln!(out, "  curl -d 'select count(*) from lineitem' http://{http}/v1/sql")?;
    }
    out.flush()?;
    let signal = stop_signal().await?;
    writeln!(out, "{signal}: stopping")?;
    Ok(())
}

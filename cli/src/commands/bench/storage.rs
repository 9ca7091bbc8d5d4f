//! `ancho bench storage`: writes, look-ups and scans of changed tables beside DuckDB and SQLite.
use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use ancho_benchmarks::{
    python::PythonEnv,
    storage::{Loader, StorageOptions, run_storage},
    tpch::DEFAULT_BUCKETS,
};
use anyhow::Context;
use async_trait::async_trait;

use super::{Cluster, cores, with_cluster};
use crate::{commands::apply, connection::Connection, tpch, values::scale};

/// How to measure.
#[derive(Debug, clap::Args)]
pub struct StorageArgs {
    /// Scale factor of the table `lineitem`: 1 is 6 million rows
    #[arg(long, value_name = "S", default_value = "0.1", value_parser = scale)]
    pub(super) scale: f64,
    /// Executors of the cluster to start
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=64))]
    executors: u16,
    /// Partitions of each table
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BUCKETS, value_parser = clap::value_parser!(u32).range(1..=1024))]
    buckets: u32,
    /// How long clients insert single rows
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    insert_seconds: u64,
    /// Write the figures as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Directory for the generated files (kept) and the cluster (removed at the end); by default in the cache folder
    #[arg(long, value_name = "DIR")]
    pub(super) data_dir: Option<PathBuf>,
    /// Leave the cluster's directory in place
    #[arg(long)]
    keep: bool,
}

/// Measures.
///
/// # Errors
/// A part failed, or the two sides hold different rows.
pub(super) async fn run(args: StorageArgs, dir: &Path) -> anyhow::Result<()> {
    let data = tpch::generate(&dir.join(format!("tpch-{}", args.scale)), args.scale).await?;
    let python = tokio::task::spawn_blocking(|| PythonEnv::ensure(None)).await.context("prepare Python")??;
    let work_dir = dir.join(format!("storage-{}", std::process::id()));
    let cluster = Cluster { dir, executors: usize::from(args.executors), streams: None, keep: args.keep };
    let measured = with_cluster(&cluster, async |url: String, executor_dirs: Vec<PathBuf>| {
        let mut loader = Applying(Connection::open(&url).await?);
        let options = StorageOptions {
            url,
            executor_dirs,
            work_dir: work_dir.clone(),
            cores: cores(),
            insert_seconds: args.insert_seconds,
            buckets: args.buckets,
        };
        let mut out = io::stdout();
        let report = run_storage(&mut loader, &data, &python, &options, &mut out).await?;
        if let Some(file) = &args.json {
            fs::write(file, report.to_json()? + "\n").with_context(|| format!("write {}", file.display()))?;
        }
        Ok(out.flush()?)
    });
    let measured = measured.await;
    if !args.keep && work_dir.exists() {
        fs::remove_dir_all(&work_dir).with_context(|| format!("remove {}", work_dir.display()))?;
    }
    measured
}

struct Applying(Connection);

#[async_trait]
impl Loader for Applying {
    async fn apply(&mut self, yaml: &str) -> anyhow::Result<u64> {
        let reply = apply::send(&mut self.0, yaml).await?;
        if let Some(failure) = reply.failures().next() {
            return Err(failure.into());
        }
        Ok(reply.changes.iter().filter_map(|change| change.rows).sum())
    }
}

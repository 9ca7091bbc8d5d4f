//! The systems that run the same queries as the cluster.
use std::path::{Path, PathBuf};

use ancho_benchmarks::{
    python::PythonEnv,
    runner::{DataFusionEngine, DuckDbEngine, SqlEngine},
    tpch::GeneratedData,
};
use anyhow::Context;

use super::Peer;

/// Starts the peers. The one whose answers serve as a measure (DataFusion over Parquet) comes last. `executor_dirs`
/// are the data directories of the cluster's executors, where they are on this machine.
pub(super) async fn start(
    wanted: &[Peer],
    data: &GeneratedData,
    dir: &Path,
    executor_dirs: &[PathBuf],
    cores: usize,
) -> anyhow::Result<Vec<Box<dyn SqlEngine>>> {
    let mut engines: Vec<Box<dyn SqlEngine>> = Vec::new();
    if wanted.contains(&Peer::Duckdb) {
        engines.push(Box::new(duckdb(data, dir, cores).await?));
    }
    if wanted.contains(&Peer::Datafusion) {
        if !executor_dirs.is_empty() {
            let vortex = DataFusionEngine::over_cayenne(executor_dirs, data, cores).await;
            engines.push(Box::new(vortex.context("read the cluster's files in this process")?));
        }
        engines.push(Box::new(DataFusionEngine::over_parquet(data, cores).await?));
    }
    Ok(engines)
}

async fn duckdb(data: &GeneratedData, dir: &Path, cores: usize) -> anyhow::Result<DuckDbEngine> {
    let python = tokio::task::spawn_blocking(|| PythonEnv::ensure(None)).await.context("prepare Python")??;
    let database = dir.join(format!("tpch-{}.duckdb", data.scale));
    DuckDbEngine::start(&python, &database, data, cores).await
}

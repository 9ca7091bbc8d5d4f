//! Source files for loading tests, written by DataFusion from a query.
use std::path::{Path, PathBuf};

use ancho_benchmarks::tpch::{GeneratedData, write_parquet};
use anyhow::Context;
use datafusion::prelude::SessionContext;

use crate::turns::scratch_dir;

/// Writes the rows of a query to a new file, as Parquet or CSV by its extension.
///
/// # Errors
/// The query fails or the file cannot be written.
pub async fn write_file(path: &Path, query: &str) -> anyhow::Result<()> {
    let parent = path.parent().context("a file needs a folder")?;
    std::fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
    let format = match path.extension().and_then(|e| e.to_str()) {
        Some("csv") => "CSV OPTIONS ('format.has_header' 'true')",
        _ => "PARQUET",
    };
    let sql = format!("COPY ({query}) TO '{}' STORED AS {format}", path.display());
    let frame = SessionContext::new().sql(&sql).await.with_context(|| format!("plan {sql}"))?;
    frame.collect().await.with_context(|| format!("run {sql}"))?;
    Ok(())
}

/// TPC-H as Parquet files, generated once for all tests of this user. Blocks.
///
/// # Errors
/// The files cannot be written.
pub fn tpch(scale: f64) -> anyhow::Result<GeneratedData> {
    let dir: PathBuf = scratch_dir()?.join(format!("tpch-{scale}"));
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let path = dir.with_file_name(format!("tpch-{scale}.lock"));
    let lock = std::fs::File::create(&path).with_context(|| format!("create {}", path.display()))?;
    lock.lock().with_context(|| format!("lock {}", path.display()))?;
    write_parquet(&dir, scale, 4, &|_| {})
}

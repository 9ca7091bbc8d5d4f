//! TPC-H data as Parquet files and as tables of a cluster, with progress bars.
use std::{
    convert::Infallible,
    path::{Path, PathBuf},
    time::Duration,
};

use ancho_benchmarks::tpch::{self, GeneratedData, Table, schema::datasets_yaml};
use anyhow::{Context, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::{commands::apply, connection::Connection, output::grouped};

/// Files per large table: enough for two executors to read side by side.
const FILES_PER_TABLE: u32 = 4;

/// How often the loading bar is moved.
const PAUSE: Duration = Duration::from_millis(300);

/// A progress bar on standard error; it draws nothing where that is no terminal.
#[must_use]
pub fn bar(length: u64, what: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr());
    // The template is a constant; without it the bar has its default look.
    if let Ok(style) = ProgressStyle::with_template("{prefix:<22} {bar:40.cyan/dim} {percent:>3}%  {elapsed:>4}  {msg}")
    {
        bar.set_style(style);
    }
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Writes the eight tables as Parquet files below `dir`, unless they are there already.
///
/// # Errors
/// The files cannot be written.
pub async fn generate(dir: &Path, scale: f64) -> anyhow::Result<GeneratedData> {
    let dir: PathBuf = dir.to_owned();
    let progress = bar(1, "generating TPC-H");
    let shown = progress.clone();
    let write = move || {
        tpch::write_parquet(&dir, scale, FILES_PER_TABLE, &|at| {
            shown.set_length(at.rows_expected);
            shown.set_position(at.rows_done);
            shown.set_message(at.table.name());
        })
    };
    let data = tokio::task::spawn_blocking(write).await.context("the generator ended early")?;
    progress.finish_and_clear();
    data
}

/// Rows of all tables.
#[must_use]
pub fn total_rows(data: &GeneratedData) -> u64 {
    Table::ALL.iter().map(|table| data.row_count(*table)).sum()
}

/// Makes the generated files tables of the cluster, and checks that every row arrived.
///
/// # Errors
/// The cluster cannot load them, or a table has another number of rows than the files.
pub async fn load(url: &str, data: &GeneratedData, buckets: u32) -> anyhow::Result<()> {
    let mut connection = Connection::open(url).await?;
    let yaml = datasets_yaml(&data.dir, buckets);
    let progress = bar(total_rows(data), "loading the cluster");
    let watching = connection.clone();
    let applied = tokio::select! {
        applied = apply::send(&mut connection, &yaml) => applied,
        never = watch_rows(watching, &progress) => match never {},
    };
    progress.finish_and_clear();
    let applied = applied.context("load the TPC-H tables")?;
    if let Some(failure) = applied.failures().next() {
        return Err(failure).context("load the TPC-H tables");
    }
    check_rows(&mut connection, data).await
}

/// Moves the bar to the rows that are committed. The bar is only to look at: the load itself reports what goes wrong.
async fn watch_rows(mut connection: Connection, progress: &ProgressBar) -> Infallible {
    loop {
        tokio::time::sleep(PAUSE).await;
        let Ok(status) = connection.cluster_status().await else { continue };
        let loaded = status.tables.iter().filter(|t| t.name.parse::<Table>().is_ok());
        progress.set_position(loaded.map(|t| t.rows).sum());
    }
}

async fn check_rows(connection: &mut Connection, data: &GeneratedData) -> anyhow::Result<()> {
    let status = connection.cluster_status().await?;
    for table in Table::ALL {
        let loaded = status.tables.iter().find(|t| t.name == table.name()).map(|t| t.rows);
        let generated = data.row_count(table);
        ensure!(
            loaded == Some(generated),
            "table {table} has {} rows in the cluster and {} in the files",
            loaded.map_or("no".to_owned(), grouped),
            grouped(generated),
        );
    }
    Ok(())
}

//! The run: each part on the cluster and on the peer, one right after the other.

use super::lookups::Numbers;
use super::peer::{Done, StoragePeer};
use super::report::{Better, Measure, StorageReport};
use crate::python::PythonEnv;
use crate::runner::{FlightSqlEngine, SqlEngine};
use crate::tpch::{GeneratedData, Table};
use anyhow::{Context, ensure};
use arrow::array::AsArray;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use async_trait::async_trait;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Clients that insert at the same time.
const CLIENTS: usize = 16;
/// Rows of the table in which rows are looked up by key.
const NUMBERS: i64 = 1_000_000;
/// Look-ups of each engine that has an index.
const LOOKUPS: i64 = 5_000;
/// Look-ups of the engine that has none.
const LOOKUPS_BY_SCAN: i64 = 200;
/// Columns that name a row of `lineitem`.
const KEY: [&str; 2] = ["l_orderkey", "l_linenumber"];

/// What the run asks of whoever knows the cluster.
#[async_trait]
pub trait Loader: Send {
    /// Applies a cluster spec; the number of rows that its datasets have then.
    async fn apply(&mut self, yaml: &str) -> anyhow::Result<u64>;
}

/// What to run on.
#[derive(Debug, Clone)]
pub struct StorageOptions {
    /// Flight SQL address of the cluster, whose tables `lineitem_plain`, `lineitem_keyed`, `singles` and `numbers` are not
    /// there yet.
    pub url: String,
    /// Data directories of its executors.
    pub executor_dirs: Vec<PathBuf>,
    /// A directory to work in.
    pub work_dir: PathBuf,
    /// Cores for each side.
    pub cores: usize,
    /// How long clients insert.
    pub insert_seconds: u64,
    /// Partitions of each table.
    pub buckets: u32,
}

/// Runs all parts and writes one line each.
///
/// # Errors
/// A part failed, or the two sides hold different rows.
pub async fn run_storage(
    loader: &mut dyn Loader,
    data: &GeneratedData,
    python: &PythonEnv,
    options: &StorageOptions,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<StorageReport> {
    let report = StorageReport {
        scale: data.scale,
        cores: options.cores,
        executors: options.executor_dirs.len(),
        measures: Vec::new(),
    };
    writeln!(out, "{}", report.header())?;
    let mut run = Run {
        ancho: FlightSqlEngine::connect("ancho", &options.url).await?,
        peer: StoragePeer::start(python, &options.work_dir.join("duckdb"), options.cores).await?,
        loader,
        data,
        options,
        out,
        report,
    };
    run.load().await?;
    run.size().await?;
    run.upserts().await?;
    run.deletes().await?;
    run.inserts().await?;
    run.lookups().await?;
    Ok(run.report)
}

struct Run<'a> {
    ancho: FlightSqlEngine,
    peer: StoragePeer,
    loader: &'a mut dyn Loader,
    data: &'a GeneratedData,
    options: &'a StorageOptions,
    out: &'a mut (dyn Write + Send),
    report: StorageReport,
}

impl Run<'_> {
    async fn load(&mut self) -> anyhow::Result<()> {
        for (table, key) in [("lineitem_plain", &[][..]), ("lineitem_keyed", &KEY[..])] {
            let yaml = self.dataset(table, key);
            let start = Instant::now();
            let rows = self.loader.apply(&yaml).await?;
            let ours = Done { seconds: start.elapsed().as_secs_f64(), rows };
            let theirs = self.peer.load(table, &self.files(), key).await?;
            let what = if key.is_empty() { "bulk load" } else { "bulk load with a primary key" };
            let aim = key.is_empty().then_some(0.7);
            self.add(what, ("rows/s", Better::Higher), ours.rate(), ("duckdb", theirs.rate()), aim)?;
            self.same_rows(table).await?;
        }
        Ok(())
    }

    /// Of the plain table only: it is loaded first, and its rows are the same in the Parquet file.
    async fn size(&mut self) -> anyhow::Result<()> {
        let mut bytes = 0;
        for dir in &self.options.executor_dirs {
            bytes += partition_bytes(dir, "lineitem_plain")?;
        }
        let file = self.options.work_dir.join("lineitem.zstd.parquet");
        let parquet = self.peer.parquet("lineitem_plain", &file).await?;
        let (ours, theirs) = (bytes as f64 / 1e6, parquet as f64 / 1e6);
        self.add("size on disk", ("MB", Better::Lower), ours, ("parquet, zstd", theirs), Some(1.1))
    }

    async fn upserts(&mut self) -> anyhow::Result<()> {
        let columns: Vec<String> = Table::Lineitem
            .schema()
            .fields()
            .iter()
            .map(|f| if f.name() == "l_quantity" { "l_quantity + 1".to_owned() } else { f.name().clone() })
            .collect();
        let select = format!("SELECT {} FROM lineitem_keyed WHERE l_orderkey % 400 < 4", columns.join(", "));
        let (ours, rows) = self.update(&format!("INSERT INTO lineitem_keyed {select}")).await?;
        let theirs = self.peer.change(&format!("INSERT OR REPLACE INTO lineitem_keyed {select}")).await?;
        ensure!(rows == theirs.rows, "{rows} rows upserted and {} by the peer", theirs.rows);
        let ours = Done { seconds: ours, rows };
        self.add("upserts of 1 %", ("rows/s", Better::Higher), ours.rate(), ("duckdb", theirs.rate()), None)?;
        self.same_rows("lineitem_keyed").await
    }

    async fn deletes(&mut self) -> anyhow::Result<()> {
        let sql = "SELECT l_returnflag, sum(l_extendedprice), sum(l_quantity), count(*) FROM lineitem_plain \
                   GROUP BY l_returnflag ORDER BY l_returnflag";
        let (clean, peer_clean) = (self.fastest(sql).await?, self.peer_fastest(sql).await?);
        let delete = "DELETE FROM lineitem_plain WHERE l_orderkey % 40 < 4";
        let (seconds, rows) = self.update(delete).await?;
        let theirs = self.peer.change(delete).await?;
        ensure!(rows == theirs.rows, "{rows} rows deleted and {} by the peer", theirs.rows);
        let ours = Done { seconds, rows };
        self.add("deletes of 10 %", ("rows/s", Better::Higher), ours.rate(), ("duckdb", theirs.rate()), None)?;
        self.same_rows("lineitem_plain").await?;
        let (deleted, peer_deleted) = (self.fastest(sql).await?, self.peer_fastest(sql).await?);
        let unit = ("ms", Better::Lower);
        self.add("scan with 10 % deleted", unit, deleted, ("own scan before", clean), Some(1.15))?;
        self.add("  the same in DuckDB", unit, peer_deleted, ("own scan before", peer_clean), None)?;
        self.add("  Ancho beside DuckDB", unit, deleted, ("duckdb", peer_deleted), None)
    }

    async fn inserts(&mut self) -> anyhow::Result<()> {
        self.ancho.update("CREATE TABLE singles (client INT, number BIGINT, text VARCHAR)").await?;
        let start = Instant::now();
        let end = start + Duration::from_secs(self.options.insert_seconds);
        let clients = (0..CLIENTS).map(|own| insert_until(&self.options.url, own, end));
        let counts = futures::future::try_join_all(clients).await?;
        let ours = Done { seconds: start.elapsed().as_secs_f64(), rows: counts.iter().sum() };
        let stored = self.count("SELECT count(*) FROM singles").await?;
        ensure!(stored == ours.rows, "{} rows inserted and {stored} stored", ours.rows);
        let theirs = self.peer.inserts(CLIENTS, self.options.insert_seconds).await?;
        let name = format!("single-row inserts, {CLIENTS} clients");
        self.add(&name, ("rows/s", Better::Higher), ours.rate(), ("duckdb", theirs.rate()), None)
    }

    async fn lookups(&mut self) -> anyhow::Result<()> {
        let numbers = Numbers::create(&self.options.work_dir.join("numbers"), NUMBERS).await?;
        self.peer.numbers(NUMBERS).await?;
        let keys = |count: i64| (0..count).map(|n| n * 7_919 % NUMBERS).collect::<Vec<_>>();
        let indexed = keys(LOOKUPS);
        // The first look-up reads the keys.
        numbers.find(&indexed[..1]).await?;
        let (ours, sum) = numbers.find(&indexed).await?;
        let (seconds, theirs) = self.peer.lookups("sqlite", &indexed).await?;
        ensure!(sum == theirs, "the look-ups found {sum} and SQLite {theirs}");
        let unit = ("rows/s", Better::Higher);
        let sqlite = LOOKUPS as f64 / seconds;
        let by_scan = keys(LOOKUPS_BY_SCAN);
        let duckdb = LOOKUPS_BY_SCAN as f64 / self.peer.lookups("duckdb", &by_scan).await?.0;
        let name = "look-ups by key, in one process";
        self.add(name, unit, ours.rate(), ("duckdb, no index", duckdb), Some(1.0))?;
        self.add(name, unit, ours.rate(), ("sqlite, index", sqlite), Some(1.0 / 3.0))?;

        self.ancho.update("CREATE TABLE numbers (k BIGINT PRIMARY KEY, v BIGINT, t VARCHAR)").await?;
        let fill = format!(
            "INSERT INTO numbers SELECT value, value * 7, concat('row ', value) FROM generate_series(0, {})",
            NUMBERS - 1
        );
        self.ancho.update(&fill).await?;
        let start = Instant::now();
        for key in &by_scan {
            let found = self.count(&format!("SELECT v FROM numbers WHERE k = {key}")).await?;
            ensure!(found == *key as u64 * 7, "row {key} has {found}");
        }
        let ours = Done { seconds: start.elapsed().as_secs_f64(), rows: by_scan.len() as u64 };
        self.add("look-ups by key, over Flight SQL", unit, ours.rate(), ("duckdb, no index", duckdb), None)
    }

    fn dataset(&self, table: &str, key: &[&str]) -> String {
        let dir = self.data.table_dir(Table::Lineitem);
        let key = if key.is_empty() { String::new() } else { format!("\n      primary_key: [{}]", key.join(", ")) };
        format!(
            "datasets:\n  - name: {table}\n    from: file://{}/\n    params:\n      file_format: parquet\n    \
             acceleration:\n      engine: cayenne\n      mode: file\n      refresh_mode: full\n      \
             partition_by: [\"bucket({}, l_orderkey)\"]{key}\n",
            dir.display(),
            self.options.buckets
        )
    }

    fn files(&self) -> PathBuf {
        self.data.table_dir(Table::Lineitem).join("*.parquet")
    }

    fn add(
        &mut self,
        name: &str,
        (unit, better): (&'static str, Better),
        ancho: f64,
        (peer, peer_figure): (&'static str, f64),
        aim: Option<f64>,
    ) -> anyhow::Result<()> {
        let measure = Measure { name: name.to_owned(), unit, better, ancho, peer, peer_figure, aim };
        writeln!(self.out, "{}", measure.line())?;
        self.out.flush()?;
        self.report.measures.push(measure);
        Ok(())
    }

    /// Seconds and changed rows.
    async fn update(&mut self, sql: &str) -> anyhow::Result<(f64, u64)> {
        let start = Instant::now();
        let rows = self.ancho.update(sql).await?;
        Ok((start.elapsed().as_secs_f64(), u64::try_from(rows).context("a negative number of rows")?))
    }

    /// The shortest of five runs, in milliseconds.
    async fn fastest(&mut self, sql: &str) -> anyhow::Result<f64> {
        let mut best = f64::MAX;
        for _ in 0..5 {
            best = best.min(self.ancho.run_timed(sql).await?.elapsed.as_secs_f64() * 1e3);
        }
        Ok(best)
    }

    async fn peer_fastest(&mut self, sql: &str) -> anyhow::Result<f64> {
        let mut best = f64::MAX;
        for _ in 0..5 {
            best = best.min(self.peer.query(sql).await?.0 * 1e3);
        }
        Ok(best)
    }

    /// Both sides must hold the same rows of a `lineitem` table, as far as counts and sums tell.
    async fn same_rows(&mut self, table: &str) -> anyhow::Result<()> {
        let sql = format!(
            "SELECT count(*), sum(l_orderkey), sum(l_linenumber), sum(CAST(l_quantity AS BIGINT)), \
             sum(CAST(l_extendedprice * 100 AS BIGINT)) FROM {table}"
        );
        let ours = self.text_row(&sql).await?;
        let (_, theirs) = self.peer.query(&sql).await?;
        ensure!(theirs.first() == Some(&ours), "table {table} holds {ours:?}, and that of the peer {theirs:?}");
        Ok(())
    }

    async fn text_row(&mut self, sql: &str) -> anyhow::Result<Vec<String>> {
        let batches = self.ancho.run(sql).await?;
        let row = batches.iter().find(|batch| batch.num_rows() > 0).context("no row")?;
        let texts = row.columns().iter().map(|column| cast(column, &DataType::Utf8));
        texts.map(|text| Ok(text?.as_string::<i32>().value(0).to_owned())).collect()
    }

    async fn count(&mut self, sql: &str) -> anyhow::Result<u64> {
        let row = self.text_row(sql).await?;
        row.first().context("no column")?.parse().context("no number")
    }
}

/// Inserts single rows over a connection of its own; how many were acknowledged.
async fn insert_until(url: &str, own: usize, end: Instant) -> anyhow::Result<u64> {
    let mut client = FlightSqlEngine::connect("ancho", url).await?;
    let mut count = 0;
    while Instant::now() < end {
        let sql = format!("INSERT INTO singles VALUES ({own}, {count}, 'row {count} of client {own}')");
        ensure!(client.update(&sql).await? == 1, "an insert of one row changed another number of rows");
        count += 1;
    }
    Ok(count)
}

/// Bytes of the data files and metastores of a table's partitions anywhere below `dir`.
fn partition_bytes(dir: &Path, table: &str) -> anyhow::Result<u64> {
    if dir.join("partition.db").is_file() {
        let partition = cayenne::Partition::open_read_only(dir, cayenne::PartitionOptions::default())?;
        let is_it = partition.identity().table.rsplit('.').next() == Some(table);
        return if is_it { tree_bytes(dir) } else { Ok(0) };
    }
    let mut bytes = 0;
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            bytes += partition_bytes(&path, table)?;
        }
    }
    Ok(bytes)
}

fn tree_bytes(dir: &Path) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { tree_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

//! DuckDB as a peer: a Python child process over its own native database file.

use super::engine::{SqlEngine, TimedResult};
use crate::peer::Peer;
use crate::python::PythonEnv;
use crate::tpch::{GeneratedData, Table};
use anyhow::{Context, ensure};
use arrow::ipc::reader::StreamReader;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, json};
use std::fs::{self, File};
use std::io::BufReader as FileReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The program of the child process; its protocol is described at its top.
const SCRIPT: &str = concat!(include_str!("../../python/serve.py"), include_str!("../../python/duckdb_peer.py"));

/// A running DuckDB with the tables loaded. Dropping it ends the process.
pub struct DuckDbEngine {
    peer: Peer,
    result_file: PathBuf,
    version: String,
}

#[derive(Deserialize)]
struct QueryAnswer {
    ms: f64,
    rows: usize,
}

impl DuckDbEngine {
    /// Starts DuckDB with `threads` threads on the database file `database`, and loads the generated
    /// Parquet files into it unless that has been done before.
    ///
    /// # Errors
    /// When the interpreter does not start, lacks the packages, or the loaded tables have other row
    /// counts than the generated ones.
    pub async fn start(
        python: &PythonEnv,
        database: &Path,
        data: &GeneratedData,
        threads: usize,
    ) -> anyhow::Result<Self> {
        if let Some(parent) = database.parent() {
            fs::create_dir_all(parent).with_context(|| format!("create {}", parent.display()))?;
        }
        let mut engine = Self {
            peer: Peer::start("DuckDB", python, SCRIPT)?,
            result_file: database.with_extension("result.arrows"),
            version: String::new(),
        };
        let opened = engine
            .peer
            .request(json!({"op": "open", "database": database, "threads": threads.max(1)}))
            .await
            .with_context(|| format!("open {} with DuckDB", database.display()))?;
        engine.version = opened["version"].as_str().unwrap_or("unknown").to_owned();
        engine.load(data).await.context("load the tables into DuckDB")?;
        Ok(engine)
    }

    /// DuckDB's version.
    pub fn version(&self) -> &str {
        &self.version
    }

    async fn load(&mut self, data: &GeneratedData) -> anyhow::Result<()> {
        let mut tables = Map::new();
        for table in Table::ALL {
            let files = data.table_dir(table).join("*.parquet");
            tables.insert(table.name().to_owned(), json!(files));
        }
        let source = format!("{} {}", data.dir.display(), serde_json::to_string(data)?);
        let answer = self.peer.request(json!({"op": "load", "source": source, "tables": tables})).await?;
        for table in Table::ALL {
            let loaded = answer["rows"][table.name()].as_u64();
            ensure!(
                loaded == Some(data.row_count(table)),
                "table `{table}` has {} generated rows and {loaded:?} loaded ones",
                data.row_count(table)
            );
        }
        Ok(())
    }
}

fn read_result(path: &Path) -> anyhow::Result<Vec<RecordBatch>> {
    let reader = StreamReader::try_new(FileReader::new(File::open(path)?), None)?;
    let schema = reader.schema();
    let mut batches = reader.collect::<Result<Vec<_>, _>>()?;
    if batches.is_empty() {
        batches.push(RecordBatch::new_empty(schema));
    }
    Ok(batches)
}

#[async_trait]
impl SqlEngine for DuckDbEngine {
    fn name(&self) -> &str {
        "duckdb"
    }

    fn is_independent(&self) -> bool {
        true
    }

    async fn run(&mut self, sql: &str) -> anyhow::Result<Vec<RecordBatch>> {
        Ok(self.run_timed(sql).await?.batches)
    }

    async fn run_timed(&mut self, sql: &str) -> anyhow::Result<TimedResult> {
        let path = self.result_file.clone();
        let answer = self.peer.request(json!({"op": "query", "sql": sql, "result": path})).await?;
        let answer: QueryAnswer = serde_json::from_value(answer).context("read DuckDB's answer")?;
        let batches = read_result(&path).with_context(|| format!("read the rows in {}", path.display()))?;
        let result = TimedResult { batches, elapsed: Duration::from_secs_f64(answer.ms / 1000.0) };
        ensure!(
            result.row_count() == answer.rows,
            "DuckDB answered {} rows and wrote {}",
            answer.rows,
            result.row_count()
        );
        Ok(result)
    }
}

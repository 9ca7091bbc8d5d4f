//! DuckDB and SQLite, driven through one Python process.

use crate::peer::Peer;
use crate::python::PythonEnv;
use anyhow::Context;
use serde_json::{Value, json};
use std::path::Path;

/// The program of the process; its protocol is described at its top.
const SCRIPT: &str = concat!(include_str!("../../python/serve.py"), include_str!("../../python/storage_peer.py"));

/// The running process.
pub(super) struct StoragePeer(Peer);

/// How long something took, and how many rows it concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct Done {
    pub(super) seconds: f64,
    pub(super) rows: u64,
}

impl Done {
    /// Rows per second.
    pub(super) fn rate(self) -> f64 {
        self.rows as f64 / self.seconds
    }
}

impl StoragePeer {
    /// With an empty database below `dir`.
    pub(super) async fn start(python: &PythonEnv, dir: &Path, threads: usize) -> anyhow::Result<Self> {
        let mut peer = Peer::start("DuckDB", python, SCRIPT)?;
        peer.request(json!({"op": "open", "dir": dir, "threads": threads.max(1)})).await?;
        Ok(Self(peer))
    }

    pub(super) async fn load(&mut self, table: &str, files: &Path, key: &[&str]) -> anyhow::Result<Done> {
        self.done(json!({"op": "load", "table": table, "files": files, "key": key})).await
    }

    pub(super) async fn change(&mut self, sql: &str) -> anyhow::Result<Done> {
        self.done(json!({"op": "change", "sql": sql})).await
    }

    /// Seconds, and the rows as text.
    pub(super) async fn query(&mut self, sql: &str) -> anyhow::Result<(f64, Vec<Vec<String>>)> {
        let answer = self.0.request(json!({"op": "query", "sql": sql})).await?;
        Ok((number(&answer, "seconds")?, serde_json::from_value(answer["rows"].clone())?))
    }

    pub(super) async fn inserts(&mut self, clients: usize, seconds: u64) -> anyhow::Result<Done> {
        self.done(json!({"op": "inserts", "clients": clients, "seconds": seconds})).await
    }

    pub(super) async fn numbers(&mut self, rows: i64) -> anyhow::Result<()> {
        self.0.request(json!({"op": "numbers", "rows": rows})).await.map(|_| ())
    }

    /// Seconds, and the sum of the values found.
    pub(super) async fn lookups(&mut self, engine: &str, keys: &[i64]) -> anyhow::Result<(f64, i64)> {
        let answer = self.0.request(json!({"op": "lookups", "engine": engine, "keys": keys})).await?;
        Ok((number(&answer, "seconds")?, answer["sum"].as_i64().context("no sum")?))
    }

    pub(super) async fn parquet(&mut self, table: &str, file: &Path) -> anyhow::Result<u64> {
        let answer = self.0.request(json!({"op": "parquet", "table": table, "file": file})).await?;
        answer["bytes"].as_u64().context("no size")
    }

    async fn done(&mut self, request: Value) -> anyhow::Result<Done> {
        let answer = self.0.request(request).await?;
        Ok(Done { seconds: number(&answer, "seconds")?, rows: answer["rows"].as_u64().context("no number of rows")? })
    }
}

fn number(answer: &Value, key: &str) -> anyhow::Result<f64> {
    answer[key].as_f64().with_context(|| format!("no {key}"))
}

//! Snapshots of tables in folders and on S3: what is published, and what comes back.
mod automatic;
mod faults;
mod mirroring;
mod pinning;
mod publishing;
mod restoring;
mod taken_over;

use std::{collections::BTreeMap, fs, path::Path};

use ancho_integration::{Client, client::first_column};
use anyhow::Context;

/// Fills a table of four buckets with rows that hardly compress; their number and the sum of their keys are known.
async fn fill(client: &Client, table: &str, rows: i64, options: &str) -> anyhow::Result<()> {
    client.update(&format!("CREATE TABLE {table} (k BIGINT, s VARCHAR){options} PARTITION BY (bucket(4, k))")).await?;
    let rows = format!("SELECT value, md5(CAST(value AS VARCHAR)) FROM generate_series(1, {rows}) AS g(value)");
    client.update(&format!("INSERT INTO {table} {rows}")).await.context("add rows")?;
    Ok(())
}

/// What a table holds, as one text.
async fn contents(client: &Client, table: &str) -> anyhow::Result<String> {
    let sql = format!(
        "SELECT CAST(count(*) AS VARCHAR) || ' ' || CAST(sum(k) AS VARCHAR) || ' ' || min(s) || ' ' || max(s) FROM {table}"
    );
    let answer = client.query(&sql).await?;
    first_column(&answer)?.pop().context("a row")
}

/// Every file below a folder with its length.
fn files(dir: &Path) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(dir)?.display().to_string();
                found.insert(name, entry.metadata()?.len());
            }
        }
    }
    Ok(found)
}

//! Datasets: tables that mirror files, local ones and those of an S3 server.
mod local;
mod s3;

use std::{fmt::Write as _, path::Path};

use ancho_integration::{Client, client::single_integer, sources::write_file};
use anyhow::{Context, ensure};

/// The text of a spec with datasets.
pub struct SpecText(pub String);

impl SpecText {
    pub fn new() -> Self {
        Self("version: v1\nkind: Cluster\nname: loading\ndatasets:\n".to_owned())
    }

    pub fn dataset(mut self, name: &str, from: &str, params: &[(&str, &str)], partition_by: &[&str]) -> Self {
        let text = &mut self.0;
        let _ = write!(text, "  - from: {from}\n    name: {name}\n    params:\n");
        for (key, value) in params {
            let _ = writeln!(text, "      {key}: {value}");
        }
        text.push_str("    acceleration:\n      engine: cayenne\n      mode: file\n      refresh_mode: full\n");
        if !partition_by.is_empty() {
            text.push_str("      partition_by:\n");
        }
        for expression in partition_by {
            let _ = writeln!(text, "        - \"{expression}\"");
        }
        self
    }
}

/// The one integer that a query gives.
pub async fn integer(client: &Client, sql: &str) -> anyhow::Result<i64> {
    let answer = client.query(sql).await.with_context(|| format!("run {sql}"))?;
    single_integer(&answer).with_context(|| format!("run {sql}"))
}

/// Applies a spec and checks that each dataset had this done to it.
async fn apply(client: &Client, spec: &SpecText, action: &str) -> anyhow::Result<()> {
    let changes = client.apply(&spec.0).await.with_context(|| format!("apply\n{}", spec.0))?;
    ensure!(!changes.is_empty() && changes.iter().all(|c| c.action == action), "{action} expected: {changes:?}");
    Ok(())
}

/// Rows with ids from `first` to `last`, in a few columns of several types.
pub fn rows_sql(first: i64, last: i64) -> String {
    format!(
        "SELECT value AS id, value % 7 AS k, 'row ' || CAST(value AS VARCHAR) AS text, \
         CASE WHEN value % 10 = 0 THEN NULL ELSE CAST(value AS DOUBLE) / 4 END AS x, \
         CAST(value AS DECIMAL(12, 2)) AS amount, \
         CAST('2024-01-01' AS DATE) + CAST(value % 400 AS INT) AS day \
         FROM generate_series({first}, {last}) AS g(value)"
    )
}

/// Three files with 300 rows together.
async fn write_three(dir: &Path, extension: &str) -> anyhow::Result<()> {
    for (i, (first, last)) in [(1, 100), (101, 250), (251, 300)].into_iter().enumerate() {
        write_file(&dir.join(format!("part-{i}.{extension}")), &rows_sql(first, last)).await?;
    }
    Ok(())
}

/// Checks that a table holds exactly the rows with ids 1 to `last`.
pub async fn check_rows(client: &Client, table: &str, last: i64) -> anyhow::Result<()> {
    for (what, expected) in [
        ("count(*)", last),
        ("count(DISTINCT id)", last),
        ("sum(id)", last * (last + 1) / 2),
        ("CAST(sum(amount) AS BIGINT)", last * (last + 1) / 2),
        ("count(x)", last - last / 10),
        ("count(DISTINCT text)", last),
    ] {
        let found = integer(client, &format!("SELECT {what} FROM {table}")).await?;
        ensure!(found == expected, "{what} of {table} is {found}, not {expected}");
    }
    let odd = format!("SELECT count(*) FROM {table} WHERE text <> 'row ' || CAST(id AS VARCHAR)");
    ensure!(integer(client, &odd).await? == 0, "{table} has rows whose columns do not belong together");
    Ok(())
}

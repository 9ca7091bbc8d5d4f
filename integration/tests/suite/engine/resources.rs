//! Short of memory or disk a statement fails, with a clear error; the others and the process go on.
use ancho_common::error::ErrorKind;
use ancho_integration::{Client, client::single_integer, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{bail, ensure};

use super::refused;

const MEMORY: u64 = 64 << 20;

#[test]
fn a_disk_that_is_almost_full_takes_no_rows_and_gives_them() {
    run(async {
        let _turn = turns::shared().await?;
        // More than any disk has.
        let cluster = ClusterBuilder::default().executors(2).disk_reserve(1 << 60).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE d (k BIGINT, v BIGINT) PARTITION BY (bucket(4, k))").await?;
        for sql in ["INSERT INTO d VALUES (1, 1)", "CREATE TABLE x AS SELECT 1 AS k"] {
            refused(&client, sql, ErrorKind::Exhausted, "free").await?;
        }
        ensure!(single_integer(&client.query("SELECT count(*) FROM d").await?)? == 0, "reads go on");
        cluster.stop().await
    });
}

#[test]
fn memory_has_a_bound_and_who_finds_none_fails_alone() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(1).memory(MEMORY).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE m (k BIGINT, s VARCHAR) PARTITION BY (bucket(2, k))").await?;
        let rows =
            "SELECT value, repeat('x', 100) || CAST(value AS VARCHAR) FROM generate_series(1, 400000) AS g(value)";
        client.update(&format!("INSERT INTO m {rows}")).await?;
        // The rows of one array do not spill.
        exhausted(&client, "SELECT array_length(array_agg(s ORDER BY s)) FROM m").await?;
        let wide: Vec<String> = (0..120).map(|i| format!("c{i} BIGINT")).collect();
        client.update(&format!("CREATE TABLE w ({})", wide.join(", "))).await?;
        let values: Vec<String> = (0..120).map(|i| i.to_string()).collect();
        refused(&client, &format!("INSERT INTO w VALUES ({})", values.join(", ")), ErrorKind::Exhausted, "memory")
            .await?;
        ensure!(single_integer(&client.query("SELECT count(*) FROM m").await?)? == 400_000, "others go on");
        cluster.stop().await
    });
}

async fn exhausted(client: &Client, sql: &str) -> anyhow::Result<()> {
    match client.query(sql).await {
        Err(failure) if failure.kind() == ErrorKind::Exhausted => Ok(()),
        Err(failure) => bail!("{sql}: {failure}"),
        Ok(_) => bail!("{sql} found enough memory"),
    }
}

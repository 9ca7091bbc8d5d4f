//! Parameters of tables, given in SQL and in specs: in effect on the executors, or refused with the reason.
use ancho_common::error::ErrorKind;
use ancho_integration::{Client, client::single_integer, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::ensure;

use super::refused;

#[test]
fn table_options_reach_the_engine_or_are_refused() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(1).start().await?;
        let client = cluster.client()?;
        newest_time_stays(&client).await?;
        odd_types(&client).await?;
        refusals(&client).await?;
        cluster.stop().await
    });
}

/// One dataset with a key, a time column, and these engine parameters.
fn spec(from: &str, params: &str) -> String {
    format!(
        "datasets:\n  - from: {from}\n    name: d\n    time_column: at\n    params: {{file_format: csv}}\n    acceleration:\n      \
         enabled: true\n      primary_key: k\n      params: {{{params}}}\n"
    )
}

async fn apply(client: &Client, yaml: &str) -> anyhow::Result<String> {
    let change = client.apply(yaml).await?.remove(0);
    ensure!(change.error.is_none(), "{change:?}");
    Ok(change.action)
}

#[test]
fn parameters_of_datasets_change_in_place_where_rows_stay_as_they_are() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        let path = sources.path().join("d.csv");
        std::fs::write(&path, "k,at,v\n1,5,50\n1,4,40\n2,1,10\n2,,20\n")?;
        let from = format!("file://{}", path.display());
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let sum = async || single_integer(&client.query("SELECT sum(v) FROM d").await?);
        ensure!(apply(&client, &spec(&from, "sort_columns: at")).await? == "created");
        // The newest row of each key, whatever arrived last; a missing time is the oldest.
        ensure!(sum().await? == 60);
        ensure!(apply(&client, &spec(&from, "sort_columns: at")).await? == "unchanged");
        ensure!(apply(&client, &spec(&from, "cayenne_cluster_by: 'at, v'")).await? == "adjusted");
        ensure!(apply(&client, &spec(&from, "cayenne_cluster_by: 'at, v'")).await? == "unchanged");
        client.update("OPTIMIZE TABLE d").await?;
        ensure!(sum().await? == 60);
        // Keys that repeat are kept as they are from now on, which is another table.
        ensure!(apply(&client, &spec(&from, "pk_conflict_detection: none")).await? == "replaced");
        ensure!(sum().await? == 120);
        refused(&client, "ALTER TABLE d ADD COLUMN x INT", ErrorKind::Unsupported, "source").await?;
        refused(&client, "ALTER TABLE d SET (sort_columns = 'v')", ErrorKind::Unsupported, "spec").await?;
        cluster.stop().await
    });
}

/// The time column decides among rows that come together in a load; rows that come later by SQL replace what is there.
async fn newest_time_stays(client: &Client) -> anyhow::Result<()> {
    client.update("CREATE TABLE n (k BIGINT, at BIGINT, v BIGINT, PRIMARY KEY (k)) CLUSTER BY (at, v)").await?;
    client.update("INSERT INTO n VALUES (1, 5, 50), (1, 4, 40)").await?;
    ensure!(single_integer(&client.query("SELECT v FROM n").await?)? == 40, "the last arrival stays");
    let options = "WITH (cayenne_pk_keyset_cache_mb = 1, cayenne_compaction_max_levels = 2, sort_columns = 'at', \
                   cayenne_target_file_size_mb = 1, cayenne_compression_strategy = 'zstd', time_column = 'at')";
    client.update(&format!("CREATE TABLE o (k BIGINT, at BIGINT, PRIMARY KEY (k)) {options}")).await?;
    client.update("INSERT INTO o SELECT value, -value FROM generate_series(1, 1000) AS g(value)").await?;
    client.update("OPTIMIZE TABLE o").await?;
    ensure!(single_integer(&client.query("SELECT sum(at) FROM o").await?)? == -500_500);
    Ok(())
}

async fn odd_types(client: &Client) -> anyhow::Result<()> {
    client.update("CREATE TABLE i (k BIGINT, d INTERVAL) WITH (unsupported_type_action = 'string')").await?;
    client.update("INSERT INTO i VALUES (1, INTERVAL '2 days'), (2, NULL)").await?;
    ensure!(single_integer(&client.query("SELECT count(*) FROM i WHERE d LIKE '%2 days%'").await?)? == 1);
    let from_query = "CREATE TABLE j WITH (unsupported_type_action = 'string') AS SELECT INTERVAL '3 days' AS d";
    client.update(from_query).await?;
    ensure!(single_integer(&client.query("SELECT count(*) FROM j WHERE d LIKE '%3 days%'").await?)? == 1);
    refused(client, "CREATE TABLE x (d INTERVAL)", ErrorKind::Invalid, "column d").await
}

async fn refusals(client: &Client) -> anyhow::Result<()> {
    for (sql, reason) in [
        ("CREATE TABLE x (k BIGINT) WITH (sort_columns = 'z')", "\"z\""),
        ("CREATE TABLE x (k BIGINT) WITH (sort_columns = 'k, k')", "twice"),
        ("CREATE TABLE x (k BIGINT, l BIGINT[]) WITH (sort_columns = 'l')", "\"l\""),
        ("CREATE TABLE x (k BIGINT) WITH (sort_columns = 'k', cayenne_cluster_by = 'k')", "cannot be combined"),
        ("CREATE TABLE x (k BIGINT) WITH (sort_columns = 'k') CLUSTER BY (k)", "cannot be combined"),
        ("CREATE TABLE x (k BIGINT) CLUSTER BY (k + 1)", "CLUSTER BY"),
        ("CREATE TABLE x (k BIGINT) CLUSTER BY (z)", "\"z\""),
        ("CREATE TABLE x (k BIGINT) WITH (time_column = 'k')", "PRIMARY KEY"),
        ("CREATE TABLE x (k BIGINT) WITH (cayenne_pk_keyset_cache_mb = 5)", "PRIMARY KEY"),
        ("CREATE TABLE x (k BIGINT, s VARCHAR, PRIMARY KEY (k)) WITH (time_column = 's')", "\"s\""),
        ("CREATE TABLE x (k BIGINT) WITH (cayenne_datalake_clustering_columns = 'k')", "cayenne_cluster_by"),
        ("CREATE TABLE x (k BIGINT) WITH (cayenne_footer_cache_mb = 5)", "--footer-cache"),
        ("CREATE TABLE x (k BIGINT) WITH (cayenne_compaction_max_levels = 0)", "at least 1"),
        ("CREATE TABLE x (k BIGINT) WITH (unsupported_type_action = 'ignore')", "leave the column out"),
    ] {
        refused(client, sql, ErrorKind::Invalid, reason).await?;
    }
    Ok(())
}

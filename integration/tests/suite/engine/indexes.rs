//! Secondary indexes: declared in SQL and in specs, used where all their columns have values, and never a reason for other rows.
use std::time::Duration;

use ancho_common::error::ErrorKind;
use ancho_integration::{Client, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{Context, ensure};

use super::{refused, texts};

async fn plan(client: &Client, sql: &str) -> anyhow::Result<String> {
    Ok(texts(&client.query(&format!("EXPLAIN ANALYZE {sql}")).await?)?.join("\n"))
}

/// Waits until a scan of the table is served by an index that has all files.
async fn served(client: &Client, sql: &str, index: &str) -> anyhow::Result<String> {
    let mut last = String::new();
    for _ in 0..600 {
        last = plan(client, sql).await?;
        if last.contains(index) && last.contains("uncovered_files=0") {
            return Ok(last);
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    anyhow::bail!("{index} does not serve all files: {last}")
}

/// Both tables have the same rows.
async fn same(client: &Client, condition: &str) -> anyhow::Result<()> {
    let of = async |table: &str| {
        texts(&client.query(&format!("SELECT * FROM {table} WHERE {condition}")).await?).context(condition.to_owned())
    };
    let (indexed, plain) = (of("t").await?, of("plain").await?);
    ensure!(indexed == plain, "{condition}: {} rows with indexes, {} without", indexed.len(), plain.len());
    Ok(())
}

async fn all_same(client: &Client, city: &str) -> anyhow::Result<()> {
    for condition in [
        format!("{city} = 'city 7'"),
        format!("{city} IN ('city 1', 'city 9', 'nowhere', NULL)"),
        format!("{city} = 'city 3' AND v = 13"),
        format!("({city} = 'city 3' OR {city} = 'city 4') AND v IN (3, 13, 14)"),
        format!("{city} = 'city 5' AND v > 500"),
        format!("{city} <> 'city 5' AND v = 77"),
        format!("{city} IS NULL AND v < 100"),
        "v = 4242 OR v = 5".to_owned(),
    ] {
        same(client, &condition).await?;
    }
    Ok(())
}

#[test]
fn indexes_of_tables_change_what_is_read_and_nothing_else() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let columns = "(k BIGINT, city VARCHAR, v BIGINT) PARTITION BY (bucket(2, k))";
        client.update(&format!("CREATE TABLE t {columns}")).await?;
        client.update("ALTER TABLE t SET (indexes = 'city, (city, v)')").await?;
        client.update(&format!("CREATE TABLE plain {columns}")).await?;
        let both = async |sql: &str| -> anyhow::Result<()> {
            for table in ["t", "plain"] {
                client.update(&sql.replace("TABLE_", table)).await.with_context(|| sql.to_owned())?;
            }
            Ok(())
        };
        for part in 0..3 {
            let (first, last) = (part * 4_000 + 1, part * 4_000 + 4_000);
            let city = "CASE WHEN value % 11 = 0 THEN NULL ELSE 'city ' || CAST(value % 1000 AS VARCHAR) END";
            both(&format!(
                "INSERT INTO TABLE_ SELECT value, {city}, value FROM generate_series({first}, {last}) AS g(value)"
            ))
            .await?;
        }
        both("DELETE FROM TABLE_ WHERE k % 5 = 3").await?;
        both("UPDATE TABLE_ SET city = 'city 7' WHERE v BETWEEN 100 AND 120").await?;
        let one = "SELECT count(*) FROM t WHERE city = 'city 7'";
        served(&client, one, "lookup_index(city)=").await?;
        let both_columns = "SELECT count(*) FROM t WHERE v IN (7, 1007) AND city = 'city 7'";
        let text = served(&client, both_columns, "lookup_index(city, v)=").await?;
        ensure!(text.contains("candidate_rows=2"), "{text}");
        let none = plan(&client, "SELECT count(*) FROM t WHERE v = 7").await?;
        ensure!(none.contains("lookup_index_none(no_key_pinned)="), "{none}");
        all_same(&client, "city").await?;

        // Another set of them, by either statement, also for the files that are there.
        client.update("ALTER TABLE t SET (indexes = 'v')").await?;
        served(&client, "SELECT count(*) FROM t WHERE v = 7", "lookup_index(v)=").await?;
        client.update("CREATE INDEX ON t (city)").await?;
        served(&client, one, "lookup_index(city)=").await?;
        both("ALTER TABLE TABLE_ RENAME COLUMN city TO town").await?;
        served(&client, "SELECT count(*) FROM t WHERE town = 'city 7'", "lookup_index(town)=").await?;
        all_same(&client, "town").await?;
        both("OPTIMIZE TABLE TABLE_").await?;
        served(&client, "SELECT count(*) FROM t WHERE town = 'city 7'", "lookup_index(town)=").await?;
        all_same(&client, "town").await?;
        let open = client.begin().await?;
        open.update("INSERT INTO t VALUES (-1, 'city 7', -7)").await?;
        let rows = texts(&open.query("SELECT k FROM t WHERE town = 'city 7' AND k < 0").await?)?;
        ensure!(rows == ["-1"], "{rows:?}");
        open.roll_back().await?;
        all_same(&client, "town").await?;
        client.update("ALTER TABLE t SET (indexes = 'default')").await?;
        all_same(&client, "town").await?;

        for (sql, kind, reason) in [
            ("CREATE TABLE x (k BIGINT) WITH (indexes = 'z')", ErrorKind::Invalid, "\"z\""),
            ("CREATE TABLE x (k BIGINT, l BIGINT[]) WITH (indexes = 'l')", ErrorKind::Invalid, "\"l\""),
            ("CREATE TABLE x (k BIGINT) WITH (indexes = '(k')", ErrorKind::Invalid, "no list of indexes"),
            ("CREATE TABLE x (k BIGINT) WITH (indexes = 'k, k')", ErrorKind::Invalid, "twice"),
            ("CREATE INDEX i ON t (v)", ErrorKind::Unsupported, "no names"),
            ("CREATE UNIQUE INDEX ON t (v)", ErrorKind::Unsupported, "PRIMARY KEY"),
            ("CREATE INDEX ON t (v + 1)", ErrorKind::Unsupported, "over columns"),
            ("CREATE INDEX ON t (nothing)", ErrorKind::Invalid, "nothing"),
            ("CREATE INDEX ON nothing (v)", ErrorKind::NotFound, "nothing"),
        ] {
            refused(&client, sql, kind, reason).await?;
        }
        client.update("CREATE INDEX ON t (v)").await?;
        refused(&client, "CREATE INDEX ON t (v)", ErrorKind::AlreadyExists, "(v)").await?;
        refused(&client, "ALTER TABLE t DROP COLUMN v", ErrorKind::Invalid, "index").await?;
        cluster.stop().await
    });
}

#[test]
fn indexes_of_datasets_are_those_of_their_spec() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        let path = sources.path().join("d.csv");
        std::fs::write(&path, "k,v\n1,50\n2,40\n3,50\n")?;
        let cluster = ClusterBuilder::default().executors(1).start().await?;
        let client = cluster.client()?;
        let spec = |indexes: &str| {
            format!(
                "datasets:\n  - from: file://{}\n    name: d\n    params: {{file_format: csv}}\n    acceleration:\n      \
                 enabled: true\n{indexes}",
                path.display()
            )
        };
        let apply = async |indexes: &str| -> anyhow::Result<String> {
            let change = client.apply(&spec(indexes)).await?.remove(0);
            ensure!(change.error.is_none(), "{change:?}");
            Ok(change.action)
        };
        ensure!(apply("").await? == "created");
        let declared = "      indexes:\n        v: enabled\n        \"(k, v)\": unique\n";
        ensure!(apply(declared).await? == "adjusted");
        ensure!(apply(declared).await? == "unchanged");
        served(&client, "SELECT k FROM d WHERE v = 50", "lookup_index(v)=").await?;
        let text = served(&client, "SELECT k FROM d WHERE v = 50 AND k IN (1, 2)", "lookup_index(k, v)=").await?;
        ensure!(text.contains("candidate_rows=1"), "{text}");
        ensure!(texts(&client.query("SELECT k FROM d WHERE v = 50").await?)? == ["1", "3"]);
        ensure!(apply("").await? == "adjusted");
        refused(&client, "CREATE INDEX ON d (v)", ErrorKind::Unsupported, "spec").await?;
        for (wrong, part) in [
            ("      indexes: [v]\n", "a map of columns"),
            ("      indexes: {v: yes}\n", "`enabled` or `unique`"),
            ("      indexes: {\"(v\": enabled}\n", "no list of indexes"),
            ("      indexes: {nothing: enabled}\n", "nothing"),
            ("      params: {indexes: v}\n", "beside `params`"),
        ] {
            let told = match client.apply(&spec(wrong)).await {
                Ok(mut changes) => changes.remove(0).error.map(|error| format!("{error:?}")).unwrap_or_default(),
                Err(failure) => failure.to_string(),
            };
            ensure!(told.contains(part), "{wrong}: {told}");
        }
        cluster.stop().await
    });
}

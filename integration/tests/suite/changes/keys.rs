//! Tables with a primary key: one row per key, whoever writes.
use ancho_common::error::ErrorKind;
use ancho_integration::{Client, client::single_integer, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{bail, ensure};
use futures::future::try_join_all;

use super::meaning::{changes, refused};

#[test]
fn one_row_per_key() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (k BIGINT, v BIGINT, PRIMARY KEY (k)) PARTITION BY (bucket(4, k))").await?;
        statements(&client).await?;
        side_by_side(&client).await?;
        declarations(&client).await?;
        cluster.stop().await
    });
}

async fn statements(client: &Client) -> anyhow::Result<()> {
    changes(client, "INSERT INTO t VALUES (1, 10), (2, 20), (1, 11)", 3, &[(1, 11), (2, 20)]).await?;
    changes(client, "INSERT INTO t VALUES (2, 21), (3, 30)", 2, &[(1, 11), (2, 21), (3, 30)]).await?;
    changes(client, "UPDATE t SET v = v + 1", 3, &[(1, 12), (2, 22), (3, 31)]).await?;
    // Each takes the place of a row that moves on.
    changes(client, "UPDATE t SET k = k + 1", 3, &[(2, 12), (3, 22), (4, 31)]).await?;
    check_counted(client, 3).await?;
    refused(client, "UPDATE t SET k = 4 WHERE k = 2", ErrorKind::Invalid, "4").await?;
    refused(client, "UPDATE t SET k = 9", ErrorKind::Invalid, "9").await?;
    refused(client, "UPDATE t SET k = NULL WHERE k = 2", ErrorKind::Invalid, "column k").await?;
    refused(client, "INSERT INTO t VALUES (7, 1), (NULL, 2)", ErrorKind::Invalid, "column k").await?;
    changes(client, "DELETE FROM t WHERE k = 3", 1, &[(2, 12), (4, 31)]).await?;
    changes(client, "INSERT INTO t VALUES (3, 5)", 1, &[(2, 12), (3, 5), (4, 31)]).await?;
    let merge = "MERGE INTO t USING (VALUES (3, 50), (8, 80)) AS s (k, v) ON t.k = s.k \
                 WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT VALUES (s.k, s.v)";
    changes(client, merge, 2, &[(2, 12), (3, 50), (4, 31), (8, 80)]).await?;
    changes(client, "INSERT OVERWRITE t SELECT k % 3, v FROM t WHERE k < 4", 2, &[(0, 50), (2, 12)]).await?;
    check_counted(client, 2).await?;
    changes(client, "DELETE FROM t", 2, &[]).await
}

/// What the schedulers say of the number of rows is exact.
async fn check_counted(client: &Client, rows: i64) -> anyhow::Result<()> {
    let counted = client.query("SELECT rows FROM system.tables WHERE table_name = 't'").await?;
    ensure!(single_integer(&counted)? == rows, "the schedulers count other rows than {rows}: {counted:?}");
    Ok(())
}

/// Many clients write the same keys: none is lost, none is there twice, and the count is right.
async fn side_by_side(client: &Client) -> anyhow::Result<()> {
    let writers = (0..4).map(|writer| async move {
        for round in 0..4 {
            let rows: Vec<String> = (0..8).map(|k| format!("({k}, {})", writer * 100 + round)).collect();
            let sql = format!("INSERT INTO t VALUES {}", rows.join(", "));
            while let Err(failure) = client.update(&sql).await {
                ensure!(failure.kind() == ErrorKind::Conflict, "{failure}");
            }
        }
        anyhow::Ok(())
    });
    try_join_all(writers).await?;
    let distinct = client.query("SELECT count(DISTINCT k) * 1000 + count(*) FROM t").await?;
    ensure!(single_integer(&distinct)? == 8008, "{distinct:?}");
    check_counted(client, 8).await
}

async fn declarations(client: &Client) -> anyhow::Result<()> {
    for (sql, reason) in [
        ("CREATE TABLE x (k DOUBLE, PRIMARY KEY (k))", "\"k\""),
        ("CREATE TABLE x (k BIGINT, d BIGINT, PRIMARY KEY (k)) PARTITION BY (d)", "\"d\""),
        ("CREATE TABLE x (k BIGINT) WITH ('cayenne_deletion_mode' = 'key')", "PRIMARY KEY"),
    ] {
        match client.update(sql).await {
            Err(failure) if failure.kind() == ErrorKind::Invalid && failure.error.message.contains(reason) => {}
            other => bail!("{sql}: {other:?}"),
        }
    }
    let as_written = "CREATE TABLE w (k BIGINT, PRIMARY KEY (k)) WITH ('cayenne_pk_conflict_detection' = 'none')";
    client.update(as_written).await?;
    client.update("INSERT INTO w VALUES (1), (1), (2)").await?;
    client.update("INSERT INTO w VALUES (2)").await?;
    ensure!(single_integer(&client.query("SELECT count(*) FROM w").await?)? == 4);
    Ok(())
}

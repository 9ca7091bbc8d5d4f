//! Tables as they were: by version and by time, within the retention.
use std::time::Duration;

use ancho_common::error::ErrorKind;
use ancho_integration::{Client, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{Context, bail, ensure};

use super::texts;

async fn holds(client: &Client, sql: &str, rows: &[&str]) -> anyhow::Result<()> {
    let found = texts(&client.query(sql).await.with_context(|| sql.to_owned())?)?;
    ensure!(found == rows, "{sql}: {found:?}, not {rows:?}");
    Ok(())
}

async fn missing(client: &Client, sql: &str, kind: ErrorKind, reason: &str) -> anyhow::Result<()> {
    match client.query(sql).await {
        Err(failure) if failure.kind() == kind && failure.error.message.contains(reason) => Ok(()),
        other => bail!("{sql}: {other:?}"),
    }
}

#[test]
fn former_versions_are_read_as_they_were() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE h (k BIGINT, v BIGINT) PARTITION BY (bucket(4, k))").await?;
        client.update("INSERT INTO h SELECT value, 1 FROM generate_series(1, 100) AS g(value)").await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.update("UPDATE h SET v = 2 WHERE k <= 50").await?;
        tokio::time::sleep(Duration::from_millis(20)).await;
        client.update("DELETE FROM h WHERE k > 90").await?;
        client.update("ALTER TABLE h RENAME COLUMN v TO w").await?;
        client.update("ALTER TABLE h ADD COLUMN x VARCHAR").await?;
        client.update("TRUNCATE TABLE h").await?;
        client.update("OPTIMIZE TABLE h").await?;

        holds(&client, "SELECT count(*) FROM h", &["0"]).await?;
        holds(&client, "SELECT count(*), sum(v) FROM h FOR VERSION AS OF 1", &["100 100"]).await?;
        holds(&client, "SELECT count(*), sum(v) FROM h VERSION AS OF 2", &["100 150"]).await?;
        holds(&client, "SELECT count(*), sum(v) FROM h FOR VERSION AS OF 3", &["90 140"]).await?;
        holds(&client, "SELECT count(*), sum(w) FROM h FOR VERSION AS OF 4", &["90 140"]).await?;
        holds(&client, "SELECT count(*), sum(w), count(x) FROM h FOR VERSION AS OF 5", &["90 140 0"]).await?;
        holds(&client, "SELECT count(*) FROM h FOR VERSION AS OF 0", &["0"]).await?;
        let both = "SELECT a.k FROM h FOR VERSION AS OF 1 a LEFT JOIN h FOR VERSION AS OF 3 AS b ON a.k = b.k \
                    WHERE b.k IS NULL AND a.k < 93";
        holds(&client, both, &["91", "92"]).await?;

        // The times of versions are listed, and lead back to them.
        let listed = "SELECT version FROM system.versions WHERE table_name = 'h'";
        holds(&client, listed, &["1", "2", "3", "4", "5", "6"]).await?;
        let at = "SELECT CAST(committed_at AS VARCHAR) FROM system.versions WHERE table_name = 'h' AND version = 2";
        let at = texts(&client.query(at).await?)?.remove(0);
        holds(&client, &format!("SELECT sum(v) FROM h FOR TIMESTAMP AS OF '{at}'"), &["150"]).await?;
        let before = format!("TIMESTAMP '{at}' - INTERVAL '1 millisecond'");
        holds(&client, &format!("SELECT sum(v) FROM h FOR SYSTEM_TIME AS OF {before}"), &["100"]).await?;

        missing(&client, "SELECT * FROM h FOR VERSION AS OF 7", ErrorKind::NotFound, "no version 7 yet").await?;
        missing(&client, "SELECT * FROM h FOR TIMESTAMP AS OF '2001-01-01'", ErrorKind::NotFound, "at that time")
            .await?;
        missing(&client, "SELECT * FROM nothing FOR VERSION AS OF 1", ErrorKind::NotFound, "nothing").await?;
        missing(&client, "SELECT * FROM h FOR VERSION AS OF 'x'", ErrorKind::Invalid, "whole numbers").await?;
        // What was dropped by mistake is put back.
        client.update("INSERT INTO h (k, w) SELECT k, w FROM h FOR VERSION AS OF 5").await?;
        holds(&client, "SELECT count(*), sum(w) FROM h", &["90 140"]).await?;
        cluster.stop().await
    });
}

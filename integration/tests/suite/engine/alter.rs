//! `ALTER TABLE`: columns come, go, are renamed and widened, also beside writers and across a restart.
use std::{
    sync::atomic::{AtomicBool, AtomicI64, Ordering},
    time::Duration,
};

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client,
    client::single_integer,
    cluster::{in_process::ClusterBuilder, processes::ProcessBuilder},
    run, turns, wait_until,
};
use anyhow::{Context, ensure};
use futures::future::try_join;

use super::{refused, texts};

async fn holds(client: &Client, sql: &str, rows: &[&str]) -> anyhow::Result<()> {
    let found = texts(&client.query(sql).await.with_context(|| sql.to_owned())?)?;
    ensure!(found == rows, "{sql}: {found:?}, not {rows:?}");
    Ok(())
}

#[test]
fn columns_change_and_old_rows_are_read_in_new_terms() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (k BIGINT, a INT, s VARCHAR) PARTITION BY (bucket(4, k))").await?;
        client.update("INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y')").await?;
        client.update("ALTER TABLE t ADD COLUMN d DECIMAL(10, 2)").await?;
        holds(&client, "SELECT * FROM t", &["1 10 x NULL", "2 20 y NULL"]).await?;
        client.update("INSERT INTO t VALUES (3, 30, 'z', 1.5)").await?;
        holds(&client, "SELECT k FROM t WHERE d IS NULL", &["1", "2"]).await?;
        holds(&client, "SELECT count(d), min(d) FROM t", &["1 1.50"]).await?;

        client.update("ALTER TABLE t RENAME COLUMN a TO amount").await?;
        client.update("ALTER TABLE t ALTER COLUMN amount TYPE BIGINT").await?;
        client.update("INSERT INTO t VALUES (4, 3000000000, 'w', NULL)").await?;
        holds(&client, "SELECT k, amount FROM t WHERE amount > 15", &["2 20", "3 30", "4 3000000000"]).await?;
        holds(&client, "SELECT sum(amount), max(amount) FROM t", &["3000000060 3000000000"]).await?;

        // The place of a dropped column is taken by another one, which has nothing of it.
        client.update("ALTER TABLE t DROP COLUMN s").await?;
        client.update("ALTER TABLE t ADD COLUMN s BIGINT").await?;
        holds(&client, "SELECT count(*), count(s) FROM t", &["4 0"]).await?;
        ensure!(client.update("UPDATE t SET s = k * 100 WHERE k <= 3").await? == 3);
        ensure!(client.update("DELETE FROM t WHERE d = 1.5").await? == 1);
        let rows = ["1 10 NULL 100", "2 20 NULL 200", "4 3000000000 NULL NULL"];
        holds(&client, "SELECT * FROM t", &rows).await?;
        client.update("OPTIMIZE TABLE t").await?;
        holds(&client, "SELECT * FROM t", &rows).await?;

        refusals(&client).await?;
        // A table without rows has no version to change, and takes rows with the new columns at once.
        client.update("CREATE TABLE e (k BIGINT, v INT) PARTITION BY (bucket(3, k))").await?;
        client.update("ALTER TABLE e ALTER COLUMN v TYPE BIGINT").await?;
        client.update("ALTER TABLE e ADD COLUMN w VARCHAR").await?;
        client.update("INSERT INTO e VALUES (1, 5000000000, 'a'), (2, 2, 'b'), (3, 3, 'c')").await?;
        holds(&client, "SELECT sum(v), max(w) FROM e", &["5000000005 c"]).await?;
        client.update("CREATE TABLE p (k BIGINT, v BIGINT, PRIMARY KEY (k)) WITH (sort_columns = 'v')").await?;
        client.update("INSERT INTO p VALUES (1, 1), (2, 2)").await?;
        client.update("ALTER TABLE p RENAME COLUMN k TO id").await?;
        client.update("ALTER TABLE p RENAME COLUMN v TO value").await?;
        client.update("INSERT INTO p VALUES (2, 20), (3, 30)").await?;
        holds(&client, "SELECT id, value FROM p", &["1 1", "2 20", "3 30"]).await?;
        client.update("ALTER TABLE p SET (sort_columns = 'value, id')").await?;
        refused(&client, "ALTER TABLE p SET (sort_columns = 'v')", ErrorKind::Invalid, "\"v\"").await?;
        client.update("OPTIMIZE p").await?;
        holds(&client, "SELECT id, value FROM p", &["1 1", "2 20", "3 30"]).await?;
        cluster.stop().await
    });
}

async fn refusals(client: &Client) -> anyhow::Result<()> {
    for (sql, kind, reason) in [
        ("ALTER TABLE t ALTER COLUMN amount TYPE INT", ErrorKind::Invalid, "column amount"),
        ("ALTER TABLE t RENAME COLUMN k TO key", ErrorKind::Invalid, "partitioned by column k"),
        ("ALTER TABLE t ALTER COLUMN k TYPE DECIMAL(38, 0)", ErrorKind::Invalid, "column k"),
        ("ALTER TABLE t DROP COLUMN k", ErrorKind::Invalid, "partitioned by column k"),
        ("ALTER TABLE t DROP COLUMN nothing", ErrorKind::NotFound, "column nothing"),
        ("ALTER TABLE t ADD COLUMN amount INT", ErrorKind::AlreadyExists, "column amount"),
        ("ALTER TABLE t ADD COLUMN n INT NOT NULL", ErrorKind::Unsupported, "column n"),
        ("ALTER TABLE t ADD COLUMN n INT DEFAULT 5", ErrorKind::Unsupported, "column n"),
        ("ALTER TABLE t ADD COLUMN n INTERVAL", ErrorKind::Invalid, "column n"),
        ("ALTER TABLE t RENAME COLUMN amount TO d", ErrorKind::AlreadyExists, "column d"),
        ("ALTER TABLE nothing ADD COLUMN n INT", ErrorKind::NotFound, "nothing"),
        ("ALTER TABLE t SET (cayenne_deletion_mode = 'key')", ErrorKind::Unsupported, "cayenne_deletion_mode"),
        ("ALTER TABLE t SET (colour = 'red')", ErrorKind::Invalid, "colour"),
    ] {
        refused(client, sql, kind, reason).await?;
    }
    client.update("ALTER TABLE IF EXISTS nothing ADD COLUMN n INT").await?;
    client.update("ALTER TABLE t ADD COLUMN IF NOT EXISTS amount BIGINT").await?;
    client.update("ALTER TABLE t DROP COLUMN IF EXISTS nothing").await?;
    Ok(())
}

#[test]
fn columns_change_beside_writers_and_none_of_their_rows_is_lost() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE w (k BIGINT, v BIGINT) PARTITION BY (bucket(4, k))").await?;
        let (done, rows) = (AtomicBool::new(false), AtomicI64::new(0));
        let changes = async {
            for round in 0..8 {
                let before = rows.load(Ordering::Relaxed);
                client.update(&format!("ALTER TABLE w ADD COLUMN c{round} BIGINT")).await?;
                client.update(&format!("ALTER TABLE w RENAME COLUMN c{round} TO d{round}")).await?;
                client.update(&format!("ALTER TABLE w DROP COLUMN d{round}")).await?;
                // A writer that meets a change runs again; it must find a moment without one.
                let more = || async { Ok((rows.load(Ordering::Relaxed) > before).then_some(())) };
                wait_until("a row between two rounds of changes", Duration::from_secs(60), more).await?;
            }
            done.store(true, Ordering::Relaxed);
            anyhow::Ok(())
        };
        let writer = async {
            let mut written = 0;
            while !done.load(Ordering::Relaxed) {
                client.update(&format!("INSERT INTO w (k, v) VALUES ({written}, {written})")).await?;
                if written % 7 == 6 {
                    ensure!(client.update(&format!("UPDATE w SET v = -v WHERE k = {}", written - 3)).await? == 1);
                }
                written += 1;
                rows.store(written, Ordering::Relaxed);
                let seen = single_integer(&client.query("SELECT count(*) FROM w").await?)?;
                ensure!(seen == written, "{seen} rows are seen of {written}");
            }
            anyhow::Ok(written)
        };
        try_join(changes, writer).await?;
        holds(&client, "SELECT count(*) - count(DISTINCT k), count(*) - count(v) FROM w", &["0 0"]).await?;
        ensure!(client.query("SELECT * FROM w").await?.schema.fields().len() == 2);
        cluster.stop().await
    });
}

#[test]
fn changed_columns_survive_a_restart_of_every_process() {
    run(async {
        let _turn = turns::shared().await?;
        let mut cluster = ProcessBuilder::default().executors(2).start().await?;
        let client = cluster.client(0)?;
        client.update("CREATE TABLE r (k BIGINT, a INT) PARTITION BY (bucket(4, k))").await?;
        client.update("INSERT INTO r SELECT value, value FROM generate_series(1, 100) AS g(value)").await?;
        client.update("ALTER TABLE r RENAME COLUMN a TO b").await?;
        client.update("ALTER TABLE r ALTER COLUMN b TYPE BIGINT").await?;
        client.update("ALTER TABLE r ADD COLUMN a VARCHAR").await?;
        for number in 0..2 {
            cluster.kill_executor(number)?;
        }
        for number in 0..2 {
            cluster.start_executor(number)?;
        }
        cluster.wait_ready().await?;
        holds(&client, "SELECT count(*), sum(b), count(a) FROM r", &["100 5050 0"]).await?;
        client.update("INSERT INTO r VALUES (101, 5000000000, 'x')").await?;
        holds(&client, "SELECT a, b FROM r WHERE k = 101", &["x 5000000000"]).await?;
        Ok(())
    });
}

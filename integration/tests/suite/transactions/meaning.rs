//! What statements inside a transaction see and do, in a cluster in this process.
use std::time::Duration;

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client,
    client::{Failure, first_column, single_integer},
    cluster::in_process::ClusterBuilder,
    run, turns,
};
use anyhow::{Context, ensure};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};

use crate::changes::rows_of;

async fn number(client: &Client, sql: &str) -> anyhow::Result<i64> {
    single_integer(&client.query(sql).await.with_context(|| sql.to_owned())?)
}

fn refused<T: std::fmt::Debug>(outcome: Result<T, Failure>, kind: ErrorKind, part: &str) -> anyhow::Result<()> {
    match outcome {
        Err(failure) if failure.kind() == kind && failure.error.message.contains(part) => Ok(()),
        other => anyhow::bail!("a failure of kind {kind:?} with {part:?} is needed, not {other:?}"),
    }
}

#[test]
fn it_sees_one_state_and_its_own_changes() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY (bucket(4, k))").await?;
        client.update("CREATE TABLE log (k BIGINT, v BIGINT) PARTITION BY (k)").await?;
        client.update("INSERT INTO t SELECT value, 0 FROM generate_series(1, 100) AS g(value)").await?;
        client.update("INSERT INTO log VALUES (0, 0)").await?;
        let before = rows_of(&client, "t").await?;

        let open = client.begin().await?;
        ensure!(number(&open, "SELECT count(*) FROM t").await? == 100);
        // Others write, and it does not see them: not in tables that it has read, nor in those that it has not.
        client.update("INSERT INTO t VALUES (1000, 1)").await?;
        client.update("INSERT INTO log VALUES (7, 7), (8, 8)").await?;
        ensure!(number(&open, "SELECT count(*) FROM t").await? == 100);
        ensure!(number(&open, "SELECT count(*) FROM log").await? == 1);

        ensure!(open.update("UPDATE t SET v = v + 1 WHERE k <= 50").await? == 50);
        ensure!(open.update("UPDATE t SET v = v + 1 WHERE v = 1").await? == 50);
        ensure!(number(&open, "SELECT sum(v) FROM t").await? == 100);
        ensure!(open.update("DELETE FROM t WHERE k > 90 OR (v = 2 AND k = 1)").await? == 11);
        ensure!(open.update("INSERT INTO t SELECT k + 500, v FROM t WHERE v = 2").await? == 49);
        ensure!(number(&open, "SELECT count(*) FROM t").await? == 138);
        // Partitions that are not there yet, and one that others made meanwhile.
        ensure!(open.update("INSERT INTO log SELECT k, v FROM t WHERE k IN (2, 7, 502)").await? == 3);
        ensure!(number(&open, "SELECT count(*) FROM log").await? == 4);
        ensure!(
            open.update(
                "MERGE INTO log USING (SELECT 2 AS k UNION ALL SELECT 3) AS s ON log.k = s.k \
                             WHEN MATCHED THEN UPDATE SET v = 20 WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, 30)"
            )
            .await?
                == 2
        );
        let joined = "SELECT sum(log.v) FROM log JOIN t ON log.k = t.k";
        ensure!(number(&open, joined).await? == 20 + 30 + 2 + 2, "{:?}", rows_of(&open, "log").await?);
        let inside = (rows_of(&open, "t").await?, rows_of(&open, "log").await?);
        // Nobody else sees anything of it.
        let mut others = before.clone();
        others.insert((Some(1000), Some(1)), 1);
        ensure!(rows_of(&client, "t").await? == others);

        open.commit().await?;
        let (mut t, mut log) = inside;
        t.insert((Some(1000), Some(1)), 1);
        log.extend([((Some(7), Some(7)), 1), ((Some(8), Some(8)), 1)]);
        ensure!(rows_of(&client, "t").await? == t);
        ensure!(rows_of(&client, "log").await? == log);
        refused(open.query("SELECT 1").await, ErrorKind::Conflict, "was committed")?;
        open.commit().await.context("asking again for a commit whose answer was lost")?;
        ensure!(rows_of(&client, "t").await? == t);
        cluster.stop().await
    });
}

#[test]
fn nothing_is_left_of_one_that_is_rolled_back_or_fails() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY (bucket(3, k))").await?;
        client.update("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)").await?;
        let before = rows_of(&client, "t").await?;

        let open = client.begin().await?;
        open.update("TRUNCATE TABLE t").await?;
        ensure!(number(&open, "SELECT count(*) FROM t").await? == 0);
        open.update("INSERT INTO t VALUES (9, 9)").await?;
        open.roll_back().await?;
        open.roll_back().await.context("twice is fine")?;
        ensure!(rows_of(&client, "t").await? == before);

        // A statement that fails ends it, whatever it is, and the commit says so.
        for (wrong, kind) in [
            ("SELECT nothing FROM t", ErrorKind::Invalid),
            ("SELECT assert(count(*) = 3, 'three rows are needed') FROM t", ErrorKind::Invalid),
            ("SELECT assert(v < 3) FROM t", ErrorKind::Invalid),
            ("SELECT * FROM no_such_table", ErrorKind::NotFound),
        ] {
            let open = client.begin().await?;
            open.update("INSERT INTO t VALUES (9, 9)").await?;
            refused(open.query(wrong).await, kind, "")?;
            refused(open.query("SELECT 1").await, kind, "roll it back")?;
            refused(open.commit().await, kind, "nothing was committed")?;
            ensure!(rows_of(&client, "t").await? == before, "{wrong}");
        }
        let open = client.begin().await?;
        open.update("INSERT INTO t VALUES (9, 9)").await?;
        ensure!(open.query("SELECT assert(count(*) = 4, 'four rows are needed') FROM t").await?.rows() == 1);
        ensure!(open.query("ASSERT (SELECT max(v) FROM t) = 9 AS 'nine'").await?.rows() == 1);
        refused(open.query("ASSERT (SELECT max(v) FROM t) = 8 AS 'eight'").await, ErrorKind::Invalid, "failed: eight")?;
        open.roll_back().await?;
        ensure!(rows_of(&client, "t").await? == before);
        refused(
            client.update("INSERT INTO t SELECT k, v FROM t WHERE assert(v < 3, 'v is too large')").await,
            ErrorKind::Invalid,
            "assertion failed: v is too large",
        )?;
        ensure!(rows_of(&client, "t").await? == before);
        cluster.stop().await
    });
}

#[test]
fn the_first_to_commit_wins() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        for table in ["CREATE TABLE t (k BIGINT, v BIGINT)", "CREATE TABLE p (k BIGINT PRIMARY KEY, v BIGINT)"] {
            client.update(&format!("{table} PARTITION BY (bucket(3, k))")).await?;
        }
        for table in ["t", "p"] {
            client.update(&format!("INSERT INTO {table} VALUES (1, 10), (2, 20), (3, 30)")).await?;
            // What one read may not change under it if it writes it.
            let (one, other) = (client.begin().await?, client.begin().await?);
            let read = number(&one, &format!("SELECT v FROM {table} WHERE k = 1")).await?;
            ensure!(number(&other, &format!("SELECT v FROM {table} WHERE k = 1")).await? == read);
            one.update(&format!("UPDATE {table} SET v = {} WHERE k = 1", read + 1)).await?;
            other.update(&format!("UPDATE {table} SET v = {} WHERE k = 1", read + 2)).await?;
            one.commit().await?;
            refused(other.commit().await, ErrorKind::Conflict, "")?;
            // Rows that do not meet do not hinder each other, whatever the order.
            let (one, other) = (client.begin().await?, client.begin().await?);
            one.update(&format!("UPDATE {table} SET v = v + 1 WHERE k = 1")).await?;
            other.update(&format!("UPDATE {table} SET v = v + 1 WHERE k = 2")).await?;
            other.update(&format!("DELETE FROM {table} WHERE k = 3")).await?;
            client.update(&format!("INSERT INTO {table} VALUES (4, 40)")).await?;
            other.commit().await?;
            one.commit().await?;
            let expected = [(1, 12), (2, 21), (4, 40)].map(|(k, v)| ((Some(k), Some(v)), 1));
            ensure!(rows_of(&client, table).await? == expected.into(), "{table}");
        }
        // With a primary key, an insert counts as a change of its key.
        let (one, other) = (client.begin().await?, client.begin().await?);
        one.update("INSERT INTO p VALUES (1, 100), (1, 101), (9, 90)").await?;
        ensure!(number(&one, "SELECT sum(v) FROM p WHERE k IN (1, 9)").await? == 191);
        one.update("INSERT INTO p VALUES (9, 91)").await?;
        ensure!(number(&one, "SELECT v FROM p WHERE k = 9").await? == 91);
        other.update("INSERT INTO p VALUES (9, 92)").await?;
        other.commit().await?;
        refused(one.commit().await, ErrorKind::Conflict, "")?;
        let expected = [(1, 12), (2, 21), (4, 40), (9, 92)].map(|(k, v)| ((Some(k), Some(v)), 1));
        ensure!(rows_of(&client, "p").await? == expected.into());
        cluster.stop().await
    });
}

#[test]
fn a_change_of_columns_ends_one_that_writes_to_the_table_at_once() {
    run(async {
        let _turn = turns::shared().await?;
        // Whoever waits for the columns to come back waits longer than the test.
        let cluster = ClusterBuilder::default().executors(2).partition_wait(Duration::from_secs(3600)).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY (bucket(3, k))").await?;
        client.update("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)").await?;
        let (reader, begun) = (client.begin().await?, client.begin().await?);
        ensure!(number(&reader, "SELECT sum(v) FROM t").await? == 6);
        client.update("ALTER TABLE t ADD COLUMN w BIGINT").await?;
        // What one only reads stays as it was; one that begins with the new columns has them.
        ensure!(number(&reader, "SELECT sum(v) FROM t").await? == 6);
        ensure!(begun.update("UPDATE t SET w = v WHERE k = 1").await? == 1);
        begun.commit().await?;
        ensure!(number(&client, "SELECT sum(w) FROM t").await? == 1);
        let limit = Duration::from_secs(120);
        refused(
            tokio::time::timeout(limit, reader.update("DELETE FROM t WHERE k = 1")).await?,
            ErrorKind::Conflict,
            "table t: its columns were changed",
        )?;
        ensure!(number(&client, "SELECT sum(v) FROM t").await? == 6);
        cluster.stop().await
    });
}

#[test]
fn rows_that_a_client_sends_are_a_part_of_it() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY (bucket(3, k))").await?;
        let column = |values: [i64; 2]| std::sync::Arc::new(Int64Array::from_iter_values(values)) as ArrayRef;
        let rows = RecordBatch::try_from_iter([("v", column([5, 6])), ("k", column([1, 2]))])?;
        for (end, expected) in [(true, 2), (false, 2), (true, 4)] {
            let open = client.begin().await?;
            ensure!(open.append("t", rows.clone()).await? == 2);
            ensure!(open.update("UPDATE t SET v = v + 1 WHERE k = 1").await? >= 1);
            ensure!(number(&open, "SELECT count(*) FROM t WHERE v > 5").await? >= 2);
            if end {
                open.commit().await?
            } else {
                open.roll_back().await?
            }
            ensure!(number(&client, "SELECT count(*) FROM t").await? == expected);
        }
        cluster.stop().await
    });
}

#[test]
fn tables_are_made_at_once_and_only_before_rows_change() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(1).start().await?;
        let client = cluster.client()?;
        // As a driver does it that has autocommit off from the start.
        let open = client.begin().await?;
        open.update("CREATE TABLE t (k BIGINT, v BIGINT)").await?;
        open.update("CREATE TABLE u AS SELECT 1 AS k, 2 AS v").await?;
        ensure!(number(&open, "SELECT v FROM u").await? == 2);
        open.update("INSERT INTO t SELECT * FROM u").await?;
        refused(open.update("DROP TABLE u").await, ErrorKind::Unsupported, "commit them first")?;
        open.roll_back().await?;
        ensure!(number(&client, "SELECT count(*) FROM t").await? == 0);
        ensure!(first_column(&client.query("SELECT v FROM u").await?)? == ["2"]);
        for words in ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT a"] {
            refused(client.update(words).await, ErrorKind::Unsupported, "")?;
        }
        cluster.stop().await
    });
}

#[test]
fn one_that_nobody_goes_on_with_is_rolled_back() {
    run(async {
        let _turn = turns::shared().await?;
        let limit = Duration::from_millis(600);
        let cluster = ClusterBuilder::default().executors(1).transaction_idle(limit).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (k BIGINT, v BIGINT)").await?;
        let unused = client.begin().await?;
        let open = client.begin().await?;
        open.update("INSERT INTO t VALUES (1, 1)").await?;
        tokio::time::sleep(limit * 4).await;
        refused(open.commit().await, ErrorKind::Conflict, "nobody went on with it")?;
        open.roll_back().await?;
        ensure!(number(&client, "SELECT count(*) FROM t").await? == 0);
        // Drivers begin the next one long before they need it.
        unused.update("INSERT INTO t VALUES (2, 2)").await?;
        unused.commit().await?;
        ensure!(number(&client, "SELECT count(*) FROM t").await? == 1);
        cluster.stop().await
    });
}

//! What each form of statement does, and what is refused without a trace.
use ancho_common::error::ErrorKind;
use ancho_integration::{Client, cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{Context, ensure};

use super::{Rows, pairs, rows_of};

/// Rows `k, v` as a test writes them.
fn rows(list: &[(i64, i64)]) -> Rows {
    let mut rows = Rows::new();
    for (k, v) in list {
        *rows.entry((Some(*k), Some(*v))).or_default() += 1;
    }
    rows
}

/// Runs a statement, which must report `count` rows, and compares the table.
pub(super) async fn changes(client: &Client, sql: &str, count: i64, expected: &[(i64, i64)]) -> anyhow::Result<()> {
    let reported = client.update(sql).await.with_context(|| sql.to_owned())?;
    ensure!(reported == count, "{sql}: {reported} rows are reported, not {count}");
    let found = rows_of(client, "t").await.with_context(|| format!("after {sql}"))?;
    ensure!(found == rows(expected), "{sql} leaves {found:?}");
    Ok(())
}

/// Runs a statement that is refused and changes nothing.
pub(super) async fn refused(client: &Client, sql: &str, kind: ErrorKind, reason: &str) -> anyhow::Result<()> {
    let before = rows_of(client, "t").await?;
    let Err(failure) = client.update(sql).await else { anyhow::bail!("not refused: {sql}") };
    ensure!(failure.kind() == kind && failure.error.message.contains(reason), "{sql}: {failure}");
    ensure!(rows_of(client, "t").await? == before, "{sql} was refused and changed rows");
    Ok(())
}

async fn reset(client: &Client) -> anyhow::Result<()> {
    client.update("TRUNCATE TABLE t").await?;
    client.update("INSERT INTO t VALUES (1, 10), (2, 20), (3, 30), (4, 40), (5, 50)").await?;
    Ok(())
}

#[test]
fn each_form_does_what_it_says() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (k BIGINT NOT NULL, v BIGINT) PARTITION BY (bucket(4, k))").await?;
        client.update("CREATE TABLE s (k BIGINT, v BIGINT) PARTITION BY (bucket(3, k))").await?;
        client.update("INSERT INTO s VALUES (2, 200), (3, 300), (9, 900)").await?;
        deletes(&client).await?;
        updates(&client).await?;
        merges(&client).await?;
        refusals(&client).await?;
        hidden(&client).await?;
        cluster.stop().await
    });
}

async fn deletes(client: &Client) -> anyhow::Result<()> {
    reset(client).await?;
    changes(client, "DELETE FROM t WHERE v > 30", 2, &[(1, 10), (2, 20), (3, 30)]).await?;
    changes(client, "DELETE FROM t WHERE v > 30", 0, &[(1, 10), (2, 20), (3, 30)]).await?;
    changes(client, "DELETE FROM t AS x WHERE x.k IN (SELECT k FROM s WHERE v = 200)", 1, &[(1, 10), (3, 30)]).await?;
    changes(client, "DELETE FROM t WHERE v = (SELECT max(v) FROM t)", 1, &[(1, 10)]).await?;
    reset(client).await?;
    let left = [(1, 10), (4, 40), (5, 50)];
    changes(client, "DELETE FROM t WHERE EXISTS (SELECT 1 FROM s WHERE s.k = t.k)", 2, &left).await?;
    reset(client).await?;
    // Every row of s is a partner of a row, which goes once.
    changes(client, "DELETE FROM t USING s WHERE t.k < 3 AND s.v > t.v", 2, &[(3, 30), (4, 40), (5, 50)]).await?;
    changes(client, "DELETE FROM public.t WHERE public.t.k = 3 OR t.k = 4", 2, &[(5, 50)]).await?;
    changes(client, "INSERT INTO t VALUES (5, 50)", 1, &[(5, 50), (5, 50)]).await?;
    changes(client, "DELETE FROM t", 2, &[]).await?;
    changes(client, "DELETE FROM t", 0, &[]).await?;
    reset(client).await?;
    changes(client, "TRUNCATE t", 5, &[]).await
}

async fn updates(client: &Client) -> anyhow::Result<()> {
    reset(client).await?;
    let twice = [(1, 20), (2, 40), (3, 60), (4, 80), (5, 100)];
    changes(client, "UPDATE t SET v = v * 2", 5, &twice).await?;
    // Rows move to other partitions, into the place of rows that move on.
    let moved = [(2, 20), (3, 40), (4, 60), (5, 80), (6, 100)];
    changes(client, "UPDATE t SET k = k + 1", 5, &moved).await?;
    let all_at_once = [(20, 2), (3, 40), (4, 60), (5, 80), (6, 100)];
    changes(client, "UPDATE t SET (k, v) = (v, k) WHERE k = 2", 1, &all_at_once).await?;
    let text = [(20, 7), (3, 7), (4, 60), (5, 80), (6, 100)];
    changes(client, "UPDATE t x SET v = '7' WHERE x.k = 20 OR x.v = 40", 2, &text).await?;
    reset(client).await?;
    let joined = [(1, 10), (2, 220), (3, 330), (4, 40), (5, 50)];
    changes(client, "UPDATE t SET v = t.v + s.v FROM s WHERE s.k = t.k", 2, &joined).await?;
    let from_query = [(1, 10), (2, 200), (3, 300), (4, 40), (5, 50)];
    let correlated = "UPDATE t SET v = (SELECT max(s.v) FROM s WHERE s.k = t.k) WHERE k IN (SELECT k FROM s)";
    changes(client, correlated, 2, &from_query).await?;
    let same = [(1, 300), (2, 300), (3, 300), (4, 300), (5, 300)];
    changes(client, "UPDATE t SET v = (SELECT max(v) FROM t)", 5, &same).await?;
    client.update("UPDATE t SET v = DEFAULT WHERE k > 1").await?;
    let found = pairs(&client.query("SELECT count(*), count(v) FROM t").await?)?;
    ensure!(found.contains_key(&(Some(5), Some(1))), "{found:?}");
    Ok(())
}

async fn merges(client: &Client) -> anyhow::Result<()> {
    reset(client).await?;
    let upsert = "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v + t.v \
                  WHEN NOT MATCHED THEN INSERT (v, k) VALUES (s.v, s.k)";
    changes(client, upsert, 3, &[(1, 10), (2, 220), (3, 330), (4, 40), (5, 50), (9, 900)]).await?;
    let first_clause = "MERGE INTO t AS a USING (SELECT k + 1 AS k FROM s) AS b ON a.k = b.k \
                        WHEN MATCHED AND a.v = 330 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 0 \
                        WHEN NOT MATCHED AND b.k > 100 THEN INSERT VALUES (b.k, 1)";
    changes(client, first_clause, 2, &[(1, 10), (2, 220), (4, 0), (5, 50), (9, 900)]).await?;
    let by_source = "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED BY SOURCE AND t.k = 1 THEN DELETE \
                     WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = -1 WHEN NOT MATCHED THEN INSERT VALUES (s.k, 5)";
    changes(client, by_source, 4, &[(2, 220), (3, 5), (4, -1), (5, -1), (9, 900)]).await?;
    let guarded =
        "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.v <> 200 THEN UPDATE SET v = 1000 / (s.v - 200)";
    changes(client, guarded, 2, &[(2, 220), (3, 10), (4, -1), (5, -1), (9, 1)]).await?;
    computed(client).await
}

/// Many rows of both kinds, mixed, with values that are computed: batches are cut anywhere.
async fn computed(client: &Client) -> anyhow::Result<()> {
    client.update("TRUNCATE TABLE t").await?;
    client.update("INSERT INTO t SELECT value, value FROM generate_series(1, 1000) AS g(value)").await?;
    let merge = "MERGE INTO t USING (SELECT value AS k, value * 2 AS v FROM generate_series(501, 1500) AS g(value)) AS s \
                 ON t.k = s.k WHEN MATCHED AND length(repeat('x', t.k % 3)) = 0 THEN DELETE \
                 WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, -s.v)";
    let expected: Vec<(i64, i64)> = (1..=1500)
        .filter_map(|k| match k {
            ..=500 => Some((k, k)),
            501..=1000 => (k % 3 != 0).then_some((k, 3 * k)),
            _ => Some((k, -2 * k)),
        })
        .collect();
    changes(client, merge, 1000, &expected).await
}

async fn refusals(client: &Client) -> anyhow::Result<()> {
    use ErrorKind::{Invalid, NotFound, Unsupported};
    reset(client).await?;
    let cases = [
        ("UPDATE t SET v = s.v FROM s WHERE s.v > 200", Invalid, "more than one row of the source"),
        ("MERGE INTO t USING s ON s.v > 200 WHEN MATCHED THEN DELETE", Invalid, "more than one row of the source"),
        ("UPDATE t SET k = NULL WHERE k = 3", Invalid, "k"),
        ("UPDATE t SET v = 'x'", Invalid, "x"),
        ("UPDATE t SET v = 1 / (k - 3)", Invalid, "zero"),
        ("UPDATE t SET v = 1, v = 2", Invalid, "column v is set twice"),
        ("UPDATE t SET w = 1", Invalid, "no column w"),
        ("UPDATE t SET v = (SELECT v FROM s)", Invalid, "row"),
        ("DELETE FROM t WHERE w = 1", Invalid, "w"),
        ("DELETE FROM u", NotFound, "u"),
        ("DELETE FROM t WHERE k = 1 LIMIT 1", Unsupported, "LIMIT"),
        ("MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN DELETE", Invalid, "NOT MATCHED"),
        ("INSERT INTO t VALUES (1, 2), (NULL, 3)", Invalid, "k"),
    ];
    for (sql, kind, reason) in cases {
        refused(client, sql, kind, reason).await?;
    }
    Ok(())
}

async fn hidden(client: &Client) -> anyhow::Result<()> {
    let columns = client.query("SELECT column_name FROM information_schema.columns WHERE table_name = 't'").await?;
    ensure!(columns.rows() == 2 && client.query("DESCRIBE t").await?.rows() == 2, "{columns:?}");
    let tables = client.query("SELECT DISTINCT table_schema FROM information_schema.tables").await?;
    ensure!(!format!("{tables:?}").contains("__ancho"), "{tables:?}");
    let Err(taken) = client.update("CREATE TABLE h (__ancho_row BIGINT)").await else {
        anyhow::bail!("a hidden column's name was taken")
    };
    ensure!(taken.kind() == ErrorKind::Invalid, "{taken}");
    Ok(())
}

//! Tables are replaced whole or not at all: by datasets whose columns or partitions changed and by
//! `CREATE OR REPLACE TABLE … AS`; with files that break in the middle, leaders that are killed, clients that go away.
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client, Failure,
    client::first_column,
    cluster::processes::{ProcessBuilder, Processes},
    run,
    sources::write_file,
    turns, wait_until,
};
use anyhow::{Context, ensure};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use crate::loading::{SpecText, check_rows, integer, rows_sql};

const PARQUET: (&str, &str) = ("file_format", "parquet");

/// When a silent executor counts as down; loads are given up after three times that.
const SESSION_TTL: Duration = Duration::from_secs(4);

/// Within this time what was left behind must be gone: three sessions, an election, and a busy machine.
const CLEANUP_LIMIT: Duration = Duration::from_secs(60);

/// A query that never comes to an end on its own.
const ENDLESS: &str = "SELECT a.value AS id FROM generate_series(1, 10000000) AS a(value) \
                       CROSS JOIN generate_series(1, 10000000) AS b(value)";

/// Partitions that executors hold, those of tables that are not listed included.
async fn held(client: &Client) -> anyhow::Result<u64> {
    let status = client.status().await?;
    let executors = status["executors"].as_array().context("executors")?;
    Ok(executors.iter().filter_map(|e| e["partitions"].as_u64()).sum())
}

async fn wait_held(client: &Client, what: &str, wanted: impl Fn(u64) -> bool) -> anyhow::Result<()> {
    wait_until(what, CLEANUP_LIMIT, || async {
        let held = held(client).await?;
        if wanted(held) { Ok(Some(())) } else { anyhow::bail!("{held} partitions are held") }
    })
    .await
}

/// Asks for the sum of ids until it is told to stop; the sums seen. What is not answered in time may be asked again.
fn reader(client: Client, table: &'static str, stop: Arc<AtomicBool>) -> JoinHandle<anyhow::Result<BTreeSet<i64>>> {
    tokio::spawn(async move {
        let mut seen = BTreeSet::new();
        while !stop.load(Ordering::Relaxed) {
            match client.query(&format!("SELECT sum(id) FROM {table}")).await {
                Ok(answer) => {
                    seen.extend(first_column(&answer)?.iter().map(|v| v.parse::<i64>()).collect::<Result<Vec<_>, _>>()?)
                }
                Err(failure) => ensure!(failure.kind().retryable(), "{failure}"),
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(seen)
    })
}

/// Checks that a table holds the ids 1 to `last`; while a leader is elected, again.
async fn check_settled(client: &Client, table: &str, last: i64) -> anyhow::Result<()> {
    let passes = |e: &anyhow::Error| {
        e.chain().any(|cause| cause.downcast_ref::<Failure>().is_some_and(|failure| failure.kind().retryable()))
    };
    let checked = wait_until("an answer", CLEANUP_LIMIT, || async {
        match check_rows(client, table, last).await {
            Err(error) if passes(&error) => Err(error),
            checked => Ok(Some(checked)),
        }
    });
    checked.await?
}

/// Spoils the values of a Parquet file; its footer, and with it its columns, stay readable.
fn spoil(path: &Path) -> anyhow::Result<()> {
    let mut bytes = fs::read(path)?;
    let middle = bytes.len() / 2;
    bytes[4..middle].fill(0xff);
    Ok(fs::write(path, bytes)?)
}

#[test]
fn a_dataset_that_cannot_be_replaced_keeps_its_rows() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        let root = sources.path();
        write_file(&root.join("v1/a.parquet"), &rows_sql(1, 1000)).await?;
        write_file(&root.join("v2/a.parquet"), &rows_sql(1, 3000)).await?;
        write_file(&root.join("v2/b.parquet"), &rows_sql(3001, 60_000)).await?;
        fs::copy(root.join("v2/b.parquet"), root.join("good"))?;
        spoil(&root.join("v2/b.parquet"))?;
        let cluster = ProcessBuilder::default().executors(2).session_ttl(SESSION_TTL).start().await?;
        let client = cluster.client(0)?;
        let spec = |version: &str, expression: &str| {
            let from = format!("file://{}/{version}/", root.display());
            SpecText::new().dataset("swapped", &from, &[PARQUET], &[expression]).0
        };
        client.apply(&spec("v1", "bucket(4, id)")).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let reading = reader(client.clone(), "swapped", Arc::clone(&stop));

        // Other partitions, then the same ones: a table beside the old one, and new rows for the old one.
        for expression in ["bucket(6, id)", "k", "bucket(4, id)"] {
            let failure = client.apply(&spec("v2", expression)).await.err().context("a spoiled file was loaded")?;
            ensure!(failure.error.message.contains("dataset swapped"), "{failure}");
            check_rows(&client, "swapped", 1000).await?;
            wait_held(&client, "only the old partitions", |held| held == 4).await?;
        }
        fs::copy(root.join("good"), root.join("v2/b.parquet"))?;
        let changes = client.apply(&spec("v2", "bucket(6, id)")).await?;
        ensure!(changes[0].action == "replaced" && changes[0].rows == Some(60_000), "{changes:?}");
        check_rows(&client, "swapped", 60_000).await?;
        wait_held(&client, "only the new partitions", |held| held == 6).await?;
        let changes = client.apply(&spec("v2", "bucket(6, id)")).await?;
        ensure!(changes[0].action == "unchanged", "{changes:?}");

        stop.store(true, Ordering::Relaxed);
        let seen = timeout(Duration::from_secs(60), reading).await???;
        let possible = BTreeSet::from([1000 * 1001 / 2, 60_000 * 60_001 / 2]);
        ensure!(seen.is_subset(&possible), "sums seen: {seen:?}, possible: {possible:?}");
        cluster.stop().await
    });
}

#[test]
fn a_dataset_that_fails_is_told_beside_those_that_do_not() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        let root = sources.path().display();
        write_file(&sources.path().join("p/q/x_1.parquet"), &rows_sql(1, 10)).await?;
        write_file(&sources.path().join("p/r/x_2.parquet"), &rows_sql(11, 30)).await?;
        write_file(&sources.path().join("p/r/x_10.parquet"), &rows_sql(31, 50)).await?;
        let cluster = ProcessBuilder::default().executors(1).start().await?;
        let client = cluster.client(0)?;
        let spec = SpecText::new()
            .dataset("folders", &format!("file://{root}/p/*/x_?.parquet"), &[PARQUET], &["k"])
            .dataset("none", &format!("file://{root}/p/[xyz]/*.parquet"), &[PARQUET], &[])
            .dataset("deep", &format!("file://{root}/**/x_*.parquet"), &[PARQUET], &["k"])
            .dataset("classes", &format!("file://{root}/p/[qx]/*.parquet"), &[PARQUET], &["k"]);
        let changes = client.try_apply(&spec.0).await?;
        let told: Vec<(&str, &str)> = changes.iter().map(|c| (c.table.as_str(), c.action.as_str())).collect();
        let expected = [("folders", "created"), ("none", "failed"), ("deep", "created"), ("classes", "created")];
        ensure!(told == expected, "{changes:?}");
        let failed = &changes[1];
        ensure!(failed.error == Some(ErrorKind::NotFound), "{failed:?}");
        ensure!(failed.detail.as_ref().is_some_and(|d| d.contains("/p/[xyz]/*.parquet")), "{failed:?}");
        for (table, last) in [("folders", 30), ("deep", 50), ("classes", 10)] {
            check_rows(&client, table, last).await?;
        }
        cluster.stop().await
    });
}

#[test]
fn a_table_is_replaced_by_a_query_over_itself() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ProcessBuilder::default().executors(2).session_ttl(SESSION_TTL).start().await?;
        let client = cluster.client(0)?;
        client.update("CREATE TABLE t (id BIGINT, v BIGINT) PARTITION BY (bucket(4, id))").await?;
        client.update("INSERT INTO t SELECT value, value % 5 FROM generate_series(1, 100) AS g(value)").await?;
        let failing = "CREATE OR REPLACE TABLE t AS SELECT id / (v - 3) AS id FROM t";
        let failure = client.update(failing).await.err().context("a division by zero")?;
        ensure!(failure.kind() == ErrorKind::Invalid, "{failure}");
        ensure!(integer(&client, "SELECT sum(id) FROM t WHERE v < 5").await? == 5050);

        let replace = "CREATE OR REPLACE TABLE t PARTITION BY (bucket(3, id)) AS \
                       SELECT id, count(*) AS n, max(id) - (SELECT min(id) FROM t) AS d FROM t WHERE v < 2 GROUP BY id";
        ensure!(client.update(replace).await? == 40);
        ensure!(
            integer(&client, "SELECT sum(d + n) FROM t").await? == integer(&client, "SELECT sum(id) FROM t").await?
        );
        wait_held(&client, "only the new partitions", |held| held == 3).await?;
        // Without a query, and where there is nothing to replace.
        client.update("CREATE OR REPLACE TABLE t (a INT)").await?;
        ensure!(integer(&client, "SELECT count(a) FROM t").await? == 0);
        client.update("CREATE OR REPLACE TABLE u AS SELECT 7 AS a").await?;
        ensure!(integer(&client, "SELECT a FROM u").await? == 7);

        client.update("ALTER TABLE u RENAME TO w").await?;
        client.update("INSERT INTO w VALUES (8)").await?;
        ensure!(integer(&client, "SELECT sum(a) FROM w").await? == 15);
        for (sql, kind, part) in [
            ("SELECT * FROM u", ErrorKind::NotFound, "u"),
            ("ALTER TABLE u RENAME TO x", ErrorKind::NotFound, "table u does not exist"),
            ("ALTER TABLE w RENAME TO t", ErrorKind::AlreadyExists, "table t exists"),
            ("DROP TABLE system.tables", ErrorKind::Invalid, "system tables cannot be"),
            ("EXPLAIN FORMAT pgjson SELECT 1", ErrorKind::Unsupported, "INDENT and TREE are"),
        ] {
            let failure = match client.query(sql).await {
                Err(failure) if sql.starts_with(['S', 'E']) => failure,
                _ => client.update(sql).await.err().with_context(|| format!("{sql} was done"))?,
            };
            ensure!(failure.kind() == kind && failure.error.message.contains(part), "{sql}: {failure}");
        }
        let tree = first_column(&client.query("EXPLAIN FORMAT TREE SELECT a, count(*) FROM w GROUP BY a").await?)?;
        ensure!(tree == ["logical_plan", "distributed_plan"], "{tree:?}");
        let plans = client.query("EXPLAIN FORMAT TREE SELECT a, count(*) FROM w GROUP BY a").await?;
        let plans = format!("{:?}", plans.batches);
        ensure!(plans.contains("CayenneScanExec") && plans.contains('┌'), "{plans}");
        cluster.stop().await
    });
}

/// Starts something that loads rows through a scheduler, and waits until it has begun.
async fn begin<F>(cluster: &Processes, scheduler: usize, work: F) -> anyhow::Result<JoinHandle<F::Output>>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let client = cluster.client(scheduler)?;
    let before = held(&client).await?;
    let running = tokio::spawn(work);
    wait_held(&client, "a load that has begun", |held| held > before).await?;
    sleep(Duration::from_millis(300)).await;
    Ok(running)
}

#[test]
fn loads_of_a_killed_scheduler_and_of_a_gone_client_are_given_up() {
    run(async {
        let _turn = turns::shared().await?;
        let sources = tempfile::tempdir()?;
        write_file(&sources.path().join("v1/a.parquet"), &rows_sql(1, 1000)).await?;
        write_file(&sources.path().join("v2/a.parquet"), &rows_sql(1, 1_500_000)).await?;
        let mut cluster = ProcessBuilder::default().schedulers(3).executors(2).session_ttl(SESSION_TTL).start().await?;
        let spec = |version: &str, buckets: u32| {
            let from = format!("file://{}/{version}/", sources.path().display());
            SpecText::new().dataset("mirror", &from, &[PARQUET], &[&format!("bucket({buckets}, id)")]).0
        };
        let leader = cluster.wait_leader(CLEANUP_LIMIT).await?;
        let (client, other) = (cluster.client(leader)?, cluster.client((leader + 1) % 3)?);
        client.apply(&spec("v1", 4)).await?;
        client.update("CREATE TABLE kept PARTITION BY (bucket(2, id)) AS SELECT value AS id FROM generate_series(1, 10) AS g(value)").await?;
        let stop = Arc::new(AtomicBool::new(false));
        let reading = reader(other.clone(), "mirror", Arc::clone(&stop));

        // A client that goes away: its load ends with it.
        let (gone, text) = (client.clone(), spec("v2", 6));
        let load = begin(&cluster, leader, async move { gone.apply(&text).await }).await?;
        load.abort();
        wait_held(&other, "no trace of a cancelled load", |held| held == 6).await?;
        check_rows(&other, "mirror", 1000).await?;

        // One that somebody carries on is not given up, however long it takes; a DROP ends it.
        let (sender, sql) = (other.clone(), format!("CREATE TABLE slow AS {ENDLESS}"));
        let slow = begin(&cluster, (leader + 1) % 3, async move { sender.update(&sql).await }).await?;
        sleep(SESSION_TTL * 4).await;
        ensure!(!slow.is_finished(), "a load ended: {:?}", slow.await);
        other.update("DROP TABLE slow").await?;
        let outcome = timeout(CLEANUP_LIMIT, slow).await??;
        ensure!(outcome.as_ref().is_err_and(|f| f.error.message.contains("dropped")), "{outcome:?}");

        // A scheduler that is killed: its loads, of new tables and of replacements, are given up by the next leader.
        let mut loads = Vec::new();
        for sql in ["CREATE OR REPLACE TABLE kept AS", "CREATE TABLE fresh AS"] {
            let (sender, sql) = (client.clone(), format!("{sql} {ENDLESS}"));
            loads.push(begin(&cluster, leader, async move { sender.update(&sql).await }).await?);
        }
        let loading = other.query("SELECT * FROM fresh").await;
        ensure!(loading.is_err(), "a table that is being loaded was read: {loading:?}");
        // Last, since it would come to an end.
        let (sender, text) = (client.clone(), spec("v2", 6));
        loads.push(begin(&cluster, leader, async move { sender.apply(&text).await.map(|_| 0) }).await?);
        cluster.kill_scheduler(leader)?;
        for load in loads {
            let outcome = timeout(CLEANUP_LIMIT, load).await??;
            ensure!(outcome.is_err(), "the answer of a killed scheduler: {outcome:?}");
        }
        wait_held(&other, "no trace of broken-off loads", |held| held == 6).await?;
        check_settled(&other, "mirror", 1000).await?;
        ensure!(integer(&other, "SELECT sum(id) FROM kept").await? == 55);
        ensure!(other.query("SELECT * FROM fresh").await.is_err_and(|f| !f.kind().retryable()));

        // Another scheduler can do what the killed one began.
        let changes = other.apply(&spec("v2", 6)).await?;
        ensure!(changes[0].action == "replaced", "{changes:?}");
        check_settled(&other, "mirror", 1_500_000).await?;
        stop.store(true, Ordering::Relaxed);
        let seen = timeout(CLEANUP_LIMIT, reading).await???;
        let possible = BTreeSet::from([1000 * 1001 / 2, 1_500_000 * 1_500_001 / 2]);
        ensure!(seen.is_subset(&possible), "sums seen: {seen:?}, possible: {possible:?}");
        cluster.start_scheduler(leader)?;
        cluster.wait_ready().await?;
        cluster.stop().await
    });
}

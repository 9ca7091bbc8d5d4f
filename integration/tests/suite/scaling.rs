//! Executors join while statements run: each gets its share, no statement fails, no answer is wrong, no row is lost, and no
//! byte moves in vain.
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use ancho_integration::{
    Client,
    client::{first_column, single_integer},
    cluster::in_process::{Cluster, ClusterBuilder},
    run, turns, wait_until,
};
use anyhow::{Context, ensure};
use futures::future::try_join_all;
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

/// Rows of the table that nobody writes.
const ROWS: i64 = 200_000;
/// Rows of one insertion.
const BATCH: i64 = 20;
/// Longest time for the cluster to become even, in a debug build on a busy machine.
const MOVE_LIMIT: Duration = Duration::from_secs(240);
/// Longest time for a statement.
const STATEMENT_LIMIT: Duration = Duration::from_secs(60);

/// What the load has done.
#[derive(Debug, Default)]
struct Load {
    stop: AtomicBool,
    /// Rows that were inserted for certain, and those that may have been.
    written: AtomicI64,
    begun: AtomicI64,
    answers: AtomicI64,
}

#[test]
fn executors_that_join_under_load_get_their_shares() {
    run(async {
        let _turn = turns::shared().await?;
        let mut cluster = ClusterBuilder::default().executors(1).start().await?;
        let client = cluster.client()?;
        prepare(&client).await?;
        let (load, running) = start_load(&client);
        for joining in [1, 2] {
            let before = bytes_by_executor(&client).await?;
            let fetched = fetched(&cluster);
            for _ in 0..joining {
                cluster.add_executor().await?;
            }
            settled(&client, cluster.executors().len(), &running).await?;
            check_shares(&client, &before, fetched_since(&cluster, &fetched)).await?;
        }
        end_load(&client, &load, running).await?;
        cluster.stop().await
    });
}

/// K13, K26: one that drains gives everything away under load, and is forgotten then.
#[test]
fn a_drained_executor_is_emptied_under_load_and_forgotten() {
    run(async {
        let _turn = turns::shared().await?;
        let mut cluster = ClusterBuilder::default().executors(3).start().await?;
        let client = cluster.client()?;
        prepare(&client).await?;
        let drained = cluster.executors()[2].id().0.clone();
        let (load, running) = start_load(&client);
        let of = |executor: &str| format!(r#"{{"executor":"{executor}"}}"#);
        ensure!(client.action("ancho.remove_executor", of(&drained)).await.is_err(), "it is up and owns something");
        ensure!(client.action("ancho.drain", of("nobody")).await.is_err());
        // The beginning of an id is enough.
        client.action("ancho.drain", of(&drained[..13])).await?;
        let state = "SELECT state FROM system.executors WHERE state = 'draining'";
        ensure!(first_column(&client.query(state).await?)? == ["draining"]);
        let owned = format!("SELECT partitions FROM system.executors WHERE executor_id = '{drained}'");
        wait_until("the executor to be empty", MOVE_LIMIT, || async {
            let failed = running.iter().any(JoinHandle::is_finished);
            let left = single_integer(&client.query(&owned).await?)?;
            let moves = single_integer(&client.query("SELECT count(*) FROM system.moves").await?)?;
            Ok((failed || (left, moves) == (0, 0)).then_some(()))
        })
        .await?;
        cluster.stop_executor(2).await;
        client.action("ancho.remove_executor", of(&drained)).await?;
        let known = client.query("SELECT count(*) FROM system.executors").await?;
        ensure!(single_integer(&known)? == 2);
        end_load(&client, &load, running).await?;
        let plan = client.action("ancho.rebalance", r#"{"dry_run":true}"#).await?;
        let plan: serde_json::Value = serde_json::from_slice(&plan)?;
        ensure!(plan["moves"].as_array().is_some_and(Vec::is_empty), "what was drained lies unevenly: {plan}");
        // The last ones keep what they have.
        let first = cluster.executors()[0].id().0.clone();
        client.action("ancho.drain", of(&first)).await?;
        let second = cluster.executors()[1].id().0.clone();
        ensure!(client.action("ancho.drain", of(&second)).await.is_err(), "nobody is left");
        client.action("ancho.undrain", of(&first)).await?;
        cluster.stop().await
    });
}

/// K13: the owner keeps its partitions until the target has them; a target that dies before costs nothing.
#[test]
fn a_target_that_dies_in_the_middle_costs_nothing() {
    run(async {
        let _turn = turns::shared().await?;
        let mut cluster = ClusterBuilder::default().executors(1).start().await?;
        let client = cluster.client()?;
        prepare(&client).await?;
        let (load, running) = start_load(&client);
        wait_until("rows in every partition", STATEMENT_LIMIT, || async {
            let empty = "SELECT count(*) FROM system.partitions WHERE version = 0";
            Ok((single_integer(&client.query(empty).await?)? == 0).then_some(()))
        })
        .await?;
        // So slow that nothing arrives.
        cluster.limit_copies(Some(64));
        cluster.add_executor().await?;
        wait_until("copies under way", MOVE_LIMIT, || async {
            let copying = client.query("SELECT count(*) FROM system.moves WHERE phase = 'copying'").await?;
            Ok((single_integer(&copying)? > 0).then_some(()))
        })
        .await?;
        cluster.stop_executor(1).await;
        wait_until("the moves to be given up", MOVE_LIMIT, || async {
            Ok((single_integer(&client.query("SELECT count(*) FROM system.moves").await?)? == 0).then_some(()))
        })
        .await?;
        let owners = "SELECT count(DISTINCT owners) FROM system.partitions";
        ensure!(single_integer(&client.query(owners).await?)? == 1, "something went over");
        cluster.limit_copies(None);
        cluster.add_executor().await?;
        settled(&client, cluster.executors().len(), &running).await?;
        end_load(&client, &load, running).await?;
        cluster.stop().await
    });
}

/// Rows whose executor is gone are given up by an operator, and by nobody else.
#[test]
fn lost_rows_are_given_up_only_when_somebody_says_so() {
    run(async {
        let _turn = turns::shared().await?;
        let builder = ClusterBuilder::default().executors(2).partition_wait(Duration::from_secs(1));
        let mut cluster = builder.start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE l_rows (id BIGINT) PARTITION BY (bucket(8, id))").await?;
        client.update("INSERT INTO l_rows SELECT value FROM generate_series(1, 1000) AS s(value)").await?;
        let lost = cluster.executors()[1].id().0.clone();
        let of = |what: &str| format!("SELECT {what} FROM system.partitions WHERE owners = '{lost}'");
        let rows = single_integer(&client.query(&of("sum(rows)")).await?)?;
        ensure!(rows > 0 && rows < 1000);
        let served = first_column(&client.query("SELECT partition_id FROM system.partitions LIMIT 1").await?)?;
        let accept = |id: &str| format!(r#"{{"partition":{id},"accept_loss":true}}"#);
        let refused = client.action("ancho.recover", accept(&served[0])).await.err().context("it is served")?;
        ensure!(refused.error.message.contains("is served by"), "{refused}");
        cluster.stop_executor(1).await;
        let missing = client.query("SELECT count(*) FROM l_rows").await.err().context("rows are missing")?;
        ensure!(missing.error.message.contains("l_rows: partition"), "{missing}");
        for partition in first_column(&client.query(&of("partition_id")).await?)? {
            let unsure = client.action("ancho.recover", format!(r#"{{"partition":{partition}}}"#)).await;
            let unsure = unsure.err().context("nobody accepted the loss")?;
            ensure!(unsure.error.message.contains("rows that would be given up"), "{unsure}");
            client.action("ancho.recover", accept(&partition)).await?;
        }
        ensure!(single_integer(&client.query("SELECT count(*) FROM l_rows").await?)? == 1000 - rows);
        client.update("INSERT INTO l_rows SELECT value FROM generate_series(1, 1000) AS s(value)").await?;
        ensure!(single_integer(&client.query("SELECT count(*) FROM l_rows").await?)? == 2000 - rows);
        cluster.stop().await
    });
}

type Running = Vec<JoinHandle<anyhow::Result<()>>>;

fn start_load(client: &Client) -> (Arc<Load>, Running) {
    let load = Arc::new(Load::default());
    let mut running = vec![
        tokio::spawn(write(client.clone(), Arc::clone(&load))),
        tokio::spawn(change(client.clone(), Arc::clone(&load))),
    ];
    running.extend((0..READS.len()).map(|n| tokio::spawn(read(client.clone(), n, Arc::clone(&load)))));
    (load, running)
}

/// Lets the load go on for a moment on the new owners alone, ends it, and looks at what it has written.
async fn end_load(client: &Client, load: &Load, running: Running) -> anyhow::Result<()> {
    let answers = load.answers.load(Ordering::SeqCst);
    wait_until("answers after the last move", STATEMENT_LIMIT, || async {
        let failed = running.iter().any(JoinHandle::is_finished);
        Ok((failed || load.answers.load(Ordering::SeqCst) > answers + 20).then_some(()))
    })
    .await?;
    load.stop.store(true, Ordering::SeqCst);
    for ended in try_join_all(running).await? {
        ended?;
    }
    let written = load.written.load(Ordering::SeqCst);
    for count in ["count(*)", "count(DISTINCT id)"] {
        let found = single_integer(&client.query(&format!("SELECT {count} FROM grown")).await?)?;
        ensure!(found == written, "{count} is {found}, {written} rows were written");
    }
    Ok(())
}

async fn prepare(client: &Client) -> anyhow::Result<()> {
    for table in ["fixed", "other"] {
        let create = format!("CREATE TABLE {table} (id BIGINT, g BIGINT, text VARCHAR) PARTITION BY (bucket(16, id))");
        client.update(&create).await?;
        let insert = format!(
            "INSERT INTO {table} SELECT value, value % 100, 'text of row ' || CAST(value AS VARCHAR) || '-' || \
             CAST(value * 7919 AS VARCHAR) FROM generate_series(1, {ROWS}) AS s(value)"
        );
        ensure!(client.update(&insert).await? == ROWS);
    }
    client.update("CREATE TABLE grown (id BIGINT, changes BIGINT) PARTITION BY (bucket(8, id))").await?;
    client.update("CREATE TABLE whole (id BIGINT)").await?;
    client.update("INSERT INTO whole VALUES (1), (2), (3)").await?;
    Ok(())
}

/// Statements over what nobody writes, each with its one number.
const READS: [(&str, i64); 4] = [
    ("SELECT sum(id) FROM fixed", ROWS * (ROWS + 1) / 2),
    ("SELECT count(*) FROM fixed a JOIN other b ON a.id = b.id WHERE a.g = 7", ROWS / 100),
    ("SELECT count(*) FROM (SELECT g, count(*) AS n FROM other GROUP BY g) WHERE n = 2000", 100),
    ("SELECT sum(id) FROM whole", 6),
];

async fn read(client: Client, number: usize, load: Arc<Load>) -> anyhow::Result<()> {
    let (sql, expected) = READS[number];
    while !load.stop.load(Ordering::SeqCst) {
        let answer = timeout(STATEMENT_LIMIT, client.query(sql)).await.context(sql)?.context(sql)?;
        let found = single_integer(&answer)?;
        ensure!(found == expected, "{sql}: {found} instead of {expected}");
        load.answers.fetch_add(1, Ordering::SeqCst);
        sleep(Duration::from_millis(20)).await;
    }
    Ok(())
}

/// Adds rows, and reads that all added so far are there.
async fn write(client: Client, load: Arc<Load>) -> anyhow::Result<()> {
    while !load.stop.load(Ordering::SeqCst) {
        let from = load.begun.fetch_add(BATCH, Ordering::SeqCst);
        let sql = format!(
            "INSERT INTO grown SELECT value, 0 FROM generate_series({}, {}) AS s(value)",
            from + 1,
            from + BATCH
        );
        let rows = timeout(STATEMENT_LIMIT, client.update(&sql)).await.context(sql.clone())?.context(sql)?;
        ensure!(rows == BATCH);
        let written = load.written.fetch_add(BATCH, Ordering::SeqCst) + BATCH;
        let sum = client.query("SELECT sum(id) FROM grown").await.context("reading what was written")?;
        ensure!(single_integer(&sum)? == written * (written + 1) / 2, "rows are missing or twice: {sum:?}");
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

/// Changes rows that are there.
async fn change(client: Client, load: Arc<Load>) -> anyhow::Result<()> {
    let mut rounds = 0;
    while !load.stop.load(Ordering::SeqCst) {
        let written = load.written.load(Ordering::SeqCst);
        if written == 0 {
            sleep(Duration::from_millis(20)).await;
            continue;
        }
        rounds += 1;
        let sql = "UPDATE grown SET changes = changes + 1 WHERE id <= 10";
        let rows = timeout(STATEMENT_LIMIT, client.update(sql)).await.context(sql)?.context(sql)?;
        ensure!(rows == 10, "{rows} rows were changed");
        let found = client.query("SELECT sum(changes) FROM grown").await.context("reading what was changed")?;
        ensure!(single_integer(&found)? == 10 * rounds, "after {rounds} changes: {found:?}");
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

/// Waits until nothing is on its way any more and everybody has something.
async fn settled(client: &Client, executors: usize, running: &[JoinHandle<anyhow::Result<()>>]) -> anyhow::Result<()> {
    let limit = Instant::now() + MOVE_LIMIT;
    wait_until("all shares to be there", MOVE_LIMIT, || async {
        // A load that has failed is the error to show.
        if Instant::now() < limit && running.iter().any(JoinHandle::is_finished) {
            return Ok(Some(()));
        }
        let moves = single_integer(&client.query("SELECT count(*) FROM system.moves").await?)?;
        let empty = client.query("SELECT count(*) FROM system.executors WHERE state = 'up' AND partitions = 0").await?;
        let served = client.query("SELECT count(*) FROM system.partitions WHERE state <> 'served'").await?;
        let done = moves == 0 && single_integer(&empty)? == 0 && single_integer(&served)? == 0;
        let known = single_integer(&client.query("SELECT count(*) FROM system.executors WHERE state = 'up'").await?)?;
        Ok((done && known == i64::try_from(executors)?).then_some(()))
    })
    .await
}

async fn bytes_by_executor(client: &Client) -> anyhow::Result<BTreeMap<String, i64>> {
    by_executor(client, "bytes").await
}

async fn by_executor(client: &Client, column: &str) -> anyhow::Result<BTreeMap<String, i64>> {
    let sql = format!(
        "SELECT owners || '=' || CAST(sum({column}) AS VARCHAR) FROM system.partitions \
         WHERE table_name IN ('fixed', 'other') GROUP BY owners"
    );
    first_column(&client.query(&sql).await?)?
        .into_iter()
        .map(|line| {
            let (owner, sum) = line.split_once('=').context("no sum")?;
            Ok((owner.to_owned(), sum.parse()?))
        })
        .collect()
}

fn fetched(cluster: &Cluster) -> Vec<u64> {
    cluster.executors().iter().map(|e| e.host().copies().fetched_bytes()).collect()
}

fn fetched_since(cluster: &Cluster, before: &[u64]) -> i64 {
    let now: u64 = fetched(cluster).iter().sum();
    i64::try_from(now - before.iter().sum::<u64>()).unwrap_or(i64::MAX)
}

/// Rows are even within a tenth, and hardly more bytes came over the network than the newcomers lacked.
async fn check_shares(client: &Client, before: &BTreeMap<String, i64>, fetched: i64) -> anyhow::Result<()> {
    let rows = by_executor(client, "rows").await?;
    let even = 2 * ROWS / i64::try_from(rows.len())?;
    for (executor, rows) in &rows {
        ensure!((rows - even).abs() * 10 <= even, "executor {executor} has {rows} rows instead of about {even}");
    }
    let bytes = bytes_by_executor(client).await?;
    let all: i64 = bytes.values().sum();
    let joined = bytes.keys().filter(|executor| !before.contains_key(*executor)).count();
    let least = all * i64::try_from(joined)? / i64::try_from(bytes.len())?;
    // What is written meanwhile comes on top; it is little.
    ensure!(fetched * 10 <= least * 11, "{fetched} bytes were fetched, {least} were lacking");
    ensure!(fetched * 10 >= least * 8, "only {fetched} bytes were fetched of {least}: what was measured?");
    Ok(())
}

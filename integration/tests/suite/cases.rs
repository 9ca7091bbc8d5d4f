//! Cases of the collected catalogue that have no other home, named by their ids.
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client,
    client::single_integer,
    cluster::{
        in_process::ClusterBuilder,
        processes::{ProcessBuilder, Processes},
    },
    run, turns, wait_until,
};
use anyhow::{Context, ensure};
use futures::future::join_all;
use tokio::time::{sleep, timeout};

/// Names of tables that are names of files, folders and devices elsewhere, or differ in little.
fn odd_names() -> Vec<String> {
    let names = ["metadata", "data", "Data", "DATA", "..", ".", "con", "partitions", "files/x", "a b", "ä", "A", "a"];
    names.iter().map(|name| (*name).to_owned()).chain(["n".repeat(200), "N".repeat(200)]).collect()
}

#[test]
fn t25_tables_named_like_anything_are_dropped_alone() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let mut left = Vec::new();
        for (value, name) in (0i64..).zip(odd_names()) {
            client.update(&format!("CREATE TABLE \"{name}\" (v BIGINT) PARTITION BY (bucket(2, v))")).await?;
            client.update(&format!("INSERT INTO \"{name}\" VALUES ({value})")).await?;
            left.push((name, value));
        }
        while let Some((name, _)) = left.pop() {
            client.update(&format!("DROP TABLE \"{name}\"")).await?;
            let gone = client.query(&format!("SELECT v FROM \"{name}\"")).await;
            ensure!(gone.is_err_and(|failure| failure.kind() == ErrorKind::NotFound), "{name} is still there");
            for (other, value) in &left {
                let answer = client.query(&format!("SELECT sum(v) FROM \"{other}\"")).await?;
                ensure!(single_integer(&answer)? == *value, "{other} changed when {name} was dropped");
            }
        }
        cluster.stop().await
    });
}

#[test]
fn k08_one_value_in_other_types_has_one_partition() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(3).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (s VARCHAR, n BIGINT, v BIGINT) PARTITION BY (s, n)").await?;
        let texts = ["Utf8", "LargeUtf8", "Utf8View", "Dictionary(Int32, Utf8)"];
        let numbers = ["Int8", "Int32", "Int64", "UInt16"];
        let mut rows = 0;
        for text in texts {
            for number in numbers {
                let values = format!("arrow_cast('x', '{text}'), arrow_cast(7, '{number}'), {rows}");
                ensure!(client.update(&format!("INSERT INTO t SELECT {values}")).await? == 1);
                rows += 1;
                let update = format!("UPDATE t SET v = v + 100 WHERE s = arrow_cast('x', '{text}') AND n = 7");
                ensure!(client.update(&update).await? == rows);
            }
        }
        for _ in 0..100 {
            ensure!(single_integer(&client.query("SELECT count(*) FROM t").await?)? == rows);
        }
        let partitions = "SELECT count(*) FROM system.partitions WHERE table_name = 't'";
        ensure!(single_integer(&client.query(partitions).await?)? == 1, "one value, one partition");
        cluster.stop().await
    });
}

const ROWS: i64 = 20_000;

async fn table(client: &Client) -> anyhow::Result<()> {
    client.update("CREATE TABLE t (id BIGINT, v BIGINT) PARTITION BY (bucket(8, id))").await?;
    let insert = format!("INSERT INTO t SELECT value, value % 10 FROM generate_series(1, {ROWS}) AS g(value)");
    ensure!(client.update(&insert).await? == ROWS);
    Ok(())
}

async fn start(ttl: Duration, wait: Duration) -> anyhow::Result<(Processes, Client)> {
    let cluster = ProcessBuilder::default().executors(2).session_ttl(ttl).partition_wait(wait).start().await?;
    let client = cluster.client(0)?;
    table(&client).await?;
    Ok((cluster, client))
}

/// The sum of all ids: right, or a failure that may be tried again, in time.
async fn sum(client: &Client, limit: Duration) -> anyhow::Result<bool> {
    let answer = timeout(limit, client.query("SELECT sum(a.id) FROM t a JOIN t b ON a.id = b.id")).await;
    match answer.with_context(|| format!("no end within {limit:?}"))? {
        Ok(answer) => {
            ensure!(single_integer(&answer)? == ROWS * (ROWS + 1) / 2, "a wrong sum");
            Ok(true)
        }
        Err(failure) => {
            ensure!(failure.from_server && failure.kind() == ErrorKind::Unavailable, "{failure}");
            Ok(false)
        }
    }
}

#[test]
fn k02_all_executors_die() {
    run(async {
        let _turn = turns::alone().await?;
        let wait = Duration::from_secs(12);
        let (mut cluster, client) = start(Duration::from_secs(3), wait).await?;
        // While statements run, and while they are being sent out; back soon, and only after the statements gave up.
        for (moment, away) in [(0, 2), (150, 2), (0, 20), (150, 20)] {
            let asked: Vec<_> = (0..4)
                .map(|_| {
                    let client = client.clone();
                    tokio::spawn(async move { sum(&client, wait + Duration::from_secs(15)).await })
                })
                .collect();
            sleep(Duration::from_millis(moment)).await;
            for executor in 0..2 {
                cluster.kill_executor(executor)?;
            }
            let killed = Instant::now();
            let late = client.clone();
            let late = tokio::spawn(async move { sum(&late, wait + Duration::from_secs(15)).await });
            sleep(Duration::from_secs(away)).await;
            for executor in 0..2 {
                cluster.start_executor(executor)?;
            }
            let mut right = 0;
            for outcome in join_all(asked.into_iter().chain([late])).await {
                right += usize::from(outcome??);
            }
            println!("away for {away} s: {right} of 5 answered after {:.1?}", killed.elapsed());
            cluster.wait_ready().await?;
            ensure!(sum(&client, Duration::from_secs(30)).await?, "it does not answer with all executors up");
        }
        cluster.stop().await
    });
}

#[test]
fn k04_busy_is_not_dead() {
    run(async {
        let _turn = turns::alone().await?;
        let (cluster, client) = start(Duration::from_secs(2), Duration::from_secs(10)).await?;
        // More work than there are cores, for several sessions' length.
        let busy = "SELECT count(*) FROM t a JOIN t b ON a.v = b.v JOIN t c ON b.v = c.v WHERE a.id + b.id <> c.id";
        let working: Vec<_> = (0..8)
            .map(|_| {
                let client = client.with_server_deadline(Duration::from_secs(12));
                tokio::spawn(async move { client.query(busy).await.map(|_| ()) })
            })
            .collect();
        let begun = Instant::now();
        let mut seen = BTreeSet::new();
        while begun.elapsed() < Duration::from_secs(11) {
            let status = client.status().await?;
            for executor in status["executors"].as_array().context("executors in the status")? {
                seen.insert(executor["state"].to_string().to_lowercase());
            }
            sleep(Duration::from_millis(200)).await;
        }
        ensure!(seen.len() == 1 && seen.iter().all(|state| state.contains("up")), "executors were {seen:?}");
        for outcome in join_all(working).await {
            // Each ends: with its answer, or at its deadline.
            if let Err(failure) = outcome? {
                ensure!(matches!(failure.kind(), ErrorKind::Deadline | ErrorKind::Cancelled), "{failure}");
            }
        }
        ensure!(sum(&client, Duration::from_secs(30)).await?);
        cluster.stop().await
    });
}

#[test]
fn k11_nodes_start_in_any_order() {
    run(async {
        let _turn = turns::alone().await?;
        let (mut cluster, client) = start(Duration::from_secs(3), Duration::from_secs(10)).await?;
        // 0 is the scheduler, 1 and 2 are executors.
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for (round, order) in orders.iter().enumerate() {
            cluster.kill_scheduler(0)?;
            for executor in 0..2 {
                cluster.kill_executor(executor)?;
            }
            for node in order {
                match node {
                    0 => cluster.start_scheduler(0)?,
                    executor => cluster.start_executor(executor - 1)?,
                }
                sleep(Duration::from_millis(if round % 2 == 0 { 20 } else { 700 })).await;
            }
            // From the first moment an answer is right or there is none.
            let answer = wait_until("an answer", Duration::from_secs(30), || async {
                Ok(Some(single_integer(&client.query("SELECT sum(id) FROM t").await?)?))
            });
            let answer = answer.await.with_context(|| format!("order {order:?}"))?;
            ensure!(answer == ROWS * (ROWS + 1) / 2, "a wrong sum with order {order:?}: {answer}");
            cluster.wait_ready().await?;
            ensure!(client.update(&format!("INSERT INTO t VALUES ({round}, 0)")).await? == 1);
            ensure!(client.update(&format!("DELETE FROM t WHERE id = {round} AND v = 0 AND id < 7")).await? >= 1);
            ensure!(single_integer(&client.query("SELECT count(*) FROM t").await?)? == ROWS, "order {order:?}");
        }
        cluster.stop().await
    });
}

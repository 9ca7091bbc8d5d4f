//! Nodes killed while a statement changes rows of all partitions: it happens everywhere or nowhere.
use std::time::Duration;

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client, Failure,
    cluster::processes::{ProcessBuilder, Processes},
    run, turns,
};
use anyhow::{Context, bail, ensure};
use tokio::time::{sleep, timeout};

use super::pairs;

const ROWS: i64 = 40_000;
const ROUNDS: u64 = 6;

async fn start(schedulers: usize) -> anyhow::Result<(Processes, Client)> {
    let cluster = ProcessBuilder::default()
        .schedulers(schedulers)
        .executors(2)
        .partition_wait(Duration::from_secs(3))
        .session_ttl(Duration::from_secs(3))
        .start()
        .await?;
    let client = cluster.client(0)?;
    client.update("CREATE TABLE c (id BIGINT, v BIGINT) PARTITION BY (bucket(16, id))").await?;
    let rows = format!("INSERT INTO c SELECT value, 0 FROM generate_series(1, {ROWS}) AS g(value)");
    ensure!(client.update(&rows).await? == ROWS);
    Ok((cluster, client))
}

/// The one value that all rows have.
async fn value(client: &Client) -> anyhow::Result<i64> {
    let counts = pairs(&client.query("SELECT v, count(*) FROM c GROUP BY v").await?)?;
    let Some(((Some(value), Some(ROWS)), _)) = counts.iter().next().filter(|_| counts.len() == 1) else {
        bail!("rows of several statements, or of a part of one: {counts:?}")
    };
    Ok(*value)
}

/// Whether what a client was told fits what happened.
fn check_outcome(outcome: &Result<i64, Failure>, before: i64, after: i64) -> anyhow::Result<()> {
    match outcome {
        Ok(rows) => ensure!(*rows == ROWS && after == before + 1, "{rows} rows reported, {before} became {after}"),
        // Not said by the server, or said to be unknown: either is possible.
        Err(failure) if !failure.from_server || failure.kind() == ErrorKind::Unknown => {
            ensure!(after == before || after == before + 1, "{before} became {after}: {failure}");
        }
        Err(failure) => {
            ensure!(failure.kind().retryable(), "{failure}");
            ensure!(after == before, "said not to be applied, and {before} became {after}: {failure}");
        }
    }
    Ok(())
}

#[test]
fn an_executor_in_the_middle_of_an_update() {
    run(async {
        let _turn = turns::alone().await?;
        let (mut cluster, client) = start(1).await?;
        let mut outcomes = Vec::new();
        for round in 0..ROUNDS {
            let before = value(&client).await?;
            let statement = client.clone();
            let update = tokio::spawn(async move { statement.update("UPDATE c SET v = v + 1").await });
            sleep(Duration::from_millis(40 + round * 150)).await;
            let victim = usize::try_from(round % 2)?;
            cluster.kill_executor(victim)?;
            sleep(Duration::from_millis(300)).await;
            cluster.start_executor(victim)?;
            let outcome = update.await?;
            cluster.wait_ready().await.with_context(|| format!("round {round}"))?;
            let after = value(&client).await.with_context(|| format!("round {round}: {outcome:?}"))?;
            check_outcome(&outcome, before, after).with_context(|| format!("round {round}"))?;
            outcomes.push(outcome.map_err(|failure| failure.to_string()));
        }
        println!("{outcomes:?}");
        cluster.stop().await
    });
}

/// Times that the leader is killed.
const LEADERS: usize = 4;
/// Requests that are made around each kill.
const REQUESTS: usize = 5;

/// Makes a request until it is known to be applied, with one id, through whichever scheduler answers.
async fn until_applied(clients: &[Client], id: &str) -> anyhow::Result<()> {
    for turn in 0..200 {
        let client = clients[turn % clients.len()].clone().with_header("x-ancho-request-id", id)?;
        match timeout(Duration::from_secs(20), client.update("UPDATE c SET v = v + 1")).await {
            Ok(Ok(rows)) => {
                ensure!(rows == ROWS, "request {id} reports {rows} rows");
                return Ok(());
            }
            Ok(Err(failure)) => {
                let passes = !failure.from_server || failure.kind() == ErrorKind::Unknown || failure.kind().retryable();
                ensure!(passes, "request {id}: {failure}");
            }
            Err(_) => {}
        }
        sleep(Duration::from_millis(100)).await;
    }
    bail!("request {id} was never applied")
}

#[test]
fn leaders_under_requests_that_are_repeated() {
    run(async {
        let _turn = turns::alone().await?;
        let (mut cluster, _) = start(3).await?;
        let clients = (0..3).map(|n| cluster.client(n)).collect::<anyhow::Result<Vec<_>>>()?;
        for round in 0..LEADERS {
            let asking = clients.clone();
            let requests = tokio::spawn(async move {
                for n in 0..REQUESTS {
                    until_applied(&asking, &format!("{round}-{n}")).await?;
                }
                anyhow::Ok(())
            });
            sleep(Duration::from_millis(100 + 170 * u64::try_from(round)?)).await;
            let leader = cluster.wait_leader(Duration::from_secs(30)).await?;
            cluster.kill_scheduler(leader)?;
            sleep(Duration::from_millis(500)).await;
            cluster.start_scheduler(leader)?;
            requests.await?.with_context(|| format!("round {round}"))?;
            cluster.wait_ready().await?;
            let expected = i64::try_from((round + 1) * REQUESTS)?;
            for (number, client) in clients.iter().enumerate() {
                let value = value(client).await.with_context(|| format!("round {round}, scheduler {number}"))?;
                ensure!(value == expected, "round {round}: {expected} requests were applied {value} times");
            }
        }
        cluster.stop().await
    });
}

//! Nodes killed while a statement changes rows of all partitions: it happens everywhere or nowhere.
use std::time::Duration;

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client, Failure,
    cluster::processes::{ProcessBuilder, Processes},
    run, turns,
};
use anyhow::{Context, bail, ensure};
use tokio::time::sleep;

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

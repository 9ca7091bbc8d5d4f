//! An executor is killed or paused while queries run: an answer is right or there is none.
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use ancho_benchmarks::compare::{RowSet, diff};
use ancho_common::error::ErrorKind;
use ancho_integration::{
    Answer, Client, Failure,
    client::single_integer,
    cluster::processes::{ProcessBuilder, Processes},
    run, turns, wait_until,
};
use anyhow::{Context, bail, ensure};
use futures::future::join_all;
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

/// Rows of the table.
const ROWS: i64 = 60_000;

/// Times that an executor is killed.
const ROUNDS: u32 = 10;

/// How long the schedulers wait for a partition without an owner.
const PARTITION_WAIT: Duration = Duration::from_secs(3);

/// When a silent executor counts as down.
const SESSION_TTL: Duration = Duration::from_secs(3);

/// Within this time every statement must end: TTL, wait, and a busy machine.
const STATEMENT_LIMIT: Duration = Duration::from_secs(30);

/// A scan with aggregates, a shuffle, a join that shuffles, a sort, and many rows for the client.
const QUERIES: [&str; 5] = [
    "SELECT count(*), sum(id), min(text), max(text) FROM k_rows",
    "SELECT g, count(*), sum(id) FROM k_rows GROUP BY g",
    "SELECT count(*), sum(a.id) FROM k_rows a JOIN k_rows b ON a.id = b.id + 1 WHERE b.g < 50",
    "SELECT id, text FROM k_rows ORDER BY id DESC LIMIT 100",
    "SELECT id, g, text FROM k_rows",
];

async fn start() -> anyhow::Result<(Processes, Client, Vec<Answer>)> {
    let builder = ProcessBuilder::default().executors(2).partition_wait(PARTITION_WAIT).session_ttl(SESSION_TTL);
    let cluster = builder.start().await?;
    let client = cluster.client(0)?;
    client.update("CREATE TABLE k_rows (id BIGINT, g BIGINT, text VARCHAR) PARTITION BY (bucket(16, id))").await?;
    let insert = format!(
        "INSERT INTO k_rows SELECT value, value % 1000, 'text of row ' || CAST(value AS VARCHAR) \
         FROM generate_series(1, {ROWS}) AS g(value)"
    );
    ensure!(client.update(&insert).await? == ROWS);
    ensure!(single_integer(&client.query("SELECT sum(id) FROM k_rows").await?)? == ROWS * (ROWS + 1) / 2);
    let mut answers = Vec::new();
    for sql in QUERIES {
        answers.push(client.query(sql).await.with_context(|| format!("before any kill: {sql}"))?);
    }
    Ok((cluster, client, answers))
}

fn check_same(sql: &str, expected: &Answer, answer: &Answer) -> anyhow::Result<()> {
    let expected = RowSet::from_batches_with_schema(&expected.schema, &expected.batches)?;
    let actual = RowSet::from_batches_with_schema(&answer.schema, &answer.batches)?;
    diff(&expected, &actual).map_err(|mismatch| anyhow::anyhow!("a wrong answer to {sql}: {mismatch}"))
}

/// A failure that a client may see while an executor is away: retryable, and said by the server.
fn check_failure(sql: &str, failure: &Failure) -> anyhow::Result<()> {
    let typed = failure.from_server && failure.kind() == ErrorKind::Unavailable;
    ensure!(typed, "{sql} failed in another way than `unavailable`: {failure}");
    Ok(())
}

async fn ask(client: &Client, sql: &str) -> anyhow::Result<Result<Answer, Failure>> {
    match timeout(STATEMENT_LIMIT, client.query(sql)).await {
        Ok(outcome) => Ok(outcome),
        Err(_) => bail!("no end within {STATEMENT_LIMIT:?}: {sql}"),
    }
}

/// All queries answer as they did before the first kill.
async fn check_all(client: &Client, expected: &[Answer]) -> anyhow::Result<()> {
    for (sql, expected) in QUERIES.iter().zip(expected) {
        let answer = ask(client, sql).await?.with_context(|| format!("with all executors up: {sql}"))?;
        check_same(sql, expected, &answer)?;
    }
    Ok(())
}

#[test]
fn killed_while_queries_run() {
    run(async {
        let _turn = turns::alone().await?;
        let (mut cluster, client, expected) = start().await?;
        let expected = Arc::new(expected);
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..QUERIES.len())
            .map(|n| tokio::spawn(read(client.clone(), n, Arc::clone(&expected), Arc::clone(&stop))))
            .collect();
        for round in 0..ROUNDS {
            sleep(Duration::from_millis(400 + u64::from(round) * 130)).await;
            let victim = round as usize % 2;
            cluster.kill_executor(victim)?;
            // Sometimes back before its session ends, sometimes after.
            sleep(Duration::from_millis(if round % 3 == 2 { 4500 } else { 200 })).await;
            cluster.start_executor(victim)?;
            cluster.wait_ready().await.with_context(|| format!("round {round}"))?;
            if readers.iter().any(JoinHandle::is_finished) {
                // It ended with an error, which is the one to show.
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
        let readers = join_all(readers).await.into_iter().collect::<Result<anyhow::Result<Vec<_>>, _>>()??;
        for (sql, (right, failed)) in QUERIES.iter().zip(&readers) {
            println!("{right} right, {failed} failed typed: {sql}");
        }
        ensure!(readers.iter().all(|(right, _)| *right > 0), "a query never answered");
        check_all(&client, &expected).await?;
        cluster.stop().await
    });
}

/// Asks one query again and again; how often it was right and how often it failed in the way it may.
async fn read(
    client: Client,
    query: usize,
    expected: Arc<Vec<Answer>>,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<(usize, usize)> {
    let (mut right, mut failed) = (0, 0);
    while !stop.load(Ordering::Relaxed) {
        match ask(&client, QUERIES[query]).await? {
            Ok(answer) => {
                check_same(QUERIES[query], &expected[query], &answer)?;
                right += 1;
            }
            Err(failure) => {
                check_failure(QUERIES[query], &failure)?;
                failed += 1;
            }
        }
    }
    Ok((right, failed))
}

#[test]
fn a_partition_without_owner_is_named() {
    run(async {
        let _turn = turns::alone().await?;
        let (mut cluster, client, expected) = start().await?;
        for victim in [0, 1] {
            cluster.kill_executor(victim)?;
            // At once, when nobody has noticed, and again when everybody has.
            for moment in ["at once", "later"] {
                for sql in QUERIES {
                    let begun = Instant::now();
                    let outcome = ask(&client, sql).await?;
                    let Err(failure) = outcome else { bail!("{moment}, an answer without executor {victim}: {sql}") };
                    check_failure(sql, &failure)?;
                    let text = &failure.error.message;
                    ensure!(text.contains("k_rows") && text.contains("partition"), "{moment}: {failure}");
                    println!("executor {victim} away, {moment}: {:?}: {text}", begun.elapsed());
                    if moment == "at once" {
                        break;
                    }
                }
            }
            cluster.start_executor(victim)?;
            cluster.wait_ready().await?;
            check_all(&client, &expected).await?;
        }
        cluster.stop().await
    });
}

#[test]
fn paused_and_resumed() {
    run(async {
        let _turn = turns::alone().await?;
        let (cluster, client, expected) = start().await?;
        let mut seen = BTreeMap::new();
        for round in 0..2 {
            cluster.pause_executor(round, true)?;
            let begun = Instant::now();
            while begun.elapsed() < SESSION_TTL * 3 {
                // Together: one after the other, each would wait its full time.
                let outcomes = join_all(QUERIES.iter().map(|sql| ask(&client, sql))).await;
                for ((sql, expected), outcome) in QUERIES.iter().zip(&expected).zip(outcomes) {
                    match outcome? {
                        Ok(answer) => check_same(sql, expected, &answer)?,
                        Err(failure) => {
                            check_failure(sql, &failure)?;
                            *seen.entry(failure.kind().code()).or_insert(0) += 1;
                        }
                    }
                }
            }
            cluster.pause_executor(round, false)?;
            let back = wait_until("answers after the pause", Duration::from_secs(30), || async {
                Ok(client.query(QUERIES[0]).await.map(|_| Some(()))?)
            });
            back.await?;
            check_all(&client, &expected).await.context("after the pause")?;
        }
        println!("failures while an executor was paused: {seen:?}");
        cluster.stop().await
    });
}

//! The 22 TPC-H queries at scale 0.01 against the stored answers, on every topology.
use std::time::{Duration, Instant};

use ancho_benchmarks::tpch::{AnswerKey, QUERIES, Table, check_answer, schema::datasets_yaml};
use ancho_integration::{Client, cluster::in_process::ClusterBuilder, run, sources, turns};
use anyhow::{Context, ensure};
use arrow::record_batch::RecordBatch;
use tokio::time::timeout;

use super::report::Report;

/// Buckets of a large table: a number that three executors do not divide evenly.
const BUCKETS: u32 = 8;

/// Longest time of one query.
const QUERY_LIMIT: Duration = Duration::from_secs(120);

#[test]
fn tpch_one_executor() {
    run(answers(1));
}

#[test]
fn tpch_two_executors() {
    run(answers(2));
}

#[test]
fn tpch_three_executors() {
    run(answers(3));
}

async fn answers(executors: usize) -> anyhow::Result<()> {
    let _turn = turns::shared().await?;
    let data = tokio::task::spawn_blocking(|| sources::tpch(0.01)).await??;
    let mut cluster = ClusterBuilder::default().executors(executors).streams(16).start().await?;
    let client = cluster.client()?;
    let start = Instant::now();
    client.apply(&datasets_yaml(&data.dir, BUCKETS)).await.context("apply the datasets")?;
    let mut report = Report::new(&format!("tpch-{executors}-executors"));
    report.note(&format!("TPC-H loaded in {:.1} s", start.elapsed().as_secs_f64()));
    for table in Table::ALL {
        let rows = count(&client, table.name()).await?;
        ensure!(rows == i64::try_from(data.row_count(table))?, "table {table} holds {rows} rows of {data:?}");
    }
    queries(&client, &format!("{executors} executors, 16 streams"), &mut report).await;
    cluster.restart_schedulers(1).await?;
    queries(&cluster.client()?, &format!("{executors} executors, 1 stream"), &mut report).await;
    cluster.stop().await?;
    report.finish()
}

async fn queries(client: &Client, topology: &str, report: &mut Report) {
    let start = Instant::now();
    let mut right = 0;
    for query in &QUERIES {
        let problem = match timeout(QUERY_LIMIT, client.query(query.sql)).await {
            Ok(Ok(mut answer)) => {
                if answer.batches.is_empty() {
                    answer.batches.push(RecordBatch::new_empty(answer.schema));
                }
                check_answer(AnswerKey::Hundredth, query, &answer.batches).err().map(|m| m.to_string())
            }
            Ok(Err(failure)) => Some(format!("failed: {failure}")),
            Err(_) => Some(format!("no end within {QUERY_LIMIT:?}")),
        };
        match problem {
            None => right += 1,
            Some(problem) => report.add_failure(topology, &query.label(), query.title, query.sql, &problem),
        }
    }
    report.note(&format!("{topology}: {right} of 22 right, {:.1} s", start.elapsed().as_secs_f64()));
}

async fn count(client: &Client, table: &str) -> anyhow::Result<i64> {
    let answer = client.query(&format!("SELECT count(*) FROM {table}")).await?;
    ancho_integration::client::single_integer(&answer)
}

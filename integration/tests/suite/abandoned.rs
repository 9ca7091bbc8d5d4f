//! Statements that nobody waits for any more: the client is killed, or the deadline of its call passes. They end on every
//! node, and while they run others are served.
use std::{
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use ancho_common::{error::ErrorKind, plan::pace::OPEN_STREAMS};
use ancho_integration::{
    Client,
    client::single_integer,
    cluster::{
        executors_up,
        processes::{ProcessBuilder, Processes, binary},
    },
    run, turns, wait_until,
};
use anyhow::{Context, bail, ensure};
use tokio::time::{sleep, timeout};

/// Rows of the table.
const ROWS: i64 = 200_000;

/// Within this time after its client is gone a statement must have ended everywhere, on a busy machine.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Within this time a small query must answer beside a large one.
const BESIDE_LIMIT: Duration = Duration::from_secs(10);

const SMALL: &str = "SELECT count(*) FROM big WHERE id % 1000 = 0";

/// A stream of many rows, of which the first come soon.
const PAIRS: &str = "SELECT a.h || b.h FROM big a JOIN big b ON a.g = b.g";

/// Each would run for minutes: joins with many and with no result, expensive expressions above a scan and below a
/// broadcast, large sorts, groupings and windows, recursion, and a join that reads no table.
const ENDLESS: [(&str, &str); 12] = [
    ("hash join", "SELECT count(*) FROM big a JOIN big b ON a.g % 10 = b.g % 10 WHERE a.h < b.h AND a.h || b.h <> 'x'"),
    ("hash join without result", "SELECT count(*) FROM big a JOIN big b ON a.g % 2 = b.g % 2 WHERE a.h || b.h = 'x'"),
    ("loop join", "SELECT max(md5(a.h || b.h)) FROM big a JOIN (SELECT * FROM big WHERE id < 2000) b ON a.id <> b.id"),
    ("loop join without result", "SELECT count(*) FROM big a, big b WHERE a.h || b.h = 'x'"),
    ("regular expression", "SELECT count(*) FROM big WHERE regexp_like(repeat(h, 2000), '(a.*b.*c.*d.*e){6}[0-9]+zz')"),
    (
        "broadcast of an expensive side",
        "SELECT count(*) FROM big a JOIN (SELECT id FROM big \
         WHERE regexp_like(repeat(h, 2000), '(a.*b.*c.*d.*e){6}[0-9]+zz')) b ON a.id > b.id",
    ),
    (
        "grouping",
        "SELECT count(*) FROM (SELECT a.h || b.g AS k, count(*) FROM big a \
         CROSS JOIN (SELECT * FROM big WHERE id < 400) b GROUP BY 1)",
    ),
    (
        "window",
        "SELECT max(s) FROM (SELECT sum(length(a.h || b.g)) OVER (PARTITION BY a.g ORDER BY a.id, b.id) AS s FROM big a \
         CROSS JOIN (SELECT * FROM big WHERE id < 400) b)",
    ),
    ("sort", "SELECT a.h || b.g FROM big a CROSS JOIN (SELECT * FROM big WHERE id < 400) b ORDER BY 1"),
    (
        "sort in one place",
        "SELECT a.value, b.value FROM generate_series(1, 300000) a, generate_series(1, 300000) b ORDER BY a.value * b.value",
    ),
    (
        "recursion",
        "WITH RECURSIVE r AS (SELECT 1 AS n, CAST('x' AS VARCHAR) AS t UNION ALL \
         SELECT n + 1, md5(t) FROM r WHERE n < 100000000) SELECT count(*) FROM r",
    ),
    (
        "no table",
        "SELECT count(*) FROM generate_series(1, 30000) a(x), generate_series(1, 10000000) b(y) \
         WHERE md5(CAST(x AS VARCHAR) || CAST(y AS VARCHAR)) = 'q'",
    ),
];

async fn start() -> anyhow::Result<(Processes, Client)> {
    let cluster = ProcessBuilder::default().executors(2).start().await?;
    let client = cluster.client(0)?;
    let fill = format!(
        "CREATE TABLE big PARTITION BY (bucket(4, id)) AS SELECT value AS id, \
         md5(CAST(value AS VARCHAR)) || md5(CAST(value + 1 AS VARCHAR)) AS h, value % 1000 AS g \
         FROM generate_series(1, {ROWS})"
    );
    ensure!(client.update(&fill).await? == ROWS);
    wait_idle(&cluster, "after loading").await?;
    Ok((cluster, client))
}

/// Until no part of any query runs anywhere; how long that took.
async fn wait_idle(cluster: &Processes, what: &str) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    wait_until(&format!("idle: {what}"), END_LIMIT, || async {
        let open = cluster.metric(OPEN_STREAMS).await?;
        ensure!(open == 0.0, "{open} streams are open");
        Ok(Some(()))
    })
    .await?;
    Ok(begun.elapsed())
}

async fn wait_busy(cluster: &Processes, what: &str) -> anyhow::Result<()> {
    wait_until(&format!("busy: {what}"), Duration::from_secs(20), || async {
        Ok((cluster.metric(OPEN_STREAMS).await? > 0.0).then_some(()))
    })
    .await
}

/// Runs a statement in a client that is killed while it runs; how long the cluster took to be idle.
async fn abandon(cluster: &Processes, client: &Client, what: &str, sql: &str) -> anyhow::Result<()> {
    let url = cluster.flight_url(0);
    let mut statement = Command::new(binary()?)
        .args(["sql", "--url", &url, "-c", sql])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    wait_busy(cluster, what).await?;
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    let beside = timeout(BESIDE_LIMIT, client.query(SMALL)).await;
    let beside = beside.with_context(|| format!("no answer beside: {what}"))?.with_context(|| what.to_owned())?;
    ensure!(single_integer(&beside)? == ROWS / 1000);
    let answered = begun.elapsed();
    let ended = statement.try_wait()?;
    statement.kill()?;
    statement.wait()?;
    ensure!(ended.is_none(), "it ended by itself ({ended:?}), which shows nothing: {what}");
    let idle = wait_idle(cluster, what).await?;
    println!("{what}: idle after {idle:?}, a small query beside took {answered:?}");
    Ok(())
}

#[test]
fn a_killed_client_takes_its_statement_with_it() {
    run(async {
        let _turn = turns::alone().await?;
        let (mut cluster, client) = start().await?;
        for (what, sql) in ENDLESS {
            abandon(&cluster, &client, what, sql).await?;
        }
        // A write that is not committed yet is undone, the table it was to fill included.
        let fill = format!("CREATE TABLE never AS {}", ENDLESS[0].1);
        abandon(&cluster, &client, "a table filled by a query", &fill).await?;
        let absent = wait_until("the unfilled table is dropped", END_LIMIT, || async {
            Ok(client.query("SELECT * FROM never").await.is_err_and(|e| e.kind() == ErrorKind::NotFound).then_some(()))
        });
        absent.await?;
        let insert = "INSERT INTO big SELECT a.id, a.h || b.h, a.g FROM big a JOIN big b ON a.g % 10 = b.g % 10";
        abandon(&cluster, &client, "an insertion", insert).await?;
        ensure!(single_integer(&client.query("SELECT count(*) FROM big").await?)? == ROWS);
        cluster.check_alive()?;
        cluster.stop().await
    });
}

#[test]
fn a_deadline_is_kept_by_the_server() {
    run(async {
        let _turn = turns::alone().await?;
        let (cluster, client) = start().await?;
        let hasty = client.with_server_deadline(Duration::from_secs(2));
        // Before the first row, and in the middle of a stream of rows.
        for sql in [ENDLESS[0].1, PAIRS] {
            let begun = Instant::now();
            let Err(failure) = hasty.query(sql).await else { bail!("an answer within the deadline: {sql}") };
            ensure!(matches!(failure.kind(), ErrorKind::Deadline | ErrorKind::Cancelled), "{sql}: {failure}");
            ensure!(begun.elapsed() < Duration::from_secs(2) + END_LIMIT, "{:?}: {sql}", begun.elapsed());
            let idle = wait_idle(&cluster, sql).await?;
            println!("{:?}, idle after {idle:?} more: {failure}", begun.elapsed());
        }
        ensure!(single_integer(&hasty.query(SMALL).await?)? == ROWS / 1000);
        cluster.stop().await
    });
}

/// Whatever the statement was waiting for: plans, build sides, full shuffles.
#[test]
fn a_deadline_leaves_nothing_open_at_any_moment() {
    run(async {
        let _turn = turns::alone().await?;
        let (cluster, client) = start().await?;
        for millis in (20..=800).step_by(20) {
            let hasty = client.with_server_deadline(Duration::from_millis(millis));
            let Err(failure) = hasty.query(PAIRS).await else { bail!("an answer within {millis} ms") };
            ensure!(matches!(failure.kind(), ErrorKind::Deadline | ErrorKind::Cancelled), "{millis} ms: {failure}");
            wait_idle(&cluster, &format!("after {millis} ms")).await?;
        }
        cluster.stop().await
    });
}

#[test]
fn a_stopped_executor_is_known_to_be_down_at_once() {
    run(async {
        let _turn = turns::alone().await?;
        let mut cluster = ProcessBuilder::default().executors(2).session_ttl(Duration::from_secs(60)).start().await?;
        let client = cluster.client(0)?;
        cluster.stop_executor(1).await?;
        ensure!(executors_up(&client.status().await?)? == 1, "a stopped executor counts as up");
        cluster.start_executor(1)?;
        cluster.wait_ready().await?;
        cluster.stop().await
    });
}

//! Transactions whose nodes die, and transactions in one HTTP request.
use std::time::Duration;

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client,
    client::single_integer,
    cluster::{in_process::ClusterBuilder, processes::ProcessBuilder},
    run, turns,
};
use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn count(client: &Client) -> anyhow::Result<i64> {
    single_integer(&client.query("SELECT count(*) FROM t").await?)
}

#[test]
fn nodes_that_die_take_their_share_of_it_with_them() {
    run(async {
        let _turn = turns::alone().await?;
        let mut cluster = ProcessBuilder::default()
            .schedulers(3)
            .executors(2)
            .partition_wait(Duration::from_secs(10))
            .session_ttl(Duration::from_secs(3))
            .start()
            .await?;
        let clients = (0..3).map(|n| cluster.client(n)).collect::<anyhow::Result<Vec<_>>>()?;
        clients[0].update("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY (bucket(4, k))").await?;
        clients[0].update("INSERT INTO t SELECT value, 0 FROM generate_series(1, 100) AS g(value)").await?;

        // The scheduler that holds it.
        let lost = clients[1].begin().await?;
        ensure!(lost.update("DELETE FROM t WHERE k <= 50").await? == 50);
        cluster.kill_scheduler(1)?;
        cluster.start_scheduler(1)?;
        cluster.wait_ready().await?;
        let outcome = lost.commit().await;
        ensure!(outcome.as_ref().is_err_and(|f| f.kind() == ErrorKind::Conflict), "{outcome:?}");
        for client in &clients {
            ensure!(count(client).await? == 100);
        }

        // An executor that has staged a part of it.
        let lost = clients[0].begin().await?;
        ensure!(lost.update("INSERT INTO t SELECT k + 100, v FROM t").await? == 100);
        cluster.kill_executor(0)?;
        cluster.start_executor(0)?;
        cluster.wait_ready().await?;
        let outcome = lost.commit().await;
        ensure!(outcome.as_ref().is_err_and(|f| f.kind() == ErrorKind::Conflict), "{outcome:?}");
        ensure!(count(&clients[2]).await? == 100);

        // The leader, which is not needed before the commit.
        let leader = cluster.wait_leader(Duration::from_secs(30)).await?;
        let other = (leader + 1) % 3;
        let open = clients[other].begin().await?;
        ensure!(open.update("INSERT INTO t SELECT k + 100, v FROM t").await? == 100);
        cluster.kill_scheduler(leader)?;
        cluster.wait_leader(Duration::from_secs(30)).await?;
        ensure!(open.update("DELETE FROM t WHERE k = 1").await? == 1);
        open.commit().await.context("the commit after a change of the leader")?;
        ensure!(count(&clients[other]).await? == 199);
        cluster.start_scheduler(leader)?;
        cluster.wait_ready().await?;
        cluster.stop().await
    });
}

/// Status and body of a statement over HTTP.
async fn post(address: &str, sql: &str) -> anyhow::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!("POST /v1/sql HTTP/1.0\r\nhost: {address}\r\ncontent-length: {}\r\n\r\n", sql.len());
    stream.write_all((head + sql).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no answer: {answer:?}"))?;
    let status = head.split(' ').nth(1).with_context(|| format!("no status: {head:?}"))?;
    Ok((status.parse()?, body.to_owned()))
}

#[test]
fn one_http_request_from_begin_to_commit() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE t (k BIGINT, v BIGINT) PARTITION BY (bucket(3, k))").await?;
        let at = cluster.http_address().context("HTTP is served")?;
        let transfer = "BEGIN; INSERT INTO t VALUES (1, 5), (2, 5); -- one; two\n\
                        UPDATE t SET v = v + 1 WHERE k = 1; SELECT k, v FROM t ORDER BY k; COMMIT;";
        let (status, body) = post(&at, transfer).await?;
        ensure!((status, body.as_str()) == (200, "[{\"k\":1,\"v\":6},\n{\"k\":2,\"v\":5}]\n"), "{status}: {body}");
        ensure!(count(&client).await? == 2);
        let (status, body) = post(&at, "start transaction; DELETE FROM t WHERE k = 1; commit").await?;
        ensure!((status, body.as_str()) == (200, r#"{"rows_affected":1}"#), "{status}: {body}");
        let (status, body) = post(&at, "BEGIN; DELETE FROM t; ROLLBACK").await?;
        ensure!((status, body.as_str()) == (200, r#"{"rows_affected":1}"#), "{status}: {body}");
        ensure!(count(&client).await? == 1);
        for (sql, wanted, part) in [
            (
                "BEGIN; DELETE FROM t; SELECT assert((SELECT count(*) FROM t) > 0); COMMIT",
                400,
                "assertion failed: gate",
            ),
            ("BEGIN; DELETE FROM t; DELETE FROM nothing; COMMIT", 404, "nothing"),
            ("BEGIN; DELETE FROM t", 400, "must also end it"),
            ("DELETE FROM t; DELETE FROM t", 400, "one by one"),
        ] {
            let (status, body) = post(&at, sql).await?;
            ensure!(status == wanted && body.contains(part), "{sql}: {status}: {body}");
            ensure!(count(&client).await? == 1, "{sql}");
        }
        cluster.stop().await
    });
}

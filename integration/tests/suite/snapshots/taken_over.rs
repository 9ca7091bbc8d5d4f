//! A publisher that is stopped in the middle of a publication, and wakes up when another one has published.
use std::time::Duration;

use ancho_common::{error::ErrorKind, snapshot::Head};
use ancho_integration::{
    Client,
    client::{first_column, single_integer},
    cluster::processes::ProcessBuilder,
    object_store::S3Server,
    run,
    store_proxy::{Fault, StoreProxy},
    turns, wait_until,
};
use anyhow::{Context, ensure};
use tokio::time::timeout;

use super::fill;

const LIMIT: Duration = Duration::from_secs(120);
const ROWS: i64 = 2000;

async fn head(server: &S3Server) -> anyhow::Result<Head> {
    Ok(Head::decode(&server.read("published/v1/dataset=t/metadata.json").await?)?)
}

async fn sets(server: &S3Server) -> anyhow::Result<usize> {
    Ok(server.keys("published/v1/dataset=t/sets").await?.len())
}

/// Ids of what the schedulers remember, newest first.
async fn remembered(client: &Client) -> anyhow::Result<Vec<String>> {
    let ids =
        client.query("SELECT snapshot_id FROM system.snapshots WHERE table_name = 't' ORDER BY epoch DESC").await?;
    first_column(&ids)
}

#[test]
fn n14_a_publisher_that_wakes_up_late_changes_nothing() {
    run(async {
        let _turn = turns::alone().await?;
        let server = S3Server::start().await?;
        let proxy = StoreProxy::start(&server.address()).await?;
        let mut builder = ProcessBuilder::default().schedulers(3).executors(1);
        builder = builder.session_ttl(Duration::from_secs(5)).partition_wait(Duration::from_secs(60));
        for (name, value) in server.environment() {
            builder = builder.env(name, if name == "AWS_ENDPOINT" { proxy.endpoint() } else { value }.as_str());
        }
        let cluster = builder.start().await?;
        // The hardest one to lose.
        let stopped = cluster.wait_leader(LIMIT).await?;
        let other = (stopped + 1) % 3;
        let (late, client) = (cluster.client(stopped)?, cluster.client(other)?);
        fill(&late, "t", ROWS, &format!(" WITH (snapshots_location = 's3://{}/published')", S3Server::BUCKET)).await?;
        ensure!(late.update("CREATE SNAPSHOT OF t").await? == ROWS);
        let before = head(&server).await?;

        // Everything of the second snapshot is in the store but the head that names it.
        late.update("INSERT INTO t VALUES (0, 'late')").await?;
        proxy.set(Fault::Slow(Duration::from_millis(1500)));
        let publishing = tokio::spawn({
            let late = late.clone();
            async move { late.update("CREATE SNAPSHOT OF t").await }
        });
        wait_until("the second set", LIMIT, || async {
            ensure!(sets(&server).await? == 2, "it is not there yet");
            Ok(Some(()))
        })
        .await?;
        cluster.pause_scheduler(stopped, true)?;
        proxy.set(Fault::None);
        ensure!(head(&server).await? == before, "the head was changed before the publisher was stopped");
        let mut unnamed = server.keys("published/v1/dataset=t/sets").await?;
        unnamed.retain(|key| !before.snapshots.iter().any(|entry| key.ends_with(&entry.set.key)));
        let unnamed = unnamed.pop().context("the set that nobody names")?;

        // Others see whose lease it is, and take over when it ends.
        let holder = [format!("scheduler {}", stopped + 1)];
        wait_until("a leader that tells whose the lease is", LIMIT, || async {
            let held = client.query("SELECT holder FROM system.leases WHERE table_name = 't'").await?;
            ensure!(first_column(&held)? == holder, "{held:?}");
            Ok(Some(()))
        })
        .await?;
        client.update("INSERT INTO t VALUES (1000000, 'successor')").await?;
        wait_until("the successor to publish", LIMIT, || async {
            match client.update("CREATE SNAPSHOT OF t").await {
                Ok(rows) => {
                    ensure!(rows == ROWS + 2, "{rows} rows were published");
                    Ok(Some(()))
                }
                Err(refused) if refused.kind() == ErrorKind::Conflict => {
                    let text = &refused.error.message;
                    ensure!(text.contains("is making a snapshot of table t; another takes over"), "{text}");
                    Ok(None)
                }
                Err(other) if other.kind() == ErrorKind::Unavailable => Ok(None),
                Err(other) => anyhow::bail!("{other}"),
            }
        })
        .await?;
        let successor = head(&server).await?;
        ensure!(successor.snapshots.len() == 2 && successor.epoch > before.epoch + 1, "{successor:?}");
        let known = remembered(&client).await?;

        // The late one wakes up, and is refused wherever it was.
        cluster.pause_scheduler(stopped, false)?;
        let outcome = timeout(LIMIT, publishing).await.context("the late publisher goes on for ever")??;
        let told = match outcome {
            Ok(rows) => anyhow::bail!("it says that it has published {rows} rows"),
            // Its client may have given up before.
            Err(refused) => !refused.from_server || refused.error.message.contains("is over"),
        };
        ensure!(head(&server).await? == successor, "the late publisher has changed the head");
        ensure!(remembered(&client).await? == known);
        ensure!(!successor.snapshots.iter().any(|entry| unnamed.ends_with(&entry.set.key)));
        ensure!(told, "it was not told that its time is over");

        // It is as good as any other from then on.
        let again = wait_until("the late one to publish again", LIMIT, || async {
            late.update("INSERT INTO t VALUES (2000000, 'again')").await?;
            Ok(Some(late.update("CREATE SNAPSHOT OF t").await?))
        })
        .await?;
        ensure!(again > ROWS + 2, "{again} rows were published");
        let last = head(&server).await?;
        ensure!(last.epoch > successor.epoch && last.current == last.newest().map(|newest| newest.id), "{last:?}");
        ensure!(single_integer(&client.query("SELECT count(*) FROM t").await?)? >= again);
        cluster.stop().await
    });
}

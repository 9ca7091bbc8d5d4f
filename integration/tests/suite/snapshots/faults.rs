//! Stores that are down, slow, lie, or lose their answers.
use ancho_common::{error::ErrorKind, snapshot::Head};
use ancho_integration::{
    Client,
    client::single_integer,
    cluster::processes::ProcessBuilder,
    object_store::S3Server,
    run,
    store_proxy::{Fault, StoreProxy},
    turns,
};
use anyhow::ensure;
use bytes::Bytes;
use std::time::Duration;

use super::fill;

async fn more(client: &Client, table: &str) -> anyhow::Result<()> {
    client.update(&format!("INSERT INTO {table} VALUES (0, 'one more')")).await?;
    Ok(())
}

async fn head(server: &S3Server, table: &str) -> anyhow::Result<Head> {
    Ok(Head::decode(&server.read(&format!("snap/v1/dataset={table}/metadata.json")).await?)?)
}

#[test]
fn a_failing_store_costs_no_snapshot_and_no_write() {
    run(async {
        let _turn = turns::shared().await?;
        let server = S3Server::start().await?;
        let proxy = StoreProxy::start(&server.address()).await?;
        let mut builder = ProcessBuilder::default().executors(1).partition_wait(Duration::from_secs(5));
        for (name, value) in server.environment() {
            builder = builder.env(name, if name == "AWS_ENDPOINT" { proxy.endpoint() } else { value }.as_str());
        }
        let cluster = builder.start().await?;
        let client = cluster.client(0)?;
        let bucket = S3Server::BUCKET;
        fill(&client, "t", 2000, &format!(" WITH (snapshots_location = 's3://{bucket}/snap')")).await?;
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == 2000);

        // Down: the table is read and written as ever, and the lease is given back.
        proxy.set(Fault::Down);
        more(&client, "t").await?;
        let refused = client.update("CREATE SNAPSHOT OF t").await;
        ensure!(refused.as_ref().is_err_and(|f| f.kind() == ErrorKind::Unavailable && f.from_server), "{refused:?}");
        ensure!(single_integer(&client.query("SELECT count(*) FROM t").await?)? == 2001);
        ensure!(single_integer(&client.query("SELECT count(*) FROM system.leases").await?)? == 0);
        let failures = cluster.metric("dataset_acceleration_snapshot_failure_count").await?;
        ensure!(failures >= 1.0, "{failures} failures");

        // Slow, and losing the answers to conditional writes.
        proxy.set(Fault::Slow(Duration::from_millis(100)));
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == 2001);
        more(&client, "t").await?;
        proxy.set(Fault::LosesAnswers(2));
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == 2002);
        ensure!(proxy.lost_answers() > 0, "no answer was lost");
        let listed = head(&server, "t").await?;
        let versions: Vec<u64> = listed.snapshots.iter().map(|entry| entry.table_version).collect();
        ensure!(versions == [1, 2, 3], "each snapshot is listed once: {versions:?}");
        ensure!(listed.current == listed.newest().map(|newest| newest.id));

        // Somebody with a later epoch has been here: nothing is written over it.
        proxy.set(Fault::None);
        let stranger = Head { epoch: listed.epoch + 100, head_version: listed.head_version + 1, ..listed };
        server.write("snap/v1/dataset=t/metadata.json", Bytes::from(stranger.encode()?)).await?;
        more(&client, "t").await?;
        let refused = client.update("CREATE SNAPSHOT OF t").await;
        let over =
            |f: &ancho_integration::Failure| f.kind() == ErrorKind::Conflict && f.error.message.contains("is over");
        ensure!(refused.as_ref().is_err_and(over), "{refused:?}");
        ensure!(head(&server, "t").await? == stranger);
        cluster.stop().await
    });
}

#[test]
fn a_store_that_does_not_keep_conditions_is_not_published_in() {
    run(async {
        let _turn = turns::shared().await?;
        let server = S3Server::start().await?;
        let proxy = StoreProxy::start(&server.address()).await?;
        let mut builder = ProcessBuilder::default().executors(1).partition_wait(Duration::from_secs(5));
        for (name, value) in server.environment() {
            builder = builder.env(name, if name == "AWS_ENDPOINT" { proxy.endpoint() } else { value }.as_str());
        }
        let cluster = builder.start().await?;
        let client = cluster.client(0)?;
        let bucket = S3Server::BUCKET;
        for (table, fault, reason) in [
            ("refuses", Fault::RefusesConditions, "does not keep the conditions of writes"),
            ("ignores", Fault::IgnoresConditions, "If-None-Match"),
        ] {
            fill(&client, table, 100, &format!(" WITH (snapshots_location = 's3://{bucket}/{table}')")).await?;
            proxy.set(Fault::Down);
            let refused = client.update(&format!("CREATE SNAPSHOT OF {table}")).await;
            ensure!(
                refused.as_ref().is_err_and(|f| f.kind() == ErrorKind::Unavailable),
                "nothing was found out: {refused:?}"
            );
            for fault in [fault, Fault::None] {
                // What was found out holds until the scheduler is started anew.
                proxy.set(fault);
                let refused = client.update(&format!("CREATE SNAPSHOT OF {table}")).await;
                let told = |f: &ancho_integration::Failure| {
                    f.kind() == ErrorKind::Unsupported && f.error.message.contains(reason)
                };
                ensure!(refused.as_ref().is_err_and(told), "{table}, {fault:?}: {refused:?}");
            }
            let left = server.keys(table).await?;
            ensure!(left.iter().all(|key| key.contains("conditional-write-probe")), "{left:?}");
        }
        cluster.stop().await
    });
}

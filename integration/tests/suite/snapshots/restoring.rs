//! Executors whose rows are gone get them from the store, or say that they are lost.
use std::{fs, path::Path, time::Duration};

use ancho_common::error::ErrorKind;
use ancho_integration::{
    client::single_integer,
    cluster::processes::{ProcessBuilder, Processes},
    object_store::S3Server,
    run, turns,
};
use anyhow::{Context, ensure};

use super::{contents, fill};

const ROWS: i64 = 40_000;

/// Kills an executor, takes its partitions away, and starts it again.
async fn wipe(cluster: &mut Processes, executor: usize) -> anyhow::Result<()> {
    cluster.kill_executor(executor)?;
    let partitions = cluster.executor_dir(executor).join("partitions");
    fs::remove_dir_all(&partitions).with_context(|| format!("remove {}", partitions.display()))?;
    cluster.start_executor(executor)?;
    cluster.wait_ready().await
}

fn data_files(dir: &Path) -> usize {
    super::files(dir).map_or(0, |files| files.keys().filter(|name| name.ends_with(".vortex")).count())
}

#[test]
fn a_wiped_executor_gets_its_partitions_from_s3() {
    run(async {
        let _turn = turns::shared().await?;
        let server = S3Server::start().await?;
        let mut builder = ProcessBuilder::default().executors(2).partition_wait(Duration::from_secs(90));
        for (name, value) in server.environment() {
            builder = builder.env(name, &value);
        }
        let mut cluster = builder.start().await?;
        let client = cluster.client(0)?;
        // The name has to be escaped on its way.
        let place = format!(" WITH (snapshots_location = 's3://{}/snap shots')", S3Server::BUCKET);
        fill(&client, "\"Täble %2F\"", ROWS, &place).await?;
        let table = "\"Täble %2F\"";
        client.update(&format!("DELETE FROM {table} WHERE k % 50 = 1")).await?;
        let expected = contents(&client, table).await?;
        ensure!(client.update(&format!("CREATE SNAPSHOT OF {table}")).await? == ROWS - ROWS / 50);
        // A change of columns needs no rows, so it does not make the snapshot useless.
        client.update(&format!("ALTER TABLE {table} ADD COLUMN more BIGINT")).await?;
        for executor in 0..2 {
            ensure!(data_files(cluster.executor_dir(executor)) > 0);
            wipe(&mut cluster, executor).await?;
        }
        ensure!(contents(&client, table).await? == expected);
        ensure!(data_files(cluster.executor_dir(0)) > 0 && data_files(cluster.executor_dir(1)) > 0);
        // They take writes as before, and are snapshot again.
        client.update(&format!("INSERT INTO {table} VALUES (0, 'zero', 1)")).await?;
        ensure!(client.update(&format!("CREATE SNAPSHOT OF {table}")).await? == ROWS - ROWS / 50 + 1);
        cluster.stop().await
    });
}

#[test]
fn rows_that_no_snapshot_has_are_lost_and_never_left_out() {
    run(async {
        let _turn = turns::shared().await?;
        let store = tempfile::tempdir()?;
        let builder = ProcessBuilder::default().executors(1).partition_wait(Duration::from_secs(20));
        let mut cluster = builder.start().await?;
        let client = cluster.client(0)?;
        let place = format!(" WITH (snapshots_location = 'file://{}')", store.path().display());
        fill(&client, "t", ROWS, &place).await?;
        client.update("CREATE SNAPSHOT OF t").await?;
        // One partition gets a row more, the others stay as they are in the snapshot.
        client.update("INSERT INTO t VALUES (7, 'later')").await?;
        wipe(&mut cluster, 0).await?;
        let refused = client.query("SELECT count(*) FROM t").await;
        ensure!(
            refused.as_ref().is_err_and(|f| f.kind() == ErrorKind::Corrupt
                && f.error.message.contains("is lost")
                && f.error.message.contains("the newest snapshot has version 1")),
            "{refused:?}"
        );
        // The others are served.
        let mut served = 0;
        for key in 1..=40 {
            match client.query(&format!("SELECT s FROM t WHERE k = {key}")).await {
                Ok(answer) if answer.rows() == 1 => served += 1,
                Ok(answer) => anyhow::bail!("key {key}: {} rows", answer.rows()),
                Err(failure) => ensure!(failure.kind() == ErrorKind::Corrupt, "{failure}"),
            }
        }
        ensure!((1..40).contains(&served), "{served} keys are served");
        cluster.stop().await
    });
}

#[test]
fn others_take_over_what_a_snapshot_has_of_an_executor_that_is_gone() {
    run(async {
        let _turn = turns::shared().await?;
        let store = tempfile::tempdir()?;
        let builder = ProcessBuilder::default().executors(3).session_ttl(Duration::from_secs(3));
        let mut cluster =
            builder.failover_after(Duration::from_secs(2)).partition_wait(Duration::from_secs(90)).start().await?;
        let client = cluster.client(0)?;
        let place = format!(" WITH (snapshots_location = 'file://{}')", store.path().display());
        fill(&client, "t", ROWS, &place).await?;
        // This one is in no snapshot.
        fill(&client, "u", 1000, "").await?;
        client.update("DELETE FROM t WHERE k % 50 = 1").await?;
        let expected = contents(&client, "t").await?;
        client.update("CREATE SNAPSHOT OF t").await?;
        client.update("CREATE TABLE empty (k BIGINT) PARTITION BY (bucket(6, k))").await?;

        cluster.kill_executor(2)?;
        fs::remove_dir_all(cluster.executor_dir(2))?;
        ensure!(contents(&client, "t").await? == expected);
        client.update("INSERT INTO empty SELECT value FROM generate_series(1, 100) AS g(value)").await?;
        ensure!(
            client.update("INSERT INTO t SELECT value, 'new' FROM generate_series(100001, 100100) AS g(value)").await?
                == 100
        );
        ensure!(contents(&client, "t").await? != expected);
        let epochs =
            client.query("SELECT count(*) FROM system.partitions WHERE table_name = 't' AND epoch > 1").await?;
        ensure!((1..=2).contains(&single_integer(&epochs)?), "only what was on the executor has moved");

        // What nobody can restore is waited for, and never left out.
        let impatient = client.with_server_deadline(Duration::from_secs(8));
        let refused = impatient.query("SELECT count(*) FROM u").await;
        ensure!(refused.is_err(), "an answer without all rows: {refused:?}");
        // The executor comes back under another name, and is given nothing that is served elsewhere.
        cluster.start_executor(2)?;
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == ROWS - ROWS / 50 + 100);
        cluster.stop().await
    });
}

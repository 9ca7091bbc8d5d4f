//! Snapshots that are made unasked, what the command line shows of them, and when old ones go.
use std::{fs, path::Path, process::Command, time::Duration};

use ancho_common::{error::ErrorKind, snapshot::Head};
use ancho_integration::{
    Client,
    client::single_integer,
    cluster::processes::{ProcessBuilder, binary},
    run,
    sources::write_file,
    turns, wait_until,
};
use anyhow::{Context, ensure};

use super::{files, fill};

const LIMIT: Duration = Duration::from_secs(60);

async fn published(client: &Client, table: &str) -> anyhow::Result<i64> {
    let sql = format!("SELECT count(*) FROM system.snapshots WHERE table_name = '{table}'");
    single_integer(&client.query(&sql).await?)
}

async fn wait_for(client: &Client, table: &str, count: i64) -> anyhow::Result<()> {
    wait_until("a snapshot", LIMIT, || async {
        let found = published(client, table).await?;
        ensure!(found >= count, "{found} snapshots of {table}");
        Ok(Some(()))
    })
    .await
}

fn ancho(url: &str, arguments: &[&str]) -> anyhow::Result<(bool, String)> {
    let output = Command::new(binary()?).args(arguments).args(["--url", url]).output().context("run ancho")?;
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ok((output.status.success(), text))
}

#[test]
fn triggers_and_retention() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ProcessBuilder::default().executors(1).start().await?;
        let client = cluster.client(0)?;
        let (store, sources) = (tempfile::tempdir()?, tempfile::tempdir()?);
        let place = store.path().display().to_string();
        let options = |more: &str| format!(" WITH (snapshots_location = 'file://{place}', snapshots = {more})");

        // Every second commit; by time; never.
        let counted = "'enabled', snapshots_trigger = 'stream_batches', snapshots_trigger_threshold = '2'";
        fill(&client, "counted", 100, &options(counted)).await?;
        fill(&client, "timed", 100, &options("'enabled', snapshots_trigger_threshold = '1s'")).await?;
        fill(&client, "never", 100, &options("'disabled'")).await?;
        wait_for(&client, "timed", 1).await?;
        ensure!(published(&client, "counted").await? == 0, "one commit is not enough");
        client.update("INSERT INTO counted VALUES (0, 'x')").await?;
        wait_for(&client, "counted", 1).await?;
        let refused = client.update("CREATE SNAPSHOT OF never").await;
        ensure!(refused.as_ref().is_err_and(|f| f.kind() == ErrorKind::Unsupported), "{refused:?}");
        ensure!(published(&client, "never").await? == 0);
        ensure!(published(&client, "timed").await? == 1, "nothing has changed since");
        client.update("ALTER TABLE timed SET (snapshots_creation_policy = 'always')").await?;
        wait_for(&client, "timed", 3).await?;

        // Only the newest are kept of a table that keeps nothing for long.
        client
            .update("ALTER TABLE timed SET (snapshots_creation_policy = 'default', snapshots_retention = '1ms', snapshots_min_keep = 1)")
            .await?;
        client.update("INSERT INTO timed VALUES (0, 'x')").await?;
        let head = || -> anyhow::Result<Head> {
            Ok(Head::decode(&fs::read(store.path().join("v1/dataset=timed/metadata.json"))?)?)
        };
        wait_until("old snapshots to go", LIMIT, || async {
            let listed = head()?.snapshots.len();
            // The one that was newest before the last one was still needed while that was made.
            ensure!(listed <= 2, "{listed} snapshots are listed");
            Ok(Some(()))
        })
        .await?;

        // A dataset: after each refresh, and a changed declaration makes no new table.
        let rows = |last| format!("SELECT value AS id FROM generate_series(1, {last}) AS g(value)");
        let file = sources.path().join("part.parquet");
        write_file(&file, &rows(50)).await?;
        let spec = |more: &str| {
            format!(
                "version: v1\nkind: Cluster\ndatasets:\n  - from: file://{}\n    name: d\n    acceleration:\n      snapshots: enabled\n      \
                 snapshots_location: file://{place}\n{more}",
                file.display()
            )
        };
        client.apply(&spec("")).await?;
        wait_for(&client, "d", 1).await?;
        let changes = client.apply(&spec("      snapshots_retention: 3d\n")).await?;
        ensure!(changes[0].action == "adjusted", "{changes:?}");
        let wrong = client.try_apply(&spec("      snapshots_trigger: stream_batches\n")).await;
        ensure!(wrong.as_ref().is_err_and(|f| f.error.message.contains("snapshots_trigger")), "{wrong:?}");

        // What the command line shows.
        let url = cluster.flight_url(0);
        let (ok, text) = ancho(&url, &["snapshot", "list", "counted"])?;
        ensure!(ok && text.contains("the newest holds what table counted holds now"), "{text}");
        let (ok, text) = ancho(&url, &["snapshot", "create", "counted"])?;
        ensure!(ok && text.contains("unchanged since snapshot"), "{text}");
        let (ok, text) = ancho(&url, &["snapshot", "list", "nothing"])?;
        ensure!(!ok && text.contains("nothing does not exist"), "{text}");
        ensure!(cluster.metric("dataset_acceleration_snapshot_write_timestamp").await? > 0.0);
        ensure!(!files(Path::new(&place))?.is_empty());
        cluster.stop().await
    });
}

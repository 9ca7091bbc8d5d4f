//! Files are rewritten in the background and on demand, while rows are read, added, changed and deleted.
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use ancho_common::error::ErrorKind;
use ancho_integration::{
    Client,
    client::single_integer,
    cluster::in_process::{Cluster, ClusterBuilder},
    run, turns, wait_until,
};
use anyhow::ensure;
use futures::future::try_join;

use super::refused;

/// Single statements of the writer.
const WRITES: i64 = 60;

#[test]
fn a_table_of_small_writes_is_compacted_beside_its_readers_and_writers() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client
            .update(
                "CREATE TABLE c (k BIGINT, v BIGINT) WITH (cayenne_compaction_trigger_files = 2, \
                 cayenne_compaction_background_interval_ms = 50, cayenne_cluster_by = 'k') PARTITION BY (bucket(2, k))",
            )
            .await?;
        let done = AtomicBool::new(false);
        try_join(write(&client, &done), read(&client, &done)).await?;
        check(&client).await?;

        let passes = || cluster.executors().iter().map(|e| e.host().compaction_stats().done.passes).sum::<u64>();
        let rewritten = || async { Ok((passes() > 2).then_some(())) };
        wait_until("files are rewritten", Duration::from_secs(60), rewritten).await?;
        let versions = versions(&cluster);
        let before = passes();
        client.update("OPTIMIZE TABLE c").await?;
        ensure!(passes() >= before, "passes do not go back");
        check(&client).await?;
        for executor in cluster.executors() {
            let stats = executor.host().compaction_stats();
            ensure!(stats.failures == 0, "{stats:?}");
            ensure!(stats.done.rows_dropped > 0, "deleted rows stay: {stats:?}");
        }
        ensure!(versions == self::versions(&cluster), "rewriting files made versions");
        refused(&client, "OPTIMIZE TABLE nothing", ErrorKind::NotFound, "nothing").await?;
        cluster.stop().await
    });
}

/// Version and committed version of each partition.
fn versions(cluster: &Cluster) -> Vec<(u64, Option<u64>, u64)> {
    let infos = cluster.executors().iter().flat_map(|e| e.partitions());
    let mut versions: Vec<_> = infos.map(|info| (info.partition.0, info.version, info.committed)).collect();
    versions.sort_unstable();
    versions
}

/// Adds pairs of rows whose values add up to zero, changes them so that they still do, and deletes every tenth pair.
async fn write(client: &Client, done: &AtomicBool) -> anyhow::Result<()> {
    for i in 0..WRITES {
        client.update(&format!("INSERT INTO c VALUES ({i}, {i}), ({}, -{i})", i + 1000)).await?;
        if i % 5 == 4 {
            client.update(&format!("UPDATE c SET v = v * 2 WHERE k % 1000 <= {i}")).await?;
        }
        if i % 10 == 9 {
            ensure!(client.update(&format!("DELETE FROM c WHERE k % 1000 = {}", i - 3)).await? == 2);
        }
    }
    done.store(true, Ordering::Relaxed);
    Ok(())
}

/// Every state that is read is one that a statement left: values add up to zero, and rows come in pairs.
async fn read(client: &Client, done: &AtomicBool) -> anyhow::Result<()> {
    let mut reads = 0;
    while !done.load(Ordering::Relaxed) {
        let sum = single_integer(&client.query("SELECT coalesce(sum(v), 0) * 2 + count(*) % 2 FROM c").await?)?;
        ensure!(sum == 0, "a state between two statements was read: {sum}");
        reads += 1;
    }
    ensure!(reads > 0, "nothing was read");
    Ok(())
}

async fn check(client: &Client) -> anyhow::Result<()> {
    let rows = 2 * (WRITES - WRITES / 10);
    let answer = client.query("SELECT count(*) * 1000 + count(DISTINCT k) FROM c").await?;
    ensure!(single_integer(&answer)? == rows * 1001, "{answer:?}");
    // Doubled once for each later change of all rows.
    let wrong = format!(
        "SELECT count(*) FROM c WHERE v != CASE WHEN k >= 1000 THEN -1 ELSE 1 END * (k % 1000) * \
         power(2, {} - (k % 1000) / 5)",
        WRITES / 5
    );
    ensure!(single_integer(&client.query(&wrong).await?)? == 0, "values are wrong");
    Ok(())
}

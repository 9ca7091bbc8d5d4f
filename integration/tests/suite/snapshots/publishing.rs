//! What a snapshot brings into the store, and what it does not bring again.
use std::fs;

use ancho_common::{
    error::ErrorKind,
    snapshot::{Head, SnapshotSet},
};
use ancho_integration::{
    client::{first_column, single_integer},
    cluster::in_process::ClusterBuilder,
    run, turns,
};
use anyhow::{Context, ensure};

use super::{files, fill};

const ROWS: i64 = 400_000;

#[test]
fn only_what_is_new_is_uploaded() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let store = tempfile::tempdir()?;
        let place = store.path().display().to_string();
        fill(&client, "t", ROWS, &format!(" WITH (snapshots_location = 'file://{place}')")).await?;
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == ROWS);

        let folder = store.path().join("v1/dataset=t");
        let first = files(&folder)?;
        let head = Head::decode(&fs::read(folder.join("metadata.json"))?)?;
        let entry = head.entry(head.current.context("a current snapshot")?).context("an entry")?;
        ensure!(entry.rows == ROWS.unsigned_abs() && head.snapshots.len() == 1, "{head:?}");
        let bytes = fs::read(store.path().join(&entry.set.key))?;
        entry.set.check(&bytes)?;
        let set = SnapshotSet::decode(&bytes)?;
        ensure!(set.partitions.len() == 4 && set.rows == ROWS.unsigned_abs(), "{set:?}");
        for partition in &set.partitions {
            partition.manifest.check(&fs::read(store.path().join(&partition.manifest.key))?)?;
        }
        let data: u64 = first.iter().filter(|(name, _)| name.ends_with(".vortex")).map(|(_, bytes)| bytes).sum();
        ensure!(data == set.bytes && data > 4 << 20, "{data} bytes of data files, {} in the set", set.bytes);

        // Nothing has changed, so nothing is written.
        ensure!(client.update("create snapshot of t").await? == ROWS);
        ensure!(files(&folder)? == first, "a snapshot without a change wrote something");

        // One row in a hundred.
        let changed = client.update("UPDATE t SET s = 'changed ' || s WHERE k % 100 = 7").await?;
        ensure!(changed == ROWS / 100);
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == ROWS);
        let second = files(&folder)?;
        let new: u64 = second.iter().filter(|(name, _)| !first.contains_key(*name)).map(|(_, bytes)| bytes).sum();
        ensure!(new > 0 && new * 20 <= data, "{new} bytes are new, the table has {data}");
        ensure!(first.keys().all(|name| second.contains_key(name)), "something is gone");

        let told = client.query("SELECT uploaded_bytes FROM system.snapshots WHERE table_name = 't'").await?;
        let told = first_column(&told)?;
        ensure!(told.len() == 2 && told[1] == new.to_string(), "{told:?}, and {new} bytes are new");
        let leases = client.query("SELECT count(*) FROM system.leases").await?;
        ensure!(single_integer(&leases)? == 0);
        cluster.stop().await
    });
}

#[test]
fn a_place_is_named_by_the_table_or_the_cluster() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(1).start().await?;
        let client = cluster.client()?;
        let (one, other) = (tempfile::tempdir()?, tempfile::tempdir()?);
        fill(&client, "t", 100, "").await?;
        let refused = client.update("CREATE SNAPSHOT OF t").await;
        let named = |text: &str| text.contains("no place for snapshots of table t is known");
        ensure!(
            refused.as_ref().is_err_and(|f| f.kind() == ErrorKind::Invalid && named(&f.error.message)),
            "{refused:?}"
        );
        let missing = client.update("CREATE SNAPSHOT OF nothing").await;
        ensure!(missing.is_err_and(|f| f.kind() == ErrorKind::NotFound));

        let spec = |dir: &std::path::Path| {
            format!(
                "version: v1\nkind: Cluster\nruntime:\n  state:\n    location: file://{}\ndatasets: []\n",
                dir.display()
            )
        };
        client.apply(&spec(one.path())).await?;
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == 100);
        ensure!(one.path().join("snapshots/v1/dataset=t/metadata.json").is_file());

        // A table that names a place does not go into the cluster's, and begins anew there.
        let place = other.path().display();
        client.update(&format!("ALTER TABLE t SET (snapshots_location = 'file://{place}')")).await?;
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == 100);
        ensure!(
            files(&other.path().join("v1/dataset=t/files"))?.len()
                == files(&one.path().join("snapshots/v1/dataset=t/files"))?.len()
        );
        for (option, reason) in [
            ("snapshots_location = 'over there'", "is not a URL"),
            ("snapshots_location = 'gs://bucket/a'", "not offered"),
            ("snapshots_params = 's3_region'", "JSON object"),
        ] {
            let refused = client.update(&format!("ALTER TABLE t SET ({option})")).await;
            ensure!(refused.as_ref().is_err_and(|f| f.error.message.contains(reason)), "{option}: {refused:?}");
        }

        // Another cluster cannot publish over it.
        let second = ClusterBuilder::default().executors(1).start().await?;
        let stranger = second.client()?;
        fill(&stranger, "t", 50, &format!(" WITH (snapshots_location = 'file://{place}')")).await?;
        let before = files(&other.path().join("v1/dataset=t"))?.get("metadata.json").copied();
        let refused = stranger.update("CREATE SNAPSHOT OF t").await;
        ensure!(refused.as_ref().is_err_and(|f| f.kind() == ErrorKind::Conflict), "{refused:?}");
        ensure!(
            files(&other.path().join("v1/dataset=t"))?.get("metadata.json").copied() == before,
            "the head has changed"
        );
        second.stop().await?;

        // A table of the same name, made anew, goes on where the former one was.
        client.update("DROP TABLE t").await?;
        fill(&client, "t", 70, &format!(" WITH (snapshots_location = 'file://{place}')")).await?;
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == 70);
        cluster.stop().await
    });
}

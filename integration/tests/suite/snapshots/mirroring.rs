//! Clusters that serve what another one publishes.
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use ancho_common::{
    error::ErrorKind,
    snapshot::{Head, HeadEntry, StoredObject},
};
use ancho_integration::{
    Client,
    client::{first_column, single_integer},
    cluster::{in_process::ClusterBuilder, processes::ProcessBuilder},
    object_store::S3Server,
    run,
    store_proxy::{Fault, StoreProxy},
    turns, wait_until,
};
use anyhow::{Context, ensure};
use tokio::sync::Notify;
use uuid::Uuid;

use super::{contents, fill};

const ROWS: i64 = 20_000;
const LIMIT: Duration = Duration::from_secs(120);

/// What may be seen, shared between a reader and whoever publishes.
#[derive(Debug, Default)]
struct Seen(Mutex<BTreeSet<String>>);

impl Seen {
    fn allow(&self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned());
    }

    fn allows(&self, text: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(text)
    }
}

fn spec(names: &[&str], from: &str, more: &str) -> String {
    let dataset = |name: &&str| {
        format!(
            "  - from: {from}\n    name: {name}\n    params:\n      file_format: snapshot\n    acceleration:\n      \
             refresh_check_interval: 1s\n{more}"
        )
    };
    format!("version: v1\nkind: Cluster\ndatasets:\n{}", names.iter().map(dataset).collect::<String>())
}

async fn shows(reader: &Client, expected: &str) -> anyhow::Result<()> {
    wait_until(&format!("the reader to show {expected}"), LIMIT, || async {
        let seen = contents(reader, "t").await?;
        ensure!(seen == expected, "it shows {seen}");
        Ok(Some(()))
    })
    .await
}

/// Publishes the table, and answers the id of the snapshot and what it holds.
async fn publish(client: &Client) -> anyhow::Result<(String, String)> {
    let now = contents(client, "t").await?;
    client.update("CREATE SNAPSHOT OF t").await?;
    let ids =
        client.query("SELECT snapshot_id FROM system.snapshots WHERE table_name = 't' ORDER BY version DESC").await?;
    Ok((first_column(&ids)?.into_iter().next().context("a snapshot")?, now))
}

fn read_head(store: &Path) -> anyhow::Result<Head> {
    Ok(Head::decode(&fs::read(store.join("v1/dataset=t/metadata.json"))?)?)
}

#[test]
fn a_cluster_serves_what_another_one_publishes() {
    run(async {
        let _turn = turns::shared().await?;
        let publishing = ClusterBuilder::default().executors(2).start().await?;
        let reading = ClusterBuilder::default().executors(2).partition_wait(Duration::from_secs(6)).start().await?;
        let (publisher, reader) = (publishing.client()?, reading.client()?);
        let folder = tempfile::tempdir()?;
        let store = folder.path().join("store");
        let from = format!("file://{}", store.display());

        // Nothing is published: the table waits, and is not taken for an empty one.
        let declared = spec(&["t", "never"], &from, "");
        for _ in 0..2 {
            let changes = reader.apply(&declared).await?;
            ensure!(changes.iter().all(|change| change.action == "waiting"), "{changes:?}");
        }
        for sql in ["SELECT count(*) FROM t", "INSERT INTO t VALUES (1, 'x')"] {
            let waits = match sql.starts_with("SELECT") {
                true => reader.query(sql).await.err(),
                false => reader.update(sql).await.err(),
            };
            let told = waits.as_ref().is_some_and(|f| {
                f.kind() == ErrorKind::Unavailable && f.error.message.contains("waits for the first snapshot")
            });
            ensure!(told, "{sql}: {waits:?}");
        }
        let taken = reader.update("CREATE TABLE t (k BIGINT)").await;
        ensure!(taken.as_ref().is_err_and(|f| f.error.message.contains("waits for the first snapshot")), "{taken:?}");

        // It shows the first snapshot as soon as there is one, and not what was written since.
        let place = format!(" WITH (snapshots_location = '{from}')");
        fill(&publisher, "t", ROWS, &place).await?;
        publisher.update("DELETE FROM t WHERE k % 10 = 3").await?;
        let (first, oldest) = publish(&publisher).await?;
        publisher.update("UPDATE t SET s = 'unpublished' WHERE k = 1").await?;
        shows(&reader, &oldest).await?;
        let spread =
            reader.query("SELECT count(DISTINCT owners) FROM system.partitions WHERE table_name = 't'").await?;
        ensure!(single_integer(&spread)? == 2, "it is spread as where it is published");

        // Whole snapshots, whatever is read meanwhile.
        let seen = Arc::new(Seen::default());
        seen.allow(&oldest);
        let done = Arc::new(Notify::new());
        let watching = {
            let (reader, seen, done) = (reading.client()?, Arc::clone(&seen), Arc::clone(&done));
            tokio::spawn(async move {
                let ended = done.notified();
                tokio::pin!(ended);
                let mut distinct = BTreeSet::new();
                loop {
                    tokio::select! {
                        () = &mut ended => return Ok::<_, anyhow::Error>(distinct.len()),
                        shown = contents(&reader, "t") => {
                            let shown = shown?;
                            ensure!(seen.allows(&shown), "a mixture was read: {shown}");
                            distinct.insert(shown);
                        }
                    }
                }
            })
        };
        let mut newest = oldest.clone();
        for step in 1..=4 {
            publisher.update(&format!("UPDATE t SET s = 'step {step}' || s WHERE k % 7 = {step}")).await?;
            publisher.update(&format!("INSERT INTO t VALUES ({}, 'new {step}')", 1_000_000 + step)).await?;
            seen.allow(&contents(&publisher, "t").await?);
            newest = publish(&publisher).await?.1;
            shows(&reader, &newest).await?;
        }
        // A pin takes it back, and the end of the pin forward again.
        publisher.update(&format!("PIN SNAPSHOT '{first}' OF t")).await?;
        shows(&reader, &oldest).await?;
        publisher.update("UNPIN SNAPSHOT OF t").await?;
        shows(&reader, &newest).await?;
        done.notify_one();
        let distinct = watching.await??;
        ensure!(distinct >= 2, "only {distinct} states were seen");

        // It is read-only.
        for sql in [
            "INSERT INTO t VALUES (1, 'x')".to_owned(),
            "INSERT OVERWRITE t VALUES (1, 'x')".to_owned(),
            "UPDATE t SET s = 'x' WHERE k = 1".to_owned(),
            "DELETE FROM t WHERE k = 1".to_owned(),
            "TRUNCATE TABLE t".to_owned(),
            "ALTER TABLE t ADD COLUMN more BIGINT".to_owned(),
            format!("RESTORE TABLE t FROM SNAPSHOT '{first}'"),
        ] {
            let refused = reader.update(&sql).await;
            ensure!(refused.as_ref().is_err_and(|f| f.kind() == ErrorKind::Unsupported), "{sql}: {refused:?}");
        }
        let refused = reader.update(&format!("PIN SNAPSHOT '{first}' OF t")).await;
        ensure!(refused.as_ref().is_err_and(|f| f.kind() == ErrorKind::Invalid), "{refused:?}");
        ensure!(contents(&reader, "t").await? == newest);
        let listed = reader.action("ancho.snapshots", "{\"table\": \"t\"}").await?;
        let listed: serde_json::Value = serde_json::from_slice(&listed)?;
        ensure!(
            listed["served_snapshot_id"] == listed["current"]
                && listed["snapshots"].as_array().is_some_and(|all| all.len() == 5),
            "{listed}"
        );

        // The store is away: it goes on with what it has.
        let away = folder.path().join("away");
        fs::rename(&store, &away)?;
        let failed = reader.try_apply(&spec(&["t"], &from, "")).await?;
        ensure!(failed[0].action == "failed" && contents(&reader, "t").await? == newest, "{failed:?}");
        fs::rename(&away, &store)?;

        // The newest is damaged: likewise.
        let mut head = read_head(&store)?;
        let last = head.newest().context("a snapshot")?.clone();
        let damaged = StoredObject { key: "v1/dataset=t/sets/damaged.json".to_owned(), ..last.set.clone() };
        fs::write(store.join(&damaged.key), vec![b'x'; usize::try_from(damaged.bytes)?])?;
        head.publish(HeadEntry { id: Uuid::new_v4(), set: damaged, ..last });
        head.head_version += 1;
        fs::write(store.join("v1/dataset=t/metadata.json"), head.encode()?)?;
        let failed = reader.try_apply(&spec(&["t"], &from, "")).await?;
        ensure!(failed[0].error == Some(ErrorKind::Corrupt) && contents(&reader, "t").await? == newest, "{failed:?}");
        publisher.update("INSERT INTO t VALUES (2000000, 'mended')").await?;
        let mended = publish(&publisher).await?.1;
        shows(&reader, &mended).await?;

        // Other columns, at once.
        publisher.update("ALTER TABLE t ADD COLUMN more BIGINT").await?;
        publisher.update("UPDATE t SET more = k WHERE k < 100").await?;
        let wanted = single_integer(&publisher.query("SELECT sum(more) FROM t").await?)?;
        publish(&publisher).await?;
        wait_until("the new column", LIMIT, || async {
            let sum = single_integer(&reader.query("SELECT sum(more) FROM t").await?)?;
            ensure!(sum == wanted, "{sum} instead of {wanted}");
            Ok(Some(()))
        })
        .await?;

        // Spread otherwise than where it is published.
        let own = spec(&["t"], &from, "      partition_by: [\"bucket(3, k)\"]\n");
        let changes = reader.apply(&own).await?;
        ensure!(changes[0].action == "replaced", "{changes:?}");
        let parts = reader.query("SELECT count(*) FROM system.partitions WHERE table_name = 't'").await?;
        ensure!(single_integer(&parts)? == 3 && contents(&reader, "t").await? == mended);
        let changes = reader.apply(&own).await?;
        ensure!(changes[0].action == "unchanged", "{changes:?}");

        // What is dropped stays away.
        reader.update("DROP TABLE never").await?;
        reader.update("DROP TABLE t").await?;
        publisher.update("INSERT INTO t VALUES (3000000, 'last', 1)").await?;
        publish(&publisher).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        for table in ["t", "never"] {
            let gone = reader.query(&format!("SELECT count(*) FROM {table}")).await;
            ensure!(gone.as_ref().is_err_and(|f| f.kind() == ErrorKind::NotFound), "{table}: {gone:?}");
        }
        reading.stop().await?;
        publishing.stop().await
    });
}

#[test]
fn one_process_serves_what_a_cluster_publishes_on_s3() {
    run(async {
        let _turn = turns::shared().await?;
        let server = S3Server::start().await?;
        let proxy = StoreProxy::start(&server.address()).await?;
        let mut publishing = ProcessBuilder::default().executors(2);
        let mut reading = ProcessBuilder::default().executors(1).partition_wait(Duration::from_secs(60));
        for (name, value) in server.environment() {
            publishing = publishing.env(name, &value);
            reading = reading.env(name, if name == "AWS_ENDPOINT" { proxy.endpoint() } else { value }.as_str());
        }
        let publishing = publishing.start().await?;
        let mut reading = reading.start().await?;
        let (publisher, reader) = (publishing.client(0)?, reading.client(0)?);
        let from = format!("s3://{}/published", S3Server::BUCKET);
        fill(&publisher, "t", ROWS, &format!(" WITH (snapshots_location = '{from}')")).await?;
        let (first, oldest) = publish(&publisher).await?;
        let changes = reader.apply(&spec(&["t"], &from, "")).await?;
        ensure!(changes[0].action == "created" && changes[0].rows == Some(ROWS.unsigned_abs()), "{changes:?}");
        ensure!(contents(&reader, "t").await? == oldest);

        // What does not change is asked for by its tag, and not sent again.
        publisher.update("UPDATE t SET s = 'second' WHERE k % 3 = 0").await?;
        let (_, second) = publish(&publisher).await?;
        shows(&reader, &second).await?;

        // The store is away, the process is started anew, the store is back.
        proxy.set(Fault::Down);
        publisher.update("INSERT INTO t VALUES (0, 'third')").await?;
        let (_, third) = publish(&publisher).await?;
        reading.kill_scheduler(0)?;
        reading.start_scheduler(0)?;
        reading.wait_ready().await?;
        ensure!(contents(&reader, "t").await? == second, "it has what it had");
        proxy.set(Fault::None);
        shows(&reader, &third).await?;

        // A pin, and a publisher that goes on under it.
        publisher.update(&format!("PIN SNAPSHOT '{first}' OF t")).await?;
        publisher.update("INSERT INTO t VALUES (-1, 'fourth')").await?;
        publish(&publisher).await?;
        shows(&reader, &oldest).await?;
        reading.stop().await?;
        publishing.stop().await
    });
}

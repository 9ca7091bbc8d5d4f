//! Which snapshot readers are given, and the way back to one.
use std::{fs, path::Path, sync::Arc};

use ancho_common::{
    error::ErrorKind,
    snapshot::{Head, SnapshotSet},
};
use ancho_integration::{
    Client,
    client::{first_column, single_integer},
    cluster::in_process::ClusterBuilder,
    run, turns,
};
use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::Notify,
};

use super::{contents, fill};

const ROWS: i64 = 20_000;

/// Status and body of an HTTP request for the snapshots of a table.
async fn http(at: &str, method: &str, path: &str, body: &str) -> anyhow::Result<(u16, Value)> {
    let mut stream = TcpStream::connect(at).await?;
    let request = format!(
        "{method} /v1/datasets/{path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("no answer: {answer:?}"))?;
    let status = head.split(' ').nth(1).with_context(|| format!("no status: {head:?}"))?;
    Ok((status.parse()?, serde_json::from_str(body).with_context(|| format!("{method} {path}: {body:?}"))?))
}

fn head(store: &Path) -> anyhow::Result<Head> {
    Ok(Head::decode(&fs::read(store.join("v1/dataset=t/metadata.json"))?)?)
}

/// Publishes the table, and answers the id of what was published.
async fn publish(client: &Client) -> anyhow::Result<String> {
    client.update("CREATE SNAPSHOT OF t").await?;
    let ids =
        client.query("SELECT snapshot_id FROM system.snapshots WHERE table_name = 't' ORDER BY version DESC").await?;
    first_column(&ids)?.into_iter().next().context("a snapshot")
}

#[test]
fn readers_are_given_what_is_pinned() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let store = tempfile::tempdir()?;
        let at = cluster.http_address().context("HTTP is served")?;
        fill(&client, "t", 100, &format!(" WITH (snapshots_location = 'file://{}')", store.path().display())).await?;

        let first = publish(&client).await?;
        client.update("INSERT INTO t VALUES (0, 'later')").await?;
        let second = publish(&client).await?;
        ensure!(head(store.path())?.current.map(|id| id.to_string()) == Some(second.clone()));
        ensure!(client.update("UNPIN SNAPSHOT OF t").await? == 101);
        let before = head(store.path())?;

        // The pin is a change of the head like any other; the same pin again is none.
        ensure!(client.update(&format!("PIN SNAPSHOT '{first}' OF t")).await? == 100);
        let pinned = head(store.path())?;
        ensure!(pinned.head_version == before.head_version + 1 && pinned.epoch == before.epoch, "{pinned:?}");
        let id = pinned.pinned.context("a pin")?;
        ensure!(id.to_string() == first && pinned.current == Some(id), "{pinned:?}");
        ensure!(client.update(&format!("pin snapshot '{first}' of t;")).await? == 100);
        ensure!(head(store.path())? == pinned, "a pin that changes nothing was written");
        let left = fs::read_dir(store.path())?.filter_map(|entry| entry.ok().map(|entry| entry.file_name()));
        let probes: Vec<_> = left.filter(|name| name.to_string_lossy().contains("probe")).collect();
        ensure!(probes.is_empty(), "{probes:?} are left of probes");

        // What is published does not become current, and the pinned one stays although its time is over.
        client.update("ALTER TABLE t SET (snapshots_retention = '1ms', snapshots_min_keep = 1)").await?;
        for more in 1..=3 {
            client.update(&format!("INSERT INTO t VALUES ({}, 'more')", 1000 + more)).await?;
            publish(&client).await?;
        }
        let after = head(store.path())?;
        ensure!(after.current == Some(id) && after.entry(id).is_some(), "{after:?}");
        ensure!(after.snapshots.len() <= 3 && !after.snapshots.iter().any(|s| s.id.to_string() == second), "{after:?}");

        // The same over HTTP.
        let all = "t/acceleration/snapshots";
        let (status, listed) = http(&at, "GET", all, "").await?;
        ensure!(status == 200 && listed["pinned_snapshot_id"] == *first && listed["current"] == *first, "{listed}");
        ensure!(listed["snapshots"][0]["pinned"] == true && listed["snapshots"][0]["rows"] == 100, "{listed}");
        let (status, answer) = http(&at, "DELETE", &format!("{all}/pin"), "").await?;
        let newest = after.newest().context("a snapshot")?;
        ensure!(status == 200 && answer["current"] == newest.id.to_string() && answer["rows"] == 104, "{answer}");
        ensure!(head(store.path())?.pinned.is_none());
        let body = format!("{{\"snapshot_id\": \"{first}\"}}");
        let (status, answer) = http(&at, "POST", &format!("{all}/current"), &body).await?;
        ensure!(status == 200 && answer["pinned_snapshot_id"] == *first, "{answer}");
        let unknown = format!("{{\"snapshot_id\": \"{second}\"}}");
        for (method, path, body, wanted, part) in [
            ("PUT", format!("{all}/pin"), unknown.as_str(), 404, "is not listed"),
            ("PUT", format!("{all}/pin"), "{\"snapshot_id\": \"7\"}", 400, "no id of a snapshot"),
            ("PUT", format!("{all}/pin"), "{}", 400, "snapshot_id"),
            ("PUT", "nothing/acceleration/snapshots/pin".to_owned(), body.as_str(), 404, "nothing"),
            ("DELETE", "nothing/acceleration/snapshots/pin".to_owned(), "", 404, "nothing"),
            ("GET", "nothing/acceleration/snapshots".to_owned(), "", 404, "nothing"),
        ] {
            let (status, answer) = http(&at, method, &path, body).await?;
            ensure!(
                status == wanted && answer["message"].as_str().is_some_and(|m| m.contains(part)),
                "{path}: {answer}"
            );
        }

        // One whose objects are gone cannot be chosen.
        let set = SnapshotSet::decode(&fs::read(store.path().join(&newest.set.key))?)?;
        fs::remove_file(store.path().join(&set.partitions[0].manifest.key))?;
        let body = format!("{{\"snapshot_id\": \"{}\"}}", newest.id);
        let (status, answer) = http(&at, "PUT", &format!("{all}/pin"), &body).await?;
        ensure!(status == 409 && answer["message"].as_str().is_some_and(|m| m.contains("is gone")), "{answer}");
        ensure!(head(store.path())?.pinned == Some(id));
        cluster.stop().await
    });
}

#[test]
fn a_table_goes_back_to_a_snapshot_at_once() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        let store = tempfile::tempdir()?;
        let place = format!(" WITH (snapshots_location = 'file://{}')", store.path().display());
        fill(&client, "t", ROWS, &place).await?;
        client.update("DELETE FROM t WHERE k % 10 = 1").await?;
        let (first, then) = (publish(&client).await?, contents(&client, "t").await?);
        client.update("UPDATE t SET s = 'spoiled' WHERE k % 2 = 0").await?;
        client.update("INSERT INTO t SELECT value, 'more' FROM generate_series(1000001, 1005000) AS g(value)").await?;
        let now = contents(&client, "t").await?;

        // Readers see the one or the other, and nothing between.
        let (done, reader, allowed) = (Arc::new(Notify::new()), cluster.client()?, [now.clone(), then.clone()]);
        let reading = {
            let done = Arc::clone(&done);
            tokio::spawn(async move {
                let ended = done.notified();
                tokio::pin!(ended);
                let mut reads = 0;
                loop {
                    tokio::select! {
                        () = &mut ended => return Ok::<_, anyhow::Error>(reads),
                        seen = contents(&reader, "t") => {
                            let seen = seen?;
                            ensure!(allowed.contains(&seen), "a reader saw {seen}");
                            reads += 1;
                        }
                    }
                }
            })
        };
        let restored = client.update(&format!("RESTORE TABLE t FROM SNAPSHOT '{first}'")).await?;
        done.notify_one();
        reading.await??;
        ensure!(restored == ROWS - ROWS / 10 && contents(&client, "t").await? == then, "{restored} rows were restored");

        // It goes on from there.
        client.update("INSERT INTO t VALUES (0, 'zero')").await?;
        ensure!(client.update("CREATE SNAPSHOT OF t").await? == ROWS - ROWS / 10 + 1);

        // A column that came since is NULL; one that went since is missed.
        client.update("ALTER TABLE t ADD COLUMN more BIGINT").await?;
        client.update("UPDATE t SET more = k").await?;
        client.update(&format!("RESTORE TABLE t FROM SNAPSHOT '{first}'")).await?;
        ensure!(contents(&client, "t").await? == then);
        ensure!(single_integer(&client.query("SELECT count(more) FROM t").await?)? == 0);
        client.update("ALTER TABLE t DROP COLUMN s").await?;
        let refused = client.update(&format!("RESTORE TABLE t FROM SNAPSHOT '{first}'")).await;
        let told = |f: &ancho_integration::Failure| {
            f.kind() == ErrorKind::Conflict && f.error.message.contains("has a column s that table t does not have")
        };
        ensure!(refused.as_ref().is_err_and(told), "{refused:?}");

        // A table that was dropped comes back, however it is spread now.
        client.update("DROP TABLE t").await?;
        client.update(&format!("CREATE TABLE t (s VARCHAR, k BIGINT){place} PARTITION BY (bucket(3, s))")).await?;
        client.update(&format!("RESTORE TABLE t FROM SNAPSHOT '{first}'")).await?;
        ensure!(contents(&client, "t").await? == then);

        for (sql, kind) in [
            ("RESTORE TABLE t FROM SNAPSHOT '018f0000-0000-7000-8000-000000000001'".to_owned(), ErrorKind::NotFound),
            (format!("RESTORE TABLE nothing FROM SNAPSHOT '{first}'"), ErrorKind::NotFound),
            ("RESTORE TABLE t".to_owned(), ErrorKind::Invalid),
        ] {
            let refused = client.update(&sql).await;
            ensure!(refused.as_ref().is_err_and(|f| f.kind() == kind), "{sql}: {refused:?}");
        }

        // Nothing comes of a snapshot that is damaged, and nothing is left of it on the executors.
        let listed = head(store.path())?;
        let entry = listed.snapshots.iter().find(|entry| entry.id.to_string() == first).context("the first one")?;
        let set = SnapshotSet::decode(&fs::read(store.path().join(&entry.set.key))?)?;
        let manifest = store.path().join(&set.partitions[2].manifest.key);
        let mut bytes = fs::read(&manifest)?;
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&manifest, bytes)?;
        let refused = client.update(&format!("RESTORE TABLE t FROM SNAPSHOT '{first}'")).await;
        ensure!(refused.as_ref().is_err_and(|f| f.kind() == ErrorKind::Corrupt), "{refused:?}");
        ensure!(contents(&client, "t").await? == then);
        cluster.stop().await
    });
}

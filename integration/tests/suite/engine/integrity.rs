//! What is stored is read again on demand, damage is named, and plans say what was skipped.
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use ancho_common::error::ErrorKind;
use ancho_executor::verify_directory;
use ancho_integration::{
    Client,
    cluster::{
        in_process::ClusterBuilder,
        processes::{ProcessBuilder, binary},
    },
    run, turns,
};
use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use serde_json::{Value, json};

use super::texts;

/// The largest data file below a folder.
fn largest_file(dir: &Path) -> anyhow::Result<PathBuf> {
    let mut found: Vec<(u64, PathBuf)> = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            } else if entry.path().extension().is_some_and(|e| e == "vortex") {
                found.push((entry.metadata()?.len(), entry.path()));
            }
        }
    }
    found.sort();
    Ok(found.pop().context("no data file")?.1)
}

/// Changes one byte in the middle of a file.
fn spoil(path: &Path) -> anyhow::Result<()> {
    let mut bytes = fs::read(path)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    Ok(fs::write(path, bytes)?)
}

async fn verify(client: &Client, table: Option<&str>) -> anyhow::Result<Value> {
    let body = json!({ "table": table }).to_string();
    Ok(serde_json::from_slice(&client.action("ancho.verify", Bytes::from(body)).await?)?)
}

fn problems(answer: &Value) -> Vec<String> {
    let partitions = answer["partitions"].as_array().cloned().unwrap_or_default();
    let texts = partitions.iter().filter_map(|p| p["problems"].as_array()).flatten();
    texts.filter_map(Value::as_str).map(str::to_owned).collect()
}

async fn fill(client: &Client, table: &str) -> anyhow::Result<()> {
    client.update(&format!("CREATE TABLE {table} (k BIGINT, s VARCHAR) PARTITION BY (bucket(4, k))")).await?;
    let rows = "SELECT value, 'text ' || CAST(value AS VARCHAR) FROM generate_series(1, 20000) AS g(value)";
    client.update(&format!("INSERT INTO {table} {rows}")).await?;
    Ok(())
}

#[test]
fn damage_is_named_by_a_running_cluster_and_without_one() {
    run(async {
        let _turn = turns::shared().await?;
        let mut cluster = ProcessBuilder::default().executors(2).start().await?;
        let client = cluster.client(0)?;
        fill(&client, "sound").await?;
        fill(&client, "v").await?;
        client.update("DELETE FROM v WHERE k % 100 = 7").await?;
        let answer = verify(&client, None).await?;
        ensure!(problems(&answer).is_empty() && answer["unreached"] == json!([]), "{answer}");
        ensure!(answer["partitions"].as_array().is_some_and(|p| p.len() == 8), "{answer}");
        ensure!(answer["partitions"][0]["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{answer}");

        let folder = cluster.executor_dir(0).to_owned();
        let spoiled = largest_file(&folder)?;
        spoil(&spoiled)?;
        let name = spoiled.file_name().and_then(|n| n.to_str()).context("a name")?.to_owned();
        let found = problems(&verify(&client, None).await?);
        ensure!(found.len() == 1 && found[0].contains(&name) && found[0].contains("SHA-256"), "{found:?}");
        let by_table = [problems(&verify(&client, Some("v")).await?), problems(&verify(&client, Some("sound")).await?)];
        ensure!(by_table.iter().map(Vec::len).sum::<usize>() == 1, "{by_table:?}");
        match client.action("ancho.verify", Bytes::from_static(b"{\"table\":\"none\"}")).await {
            Err(failure) if failure.kind() == ErrorKind::NotFound => {}
            other => bail!("{other:?}"),
        }

        let offline = |dir: &Path| {
            Command::new(binary()?).args(["partition", "verify", "--dir"]).arg(dir).output().context("verify")
        };
        let output = offline(&folder)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(output.status.code() == Some(1) && text.contains(&name) && text.contains("DAMAGED"), "{text}");
        let other = offline(cluster.executor_dir(1))?;
        ensure!(other.status.success(), "{other:?}");
        ensure!(!offline(Path::new("/nothing/here"))?.status.success());
        cluster.stop_executor(1).await?;
        let answer = verify(&client, None).await?;
        ensure!(answer["unreached"].as_array().is_some_and(|silent| silent.len() == 1), "{answer}");
        cluster.kill_executor(0)?;
        let reports = verify_directory(&folder).await?;
        ensure!(reports.iter().map(|report| report.problems.len()).sum::<usize>() == 1, "{reports:?}");
        Ok(())
    });
}

#[test]
fn a_plan_says_what_was_skipped_and_by_what() {
    run(async {
        let _turn = turns::shared().await?;
        let cluster = ClusterBuilder::default().executors(2).start().await?;
        let client = cluster.client()?;
        client.update("CREATE TABLE e (k BIGINT, s VARCHAR) PARTITION BY (bucket(2, k))").await?;
        for part in 0..3 {
            let (first, last) = (part * 10_000 + 1, part * 10_000 + 10_000);
            let rows = "SELECT value, 'text ' || CAST(value AS VARCHAR) FROM generate_series";
            client.update(&format!("INSERT INTO e {rows}({first}, {last}) AS g(value)")).await?;
        }
        client.update("DELETE FROM e WHERE k BETWEEN 20101 AND 20200").await?;
        let plan = texts(&client.query("EXPLAIN ANALYZE SELECT count(s) FROM e WHERE k > 20000").await?)?.join("\n");
        for part in ["files_total=6", "files_pruned=4", "rows_total=30000", "rows_pruned=20000", "rows_deleted=100"] {
            let grouped = part.replace("30000", "30.00 K").replace("20000", "20.00 K");
            ensure!(plan.contains(part) || plan.contains(&grouped), "{part} is not in {plan}");
        }
        ensure!(plan.contains("bytes_read=") && plan.contains("bytes_total="), "{plan}");
        cluster.stop().await
    });
}

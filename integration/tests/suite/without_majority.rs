//! A scheduler without a majority says what it knew last, and that nobody leads.
use std::time::Duration;

use ancho_common::error::ErrorKind;
use ancho_integration::{
    cluster::processes::{ProcessBuilder, binary},
    run, turns,
};
use anyhow::{Context, ensure};

#[test]
fn the_cluster_is_shown_as_it_was_known() {
    run(async {
        let _turn = turns::shared().await?;
        let mut cluster =
            ProcessBuilder::default().schedulers(3).executors(1).partition_wait(Duration::from_secs(8)).start().await?;
        let client = cluster.client(0)?;
        client.update("CREATE TABLE known (k INT)").await?;
        client.query("SELECT count(*) FROM known").await?;
        cluster.kill_scheduler(1)?;
        cluster.kill_scheduler(2)?;

        let status = client.status_as_known().await?;
        ensure!(status["problem"].as_str().is_some_and(|p| p.contains("knew last")), "{status}");
        ensure!(status["tables"][0]["name"].as_str().is_some_and(|name| name.ends_with("known")), "{status}");
        ensure!(status["executors"].as_array().is_some_and(|all| all.len() == 1), "{status}");
        let schedulers = status["schedulers"].as_array().cloned().unwrap_or_default();
        let reached = schedulers.iter().filter(|s| s["reachable"] == true).count();
        ensure!(reached == 1 && schedulers.iter().all(|s| s["role"] != "leader"), "{status}");
        ensure!(client.status().await.is_err_and(|e| e.kind() == ErrorKind::Unavailable), "without a majority");

        let refused = client.query("SELECT count(*) FROM known").await.err().context("answered without a majority")?;
        ensure!(refused.kind() == ErrorKind::Unavailable, "{refused}");
        let told = refused.to_string();
        for internal in ["voters", "Some(", "LogId", "quorum"] {
            ensure!(!told.contains(internal), "{internal}: {told}");
        }
        let refused = client.update("CREATE TABLE more (k INT)").await.err().context("done without a majority")?;
        let told = refused.to_string();
        for internal in ["voters", "Some(", "LogId", "quorum"] {
            ensure!(!told.contains(internal), "{internal}: {told}");
        }

        let shown = tokio::process::Command::new(binary()?)
            .args(["cluster", "status", "--url", &cluster.flight_url(0)])
            .output()
            .await?;
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        ensure!(shown.status.success() && text.contains("NO LEADER: ") && text.contains("known"), "{text}");

        cluster.start_scheduler(1)?;
        cluster.start_scheduler(2)?;
        cluster.wait_ready().await?;
        client.status().await?;
        cluster.stop().await
    });
}

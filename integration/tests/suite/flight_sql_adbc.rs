//! The ADBC Flight SQL driver as a client: Python scripts against a cluster in this process.
use std::{path::Path, time::Duration};

use ancho_benchmarks::python::PythonEnv;
use ancho_integration::{cluster::in_process::ClusterBuilder, run, turns};
use anyhow::{Context, ensure};
use tokio::{process::Command, time::timeout};

/// Longest time of one script.
const SCRIPT_LIMIT: Duration = Duration::from_secs(240);

/// Runs `python/<script>` with the URLs of all schedulers.
fn script(name: &'static str, schedulers: usize) {
    run(async move {
        let _turn = turns::shared().await?;
        let python = tokio::task::spawn_blocking(|| PythonEnv::ensure(None)).await??.python;
        let cluster = ClusterBuilder::default().schedulers(schedulers).executors(2).start().await?;
        let urls: Vec<String> = cluster.clients()?.iter().map(|c| c.url().to_owned()).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("python").join(name);
        let child =
            Command::new(python).arg(&path).args(&urls).env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true).output();
        let output = timeout(SCRIPT_LIMIT, child).await.with_context(|| format!("{name} takes too long"))??;
        let text = [output.stdout, output.stderr].map(|b| String::from_utf8_lossy(&b).into_owned()).concat();
        println!("{text}");
        ensure!(output.status.success(), "{name}: {}", output.status);
        cluster.stop().await
    });
}

#[test]
fn statements() {
    script("adbc_statements.py", 1);
}

#[test]
fn transactions() {
    script("adbc_transactions.py", 1);
}

#[test]
fn metadata() {
    script("adbc_metadata.py", 1);
}

#[test]
fn several_connections() {
    script("adbc_connections.py", 3);
}

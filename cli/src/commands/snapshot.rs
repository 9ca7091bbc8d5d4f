//! `ancho snapshot`: snapshots of tables in an object store.
use std::{
    io::{self, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use clap::Subcommand;
use serde::Deserialize;
use serde_json::json;

use crate::{
    connection::{Connection, Target},
    output::{align_right, grouped, size, table, time},
};

/// What to do with snapshots.
#[derive(Debug, Subcommand)]
pub enum SnapshotCommand {
    /// Show what was published of a table
    List(TableArgs),
    /// Publish what a table holds now; nothing is done if the newest snapshot is that
    Create(TableArgs),
}

/// Which.
#[derive(Debug, clap::Args)]
pub struct TableArgs {
    /// The table, as name or schema.name
    #[arg(value_name = "TABLE")]
    table: String,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Deserialize)]
struct Listed {
    version: u64,
    snapshots: Vec<Snapshot>,
}

#[derive(Debug, Deserialize)]
struct Created {
    new: bool,
    snapshot: Snapshot,
}

#[derive(Debug, Deserialize)]
struct Snapshot {
    snapshot_id: String,
    version: u64,
    rows: u64,
    bytes: u64,
    uploaded_bytes: u64,
    published_ms: u64,
    location: String,
}

/// Does it.
///
/// # Errors
/// The table does not exist, or its snapshot cannot be made.
pub async fn run(command: SnapshotCommand) -> anyhow::Result<()> {
    let (args, create) = match command {
        SnapshotCommand::List(args) => (args, false),
        SnapshotCommand::Create(args) => (args, true),
    };
    let mut connection = Connection::open(&args.target.url).await?;
    let body = json!({ "table": args.table, "create": create }).to_string();
    let reply = connection.act("ancho.snapshots", body).await?;
    let mut out = io::stdout().lock();
    if create {
        let Created { new, snapshot } = serde_json::from_slice(&reply).context("read the cluster's answer")?;
        let did = if new { "published" } else { "unchanged since" };
        writeln!(
            out,
            "{did} snapshot {}: {} rows, {}, of which {} were uploaded, in {}",
            snapshot.snapshot_id,
            grouped(snapshot.rows),
            size(snapshot.bytes),
            size(snapshot.uploaded_bytes),
            snapshot.location
        )?;
        return Ok(());
    }
    let listed: Listed = serde_json::from_slice(&reply).context("read the cluster's answer")?;
    print(&args.table, &listed, &mut out)
}

fn print(name: &str, listed: &Listed, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(newest) = listed.snapshots.last() else {
        writeln!(out, "table {name} has no snapshots")?;
        return Ok(());
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut rows = table(&["snapshot", "age", "version", "rows", "size", "uploaded"]);
    for s in &listed.snapshots {
        let age = now.saturating_sub(Duration::from_millis(s.published_ms));
        let age = time(Duration::from_secs(age.as_secs()));
        let (id, version) = (s.snapshot_id.clone(), grouped(s.version));
        rows.add_row([id, age, version, grouped(s.rows), size(s.bytes), size(s.uploaded_bytes)]);
    }
    align_right(&mut rows, &[1, 2, 3, 4, 5]);
    writeln!(out, "{rows}")?;
    match listed.version.saturating_sub(newest.version) {
        0 => writeln!(out, "the newest holds what table {name} holds now; in {}", newest.location)?,
        missing => writeln!(out, "{missing} commits of table {name} are newer; in {}", newest.location)?,
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_is_missing() {
        let snapshot = |version| Snapshot {
            snapshot_id: format!("id-{version}"),
            version,
            rows: 1_234_567,
            bytes: 3 << 20,
            uploaded_bytes: 1 << 20,
            published_ms: 0,
            location: "s3://lake/x".to_owned(),
        };
        let shown = |version, snapshots| {
            let mut out = Vec::new();
            print("t", &Listed { version, snapshots }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(0, vec![]), "table t has no snapshots\n");
        let text = shown(5, vec![snapshot(2), snapshot(5)]);
        assert!(text.contains("id-2") && text.contains("the newest holds what table t holds now"), "{text}");
        assert!(shown(7, vec![snapshot(5)]).contains("2 commits of table t are newer; in s3://lake/x"));
    }
}

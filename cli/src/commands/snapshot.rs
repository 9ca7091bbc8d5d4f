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
    /// Give those who read what is published this snapshot, until it is unpinned
    Pin(SnapshotArgs),
    /// Give them the newest snapshot again
    Unpin(TableArgs),
    /// Put the rows of a snapshot in the place of those that the table has now
    Restore(SnapshotArgs),
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

/// Which one.
#[derive(Debug, clap::Args)]
pub struct SnapshotArgs {
    /// The table, as name or schema.name
    #[arg(value_name = "TABLE")]
    table: String,
    /// The snapshot, as `ancho snapshot list` shows it
    #[arg(value_name = "ID")]
    snapshot: String,
    #[command(flatten)]
    target: Target,
}

#[derive(Debug, Default, Deserialize)]
struct Listed {
    version: u64,
    snapshots: Vec<Snapshot>,
    pinned_snapshot_id: Option<String>,
    store_error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Chosen {
    current: Option<String>,
    pinned_snapshot_id: Option<String>,
    rows: Option<u64>,
    published_ms: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Restored {
    rows: u64,
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
    uploaded_bytes: Option<u64>,
    published_ms: u64,
    location: Option<String>,
    #[serde(default)]
    current: bool,
    /// Of a table of this name that was dropped.
    #[serde(default)]
    former: bool,
}

/// Does it.
///
/// # Errors
/// The table or the snapshot does not exist, or what is asked for cannot be done.
pub async fn run(command: SnapshotCommand) -> anyhow::Result<()> {
    let (table, target, wanted) = match &command {
        SnapshotCommand::List(args) => (&args.table, &args.target, json!({})),
        SnapshotCommand::Create(args) => (&args.table, &args.target, json!({ "create": true })),
        SnapshotCommand::Pin(args) => (&args.table, &args.target, json!({ "pin": args.snapshot })),
        SnapshotCommand::Unpin(args) => (&args.table, &args.target, json!({ "unpin": true })),
        SnapshotCommand::Restore(args) => (&args.table, &args.target, json!({ "restore": args.snapshot })),
    };
    let mut wanted = wanted;
    wanted["table"] = json!(table);
    let mut connection = Connection::open(&target.url).await?;
    let reply = connection.act("ancho.snapshots", wanted.to_string()).await?;
    let mut out = io::stdout().lock();
    show(&command, table, &reply, &mut out)
}

fn show(command: &SnapshotCommand, table: &str, reply: &[u8], out: &mut dyn Write) -> anyhow::Result<()> {
    let unreadable = "read the cluster's answer";
    match command {
        SnapshotCommand::List(_) => print(table, &serde_json::from_slice(reply).context(unreadable)?, out)?,
        SnapshotCommand::Create(_) => {
            let Created { new, snapshot } = serde_json::from_slice(reply).context(unreadable)?;
            let did = if new { "published" } else { "unchanged since" };
            writeln!(
                out,
                "{did} snapshot {}: {} rows, {}, of which {} were uploaded, in {}",
                snapshot.snapshot_id,
                grouped(snapshot.rows),
                size(snapshot.bytes),
                size(snapshot.uploaded_bytes.unwrap_or(0)),
                snapshot.location.unwrap_or_default()
            )?;
        }
        SnapshotCommand::Pin(_) | SnapshotCommand::Unpin(_) => {
            writeln!(out, "{}", chosen(table, &serde_json::from_slice(reply).context(unreadable)?))?;
        }
        SnapshotCommand::Restore(args) => {
            let Restored { rows } = serde_json::from_slice(reply).context(unreadable)?;
            writeln!(out, "table {table} has the {} rows of snapshot {}", grouped(rows), args.snapshot)?;
        }
    }
    Ok(())
}

/// What those are given now who read what is published.
fn chosen(table: &str, chosen: &Chosen) -> String {
    let Some(current) = &chosen.current else { return format!("table {table} has no snapshots; none is pinned") };
    let held =
        format!("{} rows, published {} ago", grouped(chosen.rows.unwrap_or(0)), age(chosen.published_ms.unwrap_or(0)));
    match &chosen.pinned_snapshot_id {
        Some(_) => format!("readers of table {table} are given snapshot {current} ({held}) until it is unpinned"),
        None => format!("readers of table {table} are given the newest snapshot, {current} ({held}); none is pinned"),
    }
}

fn age(published_ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = now.saturating_sub(Duration::from_millis(published_ms));
    time(Duration::from_secs(age.as_secs()))
}

fn print(name: &str, listed: &Listed, out: &mut dyn Write) -> anyhow::Result<()> {
    if listed.snapshots.is_empty() {
        writeln!(out, "table {name} has no snapshots")?;
        return Ok(());
    }
    let mut rows = table(&["snapshot", "age", "version", "rows", "size", "uploaded", "readers"]);
    for s in &listed.snapshots {
        let uploaded = s.uploaded_bytes.map_or_else(|| "?".to_owned(), size);
        let readers = match (s.current, listed.pinned_snapshot_id.as_ref() == Some(&s.snapshot_id)) {
            (_, true) => "pinned",
            (true, false) => "current",
            _ => "",
        };
        rows.add_row([
            s.snapshot_id.clone(),
            age(s.published_ms),
            grouped(s.version),
            grouped(s.rows),
            size(s.bytes),
            uploaded,
            readers.to_owned(),
        ]);
    }
    align_right(&mut rows, &[1, 2, 3, 4, 5]);
    writeln!(out, "{rows}")?;
    let newest = listed.snapshots.iter().rfind(|s| !s.former);
    let place = newest.and_then(|s| s.location.as_ref()).map_or(String::new(), |place| format!("; in {place}"));
    match newest.map(|s| listed.version.saturating_sub(s.version)) {
        None => writeln!(out, "all are of a table {name} that was dropped")?,
        Some(0) => writeln!(out, "the newest holds what table {name} holds now{place}")?,
        Some(missing) => writeln!(out, "{missing} commits of table {name} are newer{place}")?,
    }
    if listed.pinned_snapshot_id.is_some() {
        writeln!(out, "readers are given the pinned one until `ancho snapshot unpin {name}`")?;
    }
    if let Some(error) = &listed.store_error {
        writeln!(out, "this is what the schedulers remember, since the store does not answer: {error}")?;
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
            uploaded_bytes: Some(1 << 20),
            published_ms: 0,
            location: Some("s3://lake/x".to_owned()),
            current: version == 5,
            former: version == 1,
        };
        let shown = |version, snapshots| {
            let mut out = Vec::new();
            print("t", &Listed { version, snapshots, ..Listed::default() }, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(0, vec![]), "table t has no snapshots\n");
        let text = shown(5, vec![snapshot(2), snapshot(5)]);
        assert!(text.contains("id-2") && text.contains("the newest holds what table t holds now"), "{text}");
        assert!(shown(7, vec![snapshot(5)]).contains("2 commits of table t are newer; in s3://lake/x"));
    }
    #[test]
    fn a_pin_is_shown() {
        let pinned = "018f0000-0000-7000-8000-000000000001";
        let mut reply = json!({ "current": pinned, "pinned_snapshot_id": pinned, "rows": 1234, "published_ms": 0 });
        let shown = |reply: &serde_json::Value| chosen("t", &serde_json::from_value(reply.clone()).unwrap());
        assert!(
            shown(&reply).contains("(1,234 rows") && shown(&reply).contains("until it is unpinned"),
            "{}",
            shown(&reply)
        );
        reply["pinned_snapshot_id"] = json!(null);
        assert!(shown(&reply).contains("the newest snapshot, 018f"), "{}", shown(&reply));
        let mut out = Vec::new();
        let listed = json!({ "version": 7, "pinned_snapshot_id": pinned, "store_error": "it is away", "snapshots": [
            { "snapshot_id": pinned, "version": 3, "rows": 1, "bytes": 1, "uploaded_bytes": null, "published_ms": 0,
              "location": null, "current": true, "former": true },
        ]});
        print("t", &serde_json::from_value(listed).unwrap(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for part in ["pinned", "all are of a table t that was dropped", "ancho snapshot unpin t", "it is away"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

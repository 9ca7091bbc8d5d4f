//! `ancho snapshot`: the snapshots of a table, and a new one on demand.
use ancho_common::error::{Error, Result};
use datafusion::common::TableReference;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ddl, engine::QueryEngine};
use crate::state::PublishedSnapshot;

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    table: String,
    #[serde(default)]
    create: bool,
}

/// Lists the snapshots of a table, newest last, or makes one.
///
/// # Errors
/// `NotFound` for a table that does not exist; as [`Publisher::snapshot`](crate::snapshots::Publisher::snapshot).
pub async fn snapshots(engine: &QueryEngine, body: &[u8]) -> Result<Value> {
    let wanted: Wanted = serde_json::from_slice(body)
        .map_err(|e| Error::invalid(format!("what to do with snapshots cannot be read: {e}")))?;
    let name = ddl::table_name(&TableReference::from(wanted.table.as_str()))?;
    if wanted.create {
        let made = engine.publisher().snapshot(&name).await?;
        return Ok(json!({ "table": name.to_string(), "new": made.new, "snapshot": described(&made.snapshot) }));
    }
    let state = engine.node().linearizable().await?;
    let table = super::engine::existing(&state, &name)?;
    let published = state.snapshots.published.get(&table.id);
    let listed: Vec<Value> = published.into_iter().flatten().map(|snapshot| described(snapshot)).collect();
    let current = state.snapshots.newest(table.id).map(|newest| newest.id.to_string());
    Ok(json!({ "table": name.to_string(), "version": table.version, "current": current, "snapshots": listed }))
}

fn described(snapshot: &PublishedSnapshot) -> Value {
    json!({
        "snapshot_id": snapshot.id.to_string(), "version": snapshot.table_version, "rows": snapshot.rows,
        "bytes": snapshot.bytes, "uploaded_bytes": snapshot.uploaded_bytes, "epoch": snapshot.epoch,
        "published_ms": snapshot.published_ms, "location": format!("{}/{}", snapshot.location, snapshot.folder),
    })
}

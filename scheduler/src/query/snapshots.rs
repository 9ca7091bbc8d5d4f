//! `ancho snapshot` and its HTTP form: the snapshots of a table, a new one, which one readers are given, and the way back to one.
use std::sync::Arc;

use ancho_common::{
    error::{Error, Result},
    snapshot::{Head, HeadEntry},
};
use datafusion::common::TableReference;
use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    ddl,
    engine::{QueryEngine, existing},
    snapshot_sql::{restore, snapshot_id},
};
use crate::{
    frontend::caller::Caller,
    state::{ClusterState, PublishedSnapshot, Table},
};

/// What is asked for: the list, or one of the others.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    table: String,
    #[serde(default)]
    create: bool,
    /// The id of a snapshot.
    pin: Option<String>,
    #[serde(default)]
    unpin: bool,
    /// The id of a snapshot.
    restore: Option<String>,
}

/// Lists the snapshots of a table, newest last, makes one, pins or unpins one, or puts the rows of one into the table.
///
/// # Errors
/// `NotFound` for a table or snapshot that does not exist; as the methods of [`Publisher`](crate::snapshots::Publisher).
pub async fn snapshots(engine: &QueryEngine, body: &[u8]) -> Result<Value> {
    let wanted: Wanted = serde_json::from_slice(body)
        .map_err(|e| Error::invalid(format!("what to do with snapshots cannot be read: {e}")))?;
    let name = ddl::table_name(&TableReference::from(wanted.table.as_str()))?;
    let publisher = engine.publisher();
    let answer = match (wanted.create, &wanted.pin, wanted.unpin, &wanted.restore) {
        (false, None, false, None) => return list(engine, &name).await,
        (true, None, false, None) => {
            let made = publisher.snapshot(&name).await?;
            json!({ "new": made.new, "snapshot": described(&made.snapshot) })
        }
        (false, Some(id), false, None) => chosen(&publisher.pin(&name, snapshot_id(id)?).await?),
        (false, None, true, None) => chosen(&publisher.unpin(&name).await?),
        (false, None, false, Some(id)) => {
            let rows = restore(engine, &name, snapshot_id(id)?, &Caller::default()).await?;
            json!({ "snapshot_id": id, "rows": rows })
        }
        _ => return Err(Error::invalid("of `create`, `pin`, `unpin` and `restore` one is possible at a time")),
    };
    let Value::Object(mut answer) = answer else { return Err(Error::internal("an answer that is no object")) };
    answer.insert("table".to_owned(), json!(name.to_string()));
    Ok(Value::Object(answer))
}

/// What the head lists; what the schedulers remember where the store does not answer.
async fn list(engine: &QueryEngine, name: &crate::state::TableName) -> Result<Value> {
    let state = engine.node().linearizable().await?;
    let table = existing(&state, name)?;
    let known: Vec<&Arc<PublishedSnapshot>> = state.snapshots.published.get(&table.id).into_iter().flatten().collect();
    let mut answer = json!({ "table": name.to_string(), "version": table.version, "current": null });
    if let Some(served) = table.dataset.as_ref().and_then(|dataset| dataset.served.as_ref()) {
        answer["served_snapshot_id"] = json!(served.id);
    }
    // Where nothing was published and no place is known there is nothing to be read.
    let head = match engine.publisher().listed(&state, &table).await {
        Err(error) if error.kind == ancho_common::error::ErrorKind::Invalid && known.is_empty() => Ok(None),
        head => head,
    };
    match head {
        Ok(head) => {
            let entries = head.iter().flat_map(|head| &head.snapshots);
            answer["snapshots"] = entries.map(|entry| listed(&state, &table, head.as_ref(), entry)).collect();
            if let Some(head) = &head {
                answer["current"] = json!(head.current);
                if let Some(pinned) = head.pinned {
                    answer["pinned_snapshot_id"] = json!(pinned);
                }
            }
        }
        Err(error) => {
            answer["snapshots"] = known.into_iter().map(|snapshot| described(snapshot)).collect();
            answer["store_error"] = json!(error.message);
        }
    }
    Ok(answer)
}

fn listed(state: &ClusterState, table: &Table, head: Option<&Head>, entry: &HeadEntry) -> Value {
    let published = state.snapshots.published.get(&table.id);
    let known = published.into_iter().flatten().find(|snapshot| snapshot.id == entry.id);
    let is = |chosen: Option<Uuid>| chosen == Some(entry.id);
    json!({
        "snapshot_id": entry.id, "version": entry.table_version, "rows": entry.rows, "bytes": entry.bytes,
        "uploaded_bytes": known.map(|known| known.uploaded_bytes), "epoch": entry.epoch,
        "published_ms": entry.published_ms,
        "location": known.map(|known| format!("{}/{}", known.location, known.folder)),
        "current": is(head.and_then(|head| head.current)), "pinned": is(head.and_then(|head| head.pinned)),
        // Of a table of this name that was dropped.
        "former": entry.table_id != table.id.0,
    })
}

/// What readers are given now.
fn chosen(head: &Head) -> Value {
    let current = head.current.and_then(|id| head.entry(id));
    json!({
        "current": head.current, "pinned_snapshot_id": head.pinned, "rows": current.map(|entry| entry.rows),
        "version": current.map(|entry| entry.table_version), "published_ms": current.map(|entry| entry.published_ms),
    })
}

fn described(snapshot: &PublishedSnapshot) -> Value {
    json!({
        "snapshot_id": snapshot.id.to_string(), "version": snapshot.table_version, "rows": snapshot.rows,
        "bytes": snapshot.bytes, "uploaded_bytes": snapshot.uploaded_bytes, "epoch": snapshot.epoch,
        "published_ms": snapshot.published_ms, "location": format!("{}/{}", snapshot.location, snapshot.folder),
    })
}

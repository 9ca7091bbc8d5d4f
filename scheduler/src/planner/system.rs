//! `system` tables: the replicated state as rows.
use std::{collections::BTreeSet, sync::Arc};

use ancho_common::partition::Partitioner;
use arrow::{
    array::{ArrayRef, RecordBatch, StringArray, TimestampMillisecondArray, UInt64Array},
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{
    datasource::{MemTable, TableProvider},
    error::Result,
};

use crate::{
    sessions,
    state::{ClusterState, Executor, Liveness, Partition, PublishedSnapshot},
};

/// Names of the tables.
pub const NAMES: [&str; 8] =
    ["executors", "leases", "moves", "partitions", "snapshots", "tables", "versions", "writes"];

/// A `system` table as of a revision of the state.
///
/// # Errors
/// Never with well-formed states; the library's signature allows it.
pub fn table(name: &str, state: &ClusterState) -> Result<Option<Arc<dyn TableProvider>>> {
    let Some(batch) = rows(name, state)? else { return Ok(None) };
    Ok(Some(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?)))
}

/// Columns of a `system` table; none for an unknown name.
///
/// # Errors
/// As [`table`].
pub fn schema(name: &str, state: &ClusterState) -> Result<SchemaRef> {
    Ok(rows(name, state)?.map_or_else(|| Arc::new(Schema::empty()), |b| b.schema()))
}

fn rows(name: &str, state: &ClusterState) -> Result<Option<RecordBatch>> {
    Ok(Some(match name {
        "executors" => executors(state)?,
        "leases" => leases(state)?,
        "moves" => moves(state)?,
        "partitions" => partitions(state)?,
        "snapshots" => snapshots(state)?,
        "tables" => tables(state)?,
        "versions" => versions(state)?,
        "writes" => writes(state)?,
        _ => return Ok(None),
    }))
}

fn text(values: Vec<String>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns.iter().map(|(n, a)| Field::new(*n, a.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, a)| a).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?)
}

fn executors(state: &ClusterState) -> Result<RecordBatch> {
    let all: Vec<_> = state.executors.values().collect();
    let held = |id: &ancho_common::ids::ExecutorId, f: &dyn Fn(&crate::state::Partition) -> u64| -> u64 {
        let partitions = state.tables.values().flat_map(|t| t.partitions.values());
        partitions.filter(|p| p.owners.contains(id)).map(f).sum()
    };
    batch(vec![
        ("executor_id", text(all.iter().map(|e| e.id.0.clone()).collect())),
        ("url", text(all.iter().map(|e| e.url.clone()).collect())),
        ("state", text(all.iter().map(|e| standing(e).into()).collect())),
        ("version", text(all.iter().map(|e| e.version.clone()).collect())),
        ("partitions", Arc::new(UInt64Array::from_iter_values(all.iter().map(|e| held(&e.id, &|_| 1))))),
        ("loaded", Arc::new(UInt64Array::from_iter_values(all.iter().map(|e| e.loaded.len() as u64)))),
        ("rows", Arc::new(UInt64Array::from_iter_values(all.iter().map(|e| held(&e.id, &|p| p.rows))))),
        ("bytes", Arc::new(UInt64Array::from_iter_values(all.iter().map(|e| held(&e.id, &|p| p.bytes))))),
    ])
}

/// `up`, `down`, or `draining` for one that is up and being emptied.
#[must_use]
pub fn standing(executor: &Executor) -> &'static str {
    match (executor.liveness, executor.draining) {
        (Liveness::Up, true) => "draining",
        (liveness, _) => self::liveness(liveness),
    }
}

/// `up` or `down`.
#[must_use]
pub fn liveness(liveness: Liveness) -> &'static str {
    match liveness {
        Liveness::Up => "up",
        Liveness::Down => "down",
    }
}

fn partitions(state: &ClusterState) -> Result<RecordBatch> {
    let mut rows = Vec::new();
    for table in state.listed() {
        let partitioner = Partitioner::try_new(Arc::clone(&table.schema.0), &table.partition_spec)?;
        for p in table.partitions.values() {
            let owners: Vec<&str> = p.owners.iter().map(|o| o.0.as_str()).collect();
            let served = state.serving_owner(p).map_or("unassigned", |_| "served");
            rows.push((table.name.to_string(), p, partitioner.describe(&p.key), owners.join(","), served.to_owned()));
        }
    }
    let number = |f: &dyn Fn(&crate::state::Partition) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|r| f(r.1))))
    };
    batch(vec![
        ("table_name", text(rows.iter().map(|r| r.0.clone()).collect())),
        ("partition_id", number(&|p| p.id.0)),
        ("partition_key", text(rows.iter().map(|r| r.2.clone()).collect())),
        ("owners", text(rows.iter().map(|r| r.3.clone()).collect())),
        ("state", text(rows.iter().map(|r| r.4.clone()).collect())),
        ("epoch", number(&|p| p.epoch)),
        ("version", number(&|p| p.version)),
        ("rows", number(&|p| p.rows)),
        ("bytes", number(&|p| p.bytes)),
        // What keeps it from being served; NULL where it is.
        ("hindrance", Arc::new(rows.iter().map(|r| hindrance(state, r.1)).collect::<StringArray>())),
    ])
}

fn hindrance(state: &ClusterState, partition: &Partition) -> Option<String> {
    state.serving_owner(partition).is_none().then(|| sessions::hindrance(state, partition).1)
}

fn tables(state: &ClusterState) -> Result<RecordBatch> {
    let all: Vec<_> = state.listed().collect();
    let number = |f: &dyn Fn(&crate::state::Table) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|t| f(t))))
    };
    batch(vec![
        ("table_schema", text(all.iter().map(|t| t.name.schema.clone()).collect())),
        ("table_name", text(all.iter().map(|t| t.name.table.clone()).collect())),
        ("table_id", number(&|t| t.id.0)),
        ("partition_by", text(all.iter().map(|t| t.partition_spec.expressions.join(", ")).collect())),
        ("source", text(all.iter().map(|t| t.dataset.as_ref().map_or(String::new(), |d| d.from.clone())).collect())),
        ("partitions", number(&|t| t.partitions.len() as u64)),
        ("version", number(&|t| t.version)),
        ("rows", number(&|t| t.rows())),
        ("bytes", number(&|t| t.bytes())),
    ])
}

/// Partitions on their way from one executor to another.
fn moves(state: &ClusterState) -> Result<RecordBatch> {
    let all: Vec<_> = state
        .moves
        .iter()
        .filter_map(|(id, moving)| state.find_partition(*id).map(|(table, partition)| (table, partition, moving)))
        .collect();
    let number = |f: &dyn Fn(&crate::state::Partition) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|(_, partition, _)| f(partition))))
    };
    let since = all.iter().map(|(_, _, moving)| i64::try_from(moving.since_ms).unwrap_or(i64::MAX));
    batch(vec![
        ("table_name", text(all.iter().map(|(table, ..)| table.name.to_string()).collect())),
        ("partition_id", number(&|p| p.id.0)),
        ("from_executor", text(all.iter().map(|(.., moving)| moving.from.0.clone()).collect())),
        ("to_executor", text(all.iter().map(|(.., moving)| moving.to.0.clone()).collect())),
        ("phase", text(all.iter().map(|(.., moving)| moving.phase.as_str().into()).collect())),
        ("rows", number(&|p| p.rows)),
        ("bytes", number(&|p| p.bytes)),
        ("since", Arc::new(TimestampMillisecondArray::from_iter_values(since).with_timezone("UTC"))),
    ])
}

/// The latest versions of each table, and when they were made.
fn versions(state: &ClusterState) -> Result<RecordBatch> {
    let mut all = BTreeSet::new();
    for table in state.listed() {
        let commits = table.partitions.values().flat_map(|partition| &partition.commits);
        let noted = commits.filter(|commit| commit.table_version > 0);
        all.extend(noted.map(|commit| (table.name.to_string(), commit.table_version, commit.at_ms)));
    }
    let at = all.iter().map(|(_, _, at_ms)| i64::try_from(*at_ms).unwrap_or(i64::MAX));
    batch(vec![
        ("table_name", text(all.iter().map(|(name, _, _)| name.clone()).collect())),
        ("version", Arc::new(UInt64Array::from_iter_values(all.iter().map(|(_, version, _)| *version)))),
        ("committed_at", Arc::new(TimestampMillisecondArray::from_iter_values(at).with_timezone("UTC"))),
    ])
}

/// Who may publish snapshots of which table.
fn leases(state: &ClusterState) -> Result<RecordBatch> {
    let held: Vec<_> = state
        .listed()
        .filter_map(|table| {
            let lease = state.snapshots.leases.get(&table.id)?;
            Some((table, lease.holder.as_ref()?, lease))
        })
        .collect();
    batch(vec![
        ("table_name", text(held.iter().map(|(table, ..)| table.name.to_string()).collect())),
        ("holder", text(held.iter().map(|(_, holder, _)| (*holder).clone()).collect())),
        ("epoch", Arc::new(UInt64Array::from_iter_values(held.iter().map(|(.., lease)| lease.epoch)))),
        ("ends_at", moments(held.iter().map(|(.., lease)| lease.ends_ms))),
    ])
}

/// What was published of each table, oldest first.
fn snapshots(state: &ClusterState) -> Result<RecordBatch> {
    let all: Vec<_> = state
        .listed()
        .flat_map(|table| state.snapshots.published.get(&table.id).into_iter().flatten().map(move |s| (table, s)))
        .collect();
    let number = |f: &dyn Fn(&PublishedSnapshot) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|(_, snapshot)| f(snapshot))))
    };
    batch(vec![
        ("table_name", text(all.iter().map(|(table, _)| table.name.to_string()).collect())),
        ("snapshot_id", text(all.iter().map(|(_, s)| s.id.to_string()).collect())),
        ("version", number(&|s| s.table_version)),
        ("rows", number(&|s| s.rows)),
        ("bytes", number(&|s| s.bytes)),
        ("uploaded_bytes", number(&|s| s.uploaded_bytes)),
        ("location", text(all.iter().map(|(_, s)| format!("{}/{}", s.location, s.folder)).collect())),
        ("epoch", number(&|s| s.epoch)),
        ("published_at", moments(all.iter().map(|(_, s)| s.published_ms))),
    ])
}

fn moments(at_ms: impl Iterator<Item = u64>) -> ArrayRef {
    let values = at_ms.map(|at| i64::try_from(at).unwrap_or(i64::MAX));
    Arc::new(TimestampMillisecondArray::from_iter_values(values).with_timezone("UTC"))
}

/// The latest requests that were applied, also those that found nothing to change if the client had named them.
fn writes(state: &ClusterState) -> Result<RecordBatch> {
    let all: Vec<_> = state.written.iter().collect();
    let number = |f: &dyn Fn(&crate::state::WrittenRecord) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|(_, record)| f(record))))
    };
    let at = all.iter().map(|(_, record)| i64::try_from(record.at_ms).unwrap_or(i64::MAX));
    batch(vec![
        ("request_id", text(all.iter().map(|(request, _)| (*request).clone()).collect())),
        ("table_name", text(all.iter().map(|(_, record)| record.table_name.clone()).collect())),
        ("write_id", Arc::new(all.iter().map(|(_, r)| r.write_id.map(|id| id.to_string())).collect::<StringArray>())),
        ("rows", number(&|record| record.rows)),
        ("table_version", number(&|record| record.version)),
        ("committed_at", Arc::new(TimestampMillisecondArray::from_iter_values(at).with_timezone("UTC"))),
    ])
}

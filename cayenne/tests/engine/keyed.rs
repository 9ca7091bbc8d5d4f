//! What tests of tables with a primary key share.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType};
use cayenne::{
    KeyCounts, KeyRule, Partition, PartitionOptions, PinnedVersion, ScanRequest, TableSettings, WriteMode,
    WriteOptions, WriteSummary, scan,
};
use uuid::Uuid;

use crate::harness::*;

/// A row; keys are `id`, or `id` and `region`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Row {
    pub id: i64,
    pub region: &'static str,
    pub value: i64,
    pub at: Option<i64>,
}

pub fn row(id: i64, value: i64) -> Row {
    Row { id, region: "EU", value, at: None }
}

pub fn keyed_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, true),
        Field::new("region", DataType::Utf8View, true),
        Field::new("value", DataType::Int64, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
    ]))
}

pub fn rows(rows: &[Row]) -> RecordBatch {
    RecordBatch::try_new(
        keyed_schema(),
        vec![
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.id))),
            Arc::new(StringViewArray::from_iter_values(rows.iter().map(|row| row.region))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.value))),
            Arc::new(TimestampMillisecondArray::from_iter(rows.iter().map(|row| row.at))),
        ],
    )
    .unwrap()
}

/// Key columns of rows.
pub fn keys(list: &[(i64, &'static str)]) -> RecordBatch {
    let list: Vec<Row> = list.iter().map(|(id, region)| Row { id: *id, region, value: 0, at: None }).collect();
    rows(&list).project(&[0, 1]).unwrap()
}

pub fn by_id() -> TableSettings {
    TableSettings { primary_key: vec!["id".to_owned()], ..TableSettings::default() }
}

pub fn by_id_and_region() -> TableSettings {
    TableSettings { primary_key: vec!["id".to_owned(), "region".to_owned()], ..TableSettings::default() }
}

pub fn by_time(settings: TableSettings) -> TableSettings {
    TableSettings { time_column: Some("at".to_owned()), ..settings }
}

pub fn create_keyed(dir: &Path, settings: TableSettings, options: PartitionOptions) -> Partition {
    Partition::create_table(dir, identity(), keyed_schema(), settings, options).unwrap()
}

/// Background work of a dropped partition may hold the lock for a moment.
pub async fn reopen(dir: &Path, options: PartitionOptions) -> Partition {
    for _ in 0..500 {
        match Partition::open(dir, options.clone()) {
            Err(cayenne::Error::InUse { .. }) => tokio::time::sleep(std::time::Duration::from_millis(10)).await,
            other => return other.unwrap(),
        }
    }
    panic!("the partition is never released");
}

/// Stages batches under a rule.
pub async fn stage_rows(
    partition: &Partition,
    mode: WriteMode,
    rule: Option<KeyRule>,
    batches: &[RecordBatch],
) -> cayenne::Result<(Uuid, WriteSummary)> {
    let write_id = Uuid::new_v4();
    let options = WriteOptions { key_rule: rule, ..WriteOptions::default() };
    let mut writer = partition.begin_write_with(write_id, mode, options).await?;
    for batch in batches {
        writer.write(batch.clone()).await?;
    }
    Ok((write_id, writer.finish().await?))
}

pub async fn publish_next(partition: &Partition, write_id: Uuid) {
    partition.publish(write_id, partition.version() + 1).await.unwrap();
}

/// Stages and publishes; gives what happened by key.
pub async fn upsert(partition: &Partition, batches: &[RecordBatch]) -> KeyCounts {
    let (write_id, summary) = stage_rows(partition, WriteMode::Append, None, batches).await.unwrap();
    publish_next(partition, write_id).await;
    summary.keys.unwrap()
}

/// Plain insert: every key must be new.
pub async fn insert(partition: &Partition, batches: &[RecordBatch]) -> cayenne::Result<KeyCounts> {
    let (write_id, summary) = stage_rows(partition, WriteMode::Append, Some(KeyRule::Unique), batches).await?;
    publish_next(partition, write_id).await;
    Ok(summary.keys.unwrap())
}

pub async fn delete_keys(partition: &Partition, list: &[(i64, &'static str)]) -> KeyCounts {
    let write_id = Uuid::new_v4();
    let mut writer = partition.begin_write(write_id, WriteMode::Append).await.unwrap();
    writer.delete_keys(&keys(list)).unwrap();
    let summary = writer.finish().await.unwrap();
    publish_next(partition, write_id).await;
    summary.keys.unwrap()
}

/// Stages an update: the rows that `wanted` accepts become what `change` makes of them.
pub async fn stage_key_update(
    partition: &Partition,
    wanted: impl Fn(&Row) -> bool,
    change: impl Fn(Row) -> Row,
) -> cayenne::Result<Uuid> {
    stage_key_update_at(partition, &partition.pin(None)?, wanted, change).await
}

/// As [`stage_key_update`], made from the rows of a version.
pub async fn stage_key_update_at(
    partition: &Partition,
    pin: &PinnedVersion,
    wanted: impl Fn(&Row) -> bool,
    change: impl Fn(Row) -> Row,
) -> cayenne::Result<Uuid> {
    let write_id = Uuid::new_v4();
    let options =
        WriteOptions { base_version: Some(pin.version()), key_rule: Some(KeyRule::Unique), ..WriteOptions::default() };
    let mut writer = partition.begin_write_with(write_id, WriteMode::Append, options).await?;
    let request = ScanRequest { row_ids: true, ..ScanRequest::default() };
    for batch in run(scan(std::slice::from_ref(pin), &request)?).await {
        for (index, old) in decode(std::slice::from_ref(&batch)).into_iter().enumerate() {
            if wanted(&old) {
                writer.delete_batch(&batch.slice(index, 1))?;
                writer.write(rows(&[change(old)])).await?;
            }
        }
    }
    writer.finish().await?;
    Ok(write_id)
}

pub fn decode(batches: &[RecordBatch]) -> Vec<Row> {
    let mut list = Vec::new();
    for batch in batches {
        let ids = batch.column(0).as_primitive::<Int64Type>();
        let regions = batch.column(1).as_string_view();
        let values = batch.column(2).as_primitive::<Int64Type>();
        let times = batch.column(3).as_primitive::<TimestampMillisecondType>();
        for index in 0..batch.num_rows() {
            list.push(Row {
                id: ids.value(index),
                region: region(regions.value(index)),
                value: values.value(index),
                at: times.is_valid(index).then(|| times.value(index)),
            });
        }
    }
    list
}

pub const REGIONS: [&str; 3] = ["EU", "US", "a rather long name of a region"];

fn region(text: &str) -> &'static str {
    REGIONS.into_iter().find(|region| *region == text).unwrap()
}

pub async fn rows_of(pin: &PinnedVersion) -> Vec<Row> {
    let plan = scan(std::slice::from_ref(pin), &ScanRequest { streams: 2, ..ScanRequest::default() }).unwrap();
    let mut list = decode(&run(plan).await);
    list.sort_unstable();
    list
}

pub async fn current(partition: &Partition) -> Vec<Row> {
    rows_of(&partition.pin(None).unwrap()).await
}

/// `(id, value)` of all rows.
pub async fn values(partition: &Partition) -> Vec<(i64, i64)> {
    current(partition).await.into_iter().map(|row| (row.id, row.value)).collect()
}

pub async fn found(partition: &Partition, list: &[(i64, &'static str)]) -> Vec<Row> {
    let plan = partition.lookup(&keys(list), &ScanRequest::default()).await.unwrap();
    let mut list = decode(&run(plan).await);
    list.sort_unstable();
    list
}

/// What a table holds, by key.
pub type Model = BTreeMap<(i64, &'static str), Row>;

pub fn counts(inserted: u64, replaced: u64, superseded: u64, deleted: u64) -> KeyCounts {
    KeyCounts { inserted, replaced, superseded, deleted }
}

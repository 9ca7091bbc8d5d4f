//! What the tests share: partitions in temporary directories and tables to compare with.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cayenne::{CayenneTable, Partition, PartitionIdentity, PartitionOptions, ScanRequest, WriteMode, scan};
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use uuid::Uuid;

pub fn identity() -> PartitionIdentity {
    PartitionIdentity { table: "orders".to_owned(), partition: "bucket(4, k)=2".to_owned(), partition_id: 17 }
}

pub fn small_files() -> PartitionOptions {
    PartitionOptions { target_file_bytes: 4 << 10, ..PartitionOptions::default() }
}

pub fn numbers_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("name", DataType::Utf8View, true)]))
}

/// Rows `from..to`; every seventh name is NULL.
pub fn numbers(from: i64, to: i64) -> RecordBatch {
    let ids = Int64Array::from_iter_values(from..to);
    let names: StringViewArray = (from..to).map(|id| (id % 7 != 0).then(|| format!("name of number {id}"))).collect();
    RecordBatch::try_new(numbers_schema(), vec![Arc::new(ids), Arc::new(names)]).unwrap()
}

pub fn create(dir: &Path, schema: SchemaRef) -> Partition {
    Partition::create(dir, identity(), schema, PartitionOptions::default()).unwrap()
}

pub async fn stage(partition: &Partition, mode: WriteMode, batches: &[RecordBatch]) -> cayenne::Result<Uuid> {
    let write_id = Uuid::new_v4();
    let mut writer = partition.begin_write(write_id, mode).await?;
    for batch in batches {
        writer.write(batch.clone()).await?;
    }
    writer.finish().await?;
    Ok(write_id)
}

pub async fn put(partition: &Partition, mode: WriteMode, batches: &[RecordBatch]) -> u64 {
    let write_id = stage(partition, mode, batches).await.unwrap();
    let version = partition.version() + 1;
    partition.publish(write_id, version).await.unwrap();
    version
}

pub async fn run(plan: Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
    let schema = plan.schema();
    let batches = collect(plan, SessionContext::new().task_ctx()).await.unwrap();
    for batch in &batches {
        assert_eq!(batch.schema(), schema, "batches carry the plan's schema");
    }
    batches
}

pub async fn read_version(partition: &Partition, version: Option<u64>) -> Vec<RecordBatch> {
    let pin = partition.pin(version).unwrap();
    run(scan(&[pin], &ScanRequest::default()).unwrap()).await
}

pub async fn ids(partition: &Partition, version: Option<u64>) -> Vec<i64> {
    let mut ids: Vec<i64> = read_version(partition, version)
        .await
        .iter()
        .flat_map(|batch| {
            let column = batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap();
            column.values().to_vec()
        })
        .collect();
    ids.sort_unstable();
    ids
}

pub fn data_files(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir.join("files"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Two sessions with a table `t`: one over partitions, one over the same rows in memory.
pub fn sessions(
    partitions: Vec<Partition>,
    rows: Vec<RecordBatch>,
    streams: usize,
) -> (SessionContext, SessionContext) {
    let schema = partitions[0].schema();
    let config = || SessionConfig::new().with_target_partitions(streams);
    let ours = SessionContext::new_with_config(config());
    ours.register_table("t", Arc::new(CayenneTable::try_new(partitions).unwrap())).unwrap();
    let memory = SessionContext::new_with_config(config());
    memory.register_table("t", Arc::new(MemTable::try_new(schema, vec![rows]).unwrap())).unwrap();
    (ours, memory)
}

/// Rows as sorted text, or the error.
pub async fn answer(session: &SessionContext, sql: &str) -> Result<Vec<String>, String> {
    let frame = session.sql(sql).await.map_err(|e| e.to_string())?;
    let batches = frame.collect().await.map_err(|e| e.to_string())?;
    let text = arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string();
    let mut rows: Vec<String> = text.lines().skip(3).map(str::to_owned).filter(|line| line.starts_with('|')).collect();
    rows.sort();
    Ok(rows)
}

/// Both sessions must give the same rows.
pub async fn same(ours: &SessionContext, memory: &SessionContext, sql: &str) {
    let expected = answer(memory, sql).await.unwrap_or_else(|e| panic!("{sql}\nin memory: {e}"));
    let found = answer(ours, sql).await.unwrap_or_else(|e| panic!("{sql}\nover files: {e}"));
    assert_eq!(found, expected, "{sql}");
}

pub async fn explain(session: &SessionContext, sql: &str) -> String {
    let batches = session.sql(&format!("EXPLAIN {sql}")).await.unwrap().collect().await.unwrap();
    arrow::util::pretty::pretty_format_batches(&batches).unwrap().to_string()
}

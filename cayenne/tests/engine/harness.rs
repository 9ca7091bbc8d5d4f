//! What the tests share: partitions in temporary directories and tables to compare with.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use arrow::array::{BooleanArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cayenne::{
    CayenneTable, Partition, PartitionIdentity, PartitionOptions, PinnedVersion, Replaced, ScanRequest, WriteMode,
    WriteOptions, scan,
};
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::execution::TaskContext;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Literal, col};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use tempfile::TempDir;
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

/// What plans run in. Making a session for each takes longer than most of them.
static TASK: LazyLock<Arc<TaskContext>> = LazyLock::new(Arc::default);

/// A condition on a column.
pub fn comparison(schema: &Schema, column: &str, operator: Operator, value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(col(column, schema).unwrap(), operator, Arc::new(Literal::new(value))))
}

pub async fn run(plan: Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
    let schema = plan.schema();
    let batches = collect(plan, Arc::clone(&TASK)).await.unwrap();
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
    let mut ids = first_column(&read_version(partition, version).await);
    ids.sort_unstable();
    ids
}

/// The first column of batches.
pub fn first_column(batches: &[RecordBatch]) -> Vec<i64> {
    batches
        .iter()
        .flat_map(|batch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec())
        .collect()
}

/// Names of the rows whose first column `wanted` accepts.
pub async fn row_ids(pin: &PinnedVersion, wanted: impl Fn(i64) -> bool) -> Vec<RecordBatch> {
    let request = ScanRequest { projection: Some(vec![0]), row_ids: true, streams: 3, ..ScanRequest::default() };
    let batches = run(scan(std::slice::from_ref(pin), &request).unwrap()).await;
    let accept = |batch: &RecordBatch| {
        let mask: BooleanArray =
            first_column(std::slice::from_ref(batch)).into_iter().map(|id| Some(wanted(id))).collect();
        filter_record_batch(batch, &mask).unwrap()
    };
    batches.iter().map(accept).collect()
}

/// Stages a write that deletes the rows which `wanted` accepts in the current version and adds others.
pub async fn stage_update(
    partition: &Partition,
    write_id: Uuid,
    wanted: impl Fn(i64) -> bool,
    add: Option<RecordBatch>,
) -> cayenne::Result<u64> {
    let pin = partition.pin(None)?;
    let options = WriteOptions { base_version: Some(pin.version()), ..WriteOptions::default() };
    let mut writer = partition.begin_write_with(write_id, WriteMode::Append, options).await?;
    let mut deleted = 0;
    for batch in row_ids(&pin, wanted).await {
        deleted += writer.delete_batch(&batch)?;
    }
    if let Some(add) = add {
        writer.write(add).await?;
    }
    let summary = writer.finish().await?;
    assert_eq!(summary.deleted_rows, deleted);
    Ok(deleted)
}

/// Stages and publishes a delete; gives the number of rows.
pub async fn delete(partition: &Partition, wanted: impl Fn(i64) -> bool) -> u64 {
    let write_id = Uuid::new_v4();
    let deleted = stage_update(partition, write_id, wanted, None).await.unwrap();
    partition.publish(write_id, partition.version() + 1).await.unwrap();
    deleted
}

/// Rewrites data files of a pinned version, in one batch after the other.
pub async fn rewrite(partition: &Partition, pin: &PinnedVersion, files: &[Uuid]) -> cayenne::Result<Replaced> {
    let only = Some(Arc::new(files.iter().copied().collect()));
    let request = ScanRequest { files: only, streams: 2, ..ScanRequest::default() };
    let batches = run(scan(std::slice::from_ref(pin), &request)?).await;
    let mut replacement = partition.replace_files(pin, files, WriteOptions::default())?;
    for batch in batches {
        replacement.write(batch).await?;
    }
    replacement.commit().await
}

/// Rewrites all data files of the current version.
pub async fn rewrite_all(partition: &Partition) -> cayenne::Result<Replaced> {
    let pin = partition.pin(None)?;
    let files: Vec<Uuid> = pin.data_files().iter().map(|file| file.id).collect();
    rewrite(partition, &pin, &files).await
}

/// A partition that nobody has open, from which runs of a test begin: copying it takes less than making it.
pub struct Beginning(TempDir);

impl Beginning {
    /// Takes the partition that `make` makes in a directory.
    pub async fn new(make: impl AsyncFnOnce(&Path) -> Partition) -> Self {
        let home = TempDir::new().unwrap();
        make(&home.path().join("p")).await.close();
        Self(home)
    }

    /// Puts a copy into a directory that is not there yet.
    pub fn copy(&self, to: &Path) {
        copy_directory(&self.0.path().join("p"), to);
    }
}

fn copy_directory(from: &Path, to: &Path) {
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_directory(&entry.path(), &target),
            false => drop(std::fs::copy(entry.path(), target).unwrap()),
        }
    }
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

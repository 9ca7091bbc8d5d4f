//! Rewriting files changes how rows are stored, never which rows there are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::*;
use arrow::datatypes::*;
use cayenne::*;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::Notify;
use uuid::Uuid;

use crate::harness::*;

fn resources() -> CompactionResources {
    CompactionResources::new(64 << 20, None).unwrap()
}

/// Files of a few kilobytes, of which four are one too many.
fn eager() -> PartitionOptions {
    let compaction = CompactionOptions { trigger_files: 4, trigger_age: None, ..CompactionOptions::default() };
    PartitionOptions {
        target_file_bytes: 1 << 20,
        retention: Retention { versions: 0, grace: Duration::ZERO },
        compaction,
        ..PartitionOptions::default()
    }
}

async fn numbered(dir: &TempDir, options: PartitionOptions, files: i64, rows: i64) -> Partition {
    let partition = Partition::create(&dir.path().join("p"), identity(), numbers_schema(), options).unwrap();
    for file in 0..files {
        put(&partition, WriteMode::Append, &[numbers(file * rows, (file + 1) * rows)]).await;
    }
    partition
}

async fn delete(partition: &Partition, file: uuid::Uuid, positions: impl IntoIterator<Item = u64>) {
    let id = uuid::Uuid::new_v4();
    let mut writer = partition.begin_write(id, WriteMode::Append).await.unwrap();
    writer.delete_rows(file, positions).unwrap();
    writer.finish().await.unwrap();
    partition.publish(id, partition.version() + 1).await.unwrap();
}

async fn stored_order(partition: &Partition) -> Vec<i64> {
    let request = ScanRequest { in_order: true, ..ScanRequest::default() };
    let batches = run(scan(&[partition.pin(None).unwrap()], &request).unwrap()).await;
    batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_files_become_one_and_nothing_else_changes() {
    let dir = TempDir::new().unwrap();
    let partition = numbered(&dir, eager(), 3, 1_000).await;
    let nothing = partition.compact(&resources()).await.unwrap();
    assert_eq!(nothing, CompactionReport::default(), "three files are not too many");
    put(&partition, WriteMode::Append, &[numbers(3_000, 4_000)]).await;

    let old = partition.pin(None).unwrap();
    let before = stored_order(&partition).await;
    let report = partition.compact(&resources()).await.unwrap();
    assert_eq!((report.passes, report.files_in, report.files_out, report.rows), (1, 4, 1, 4_000));
    assert_eq!(report.trigger, Some(CompactionTrigger::SmallFiles));
    assert_eq!(partition.version(), 4, "a version is a commit, and this is none");
    assert_eq!(partition.summary().files, 1);
    assert_eq!(partition.summary().rows, 4_000);
    assert_eq!(stored_order(&partition).await, before, "rows stay in the order of their arrival");
    assert!(partition.verify().await.unwrap().damaged.is_empty());

    // What was pinned before is still there, and goes with the pin.
    partition.collect_garbage(SystemTime::now()).await.unwrap();
    assert_eq!(old.data_files().len(), 4);
    let rows: usize = run(scan(std::slice::from_ref(&old), &ScanRequest::default()).unwrap())
        .await
        .iter()
        .map(|b| b.num_rows())
        .sum();
    assert_eq!(rows, 4_000);
    drop(old);
    partition.collect_garbage(SystemTime::now()).await.unwrap();
    assert_eq!(data_files(partition.dir()).len(), 1);
    assert_eq!(partition.compact(&resources()).await.unwrap().passes, 0, "and it is done");
    drop(partition);
    let partition = Partition::open(&dir.path().join("p"), eager()).unwrap();
    assert_eq!(stored_order(&partition).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_rows_are_no_longer_stored() {
    let dir = TempDir::new().unwrap();
    let partition = numbered(&dir, eager(), 3, 1_000).await;
    let files = partition.pin(None).unwrap().data_files();
    delete(&partition, files[1].id, 0..199).await;
    assert_eq!(partition.compact(&resources()).await.unwrap().passes, 0, "a fifth is the limit");
    delete(&partition, files[1].id, [500]).await;
    let expected: Vec<i64> = (0..1_000).chain(1_199..1_500).chain(1_501..3_000).collect();
    assert_eq!(ids(&partition, None).await, expected);
    let report = partition.compact(&resources()).await.unwrap();
    assert_eq!(report.trigger, Some(CompactionTrigger::DeletedRows));
    assert_eq!(report.rows_dropped, 200);
    assert_eq!(ids(&partition, None).await, expected);
    let deleted: u64 = partition.pin(None).unwrap().data_files().iter().map(|file| file.deleted_rows).sum();
    assert_eq!(deleted, 0);

    // Files without a row left leave nothing behind.
    let files = partition.pin(None).unwrap().data_files();
    for file in &files {
        delete(&partition, file.id, 0..file.rows).await;
    }
    assert_eq!(partition.compact_all(&resources()).await.unwrap().files_out, 0);
    assert!(ids(&partition, None).await.is_empty());
}

/// T11: a scan that has begun goes on over its own files, whatever becomes of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_is_not_disturbed_by_two_compactions_and_a_clean_up() {
    let dir = TempDir::new().unwrap();
    let partition = numbered(&dir, eager(), 4, 20_000).await;
    let plan: Arc<dyn ExecutionPlan> = scan(&[partition.pin(None).unwrap()], &ScanRequest::default()).unwrap();
    let context = SessionContext::new();
    let mut rows = execute_stream(plan, context.task_ctx()).unwrap();
    let mut seen: Vec<i64> = Vec::new();
    let mut take = |batch: RecordBatch| seen.extend(batch.column(0).as_primitive::<Int64Type>().values());
    take(rows.next().await.unwrap().unwrap());
    for round in 0..2 {
        put(&partition, WriteMode::Append, &[numbers(100_000 + round, 100_001 + round)]).await;
        assert_eq!(partition.compact_all(&resources()).await.unwrap().passes, 1);
        partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
    }
    while let Some(batch) = rows.next().await {
        take(batch.unwrap());
    }
    drop(rows);
    seen.sort_unstable();
    assert_eq!(seen, (0..80_000).collect::<Vec<_>>());
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
    assert_eq!(data_files(partition.dir()).len(), 1);
}

/// Lets a test act while compaction stands at a step.
#[derive(Debug, Default)]
struct Gate {
    step: Mutex<Option<Step>>,
    reached: Notify,
    open: (std::sync::Mutex<bool>, std::sync::Condvar),
}

impl Failpoints for Gate {
    fn at(&self, step: Step) -> Outcome {
        if *self.step.lock() == Some(step) {
            self.step.lock().take();
            self.reached.notify_one();
            let mut open = self.open.0.lock().unwrap();
            while !*open {
                open = self.open.1.wait(open).unwrap();
            }
        }
        Outcome::Continue
    }
}

impl Gate {
    fn let_go(&self) {
        *self.open.0.lock().unwrap() = true;
        self.open.1.notify_all();
    }
}

/// Holds a compaction between picking and reading, does something, and lets it go on.
async fn during_compaction<F: Future<Output = ()>>(
    options: PartitionOptions,
    dir: &TempDir,
    action: impl FnOnce(Partition) -> F,
) -> (Partition, Result<CompactionReport>) {
    let gate = Arc::new(Gate::default());
    let partition = numbered(dir, PartitionOptions { failpoints: Some(gate.clone()), ..options }, 4, 1_000).await;
    *gate.step.lock() = Some(Step::CompactionPicked);
    let compaction = tokio::spawn({
        let partition = partition.clone();
        async move { partition.compact(&resources()).await }
    });
    gate.reached.notified().await;
    action(partition.clone()).await;
    gate.let_go();
    (partition, compaction.await.unwrap())
}

/// T08: rows that are appended while compaction is at work are there before and after.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_append_during_compaction_stays() {
    let dir = TempDir::new().unwrap();
    let (partition, report) = during_compaction(eager(), &dir, async |partition: Partition| {
        put(&partition, WriteMode::Append, &[numbers(4_000, 5_000)]).await;
        assert_eq!(ids(&partition, None).await, (0..5_000).collect::<Vec<_>>());
    })
    .await;
    let report = report.unwrap();
    assert_eq!((report.passes, report.conflicts, report.files_in), (1, 0, 4), "the append does not stop it");
    assert_eq!(ids(&partition, None).await, (0..5_000).collect::<Vec<_>>());
    assert_eq!(partition.summary().files, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_delete_or_an_overwrite_during_compaction_wins() {
    let dir = TempDir::new().unwrap();
    let (partition, report) = during_compaction(eager(), &dir, async |partition: Partition| {
        let files = partition.pin(None).unwrap().data_files();
        delete(&partition, files[2].id, 0..10).await;
    })
    .await;
    assert_eq!(report.unwrap().rows, 3_990, "it begins again with the rows that are left");
    let left: Vec<i64> = (0..2_000).chain(2_010..4_000).collect();
    assert_eq!(ids(&partition, None).await, left);
    assert_eq!(data_files(partition.dir()).len(), 5, "nothing of the first attempt is left");

    let dir = TempDir::new().unwrap();
    let (partition, report) = during_compaction(eager(), &dir, async |partition: Partition| {
        put(&partition, WriteMode::Overwrite, &[numbers(7, 9)]).await;
    })
    .await;
    assert_eq!(report.unwrap().passes, 0);
    assert_eq!(ids(&partition, None).await, [7, 8]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_that_a_staged_write_deletes_from_are_left_alone() {
    let dir = TempDir::new().unwrap();
    let partition = numbered(&dir, eager(), 5, 1_000).await;
    let files = partition.pin(None).unwrap().data_files();
    let id = uuid::Uuid::new_v4();
    let mut writer = partition.begin_write(id, WriteMode::Append).await.unwrap();
    writer.delete_rows(files[0].id, [3, 4]).unwrap();
    writer.finish().await.unwrap();
    let report = partition.compact(&resources()).await.unwrap();
    assert_eq!((report.passes, report.files_in), (1, 4));
    partition.publish(id, 6).await.unwrap();
    let left: Vec<i64> = (0..3).chain(5..5_000).collect();
    assert_eq!(ids(&partition, None).await, left);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sorting_spills_when_memory_is_short_and_fails_cleanly_without_any() {
    let dir = TempDir::new().unwrap();
    let order = RowOrder::Sorted(vec!["name".to_owned(), "id".to_owned()]);
    let partition = numbered(&dir, PartitionOptions { row_order: order, ..eager() }, 4, 20_000).await;
    let files = data_files(partition.dir());
    let tight = CompactionResources::new(100 << 10, None).unwrap();
    let failed = partition.compact_all(&tight).await.unwrap_err();
    assert!(matches!(failed, Error::OutOfMemory { .. }), "no room for an open file: {failed}");
    let tight = CompactionResources::new((2 << 20) + (100 << 10), None).unwrap();
    let failed = partition.compact_all(&tight).await.unwrap_err();
    assert!(matches!(failed, Error::DataFusion(_)), "no room for sorting: {failed}");
    assert_eq!(data_files(partition.dir()), files, "a failure leaves everything as it was");

    let spilling = CompactionResources::new(6 << 20, Some(dir.path().to_path_buf())).unwrap();
    partition.compact_all(&spilling).await.unwrap();
    assert_eq!(spilling.memory_pool().reserved(), 0);
    let request = ScanRequest { in_order: true, ..ScanRequest::default() };
    let batches = run(scan(&[partition.pin(None).unwrap()], &request).unwrap()).await;
    let rows: Vec<(bool, String, i64)> = batches
        .iter()
        .flat_map(|batch| {
            let names = batch.column(1).as_string_view().iter();
            let ids = batch.column(0).as_primitive::<Int64Type>().values().to_vec();
            names.map(|name| (name.is_none(), name.unwrap_or_default().to_owned())).zip(ids).collect::<Vec<_>>()
        })
        .map(|((null, name), id)| (null, name, id))
        .collect();
    assert_eq!(rows.len(), 80_000);
    assert!(rows.is_sorted(), "by name, NULLs last");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clustered_files_are_pruned_by_either_column() {
    let schema =
        Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false), Field::new("y", DataType::Float64, true)]));
    let dir = TempDir::new().unwrap();
    let options = PartitionOptions {
        row_order: RowOrder::Clustered(vec!["x".to_owned(), "y".to_owned()]),
        target_file_bytes: 64 << 10,
        ..eager()
    };
    let partition = Partition::create(&dir.path().join("p"), identity(), Arc::clone(&schema), options).unwrap();
    let rows = 300_000i64;
    let x = Int64Array::from_iter_values((0..rows).map(|row| row * 7_919 % 1_000_003));
    let y: Float64Array =
        (0..rows).map(|row| (row % 50 != 0).then_some((row * 104_729 % 999_983) as f64 / 7.0)).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(x), Arc::new(y)]).unwrap();
    put(&partition, WriteMode::Append, std::slice::from_ref(&batch)).await;
    let (ours, _) = sessions(vec![partition.clone()], vec![batch.clone()], 2);
    let plan = explain(&ours, "SELECT x FROM t WHERE x BETWEEN 1000 AND 20000").await;
    assert!(plan.contains("files_pruned=0"), "every file has rows from everywhere: {plan}");
    let report = partition.compact_all(&resources()).await.unwrap();
    assert!(report.files_out >= 4, "{report:?}");
    let (ours, memory) = sessions(vec![partition.clone()], vec![batch], 2);
    for sql in [
        "SELECT count(*), count(y), sum(x) FROM t",
        "SELECT count(y), min(y), max(y) FROM t WHERE x BETWEEN 1000 AND 20000",
        "SELECT count(*), sum(x) FROM t WHERE y < 3000",
        "SELECT count(*) FROM t WHERE y IS NULL",
    ] {
        same(&ours, &memory, sql).await;
    }
    for sql in ["SELECT x FROM t WHERE x BETWEEN 1000 AND 20000", "SELECT x FROM t WHERE y BETWEEN 100 AND 3000"] {
        let plan = explain(&ours, sql).await;
        assert!(!plan.contains("files_pruned=0"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_by_columns_that_are_not_there_is_refused_at_creation() {
    let dir = TempDir::new().unwrap();
    let options = PartitionOptions { row_order: RowOrder::Sorted(vec!["nothing".to_owned()]), ..eager() };
    let refused = Partition::create(&dir.path().join("p"), identity(), numbers_schema(), options);
    assert!(matches!(refused, Err(Error::BadOption { option: "sort_columns", .. })));
    assert!(!dir.path().join("p").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_runner_looks_after_open_partitions_on_its_own_threads() {
    #[derive(Debug, Default)]
    struct Threads(Mutex<HashMap<Step, String>>);
    impl Failpoints for Threads {
        fn at(&self, step: Step) -> Outcome {
            let name = std::thread::current().name().unwrap_or_default().to_owned();
            self.0.lock().insert(step, name);
            Outcome::Continue
        }
    }
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let threads = Arc::new(Threads::default());
    let mut options = PartitionOptions { failpoints: Some(threads.clone()), ..eager() };
    options.compaction.interval = Some(Duration::from_millis(20));
    let partitions = [numbered(&first, options.clone(), 4, 500).await, numbered(&second, options, 4, 500).await];
    let runner = CompactionRunner::start(CompactionRunnerOptions {
        memory_bytes: 32 << 20,
        ..CompactionRunnerOptions::default()
    })
    .unwrap();
    partitions.iter().for_each(|partition| runner.add(partition));
    for _ in 0..1_000 {
        if runner.stats().done.passes == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let stats = runner.stats();
    assert_eq!((stats.done.passes, stats.failures, stats.done.files_in), (2, 0, 8), "{stats:?}");
    assert_eq!(threads.0.lock()[&Step::CompactionPicked], "compaction-worker");
    assert_eq!(threads.0.lock()[&Step::Replace], "compaction-worker");
    for partition in &partitions {
        assert_eq!(partition.summary().files, 1);
        assert_eq!(ids(partition, None).await, (0..2_000).collect::<Vec<_>>());
    }
    // It does not keep partitions open, and leaves those alone that were removed.
    runner.remove(&partitions[0]).await;
    for file in 4..8 {
        put(&partitions[0], WriteMode::Append, &[numbers(file * 500, file * 500 + 500)]).await;
    }
    drop(partitions);
    for _ in 0..500 {
        match Partition::open(&second.path().join("p"), eager()) {
            Err(Error::InUse { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => {
                assert_eq!(other.unwrap().summary().rows, 2_000);
                return;
            }
        }
    }
    panic!("the runner keeps the partition open");
}

#[tokio::test]
async fn a_partition_without_an_interval_is_looked_at_when_it_was_written() {
    let dir = TempDir::new().unwrap();
    let mut options = eager();
    options.compaction.interval = None;
    let partition = numbered(&dir, options, 4, 500).await;
    let runner = CompactionRunner::start(CompactionRunnerOptions::default()).unwrap();
    runner.add(&partition);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(runner.stats().runs, 0);
    runner.written(&partition);
    for _ in 0..1_000 {
        if runner.stats().done.passes == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!((partition.summary().files, runner.stats().done.files_in), (1, 4));

    // On demand, and under options that came later. The version is the one that the writes made.
    partition
        .tune(Tuning { row_order: RowOrder::Sorted(vec!["name".to_owned()]), ..partition.tuning().as_ref().clone() })
        .unwrap();
    put(&partition, WriteMode::Append, &[numbers(2_000, 2_500)]).await;
    let version = partition.version();
    let report = runner.compact_all(&partition).await.unwrap();
    assert_eq!((report.files_in, report.files_out, report.rows), (2, 1, 2_500));
    assert_eq!(partition.version(), version);
    assert_eq!(ids(&partition, None).await, (0..2_500).collect::<Vec<_>>());
}

#[tokio::test]
async fn options_of_an_open_partition_are_checked_and_follow_its_columns() {
    let dir = TempDir::new().unwrap();
    let partition = numbered(&dir, eager(), 2, 100).await;
    let with = |columns: &[&str]| Tuning {
        row_order: RowOrder::Sorted(columns.iter().map(|name| (*name).to_owned()).collect()),
        ..partition.tuning().as_ref().clone()
    };
    assert!(matches!(partition.tune(with(&["nothing"])), Err(Error::BadOption { .. })));
    assert_eq!(partition.tuning().row_order, RowOrder::Arrival);
    partition.tune(with(&["name", "id"])).unwrap();

    let id = Uuid::new_v4();
    let rename = SchemaChange::Rename { path: vec!["name".to_owned()], to: "title".to_owned() };
    partition.alter(id, rename).await.unwrap();
    partition.publish(id, partition.version() + 1).await.unwrap();
    assert_eq!(partition.tuning().row_order, RowOrder::Sorted(vec!["title".to_owned(), "id".to_owned()]));
    partition.compact_all(&CompactionResources::new(32 << 20, None).unwrap()).await.unwrap();
    assert_eq!(partition.summary().files, 1);
    let drop = SchemaChange::Drop { path: vec!["title".to_owned()] };
    assert!(matches!(partition.alter(Uuid::new_v4(), drop).await, Err(Error::SchemaChangeRefused { .. })));
}

/// Rows `from..to` that do not compress: so many numbers, so many texts of so many times 16 characters.
fn wide_rows(shape: Shape, from: i64, to: i64) -> RecordBatch {
    let mix =
        |n: i64, by: usize| (n.wrapping_mul(2 * by as i64 + 17) ^ (n >> 7)).wrapping_mul(6_364_136_223_846_793_005);
    let numbers = (0..shape.numbers)
        .map(|by| Arc::new(Int64Array::from_iter_values((from..to).map(|n| mix(n, by) >> 20))) as ArrayRef);
    let text =
        |n: i64, by: usize| (0..shape.words).map(|word| format!("{:016x}", mix(n, by + 31 * word))).collect::<String>();
    let texts = (0..shape.texts)
        .map(|by| Arc::new(StringViewArray::from_iter_values((from..to).map(|n| text(n, by)))) as ArrayRef);
    RecordBatch::try_new(shape.schema(), numbers.chain(texts).collect()).unwrap()
}

#[derive(Debug, Clone, Copy)]
struct Shape {
    numbers: usize,
    texts: usize,
    words: usize,
    rows: i64,
}

impl Shape {
    fn schema(self) -> SchemaRef {
        let numbers = (0..self.numbers).map(|n| Field::new(format!("n{n}"), DataType::Int64, false));
        let texts = (0..self.texts).map(|n| Field::new(format!("t{n}"), DataType::Utf8View, true));
        Arc::new(Schema::new(numbers.chain(texts).collect::<Vec<_>>()))
    }
}

/// What is just larger than the pool has to go to the disk, whatever it is and whatever it is ordered by.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_little_more_than_the_pool_holds_is_sorted_all_the_same() {
    const POOL: usize = 43 << 20;
    const FILES: i64 = 4;
    let named = |columns: &[&str]| columns.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let usual = Shape { numbers: 3, texts: 1, words: 4, rows: 420_000 };
    let many_columns = Shape { numbers: 11, texts: 5, words: 1, rows: 208_000 };
    let long_texts = Shape { numbers: 1, texts: 1, words: 128, rows: 22_000 };
    for (shape, row_order) in [
        (usual, RowOrder::Clustered(named(&["n0", "n1", "n2"]))),
        (many_columns, RowOrder::Sorted(named(&["n1", "t3", "n0"]))),
        (long_texts, RowOrder::Sorted(named(&["n0"]))),
    ] {
        let what = format!("{shape:?} {row_order:?}");
        let dir = TempDir::new().unwrap();
        let options = PartitionOptions { row_order: row_order.clone(), ..eager() };
        let partition = Partition::create(&dir.path().join("p"), identity(), shape.schema(), options).unwrap();
        let (mut bytes, rows) = (0, shape.rows / FILES);
        for file in 0..FILES {
            let batch = wide_rows(shape, file * rows, (file + 1) * rows);
            bytes += batch.get_array_memory_size();
            put(&partition, WriteMode::Append, &[batch]).await;
        }
        assert!(bytes > POOL, "{what}: {bytes}");
        let spill = dir.path().join("spill");
        std::fs::create_dir(&spill).unwrap();
        let resources = CompactionResources::new(POOL, Some(spill)).unwrap();
        let report = partition.compact_all(&resources).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        assert_eq!((report.passes, report.rows), (1, shape.rows as u64), "{what}");
        assert_eq!(resources.memory_pool().reserved(), 0, "{what}");
    }
}

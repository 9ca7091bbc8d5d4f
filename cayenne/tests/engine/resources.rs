//! Little disk, little memory: clear errors, and nothing that is stored suffers.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use cayenne::*;
use datafusion::common::ScalarValue;
use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
use datafusion::logical_expr::Operator;
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;
use crate::keyed::{by_id, counts, create_keyed, found, keyed_schema, reopen, row, rows, upsert};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_stop_at_the_high_water_mark_and_everything_else_goes_on() {
    let home = TempDir::new().unwrap();
    let free = Arc::new(AtomicU64::new(1_000));
    let disk = DiskLimit::keep_free(500).with_probe({
        let free = Arc::clone(&free);
        move |_| Ok(DiskSpace { total: 10_000, free: free.load(Ordering::SeqCst) })
    });
    let retention = Retention { versions: 0, grace: Duration::ZERO };
    let options = PartitionOptions { disk, retention, ..PartitionOptions::default() };
    let partition = Partition::create(&home.path().join("p"), identity(), numbers_schema(), options).unwrap();
    put(&partition, WriteMode::Append, &[numbers(0, 10)]).await;
    let staged = stage(&partition, WriteMode::Overwrite, &[numbers(0, 20)]).await.unwrap();
    let mut begun = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();

    free.store(499, Ordering::SeqCst);
    for refused in [
        partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.err().unwrap(),
        begun.write(numbers(0, 1)).await.unwrap_err(),
    ] {
        assert!(matches!(refused, Error::DiskAlmostFull { free: 499, limit: 500, .. }), "{refused}");
        assert!(refused.is_disk_full() && refused.is_retryable());
        assert!(refused.to_string().contains("reads go on"), "{refused}");
    }
    drop(begun);
    // A finished write is known still, and can be published; old files go.
    let known = partition.begin_write(staged, WriteMode::Overwrite).await.err().unwrap();
    assert!(matches!(known, Error::WriteSealed { .. }), "{known}");
    assert_eq!(ids(&partition, None).await.len(), 10);
    partition.publish(staged, 2).await.unwrap();
    assert_eq!(ids(&partition, None).await.len(), 20);
    let removed = partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
    assert_eq!(removed.files, 1);
    free.store(500, Ordering::SeqCst);
    put(&partition, WriteMode::Append, &[numbers(20, 30)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_disk_is_looked_at() {
    let home = TempDir::new().unwrap();
    let options = PartitionOptions { disk: DiskLimit::keep_free(u64::MAX), ..PartitionOptions::default() };
    let partition = Partition::create(&home.path().join("p"), identity(), numbers_schema(), options).unwrap();
    let refused = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.err().unwrap();
    let Error::DiskAlmostFull { free, total, .. } = refused else { panic!("{refused}") };
    assert!(free > 0 && free <= total);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_files_are_accounted_in_the_pool() {
    let home = TempDir::new().unwrap();
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(3 << 20));
    let options = PartitionOptions { memory_pool: Some(Arc::clone(&pool)), ..PartitionOptions::default() };
    let partition = Partition::create(&home.path().join("p"), identity(), numbers_schema(), options).unwrap();
    let mut first = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    assert_eq!(pool.reserved(), 0);
    first.write(numbers(0, 10)).await.unwrap();
    assert_eq!(pool.reserved(), 2 << 20, "two columns");
    let mut second = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    let refused = second.write(numbers(10, 20)).await.unwrap_err();
    assert!(matches!(&refused, Error::OutOfMemory { bytes: 2_097_152, .. }) && refused.is_retryable(), "{refused}");
    first.finish().await.unwrap();
    assert_eq!(pool.reserved(), 0);
    drop(second);
    put(&partition, WriteMode::Append, &[numbers(0, 10)]).await;
    assert_eq!(pool.reserved(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn indexes_are_accounted_in_the_pool() {
    let home = TempDir::new().unwrap();
    let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(16 << 20));
    let options = PartitionOptions {
        memory_pool: Some(Arc::clone(&pool)),
        retention: Retention { versions: 0, grace: Duration::ZERO },
        indexes: vec![vec!["name".to_owned()]],
        ..PartitionOptions::default()
    };
    let partition = Partition::create(&home.path().join("p"), identity(), numbers_schema(), options).unwrap();
    put(&partition, WriteMode::Append, &[numbers(0, 20_000)]).await;
    assert_eq!((pool.reserved(), partition.index_bytes().0), (0, 0), "nothing was looked up yet");
    let (ours, memory) = sessions(vec![partition.clone()], vec![numbers(0, 20_000)], 1);
    let query = "SELECT * FROM t WHERE name = 'name of number 77'";

    // A look-up without a free byte finds its rows all the same, and keeps nothing.
    let all = MemoryConsumer::new("somebody else").register(&pool);
    all.grow(16 << 20);
    same(&ours, &memory, query).await;
    assert_eq!(partition.index_bytes().0, 0);
    drop(all);
    same(&ours, &memory, query).await;
    let held = partition.index_bytes().0;
    assert!(held > 0);
    assert_eq!(pool.reserved(), held);

    // It goes with the files.
    put(&partition, WriteMode::Overwrite, &[]).await;
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
    assert_eq!((pool.reserved(), partition.index_bytes().0), (0, 0));
    // A small one is in memory at once.
    put(&partition, WriteMode::Append, &[numbers(0, 100)]).await;
    let held = partition.index_bytes().0;
    assert!(held > 0);
    assert_eq!(pool.reserved(), held);
    drop((ours, memory, partition));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_accounted_in_their_pool_and_stay_within_it() {
    const MANY: i64 = 60_000;
    let home = TempDir::new().unwrap();
    for (at, (bytes, exact)) in [(64 << 20, true), (512 << 10, false)].into_iter().enumerate() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let options = PartitionOptions { key_pool: Some(Arc::clone(&pool)), ..PartitionOptions::default() };
        let partition = create_keyed(&home.path().join(format!("p{at}")), by_id(), options);
        let batch = |ids: std::ops::Range<i64>, value| rows(&ids.map(|id| row(id, value)).collect::<Vec<_>>());
        // More keys than the small pool has room for, and a few that are there already.
        assert_eq!(upsert(&partition, &[batch(0..MANY, 1)]).await, counts(MANY as u64, 0, 0, 0));
        assert_eq!(upsert(&partition, &[batch(MANY - 10..MANY + 10, 2)]).await, counts(10, 10, 0, 0));
        assert!((1..=bytes).contains(&pool.reserved()), "{} of {bytes}", pool.reserved());
        let two = [(7, "EU"), (MANY - 1, "EU")];
        let values: Vec<i64> = found(&partition, &two).await.iter().map(|row| row.value).collect();
        assert_eq!(values, [1, 2]);
        let plan = scan(&[partition.pin(None).unwrap()], &key_equals(7)).unwrap();
        let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
        assert_eq!(shown.contains("key_lookup=exact"), exact, "{shown}");
        assert_eq!(partition.summary().rows, MANY as u64 + 10);
        // Somebody else has taken everything: small writes find their way all the same.
        let all = MemoryConsumer::new("somebody else").register(&pool);
        all.grow(bytes);
        assert_eq!(upsert(&partition, &[batch(0..20, 3)]).await, counts(0, 20, 0, 0));
        assert_eq!(upsert(&partition, &[batch(0..5_000, 4)]).await, counts(0, 5_000, 0, 0));
        drop(all);
        assert_eq!(partition.summary().rows, MANY as u64 + 10);
        partition.close();
        drop((plan, partition));
        // Work in the background may hold it for a moment.
        for _ in 0..500 {
            if pool.reserved() > 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        assert_eq!(pool.reserved(), 0);
    }
}

/// Rows with one key.
fn key_equals(id: i64) -> ScanRequest {
    let equal = comparison(&keyed_schema(), "id", Operator::Eq, ScalarValue::Int64(Some(id)));
    ScanRequest { predicates: vec![equal], ..ScanRequest::default() }
}

/// A file system of a few megabytes, which only root can make.
#[derive(Debug)]
struct SmallDisk {
    home: TempDir,
}

impl SmallDisk {
    fn new() -> Option<Self> {
        let home = TempDir::new().unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=3m", "tmpfs"]).arg(home.path()).output();
        match mount {
            Ok(output) if output.status.success() => Some(Self { home }),
            other => {
                eprintln!("SKIPPED: a small file system cannot be mounted: {other:?}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.home.path()
    }

    /// Takes every byte that is left.
    fn fill(&self) {
        use std::io::Write;
        let mut filler = std::fs::File::create(self.path().join("filler")).unwrap();
        while filler.write_all(&[7; 512]).is_ok() {}
    }

    fn make_room(&self) {
        std::fs::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Command::new("umount").arg("-l").arg(self.home.path()).status().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_on_a_full_disk_opens_and_reads_and_recovers() {
    let Some(disk) = SmallDisk::new() else { return };
    let dir = disk.path().join("p");
    let options = || PartitionOptions {
        retention: Retention { versions: 0, grace: Duration::ZERO },
        ..PartitionOptions::default()
    };
    let partition = Partition::create(&dir, identity(), numbers_schema(), options()).unwrap();
    put(&partition, WriteMode::Append, &[numbers(0, 1_000)]).await;
    let staged = stage(&partition, WriteMode::Append, &[numbers(1_000, 2_000)]).await.unwrap();
    drop(partition);
    std::fs::write(dir.join("files/00000000000000000000000000000001.vortex"), b"left behind").unwrap();
    disk.fill();

    let partition = Partition::open(&dir, options()).unwrap();
    assert_eq!(partition.version(), 1);
    assert_eq!(partition.staged().len(), 1);
    assert_eq!(ids(&partition, None).await, (0..1_000).collect::<Vec<_>>());
    disk.fill();
    let refused = stage(&partition, WriteMode::Append, &[numbers(2_000, 90_000)]).await.unwrap_err();
    assert!(refused.is_disk_full(), "{refused}");
    assert_eq!(ids(&partition, None).await, (0..1_000).collect::<Vec<_>>());
    // Whether the last blocks suffice to publish or not: the rows are there in full or not at all.
    let published = partition.publish(staged, 2).await;
    let rows = if published.is_ok() { 2_000 } else { 1_000 };
    assert_eq!(ids(&partition, None).await, (0..rows).collect::<Vec<_>>());

    disk.make_room();
    partition.publish(staged, 2).await.unwrap();
    put(&partition, WriteMode::Append, &[numbers(2_000, 3_000)]).await;
    drop(partition);
    let partition = Partition::open(&dir, options()).unwrap();
    assert_eq!(ids(&partition, None).await, (0..3_000).collect::<Vec<_>>());
    assert!(partition.verify().await.unwrap().damaged.is_empty());
    assert_eq!(data_files(&dir).len() as u64, partition.summary().files);
}

/// The disk fills up at a step of a rewriting or of making an index.
#[derive(Debug)]
struct FillAt {
    step: Step,
    disk: Arc<SmallDisk>,
    done: AtomicBool,
}

impl Failpoints for FillAt {
    fn at(&self, step: Step) -> Outcome {
        if step == self.step && !self.done.swap(true, Ordering::SeqCst) {
            self.disk.fill();
        }
        Outcome::Continue
    }
}

/// Steps of a compaction and of an index that need room, or come after one that did.
const REWRITING: [Step; 14] = [
    Step::CompactionPicked,
    Step::CreateFile,
    Step::FileCreated,
    Step::WriteBytes,
    Step::CreateRun,
    Step::SyncRun,
    Step::SyncFile,
    Step::VerifyFile,
    Step::SyncDirectory,
    Step::Replace,
    Step::Replaced,
    Step::DropRuns,
    Step::RecordRuns,
    Step::RunsRecorded,
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fills_up_during_a_rewriting_costs_no_row_and_leaves_nothing() {
    let index = |column: &str| vec![vec![column.to_owned()]];
    for step in REWRITING {
        let Some(disk) = SmallDisk::new().map(Arc::new) else { return };
        let dir = disk.path().join("p");
        let hook = Arc::new(FillAt { step, disk: Arc::clone(&disk), done: AtomicBool::new(false) });
        let options = |failpoints| PartitionOptions {
            retention: Retention { versions: 0, grace: Duration::ZERO },
            indexes: index("id"),
            failpoints,
            ..PartitionOptions::default()
        };
        let partition = Partition::create(&dir, identity(), numbers_schema(), options(None)).unwrap();
        for part in 0..3 {
            put(&partition, WriteMode::Append, &[numbers(part * 2_000, (part + 1) * 2_000)]).await;
        }
        drop(partition);
        let partition = Partition::open(&dir, options(Some(Arc::clone(&hook) as Arc<dyn Failpoints>))).unwrap();
        let resources = CompactionResources::new(32 << 20, None).unwrap();
        let all: Vec<i64> = (0..6_000).collect();
        let compacted = partition.compact_all(&resources).await;
        partition.tune(Tuning { indexes: index("name"), ..partition.tuning().as_ref().clone() }).unwrap();
        let indexed = partition.build_indexes(&resources).await;
        assert!(hook.done.load(Ordering::SeqCst), "{step:?} is never met");
        assert_eq!(ids(&partition, None).await, all, "{step:?}: {compacted:?}, {indexed:?}");
        drop(partition);

        // It starts twice on the full disk, and again when there is room; each time with the same rows and files.
        disk.fill();
        for _ in 0..2 {
            let partition = reopen(&dir, options(None)).await;
            assert_eq!(ids(&partition, None).await, all, "{step:?}, full");
            assert_eq!(partition.version(), 3, "{step:?}");
        }
        disk.make_room();
        let partition = reopen(&dir, options(None)).await;
        partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
        assert_eq!(data_files(&dir).len() as u64, partition.summary().files, "{step:?}: no orphans");
        partition.compact_all(&resources).await.unwrap();
        assert_eq!(partition.summary().files, 1, "{step:?}");
        let report = partition.build_indexes(&resources).await.unwrap();
        assert_eq!(report.covered, report.files, "{step:?}");
        put(&partition, WriteMode::Append, &[numbers(6_000, 6_010)]).await;
        assert_eq!(ids(&partition, None).await, (0..6_010).collect::<Vec<_>>(), "{step:?}");
        assert!(partition.verify().await.unwrap().damaged.is_empty(), "{step:?}");
    }
}

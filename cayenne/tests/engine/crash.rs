//! A crash or a disk error at every durable step leaves the table at its last published version, and nothing on the disk that
//! no metastore names: data files as well as runs of indexes.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use arrow::array::{ArrayRef, Int64Array, RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema};
use cayenne::{
    CompactionResources, Failpoints, InstallOptions, Outcome, Partition, PartitionOptions, Retention, ScanRequest,
    SchemaChange, Step, Tuning, WriteMode, scan,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{col, in_list, lit};
use tempfile::TempDir;
use uuid::Uuid;

use crate::failing_step::At;
use crate::harness::*;

fn options(failpoints: Option<Arc<dyn Failpoints>>) -> PartitionOptions {
    PartitionOptions {
        target_file_bytes: 2 << 10,
        retention: Retention { versions: 0, grace: Duration::ZERO },
        indexes: index("id"),
        failpoints,
        ..PartitionOptions::default()
    }
}

fn index(column: &str) -> Vec<Vec<String>> {
    vec![vec![column.to_owned()]]
}

const FIRST: Uuid = Uuid::from_u128(1);
/// Rows of a file: with more than 1,024 the runs of its indexes have files of their own. Encoding them is what takes time here.
const FILE: i64 = 1_100;
/// Rows of the table.
const ROWS: i64 = 100 + 3 * FILE;
/// Rows after all of them were replaced.
const REPLACED: i64 = 2 * FILE;

async fn write(partition: &Partition, id: Uuid, mode: WriteMode, from: i64, to: i64) -> cayenne::Result<()> {
    let mut writer = partition.begin_write(id, mode).await?;
    for at in (from..to).step_by(FILE as usize) {
        let rows = numbers(at, (at + FILE).min(to));
        // Columns that were added since have no values.
        let mut columns = rows.columns().to_vec();
        let schema = partition.schema();
        columns.extend(schema.fields()[2..].iter().map(|field| new_null_array(field.data_type(), rows.num_rows())));
        writer.write(RecordBatch::try_new(schema, columns).unwrap()).await?;
    }
    writer.finish().await.map(|_| ())
}

/// The write of each version after the first one.
async fn write_version(partition: &Partition, version: u64) -> cayenne::Result<()> {
    let id = Uuid::from_u128(u128::from(version));
    match version {
        2 => write(partition, id, WriteMode::Append, 100, ROWS).await?,
        3 => {
            stage_update(partition, id, |id| id < 50 || id % 1_000 == 999, Some(numbers(ROWS, ROWS + 50))).await?;
            partition.rebase(id, 2).await?;
        }
        4 => {
            let field = Field::new("grade", DataType::Int8, true);
            partition.alter(id, SchemaChange::Add { parent: Vec::new(), field, default: None }).await?;
        }
        5 => write(partition, id, WriteMode::Overwrite, 0, REPLACED).await?,
        other => panic!("version {other}"),
    }
    partition.publish(id, version).await
}

/// Everything that touches the disk: append, update, replace files, compact, change columns, overwrite, discard, make and drop
/// indexes, clean up, copy.
/// Counts what was acknowledged.
async fn workload(partition: &Partition, acknowledged: &mut u64, hook: &Arc<At>) -> cayenne::Result<()> {
    write_version(partition, 2).await?;
    *acknowledged = 2;
    let discarded = Uuid::from_u128(5);
    stage_update(partition, discarded, |id| id > ROWS / 2, Some(numbers(0, 300))).await?;
    partition.discard(discarded).await?;
    write_version(partition, 3).await?;
    *acknowledged = 3;
    rewrite_all(partition).await?;
    write_version(partition, 4).await?;
    *acknowledged = 4;
    let resources = CompactionResources::new(32 << 20, None)?;
    assert_eq!(partition.compact_all(&resources).await?.passes, 1);
    write_version(partition, 5).await?;
    *acknowledged = 5;
    // An index goes, and another one takes its place.
    partition.tune(Tuning { indexes: index("name"), ..partition.tuning().as_ref().clone() })?;
    let built = partition.build_indexes(&resources).await?;
    assert!(built.read > 0 && built.dropped > 0, "{built:?}");
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await?;
    install(partition, hook).await
}

/// Copies the partition beside itself.
async fn install(partition: &Partition, hook: &Arc<At>) -> cayenne::Result<()> {
    let pin = partition.pin(None)?;
    let manifest = pin.export().await?;
    let (source, install) = (Arc::new(pin), InstallOptions::default());
    let dir = partition.dir().with_extension("copy");
    let hooked = options(Some(Arc::clone(hook) as Arc<dyn Failpoints>));
    let Err(error) = Partition::install(&dir, &manifest, source.clone(), hooked, &install).await else { return Ok(()) };
    // It is there in full or not at all, and can be made again.
    let copied = match Partition::open(&dir, options(None)) {
        Err(cayenne::Error::NotAPartition { .. }) => {
            Partition::install(&dir, &manifest, source, options(None), &install).await?
        }
        opened => opened?,
    };
    assert_eq!(ids(&copied, None).await, expected(5), "{error}");
    Err(error)
}

fn expected(version: u64) -> Vec<i64> {
    match version {
        1 => (0..100).collect(),
        2 => (0..ROWS).collect(),
        3 => (50..ROWS + 50).filter(|id| id % 1_000 != 999).collect(),
        4 => expected(3),
        5 => (0..REPLACED).collect(),
        other => panic!("version {other}"),
    }
}

async fn prepare(dir: &Path) -> Partition {
    let partition = Partition::create(dir, identity(), numbers_schema(), options(None)).unwrap();
    write(&partition, FIRST, WriteMode::Append, 0, 100).await.unwrap();
    partition.publish(FIRST, 1).await.unwrap();
    partition
}

/// Background work of a dropped partition may hold the lock for a moment.
async fn reopen(dir: &Path) -> Partition {
    for _ in 0..500 {
        match Partition::open(dir, options(None)) {
            Err(cayenne::Error::InUse { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            other => return other.unwrap(),
        }
    }
    panic!("the partition is never released");
}

fn named_files(partition: &Partition) -> u64 {
    let staged: u64 = partition.staged().iter().map(|write| write.summary.data.files).sum();
    partition.summary().files + staged
}

/// Names of the files that hold runs of indexes.
fn run_files(dir: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(dir.join("lookup_index")) else { return BTreeSet::new() };
    entries.map(|entry| format!("lookup_index/{}", entry.unwrap().file_name().into_string().unwrap())).collect()
}

/// Those that the metastore names.
fn named_runs(dir: &Path) -> BTreeSet<String> {
    let metastore = rusqlite::Connection::open(dir.join("partition.db")).unwrap();
    let mut names = metastore.prepare("SELECT path FROM lookup_runs WHERE path IS NOT NULL").unwrap();
    names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

fn has_id(ids: &[i64]) -> Arc<dyn PhysicalExpr> {
    let schema = numbers_schema();
    let ids = ids.iter().map(|id| lit(*id)).collect();
    in_list(col("id", &schema).unwrap(), ids, &false, &schema).unwrap()
}

/// Whatever indexes there are, they give the rows that are there; and those that are missing can be made.
async fn check_indexes(partition: &Partition, version: u64, what: &str) {
    let resources = CompactionResources::new(32 << 20, None).unwrap();
    let there = expected(version);
    for made in [false, true] {
        for asked in [&[0, 49, 50, 1_999, REPLACED - 1, ROWS - 2, ROWS + 49][..], &[50], &[ROWS + 49]] {
            let request = ScanRequest { predicates: vec![has_id(asked)], ..ScanRequest::default() };
            let mut found = first_column(&run(scan(&[partition.pin(None).unwrap()], &request).unwrap()).await);
            found.sort_unstable();
            let wanted: Vec<i64> = there.iter().copied().filter(|id| asked.contains(id)).collect();
            assert_eq!(found, wanted, "{what}: ids {asked:?}, indexes made: {made}");
        }
        let report = partition.build_indexes(&resources).await.unwrap();
        assert_eq!(report.covered, report.files, "{what}");
        assert!(!made || report.read == 0, "{what}: {report:?}");
    }
}

/// `whole` asks for all that the workload would have done besides.
async fn check_recovered(dir: &Path, acknowledged: u64, whole: bool, what: &str) {
    let partition = reopen(dir).await;
    let version = partition.version();
    assert!(
        version == acknowledged || version == acknowledged + 1,
        "{what}: version {version}, acknowledged {acknowledged}"
    );
    assert_eq!(ids(&partition, None).await, expected(version), "{what}");
    assert!(partition.verify().await.unwrap().damaged.is_empty(), "{what}");
    // After the older versions have gone, exactly the named files are left.
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
    let files = data_files(dir);
    assert_eq!(files.len() as u64, named_files(&partition), "{what}: no orphans");
    let runs = run_files(dir);
    assert_eq!(runs, named_runs(dir), "{what}: no orphans among the indexes");
    let staged = partition.staged();
    drop(partition);

    let partition = reopen(dir).await;
    assert_eq!(partition.version(), version, "{what}");
    assert_eq!(partition.staged(), staged, "{what}");
    assert_eq!(data_files(dir), files, "{what}: a second start changes nothing");
    assert_eq!(run_files(dir), runs, "{what}: a second start changes nothing");
    check_indexes(&partition, version, what).await;
    // The interrupted work can be done again under the same ids, and the rest after it.
    for next in version + 1..=if whole { 5 } else { (version + 1).min(5) } {
        partition.discard(Uuid::from_u128(u128::from(next))).await.unwrap();
        write_version(&partition, next).await.unwrap();
        assert_eq!(ids(&partition, None).await, expected(next), "{what}");
    }
}

async fn run_with(beginning: &Beginning, step: Step, skip: usize, outcome: Outcome) -> bool {
    let what = format!("{outcome:?} at {step:?} after {skip}");
    let home = TempDir::new().unwrap();
    let dir = home.path().join("p");
    beginning.copy(&dir);
    if step == Step::RemoveOrphan {
        std::fs::write(dir.join("files/0123.vortex"), b"left behind").unwrap();
        std::fs::write(dir.join("files/4567.vortex"), b"left behind").unwrap();
        std::fs::create_dir_all(dir.join("lookup_index")).unwrap();
        std::fs::write(dir.join("lookup_index/0123-4567.idx"), b"left behind").unwrap();
    }
    if step == Step::Convert {
        crate::format::make_format_1(&dir);
    }
    let hook = Arc::new(At { step, left: AtomicUsize::new(skip), outcome, hit: AtomicUsize::new(0) });
    let mut acknowledged = 1;
    let failed = match Partition::open(&dir, options(Some(hook.clone()))) {
        Ok(partition) => {
            let result = workload(&partition, &mut acknowledged, &hook).await;
            if outcome == Outcome::Fail
                && let Err(error) = &result
            {
                // The handle lives on and still shows a published version.
                assert_eq!(ids(&partition, None).await, expected(partition.version()), "{what}: {error}");
            }
            result.is_err()
        }
        Err(_) => true,
    };
    let hit = hook.hit.load(Ordering::SeqCst) > 0;
    // An index that cannot be written is no reason to refuse rows.
    let must_fail = hit && !(outcome == Outcome::Fail && step.is_dispensable());
    assert_eq!(failed, must_fail, "{what}: an error is reported exactly if the step failed");
    check_recovered(&dir, acknowledged, skip == 0, &what).await;
    hit
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_step_keeps_the_last_published_version() {
    let beginning = Beginning::new(prepare).await;
    for step in Step::ALL {
        let mut met = 0;
        for skip in [0, 1, 4, 11] {
            if !run_with(&beginning, step, skip, Outcome::Crash).await {
                break;
            }
            met += 1;
        }
        assert!(met > 0, "the workload never meets {step:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_at_any_step_keeps_the_last_published_version() {
    let beginning = Beginning::new(prepare).await;
    for step in Step::ALL {
        for skip in [0, 2] {
            if !run_with(&beginning, step, skip, Outcome::Fail).await {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftovers_are_removed_and_strangers_are_not() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("p");
    prepare(&dir).await;
    std::fs::write(dir.join("files/half.vortex"), b"VTXF").unwrap();
    std::fs::write(dir.join("files/readme.txt"), b"hello").unwrap();
    std::fs::write(dir.join("partition.db.new"), b"").unwrap();
    let partition = reopen(&dir).await;
    assert_eq!(data_files(&dir).len(), 2);
    assert!(dir.join("files/readme.txt").exists());
    assert!(!dir.join("partition.db.new").exists());
    assert_eq!(ids(&partition, None).await, expected(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupted_creation_can_be_repeated() {
    let home = TempDir::new().unwrap();
    let dir = home.path().join("p");
    std::fs::create_dir_all(dir.join("files")).unwrap();
    std::fs::write(dir.join("partition.db.new"), b"half").unwrap();
    assert!(matches!(Partition::open(&dir, options(None)), Err(cayenne::Error::NotAPartition { .. })));
    let partition = Partition::create(&dir, identity(), numbers_schema(), options(None)).unwrap();
    assert_eq!(partition.version(), 0);
    assert!(!dir.join("partition.db.new").exists());
}

/// What encodes a file dies in the middle of it.
#[derive(Debug)]
struct Panic {
    step: Step,
    left: AtomicUsize,
}

impl Failpoints for Panic {
    fn at(&self, step: Step) -> Outcome {
        let less = |left: usize| left.checked_sub(1);
        if step == self.step && self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) == Ok(1) {
            panic!("the encoder dies, as the test wants it to");
        }
        Outcome::Continue
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t13_an_encoder_that_dies_fails_the_write_and_nothing_else() {
    let mut died = 0;
    for after in 1..8 {
        let what = format!("write {after}");
        let home = TempDir::new().unwrap();
        let dir = home.path().join("p");
        prepare(&dir).await;
        let hook = Arc::new(Panic { step: Step::WriteBytes, left: AtomicUsize::new(after) });
        let partition = Partition::open(&dir, options(Some(Arc::clone(&hook) as Arc<dyn Failpoints>))).unwrap();
        let outcome = write_version(&partition, 2).await;
        if hook.left.load(Ordering::SeqCst) > 0 {
            outcome.unwrap();
            break;
        }
        died += 1;
        let error = outcome.unwrap_err();
        assert!(error.to_string().contains("the encoder dies"), "{what}: {error}");
        assert!(partition.staged().is_empty(), "{what}");
        assert_eq!(ids(&partition, None).await, expected(1), "{what}");
        assert_eq!(data_files(&dir).len() as u64, named_files(&partition), "{what}: no file is left");
        // The partition goes on.
        write_version(&partition, 2).await.unwrap();
        assert_eq!(ids(&partition, None).await, expected(2), "{what}");
        assert!(partition.verify().await.unwrap().damaged.is_empty(), "{what}");
    }
    assert!(died > 2, "{died}");
}

/// One of eight columns that are encoded side by side.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t13_a_column_whose_encoder_dies_takes_the_whole_write_with_it() {
    const COLUMNS: usize = 8;
    let fields: Vec<Field> = (0..COLUMNS).map(|at| Field::new(format!("c{at}"), DataType::Int64, false)).collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = |from: i64, to: i64| {
        let column = |at: usize| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((from..to).map(|id| id * (1 + at as i64))))
        };
        RecordBatch::try_new(Arc::clone(&schema), (0..COLUMNS).map(column).collect()).unwrap()
    };
    for at in 1..=COLUMNS {
        let home = TempDir::new().unwrap();
        let dir = home.path().join("p");
        let hook = Arc::new(Panic { step: Step::EncodeColumn, left: AtomicUsize::new(0) });
        let options = PartitionOptions { failpoints: Some(hook.clone()), ..PartitionOptions::default() };
        let partition = Partition::create(&dir, identity(), Arc::clone(&schema), options).unwrap();
        put(&partition, WriteMode::Append, &[batch(0, 1_000)]).await;
        hook.left.store(at, Ordering::SeqCst);
        let rows = [batch(1_000, 30_000)];
        let write = stage(&partition, WriteMode::Append, &rows);
        let outcome = tokio::time::timeout(Duration::from_secs(60), write).await;
        let error = outcome.expect("the write ends").unwrap_err();
        assert_eq!(hook.left.load(Ordering::SeqCst), 0, "column {at}");
        assert!(
            matches!(error, cayenne::Error::TaskDied { .. } | cayenne::Error::Vortex { .. }),
            "column {at}: {error}"
        );
        assert!(partition.staged().is_empty(), "column {at}");
        assert_eq!(ids(&partition, None).await, (0..1_000).collect::<Vec<_>>(), "column {at}");
        assert_eq!(data_files(&dir).len(), 1, "column {at}: no file is left");
        // The partition goes on.
        put(&partition, WriteMode::Append, &[batch(1_000, 2_000)]).await;
        assert_eq!(ids(&partition, None).await, (0..2_000).collect::<Vec<_>>(), "column {at}");
        assert!(partition.verify().await.unwrap().damaged.is_empty(), "column {at}");
    }
}

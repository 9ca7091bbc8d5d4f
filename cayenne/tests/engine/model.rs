//! Random histories of a partition against a map.
//!
//! Each run does random operations on a partition and on a [`BTreeMap`], with failing disks and crashes at random steps between, and
//! compares after every operation. A run is decided by its seed, which is printed when it fails;
//! `CAYENNE_MODEL_SEED` repeats one run and `CAYENNE_MODEL_RUNS` sets how many there are.
//!
//! To extend it, add an [`Op`] with a weight to [`OPS`] and what it does to [`World::apply`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use arrow::{array::AsArray, compute::concat_batches};
use cayenne::{
    CompactionOptions, CompactionResources, Error, Failpoints, InstallOptions, Outcome, Partition, PartitionManifest,
    PartitionOptions, PinnedVersion, Retention, ScanRequest, Step, WriteMode, WriteOptions, scan,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::{comparison, data_files, identity, rewrite, row_ids, run, stage_update};

const RUNS: u64 = 100;
const OPS_PER_RUN: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    Append,
    Delete,
    Update,
    Overwrite,
    Truncate,
    /// Stages something and forgets it.
    Discard,
    /// Two writes of the same version delete rows.
    Race,
    Rewrite,
    Compact,
    /// Makes the indexes that are missing.
    Index,
    /// Something is published while files are rewritten.
    RewriteRace,
    Pin,
    CollectGarbage,
    Restart,
    /// Goes on with a copy in another directory.
    Move,
}

const OPS: &[(u64, Op)] = &[
    (8, Op::Append),
    (8, Op::Delete),
    (8, Op::Update),
    (1, Op::Overwrite),
    (1, Op::Truncate),
    (2, Op::Discard),
    (4, Op::Race),
    (5, Op::Rewrite),
    (4, Op::Compact),
    (2, Op::Index),
    (3, Op::RewriteRace),
    (3, Op::Pin),
    (3, Op::CollectGarbage),
    (3, Op::Restart),
    (2, Op::Move),
];

type Rows = BTreeMap<i64, i64>;

/// Fails or crashes once, some steps from now.
#[derive(Debug)]
struct Trap {
    /// Negative when it is not set.
    left: AtomicI64,
    crash: AtomicI64,
}

impl Failpoints for Trap {
    fn at(&self, _: Step) -> Outcome {
        if self.left.load(Ordering::SeqCst) < 0 || self.left.fetch_sub(1, Ordering::SeqCst) != 0 {
            return Outcome::Continue;
        }
        if self.crash.load(Ordering::SeqCst) == 1 { Outcome::Crash } else { Outcome::Fail }
    }
}

struct World {
    dir: PathBuf,
    random: u64,
    trap: Arc<Trap>,
    partition: Option<Partition>,
    rows: Rows,
    /// What readable versions held.
    history: BTreeMap<u64, Rows>,
    pins: Vec<(PinnedVersion, Rows)>,
    /// What the version that is being published will hold.
    coming: Option<(Uuid, u64, Rows)>,
    next_id: i64,
    /// A disk that failed may have left files behind, which go at the next start.
    litter: bool,
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false), Field::new("value", DataType::Int64, true)]))
}

fn batch(rows: &Rows) -> RecordBatch {
    let ids = Int64Array::from_iter_values(rows.keys().copied());
    // Every ninth value is NULL.
    let values: Int64Array = rows.values().map(|value| (value % 9 != 0).then_some(*value)).collect();
    RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(values)]).unwrap()
}

impl World {
    fn new(dir: PathBuf, seed: u64) -> Self {
        let trap = Arc::new(Trap { left: AtomicI64::new(-1), crash: AtomicI64::new(0) });
        let mut world = Self {
            dir,
            random: seed,
            trap,
            partition: None,
            rows: Rows::new(),
            history: BTreeMap::from([(0, Rows::new())]),
            pins: Vec::new(),
            coming: None,
            next_id: 0,
            litter: false,
        };
        let partition = Partition::create(&world.dir, identity(), schema(), world.options()).unwrap();
        world.partition = Some(partition);
        world
    }

    fn options(&self) -> PartitionOptions {
        PartitionOptions {
            target_file_bytes: 16 << 10,
            retention: Retention { versions: 0, grace: Duration::from_secs(60) },
            compaction: CompactionOptions { trigger_files: 3, ..CompactionOptions::default() },
            indexes: vec![vec!["value".to_owned()]],
            failpoints: Some(Arc::clone(&self.trap) as Arc<dyn Failpoints>),
            ..PartitionOptions::default()
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % limit
    }

    fn id(&mut self) -> Uuid {
        Uuid::from_u64_pair(self.below(u64::MAX >> 1), self.below(u64::MAX >> 1))
    }

    fn pick(&mut self) -> Op {
        let mut at = self.below(OPS.iter().map(|(weight, _)| weight).sum());
        for (weight, op) in OPS {
            if at < *weight {
                return *op;
            }
            at -= weight;
        }
        unreachable!("the weights add up")
    }

    fn partition(&self) -> Partition {
        self.partition.clone().unwrap()
    }

    /// New rows; now and then more than fit into a block or a file.
    fn new_rows(&mut self) -> Rows {
        let count = if self.below(12) == 0 { 20_000 } else { 1 + self.below(200) as i64 };
        let from = self.next_id;
        self.next_id += count;
        let salt = self.below(1 << 30) as i64;
        (from..self.next_id).map(|id| (id, id.wrapping_mul(31) ^ salt)).collect()
    }

    /// Some rows that are there.
    fn some_rows(&mut self) -> Vec<i64> {
        let kind = self.below(4);
        let (divisor, rest) = (2 + self.below(20) as i64, self.below(2) as i64);
        let low = self.below(self.next_id.max(1) as u64) as i64;
        let wanted = |id: &i64| match kind {
            0 => id % divisor == rest,
            1 => (low..low + 150).contains(id),
            2 => *id == low,
            _ => *id >= low,
        };
        self.rows.keys().copied().filter(wanted).collect()
    }

    async fn stage(&mut self, mode: WriteMode, deleted: &[i64], added: &Rows) -> cayenne::Result<Uuid> {
        let write_id = self.id();
        let partition = self.partition();
        if mode == WriteMode::Append {
            let add = (!added.is_empty()).then(|| batch(added));
            let wanted = |id| deleted.binary_search(&id).is_ok();
            let found = stage_update(&partition, write_id, wanted, add).await?;
            assert_eq!(found as usize, deleted.len());
        } else {
            let mut writer = partition.begin_write(write_id, mode).await?;
            writer.write(batch(added)).await?;
            writer.finish().await?;
        }
        Ok(write_id)
    }

    fn after(&self, mode: WriteMode, deleted: &[i64], added: &Rows) -> Rows {
        let mut rows = if mode == WriteMode::Append { self.rows.clone() } else { Rows::new() };
        rows.retain(|id, _| deleted.binary_search(id).is_err());
        rows.extend(added);
        rows
    }

    async fn publish(&mut self, write_id: Uuid, rows: Rows) -> cayenne::Result<()> {
        let partition = self.partition();
        let version = partition.version() + 1;
        self.coming = Some((write_id, version, rows));
        if self.below(2) == 0 {
            partition.rebase(write_id, version - 1).await?;
        }
        partition.publish(write_id, version).await?;
        self.take_over();
        Ok(())
    }

    async fn write(&mut self, mode: WriteMode, deleted: &[i64], added: &Rows) -> cayenne::Result<()> {
        let after = self.after(mode, deleted, added);
        let write_id = self.stage(mode, deleted, added).await?;
        self.publish(write_id, after).await
    }

    /// The model follows a version that has come.
    fn take_over(&mut self) {
        if let Some((_, version, rows)) = self.coming.take() {
            self.history.insert(version, rows.clone());
            self.rows = rows;
        }
    }

    async fn apply(&mut self, op: Op) -> cayenne::Result<()> {
        match op {
            Op::Append => {
                let added = self.new_rows();
                self.write(WriteMode::Append, &[], &added).await
            }
            Op::Delete => {
                let deleted = self.some_rows();
                self.write(WriteMode::Append, &deleted, &Rows::new()).await
            }
            Op::Update => {
                let deleted = self.some_rows();
                let salt = self.below(1000) as i64;
                let added = deleted.iter().map(|id| (*id, self.rows[id] + salt)).collect();
                self.write(WriteMode::Append, &deleted, &added).await
            }
            Op::Overwrite => {
                let added = self.new_rows();
                self.write(WriteMode::Overwrite, &[], &added).await
            }
            Op::Truncate => self.write(WriteMode::Overwrite, &[], &Rows::new()).await,
            Op::Discard => {
                let (deleted, added) = (self.some_rows(), self.new_rows());
                let write_id = self.stage(WriteMode::Append, &deleted, &added).await?;
                self.partition().discard(write_id).await
            }
            Op::Race => self.race().await,
            Op::Rewrite => {
                let (pin, files) = self.some_files();
                rewrite(&self.partition(), &pin, &files).await.map(|_| ())
            }
            Op::Compact => {
                let resources = CompactionResources::new(16 << 20, None)?;
                match self.below(2) {
                    0 => self.partition().compact(&resources).await.map(|_| ()),
                    _ => self.partition().compact_all(&resources).await.map(|_| ()),
                }
            }
            Op::Index => {
                let resources = CompactionResources::new(16 << 20, None)?;
                self.partition().build_indexes(&resources).await.map(|_| ())
            }
            Op::RewriteRace => self.rewrite_race().await,
            Op::Pin => {
                if self.pins.len() >= 3 {
                    let index = self.below(3) as usize;
                    self.pins.swap_remove(index);
                }
                let pin = self.partition().pin(None)?;
                self.pins.push((pin, self.rows.clone()));
                Ok(())
            }
            Op::CollectGarbage => {
                let partition = self.partition();
                partition.collect_garbage(SystemTime::now() + Duration::from_secs(3600)).await?;
                let pinned: Vec<u64> = self.pins.iter().map(|(pin, _)| pin.version()).collect();
                let current = partition.version();
                self.history.retain(|version, _| *version == current || pinned.contains(version));
                if pinned.is_empty() && !self.litter {
                    let files = data_files(&self.dir);
                    assert_eq!(files.len() as u64, partition.summary().files, "only what is needed");
                    for run in run_files(&self.dir) {
                        let of = run.split('-').next().unwrap();
                        assert!(files.contains(&format!("{of}.vortex")), "index {run} is of no file");
                    }
                }
                Ok(())
            }
            Op::Restart => {
                self.reopen().await;
                Ok(())
            }
            Op::Move => self.move_away().await,
        }
    }

    /// A copy of the current version, or of one that is pinned, takes the place of the partition.
    async fn move_away(&mut self) -> cayenne::Result<()> {
        let newest = self.partition().pin(None)?;
        let old = self.pins.first().map(|(pin, rows)| (pin.clone(), rows.clone()));
        if let Some((pin, rows)) = old {
            let number = self.below(1 << 30);
            let aside = self.dir.with_extension(format!("old{number}"));
            let copied = self.install(&pin, &aside).await?;
            let found = read(&copied.pin(None)?, 2, None).await;
            assert_eq!(found, rows, "a copy of pinned version {}", pin.version());
        }
        let number = self.below(1 << 30);
        let target = self.dir.with_extension(format!("copy{number}"));
        let copied = self.install(&newest, &target).await?;
        drop(newest);
        self.pins.clear();
        let current = copied.version();
        self.history.retain(|version, _| *version == current);
        self.partition = Some(copied);
        self.dir = target;
        self.litter = false;
        Ok(())
    }

    async fn install(&mut self, pin: &PinnedVersion, target: &Path) -> cayenne::Result<Partition> {
        let install = InstallOptions { range_bytes: 1 + self.below(20_000), ..InstallOptions::default() };
        let manifest = PartitionManifest::decode(&pin.export().await?.encode()?)?;
        let source = Arc::new(pin.clone());
        match Partition::install(target, &manifest, source.clone(), self.options(), &install).await {
            Err(Error::Failpoint(Step::Installed)) => Partition::open(target, self.options()),
            Err(Error::Failpoint(_)) => {
                assert!(matches!(Partition::open(target, self.options()), Err(Error::NotAPartition { .. })));
                Partition::install(target, &manifest, source, self.options(), &install).await
            }
            other => other,
        }
    }

    fn some_files(&mut self) -> (PinnedVersion, Vec<Uuid>) {
        let pin = self.partition().pin(None).unwrap();
        let all = self.below(3) == 0;
        let files = pin.data_files().into_iter().filter(|_| all || self.below(2) == 0).map(|file| file.id).collect();
        (pin, files)
    }

    /// Both read the same version; the second one conflicts exactly if they share a row.
    async fn race(&mut self) -> cayenne::Result<()> {
        let (first, second) = (self.some_rows(), self.some_rows());
        let added = self.new_rows();
        let shared = first.iter().any(|id| second.binary_search(id).is_ok());
        let after = self.after(WriteMode::Append, &first, &Rows::new());
        let winner = self.stage(WriteMode::Append, &first, &Rows::new()).await?;
        let loser = self.stage(WriteMode::Append, &second, &added).await?;
        self.publish(winner, after).await?;
        let onto = self.partition().version();
        match self.partition().rebase(loser, onto).await {
            Err(Error::WriteConflict { .. }) => {
                assert!(shared, "a conflict without a shared row");
                self.partition().discard(loser).await
            }
            Err(error) => Err(error),
            Ok(_) => {
                assert!(!shared, "a conflict is missed");
                let after = self.after(WriteMode::Append, &second, &added);
                self.publish(loser, after).await
            }
        }
    }

    async fn rewrite_race(&mut self) -> cayenne::Result<()> {
        let (pin, files) = self.some_files();
        let only = Some(Arc::new(files.iter().copied().collect()));
        let request = ScanRequest { files: only, ..ScanRequest::default() };
        let picked = run(scan(std::slice::from_ref(&pin), &request)?).await;
        let mut inside: Vec<i64> = picked.iter().flat_map(ids_of).collect();
        inside.sort_unstable();
        let mut replacement = self.partition().replace_files(&pin, &files, WriteOptions::default())?;
        for batch in picked {
            replacement.write(batch).await?;
        }
        let deleted = if self.below(2) == 0 { self.some_rows() } else { Vec::new() };
        let touched = deleted.iter().any(|id| inside.binary_search(id).is_ok());
        let added = self.new_rows();
        let staged_only = self.below(3) == 0;
        let after = self.after(WriteMode::Append, &deleted, &added);
        let write_id = self.stage(WriteMode::Append, &deleted, &added).await?;
        if !staged_only {
            self.publish(write_id, after.clone()).await?;
        }
        match replacement.commit().await {
            Err(Error::FilesChanged { .. }) => assert!(touched, "files are refused that nobody touched"),
            Err(error) => return Err(error),
            Ok(_) => assert!(!touched, "a change of the files is missed"),
        }
        if staged_only {
            self.publish(write_id, after).await?;
        }
        Ok(())
    }

    /// As after the end of the process, however it came.
    async fn reopen(&mut self) {
        self.trap.left.store(-1, Ordering::SeqCst);
        self.pins.clear();
        self.litter = false;
        self.partition = None;
        // Background work of a dropped partition may hold the lock for a moment.
        for _ in 0..1000 {
            match Partition::open(&self.dir, self.options()) {
                Err(Error::InUse { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
                other => {
                    self.partition = Some(other.unwrap());
                    return;
                }
            }
        }
        panic!("the partition is never released");
    }

    /// Does one operation, perhaps with a failure in it, and compares.
    async fn step(&mut self) {
        let op = self.pick();
        self.coming = None;
        let armed = self.below(3) == 0;
        let crash = self.below(2) as i64;
        let steps = self.below(24) as i64;
        if armed {
            self.trap.crash.store(crash, Ordering::SeqCst);
            self.trap.left.store(steps, Ordering::SeqCst);
        }
        let result = self.apply(op).await;
        let sprung = armed && self.trap.left.swap(-1, Ordering::SeqCst) < 0;
        if let Err(error) = result {
            assert!(sprung || op == Op::Restart, "{op:?}: {error}");
            self.recover(crash == 1).await;
            if op == Op::CollectGarbage {
                // It may have struck versions before it failed; what is pinned or current is compared below.
                let partition = self.partition();
                let kept = |version: &u64| partition.pin(Some(*version)).is_ok();
                self.history.retain(|version, _| kept(version));
            }
        }
        self.compare(op).await;
    }

    /// Whatever was interrupted either happened or did not; a write that is still staged may still go either way.
    async fn recover(&mut self, crashed: bool) {
        self.litter = true;
        if crashed {
            self.reopen().await;
        }
        let partition = self.partition();
        let coming = self.coming.as_ref().map(|(write_id, version, _)| (*write_id, *version));
        if coming.is_some_and(|(_, version)| partition.version() == version) {
            self.take_over();
        }
        for staged in partition.staged() {
            let wanted = coming.filter(|(write_id, _)| *write_id == staged.write_id);
            match wanted {
                Some((write_id, version)) if self.below(2) == 0 => {
                    partition.publish(write_id, version).await.unwrap();
                    self.take_over();
                }
                _ => partition.discard(staged.write_id).await.unwrap(),
            }
        }
    }

    async fn compare(&mut self, op: Op) {
        let partition = self.partition();
        assert_eq!(partition.version(), *self.history.keys().next_back().unwrap(), "{op:?}");
        assert_eq!(partition.summary().rows, self.rows.len() as u64, "{op:?}");
        let pin = partition.pin(None).unwrap();
        let streams = 1 + self.below(8) as usize;
        assert_eq!(read(&pin, streams, None).await, self.rows, "{op:?}");
        let low = self.below(self.next_id.max(1) as u64) as i64;
        let mut expected = self.rows.clone();
        expected.retain(|id, _| *id >= low);
        assert_eq!(read(&pin, streams, Some(low)).await, expected, "{op:?} from {low}");
        if !self.pins.is_empty() {
            let index = self.below(self.pins.len() as u64) as usize;
            let (pin, rows) = &self.pins[index];
            assert_eq!(read(pin, streams, None).await, *rows, "{op:?}, pinned version {}", pin.version());
        }
        let index = self.below(self.history.len() as u64) as usize;
        let (version, rows) = self.history.iter().nth(index).unwrap();
        let old = partition.pin(Some(*version)).unwrap();
        assert_eq!(read(&old, 1, None).await, *rows, "{op:?}, version {version}");
        if let Some(&value) = self.rows.values().nth(index) {
            let same: Vec<i64> =
                self.rows.iter().filter(|(_, there)| **there == value && value % 9 != 0).map(|(id, _)| *id).collect();
            assert_eq!(find(&pin, value).await, same, "{op:?}, rows with {value}");
        }
        if self.below(8) == 0 {
            let named: usize = row_ids(&pin, |_| true).await.iter().map(RecordBatch::num_rows).sum();
            assert_eq!(named, self.rows.len());
            assert!(partition.verify().await.unwrap().damaged.is_empty());
        }
    }
}

fn ids_of(batch: &RecordBatch) -> Vec<i64> {
    batch.column(0).as_primitive::<Int64Type>().values().to_vec()
}

/// The rows, from an id on if one is given. NULL values come back as those that [`batch`] makes NULL.
async fn read(pin: &PinnedVersion, streams: usize, from: Option<i64>) -> ReadRows {
    let from = from.map(|from| comparison(&schema(), "id", Operator::GtEq, ScalarValue::Int64(Some(from))));
    let request = ScanRequest { predicates: from.into_iter().collect(), streams, ..ScanRequest::default() };
    let batches = run(scan(std::slice::from_ref(pin), &request).unwrap()).await;
    let all = concat_batches(&schema(), &batches).unwrap();
    let values = all.column(1).as_primitive::<Int64Type>();
    let rows: BTreeMap<i64, Option<i64>> = ids_of(&all).into_iter().zip(values.iter()).collect();
    assert_eq!(rows.len(), all.num_rows(), "no row comes twice");
    ReadRows(rows)
}

/// Ids of the rows with a value, found by the index where there is one.
async fn find(pin: &PinnedVersion, value: i64) -> Vec<i64> {
    let equal = comparison(&schema(), "value", Operator::Eq, ScalarValue::Int64(Some(value)));
    let request = ScanRequest { predicates: vec![equal], ..ScanRequest::default() };
    let mut found: Vec<i64> =
        run(scan(std::slice::from_ref(pin), &request).unwrap()).await.iter().flat_map(ids_of).collect();
    found.sort_unstable();
    found
}

/// Names of the files that hold runs of indexes.
fn run_files(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir.join("lookup_index")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[derive(Debug)]
struct ReadRows(BTreeMap<i64, Option<i64>>);

impl PartialEq<Rows> for ReadRows {
    fn eq(&self, expected: &Rows) -> bool {
        let expected = expected.iter().map(|(id, value)| (*id, (value % 9 != 0).then_some(*value)));
        self.0.iter().map(|(id, value)| (*id, *value)).eq(expected)
    }
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

async fn one_run(seed: u64) {
    /// Tells how to repeat a run that panics.
    struct OnPanic(u64);
    impl Drop for OnPanic {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("repeat it with CAYENNE_MODEL_SEED={}", self.0);
            }
        }
    }
    let _tell = OnPanic(seed);
    let home = TempDir::new().unwrap();
    let mut world = World::new(home.path().join("p"), seed);
    for _ in 0..OPS_PER_RUN {
        world.step().await;
    }
    world.reopen().await;
    world.compare(Op::Restart).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_behaves_like_a_map() {
    if let Some(seed) = setting("CAYENNE_MODEL_SEED") {
        return one_run(seed).await;
    }
    let runs = setting("CAYENNE_MODEL_RUNS").unwrap_or(RUNS);
    // Ordinary runs are always the same ones; more of them start where these end.
    for seed in 0..runs {
        one_run(seed).await;
    }
}

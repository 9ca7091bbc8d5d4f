//! Random histories of a table with a primary key against a map.
//!
//! `CAYENNE_MODEL_RUNS` sets how many histories are run, `CAYENNE_MODEL_SEED` runs one of them again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use cayenne::{
    CompactionOptions, CompactionResources, DeletionMode, Error, Failpoints, InstallOptions, KeyCounts, KeyRule,
    Outcome, Partition, PartitionManifest, PartitionOptions, Retention, RowOrder, ScanRequest, SchemaChange, Step,
    TableSettings, WriteMode, WriteOptions, scan,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;
use crate::keyed::*;

const RUNS: u64 = 24;
const STEPS: usize = 30;
const KEYS: u64 = 12;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn one_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }
}

/// "Kills the process" at the step that comes after so many others.
#[derive(Debug)]
struct CrashAfter(AtomicI64);

impl CrashAfter {
    fn arm(&self, steps: i64) {
        self.0.store(steps, Ordering::SeqCst);
    }

    /// Ends the countdown, and says whether it had come to its end.
    fn disarm(&self) -> bool {
        self.0.swap(i64::MAX, Ordering::SeqCst) < 0
    }
}

impl Failpoints for CrashAfter {
    fn at(&self, _: Step) -> Outcome {
        if self.0.load(Ordering::SeqCst) == i64::MAX {
            return Outcome::Continue;
        }
        if self.0.fetch_sub(1, Ordering::SeqCst) <= 0 { Outcome::Crash } else { Outcome::Continue }
    }
}

/// Columns are renamed by other numbers at their ends.
fn base_name(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// A column that holds nothing.
fn extra_column(number: u64) -> Field {
    Field::new(format!("extra{number}"), DataType::Int32, true)
}

/// A batch under today's names, in today's order.
fn named(batch: &RecordBatch, schema: &SchemaRef) -> RecordBatch {
    let column = |field: &Arc<Field>| match batch.column_by_name(base_name(field.name())) {
        Some(column) => Arc::clone(column),
        None => new_null_array(field.data_type(), batch.num_rows()),
    };
    RecordBatch::try_new(Arc::clone(schema), schema.fields().iter().map(column).collect()).unwrap()
}

fn key_rows(keys: &[(i64, &'static str)]) -> Vec<Row> {
    keys.iter().map(|(id, region)| Row { id: *id, region, value: 0, at: None }).collect()
}

/// The inverse of [`named`].
fn decode_named(batches: &[RecordBatch]) -> Vec<Row> {
    let plain = |batch: &RecordBatch| {
        let schema = batch.schema();
        let at = |name: &str| schema.fields().iter().position(|field| base_name(field.name()) == name).unwrap();
        batch.project(&["id", "region", "value", "at"].map(at)).unwrap()
    };
    decode(&batches.iter().map(plain).collect::<Vec<_>>())
}

fn sorted(mut list: Vec<Row>) -> Vec<Row> {
    list.sort_unstable();
    list
}

#[derive(Debug, Clone)]
enum Action {
    Row(Row),
    Delete((i64, &'static str)),
}

/// A write before it is visible.
#[derive(Debug, Clone)]
struct Pending {
    id: Uuid,
    mode: WriteMode,
    rule: KeyRule,
    /// Rows that it deletes by position, as it read them.
    deleted: Vec<Row>,
    actions: Vec<Action>,
}

#[derive(Debug, PartialEq)]
enum Refused {
    /// A key is there already.
    Key,
    /// Somebody has changed a row that is deleted by position.
    Row,
}

struct World {
    seed: u64,
    random: Random,
    dir: TempDir,
    options: PartitionOptions,
    crash: Arc<CrashAfter>,
    by_region: bool,
    /// Number of the next name of a column.
    next_name: u64,
    partition: Option<Partition>,
    model: Model,
    pending: Vec<Pending>,
    next_value: i64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        let dir = TempDir::new().unwrap();
        let crash = Arc::new(CrashAfter(AtomicI64::new(i64::MAX)));
        let options = PartitionOptions {
            key_memory_bytes: [60, 400, 1 << 20][random.below(3) as usize],
            target_file_bytes: [1 << 10, 1 << 20][random.below(2) as usize],
            retention: Retention { versions: 1, grace: Duration::ZERO },
            row_order: match random.one_in(3) {
                true => RowOrder::Sorted(vec!["value".to_owned()]),
                false => RowOrder::Arrival,
            },
            compaction: CompactionOptions { trigger_files: 2, ..CompactionOptions::default() },
            failpoints: Some(crash.clone()),
            ..PartitionOptions::default()
        };
        let by_region = random.one_in(2);
        let settings = if by_region { by_id_and_region() } else { by_id() };
        let settings = if random.one_in(2) { by_time(settings) } else { settings };
        let deletion_mode = if random.one_in(3) { DeletionMode::Position } else { DeletionMode::Auto };
        let settings = TableSettings { deletion_mode, ..settings };
        let mut fields = vec![Arc::new(extra_column(0))];
        fields.extend(keyed_schema().fields().iter().cloned());
        let schema = Arc::new(Schema::new(fields));
        let path = dir.path().join("p");
        let partition = Some(Partition::create_table(&path, identity(), schema, settings, options.clone()).unwrap());
        let (model, pending) = (Model::new(), Vec::new());
        Self { seed, random, dir, options, crash, by_region, next_name: 1, partition, model, pending, next_value: 0 }
    }

    fn partition(&self) -> Partition {
        self.partition.clone().unwrap()
    }

    fn path(&self) -> std::path::PathBuf {
        Path::join(self.dir.path(), "p")
    }

    fn key(&self, row: &Row) -> (i64, &'static str) {
        (row.id, if self.by_region { row.region } else { "" })
    }

    fn random_row(&mut self) -> Row {
        self.next_value += 1;
        Row {
            id: self.random.below(KEYS) as i64,
            region: REGIONS[self.random.below(2) as usize],
            value: self.next_value,
            at: (!self.random.one_in(4)).then(|| self.random.below(5) as i64),
        }
    }

    fn random_key(&mut self) -> (i64, &'static str) {
        let row = self.random_row();
        (row.id, row.region)
    }

    /// What the table holds after a write, and what that was by key.
    fn after(&self, write: &Pending) -> Result<(Model, KeyCounts), Refused> {
        let mut base = if write.mode == WriteMode::Overwrite { Model::new() } else { self.model.clone() };
        for row in &write.deleted {
            if base.remove(&self.key(row)) != Some(*row) {
                return Err(Refused::Row);
            }
        }
        let mut after = base.clone();
        let mut touched = Vec::new();
        let mut came = 0;
        for action in &write.actions {
            match action {
                Action::Delete((id, region)) => {
                    let key = (*id, if self.by_region { *region } else { "" });
                    touched.push(key);
                    after.remove(&key);
                }
                Action::Row(row) => {
                    came += 1;
                    let key = self.key(row);
                    touched.push(key);
                    match (write.rule, after.get(&key)) {
                        (KeyRule::Unique, Some(_)) => return Err(Refused::Key),
                        (KeyRule::NewestTime, Some(stored)) if row.at < stored.at => {}
                        _ => {
                            after.insert(key, *row);
                        }
                    }
                }
            }
        }
        touched.sort_unstable();
        touched.dedup();
        let mut counts = KeyCounts::default();
        for key in touched {
            match (base.get(&key), after.get(&key)) {
                (None, Some(_)) => counts.inserted += 1,
                (Some(before), Some(now)) if before != now => counts.replaced += 1,
                (Some(_), None) => counts.deleted += 1,
                _ => {}
            }
        }
        counts.superseded = came - counts.inserted - counts.replaced;
        Ok((after, counts))
    }

    fn random_write(&mut self) -> Pending {
        let timed = self.partition().settings().time_column.is_some();
        let mut rule = [KeyRule::LastArrival, KeyRule::NewestTime, KeyRule::Unique][self.random.below(3) as usize];
        if rule == KeyRule::NewestTime && !timed {
            rule = KeyRule::LastArrival;
        }
        let mode = if self.random.one_in(8) { WriteMode::Overwrite } else { WriteMode::Append };
        let mut write = Pending { id: Uuid::new_v4(), mode, rule, deleted: Vec::new(), actions: Vec::new() };
        if mode == WriteMode::Append && self.random.one_in(3) {
            let stored: Vec<Row> = self.model.values().copied().collect();
            for old in stored {
                if self.random.one_in(4) {
                    write.deleted.push(old);
                    if self.random.one_in(2) {
                        self.next_value += 1;
                        let id = if self.random.one_in(3) { self.random.below(KEYS) as i64 } else { old.id };
                        write.actions.push(Action::Row(Row { id, value: self.next_value, ..old }));
                    }
                }
            }
        }
        for _ in 0..self.random.below(8) {
            let action = if mode == WriteMode::Append && rule != KeyRule::Unique && self.random.one_in(4) {
                Action::Delete(self.random_key())
            } else {
                Action::Row(self.random_row())
            };
            write.actions.push(action);
        }
        write
    }

    async fn stage(&mut self, write: &Pending) -> cayenne::Result<KeyCounts> {
        let partition = self.partition();
        let options = WriteOptions { key_rule: Some(write.rule), ..WriteOptions::default() };
        let mut writer = partition.begin_write_with(write.id, write.mode, options).await?;
        if !write.deleted.is_empty() {
            let request = ScanRequest { row_ids: true, ..ScanRequest::default() };
            for batch in run(scan(&[partition.pin(None)?], &request)?).await {
                for (index, row) in decode_named(std::slice::from_ref(&batch)).into_iter().enumerate() {
                    if write.deleted.contains(&row) {
                        assert_eq!(writer.delete_batch(&batch.slice(index, 1))?, 1);
                    }
                }
            }
        }
        let schema = partition.schema();
        let mut batch = Vec::new();
        for action in &write.actions {
            match action {
                Action::Row(row) => batch.push(*row),
                Action::Delete(key) => {
                    writer.write(named(&rows(&std::mem::take(&mut batch)), &schema)).await?;
                    writer.delete_keys(&named(&rows(&key_rows(&[*key])), &schema))?;
                }
            }
            if self.random.one_in(3) {
                writer.write(named(&rows(&std::mem::take(&mut batch)), &schema)).await?;
            }
            if self.random.one_in(6) {
                writer.end_file().await?;
            }
        }
        writer.write(named(&rows(&batch), &schema)).await?;
        Ok(writer.finish().await?.keys.unwrap())
    }

    async fn stage_random(&mut self) {
        let write = self.random_write();
        let expected = self.after(&write);
        match (self.stage(&write).await, expected) {
            (Ok(counts), Ok((_, expected))) => {
                assert_eq!(counts, expected, "{write:?}");
                self.pending.push(write);
            }
            (Err(Error::DuplicateKey { .. }), Err(Refused::Key)) => {}
            (result, expected) => panic!("{result:?} instead of {expected:?}: {write:?}"),
        }
    }

    async fn publish_random(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let index = self.random.below(self.pending.len() as u64) as usize;
        let write = self.pending.swap_remove(index);
        let partition = self.partition();
        let version = partition.version();
        let expected = self.after(&write);
        if self.random.one_in(2) {
            match (partition.rebase(write.id, version).await, &expected) {
                (Ok(summary), Ok((_, counts))) => assert_eq!(summary.keys, Some(*counts), "{write:?}"),
                (Err(Error::WriteConflict { .. }), Err(_)) => {}
                (result, expected) => panic!("rebase: {result:?} instead of {expected:?}: {write:?}"),
            }
        }
        match (partition.publish(write.id, version + 1).await, expected) {
            (Ok(()), Ok((model, _))) => self.model = model,
            (Err(Error::WriteConflict { .. }), Err(_)) => partition.discard(write.id).await.unwrap(),
            (result, expected) => panic!("{result:?} instead of {expected:?}: {write:?}"),
        }
    }

    async fn rewrite_random(&mut self) {
        let partition = self.partition();
        let pin = partition.pin(None).unwrap();
        let held = partition.held_files();
        let files: Vec<Uuid> = pin.data_files().iter().map(|file| file.id).filter(|id| !held.contains(id)).collect();
        let only = Some(Arc::new(files.iter().copied().collect()));
        let batches =
            run(scan(std::slice::from_ref(&pin), &ScanRequest { files: only, ..ScanRequest::default() }).unwrap())
                .await;
        let mut replacement = partition.replace_files(&pin, &files, WriteOptions::default()).unwrap();
        for batch in batches {
            replacement.write(batch).await.unwrap();
        }
        let before = self.model.clone();
        if self.random.one_in(2) {
            self.stage_random().await;
            self.publish_random().await;
        }
        if self.random.one_in(4) {
            self.alter_random().await;
        }
        match replacement.commit().await {
            Ok(_) => {}
            Err(Error::FilesChanged { .. }) if self.model != before || !self.pending.is_empty() => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn compact(&mut self) {
        let resources = CompactionResources::new(64 << 20, None).unwrap();
        let partition = self.partition();
        let report = match self.random.one_in(2) {
            true => partition.compact(&resources).await.unwrap(),
            false => partition.compact_all(&resources).await.unwrap(),
        };
        assert_eq!(report.conflicts, 0, "nobody else is there");
    }

    /// Columns come, go and change names, those of the key among them.
    async fn alter_random(&mut self) {
        let partition = self.partition();
        let schema = partition.schema();
        let field = schema.field(self.random.below(schema.fields().len() as u64) as usize);
        let (path, base) = (vec![field.name().clone()], base_name(field.name()));
        let is_key = base == "id" || (base == "region" && self.by_region);
        let is_time = base == "at" && partition.settings().time_column.is_some();
        self.next_name += 1;
        let (change, allowed) = match self.random.below(4) {
            0 => (SchemaChange::Add { parent: vec![], field: extra_column(self.next_name), default: None }, true),
            1 => (SchemaChange::Rename { path, to: format!("{base}{}", self.next_name) }, true),
            2 if base == "extra" || is_key || is_time => (SchemaChange::Drop { path }, base == "extra"),
            3 if base == "extra" && field.data_type() == &DataType::Int32 => {
                (SchemaChange::Widen { path, to: DataType::Int64 }, true)
            }
            3 if base == "at" && is_time => {
                (SchemaChange::Widen { path, to: DataType::Timestamp(TimeUnit::Microsecond, None) }, false)
            }
            _ => return,
        };
        let id = Uuid::new_v4();
        match partition.alter(id, change.clone()).await {
            Ok(()) if allowed => {
                partition.publish(id, partition.version() + 1).await.unwrap();
                // Rows are put in the order of a column, whatever it is called.
                self.options.row_order = partition.tuning().row_order.clone();
            }
            Err(Error::SchemaChangeRefused { .. }) if !allowed => {}
            result => panic!("{result:?}: {change:?}"),
        }
    }

    /// Somewhere in a stage, a publication or a rewrite the process ends.
    async fn crash_somewhere(&mut self) {
        let write = self.random_write();
        let expected = self.after(&write);
        let version = self.partition().version();
        self.crash.arm(self.random.below(24) as i64);
        let staged = self.stage(&write).await;
        let mut rewritten = false;
        if staged.is_ok() {
            let partition = self.partition();
            if self.random.one_in(2) {
                rewritten = true;
                let _ = rewrite_all(&partition).await;
            }
            let _ = partition.publish(write.id, version + 1).await;
            let _ = partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await;
        }
        let crashed = self.crash.disarm();
        self.restart().await;
        let partition = self.partition();
        match partition.version() - version {
            0 => assert!(crashed || rewritten || expected.is_err(), "{write:?}: {staged:?}"),
            1 => self.model = expected.unwrap().0,
            more => panic!("{more} versions more"),
        }
        let is_staged = |id: Uuid| partition.staged().iter().any(|staged| staged.write_id == id);
        if is_staged(write.id) {
            self.pending.push(write);
        }
        assert!(self.pending.iter().all(|write| is_staged(write.id)), "what was staged is there");
    }

    async fn restart(&mut self) {
        self.partition = None;
        self.partition = Some(reopen(&self.path(), self.options.clone()).await);
    }

    /// A copy goes on instead. What was staged stays behind.
    async fn move_away(&mut self) {
        let pin = self.partition().pin(None).unwrap();
        let manifest = PartitionManifest::decode(&pin.export().await.unwrap().encode().unwrap()).unwrap();
        let dir = TempDir::new().unwrap();
        let target = dir.path().join("p");
        let install = InstallOptions::default();
        let copied = Partition::install(&target, &manifest, Arc::new(pin), self.options.clone(), &install).await;
        self.partition = Some(copied.unwrap());
        self.dir = dir;
        self.pending.clear();
    }

    async fn check(&mut self) {
        let partition = self.partition();
        let mut expected: Vec<Row> = self.model.values().copied().collect();
        expected.sort_unstable();
        let stored = run(scan(&[partition.pin(None).unwrap()], &ScanRequest::default()).unwrap()).await;
        assert_eq!(sorted(decode_named(&stored)), expected);
        assert_eq!(partition.summary().rows, expected.len() as u64);
        let asked: Vec<(i64, &'static str)> = (0..3).map(|_| self.random_key()).collect();
        let wanted =
            |row: &Row| asked.iter().any(|(id, region)| *id == row.id && (!self.by_region || *region == row.region));
        expected.retain(wanted);
        let keys = named(&rows(&key_rows(&asked)), &partition.schema());
        let found = run(partition.lookup(&keys, &ScanRequest::default()).await.unwrap()).await;
        assert_eq!(sorted(decode_named(&found)), expected, "{asked:?}");
    }

    async fn run(mut self) {
        for step in 0..STEPS {
            let what = self.random.below(25);
            match what {
                0..8 => self.stage_random().await,
                8..14 => self.publish_random().await,
                14..16 => self.rewrite_random().await,
                16 => self.restart().await,
                17 => {
                    if let Some(write) = self.pending.pop() {
                        self.partition().discard(write.id).await.unwrap();
                    }
                }
                18 => {
                    let later = SystemTime::now() + Duration::from_secs(1);
                    self.partition().collect_garbage(later).await.unwrap();
                }
                19 => self.crash_somewhere().await,
                20..22 => self.compact().await,
                22 => self.move_away().await,
                _ => self.alter_random().await,
            }
            if std::env::var_os("CAYENNE_MODEL_SEED").is_some() {
                eprintln!("seed {}, step {step}: {what}", self.seed);
            }
            self.check().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_of_keyed_tables() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds = match number("CAYENNE_MODEL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("CAYENNE_MODEL_RUNS").unwrap_or(RUNS),
    };
    for seed in seeds {
        let run = tokio::spawn(World::new(seed).run());
        if let Err(error) = run.await {
            panic!("history with CAYENNE_MODEL_SEED={seed}: {error}");
        }
    }
}

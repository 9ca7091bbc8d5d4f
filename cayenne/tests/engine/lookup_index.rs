//! Secondary indexes: the same rows with and without them, whatever happens to the files.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use cayenne::{
    CompactionResources, Partition, PartitionOptions, PinnedVersion, Retention, ScanRequest, SchemaChange, Tuning,
    WriteMode, scan,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_plan::displayable;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;
use uuid::Uuid;

use crate::any_type::AnyType;
use crate::harness::*;

fn names(indexes: &[&[&str]]) -> Vec<Vec<String>> {
    indexes.iter().map(|columns| columns.iter().map(|name| (*name).to_owned()).collect()).collect()
}

fn options(indexes: &[&[&str]]) -> PartitionOptions {
    PartitionOptions {
        target_file_bytes: 16 << 10,
        retention: Retention { versions: 2, grace: Duration::ZERO },
        indexes: names(indexes),
        ..PartitionOptions::default()
    }
}

fn set(partition: &Partition, indexes: Vec<Vec<String>>) {
    partition.tune(Tuning { indexes, ..partition.tuning().as_ref().clone() }).unwrap();
}

fn resources() -> CompactionResources {
    CompactionResources::new(64 << 20, None).unwrap()
}

fn column(schema: &Schema, name: &str) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new_with_schema(name, schema).unwrap())
}

fn is(schema: &Schema, name: &str, value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(column(schema, name), Operator::Eq, Arc::new(Literal::new(value))))
}

fn one_of(schema: &Schema, name: &str, values: &[ScalarValue]) -> Arc<dyn PhysicalExpr> {
    let list = values.iter().map(|value| Arc::new(Literal::new(value.clone())) as Arc<dyn PhysicalExpr>).collect();
    Arc::new(InListExpr::try_new(column(schema, name), list, false, schema).unwrap())
}

fn or(a: Arc<dyn PhysicalExpr>, b: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(a, Operator::Or, b))
}

/// Rows by their first column, and the plan.
async fn rows(pin: &PinnedVersion, predicates: Vec<Arc<dyn PhysicalExpr>>) -> (Vec<i64>, String) {
    let request = ScanRequest { predicates, streams: 2, ..ScanRequest::default() };
    let plan = scan(std::slice::from_ref(pin), &request).unwrap();
    let text = displayable(plan.as_ref()).indent(true).to_string();
    let mut found = first_column(&run(plan).await);
    found.sort_unstable();
    (found, text)
}

/// The rows that an index leaves are those of a scan. Gives the plan that used it.
async fn same_rows(pin: &PinnedVersion, predicates: Vec<Arc<dyn PhysicalExpr>>, what: &str) -> String {
    let partition = pin.partition();
    let indexes = partition.tuning().indexes.clone();
    let (found, plan) = rows(pin, predicates.clone()).await;
    set(&partition, Vec::new());
    let (expected, plain) = rows(pin, predicates.clone()).await;
    set(&partition, indexes);
    assert!(!plain.contains("lookup_index"), "{plain}");
    assert_eq!(found, expected, "{what}: {predicates:?}\n{plan}");
    plan
}

fn run_files(dir: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(dir.join("lookup_index")) else { return BTreeSet::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn text(value: &str) -> ScalarValue {
    ScalarValue::Utf8View(Some(value.to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_files_and_rows_of_a_value_are_read() {
    let dir = TempDir::new().unwrap();
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), options(&[&["name"]])).unwrap();
    for part in 0..4 {
        put(&partition, WriteMode::Append, &[numbers(part * 2_000, (part + 1) * 2_000)]).await;
    }
    let pin = partition.pin(None).unwrap();
    let files = pin.data_files().len();
    assert!(files >= 4);
    assert!(!run_files(dir.path()).is_empty(), "larger runs have files");
    let schema = partition.schema();
    let plan = same_rows(&pin, vec![is(&schema, "name", text("name of number 4001"))], "one value").await;
    assert!(plan.contains("lookup_index=(name), candidate_files=1, uncovered_files=0, candidate_rows=1"), "{plan}");
    assert!(plan.contains(&format!("files_pruned={}", files - 1)), "{plan}");
    let several = ["name of number 1", "name of number 2", "nothing", "name of number 7999"].map(text);
    let plan = same_rows(&pin, vec![one_of(&schema, "name", &several)], "a list").await;
    assert!(plan.contains("candidate_files=2, uncovered_files=0, candidate_rows=3"), "{plan}");
    let either = or(is(&schema, "name", text("name of number 3")), is(&schema, "name", text("name of number 5003")));
    let plan = same_rows(&pin, vec![either], "either").await;
    assert!(plan.contains("candidate_files=2"), "{plan}");
    let plan = same_rows(&pin, vec![is(&schema, "name", text("name of number 40011"))], "no row").await;
    assert!(plan.contains("candidate_files=0"), "{plan}");

    let many: Vec<ScalarValue> = (0..2_049).map(|n| text(&format!("name of number {n}"))).collect();
    for (predicate, reason) in [
        (is(&schema, "id", ScalarValue::Int64(Some(1))), "no_key_pinned"),
        (one_of(&schema, "name", &many), "too_many_keys"),
        (or(is(&schema, "name", text("a")), is(&schema, "id", ScalarValue::Int64(Some(1)))), "no_key_pinned"),
    ] {
        let plan = same_rows(&pin, vec![predicate], reason).await;
        assert!(plan.contains(&format!("lookup_index=none, lookup_index_reason={reason}")), "{plan}");
    }
    // A deleted row is no candidate.
    drop(pin);
    delete(&partition, |id| id == 4001).await;
    let pin = partition.pin(None).unwrap();
    let plan = same_rows(&pin, vec![is(&schema, "name", text("name of number 4001"))], "deleted").await;
    assert!(plan.contains("candidate_files=0"), "{plan}");
}

/// Every type, each column an index of its own, and every value looked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_of_every_type_are_found() {
    let mut indexed = BTreeSet::new();
    for seed in 0..30 {
        let mut any = AnyType::new(seed);
        let columns = 1 + any.below(5);
        let schema = any.schema(columns);
        let plain = |field: &&Arc<Field>| match field.data_type() {
            DataType::Dictionary(_, values) => !values.is_nested(),
            other => !other.is_nested(),
        };
        let indexes: Vec<Vec<String>> =
            schema.fields().iter().filter(plain).map(|field| vec![field.name().clone()]).collect();
        let dir = TempDir::new().unwrap();
        let options = PartitionOptions { indexes: indexes.clone(), ..PartitionOptions::default() };
        let partition = Partition::create(dir.path(), identity(), Arc::clone(&schema), options).unwrap();
        let batch = any.batch(&schema, 0, 40);
        put(&partition, WriteMode::Append, std::slice::from_ref(&batch)).await;
        let pin = partition.pin(None).unwrap();
        for index in &indexes {
            let values = batch.column_by_name(&index[0]).unwrap();
            indexed.insert(values.data_type().to_string().split(['(', '<']).next().unwrap().to_owned());
            // How a dictionary is compared is not the index's business.
            if matches!(values.data_type(), DataType::Dictionary(..)) {
                continue;
            }
            for row in (0..values.len()).filter(|row| !values.is_null(*row)).take(5) {
                let value = ScalarValue::try_from_array(values, row).unwrap();
                if value.is_null() {
                    continue;
                }
                let plan = same_rows(&pin, vec![is(&schema, &index[0], value)], &format!("seed {seed}")).await;
                assert!(plan.contains(&format!("lookup_index=({})", index[0])), "{plan}");
                assert!(!plan.contains("candidate_files=0"), "seed {seed}: {plan}");
            }
        }
    }
    assert!(indexed.len() >= 18, "{indexed:?}");
}

fn wide_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("a", DataType::Int32, true),
        Field::new("t", DataType::Utf8View, true),
    ]))
}

fn wide(rng: &mut StdRng, schema: &Schema, from: i64, to: i64) -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(from..to));
    let numbers: Vec<Option<i32>> = (from..to).map(|_| rng.random_bool(0.9).then(|| rng.random_range(0..20))).collect();
    let texts: StringViewArray =
        (from..to).map(|_| rng.random_bool(0.9).then(|| format!("text {}", rng.random_range(0..8)))).collect();
    let columns = schema.fields().iter().map(|field| match (field.name().as_str(), field.data_type()) {
        ("id", _) => Arc::clone(&ids),
        (_, DataType::Int32) => Arc::new(Int32Array::from(numbers.clone())) as ArrayRef,
        (_, DataType::Int64) => {
            Arc::new(numbers.iter().map(|value| value.map(i64::from)).collect::<Int64Array>()) as ArrayRef
        }
        _ => Arc::new(texts.clone()) as ArrayRef,
    });
    RecordBatch::try_new(Arc::new(schema.clone()), columns.collect()).unwrap()
}

/// A random history: whatever the files are and have, an index changes nothing but what is read.
async fn history(seed: u64, steps: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let dir = TempDir::new().unwrap();
    let mut partition =
        Partition::create(dir.path(), identity(), wide_schema(), options(&[&["a"], &["t", "a"]])).unwrap();
    let (mut next, mut texts, mut renamed) = (0, "t".to_owned(), 0);
    for step in 0..steps {
        let what = format!("seed {seed}, step {step} (CAYENNE_INDEX_SEED={seed})");
        match rng.random_range(0..11) {
            0..=3 => {
                let rows = [1, 40, 3_000][rng.random_range(0..3)];
                let batch = wide(&mut rng, &partition.schema(), next, next + rows);
                next += rows;
                put(&partition, WriteMode::Append, &[batch]).await;
            }
            4 => {
                let modulus = rng.random_range(2..9);
                delete(&partition, |id| id % modulus == 0).await;
            }
            5 => {
                partition.compact_all(&resources()).await.unwrap();
            }
            6 => {
                let (before, report) =
                    (partition.lacks_indexes().unwrap(), partition.build_indexes(&resources()).await.unwrap());
                assert_eq!((report.covered, report.read > 0), (report.files, before), "{what}");
                assert!(!partition.lacks_indexes().unwrap(), "{what}");
            }
            7 => {
                let indexes = partition.tuning().indexes.clone();
                partition.close();
                drop(partition);
                // Some runs are lost, and some are damaged.
                for run in run_files(dir.path()) {
                    let path = dir.path().join("lookup_index").join(run);
                    match rng.random_range(0..4) {
                        0 => std::fs::remove_file(path).unwrap(),
                        1 => {
                            let mut bytes = std::fs::read(&path).unwrap();
                            let at = rng.random_range(8..bytes.len());
                            bytes[at] ^= 1;
                            std::fs::write(path, bytes).unwrap();
                        }
                        _ => {}
                    }
                }
                partition = Partition::open(dir.path(), PartitionOptions { indexes, ..options(&[]) }).unwrap();
            }
            8 => {
                renamed += 1;
                let to = format!("t{renamed}");
                let change = SchemaChange::Rename { path: vec![texts.clone()], to: to.clone() };
                alter(&partition, change).await;
                texts = to;
            }
            9 if partition.schema().field_with_name("a").unwrap().data_type() == &DataType::Int32 => {
                alter(&partition, SchemaChange::Widen { path: vec!["a".to_owned()], to: DataType::Int64 }).await;
            }
            10 if rng.random_bool(0.3) => {
                let batch = wide(&mut rng, &partition.schema(), next, next + 500);
                next += 500;
                put(&partition, WriteMode::Overwrite, &[batch]).await;
            }
            _ => {
                partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
            }
        }
        assert_eq!(partition.tuning().indexes, [vec!["a".to_owned()], vec![texts.clone(), "a".to_owned()]], "{what}");
        let versions = [Some(partition.version().saturating_sub(1)), None];
        for pin in versions.into_iter().filter_map(|version| partition.pin(version).ok()) {
            let schema = pin.schema();
            let number = |n: i32| match schema.field_with_name("a").unwrap().data_type() {
                DataType::Int32 => ScalarValue::Int32(Some(n)),
                _ => ScalarValue::Int64(Some(i64::from(n))),
            };
            let named = schema.field(2).name().clone();
            let (a, b) = (rng.random_range(0..22), rng.random_range(0..22));
            let other = text(&format!("text {}", rng.random_range(0..9)));
            same_rows(&pin, vec![is(&schema, "a", number(a))], &what).await;
            same_rows(&pin, vec![one_of(&schema, "a", &[number(a), number(b)])], &what).await;
            let both = vec![is(&schema, &named, other), or(is(&schema, "a", number(a)), is(&schema, "a", number(b)))];
            same_rows(&pin, both, &what).await;
        }
    }
    // Nothing is left that nobody names.
    partition.build_indexes(&resources()).await.unwrap();
    partition.compact_all(&resources()).await.unwrap();
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
    let before = run_files(dir.path());
    partition.close();
    drop(partition);
    let partition = Partition::open(dir.path(), options(&[])).unwrap();
    assert_eq!(run_files(dir.path()), before, "seed {seed}");
    partition.build_indexes(&resources()).await.unwrap();
    assert!(run_files(dir.path()).is_empty(), "indexes that are not declared any more are dropped");
}

async fn alter(partition: &Partition, change: SchemaChange) {
    let id = Uuid::new_v4();
    partition.alter(id, change).await.unwrap();
    partition.publish(id, partition.version() + 1).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_histories_give_the_rows_of_a_plain_scan() {
    let seeds: Vec<u64> = match std::env::var("CAYENNE_INDEX_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => {
            let runs = std::env::var("CAYENNE_MODEL_RUNS").ok().map_or(5, |runs| runs.parse::<u64>().unwrap() / 20);
            (0..runs.max(1)).collect()
        }
    };
    for seed in seeds {
        history(seed, 20).await;
    }
}

/// Rows that were deleted before the index was made are rows of older versions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_that_is_made_later_has_the_rows_of_older_versions() {
    let dir = TempDir::new().unwrap();
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), options(&[])).unwrap();
    put(&partition, WriteMode::Append, &[numbers(0, 3_000)]).await;
    let old = partition.pin(None).unwrap();
    delete(&partition, |id| id % 2 == 1).await;
    set(&partition, names(&[&["name"]]));
    let schema = partition.schema();
    let wanted = || vec![is(&schema, "name", text("name of number 11"))];
    let plan = same_rows(&old, wanted(), "not yet").await;
    assert!(plan.contains("candidate_files=0, uncovered_files="), "{plan}");
    assert!(!plan.contains("uncovered_files=0"), "{plan}");
    let report = partition.build_indexes(&resources()).await.unwrap();
    assert_eq!((report.covered, report.read), (report.files, report.files));
    let plan = same_rows(&old, wanted(), "the older version").await;
    assert!(plan.contains("candidate_files=1, uncovered_files=0, candidate_rows=1"), "{plan}");
    let plan = same_rows(&partition.pin(None).unwrap(), wanted(), "the newer version").await;
    assert!(plan.contains("candidate_files=0, uncovered_files=0"), "{plan}");
    assert_eq!(partition.verify().await.unwrap().indexes, report.files);
}

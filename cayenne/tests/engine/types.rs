//! Random tables of all types come back as they were.

use std::sync::Arc;

use arrow::array::*;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::*;
use cayenne::{Partition, PartitionOptions, WriteMode, check_schema};
use tempfile::TempDir;

use crate::any_type::{AnyType, without_dictionaries};
use crate::harness::*;

/// In the order of the first column, which numbers the rows.
pub fn in_order(schema: &SchemaRef, batches: &[RecordBatch]) -> RecordBatch {
    let all = concat_batches(schema, batches).unwrap();
    let order = arrow::compute::sort_to_indices(all.column(0), None, None).unwrap();
    arrow::compute::take_record_batch(&all, &order).unwrap()
}

pub fn assert_equal(expected: &RecordBatch, found: &RecordBatch, what: &str) {
    assert_eq!(expected.schema(), found.schema(), "{what}");
    assert_eq!(expected.num_rows(), found.num_rows(), "{what}");
    for (index, field) in expected.schema().fields().iter().enumerate() {
        let plain = without_dictionaries(field.data_type());
        let plain = |array: &ArrayRef| {
            if array.data_type() == &plain { Arc::clone(array) } else { cast(array, &plain).unwrap() }
        };
        let (expected, found) = (plain(expected.column(index)), plain(found.column(index)));
        for row in 0..expected.len() {
            assert_eq!(
                &expected.slice(row, 1),
                &found.slice(row, 1),
                "{what}, row {row} of '{}': {}",
                field.name(),
                field.data_type()
            );
        }
    }
}

async fn round_trip(seed: u64) {
    let mut any = AnyType::new(seed);
    let columns = 1 + any.below(8);
    let schema = any.schema(columns);
    let what = format!("seed {seed} (CAYENNE_TYPES_SEED={seed})");
    check_schema(&schema).unwrap_or_else(|error| panic!("{what}: {error}"));
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), Arc::clone(&schema));
    let mut written = vec![RecordBatch::new_empty(Arc::clone(&schema))];
    let mut next = 0i64;
    for _ in 0..1 + any.below(3) {
        let mut batches = Vec::new();
        for _ in 0..any.below(4) {
            let rows = [0, 1, 17, 300][any.below(4)];
            let batch = any.batch(&schema, next, next + rows);
            next += rows;
            // A slice has offsets where a fresh array has none.
            let cut = any.below(batch.num_rows());
            batches.extend([batch.slice(0, cut), batch.slice(cut, batch.num_rows() - cut)]);
        }
        put(&partition, WriteMode::Append, &batches).await;
        written.extend(batches);
    }
    drop(partition);
    let partition = Partition::open(dir.path(), PartitionOptions::default()).unwrap();
    let expected = in_order(&schema, &written);
    let mut found = read_version(&partition, None).await;
    found.push(RecordBatch::new_empty(Arc::clone(&schema)));
    assert_equal(&expected, &in_order(&schema, &found), &what);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_tables_come_back_as_they_were() {
    if let Ok(seed) = std::env::var("CAYENNE_TYPES_SEED") {
        return round_trip(seed.parse().unwrap()).await;
    }
    let runs = std::env::var("CAYENNE_TYPES_RUNS").map_or(60, |runs| runs.parse().unwrap());
    for seed in 0..runs {
        round_trip(seed).await;
    }
}

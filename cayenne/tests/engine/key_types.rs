//! Keys of every type that a key may have.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use cayenne::{Error, KeyRule, Partition, PartitionOptions, ScanRequest, WriteMode};
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;
use crate::keyed::{by_id, counts, publish_next, reopen, stage_rows, upsert};

fn types() -> Vec<DataType> {
    use DataType::*;
    let utc = || Some(Arc::from("UTC"));
    vec![
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Decimal128(20, 3),
        Decimal256(50, 2),
        Date32,
        Date64,
        Time32(TimeUnit::Second),
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Microsecond),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Second, None),
        Timestamp(TimeUnit::Millisecond, utc()),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Nanosecond, utc()),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        Dictionary(Box::new(Int32), Box::new(Utf8)),
        Dictionary(Box::new(UInt32), Box::new(Int64)),
    ]
}

/// The `n`-th values of a type, all different.
fn values(data_type: &DataType, numbers: &[i64]) -> ArrayRef {
    let integers: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    let texts = || -> ArrayRef {
        Arc::new(StringArray::from_iter_values(
            numbers.iter().map(|n| format!("{} ü {n}", "x".repeat(*n as usize % 9))),
        ))
    };
    let from = |array: &ArrayRef| cast(array, data_type).unwrap();
    match data_type {
        DataType::Date32 | DataType::Time32(_) => from(&cast(&integers, &DataType::Int32).unwrap()),
        DataType::Date64 => {
            Arc::new(arrow::array::Date64Array::from_iter_values(numbers.iter().map(|n| n * 86_400_000)))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => from(&texts()),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => from(&texts()),
        DataType::Dictionary(_, inner) if **inner == DataType::Utf8 => from(&texts()),
        _ => from(&integers),
    }
}

fn batch(data_type: &DataType, numbers: &[i64], value: i64) -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("id", data_type.clone(), false),
        Field::new("n", DataType::Int64, false),
        Field::new("value", DataType::Int64, false),
    ]);
    let n: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
    let value: ArrayRef = Arc::new(Int64Array::from(vec![value; numbers.len()]));
    RecordBatch::try_new(Arc::new(schema), vec![values(data_type, numbers), n, value]).unwrap()
}

fn pairs(batches: &[RecordBatch]) -> Vec<(i64, i64)> {
    let mut pairs: Vec<(i64, i64)> = batches
        .iter()
        .flat_map(|batch| {
            let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values().to_vec();
            column(1).into_iter().zip(column(2))
        })
        .collect();
    pairs.sort_unstable();
    pairs
}

async fn check(data_type: &DataType, options: PartitionOptions) {
    let dir = TempDir::new().unwrap();
    let all: Vec<i64> = (0..100).collect();
    let first = batch(data_type, &all, 0);
    let partition = Partition::create_table(dir.path(), identity(), first.schema(), by_id(), options.clone()).unwrap();
    assert_eq!(upsert(&partition, &[first]).await, counts(100, 0, 0, 0), "{data_type}");
    drop(partition);
    let partition = reopen(dir.path(), options).await;
    // A few keys, which are listed, and many, which are bounded.
    let few = batch(data_type, &[3, 99, 4, 3], 1);
    assert_eq!(upsert(&partition, &[few]).await, counts(0, 3, 1, 0), "{data_type}");
    let many: Vec<i64> = (10..90).collect();
    assert_eq!(upsert(&partition, &[batch(data_type, &many, 2)]).await, counts(0, 80, 0, 0), "{data_type}");
    let unique = stage_rows(&partition, WriteMode::Append, Some(KeyRule::Unique), &[batch(data_type, &[4], 9)]).await;
    assert!(matches!(unique, Err(Error::DuplicateKey { within: false, .. })), "{data_type}: {unique:?}");
    let write_id = Uuid::new_v4();
    let mut writer = partition.begin_write(write_id, WriteMode::Append).await.unwrap();
    writer.delete_keys(&batch(data_type, &[5, 20], 0).project(&[0]).unwrap()).unwrap();
    assert_eq!(writer.finish().await.unwrap().keys, Some(counts(0, 0, 0, 2)), "{data_type}");
    publish_next(&partition, write_id).await;
    let expected: Vec<(i64, i64)> = all
        .into_iter()
        .filter(|n| ![5, 20].contains(n))
        .map(|n| {
            (
                n,
                if [3, 4, 99].contains(&n) {
                    1
                } else if many.contains(&n) {
                    2
                } else {
                    0
                },
            )
        })
        .collect();
    assert_eq!(pairs(&read_version(&partition, None).await), expected, "{data_type}");
    let asked = batch(data_type, &[3, 5, 50, 101, 7], 0);
    let found = run(partition.lookup(&asked, &ScanRequest::default()).await.unwrap()).await;
    assert_eq!(pairs(&found), vec![(3, 1), (7, 0), (50, 2)], "{data_type}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_type_of_key_is_found_again() {
    for data_type in types() {
        for key_memory_bytes in [1 << 20, 2_000] {
            check(&data_type, PartitionOptions { key_memory_bytes, ..PartitionOptions::default() }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_boolean_can_be_a_key() {
    let dir = TempDir::new().unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Boolean, false)]));
    let partition =
        Partition::create_table(dir.path(), identity(), Arc::clone(&schema), by_id(), PartitionOptions::default())
            .unwrap();
    let column: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
    let batch = RecordBatch::try_new(schema, vec![column]).unwrap();
    assert_eq!(upsert(&partition, std::slice::from_ref(&batch)).await, counts(2, 0, 1, 0));
    assert_eq!(upsert(&partition, &[batch]).await, counts(0, 2, 1, 0));
    assert_eq!(partition.summary().rows, 2);
}

//! Compaction and changes of columns leave one row per key, and every key where it can be found.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, SchemaRef, TimeUnit, TimestampMillisecondType};
use cayenne::*;
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;
use crate::keyed::*;

fn resources() -> CompactionResources {
    CompactionResources::new(64 << 20, None).unwrap()
}

fn range(ids: std::ops::Range<i64>, value: i64) -> RecordBatch {
    rows(&ids.map(|id| row(id, value)).collect::<Vec<_>>())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upserts_and_look_ups_go_on_over_compaction_and_restart() {
    for (deletion_mode, key_memory_bytes, row_order) in [
        (DeletionMode::Key, 1 << 20, RowOrder::Arrival),
        (DeletionMode::Key, 2_000, RowOrder::Sorted(vec!["value".to_owned(), "id".to_owned()])),
        (DeletionMode::Position, 1 << 20, RowOrder::Clustered(vec!["value".to_owned(), "id".to_owned()])),
        (DeletionMode::Position, 2_000, RowOrder::Arrival),
    ] {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("p");
        let options = PartitionOptions { key_memory_bytes, row_order, ..PartitionOptions::default() };
        let settings = TableSettings { deletion_mode, ..by_id() };
        let mut partition = create_keyed(&path, settings, options.clone());
        for round in 0..4 {
            let replaced = if round == 0 { 0 } else { 100 };
            let counted = upsert(&partition, &[range(round * 100..round * 100 + 200, round)]).await;
            assert_eq!(counted, counts(200 - replaced, replaced, 0, 0));
        }
        assert_eq!(delete_keys(&partition, &[(0, "EU"), (450, "EU"), (9_999, "EU")]).await, counts(0, 0, 0, 2));
        let before = current(&partition).await;
        assert_eq!(before.len(), 498);

        let report = partition.compact_all(&resources()).await.unwrap();
        assert_eq!((report.passes, report.files_in, report.files_out), (1, 4, 1), "{options:?}");
        assert_eq!((report.rows, report.rows_dropped), (498, 302), "rows that were replaced are no longer stored");
        for state in ["compacted", "opened again"] {
            assert_eq!(current(&partition).await, before, "{state}");
            assert_eq!(found(&partition, &[(0, "EU"), (99, "EU"), (100, "EU")]).await, [row(99, 0), row(100, 1)]);
            if state == "compacted" {
                drop(partition);
                partition = reopen(&path, options.clone()).await;
            }
        }
        // Rows in the new file are found and replaced like any others.
        assert_eq!(upsert(&partition, &[range(0..10, 7)]).await, counts(1, 9, 0, 0));
        let report = partition.compact_all(&resources()).await.unwrap();
        assert_eq!((report.rows, report.rows_dropped), (499, 9));
        assert_eq!(upsert(&partition, &[range(495..505, 8)]).await, counts(5, 5, 0, 0));
        assert_eq!(found(&partition, &[(5, "EU"), (495, "EU"), (504, "EU")]).await.len(), 3);
        assert!(partition.verify().await.unwrap().damaged.is_empty());
    }
}

async fn alter(partition: &Partition, change: SchemaChange) {
    let id = Uuid::new_v4();
    partition.alter(id, change).await.unwrap();
    publish_next(partition, id).await;
}

fn rename(from: &str, to: &str) -> SchemaChange {
    SchemaChange::Rename { path: vec![from.to_owned()], to: to.to_owned() }
}

/// `(key, value, changed)` of rows without a region.
fn without_region(schema: &SchemaRef, list: &[(i64, i64, i64)]) -> RecordBatch {
    let times = TimestampMillisecondArray::from_iter_values(list.iter().map(|row| row.2));
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let (keys, values) = list.iter().map(|row| (row.0, row.1)).unzip();
    RecordBatch::try_new(Arc::clone(schema), vec![column(keys), column(values), Arc::new(times)]).unwrap()
}

fn decoded(batches: &[RecordBatch]) -> Vec<(i64, i64, i64)> {
    let mut list = Vec::new();
    for batch in batches {
        let numbers = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().to_vec();
        let times = batch.column(2).as_primitive::<TimestampMillisecondType>().values().to_vec();
        list.extend(numbers(0).into_iter().zip(numbers(1)).zip(times).map(|((key, value), time)| (key, value, time)));
    }
    list.sort_unstable();
    list
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_of_the_key_are_renamed_and_never_dropped_or_widened() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("p");
    let options = PartitionOptions::default();
    let mut partition = create_keyed(&path, by_time(by_id()), options.clone());
    let at = |id: i64, value: i64, at: i64| Row { at: Some(at), ..row(id, value) };
    upsert(&partition, &[rows(&[at(1, 10, 5), at(2, 20, 5), at(3, 30, 5), at(4, 40, 5)])]).await;
    // What is staged under the old names is published under the new ones.
    let (late, _) =
        stage_rows(&partition, WriteMode::Append, None, &[rows(&[at(1, 11, 4), at(2, 21, 6)])]).await.unwrap();
    let gone = Uuid::new_v4();
    let mut writer = partition.begin_write(gone, WriteMode::Append).await.unwrap();
    writer.delete_keys(&keys(&[(3, "EU")])).unwrap();
    writer.finish().await.unwrap();

    alter(&partition, rename("id", "key")).await;
    alter(&partition, SchemaChange::Drop { path: vec!["region".to_owned()] }).await;
    alter(&partition, rename("at", "changed")).await;
    let microseconds = DataType::Timestamp(TimeUnit::Microsecond, None);
    for (column, widened) in [("key", DataType::Decimal128(38, 0)), ("changed", microseconds)] {
        let path = vec![column.to_owned()];
        for change in [SchemaChange::Drop { path: path.clone() }, SchemaChange::Widen { path, to: widened }] {
            match partition.alter(Uuid::new_v4(), change.clone()).await {
                Err(Error::SchemaChangeRefused { column: named, .. }) => assert_eq!(named, column),
                other => panic!("{change:?}: {other:?}"),
            }
        }
    }

    drop(partition);
    partition = reopen(&path, options.clone()).await;
    let settings = partition.settings();
    assert_eq!((settings.primary_key, settings.time_column), (vec!["key".to_owned()], Some("changed".to_owned())));
    publish_next(&partition, late).await;
    publish_next(&partition, gone).await;
    let schema = partition.schema();
    let newest = without_region(&schema, &[(1, 12, 4), (4, 41, 5), (5, 50, 1)]);
    assert_eq!(upsert(&partition, &[newest]).await, counts(1, 1, 1, 0));
    // A new column with the old name of the key is another column.
    alter(
        &partition,
        SchemaChange::Add { parent: vec![], field: Field::new("id", DataType::Utf8, true), default: None },
    )
    .await;
    let expected = [(1, 10, 5), (2, 21, 6), (4, 41, 5), (5, 50, 1)];
    for _ in ["altered", "compacted"] {
        let stored = run(scan(&[partition.pin(None).unwrap()], &ScanRequest::default()).unwrap()).await;
        assert_eq!(decoded(&stored), expected);
        let wanted = without_region(&schema, &[(1, 0, 0), (3, 0, 0), (5, 0, 0)]);
        let found = run(partition.lookup(&wanted, &ScanRequest::default()).await.unwrap()).await;
        assert_eq!(decoded(&found), [expected[0], expected[3]]);
        partition.compact_all(&resources()).await.unwrap();
    }
    let missing = partition.lookup(&keys(&[(1, "EU")]), &ScanRequest::default()).await;
    assert!(matches!(missing, Err(Error::SchemaMismatch { column, .. }) if column == "key"));
}

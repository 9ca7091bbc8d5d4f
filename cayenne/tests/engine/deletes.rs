//! Deleted rows, names of rows, conflicts, and files that are replaced.
//!
//! The tests of the first group are of the kind T07, T10 and T11 of the collected cases.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::array::{AsArray, BooleanArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, UInt64Type};
use cayenne::{
    Clock, Error, FILE_COLUMN, Partition, PartitionOptions, ROW_COLUMN, Retention, ScanRequest, WriteMode,
    WriteOptions, scan,
};
use datafusion::common::DFSchema;
use datafusion::logical_expr::{col, lit};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;

fn options() -> PartitionOptions {
    PartitionOptions { retention: Retention { versions: 0, grace: Duration::ZERO }, ..PartitionOptions::default() }
}

fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(1)
}

/// Three files of `rows` rows each.
async fn three_files(dir: &TempDir, rows: i64) -> Partition {
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), options()).unwrap();
    for part in 0..3 {
        put(&partition, WriteMode::Append, &[numbers(part * rows, (part + 1) * rows)]).await;
    }
    partition
}

async fn check_all_ways(partition: &Partition, expected: &[i64], what: &str) {
    let all = numbers(0, expected.last().map_or(0, |last| last + 1));
    let left: HashSet<i64> = expected.iter().copied().collect();
    let mask: BooleanArray = (0..all.num_rows() as i64).map(|id| Some(left.contains(&id))).collect();
    let rows = vec![filter_record_batch(&all, &mask).unwrap()];
    for streams in [1, 3, 8] {
        let request = ScanRequest { streams, ..ScanRequest::default() };
        let mut found = first_column(&run(scan(&[partition.pin(None).unwrap()], &request).unwrap()).await);
        found.sort_unstable();
        assert_eq!(found, expected, "{what}, {streams} streams");
        let (ours, memory) = sessions(vec![partition.clone()], rows.clone(), streams);
        for sql in [
            "SELECT count(*), min(id), max(id), min(name), max(name), count(name) FROM t",
            "SELECT count(*) FROM t WHERE name IS NULL",
            "SELECT id FROM t WHERE id % 1000 < 10 AND id > 5000",
            "SELECT name FROM t WHERE id BETWEEN 69990 AND 70020",
            "SELECT id, name FROM t WHERE name LIKE '%99' ORDER BY id DESC LIMIT 25",
            "SELECT count(*) FROM t WHERE id IN (0, 70000, 70001, 139999, 150000)",
            "SELECT count(*) FROM (SELECT 1 FROM t LIMIT 75000)",
            "SELECT count(*) FROM (SELECT id FROM t WHERE id >= 70000 LIMIT 10)",
        ] {
            same(&ours, &memory, sql).await;
        }
    }
    assert_eq!(partition.summary().rows, expected.len() as u64, "{what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_the_deleted_rows_are_gone_whoever_reads() {
    let dir = TempDir::new().unwrap();
    // More than a block and more than a stream's share.
    let partition = three_files(&dir, 70_000).await;
    let gone = |id: &i64| (70_000..140_000).contains(id) && (id % 3 == 0 || *id < 71_000) || *id == 209_999;
    let expected: Vec<i64> = (0..210_000).filter(|id| !gone(id)).collect();
    let deleted = delete(&partition, |id| gone(&id)).await;
    assert_eq!(deleted as usize, 210_000 - expected.len());
    check_all_ways(&partition, &expected, "deleted").await;
    assert_eq!(ids(&partition, Some(3)).await, (0..210_000).collect::<Vec<_>>(), "the version before");

    drop(partition);
    let partition = Partition::open(dir.path(), options()).unwrap();
    check_all_ways(&partition, &expected, "opened again").await;

    // The second delete adds to the first, in two of the files.
    delete(&partition, |id| id % 1000 == 5).await;
    let expected: Vec<i64> = expected.into_iter().filter(|id| id % 1000 != 5).collect();
    check_all_ways(&partition, &expected, "deleted twice").await;

    let version = partition.version();
    let pin = partition.pin(None).unwrap();
    let middle = pin.data_files()[1].id;
    rewrite(&partition, &pin, &[middle]).await.unwrap();
    check_all_ways(&partition, &expected, "one file rewritten").await;
    rewrite_all(&partition).await.unwrap();
    check_all_ways(&partition, &expected, "all rewritten").await;
    assert_eq!(partition.version(), version, "rewriting makes no version");
    let summary = partition.summary();
    assert_eq!((summary.files, summary.deleted_rows), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_whose_rows_are_all_deleted_goes() {
    let dir = TempDir::new().unwrap();
    let partition = three_files(&dir, 1000).await;
    delete(&partition, |id| (1000..1500).contains(&id)).await;
    delete(&partition, |id| (1500..2000).contains(&id)).await;
    assert_eq!(partition.summary().files, 2);
    assert_eq!(partition.summary().deleted_rows, 0);
    // All of it: truncating in one way and in the other.
    delete(&partition, |_| true).await;
    assert_eq!((partition.summary().rows, partition.summary().files), (0, 0));
    put(&partition, WriteMode::Append, &[numbers(0, 10)]).await;
    put(&partition, WriteMode::Overwrite, &[]).await;
    assert!(ids(&partition, None).await.is_empty());
    assert_eq!(ids(&partition, Some(3)).await.len(), 3000);
    drop(partition);
    let partition = Partition::open(dir.path(), options()).unwrap();
    assert_eq!(ids(&partition, Some(4)).await.len(), 2500);
    partition.collect_garbage(later()).await.unwrap();
    assert!(data_files(dir.path()).is_empty());
    drop(partition);
    assert!(ids(&Partition::open(dir.path(), options()).unwrap(), None).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_rows_name_the_rows() {
    let dir = TempDir::new().unwrap();
    let partition = three_files(&dir, 70_000).await;
    delete(&partition, |id| id % 2 == 0).await;
    let pin = partition.pin(None).unwrap();
    let schema = DFSchema::try_from(numbers_schema()).unwrap();
    let predicate = |expr| SessionContext::new().create_physical_expr(expr, &schema).unwrap();
    let cases = [
        (None, vec![]),
        (Some(vec![]), vec![]),
        (Some(vec![0]), vec![predicate(col("id").gt(lit(100_000i64)))]),
        // This one is evaluated above the scan, on a column that is not asked for.
        (Some(vec![1]), vec![predicate((col("id") * lit(2i64)).gt(lit(300_000i64)))]),
        (Some(vec![1, 0]), vec![predicate(col("name").is_not_null())]),
    ];
    for (projection, predicates) in cases {
        for streams in [1, 8] {
            let request = ScanRequest {
                projection: projection.clone(),
                predicates: predicates.clone(),
                streams,
                row_ids: true,
                ..ScanRequest::default()
            };
            let plan = scan(std::slice::from_ref(&pin), &request).unwrap();
            let names: Vec<String> = plan.schema().fields().iter().map(|field| field.name().clone()).collect();
            let columns = projection.as_ref().map_or(2, Vec::len);
            assert_eq!(&names[columns..], [FILE_COLUMN, ROW_COLUMN]);
            let named = run(plan).await;
            // What the names stand for, by the order in which rows were written.
            let bases: Vec<String> = pin.data_files().iter().map(|file| file.id.simple().to_string()).collect();
            let mut found = Vec::new();
            for batch in &named {
                let files = batch.column(columns).as_string_view();
                let rows = batch.column(columns + 1).as_primitive::<UInt64Type>();
                for row in 0..batch.num_rows() {
                    let file = bases.iter().position(|base| base == files.value(row)).unwrap() as i64;
                    found.push(file * 70_000 + rows.value(row) as i64);
                }
                if let Some((index, _)) = batch.schema().column_with_name("id") {
                    let first = batch.project(&[index]).unwrap();
                    assert_eq!(first_column(&[first])[..], found[found.len() - batch.num_rows()..]);
                }
            }
            found.sort_unstable();
            let request = ScanRequest { projection: Some(vec![0]), predicates: predicates.clone(), ..request };
            let request = ScanRequest { row_ids: false, ..request };
            let mut expected = first_column(&run(scan(std::slice::from_ref(&pin), &request).unwrap()).await);
            expected.sort_unstable();
            assert!(!expected.is_empty());
            assert_eq!(found, expected, "{projection:?} {streams}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_deletes_and_adds_in_one_version() {
    let dir = TempDir::new().unwrap();
    let partition = three_files(&dir, 1000).await;
    let write_id = Uuid::new_v4();
    stage_update(&partition, write_id, |id| id < 10, Some(numbers(5000, 5010))).await.unwrap();
    // Invisible, and the staged deletes outlive the process.
    assert_eq!(ids(&partition, None).await.len(), 3000);
    drop(partition);
    let partition = Partition::open(dir.path(), options()).unwrap();
    assert_eq!(partition.staged()[0].summary.deleted_rows, 10);
    assert_eq!(partition.staged()[0].base_version, 3);
    partition.publish(write_id, 4).await.unwrap();
    partition.publish(write_id, 4).await.unwrap();
    let expected: Vec<i64> = (10..3000).chain(5000..5010).collect();
    assert_eq!(ids(&partition, None).await, expected);
    // A discarded one leaves no trace, and holds no file any more.
    let discarded = Uuid::new_v4();
    stage_update(&partition, discarded, |id| id < 100, Some(numbers(0, 5))).await.unwrap();
    assert_eq!(partition.held_files().len(), 1);
    partition.discard(discarded).await.unwrap();
    assert!(partition.held_files().is_empty());
    assert_eq!(ids(&partition, None).await, expected);
    drop(partition);
    let partition = Partition::open(dir.path(), options()).unwrap();
    assert_eq!(ids(&partition, None).await, expected);
    assert!(partition.staged().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletes_that_name_no_rows_are_refused() {
    let dir = TempDir::new().unwrap();
    let partition = three_files(&dir, 1000).await;
    let file = partition.pin(None).unwrap().data_files()[0].id;
    let mut writer = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    let error = writer.delete_rows(file, [3, 1000]).unwrap_err();
    assert!(matches!(error, Error::InvalidDelete { .. }) && error.to_string().contains("no position 1000"), "{error}");
    assert!(matches!(writer.delete_rows(Uuid::new_v4(), [0]), Err(Error::WriteConflict { .. })));
    // Twice the same row counts once.
    assert_eq!(writer.delete_rows(file, [5, 6, 5]).unwrap(), 2);
    assert_eq!(writer.delete_rows(file, [6, 7]).unwrap(), 1);
    assert_eq!(writer.finish().await.unwrap().deleted_rows, 3);
    let mut overwriting = partition.begin_write(Uuid::new_v4(), WriteMode::Overwrite).await.unwrap();
    assert!(matches!(overwriting.delete_rows(file, [0]), Err(Error::InvalidDelete { .. })));
    let ahead = WriteOptions { base_version: Some(9), ..WriteOptions::default() };
    let refused = partition.begin_write_with(Uuid::new_v4(), WriteMode::Append, ahead).await;
    assert!(matches!(refused.err(), Some(Error::VersionNotYetHere { version: 9, current: 3, .. })));
}

fn assert_conflict(error: Error) {
    assert!(matches!(error, Error::WriteConflict { .. }) && error.is_retryable(), "{error}");
    let message = error.to_string();
    for part in ["table 'orders'", "partition 'bucket(4, k)=2'", "data file 'files/", "again"] {
        assert!(message.contains(part), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_writes_that_change_one_row_the_second_loses() {
    let dir = TempDir::new().unwrap();
    let partition = three_files(&dir, 1000).await;
    let [first, second, apart, append] = [1, 2, 3, 4].map(Uuid::from_u128);
    stage_update(&partition, first, |id| (100..200).contains(&id), None).await.unwrap();
    stage_update(&partition, second, |id| (199..300).contains(&id), Some(numbers(9000, 9001))).await.unwrap();
    stage_update(&partition, apart, |id| (300..400).contains(&id), Some(numbers(8000, 8100))).await.unwrap();
    let mut writer = partition.begin_write(append, WriteMode::Append).await.unwrap();
    writer.write(numbers(7000, 7001)).await.unwrap();
    writer.finish().await.unwrap();
    partition.publish(first, 4).await.unwrap();

    // Not only by rebasing: a publication that was not checked checks itself.
    assert_conflict(partition.rebase(second, 4).await.unwrap_err());
    assert_conflict(partition.publish(second, 5).await.unwrap_err());
    assert!(partition.rebase(second, 4).await.unwrap_err().to_string().contains("row 199"));
    partition.rebase(apart, 4).await.unwrap();
    assert!(matches!(partition.rebase(apart, 5).await, Err(Error::VersionNotYetHere { .. })));
    assert!(matches!(partition.rebase(apart, 3).await, Err(Error::VersionConflict { .. })));
    assert!(matches!(partition.rebase(first, 4).await, Err(Error::PublishedElsewhere { published: 4, .. })));
    assert!(matches!(partition.rebase(Uuid::from_u128(77), 4).await, Err(Error::UnknownWrite { .. })));
    assert_eq!(partition.staged().iter().find(|write| write.write_id == apart).unwrap().base_version, 4);
    partition.publish(apart, 5).await.unwrap();
    // Rows that are only added conflict with nothing.
    partition.rebase(append, 5).await.unwrap();
    partition.publish(append, 6).await.unwrap();
    let expected: Vec<i64> = (0..3000).filter(|id| !(100..200).contains(id) && !(300..400).contains(id)).collect();
    let expected: Vec<i64> = expected.into_iter().chain(7000..7001).chain(8000..8100).collect();
    assert_eq!(ids(&partition, None).await, expected);

    // A writer that read an old version and comes late is told when it finishes.
    let pin = partition.pin(None).unwrap();
    let stale = row_ids(&pin, |id| id == 500 || id == 7000).await;
    delete(&partition, |id| id == 500).await;
    let mut writer = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    stale.iter().for_each(|batch| {
        writer.delete_batch(batch).unwrap();
    });
    writer.write(numbers(0, 1)).await.unwrap();
    let files = data_files(dir.path());
    assert_conflict(writer.finish().await.unwrap_err());
    assert!(data_files(dir.path()).len() < files.len() + 1, "it leaves nothing behind");

    // The table is replaced under a staged delete.
    let third = Uuid::new_v4();
    stage_update(&partition, third, |id| id == 501, None).await.unwrap();
    put(&partition, WriteMode::Overwrite, &[numbers(0, 3000)]).await;
    assert_conflict(partition.rebase(third, partition.version()).await.unwrap_err());
    partition.discard(third).await.unwrap();
    drop(pin);
    partition.discard(second).await.unwrap();
    partition.collect_garbage(later()).await.unwrap();
    assert_eq!(data_files(dir.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_files_gives_way_to_deletes_and_carries_appends_on() {
    let dir = TempDir::new().unwrap();
    let partition = three_files(&dir, 1000).await;
    let first = partition.pin(None).unwrap();
    let files: Vec<Uuid> = first.data_files().iter().map(|file| file.id).collect();
    let changed = |error: Error| {
        assert!(matches!(error, Error::FilesChanged { .. }) && error.is_retryable(), "{error}");
    };

    // An append comes between.
    let mut replacement = partition.replace_files(&first, &files[..2], WriteOptions::default()).unwrap();
    replacement.write(numbers(0, 2000)).await.unwrap();
    put(&partition, WriteMode::Append, &[numbers(3000, 3100)]).await;
    let replaced = replacement.commit().await.unwrap();
    assert_eq!((replaced.files_out, replaced.new.rows), (2, 2000));
    assert_eq!(ids(&partition, None).await, (0..3100).collect::<Vec<_>>());
    assert_eq!(ids(&partition, Some(3)).await, (0..3000).collect::<Vec<_>>());

    // A file that has gone, or is of no pinned version.
    changed(rewrite(&partition, &first, &files[..1]).await.unwrap_err());
    changed(partition.replace_files(&first, &[Uuid::new_v4()], WriteOptions::default()).err().unwrap());

    drop(first);

    // A delete comes between.
    let pin = partition.pin(None).unwrap();
    let mut replacement = partition.replace_files(&pin, &files[2..], WriteOptions::default()).unwrap();
    replacement.write(numbers(2000, 3000)).await.unwrap();
    delete(&partition, |id| id == 2500).await;
    changed(replacement.commit().await.unwrap_err());
    drop(pin);

    // A delete is staged, and the file stays until it is published or discarded.
    let staged = Uuid::new_v4();
    stage_update(&partition, staged, |id| id == 2600, None).await.unwrap();
    assert!(partition.held_files().contains(&files[2]));
    changed(rewrite_all(&partition).await.unwrap_err());
    partition.publish(staged, partition.version() + 1).await.unwrap();
    rewrite_all(&partition).await.unwrap();

    // A delete was being written while the file went: it is told when it finishes.
    let pin = partition.pin(None).unwrap();
    let late = row_ids(&pin, |id| id == 7).await;
    drop(pin);
    let mut writer = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    late.iter().for_each(|batch| {
        writer.delete_batch(batch).unwrap();
    });
    rewrite_all(&partition).await.unwrap();
    assert_conflict(writer.finish().await.unwrap_err());

    // Rows must stay the same in number.
    let pin = partition.pin(None).unwrap();
    let all: Vec<Uuid> = pin.data_files().iter().map(|file| file.id).collect();
    let mut replacement = partition.replace_files(&pin, &all, WriteOptions::default()).unwrap();
    replacement.write(numbers(0, 5)).await.unwrap();
    assert!(matches!(replacement.commit().await, Err(Error::ReplacementRows { expected: 3098, found: 5, .. })));
    let expected: Vec<i64> = (0..3100).filter(|id| *id != 2500 && *id != 2600).collect();
    assert_eq!(ids(&partition, None).await, expected);
    drop(pin);
    // Nothing that was begun and refused is left; nor what was replaced, once the old versions are gone.
    partition.collect_garbage(later()).await.unwrap();
    assert_eq!(data_files(dir.path()).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_keeps_its_generation_while_files_are_replaced_and_collected() {
    let dir = TempDir::new().unwrap();
    let partition = three_files(&dir, 70_000).await;
    delete(&partition, |id| id % 5 == 0).await;
    let expected: Vec<i64> = (0..210_000).filter(|id| id % 5 != 0).collect();
    let pin = partition.pin(None).unwrap();
    let plan = scan(&[pin], &ScanRequest::default()).unwrap();
    let mut stream = plan.execute(0, SessionContext::new().task_ctx()).unwrap();
    let mut batches = vec![stream.next().await.unwrap().unwrap()];

    for round in 0..2 {
        rewrite_all(&partition).await.unwrap();
        delete(&partition, |id| id % 1000 == round + 1).await;
        partition.collect_garbage(later()).await.unwrap();
    }
    while let Some(batch) = stream.next().await {
        batches.push(batch.unwrap());
    }
    let mut found = first_column(&batches);
    found.sort_unstable();
    assert_eq!(found, expected);
    assert!(data_files(dir.path()).len() > 3, "the old files are still held");
    drop((stream, plan));
    partition.collect_garbage(later()).await.unwrap();
    assert_eq!(data_files(dir.path()).len() as u64, partition.summary().files);

    // After a restart the old version is gone, and says so.
    drop(partition);
    let partition = Partition::open(dir.path(), options()).unwrap();
    assert!(matches!(partition.pin(Some(4)), Err(Error::VersionExpired { .. })));
    let left: Vec<i64> = expected.into_iter().filter(|id| ![1, 2].contains(&(id % 1000))).collect();
    assert_eq!(ids(&partition, None).await, left);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_or_missing_vector_is_an_error_and_never_empty() {
    let damages = [
        "DELETE FROM deletion_vectors",
        "DELETE FROM deletion_vectors WHERE removed_generation IS NULL",
        "UPDATE deletion_vectors SET positions = zeroblob(8)",
        "UPDATE deletion_vectors SET sha256 = zeroblob(32)",
        "UPDATE deletion_vectors SET rows = rows + 1",
        "UPDATE files SET deleted_rows = deleted_rows + 1 WHERE deleted_rows > 0",
        // Of another file.
        "UPDATE deletion_vectors SET file = (SELECT path FROM files ORDER BY file_id LIMIT 1)",
    ];
    for damage in damages {
        let dir = TempDir::new().unwrap();
        let partition = three_files(&dir, 1000).await;
        delete(&partition, |id| (1100..1200).contains(&id)).await;
        delete(&partition, |id| (1200..1250).contains(&id)).await;
        let file = partition.pin(None).unwrap().data_files()[1].id.simple().to_string();
        assert!(partition.verify().await.unwrap().damaged.is_empty());
        assert_eq!(partition.verify().await.unwrap().vectors, 2);
        drop(partition);
        let connection = rusqlite::Connection::open(dir.path().join("partition.db")).unwrap();
        let outcome = connection.execute(damage, []);
        drop(connection);
        let Ok(1..) = outcome else {
            // Two vectors of one file have different generations; the last damage moves both.
            panic!("{damage}: {outcome:?}")
        };
        let error = Partition::open(dir.path(), options()).unwrap_err();
        assert!(error.is_damage(), "{damage}: {error}");
        let message = error.to_string();
        for part in ["table 'orders'", "partition 'bucket(4, k)=2'"] {
            assert!(message.contains(part), "{damage}: {message}");
        }
        assert!(message.contains("files/"), "{damage}: {message}");
        assert!(message.contains(&file) || damage.contains("SET file"), "{damage}: {message}");
    }

    // While open, verifying finds it.
    let dir = TempDir::new().unwrap();
    let partition = three_files(&dir, 1000).await;
    delete(&partition, |id| id == 7).await;
    let connection = rusqlite::Connection::open(dir.path().join("partition.db")).unwrap();
    connection.execute("UPDATE deletion_vectors SET positions = zeroblob(30)", []).unwrap();
    drop(connection);
    let report = partition.verify().await.unwrap();
    assert_eq!(report.damaged.len(), 1);
    assert!(report.damaged[0].problem.contains("deletion vector"), "{}", report.damaged[0].problem);
    // Staged deletes are no different.
    let write_id = Uuid::new_v4();
    stage_update(&partition, write_id, |id| id == 2000, None).await.unwrap();
    delete(&partition, |id| id == 8).await;
    drop(partition);
    let connection = rusqlite::Connection::open(dir.path().join("partition.db")).unwrap();
    connection.execute("DELETE FROM deletion_vectors WHERE removed_generation IS NOT NULL", []).unwrap();
    connection.execute("DELETE FROM versions WHERE version = 4", []).unwrap();
    connection.execute("DELETE FROM staged_deletes", []).unwrap();
    drop(connection);
    let error = Partition::open(dir.path(), options()).unwrap_err();
    assert!(error.is_damage() && error.to_string().contains("staged write"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_are_found_by_time() {
    let dir = TempDir::new().unwrap();
    let now = Arc::new(AtomicU64::new(1_000_000));
    let clock = Arc::clone(&now);
    let options = PartitionOptions {
        clock: Clock::new(move || UNIX_EPOCH + Duration::from_millis(clock.load(Ordering::SeqCst))),
        ..options()
    };
    let at = |ms: u64| UNIX_EPOCH + Duration::from_millis(ms);
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), options).unwrap();
    for version in 1..=3 {
        now.store(1_000_000 + version * 1000, Ordering::SeqCst);
        put(&partition, WriteMode::Append, &[numbers(0, 1)]).await;
    }
    for (ms, version) in [(1_000_000, 0), (1_000_999, 0), (1_001_000, 1), (1_002_500, 2), (9_000_000, 3)] {
        assert_eq!(partition.pin_at(at(ms)).unwrap().version(), version, "{ms}");
    }
    let error = partition.pin_at(at(999_999)).unwrap_err();
    assert!(error.to_string().contains("1970-01-01T00:16:39.999Z"), "{error}");
    // The versions that the retention has let go are no answer, nor is a later one in their place.
    partition.collect_garbage(at(9_000_000)).await.unwrap();
    assert!(matches!(partition.pin_at(at(1_002_500)), Err(Error::NoVersionAt { .. })));
    assert_eq!(partition.pin_at(at(1_003_000)).unwrap().version(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn vectors_that_newer_ones_replaced_are_collected() {
    let dir = TempDir::new().unwrap();
    let partition = three_files(&dir, 1000).await;
    for round in 0..4 {
        delete(&partition, |id| id == 1000 + round).await;
    }
    assert_eq!(partition.verify().await.unwrap().vectors, 4);
    let pin = partition.pin(Some(5)).unwrap();
    partition.collect_garbage(later()).await.unwrap();
    assert_eq!(partition.verify().await.unwrap().vectors, 2, "the pinned one and the current one");
    let held = first_column(&run(scan(&[pin], &ScanRequest::default()).unwrap()).await);
    assert_eq!(held.len(), 2998);
    let report = partition.collect_garbage(later()).await.unwrap();
    assert_eq!(report.vectors, 1);
    drop(partition);
    let partition = Partition::open(dir.path(), options()).unwrap();
    assert_eq!(partition.verify().await.unwrap().vectors, 1);
    assert_eq!(partition.summary().rows, 2996);
}

#[test]
fn reserved_names_are_no_columns() {
    for name in [FILE_COLUMN, ROW_COLUMN] {
        let schema = arrow::datatypes::Schema::new(vec![arrow::datatypes::Field::new(name, DataType::Int64, true)]);
        let error = cayenne::check_schema(&schema).unwrap_err();
        assert!(matches!(error, Error::BadSchema { .. }) && error.to_string().contains(name), "{error}");
    }
}

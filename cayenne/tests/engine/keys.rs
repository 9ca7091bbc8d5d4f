//! Primary keys: one row per key, whatever comes in what order.
//!
//! T01, T02, T04 and T05 of the collected cases are here by name.

use arrow::array::{ArrayRef, Int64Array};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use cayenne::{
    ConflictDetection, DeletionMode, Error, KeyRule, Partition, PartitionOptions, Retention, ScanRequest,
    TableSettings, WriteMode, WriteOptions, scan,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;
use crate::keyed::*;

fn at_once() -> PartitionOptions {
    PartitionOptions::default()
}

/// Keys of no write and no table fit: all is read from files.
fn no_memory() -> PartitionOptions {
    PartitionOptions { key_memory_bytes: 100, target_file_bytes: 4 << 10, ..PartitionOptions::default() }
}

fn both() -> [(&'static str, PartitionOptions); 2] {
    [("in memory", at_once()), ("from files", no_memory())]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t01_repeats_inside_one_batch() {
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_id(), options);
        let batch = rows(&[row(1, 10), row(1, 10), row(1, 11), row(2, 20)]);
        assert_eq!(upsert(&partition, std::slice::from_ref(&batch)).await, counts(2, 0, 2, 0), "{what}");
        assert_eq!(values(&partition).await, vec![(1, 11), (2, 20)], "{what}");
        assert_eq!(partition.summary().rows, 2, "{what}");
        match insert(&partition, &[rows(&[row(7, 1), row(7, 2)])]).await {
            Err(Error::DuplicateKey { key, within: true, .. }) => assert_eq!(key, "(7)", "{what}"),
            other => panic!("{what}: {other:?}"),
        }
        match insert(&partition, &[rows(&[row(3, 1), row(2, 2)])]).await {
            Err(error @ Error::DuplicateKey { within: false, .. }) => {
                assert!(error.to_string().contains("the key (2) is there already"), "{what}: {error}");
                assert!(error.is_invalid_input() && !error.is_retryable(), "{what}");
            }
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(values(&partition).await, vec![(1, 11), (2, 20)], "{what}: unchanged");
        assert!(partition.staged().is_empty(), "{what}");
        assert_eq!(insert(&partition, &[rows(&[row(3, 30)])]).await.unwrap(), counts(1, 0, 0, 0), "{what}");
        // A write that replaces all rows settles its own repeats.
        let (id, summary) = stage_rows(&partition, WriteMode::Overwrite, None, &[batch]).await.unwrap();
        assert_eq!(summary.keys, Some(counts(2, 0, 2, 0)), "{what}");
        publish_next(&partition, id).await;
        assert_eq!(values(&partition).await, vec![(1, 11), (2, 20)], "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t02_repeats_across_batches_chunks_files_and_writers() {
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_id(), options);
        // The last row of a batch and the first of the next; within a batch over the border of chunks.
        // (More than a file takes at once, where there is memory for it.)
        let (all, different) = if what == "in memory" { (70_000, 65_536) } else { (3_000, 2_500) };
        let large: Vec<Row> = (0..all).map(|n| row(n % different, n)).collect();
        let batches = [rows(&[row(1, 1), row(2, 2)]), rows(&[row(2, 3), row(3, 3)]), rows(&large)];
        let summary = upsert(&partition, &batches).await;
        assert_eq!(summary, counts(different as u64, 0, 4 + (all - different) as u64, 0), "{what}");
        let found = values(&partition).await;
        assert_eq!(found.len() as i64, different, "{what}");
        assert!(
            found.iter().all(|(id, value)| *value == if *id < all - different { id + different } else { *id }),
            "{what}"
        );
        // Two writers of one key: the later commit has it, as a whole.
        let a = stage_rows(&partition, WriteMode::Append, None, &[rows(&[row(5, -1), row(-1, -1)])]).await.unwrap().0;
        let b = stage_rows(&partition, WriteMode::Append, None, &[rows(&[row(5, -2), row(-1, -2)])]).await.unwrap().0;
        publish_next(&partition, b).await;
        assert_eq!(partition.rebase(a, partition.version()).await.unwrap().keys, Some(counts(0, 2, 0, 0)), "{what}");
        publish_next(&partition, a).await;
        let found = values(&partition).await;
        assert_eq!(found.len() as i64, different + 1, "{what}");
        assert_eq!(found[0], (-1, -1), "{what}");
        assert_eq!(found[6], (5, -1), "{what}");
    }
}

/// Many writers at once over the same keys: one row per key, and each row one that somebody wrote.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t02_concurrent_writers_leave_one_row_per_key() {
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_id(), options);
        let order = Arc::new(tokio::sync::Mutex::new(()));
        let mut tasks = Vec::new();
        for writer in 0..8i64 {
            let (partition, order) = (partition.clone(), Arc::clone(&order));
            tasks.push(tokio::spawn(async move {
                for round in 0..5 {
                    let batch: Vec<Row> =
                        (0..20).map(|id| Row { at: Some(writer), ..row(id, writer * 100 + round) }).collect();
                    let staged = stage_rows(&partition, WriteMode::Append, None, &[rows(&batch)]).await.unwrap().0;
                    // Somebody decides the order of versions.
                    let _turn = order.lock().await;
                    publish_next(&partition, staged).await;
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        let found = current(&partition).await;
        assert_eq!(found.iter().map(|row| row.id).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>(), "{what}");
        // All rows are of one writer, the last one.
        assert!(found.iter().all(|row| row.value == found[0].value && row.at == Some(row.value / 100)), "{what}");
        assert_eq!(partition.version(), 40, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t04_upserts_after_a_restart() {
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_id_and_region(), options.clone());
        let us = |id, value| Row { region: "US", ..row(id, value) };
        upsert(&partition, &[rows(&[row(1, 1), us(1, 2), row(2, 3), row(3, 4), row(4, 5)])]).await;
        assert_eq!(upsert(&partition, &[rows(&[row(1, 10), us(1, 20), row(5, 50)])]).await, counts(1, 2, 0, 0));
        // A write that is sealed before the end of the process and published after it.
        let write_id = Uuid::new_v4();
        let mut writer = partition.begin_write(write_id, WriteMode::Append).await.unwrap();
        writer.write(rows(&[row(2, 29), row(9, 90), row(2, 30)])).await.unwrap();
        writer.delete_keys(&keys(&[(3, "EU"), (9, "EU"), (77, "EU")])).unwrap();
        let summary = writer.finish().await.unwrap();
        assert_eq!(summary.keys, Some(counts(0, 1, 2, 1)), "{what}");
        assert_eq!((summary.data.rows, summary.data.deleted_rows), (1, 2), "{what}");
        drop(partition);

        let partition = reopen(dir.path(), options.clone()).await;
        assert_eq!(partition.settings(), by_id_and_region(), "{what}");
        assert_eq!(partition.staged()[0].summary, summary, "{what}");
        let before = vec![(1, 10), (1, 20), (2, 3), (3, 4), (4, 5), (5, 50)];
        assert_eq!(values(&partition).await, before, "{what}");
        // Another write comes first.
        assert_eq!(upsert(&partition, &[rows(&[row(3, 33), row(4, 44)])]).await, counts(0, 2, 0, 0), "{what}");
        publish_next(&partition, write_id).await;
        let after = vec![(1, 10), (1, 20), (2, 30), (4, 44), (5, 50)];
        assert_eq!(values(&partition).await, after, "{what}");
        drop(partition);
        let partition = reopen(dir.path(), options).await;
        assert_eq!(values(&partition).await, after, "{what}");
        assert_eq!(upsert(&partition, &[rows(&[us(1, 2), row(3, 3)])]).await, counts(1, 1, 0, 0), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t05_overwrite_delete_and_upsert_of_one_key() {
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_id(), options);
        put(&partition, WriteMode::Overwrite, &[rows(&[row(7, 10)])]).await;
        assert_eq!(delete_keys(&partition, &[(7, "")]).await, counts(0, 0, 0, 1), "{what}");
        assert!(values(&partition).await.is_empty(), "{what}");
        assert_eq!(upsert(&partition, &[rows(&[row(7, 60)])]).await, counts(1, 0, 0, 0), "{what}");
        assert_eq!(values(&partition).await, vec![(7, 60)], "{what}");
        assert_eq!(delete_keys(&partition, &[(7, ""), (8, ""), (7, "")]).await, counts(0, 0, 0, 1), "{what}");
        assert_eq!(delete_keys(&partition, &[(7, "")]).await, counts(0, 0, 0, 0), "{what}");
    }
}

/// An older delete must not hide what came after it, even if it is published late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_hides_what_is_there_when_it_is_published() {
    let dir = TempDir::new().unwrap();
    let partition = create_keyed(dir.path(), by_id(), at_once());
    upsert(&partition, &[rows(&[row(1, 1)])]).await;
    let delete = Uuid::new_v4();
    let mut writer = partition.begin_write(delete, WriteMode::Append).await.unwrap();
    writer.delete_keys(&keys(&[(1, "")])).unwrap();
    writer.finish().await.unwrap();
    upsert(&partition, &[rows(&[row(1, 2)])]).await;
    publish_next(&partition, delete).await;
    assert!(values(&partition).await.is_empty());
    upsert(&partition, &[rows(&[row(1, 3)])]).await;
    assert_eq!(values(&partition).await, vec![(1, 3)]);
    // Old versions show what they showed.
    assert_eq!(rows_of(&partition.pin(Some(2)).unwrap()).await, vec![row(1, 2)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_newest_time_stays() {
    let at = |id, value, at| Row { at, ..row(id, value) };
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_time(by_id()), options.clone());
        let first =
            [at(1, 1, Some(10)), at(1, 2, None), at(2, 3, None), at(2, 4, None), at(3, 5, Some(5)), at(3, 6, Some(5))];
        assert_eq!(upsert(&partition, &[rows(&first)]).await, counts(3, 0, 3, 0), "{what}");
        assert_eq!(values(&partition).await, vec![(1, 1), (2, 4), (3, 6)], "{what}");
        let later = [at(1, 7, Some(9)), at(2, 8, Some(-1)), at(3, 9, Some(5)), at(4, 10, None)];
        assert_eq!(upsert(&partition, &[rows(&later)]).await, counts(1, 2, 1, 0), "{what}");
        assert_eq!(values(&partition).await, vec![(1, 1), (2, 8), (3, 9), (4, 10)], "{what}");
        // SQL INSERT goes by arrival although there is a time column.
        let last = Some(KeyRule::LastArrival);
        let (id, _) = stage_rows(&partition, WriteMode::Append, last, &[rows(&[at(1, 11, None)])]).await.unwrap();
        publish_next(&partition, id).await;
        assert_eq!(values(&partition).await[0], (1, 11), "{what}");
        // And its time counts for the refresh after it.
        let (id, summary) =
            stage_rows(&partition, WriteMode::Append, last, &[rows(&[at(3, 14, Some(70))])]).await.unwrap();
        assert_eq!(summary.keys, Some(counts(0, 1, 0, 0)), "{what}");
        publish_next(&partition, id).await;
        assert_eq!(upsert(&partition, &[rows(&[at(3, 15, Some(69))])]).await, counts(0, 0, 1, 0), "{what}");
        // Two refreshes at once: the newer time wins in either order of commits.
        let old = stage_rows(&partition, WriteMode::Append, None, &[rows(&[at(2, 12, Some(50))])]).await.unwrap().0;
        let new = stage_rows(&partition, WriteMode::Append, None, &[rows(&[at(2, 13, Some(60))])]).await.unwrap().0;
        publish_next(&partition, new).await;
        drop(partition);
        let partition = reopen(dir.path(), options).await;
        assert_eq!(partition.rebase(old, partition.version()).await.unwrap().keys, Some(counts(0, 0, 1, 0)), "{what}");
        publish_next(&partition, old).await;
        assert_eq!(values(&partition).await, vec![(1, 11), (2, 13), (3, 14), (4, 10)], "{what}");
        assert_eq!(partition.summary().rows, 4, "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_update_never_replaces_another_row() {
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_id(), options);
        upsert(&partition, &[rows(&(0..10).map(|id| row(id, id)).collect::<Vec<_>>())]).await;
        let expected = values(&partition).await;
        // A stored row that is not updated.
        match stage_key_update(&partition, |old| old.id == 1, |old| Row { id: 2, ..old }).await {
            Err(Error::DuplicateKey { key, within: false, .. }) => assert_eq!(key, "(2)", "{what}"),
            other => panic!("{what}: {other:?}"),
        }
        // Two updated rows.
        match stage_key_update(&partition, |old| old.id < 2, |old| Row { id: 100, ..old }).await {
            Err(Error::DuplicateKey { key, within: true, .. }) => assert_eq!(key, "(100)", "{what}"),
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(values(&partition).await, expected, "{what}: unchanged");
        // All keys move to those of their neighbours.
        let shifted = stage_key_update(&partition, |_| true, |old| Row { id: old.id + 1, ..old }).await.unwrap();
        publish_next(&partition, shifted).await;
        let expected: Vec<_> = (0..10).map(|id| (id + 1, id)).collect();
        assert_eq!(values(&partition).await, expected, "{what}");
        assert_eq!(found(&partition, &[(0, ""), (1, ""), (10, "")]).await.len(), 2, "{what}");

        // Somebody inserts the new key meanwhile: a conflict that a repetition solves or names.
        let update = stage_key_update(&partition, |old| old.id == 1, |old| Row { id: 50, ..old }).await.unwrap();
        upsert(&partition, &[rows(&[row(50, 500)])]).await;
        match partition.rebase(update, partition.version()).await {
            Err(error @ Error::WriteConflict { .. }) => {
                assert!(error.is_retryable() && error.to_string().contains("(50)"), "{what}: {error}");
            }
            other => panic!("{what}: {other:?}"),
        }
        assert!(matches!(partition.publish(update, partition.version() + 1).await, Err(Error::WriteConflict { .. })));
        partition.discard(update).await.unwrap();
        // Somebody replaces the row that is updated.
        let update = stage_key_update(&partition, |old| old.id == 2, |old| Row { value: 7, ..old }).await.unwrap();
        upsert(&partition, &[rows(&[row(2, 200)])]).await;
        assert!(matches!(partition.rebase(update, partition.version()).await, Err(Error::WriteConflict { .. })));
        partition.discard(update).await.unwrap();
        // Somebody has replaced it before the update is finished: no key was there that should not be.
        let old = partition.pin(None).unwrap();
        upsert(&partition, &[rows(&[row(2, 201)])]).await;
        match stage_key_update_at(&partition, &old, |old| old.id == 2, |old| Row { value: 9, ..old }).await {
            Err(error @ Error::WriteConflict { .. }) => assert!(error.is_retryable(), "{what}: {error}"),
            other => panic!("{what}: {other:?}"),
        }
        // The row has been moved to another file: a conflict too, although there is no other version.
        let old = partition.pin(None).unwrap();
        let version = partition.version();
        rewrite_all(&partition).await.unwrap();
        assert_eq!(partition.version(), version, "{what}");
        match stage_key_update_at(&partition, &old, |old| old.id == 2, |old| Row { value: 9, ..old }).await {
            Err(error @ Error::WriteConflict { .. }) => assert!(error.is_retryable(), "{what}: {error}"),
            other => panic!("{what}: {other:?}"),
        }
        drop(old);
        // Somebody changes other rows: none.
        let update = stage_key_update(&partition, |old| old.id == 2, |old| Row { value: 8, ..old }).await.unwrap();
        upsert(&partition, &[rows(&[row(3, 300)])]).await;
        partition.rebase(update, partition.version()).await.unwrap();
        publish_next(&partition, update).await;
        assert_eq!(values(&partition).await[1..3], [(2, 8), (3, 300)], "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_key_is_refused() {
    let dir = TempDir::new().unwrap();
    let partition = create_keyed(dir.path(), by_id_and_region(), at_once());
    let schema = keyed_schema();
    let mut columns: Vec<ArrayRef> = rows(&[row(1, 1), row(2, 2)]).columns().to_vec();
    columns[0] = Arc::new(Int64Array::from(vec![Some(1), None]));
    let with_null = RecordBatch::try_new(schema, columns).unwrap();
    let mut writer = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    for refused in [writer.check(&with_null), writer.write(with_null.clone()).await] {
        match refused {
            Err(Error::NullInKey { column, nulls, .. }) => assert_eq!((column.as_str(), nulls), ("id", 1)),
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(writer.delete_keys(&with_null), Err(Error::NullInKey { .. })));
    let without = with_null.project(&[1, 2]).unwrap();
    assert!(matches!(writer.delete_keys(&without), Err(Error::SchemaMismatch { .. })));
    // Nothing was taken in, so the writer is whole.
    writer.write(rows(&[row(3, 3)])).await.unwrap();
    assert_eq!(writer.finish().await.unwrap().data.rows, 1);

    let float = Arc::new(Schema::new(vec![Field::new("id", DataType::Float64, false)]));
    let refused = Partition::create_table(&dir.path().join("x"), identity(), float, by_id(), at_once());
    assert!(matches!(refused, Err(Error::BadKey { column, .. }) if column == "id"));

    let keyless = create(&dir.path().join("y"), keyed_schema());
    let mut writer = keyless.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    assert!(matches!(writer.delete_keys(&keys(&[(1, "EU")])), Err(Error::NoKey { .. })));
    assert!(matches!(keyless.lookup(&keys(&[]), &ScanRequest::default()).await, Err(Error::NoKey { .. })));
    drop(writer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_conflict_detection_rows_stay_as_written() {
    let dir = TempDir::new().unwrap();
    let settings = TableSettings { conflict_detection: ConflictDetection::None, ..by_id() };
    let partition = create_keyed(dir.path(), settings.clone(), at_once());
    put(&partition, WriteMode::Append, &[rows(&[row(1, 1), row(1, 2)])]).await;
    put(&partition, WriteMode::Append, &[rows(&[row(1, 3)])]).await;
    assert_eq!(values(&partition).await, vec![(1, 1), (1, 2), (1, 3)]);
    drop(partition);
    let partition = reopen(dir.path(), at_once()).await;
    assert_eq!(partition.settings(), settings);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_found_by_key_and_little_is_read() {
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_id_and_region(), options.clone());
        for part in 0..5 {
            let list: Vec<Row> = (0..1_000).map(|n| Row { region: REGIONS[n as usize % 3], ..row(n, part) }).collect();
            let list: Vec<Row> = list.into_iter().filter(|row| row.id % 5 == part || part == 0).collect();
            upsert(&partition, &[rows(&list)]).await;
        }
        delete_keys(&partition, &[(9, "EU")]).await;
        let expect = |id: i64| Row { region: REGIONS[id as usize % 3], ..row(id, id % 5) };
        let asked = [(7, "US"), (9, "EU"), (998, REGIONS[2]), (7, "EU"), (5_000, "EU"), (7, "US")];
        assert_eq!(found(&partition, &asked).await, vec![expect(7), expect(998)], "{what}");
        let (ours, memory) = sessions(vec![partition.clone()], vec![rows(&current(&partition).await)], 2);
        for sql in [
            "SELECT * FROM t WHERE id = 7 AND region = 'US'",
            "SELECT count(*), min(value) FROM t WHERE region = 'US' AND 7 = id AND value > 1",
            "SELECT value FROM t WHERE id = 7 AND region = 'US' AND value = 77",
            "SELECT count(*) FROM t WHERE id = 9 AND region = 'EU'",
            "SELECT count(*) FROM t WHERE id = 7",
            "SELECT count(*) FROM t WHERE id = 7 AND region = NULL",
        ] {
            same(&ours, &memory, sql).await;
        }
        let plan = explain(&ours, "SELECT * FROM t WHERE id = 7 AND region = 'US'").await;
        if what == "in memory" {
            assert!(plan.contains("files_total=5, files_pruned=4, rows_by_key=1"), "{what}: {plan}");
            let plan = explain(&ours, "SELECT * FROM t WHERE id = 9 AND region = 'EU'").await;
            assert!(plan.contains("files_total=5, files_pruned=5"), "{what}: {plan}");
        }
        // An old version is read as it was, whatever the index knows of the new one.
        let old = partition.pin(None).unwrap();
        upsert(&partition, &[rows(&[Row { region: "US", ..row(7, 70) }])]).await;
        let schema = datafusion::common::DFSchema::try_from(keyed_schema()).unwrap();
        let is_seven = {
            use datafusion::prelude::{col, lit};
            let state = datafusion::prelude::SessionContext::new();
            state.create_physical_expr(col("id").eq(lit(7i64)).and(col("region").eq(lit("US"))), &schema).unwrap()
        };
        let request = ScanRequest { predicates: vec![is_seven], ..ScanRequest::default() };
        assert_eq!(decode(&run(scan(&[old], &request).unwrap()).await), vec![expect(7)], "{what}");
        let new = decode(&run(scan(&[partition.pin(None).unwrap()], &request).unwrap()).await);
        assert_eq!(new, vec![Row { value: 70, ..expect(7) }], "{what}");
        drop((ours, partition));
        // After a restart nothing is in memory yet.
        let partition = reopen(dir.path(), options).await;
        assert_eq!(found(&partition, &asked[..3]).await, vec![Row { value: 70, ..expect(7) }, expect(998)], "{what}");
    }
}

/// While files are rewritten their rows are replaced and deleted: by key the rewrite follows, by position it gives way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rewrites_follow_deletes_by_key() {
    for mode in [DeletionMode::Key, DeletionMode::Position] {
        for (what, options) in both() {
            let dir = TempDir::new().unwrap();
            let settings = TableSettings { deletion_mode: mode, ..by_id() };
            let partition = create_keyed(dir.path(), settings, options);
            for part in 0..3 {
                let list: Vec<Row> = (0..500).map(|n| row(part * 500 + n, 0)).collect();
                upsert(&partition, &[rows(&list)]).await;
            }
            delete_keys(&partition, &[(0, ""), (700, "")]).await;
            let pin = partition.pin(None).unwrap();
            let files: Vec<Uuid> = pin.data_files().iter().map(|file| file.id).collect();
            upsert(&partition, &[rows(&[row(1, 1), row(701, 1), row(5_000, 1)])]).await;
            delete_keys(&partition, &[(1_400, ""), (3, "")]).await;
            delete(&partition, |id| id == 702).await;
            let expected = values(&partition).await;
            assert_eq!(expected.len(), 1_500 - 2 + 1 - 3, "{what}");
            let rewritten = rewrite(&partition, &pin, &files).await;
            match mode {
                DeletionMode::Key => {
                    let generation = partition.pin(None).unwrap().generation();
                    assert_eq!(rewritten.unwrap().generation, generation, "{what}");
                }
                _ => assert!(matches!(rewritten, Err(Error::FilesChanged { .. })), "{what}: {rewritten:?}"),
            }
            assert_eq!(values(&partition).await, expected, "{what}, {mode:?}");
            // Keys are found where they are now.
            assert_eq!(upsert(&partition, &[rows(&[row(2, 2), row(3, 2), row(701, 2)])]).await, counts(1, 2, 0, 0));
            rewrite_all(&partition).await.unwrap();
            assert_eq!(upsert(&partition, &[rows(&[row(2, 3), row(1_400, 3)])]).await, counts(1, 1, 0, 0), "{what}");
            assert_eq!(values(&partition).await.len(), expected.len() + 2, "{what}");
            drop((pin, partition));
            let partition = reopen(dir.path(), at_once()).await;
            assert_eq!(values(&partition).await.len(), expected.len() + 2, "{what}");
        }
    }
}

/// Upserts, rewrites of all files, clean-up, scans and look-ups side by side: each reader sees every key once, and never an
/// older value than it has seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_rewrites_and_readers_side_by_side() {
    const KEYS: i64 = 200;
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let retention = Retention { versions: 0, grace: Duration::ZERO };
        let partition = create_keyed(dir.path(), by_id(), PartitionOptions { retention, ..options });
        upsert(&partition, &[rows(&(0..KEYS).map(|id| row(id, 0)).collect::<Vec<_>>())]).await;
        let done = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn({
            let (partition, done) = (partition.clone(), Arc::clone(&done));
            async move {
                for round in 1..=30 {
                    let some: Vec<Row> = (0..KEYS).filter(|id| id % 7 == round % 7).map(|id| row(id, round)).collect();
                    assert_eq!(upsert(&partition, &[rows(&some)]).await, counts(0, some.len() as u64, 0, 0));
                }
                done.store(true, Ordering::SeqCst);
            }
        });
        let rewriter = tokio::spawn({
            let (partition, done) = (partition.clone(), Arc::clone(&done));
            async move {
                let mut rewritten = 0;
                while !done.load(Ordering::SeqCst) {
                    match rewrite_all(&partition).await {
                        Ok(_) => rewritten += 1,
                        // A file lost its last row meanwhile.
                        Err(Error::FilesChanged { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
                }
                rewritten
            }
        });
        let mut last = vec![0; KEYS as usize];
        while !done.load(Ordering::SeqCst) {
            let seen = values(&partition).await;
            assert_eq!(seen.len() as i64, KEYS, "{what}");
            for (at, (id, value)) in seen.into_iter().enumerate() {
                assert!(id == at as i64 && value >= last[at], "{what}: {id} has {value} after {}", last[at]);
                last[at] = value;
            }
            let one = found(&partition, &[(5, "")]).await;
            assert!(one.len() == 1 && one[0].value >= last[5], "{what}: {one:?} after {}", last[5]);
        }
        writer.await.unwrap();
        assert!(rewriter.await.unwrap() > 0, "{what}");
        let expected: Vec<(i64, i64)> =
            (0..KEYS).map(|id| (id, (1..=30).rev().find(|round| round % 7 == id % 7).unwrap())).collect();
        assert_eq!(values(&partition).await, expected, "{what}");
    }
}

/// A staged upsert holds no files: they can be rewritten between its seal and its publication.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_can_be_rewritten_under_a_staged_upsert() {
    for (what, options) in both() {
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_id(), options);
        upsert(&partition, &[rows(&(0..2_000).map(|id| row(id, 0)).collect::<Vec<_>>())]).await;
        let staged = stage_rows(&partition, WriteMode::Append, None, &[rows(&[row(5, 5), row(9_000, 5)])]).await;
        rewrite_all(&partition).await.unwrap();
        publish_next(&partition, staged.unwrap().0).await;
        let found = values(&partition).await;
        assert_eq!((found.len(), found[5], found[2_000]), (2_001, (5, 5), (9_000, 5)), "{what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_key_encoding_is_refused_at_open() {
    let dir = TempDir::new().unwrap();
    drop(create_keyed(dir.path(), by_id(), at_once()));
    let database = rusqlite::Connection::open(dir.path().join("partition.db")).unwrap();
    database.execute("UPDATE settings SET value = 1 WHERE key = 'key_encoding'", []).unwrap();
    drop(database);
    match Partition::open(dir.path(), at_once()) {
        Err(Error::KeyEncoding { found: 1, expected: 2, .. }) => {}
        other => panic!("{other:?}"),
    }
}

/// Repeating a publication, and a write whose id was sealed, says the same again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_are_said_again() {
    let dir = TempDir::new().unwrap();
    let partition = create_keyed(dir.path(), by_id(), at_once());
    let write_id = Uuid::new_v4();
    let mut writer = partition.begin_write_with(write_id, WriteMode::Append, WriteOptions::default()).await.unwrap();
    writer.write(rows(&[row(1, 1), row(1, 2)])).await.unwrap();
    writer.finish().await.unwrap();
    upsert(&partition, &[rows(&[row(1, 0)])]).await;
    partition.publish(write_id, 2).await.unwrap();
    partition.publish(write_id, 2).await.unwrap();
    match partition.begin_write(write_id, WriteMode::Append).await.err() {
        Some(Error::WriteSealed { published: Some(2), summary, .. }) => {
            assert_eq!(summary.keys, Some(counts(0, 1, 1, 0)), "as of its publication");
        }
        other => panic!("{other:?}"),
    }
}

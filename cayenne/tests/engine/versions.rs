//! Staging, publishing, pinning, retention and what start-up checks.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arrow::array::{RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema};
use cayenne::{Error, Partition, PartitionOptions, Retention, ScanRequest, WriteMode, scan};
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_is_invisible_until_published_and_may_be_repeated() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    let write_id = Uuid::new_v4();
    let mut writer = partition.begin_write(write_id, WriteMode::Append).await.unwrap();
    assert!(matches!(partition.begin_write(write_id, WriteMode::Append).await, Err(Error::WriteInProgress { .. })));
    writer.write(numbers(0, 1000)).await.unwrap();
    let summary = writer.finish().await.unwrap();
    assert_eq!((summary.data.rows, summary.data.files), (1000, 1));
    assert_eq!(partition.version(), 0);
    assert!(ids(&partition, None).await.is_empty());
    match partition.begin_write(write_id, WriteMode::Append).await {
        Err(Error::WriteSealed { published: None, summary: sealed, .. }) => assert_eq!(*sealed, summary),
        other => panic!("{:?}", other.err()),
    }

    // The staged write outlives the process.
    drop(partition);
    let partition = Partition::open(dir.path(), PartitionOptions::default()).unwrap();
    let staged = partition.staged();
    assert_eq!(staged.len(), 1);
    assert_eq!((staged[0].write_id, &staged[0].summary), (write_id, &summary));

    assert!(matches!(partition.publish(write_id, 2).await, Err(Error::VersionConflict { asked: 2, current: 0, .. })));
    partition.publish(write_id, 1).await.unwrap();
    partition.publish(write_id, 1).await.unwrap();
    assert!(matches!(partition.publish(write_id, 2).await, Err(Error::PublishedElsewhere { published: 1, .. })));
    assert!(matches!(partition.publish(Uuid::new_v4(), 2).await, Err(Error::UnknownWrite { .. })));
    assert!(matches!(partition.discard(write_id).await, Err(Error::PublishedElsewhere { .. })));
    assert!(partition.staged().is_empty());
    assert_eq!(ids(&partition, None).await, (0..1000).collect::<Vec<_>>());
    assert_eq!(partition.summary(), summary.data);
    match partition.begin_write(write_id, WriteMode::Append).await {
        Err(Error::WriteSealed { published: Some(1), .. }) => {}
        other => panic!("{:?}", other.err()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discarded_and_abandoned_writes_leave_nothing() {
    let dir = TempDir::new().unwrap();
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), small_files()).unwrap();
    let write_id = stage(&partition, WriteMode::Append, &[numbers(0, 20_000)]).await.unwrap();
    assert!(!data_files(dir.path()).is_empty());
    partition.discard(write_id).await.unwrap();
    partition.discard(write_id).await.unwrap();
    assert!(data_files(dir.path()).is_empty());
    assert!(partition.staged().is_empty());

    let mut writer = partition.begin_write(write_id, WriteMode::Append).await.unwrap();
    writer.write(numbers(0, 200_000)).await.unwrap();
    drop(writer);
    assert!(data_files(dir.path()).is_empty());
    let again = partition.begin_write(write_id, WriteMode::Append).await.unwrap();
    assert_eq!(again.finish().await.unwrap().data.rows, 0);
}

/// Whoever still holds something of a closed partition keeps nobody from opening it, and does nothing to it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_partition_can_be_opened_although_somebody_holds_it() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    put(&partition, WriteMode::Append, &[numbers(0, 100)]).await;
    let staged = stage(&partition, WriteMode::Append, &[numbers(100, 200)]).await.unwrap();
    let pin = partition.pin(None).unwrap();
    let plan = scan(std::slice::from_ref(&pin), &ScanRequest::default()).unwrap();
    let mut writer = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    writer.write(numbers(500, 600)).await.unwrap();
    assert!(matches!(Partition::open(dir.path(), PartitionOptions::default()), Err(Error::InUse { .. })));

    partition.close();
    partition.close();
    assert!(!dir.path().join("partition.db-wal").exists(), "the log was written into the metastore");
    let again = Partition::open(dir.path(), PartitionOptions::default()).unwrap();
    let closed = |outcome: cayenne::Result<()>| assert!(matches!(outcome, Err(Error::Closed { .. })), "{outcome:?}");
    closed(partition.publish(staged, 2).await.map(|_| ()));
    closed(partition.discard(staged).await);
    closed(partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.map(|_| ()));
    closed(partition.pin(None).map(|_| ()));
    closed(partition.collect_garbage(SystemTime::now()).await.map(|_| ()));
    // Its file has gone with what the new owner found unfinished.
    assert!(writer.finish().await.is_err());
    assert_eq!(first_column(&run(plan).await).len(), 100, "what was planned goes on");

    again.publish(staged, 2).await.unwrap();
    assert_eq!(ids(&again, None).await, (0..200).collect::<Vec<_>>());
    drop((pin, partition));
    assert_eq!(data_files(dir.path()).len(), 2);
    put(&again, WriteMode::Append, &[numbers(200, 300)]).await;
    drop(again);
    let last = Partition::open(dir.path(), PartitionOptions::default()).unwrap();
    assert_eq!(ids(&last, None).await, (0..300).collect::<Vec<_>>());
}

/// A caller that stops waiting for a batch must not be able to finish without it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_batch_breaks_the_writer() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    let mut writer = partition.begin_write(Uuid::new_v4(), WriteMode::Append).await.unwrap();
    writer.write(numbers(0, 10)).await.unwrap();
    let slow = writer.write(numbers(0, 3_000_000));
    assert!(tokio::time::timeout(Duration::from_millis(1), slow).await.is_err());
    assert!(matches!(writer.write(numbers(0, 1)).await, Err(Error::WriterBroken { .. })));
    assert!(matches!(writer.finish().await, Err(Error::WriterBroken { .. })));
    assert!(data_files(dir.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_roll_at_their_size_and_add_up() {
    let dir = TempDir::new().unwrap();
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), small_files()).unwrap();
    let batches: Vec<RecordBatch> = (0..50).map(|part| numbers(part * 2000, (part + 1) * 2000)).collect();
    put(&partition, WriteMode::Append, &batches).await;
    let summary = partition.summary();
    assert!(summary.files > 3, "{} files", summary.files);
    assert_eq!(summary.files as usize, data_files(dir.path()).len());
    assert_eq!(summary.rows, 100_000);
    assert_eq!(ids(&partition, None).await, (0..100_000).collect::<Vec<_>>());
    assert!(partition.verify().await.unwrap().damaged.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_keep_their_version_while_it_is_replaced() {
    let dir = TempDir::new().unwrap();
    let options =
        PartitionOptions { retention: Retention { versions: 0, grace: Duration::from_secs(60) }, ..small_files() };
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), options.clone()).unwrap();
    put(&partition, WriteMode::Append, &[numbers(0, 50_000)]).await;
    let request = ScanRequest { streams: 1, ..ScanRequest::default() };
    let plan = scan(&[partition.pin(None).unwrap()], &request).unwrap();
    let mut stream = plan.execute(0, SessionContext::new().task_ctx()).unwrap();
    let mut rows = stream.next().await.unwrap().unwrap().num_rows();

    put(&partition, WriteMode::Overwrite, &[numbers(7, 9)]).await;
    assert_eq!(ids(&partition, None).await, vec![7, 8]);
    let later = SystemTime::now() + Duration::from_secs(3600);
    let report = partition.collect_garbage(later).await.unwrap();
    // Version 0 is of no use to anybody, version 1 is pinned by the plan.
    assert_eq!((report.versions, report.files), (1, 0));
    while let Some(batch) = stream.next().await {
        rows += batch.unwrap().num_rows();
    }
    assert_eq!(rows, 50_000);
    drop((stream, plan));

    // Within the grace period the old version is still there for newcomers.
    assert_eq!(partition.collect_garbage(SystemTime::now()).await.unwrap().versions, 0);
    assert_eq!(ids(&partition, Some(1)).await.len(), 50_000);
    let report = partition.collect_garbage(later).await.unwrap();
    assert_eq!(report.versions, 1);
    assert_eq!(report.files, 1);
    assert!(matches!(partition.pin(Some(1)), Err(Error::VersionExpired { version: 1, oldest: 2, current: 2, .. })));
    assert!(matches!(partition.pin(Some(3)), Err(Error::VersionNotYetHere { version: 3, current: 2, .. })));
    assert_eq!(data_files(dir.path()).len(), 1);

    drop(partition);
    let partition = Partition::open(dir.path(), options).unwrap();
    assert_eq!(partition.version(), 2);
    assert_eq!(ids(&partition, None).await, vec![7, 8]);
    assert!(matches!(partition.pin(Some(1)), Err(Error::VersionExpired { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_of_versions_can_be_kept() {
    let dir = TempDir::new().unwrap();
    let options =
        PartitionOptions { retention: Retention { versions: 2, grace: Duration::ZERO }, ..PartitionOptions::default() };
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), options).unwrap();
    for version in 1..=5 {
        put(&partition, WriteMode::Overwrite, &[numbers(version, version + 1)]).await;
    }
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
    assert!(partition.pin(Some(2)).is_err());
    for version in 3..=5 {
        assert_eq!(ids(&partition, Some(version)).await, vec![version as i64]);
    }
    assert_eq!(data_files(dir.path()).len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_writer_at_a_time_and_any_number_of_readers() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    put(&partition, WriteMode::Append, &[numbers(0, 10)]).await;
    assert!(matches!(Partition::open(dir.path(), PartitionOptions::default()), Err(Error::InUse { .. })));
    let reader = Partition::open_read_only(dir.path(), PartitionOptions::default()).unwrap();
    assert_eq!(ids(&reader, None).await.len(), 10);
    assert!(matches!(reader.begin_write(Uuid::new_v4(), WriteMode::Append).await, Err(Error::ReadOnly { .. })));
    assert!(matches!(
        Partition::create(dir.path(), identity(), numbers_schema(), PartitionOptions::default()),
        Err(Error::InUse { .. })
    ));
    drop(partition);
    assert!(matches!(
        Partition::create(dir.path(), identity(), numbers_schema(), PartitionOptions::default()),
        Err(Error::AlreadyExists { .. })
    ));
    let nowhere = TempDir::new().unwrap();
    assert!(matches!(Partition::open(nowhere.path(), PartitionOptions::default()), Err(Error::NotAPartition { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_can_be_moved() {
    let home = TempDir::new().unwrap();
    let first = home.path().join("first place");
    let partition = create(&first, numbers_schema());
    put(&partition, WriteMode::Append, &[numbers(0, 500)]).await;
    drop(partition);
    let second = home.path().join("sécond=%2F place");
    std::fs::rename(&first, &second).unwrap();
    let partition = Partition::open(&second, PartitionOptions::default()).unwrap();
    assert_eq!(partition.identity(), &identity());
    assert_eq!(ids(&partition, None).await.len(), 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_is_named_and_never_fewer_rows() {
    let dir = TempDir::new().unwrap();
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), small_files()).unwrap();
    put(&partition, WriteMode::Append, &[numbers(0, 30_000)]).await;
    put(&partition, WriteMode::Append, &[numbers(30_000, 31_000)]).await;
    let name = data_files(dir.path())[1].clone();
    let path = dir.path().join("files").join(&name);
    let original = std::fs::read(&path).unwrap();
    let names_all = |message: &str| {
        for part in ["orders", "bucket(4, k)=2", name.as_str()] {
            assert!(message.contains(part), "{message}");
        }
    };

    // One bit.
    let mut flipped = original.clone();
    flipped[100] ^= 4;
    std::fs::write(&path, &flipped).unwrap();
    let report = partition.verify().await.unwrap();
    assert_eq!(report.damaged.len(), 1);
    names_all(&report.damaged[0].problem);

    // Everything is overwritten at the same length, which only the content tells.
    std::fs::write(&path, vec![0xff; original.len()]).unwrap();
    let plan = scan(&[partition.pin(None).unwrap()], &ScanRequest::default()).unwrap();
    let error = datafusion::physical_plan::collect(plan, SessionContext::new().task_ctx()).await.unwrap_err();
    names_all(&error.to_string());
    assert!(error.to_string().contains("is damaged"), "{error}");

    // The tail is gone, while open and at start-up.
    std::fs::write(&path, &original[..original.len() - 10]).unwrap();
    let plan = scan(&[partition.pin(None).unwrap()], &ScanRequest::default()).unwrap();
    let error = datafusion::physical_plan::collect(plan, SessionContext::new().task_ctx()).await.unwrap_err();
    names_all(&error.to_string());
    drop(partition);
    match Partition::open(dir.path(), small_files()) {
        Err(error @ Error::FileLength { .. }) => names_all(&error.to_string()),
        other => panic!("{other:?}"),
    }

    std::fs::remove_file(&path).unwrap();
    match Partition::open(dir.path(), small_files()) {
        Err(error @ Error::FileMissing { .. }) => names_all(&error.to_string()),
        other => panic!("{other:?}"),
    }

    std::fs::write(&path, &original).unwrap();
    let partition = Partition::open(dir.path(), small_files()).unwrap();
    assert_eq!(ids(&partition, None).await.len(), 31_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_side_by_side_and_readers_on_top() {
    let dir = TempDir::new().unwrap();
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), small_files()).unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let partition = partition.clone();
            tokio::spawn(async move {
                let batches: Vec<_> =
                    (0..5).map(|part| numbers((writer * 5 + part) * 1000, (writer * 5 + part + 1) * 1000)).collect();
                stage(&partition, WriteMode::Append, &batches).await.unwrap()
            })
        })
        .collect();
    let mut version = 0;
    for writer in writers {
        let write_id = writer.await.unwrap();
        version += 1;
        partition.publish(write_id, version).await.unwrap();
        assert_eq!(ids(&partition, None).await.len(), version as usize * 5000);
    }
    assert_eq!(ids(&partition, None).await, (0..20_000).collect::<Vec<_>>());
    assert_eq!(ids(&partition, Some(2)).await.len(), 10_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_strings_keep_their_whole_bounds() {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, false)]));
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), Arc::clone(&schema));
    let text = |tail: char| format!("{}{}", "p".repeat(64), tail.to_string().repeat(36));
    let put_text = |values: Vec<String>| {
        let batch =
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(StringViewArray::from_iter_values(values))]);
        batch.unwrap()
    };
    put(&partition, WriteMode::Append, &[put_text(vec![text('a')])]).await;
    put(&partition, WriteMode::Append, &[put_text(vec![text('b')])]).await;
    let rows = vec![put_text(vec![text('a'), text('b')])];
    let (ours, memory) = sessions(vec![partition], rows, 2);
    for sql in [
        "SELECT min(s), max(s) FROM t",
        &format!("SELECT count(*) FROM t WHERE s > '{}'", text('a')),
        &format!("SELECT count(*) FROM t WHERE s = '{}'", text('b')),
        &format!("SELECT count(*) FROM t WHERE s >= '{}z'", "p".repeat(64)),
    ] {
        same(&ours, &memory, sql).await;
    }
}

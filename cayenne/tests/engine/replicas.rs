//! Replicas of a partition: what one has staged the other stages too, and whatever happens to files, both show the same rows.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use cayenne::{
    Error, InstallOptions, Partition, SchemaChange, StagedManifest, TableSettings, TransactionPart, WriteMode,
};
use uuid::Uuid;

use crate::harness::*;

fn keyed_table(dir: &Path) -> Partition {
    let settings = TableSettings { primary_key: vec!["id".to_owned()], ..TableSettings::default() };
    Partition::create_table(dir, identity(), numbers_schema(), settings, small_files()).unwrap()
}

fn plain_table(dir: &Path) -> Partition {
    Partition::create(dir, identity(), numbers_schema(), small_files()).unwrap()
}

async fn align(from: &Partition, to: &Partition) -> cayenne::Result<()> {
    let mut alignment = to.begin_alignment()?;
    let pin = from.pin(Some(to.version()))?;
    let manifest = pin.export().await?;
    alignment.fetch(&manifest, Arc::new(pin), &InstallOptions::default()).await?;
    alignment.commit(&manifest).await
}

/// Has a replica stage what another one has staged. Answers whether it had to take over files first.
async fn replicate(from: &Partition, to: &Partition, write: Uuid) -> cayenne::Result<bool> {
    let (manifest, files) = from.export_staged(write).await?;
    let manifest = StagedManifest::decode(&manifest.encode()?)?;
    let lacks = to.lacks_files_of(&manifest);
    if lacks {
        align(from, to).await?;
    }
    to.stage_copy(&manifest, Arc::new(files), &InstallOptions::default()).await?;
    Ok(lacks)
}

async fn publish_on_both(one: &Partition, other: &Partition, write: Uuid) {
    let version = one.version() + 1;
    one.publish(write, version).await.unwrap();
    other.publish(write, version).await.unwrap();
    assert_eq!(ids(one, None).await, ids(other, None).await);
    assert_eq!(one.summary().rows, other.summary().rows);
}

async fn append(one: &Partition, other: &Partition, from: i64, to: i64) {
    let write = stage(one, WriteMode::Append, &[numbers(from, to)]).await.unwrap();
    assert!(!replicate(one, other, write).await.unwrap());
    publish_on_both(one, other, write).await;
}

#[tokio::test]
async fn a_replica_stages_publishes_and_survives_restarts() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, other) = (plain_table(a.path()), plain_table(b.path()));
    append(&one, &other, 0, 5_000).await;
    let delete = Uuid::new_v4();
    stage_update(&one, delete, |id| id % 3 == 0, Some(numbers(9_000, 9_010))).await.unwrap();
    assert!(!replicate(&one, &other, delete).await.unwrap(), "the files are the same");
    replicate(&one, &other, delete).await.unwrap();
    assert_eq!(other.staged().len(), 1, "staging it again changes nothing");
    assert_eq!(ids(&other, None).await.len(), 5_000, "it is not visible yet");
    drop(other);
    let other = Partition::open(b.path(), small_files()).unwrap();
    publish_on_both(&one, &other, delete).await;
    assert_eq!(ids(&other, None).await.len(), 5_000 - 1_667 + 10);

    let dropped = stage(&one, WriteMode::Overwrite, &[numbers(0, 10)]).await.unwrap();
    replicate(&one, &other, dropped).await.unwrap();
    let files = data_files(b.path()).len();
    other.discard(dropped).await.unwrap();
    assert!(other.staged().is_empty() && data_files(b.path()).len() < files);
    replicate(&one, &other, dropped).await.unwrap();
    publish_on_both(&one, &other, dropped).await;
    assert_eq!(ids(&other, None).await.len(), 10);
    assert!(other.verify().await.unwrap().damaged.is_empty());
}

#[tokio::test]
async fn rows_are_deleted_by_position_although_one_replica_has_rewritten_its_files() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, other) = (plain_table(a.path()), plain_table(b.path()));
    for part in 0..4 {
        append(&one, &other, part * 3_000, (part + 1) * 3_000).await;
    }
    let first = Uuid::new_v4();
    stage_update(&one, first, |id| id % 10 == 1, None).await.unwrap();
    replicate(&one, &other, first).await.unwrap();
    publish_on_both(&one, &other, first).await;
    let reader = other.pin(None).unwrap();

    rewrite_all(&one).await.unwrap();
    let second = Uuid::new_v4();
    stage_update(&one, second, |id| id % 10 == 2, None).await.unwrap();
    let (manifest, files) = one.export_staged(second).await.unwrap();
    assert!(other.lacks_files_of(&manifest));
    let refused = other.stage_copy(&manifest, Arc::new(files), &InstallOptions::default()).await;
    assert!(matches!(refused, Err(Error::WriteConflict { .. })), "{refused:?}");
    let files = data_files(b.path());
    assert!(replicate(&one, &other, second).await.unwrap());
    assert_ne!(data_files(b.path()), files);
    publish_on_both(&one, &other, second).await;
    let before: Vec<i64> = (0..12_000).filter(|id| id % 10 != 1).collect();
    let batches = run(cayenne::scan(&[reader], &cayenne::ScanRequest::default()).unwrap()).await;
    let mut seen = first_column(&batches);
    seen.sort_unstable();
    assert_eq!(seen, before, "a reader keeps the files that it began with");
    drop(other);
    let other = Partition::open(b.path(), small_files()).unwrap();
    assert_eq!(ids(&other, None).await, ids(&one, None).await);
    assert_eq!(ids(&other, Some(5)).await, before);
    assert!(other.verify().await.unwrap().damaged.is_empty());
}

#[tokio::test]
async fn an_alignment_takes_over_nothing_but_the_same_rows() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, other) = (plain_table(a.path()), plain_table(b.path()));
    append(&one, &other, 0, 3_000).await;
    let staged = Uuid::new_v4();
    stage_update(&one, staged, |id| id == 7, None).await.unwrap();
    replicate(&one, &other, staged).await.unwrap();
    one.discard(staged).await.unwrap();
    rewrite_all(&one).await.unwrap();
    let held = align(&one, &other).await.unwrap_err().to_string();
    assert!(held.contains("a staged write deletes rows"), "{held}");
    let later = stage(&one, WriteMode::Append, &[numbers(0, 1)]).await.unwrap();
    let (now, _) = one.export_staged(later).await.unwrap();
    let elsewhere = StagedManifest { version: 2, ..now.clone() };
    let none = other.discard_others(&[staged], &elsewhere).await.unwrap();
    assert!(none.is_empty(), "of another version nothing is known");
    assert_eq!(other.discard_others(&[staged, later], &now).await.unwrap(), [staged]);
    one.discard(later).await.unwrap();
    let before = data_files(b.path());
    let pin = one.pin(None).unwrap();
    let manifest = pin.export().await.unwrap();
    let mut alignment = other.begin_alignment().unwrap();
    alignment.fetch(&manifest, Arc::new(pin.clone()), &InstallOptions::default()).await.unwrap();
    append(&one, &other, 3_000, 3_010).await;
    let late = alignment.commit(&manifest).await.unwrap_err();
    assert!(matches!(late, Error::FilesChanged { .. }), "{late}");
    assert_eq!(data_files(b.path()).len(), before.len() + 1, "what was fetched has gone");
    align(&one, &other).await.unwrap();
    align(&one, &other).await.unwrap();
    assert_eq!(other.file_count(), one.file_count());
    assert_eq!(ids(&other, None).await, (0..3_010).collect::<Vec<_>>());
}

#[tokio::test]
async fn keys_transactions_and_columns_come_out_alike() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, other) = (keyed_table(a.path()), keyed_table(b.path()));
    append(&one, &other, 0, 2_000).await;
    // Both are staged before either is published: the second takes the place of rows of the first.
    let first = stage(&one, WriteMode::Append, &[numbers(1_000, 2_500)]).await.unwrap();
    let second = stage(&one, WriteMode::Append, &[numbers(2_400, 3_000), numbers(2_450, 2_460)]).await.unwrap();
    for write in [second, first] {
        replicate(&one, &other, write).await.unwrap();
    }
    publish_on_both(&one, &other, first).await;
    rewrite_all(&one).await.unwrap();
    publish_on_both(&one, &other, second).await;
    assert_eq!(ids(&other, None).await, (0..3_000).collect::<Vec<_>>());

    let deleted = Uuid::new_v4();
    let mut writer = one.begin_write(deleted, WriteMode::Append).await.unwrap();
    let keys = RecordBatch::try_from_iter([("id", Arc::new(Int64Array::from(vec![5, 2_450, 99_999])) as _)]).unwrap();
    writer.delete_keys(&keys).unwrap();
    writer.finish().await.unwrap();
    replicate(&one, &other, deleted).await.unwrap();
    publish_on_both(&one, &other, deleted).await;
    assert_eq!(ids(&other, None).await.len(), 2_998);

    let snapshot = one.version();
    let mut over = None;
    for rows in [numbers(2_990, 3_005), numbers(3_000, 3_010)] {
        let write = Uuid::new_v4();
        let mut writer = one.begin_write(write, WriteMode::Append).await.unwrap();
        writer.write(rows).await.unwrap();
        writer.finish_within(TransactionPart { snapshot, over }).await.unwrap();
        over = Some(write);
    }
    replicate(&one, &other, over.unwrap()).await.unwrap();
    publish_on_both(&one, &other, over.unwrap()).await;
    assert_eq!(ids(&other, None).await.len(), 3_008);

    let renamed = Uuid::new_v4();
    for partition in [&one, &other] {
        let change = SchemaChange::Rename { path: vec!["name".to_owned()], to: "label".to_owned() };
        partition.alter(renamed, change).await.unwrap();
    }
    publish_on_both(&one, &other, renamed).await;
    let update = Uuid::new_v4();
    stage_update(&one, update, |id| id < 10, None).await.unwrap();
    assert!(replicate(&one, &other, update).await.is_ok());
    publish_on_both(&one, &other, update).await;
    assert_eq!(ids(&other, None).await.len(), 2_999);
}

#[tokio::test]
async fn rows_with_other_columns_are_not_staged() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (one, other) = (plain_table(a.path()), plain_table(b.path()));
    let write = stage(&one, WriteMode::Append, &[numbers(0, 10)]).await.unwrap();
    let change = Uuid::new_v4();
    let rename = SchemaChange::Rename { path: vec!["name".to_owned()], to: "label".to_owned() };
    one.alter(change, rename).await.unwrap();
    one.publish(change, 1).await.unwrap();
    let later = {
        let id = Uuid::new_v4();
        let mut writer = one.begin_write(id, WriteMode::Append).await.unwrap();
        let rows = numbers(10, 20);
        writer.write(RecordBatch::try_new(one.schema(), rows.columns().to_vec()).unwrap()).await.unwrap();
        writer.finish().await.unwrap();
        id
    };
    assert!(replicate(&one, &other, write).await.is_ok(), "the columns of then are those here");
    let refused = replicate(&one, &other, later).await.unwrap_err();
    assert!(refused.to_string().contains("the columns of the table are others here"), "{refused}");
    assert!(matches!(replicate(&one, &other, Uuid::new_v4()).await, Err(Error::UnknownWrite { .. })));
}

/// A little generator of numbers, the same for the same seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

#[tokio::test]
async fn random_histories_leave_the_same_rows_on_both() {
    for seed in 0..4 {
        let mut random = Numbers(seed);
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let make = if seed % 2 == 0 { plain_table } else { keyed_table };
        let (mut one, mut other) = (make(a.path()), make(b.path()));
        let mut expected: BTreeSet<i64> = BTreeSet::new();
        for step in 0..25_i64 {
            match random.below(8) {
                0..=2 => {
                    let from = step * 1_000;
                    let to = from + 1 + random.below(900) as i64;
                    append(&one, &other, from, to).await;
                    expected.extend(from..to);
                }
                3 | 4 => {
                    let (write, rest) = (Uuid::new_v4(), random.below(7) as i64);
                    stage_update(&one, write, |id| id % 7 == rest, None).await.unwrap();
                    replicate(&one, &other, write).await.unwrap();
                    publish_on_both(&one, &other, write).await;
                    expected.retain(|id| id % 7 != rest);
                }
                5 => drop(rewrite_all(&one).await.unwrap()),
                6 => {
                    drop((one, other));
                    one = Partition::open(a.path(), small_files()).unwrap();
                    other = Partition::open(b.path(), small_files()).unwrap();
                }
                _ => align(&one, &other).await.unwrap(),
            }
        }
        let expected: Vec<i64> = expected.into_iter().collect();
        assert_eq!(ids(&one, None).await, expected, "seed {seed}");
        assert_eq!(ids(&other, None).await, expected, "seed {seed}");
    }
}

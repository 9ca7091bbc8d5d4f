//! A crash or a disk error at every durable step of writes to a table with a primary key leaves one row per key, that of the
//! last published version, and an index that finds it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use cayenne::{
    CompactionResources, Failpoints, KeyRule, Outcome, Partition, PartitionOptions, Retention, ScanRequest, Step,
    WriteMode, WriteOptions, scan,
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::failing_step::At;
use crate::harness::*;
use crate::keyed::*;

/// Keys of the table.
const KEYS: i64 = 1_200;
/// The last version of the workload.
const LAST: u64 = 6;

fn options(in_memory: bool, failpoints: Option<Arc<dyn Failpoints>>) -> PartitionOptions {
    PartitionOptions {
        key_memory_bytes: if in_memory { 64 << 20 } else { 1 << 10 },
        target_file_bytes: 4 << 10,
        retention: Retention { versions: 0, grace: Duration::ZERO },
        failpoints,
        ..PartitionOptions::default()
    }
}

fn id_of(version: u64) -> Uuid {
    Uuid::from_u128(u128::from(version))
}

fn batch(ids: impl Iterator<Item = i64>, value: i64) -> Vec<Row> {
    ids.map(|id| row(id, value)).collect()
}

/// What each version holds, by key.
fn expected(version: u64) -> Vec<(i64, i64)> {
    match version {
        1 => (0..KEYS).map(|id| (id, 1)).collect(),
        // An upsert of every second key and of new ones.
        2 => (0..KEYS + 500).map(|id| (id, if id % 2 == 0 || id >= KEYS { 2 } else { 1 })).collect(),
        // A delete by key.
        3 => expected(2).into_iter().filter(|(id, _)| id % 10 != 0).collect(),
        // An update by position that moves some rows to keys that are free.
        4 => {
            let moved = |id: i64| if id < 100 { id + 10_000 } else { id };
            let mut rows: Vec<_> =
                expected(3).into_iter().map(|(id, v)| (moved(id), if id < 100 { 4 } else { v })).collect();
            rows.sort_unstable();
            rows
        }
        // An upsert that brings back what was deleted, with a repeat in itself.
        5 => {
            let mut rows: Vec<_> = expected(4).into_iter().filter(|(id, _)| id % 10 != 0 || *id >= 10_000).collect();
            rows.extend((1..50).map(|n| (n * 10, 5)));
            rows.sort_unstable();
            rows
        }
        6 => (0..1_000).map(|id| (id, 6)).collect(),
        other => panic!("version {other}"),
    }
}

async fn stage(partition: &Partition, version: u64) -> cayenne::Result<()> {
    let id = id_of(version);
    match version {
        1 | 2 | 5 | 6 => {
            let (mode, parts) = match version {
                1 => (WriteMode::Append, vec![batch(0..KEYS, 1)]),
                2 => (WriteMode::Append, vec![batch((0..KEYS).step_by(2), 2), batch(KEYS..KEYS + 500, 2)]),
                5 => (WriteMode::Append, vec![batch((10..500).step_by(10), 0), batch((10..500).step_by(10), 5)]),
                _ => (WriteMode::Overwrite, vec![batch(0..1_000, 6)]),
            };
            let mut writer = partition.begin_write(id, mode).await?;
            for part in parts {
                for slice in part.chunks(700) {
                    writer.write(rows(slice)).await?;
                }
            }
            writer.finish().await?;
        }
        3 => {
            let mut writer = partition.begin_write(id, WriteMode::Append).await?;
            let gone: Vec<_> = (0..KEYS + 500).step_by(10).map(|id| (id, "EU")).collect();
            writer.delete_keys(&keys(&gone))?;
            writer.finish().await?;
        }
        4 => {
            let pin = partition.pin(None)?;
            let options = WriteOptions {
                base_version: Some(pin.version()),
                key_rule: Some(KeyRule::Unique),
                ..WriteOptions::default()
            };
            let mut writer = partition.begin_write_with(id, WriteMode::Append, options).await?;
            let request = ScanRequest { row_ids: true, ..ScanRequest::default() };
            for batch in run(scan(std::slice::from_ref(&pin), &request)?).await {
                for (at, old) in decode(std::slice::from_ref(&batch)).into_iter().enumerate() {
                    if old.id < 100 {
                        writer.delete_batch(&batch.slice(at, 1))?;
                        writer.write(rows(&[row(old.id + 10_000, 4)])).await?;
                    }
                }
            }
            writer.finish().await?;
            partition.rebase(id, pin.version()).await?;
        }
        other => panic!("version {other}"),
    }
    Ok(())
}

async fn write_version(partition: &Partition, version: u64) -> cayenne::Result<()> {
    stage(partition, version).await?;
    partition.publish(id_of(version), version).await
}

/// Upserts, deletes by key, updates, rewrites that deletes come into, compactions, replacement, discard, clean-up.
async fn workload(partition: &Partition, acknowledged: &mut u64) -> cayenne::Result<()> {
    write_version(partition, 2).await?;
    *acknowledged = 2;
    let discarded = Uuid::from_u128(99);
    let mut writer = partition.begin_write(discarded, WriteMode::Append).await?;
    writer.write(rows(&batch(0..KEYS, 99))).await?;
    writer.finish().await?;
    partition.discard(discarded).await?;
    // Keys are deleted while their files are being rewritten.
    let pin = partition.pin(None)?;
    let files: Vec<Uuid> = pin.data_files().iter().map(|file| file.id).collect();
    let mut replacement = partition.replace_files(&pin, &files, WriteOptions::default())?;
    for batch in run(scan(std::slice::from_ref(&pin), &ScanRequest::default())?).await {
        replacement.write(batch).await?;
    }
    write_version(partition, 3).await?;
    *acknowledged = 3;
    match replacement.commit().await {
        Ok(_) | Err(cayenne::Error::FilesChanged { .. }) => {}
        Err(error) => return Err(error),
    }
    drop(pin);
    write_version(partition, 4).await?;
    *acknowledged = 4;
    let resources = CompactionResources::new(32 << 20, None)?;
    assert_eq!(partition.compact_all(&resources).await?.passes, 1);
    write_version(partition, 5).await?;
    *acknowledged = 5;
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await?;
    write_version(partition, LAST).await?;
    *acknowledged = LAST;
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await?;
    Ok(())
}

async fn prepare(dir: &Path) -> Partition {
    let partition = create_keyed(dir, by_id(), options(true, None));
    write_version(&partition, 1).await.unwrap();
    partition
}

fn named_files(partition: &Partition) -> u64 {
    let staged: u64 = partition.staged().iter().map(|write| write.summary.data.files).sum();
    partition.summary().files + staged
}

async fn check_rows(partition: &Partition, version: u64, what: &str) {
    let wanted = expected(version);
    assert_eq!(values(partition).await, wanted, "{what}");
    assert_eq!(partition.summary().rows, wanted.len() as u64, "{what}");
    // The index is made anew and agrees.
    for asked in [&[0, 10, 11, 490, KEYS - 1, KEYS + 400, 10_001][..], &[11], &[10_001]] {
        let keys: Vec<_> = asked.iter().map(|id| (*id, "EU")).collect();
        let found: Vec<_> = found(partition, &keys).await.iter().map(|row| (row.id, row.value)).collect();
        let wanted: Vec<_> = wanted.iter().filter(|(key, _)| asked.contains(key)).copied().collect();
        assert_eq!(found, wanted, "{what}: keys {asked:?}");
    }
}

/// `whole` asks for all that the workload would have done besides.
async fn check_recovered(dir: &Path, in_memory: bool, acknowledged: u64, whole: bool, what: &str) {
    let partition = reopen(dir, options(in_memory, None)).await;
    let version = partition.version();
    assert!((acknowledged..=acknowledged + 1).contains(&version), "{what}: version {version} after {acknowledged}");
    check_rows(&partition, version, what).await;
    assert!(partition.verify().await.unwrap().damaged.is_empty(), "{what}");
    partition.collect_garbage(SystemTime::now() + Duration::from_secs(1)).await.unwrap();
    assert_eq!(data_files(dir).len() as u64, named_files(&partition), "{what}: no orphans");
    // A sealed write is still there, whole: it can be published as it is, or be discarded and made again.
    for next in version + 1..=if whole { LAST } else { (version + 1).min(LAST) } {
        let id = id_of(next);
        if partition.staged().iter().any(|staged| staged.write_id == id) && next == version + 1 {
            partition.publish(id, next).await.unwrap();
        } else {
            partition.discard(id).await.unwrap();
            write_version(&partition, next).await.unwrap();
        }
        check_rows(&partition, next, what).await;
    }
}

async fn run_with(beginning: &Beginning, step: Step, skip: usize, outcome: Outcome, in_memory: bool) -> bool {
    let place = if in_memory { "keys in memory" } else { "keys in files" };
    let what = format!("{outcome:?} at {step:?} after {skip}, {place}");
    let home = TempDir::new().unwrap();
    let dir = home.path().join("p");
    beginning.copy(&dir);
    if step == Step::RemoveOrphan {
        std::fs::write(dir.join("files/0123.vortex"), b"left behind").unwrap();
    }
    let hook = Arc::new(At { step, left: AtomicUsize::new(skip), outcome, hit: AtomicUsize::new(0) });
    let mut acknowledged = 1;
    let failed = match Partition::open(&dir, options(in_memory, Some(hook.clone()))) {
        Ok(partition) => {
            let result = workload(&partition, &mut acknowledged).await;
            if outcome == Outcome::Fail
                && let Err(error) = &result
            {
                let what = format!("{what}: {error}");
                assert_eq!(values(&partition).await, expected(partition.version()), "{what}");
            }
            result.is_err()
        }
        Err(_) => true,
    };
    let hit = hook.hit.load(Ordering::SeqCst) > 0;
    assert_eq!(failed, hit, "{what}: an error is reported exactly if the step failed");
    check_recovered(&dir, in_memory, acknowledged, skip == 0, &what).await;
    hit
}

/// Steps that writes to a table with a key meet; formats, copies and secondary indexes are the same for all tables.
fn steps() -> impl Iterator<Item = Step> {
    Step::ALL.into_iter().filter(|step| !(step.is_of_indexes() || step.is_of_copies() || *step == Step::Convert))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_step_leaves_one_row_per_key() {
    let beginning = Beginning::new(prepare).await;
    for step in steps() {
        let mut met = 0;
        for (skip, in_memory) in [(0, true), (1, false), (3, true)] {
            if !run_with(&beginning, step, skip, Outcome::Crash, in_memory).await {
                break;
            }
            met += 1;
        }
        assert!(met > 0, "the workload never meets {step:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_at_any_step_leaves_one_row_per_key() {
    let beginning = Beginning::new(prepare).await;
    for step in steps() {
        for (skip, in_memory) in [(0, true), (2, false)] {
            run_with(&beginning, step, skip, Outcome::Fail, in_memory).await;
        }
    }
}

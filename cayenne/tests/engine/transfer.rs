//! Copies of a partition: what comes out is what went in, and what is damaged is refused by name.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use cayenne::transfer::encoding::Blob;
use cayenne::{
    CompactionResources, DiskLimit, DiskSpace, Error, FileSource, InstallLimit, InstallOptions, InstallProgress,
    ManifestFile, Partition, PartitionIdentity, PartitionManifest, PartitionOptions, PinnedVersion, SchemaChange,
    WriteMode,
};
use proptest::prelude::*;
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;

/// A partition with all that a version can have: several files, deleted rows, other columns than before, rewritten files.
async fn eventful(dir: &Path) -> Partition {
    let partition = Partition::create(dir, identity(), numbers_schema(), small_files()).unwrap();
    for part in 0..5 {
        put(&partition, WriteMode::Append, &[numbers(part * 8_000, (part + 1) * 8_000)]).await;
    }
    assert_eq!(delete(&partition, |id| id % 10 == 3).await, 4_000);
    let id = Uuid::new_v4();
    let rename = SchemaChange::Rename { path: vec!["name".to_owned()], to: "label".to_owned() };
    partition.alter(id, rename).await.unwrap();
    partition.publish(id, 7).await.unwrap();
    assert_eq!(delete(&partition, |id| id == 7).await, 1);
    partition
}

fn eventful_ids() -> Vec<i64> {
    (0..40_000).filter(|id| id % 10 != 3 && *id != 7).collect()
}

async fn copy(pin: &PinnedVersion, dir: &Path) -> cayenne::Result<Partition> {
    let manifest = PartitionManifest::decode(&pin.export().await?.encode()?)?;
    Partition::install(dir, &manifest, Arc::new(pin.clone()), small_files(), &InstallOptions::default()).await
}

/// Does something to what another source gives.
#[derive(Debug)]
struct Spoiled {
    inner: PinnedVersion,
    file: Uuid,
    how: Spoil,
    /// How often it may be asked until all is well again.
    times: AtomicUsize,
    asked: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Spoil {
    Flip,
    Cut,
    Missing,
    Refused,
    Nothing,
}

impl Spoiled {
    fn new(inner: &PinnedVersion, file: Uuid, how: Spoil, times: usize) -> Arc<Self> {
        let (times, asked) = (AtomicUsize::new(times), AtomicU64::new(0));
        Arc::new(Self { inner: inner.clone(), file, how, times, asked })
    }
}

#[async_trait]
impl FileSource for Spoiled {
    async fn read(&self, file: &ManifestFile, range: Range<u64>) -> io::Result<Bytes> {
        self.asked.fetch_add(range.end - range.start, Ordering::SeqCst);
        let bytes = self.inner.read(file, range).await?;
        let spoilt = file.id == self.file
            && self.times.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        match self.how {
            _ if !spoilt => Ok(bytes),
            Spoil::Flip => {
                let mut bytes = bytes.to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                Ok(bytes.into())
            }
            Spoil::Cut => Ok(bytes.slice(..bytes.len() - 1)),
            Spoil::Missing => Err(io::Error::from(io::ErrorKind::NotFound)),
            Spoil::Refused => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
            Spoil::Nothing => Ok(bytes),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_has_the_rows_the_version_and_the_last_write() {
    let home = TempDir::new().unwrap();
    let partition = eventful(&home.path().join("a")).await;
    let pin = partition.pin(None).unwrap();
    let copied = copy(&pin, &home.path().join("b")).await.unwrap();
    assert_eq!((copied.version(), copied.schema()), (8, partition.schema()));
    assert_eq!(copied.summary(), partition.summary());
    assert_eq!((copied.identity(), copied.settings()), (partition.identity(), partition.settings()));
    assert_eq!(copied.pin(None).unwrap().data_files(), pin.data_files());
    assert_eq!(ids(&copied, None).await, eventful_ids());
    assert!(copied.verify().await.unwrap().damaged.is_empty());
    assert!(matches!(copied.pin(Some(7)), Err(Error::VersionExpired { version: 7, .. })));
    let write = pin.export().await.unwrap().write.unwrap();
    copied.publish(write.id, 8).await.unwrap();

    // It lives on like the original: it deletes, is rewritten, changes columns, and is copied again.
    assert_eq!(delete(&copied, |id| id < 100).await, 89);
    copied.compact_all(&CompactionResources::new(32 << 20, None).unwrap()).await.unwrap();
    let id = Uuid::new_v4();
    copied.alter(id, SchemaChange::Drop { path: vec!["label".to_owned()] }).await.unwrap();
    copied.publish(id, 10).await.unwrap();
    let again = copy(&copied.pin(None).unwrap(), &home.path().join("c")).await.unwrap();
    assert_eq!(again.version(), 10);
    assert_eq!(ids(&again, None).await, eventful_ids().into_iter().filter(|id| *id >= 100).collect::<Vec<_>>());
    assert_eq!(ids(&partition, None).await, eventful_ids(), "the original is as it was");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_version_and_an_empty_one_can_be_copied() {
    let home = TempDir::new().unwrap();
    let empty = create(&home.path().join("empty"), numbers_schema());
    let copied = copy(&empty.pin(None).unwrap(), &home.path().join("copy")).await.unwrap();
    assert_eq!((copied.version(), copied.summary().rows), (0, 0));
    put(&copied, WriteMode::Append, &[numbers(0, 10)]).await;
    assert_eq!(ids(&copied, None).await.len(), 10);

    let partition = eventful(&home.path().join("a")).await;
    let old = partition.pin(Some(2)).unwrap();
    rewrite_all(&partition).await.unwrap();
    let copied = copy(&old, &home.path().join("b")).await.unwrap();
    assert_eq!(copied.version(), 2);
    assert_eq!(ids(&copied, None).await, (0..16_000).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_can_be_another_partition() {
    let home = TempDir::new().unwrap();
    let partition = eventful(&home.path().join("a")).await;
    let pin = partition.pin(None).unwrap();
    let other = PartitionIdentity { table: "mirror".to_owned(), partition: "all".to_owned(), partition_id: 3 };
    let manifest = pin.export().await.unwrap().with_identity(&other, 41);
    let options = InstallOptions { range_bytes: 1_000, in_flight: 3, ..InstallOptions::default() };
    let source = Arc::new(pin);
    let copied = Partition::install(&home.path().join("b"), &manifest, source, small_files(), &options).await.unwrap();
    assert_eq!((copied.identity(), copied.version()), (&other, 41));
    assert_eq!(ids(&copied, None).await, eventful_ids());
    assert_eq!(options.progress.done_bytes(), manifest.bytes);
    assert_eq!(options.progress.total_bytes(), manifest.bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_refused_by_name_and_fetched_again() {
    let home = TempDir::new().unwrap();
    let partition = eventful(&home.path().join("a")).await;
    let pin = partition.pin(None).unwrap();
    let manifest = pin.export().await.unwrap();
    assert!(manifest.files.len() > 4);
    let spoilt = &manifest.files[2];
    let dir = home.path().join("b");
    for how in [Spoil::Flip, Spoil::Cut, Spoil::Missing, Spoil::Refused] {
        let install = InstallOptions { attempts: 2, ..InstallOptions::default() };
        let source = Spoiled::new(&pin, spoilt.id, how, usize::MAX);
        let refused = Partition::install(&dir, &manifest, source, small_files(), &install).await.unwrap_err();
        match &refused {
            Error::CopyDamaged { file, .. } if how == Spoil::Flip => assert_eq!(*file, spoilt.name()),
            Error::CopyFailed { file, .. } if how != Spoil::Flip => assert_eq!(*file, spoilt.name()),
            other => panic!("{how:?}: {other}"),
        }
        let opened = Partition::open(&dir, small_files());
        assert!(matches!(opened, Err(Error::NotAPartition { .. })), "{how:?}: {opened:?}");
    }
    // What is there is not fetched again, unless it has been damaged since.
    let whole = data_files(&dir).into_iter().filter(|name| name.ends_with(".vortex")).collect::<Vec<_>>();
    assert!(whole.len() >= 2, "{whole:?}");
    std::fs::write(dir.join("files").join(&whole[0]), b"something else").unwrap();
    let there: u64 = manifest
        .files
        .iter()
        .filter(|file| whole[1..].iter().any(|name| file.name().ends_with(name)))
        .map(|file| file.bytes)
        .sum();
    let source = Spoiled::new(&pin, spoilt.id, Spoil::Nothing, 0);
    let copied =
        Partition::install(&dir, &manifest, Arc::clone(&source) as _, small_files(), &InstallOptions::default())
            .await
            .unwrap();
    assert_eq!(source.asked.load(Ordering::SeqCst), manifest.bytes - there);
    assert_eq!(ids(&copied, None).await, eventful_ids());
    assert_eq!(data_files(&dir).len(), manifest.files.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fails_for_a_moment_is_asked_for_again() {
    let home = TempDir::new().unwrap();
    let partition = eventful(&home.path().join("a")).await;
    let pin = partition.pin(None).unwrap();
    let manifest = pin.export().await.unwrap();
    for (number, how) in [Spoil::Refused, Spoil::Cut].into_iter().enumerate() {
        let source = Spoiled::new(&pin, manifest.files[1].id, how, 2);
        let dir = home.path().join(format!("b{number}"));
        let install = InstallOptions { limit: Some(InstallLimit::bytes(64 << 10)), ..InstallOptions::default() };
        let copied = Partition::install(&dir, &manifest, source, small_files(), &install).await.unwrap();
        assert_eq!(ids(&copied, None).await, eventful_ids());
    }
}

/// Counts the bytes that are asked for and not yet given.
#[derive(Debug)]
struct Counting {
    inner: PinnedVersion,
    now: AtomicU64,
    most: AtomicU64,
}

#[async_trait]
impl FileSource for Counting {
    async fn read(&self, file: &ManifestFile, range: Range<u64>) -> io::Result<Bytes> {
        let length = range.end - range.start;
        let now = self.now.fetch_add(length, Ordering::SeqCst) + length;
        self.most.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(1)).await;
        let bytes = self.inner.read(file, range).await;
        self.now.fetch_sub(length, Ordering::SeqCst);
        bytes
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_share_a_bound_on_memory() {
    let home = TempDir::new().unwrap();
    let options = PartitionOptions::default();
    let partition = Partition::create(&home.path().join("a"), identity(), numbers_schema(), options).unwrap();
    put(&partition, WriteMode::Append, &[numbers(0, 400_000)]).await;
    let pin = partition.pin(None).unwrap();
    let manifest = pin.export().await.unwrap();
    assert!(manifest.bytes > 1 << 20, "{}", manifest.bytes);
    let source = Arc::new(Counting { inner: pin, now: AtomicU64::new(0), most: AtomicU64::new(0) });
    let limit = InstallLimit::bytes(256 << 10);
    let install = |_: usize| InstallOptions {
        range_bytes: 64 << 10,
        in_flight: 8,
        limit: Some(limit.clone()),
        progress: Arc::new(InstallProgress::default()),
        ..InstallOptions::default()
    };
    let copies = (0..4).map(|number| {
        let (dir, source, manifest, install) =
            (home.path().join(number.to_string()), Arc::clone(&source), manifest.clone(), install(number));
        async move { Partition::install(&dir, &manifest, source, PartitionOptions::default(), &install).await.unwrap() }
    });
    for copied in futures::future::join_all(copies).await {
        assert_eq!(copied.summary().rows, 400_000);
    }
    let most = source.most.load(Ordering::SeqCst);
    assert!(most <= 256 << 10 && most > 64 << 10, "{most} bytes were in flight");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_an_older_copy_are_not_fetched() {
    let home = TempDir::new().unwrap();
    let partition = eventful(&home.path().join("a")).await;
    let (first, older) = (partition.pin(None).unwrap(), home.path().join("older"));
    let before = first.export().await.unwrap();
    drop(copy(&first, &older).await.unwrap());
    let more = numbers(40_000, 41_000).columns().to_vec();
    let more = RecordBatch::try_new(partition.schema(), more).unwrap();
    put(&partition, WriteMode::Append, &[more]).await;
    let damaged = older.join(before.files[0].name());
    std::fs::write(&damaged, b"damaged").unwrap();

    let pin = partition.pin(None).unwrap();
    let manifest = pin.export().await.unwrap();
    let source = Spoiled::new(&pin, Uuid::nil(), Spoil::Nothing, 0);
    let install = InstallOptions { older_copy: Some(older), ..InstallOptions::default() };
    let dir = home.path().join("newer");
    let copied = Partition::install(&dir, &manifest, Arc::clone(&source) as _, small_files(), &install).await.unwrap();
    let fetched = manifest.bytes - before.bytes + before.files[0].bytes;
    assert_eq!(source.asked.load(Ordering::SeqCst), fetched);
    assert_eq!(ids(&copied, None).await.len(), eventful_ids().len() + 1_000);
    assert_eq!(std::fs::read(&damaged).unwrap(), b"damaged", "the older copy is left alone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_copy_that_does_not_fit_is_refused_before_it_begins() {
    let home = TempDir::new().unwrap();
    let partition = eventful(&home.path().join("a")).await;
    let pin = partition.pin(None).unwrap();
    let manifest = pin.export().await.unwrap();
    let free = manifest.bytes + 999;
    let disk = DiskLimit::keep_free(1_000).with_probe(move |_| Ok(DiskSpace { total: 1 << 30, free }));
    let options = PartitionOptions { disk, ..small_files() };
    let source = Spoiled::new(&pin, Uuid::nil(), Spoil::Nothing, 0);
    let install = InstallOptions::default();
    let dir = home.path().join("b");
    let refused = Partition::install(&dir, &manifest, Arc::clone(&source) as _, options, &install).await.unwrap_err();
    assert!(matches!(&refused, Error::NoRoomForCopy { needed, .. } if *needed == manifest.bytes), "{refused}");
    assert!(refused.is_disk_full() && refused.is_retryable());
    assert_eq!(source.asked.load(Ordering::SeqCst), 0);
    let existing = home.path().join("a");
    let refused = Partition::install(&existing, &manifest, Arc::new(pin), small_files(), &install).await;
    assert!(matches!(refused, Err(Error::InUse { .. } | Error::AlreadyExists { .. })), "{refused:?}");
    assert_eq!(ids(&partition, None).await, eventful_ids());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_manifest_that_contradicts_itself_is_refused() {
    let home = TempDir::new().unwrap();
    let partition = eventful(&home.path().join("a")).await;
    let good = partition.pin(None).unwrap().export().await.unwrap();
    let with_deletes = good.files.iter().position(|file| file.deleted.is_some()).unwrap();
    let spoil: Vec<(&str, Box<dyn Fn(&mut PartitionManifest)>)> = vec![
        ("rows", Box::new(|m| m.rows += 1)),
        ("bytes", Box::new(|m| m.files[0].bytes += 1)),
        ("twice", Box::new(|m| m.files[1].id = m.files[0].id)),
        ("fingerprint", Box::new(|m| m.schema_fingerprint.0[3] ^= 1)),
        ("no schema", Box::new(|m| m.schemas.clear())),
        ("schema 9", Box::new(|m| m.files[0].schema_id = 9)),
        ("newer", Box::new(|m| m.generation = 0)),
        ("deletion vector", Box::new(move |m| m.files[with_deletes].deleted.as_mut().unwrap().rows += 1)),
        (
            "deletion vector",
            Box::new(move |m| {
                // The vector of one file attached to another one.
                let vector = m.files[with_deletes].deleted.take();
                let other = (with_deletes + 1) % m.files.len();
                m.files[other].deleted = vector;
            }),
        ),
        ("1970", Box::new(|m| m.files[0].statistics = Blob(b"since 1970".to_vec()))),
    ];
    for (number, (what, spoil)) in spoil.iter().enumerate() {
        let mut manifest = good.clone();
        spoil(&mut manifest);
        let refused = PartitionManifest::decode(&manifest.encode().unwrap()).unwrap_err();
        assert!(matches!(refused, Error::ManifestDamaged { .. }), "{what}: {refused}");
        assert!(refused.to_string().contains("table 'orders', partition 'bucket(4, k)=2', version 8"), "{refused}");
        let dir = home.path().join(format!("b{number}"));
        let source = Arc::new(partition.pin(None).unwrap());
        let installed = Partition::install(&dir, &manifest, source, small_files(), &InstallOptions::default()).await;
        assert!(installed.is_err() && !dir.exists(), "{what}");
    }
    let other = String::from_utf8(good.encode().unwrap()).unwrap().replacen("\"format\":1", "\"format\":7", 1);
    assert!(matches!(
        PartitionManifest::decode(other.as_bytes()),
        Err(Error::ManifestFormat { found: 7, supported: 1 })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    /// A manifest with any byte changed is refused or means the same as far as rows and files go.
    #[test]
    fn no_bytes_make_the_decoder_panic(at in 0usize..4_000, byte: u8) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let json = runtime.block_on(async {
            let home = TempDir::new().unwrap();
            let partition = create(&home.path().join("a"), numbers_schema());
            put(&partition, WriteMode::Append, &[numbers(0, 100)]).await;
            partition.pin(None).unwrap().export().await.unwrap().encode().unwrap()
        });
        let mut changed = json.clone();
        let at = at % changed.len();
        changed[at] = byte;
        if let Ok(manifest) = PartitionManifest::decode(&changed) {
            prop_assert_eq!(manifest.rows, 100);
        }
    }
}

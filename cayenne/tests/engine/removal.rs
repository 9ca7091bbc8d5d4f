//! The directory of a partition goes, and with it nothing that belongs to another one.

use std::os::unix::fs::symlink;

use cayenne::{Error, Partition, PartitionOptions, WriteMode, remove_partition};
use tempfile::TempDir;

use crate::harness::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_with_another_metastore_stays_as_it_is() {
    let home = TempDir::new().unwrap();
    let (dir, other, aside) = (home.path().join("p"), home.path().join("other"), home.path().join("aside"));
    for dir in [&dir, &other] {
        let partition = create(dir, numbers_schema());
        put(&partition, WriteMode::Append, &[numbers(0, 10)]).await;
        partition.close();
    }
    let refused = |what: &str| {
        let error = remove_partition(&dir, &aside).unwrap_err();
        assert!(matches!(&error, Error::NotRemoved { entry, .. } if entry.ends_with(what)), "{what}: {error}");
        assert!(error.to_string().contains(what), "{error}");
        let partition = Partition::open(&dir, PartitionOptions::default()).unwrap();
        assert_eq!(partition.summary().rows, 10, "{what}");
        partition.close();
        assert!(!aside.exists(), "{what}");
    };
    // Another partition below it, or what its metastore consists of.
    std::fs::rename(&other, dir.join("files/other")).unwrap();
    refused("other/partition.db");
    std::fs::remove_file(dir.join("files/other/partition.db")).unwrap();
    std::fs::write(dir.join("files/other/partition.db-wal"), b"log").unwrap();
    refused("other/partition.db-wal");
    std::fs::rename(dir.join("files/other"), &other).unwrap();
    // A link to one, or to anything.
    for link in ["files/partition.db", "elsewhere"] {
        symlink(&other, dir.join(link)).unwrap();
        refused(link);
        std::fs::remove_file(dir.join(link)).unwrap();
    }
    let link = home.path().join("link");
    symlink(&dir, &link).unwrap();
    let error = remove_partition(&link, &aside).unwrap_err();
    assert!(matches!(error, Error::NotRemoved { .. }), "{error}");

    std::fs::write(dir.join("files/readme.txt"), b"hello").unwrap();
    remove_partition(&dir, &aside).unwrap();
    assert!(!dir.exists() && !aside.exists() && other.exists());
    remove_partition(&dir, &aside).unwrap();
}

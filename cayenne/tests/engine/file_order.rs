//! T07: rows that are deleted by position stay the right ones in whatever order files are listed, and with whatever number of
//! threads they are read.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use cayenne::{CompactionResources, Partition, PartitionOptions, ScanRequest, WriteMode, scan};
use tempfile::TempDir;
use uuid::Uuid;

use crate::harness::*;
use crate::keyed::reopen;

/// Rows of each of the three files.
const ROWS: i64 = 1_000;

fn gone(id: i64) -> bool {
    (ROWS..2 * ROWS).contains(&id) && id % 3 == 0
}

fn expected() -> Vec<i64> {
    (0..3 * ROWS).filter(|id| !gone(*id)).collect()
}

/// Lists the files of a closed partition in another order.
fn shuffle(dir: &Path, order: [i64; 3]) {
    let metastore = rusqlite::Connection::open(dir.join("partition.db")).unwrap();
    let mut listed = metastore.prepare("SELECT path FROM files ORDER BY path").unwrap();
    let paths: Vec<String> = listed.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(paths.len(), 3);
    for (path, at) in paths.iter().zip(order) {
        metastore.execute("UPDATE files SET file_id = ?1 WHERE path = ?2", (1_000 + at, path)).unwrap();
    }
}

async fn check(partition: &Partition, what: &str) {
    let pin = partition.pin(None).unwrap();
    for streams in [1, 2, 3, 8] {
        let request = ScanRequest { streams, ..ScanRequest::default() };
        let mut found = first_column(&run(scan(std::slice::from_ref(&pin), &request).unwrap()).await);
        found.sort_unstable();
        assert_eq!(found, expected(), "{what}, {streams} streams");
    }
    // File by file, last one first.
    let mut found = Vec::new();
    for file in pin.data_files().iter().rev() {
        let files = Some(Arc::new(HashSet::from([file.id])));
        let request = ScanRequest { files, streams: 2, ..ScanRequest::default() };
        found.extend(first_column(&run(scan(std::slice::from_ref(&pin), &request).unwrap()).await));
    }
    found.sort_unstable();
    assert_eq!(found, expected(), "{what}, file by file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn t07_positional_deletes_hold_in_any_order_of_files() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        // Listed in another order before the delete, or after it.
        for before in [true, false] {
            let what = format!("order {order:?}, {} the delete", if before { "before" } else { "after" });
            let home = TempDir::new().unwrap();
            let dir = home.path().join("p");
            let partition = create(&dir, numbers_schema());
            for file in 0..3 {
                put(&partition, WriteMode::Append, &[numbers(file * ROWS, (file + 1) * ROWS)]).await;
            }
            drop(partition);
            if before {
                shuffle(&dir, order);
            }
            let partition = reopen(&dir, PartitionOptions::default()).await;
            let id = Uuid::new_v4();
            let deleted = stage_update(&partition, id, gone, None).await.unwrap();
            assert_eq!(deleted, (0..3 * ROWS).filter(|id| gone(*id)).count() as u64, "{what}");
            partition.publish(id, partition.version() + 1).await.unwrap();
            drop(partition);
            if !before {
                shuffle(&dir, order);
            }
            let partition = reopen(&dir, PartitionOptions::default()).await;
            check(&partition, &what).await;
            let resources = CompactionResources::new(32 << 20, None).unwrap();
            assert_eq!(partition.compact_all(&resources).await.unwrap().passes, 1, "{what}");
            check(&partition, &format!("{what}, compacted")).await;
        }
    }
}

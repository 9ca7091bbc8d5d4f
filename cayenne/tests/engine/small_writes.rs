//! How fast small writes are when many come at once. To be looked at, not to pass or fail:
//!
//! ```text
//! cargo test --release -p cayenne --test engine small_writes -- --ignored --nocapture
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use cayenne::{Partition, WriteMode};
use tempfile::TempDir;
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::harness::*;

const CLIENTS: usize = 16;
const TIME: Duration = Duration::from_secs(10);

/// Rows per second of clients that write one row each, one after the other. Without `together` a commit waits for the
/// sync of the one before.
async fn rate(partition: &Partition, together: bool) -> f64 {
    let one = Arc::new(Mutex::new(()));
    let next = Arc::new(Mutex::new(partition.version()));
    let start = Instant::now();
    let clients = (0..CLIENTS).map(|client| {
        let (partition, one, next) = (partition.clone(), Arc::clone(&one), Arc::clone(&next));
        tokio::spawn(async move {
            let mut rows = 0;
            while start.elapsed() < TIME {
                let id = Uuid::new_v4();
                let mut writer = partition.begin_write(id, WriteMode::Append).await.unwrap();
                writer.write(numbers(client as i64, client as i64 + 1)).await.unwrap();
                if together {
                    writer.finish().await.unwrap();
                } else {
                    let _alone = one.lock().await;
                    writer.finish().await.unwrap();
                }
                let published = {
                    let mut version = next.lock().await;
                    *version += 1;
                    let published = partition.publish_soon(id, *version).await.unwrap();
                    if together {
                        Some(published)
                    } else {
                        published.durable().await.unwrap();
                        None
                    }
                };
                if let Some(published) = published {
                    published.durable().await.unwrap();
                }
                rows += 1;
            }
            rows
        })
    });
    let mut rows = 0;
    for client in clients.collect::<Vec<_>>() {
        rows += client.await.unwrap();
    }
    f64::from(rows) / start.elapsed().as_secs_f64()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement"]
async fn concurrent_single_rows() {
    for together in [false, true, false, true] {
        let dir = TempDir::new().unwrap();
        let partition = create(dir.path(), numbers_schema());
        let rate = rate(&partition, together).await;
        eprintln!("{CLIENTS} clients, syncs {}: {rate:.0} rows/s", if together { "shared" } else { "of their own" });
    }
}

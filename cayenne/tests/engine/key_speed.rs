//! How fast keyed writes and look-ups are. Run by hand: `cargo nextest run -p cayenne --run-ignored all key_speed --no-capture`.

use std::time::Instant;

use cayenne::{PartitionOptions, WriteMode};
use tempfile::TempDir;

use crate::keyed::*;

const ROWS: i64 = 1_000_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it measures"]
async fn upserts_and_look_ups() {
    for (what, key_memory_bytes) in [("exact index", 256 << 20), ("Bloom filters", 4 << 20)] {
        let options = PartitionOptions { key_memory_bytes, ..PartitionOptions::default() };
        let dir = TempDir::new().unwrap();
        let partition = create_keyed(dir.path(), by_id(), options.clone());
        let batches: Vec<_> = (0..ROWS / 50_000)
            .map(|part| rows(&(part * 50_000..(part + 1) * 50_000).map(|id| row(id, id)).collect::<Vec<_>>()))
            .collect();
        let start = Instant::now();
        let (id, summary) = stage_rows(&partition, WriteMode::Append, None, &batches).await.unwrap();
        publish_next(&partition, id).await;
        assert_eq!(summary.keys, Some(counts(ROWS as u64, 0, 0, 0)));
        eprintln!("{what}: load of {ROWS} rows {:?}", start.elapsed());
        drop(partition);
        let partition = reopen(dir.path(), options).await;
        for round in 0..3i64 {
            let scattered: Vec<_> = (0..ROWS / 100).map(|n| row((n * 7_919 + round) % ROWS, -n)).collect();
            let start = Instant::now();
            assert_eq!(upsert(&partition, &[rows(&scattered)]).await, counts(0, ROWS as u64 / 100, 0, 0));
            eprintln!(
                "{what}: upsert of 1 % {:?}{}",
                start.elapsed(),
                if round == 0 { ", with reading the keys" } else { "" }
            );
        }
        let start = Instant::now();
        let lookups = 200;
        for n in 0..lookups {
            assert_eq!(found(&partition, &[(n * 4_999 % ROWS, "")]).await.len(), 1);
        }
        eprintln!("{what}: {:.0} look-ups per second", lookups as f64 / start.elapsed().as_secs_f64());
        let singles = 20;
        let start = Instant::now();
        for n in 0..singles {
            upsert(&partition, &[rows(&[row(n * 77_777 % ROWS, n)])]).await;
        }
        eprintln!("{what}: {:.1} upserts of one row per second", singles as f64 / start.elapsed().as_secs_f64());
    }
}

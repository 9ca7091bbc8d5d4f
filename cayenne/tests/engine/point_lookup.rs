//! A look-up of one row by its primary key reads the blocks that hold the row, and nothing else of the columns.

use std::sync::Arc;
use std::time::Duration;

use cayenne::{CompactionRunner, CompactionRunnerOptions, Partition, PartitionOptions, ScanRequest, WriteMode, scan};
use datafusion::common::DFSchema;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{Expr, SessionContext, col, lit};
use tempfile::TempDir;

use crate::harness::*;
use crate::keyed::*;

/// Rows of each file, several blocks of each column.
const ROWS: i64 = 400_000;
const FILES: i64 = 2;

fn options(key_memory_bytes: usize) -> PartitionOptions {
    PartitionOptions { key_memory_bytes, ..PartitionOptions::default() }
}

/// Keys in no order, so that neither files nor zones are excluded by their bounds; values that do not compress.
fn file(number: i64) -> Vec<Row> {
    let at = |n: i64| (n * 7_919) % (ROWS * FILES);
    let value = |id: i64| id.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17);
    (number * ROWS..(number + 1) * ROWS).map(at).map(|id| row(id, value(id))).collect()
}

/// What a plan counted, with all that is below it.
fn metric(plan: &Arc<dyn ExecutionPlan>, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize());
    own + plan.children().into_iter().map(|child| metric(child, name)).sum::<usize>()
}

/// The rows that satisfy a condition, and the plan that found them.
async fn find(partition: &Partition, condition: Expr) -> (Vec<Row>, Arc<dyn ExecutionPlan>) {
    let schema = DFSchema::try_from(keyed_schema()).unwrap();
    let predicate = SessionContext::new().create_physical_expr(condition, &schema).unwrap();
    let request = ScanRequest { predicates: vec![predicate], ..ScanRequest::default() };
    let plan = scan(&[partition.pin(None).unwrap()], &request).unwrap();
    let mut rows = decode(&run(Arc::clone(&plan)).await);
    rows.sort_unstable();
    (rows, plan)
}

async fn load(dir: &TempDir, options: &PartitionOptions) -> Partition {
    let partition = create_keyed(dir.path(), by_id(), options.clone());
    for number in 0..FILES {
        let batches: Vec<_> = file(number).chunks(50_000).map(rows).collect();
        put(&partition, WriteMode::Append, &batches).await;
    }
    assert_eq!(partition.summary().files as i64, FILES);
    partition
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_row_is_one_block_of_each_column() {
    let dir = TempDir::new().unwrap();
    let options = options(256 << 20);
    drop(load(&dir, &options).await);
    let wanted = file(1)[123_456];
    let by_key = || col("id").eq(lit(wanted.id));

    // Nobody has written since the start, so nobody has read the keys.
    let partition = reopen(dir.path(), options).await;
    assert!(partition.lacks_keys().unwrap());
    let (found, plan) = find(&partition, by_key()).await;
    assert_eq!(found, [wanted]);
    let whole = metric(&plan, "bytes_read");
    assert_eq!((metric(&plan, "key_lookup(none)"), metric(&plan, "key_lookup(exact)")), (1, 0));

    // What looks after partitions has it read them.
    let runner = CompactionRunner::start(CompactionRunnerOptions::default()).unwrap();
    runner.add(&partition);
    runner.written(&partition);
    for _ in 0..3_000 {
        if !partition.lacks_keys().unwrap() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(!partition.lacks_keys().unwrap(), "the keys are read in the background");
    // The footers are known from here on.
    find(&partition, by_key()).await;
    let (found, plan) = find(&partition, by_key()).await;
    assert_eq!(found, [wanted]);
    let (read, reads) = (metric(&plan, "bytes_read"), metric(&plan, "reads"));
    println!("one row: {read} bytes in {reads} reads, {whole} bytes without the index");
    assert!(read * 2 < whole, "{read} bytes of {whole} in {reads} reads");
    assert_eq!((metric(&plan, "key_lookup(exact)"), metric(&plan, "rows_by_key")), (1, 1));
    assert_eq!(metric(&plan, "files_pruned") as i64, FILES - 1);

    // Several keys, some of which are not there.
    let others = [file(0)[7].id, wanted.id, -5, ROWS * FILES + 1];
    let (found, plan) = find(&partition, col("id").in_list(others.iter().map(|id| lit(*id)).collect(), false)).await;
    assert_eq!(found.len(), 2);
    assert_eq!(metric(&plan, "rows_by_key"), 2);
    let (found, plan) = find(&partition, col("id").eq(lit(-5i64))).await;
    assert!(found.is_empty());
    assert_eq!((metric(&plan, "files_pruned") as i64, metric(&plan, "bytes_read")), (FILES, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_leaves_the_file_of_a_key() {
    let dir = TempDir::new().unwrap();
    let partition = load(&dir, &options(2 << 20)).await;
    partition.index_keys().await.unwrap();
    let wanted = file(0)[9];
    let (found, plan) = find(&partition, col("id").eq(lit(wanted.id)).and(col("value").eq(lit(wanted.value)))).await;
    assert_eq!(found, [wanted]);
    assert_eq!((metric(&plan, "key_lookup(filter)"), metric(&plan, "rows_by_key")), (1, 0));
    // A filter errs now and then, so this is about several keys.
    let mut pruned = 0;
    for n in 0..20 {
        let wanted = file(1)[n * 1_000];
        let (found, plan) = find(&partition, col("id").eq(lit(wanted.id))).await;
        assert_eq!(found, [wanted]);
        pruned += metric(&plan, "files_pruned");
    }
    assert!(pruned >= 15, "{pruned} of 20");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_reads_the_blocks_that_may_match() {
    let dir = TempDir::new().unwrap();
    let partition = Partition::create(dir.path(), identity(), keyed_schema(), PartitionOptions::default()).unwrap();
    let mut stored = file(0);
    stored.sort_unstable();
    let batches: Vec<_> = stored.chunks(50_000).map(rows).collect();
    put(&partition, WriteMode::Append, &batches).await;
    assert_eq!(partition.summary().files, 1, "no file can be left out");
    let (all, plan) = find(&partition, col("id").gt_eq(lit(0i64))).await;
    assert_eq!(all.len(), stored.len());
    let whole = metric(&plan, "bytes_read");

    // By a column whose blocks have bounds that say something …
    let (low, high) = (stored[1_000].id, stored[1_100].id);
    let (found, plan) = find(&partition, col("id").between(lit(low), lit(high))).await;
    assert_eq!(found, stored[1_000..=1_100]);
    let read = metric(&plan, "bytes_read");
    assert!(read * 2 < whole, "{read} bytes of {whole}");
    // … and by one whose bounds exclude nothing.
    let (found, _) = find(&partition, col("value").eq(lit(stored[77].value))).await;
    assert_eq!(found, stored[77..=77]);
}

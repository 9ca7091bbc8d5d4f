//! Queries over files answer like the same queries over the same rows in memory.

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::*;
use cayenne::{Partition, PartitionOptions, ReadCache, ScanRequest, WriteMode, scan};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::{col, lit};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit as physical_lit};
use datafusion::prelude::SessionContext;
use tempfile::TempDir;

use crate::harness::*;

struct Rng(u64);

impl Rng {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn mixed_schema() -> SchemaRef {
    let inner = Fields::from(vec![Field::new("x", DataType::Int32, true)]);
    Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int32, true),
        Field::new("d", DataType::Int32, true),
        Field::new("big", DataType::Int64, true),
        Field::new("f", DataType::Float64, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("t", DataType::Utf8, true),
        Field::new("k", DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), true),
        Field::new("m", DataType::Decimal128(12, 2), true),
        Field::new("day", DataType::Date32, true),
        Field::new("at", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("b", DataType::Boolean, true),
        Field::new("st", DataType::Struct(inner), true),
    ]))
}

fn mixed(rng: &mut Rng, rows: usize, base: i32) -> RecordBatch {
    const WORDS: [&str; 8] = ["", "alpha", "alp", "100%", "a_b", "Straße", "beta\\", "zeta zeta zeta zeta zeta"];
    const FLOATS: [f64; 7] = [0.0, -0.0, 1.5, -2.25, f64::NAN, f64::INFINITY, 1e300];
    let mut some = |limit: u64, one_null_in: u64| -> Vec<Option<u64>> {
        (0..rows).map(|_| (rng.below(one_null_in) != 0).then(|| rng.below(limit))).collect()
    };
    let n: Int32Array = some(40, 9).into_iter().map(|v| v.map(|v| v as i32 + base)).collect();
    let d: Int32Array = some(4, 12).into_iter().map(|v| v.map(|v| v as i32)).collect();
    let big: Int64Array =
        some(5, 10).into_iter().map(|v| v.map(|v| [i64::MIN, -1, 3_000_000_000, 7, i64::MAX][v as usize])).collect();
    let f: Float64Array = some(7, 10).into_iter().map(|v| v.map(|v| FLOATS[v as usize])).collect();
    let s: StringViewArray = some(8, 8).into_iter().map(|v| v.map(|v| WORDS[v as usize])).collect();
    let t: StringArray = some(500, 8).into_iter().map(|v| v.map(|v| format!("text {v} of {base}"))).collect();
    let k: StringArray = some(8, 8).into_iter().map(|v| v.map(|v| WORDS[v as usize])).collect();
    let m: Decimal128Array = some(1000, 9).into_iter().map(|v| v.map(|v| i128::from(v) * 37 - 9000)).collect();
    let day: Date32Array = some(30, 9).into_iter().map(|v| v.map(|v| 18_000 + base + v as i32)).collect();
    let at: TimestampMicrosecondArray = some(50, 9).into_iter().map(|v| v.map(|v| v as i64 * 1_000_000_007)).collect();
    let b: BooleanArray = some(2, 6).into_iter().map(|v| v.map(|v| v == 1)).collect();
    let x: Int32Array = some(9, 5).into_iter().map(|v| v.map(|v| v as i32)).collect();
    let valid: Vec<bool> = some(4, 9).into_iter().map(|v| v.is_some_and(|v| v > 0)).collect();
    let schema = mixed_schema();
    let DataType::Struct(inner) = schema.field(11).data_type().clone() else { unreachable!() };
    let st = StructArray::new(inner, vec![Arc::new(x)], Some(NullBuffer::from(valid)));
    let k = cast(&k, schema.field(6).data_type()).unwrap();
    RecordBatch::try_new(
        schema,
        vec![
            Arc::new(n),
            Arc::new(d),
            Arc::new(big),
            Arc::new(f),
            Arc::new(s),
            Arc::new(t),
            k,
            Arc::new(m.with_precision_and_scale(12, 2).unwrap()),
            Arc::new(day),
            Arc::new(at.with_timezone("UTC")),
            Arc::new(b),
            Arc::new(st),
        ],
    )
    .unwrap()
}

/// Two partitions of several files each, with overlapping ranges, and the same rows in memory.
async fn mixed_table(seed: u64, streams: usize) -> (TempDir, SessionContext, SessionContext) {
    let home = TempDir::new().unwrap();
    let mut rng = Rng(seed);
    let mut partitions = Vec::new();
    let mut rows = Vec::new();
    for name in ["one", "two"] {
        let partition = create(&home.path().join(name), mixed_schema());
        for part in 0..3 {
            let batch = mixed(&mut rng, 900, part * 25);
            put(&partition, WriteMode::Append, std::slice::from_ref(&batch)).await;
            rows.push(batch);
        }
        partitions.push(partition);
    }
    let (ours, memory) = sessions(partitions, rows, streams);
    (home, ours, memory)
}

const PREDICATES: &[&str] = &[
    "CASE WHEN d <> 0 THEN n / d ELSE 0 END > 1",
    "n NOT IN (1, NULL)",
    "n IN (1, 2, NULL)",
    "n NOT IN (1, 2, 70)",
    "s NOT IN ('alpha', '')",
    "s IN ('alpha', 'Straße', NULL)",
    "st['x'] > 4",
    "st['x'] IS NULL",
    "st IS NULL",
    "st IS NOT NULL AND st['x'] = 3",
    "try_cast(big AS INT) > 5",
    "big > 2147483647",
    "CAST(n AS BIGINT) = big",
    "n + 2147483647 > 0",
    "n * 2 - d >= 60",
    "n > 20 AND n <= 45",
    "n < 3 OR n > 85",
    "NOT (n > 20 OR d = 1)",
    "n <> d",
    "n = NULL",
    "n IS NULL AND d IS NOT NULL",
    "f > 1.0",
    "f >= 'NaN'",
    "f = 0.0",
    "f < 0.0",
    "f IN (1.5, 0.0)",
    "f IS NULL",
    "isnan(f)",
    "s = 'alpha'",
    "s > 'alp' AND s < 'b'",
    "s <> ''",
    "s LIKE 'alp%'",
    "s NOT LIKE '%a%'",
    "s LIKE '%100\\%%'",
    "s LIKE 'a_b'",
    "s LIKE 'a\\_b'",
    "s LIKE '%ß_'",
    "s LIKE ''",
    "s LIKE '%'",
    "s ILIKE 'ALP%'",
    "s ILIKE '%SSE'",
    "t LIKE 'text 1__ of 25'",
    "t LIKE '%7 of%'",
    "t LIKE 'text 12%' OR t IS NULL",
    "t NOT LIKE 'text%of 0'",
    "t = 'text 7 of 50'",
    "t IN ('text 1 of 0', 'text 2 of 25', 'nothing')",
    "t BETWEEN 'text 100' AND 'text 2'",
    "upper(s) = 'ALPHA'",
    "length(s) > 3",
    "k = 'alpha'",
    "k IN ('alpha', 'zeta zeta zeta zeta zeta')",
    "k LIKE 'a%'",
    "k IS NULL",
    "k <> 'alp'",
    "m > 100.00",
    "m BETWEEN -10.00 AND 55.50",
    "m * 2 > 200.5",
    "m IN (-90.00, 1.74)",
    "day >= DATE '2019-05-01'",
    "day BETWEEN DATE '2019-04-20' AND DATE '2019-04-28'",
    "at > TIMESTAMP '1970-01-01T05:00:00Z'",
    "extract(hour FROM at) = 3",
    "date_trunc('day', at) = TIMESTAMP '1970-01-01T00:00:00Z'",
    "b",
    "NOT b",
    "b IS NOT TRUE",
    "b = (n > 20)",
    "b AND s LIKE 'a%' AND n < 60",
    "coalesce(n, 0) = 0",
    "n > 1000",
    "n IS NOT DISTINCT FROM NULL",
    "true",
    "false",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filters_give_the_rows_that_memory_gives() {
    let (_home, ours, memory) = mixed_table(1, 1).await;
    for predicate in PREDICATES {
        same(&ours, &memory, &format!("SELECT s, n FROM t WHERE ({predicate}) AND d < 3")).await;
    }
    let (_home, ours, memory) = mixed_table(2, 5).await;
    for predicate in PREDICATES {
        same(&ours, &memory, &format!("SELECT * FROM t WHERE {predicate}")).await;
        same(&ours, &memory, &format!("SELECT count(*) FROM t WHERE {predicate}")).await;
    }
}

/// Predicates put together at random; the seed of a failure is in the query.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn combined_filters_give_the_rows_that_memory_gives() {
    let (_home, ours, memory) = mixed_table(5, 3).await;
    let mut rng = Rng(99);
    for _ in 0..60 {
        let mut combined = PREDICATES[rng.below(PREDICATES.len() as u64) as usize].to_owned();
        for _ in 0..1 + rng.below(3) {
            let other = PREDICATES[rng.below(PREDICATES.len() as u64) as usize];
            combined = match rng.below(4) {
                0 => format!("({combined}) AND ({other})"),
                1 => format!("({combined}) OR ({other})"),
                2 => format!("NOT ({combined}) AND ({other})"),
                _ => format!("NOT (({combined}) OR ({other}))"),
            };
        }
        same(&ours, &memory, &format!("SELECT n, d, s, t, m FROM t WHERE {combined}")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregates_joins_and_top_k_give_the_rows_that_memory_gives() {
    let (_home, ours, memory) = mixed_table(3, 4).await;
    for sql in [
        "SELECT count(*), count(n), min(n), max(n), sum(big % 1000) FROM t",
        "SELECT min(s), max(s), min(t), max(t), min(k), max(k) FROM t",
        "SELECT min(f), max(f), min(m), max(m), min(day), max(at), min(b), max(b) FROM t",
        "SELECT count(*) FROM (SELECT * FROM t LIMIT 5)",
        "SELECT min(n), count(*) FROM t WHERE n > 30",
        "SELECT d, count(*), sum(m) FROM t GROUP BY d",
        "SELECT a.n, count(*) FROM t a JOIN t b ON a.n = b.n WHERE b.s = 'alpha' AND b.d = 2 AND b.m > 300 GROUP BY a.n",
        "SELECT count(*) FROM t a JOIN (SELECT DISTINCT t FROM t WHERE n = 71) b ON a.t = b.t",
        "SELECT count(*) FROM t a JOIN (SELECT DISTINCT f FROM t WHERE n = 71) b ON a.f = b.f",
        "SELECT count(*) FROM t WHERE n NOT IN (SELECT n FROM t WHERE n > 30 AND n IS NOT NULL)",
        "SELECT count(*) FROM t WHERE n IN (SELECT d FROM t)",
        "SELECT count(*) FROM t WHERE m > (SELECT avg(m) FROM t)",
        "SELECT count(*) FROM t a LEFT JOIN (SELECT * FROM t WHERE n = 3 AND d = 1) b ON a.n = b.n AND a.s = b.s",
        "SELECT n FROM t WHERE d = 2 ORDER BY n LIMIT 25",
        "SELECT n FROM t WHERE d = 2 ORDER BY n DESC NULLS LAST LIMIT 25",
        "SELECT n FROM t ORDER BY n DESC LIMIT 40",
        "SELECT t FROM t WHERE b ORDER BY t LIMIT 30",
        "SELECT f FROM t ORDER BY f LIMIT 30",
        "SELECT f FROM t ORDER BY f DESC NULLS LAST LIMIT 30",
        "SELECT m, n, t, s, big FROM t WHERE n > 10 ORDER BY m, n, t, s, big LIMIT 50",
        "SELECT max(n) FROM t WHERE s LIKE 'a%'",
        "SELECT 1 FROM t WHERE d / 2 = 1",
    ] {
        same(&ours, &memory, sql).await;
    }
}

/// Case S16: a threshold that tightens while files are read must neither repeat nor lose a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_k_returns_each_row_once() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("a", DataType::Int64, false),
        Field::new("b", DataType::Int64, false),
        Field::new("id", DataType::Int64, false),
    ]));
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), Arc::clone(&schema));
    let mut rows = Vec::new();
    for part in 0..4i64 {
        // Each file's values lie lower than those of the file before.
        let ids = Int64Array::from_iter_values(part * 20_000..(part + 1) * 20_000);
        let a = Int64Array::from_iter_values(ids.values().iter().map(|id| id % 3));
        let b = Int64Array::from_iter_values(ids.values().iter().map(|id| (4 - part) * 1000 + (id * 7919) % 977));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(a), Arc::new(b), Arc::new(ids)]).unwrap();
        put(&partition, WriteMode::Append, std::slice::from_ref(&batch)).await;
        rows.push(batch);
    }
    for streams in [1, 4] {
        let (ours, memory) = sessions(vec![partition.clone()], rows.clone(), streams);
        for k in [1, 7, 5000] {
            for order in ["b, id", "b DESC, id"] {
                same(&ours, &memory, &format!("SELECT a, b, id FROM t WHERE a <> 1 ORDER BY {order} LIMIT {k}")).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_pruned_and_explain_says_so() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    for part in 0..6 {
        put(&partition, WriteMode::Append, &[numbers(part * 1000, (part + 1) * 1000)]).await;
    }
    let (ours, _) = sessions(vec![partition], vec![], 2);
    let plan = explain(&ours, "SELECT name FROM t WHERE id BETWEEN 2100 AND 3050").await;
    assert!(plan.contains("files_total=6, files_pruned=4"), "{plan}");
    assert!(plan.contains("predicate: "), "{plan}");
    assert!(!plan.contains("FilterExec"), "the file scan evaluates this filter itself: {plan}");
    let plan = explain(&ours, "SELECT name FROM t WHERE id % 2 = 0 AND id > 4000").await;
    assert!(plan.contains("FilterExec") && plan.contains("files_pruned=4"), "{plan}");
    let analyzed = answer(&ours, "EXPLAIN ANALYZE SELECT name FROM t WHERE id = 17").await.unwrap().join("\n");
    assert!(analyzed.contains("files_pruned=5"), "{analyzed}");
    let counted = explain(&ours, "SELECT count(*), min(id), max(id) FROM t").await;
    assert!(!counted.contains("DataSourceExec"), "answered from exact statistics: {counted}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_over_several_pins_have_the_asked_streams() {
    let home = TempDir::new().unwrap();
    let one = create(&home.path().join("one"), numbers_schema());
    let two = create(&home.path().join("two"), numbers_schema());
    put(&one, WriteMode::Append, &[numbers(0, 300_000)]).await;
    put(&two, WriteMode::Append, &[numbers(300_000, 300_010)]).await;
    let pins = [one.pin(None).unwrap(), two.pin(None).unwrap(), one.pin(Some(0)).unwrap()];
    for streams in [1, 2, 16] {
        let schema = DFSchema::try_from(numbers_schema()).unwrap();
        let predicate =
            SessionContext::new().create_physical_expr((col("id") % lit(2i64)).eq(lit(0i64)), &schema).unwrap();
        let request =
            ScanRequest { projection: Some(vec![1]), predicates: vec![predicate], streams, ..ScanRequest::default() };
        let plan = scan(&pins, &request).unwrap();
        assert_eq!(plan.properties().output_partitioning().partition_count(), streams);
        assert_eq!(plan.schema().fields().len(), 1);
        // Executing one stream twice gives its rows twice, whatever the others do.
        let context = SessionContext::new().task_ctx();
        let mut rows = 0;
        for stream in 0..streams {
            let first = datafusion::physical_plan::common::collect(plan.execute(stream, Arc::clone(&context)).unwrap())
                .await
                .unwrap();
            let second =
                datafusion::physical_plan::common::collect(plan.execute(stream, Arc::clone(&context)).unwrap())
                    .await
                    .unwrap();
            let count = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
            assert_eq!(count(&first), count(&second));
            rows += count(&first);
        }
        assert_eq!(rows, 150_005);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_gives_enough_rows_also_with_filters() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    put(&partition, WriteMode::Append, &[numbers(0, 100_000)]).await;
    let schema = DFSchema::try_from(numbers_schema()).unwrap();
    for predicate in [col("id").gt(lit(99_000i64)), (col("id") * lit(1i64)).gt(lit(99_000i64))] {
        let request = ScanRequest {
            predicates: vec![SessionContext::new().create_physical_expr(predicate, &schema).unwrap()],
            limit: Some(10),
            streams: 2,
            ..ScanRequest::default()
        };
        let plan = scan(&[partition.pin(None).unwrap()], &request).unwrap();
        let rows: usize = run(plan).await.iter().map(RecordBatch::num_rows).sum();
        assert!((10..=20).contains(&rows), "{rows}");
    }
}

/// A dynamic filter may take rows away as soon as it is known, and only those it excludes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamic_filters_are_used_when_a_file_is_opened() {
    let dir = TempDir::new().unwrap();
    let partition = create(dir.path(), numbers_schema());
    put(&partition, WriteMode::Append, &[numbers(0, 50_000)]).await;
    put(&partition, WriteMode::Append, &[numbers(50_000, 60_000)]).await;
    let id: Arc<dyn PhysicalExpr> = Arc::new(Column::new("id", 0));
    let dynamic = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&id)], physical_lit(true)));
    let request =
        ScanRequest { predicates: vec![Arc::clone(&dynamic) as Arc<dyn PhysicalExpr>], ..ScanRequest::default() };
    let plan = scan(&[partition.pin(None).unwrap()], &request).unwrap();
    let rows = |batches: Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows(run(Arc::clone(&plan)).await), 60_000);
    let bound = datafusion::physical_expr::expressions::binary(
        id,
        datafusion::logical_expr::Operator::Lt,
        physical_lit(ScalarValue::Int64(Some(40))),
        &numbers_schema(),
    )
    .unwrap();
    dynamic.update(bound).unwrap();
    assert_eq!(rows(run(Arc::clone(&plan)).await), 40);
    let skipped = plan.metrics().unwrap().sum_by_name("file_pieces_skipped").unwrap().as_usize();
    assert_eq!(skipped, 1, "the second file is not opened");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn footers_are_read_once_and_the_cache_is_bounded() {
    let dir = TempDir::new().unwrap();
    let cache = ReadCache::new(1 << 20);
    let options = PartitionOptions { cache: cache.clone(), ..small_files() };
    let partition = Partition::create(dir.path(), identity(), numbers_schema(), options).unwrap();
    put(&partition, WriteMode::Append, &[numbers(0, 40_000)]).await;
    assert!(cache.is_empty());
    assert_eq!(ids(&partition, None).await.len(), 40_000);
    assert_eq!(cache.len() as u64, partition.summary().files);
    assert_eq!(ids(&partition, None).await.len(), 40_000);
    assert_eq!(cache.len() as u64, partition.summary().files);
    assert_eq!(cache.limit_bytes(), 1 << 20);
}

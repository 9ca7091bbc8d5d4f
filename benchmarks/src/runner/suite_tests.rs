//! Tests of the suite: engines that agree, that disagree and that fail.
use super::*;
use crate::python::PythonEnv;
use crate::runner::cayenne_tables::tests::write_partitions;
use crate::runner::{DataFusionEngine, DuckDbEngine};
use crate::tpch::write_parquet;
use arrow::array::{ArrayRef, Int64Array};
use async_trait::async_trait;
use std::sync::Mutex;

/// An engine whose answers the test decides.
struct Scripted {
    name: &'static str,
    answer: Box<dyn Fn(usize) -> anyhow::Result<Vec<i64>> + Send>,
    calls: Arc<Mutex<Vec<&'static str>>>,
    run: usize,
}

#[async_trait]
impl SqlEngine for Scripted {
    fn name(&self) -> &str {
        self.name
    }

    async fn run(&mut self, _sql: &str) -> anyhow::Result<Vec<RecordBatch>> {
        self.calls.lock().expect("no panic elsewhere").push(self.name);
        self.run += 1;
        let column: ArrayRef = Arc::new(Int64Array::from((self.answer)(self.run)?));
        Ok(vec![RecordBatch::try_from_iter([("n", column)])?])
    }
}

type Calls = Arc<Mutex<Vec<&'static str>>>;

fn scripted(
    name: &'static str,
    calls: &Calls,
    answer: impl Fn(usize) -> anyhow::Result<Vec<i64>> + Send + 'static,
) -> Box<dyn SqlEngine> {
    Box::new(Scripted { name, answer: Box::new(answer), calls: Arc::clone(calls), run: 0 })
}

fn options(queries: &[usize]) -> SuiteOptions {
    SuiteOptions { repeat: 2, warmup: 0, queries: queries.to_vec(), ..SuiteOptions::new(0.5, 1) }
}

async fn run(engines: &mut [Box<dyn SqlEngine>], options: &SuiteOptions) -> (Report, String) {
    let mut out = Vec::new();
    let report = run_suite(engines, options, &mut out).await.expect("sensible options");
    (report, String::from_utf8(out).expect("text"))
}

#[tokio::test]
async fn engines_take_turns_and_the_last_one_judges() {
    let calls = Calls::default();
    let mut engines = vec![scripted("a", &calls, |_| Ok(vec![1])), scripted("b", &calls, |_| Ok(vec![1]))];
    let (report, text) = run(&mut engines, &options(&[6, 19])).await;
    assert_eq!(*calls.lock().expect("done"), ["a", "b", "a", "b", "a", "b", "a", "b"]);
    assert_eq!((report.passed(), report.failed()), (2, 0));
    assert_eq!(report.queries[0].results[0].runs_ms.len(), 2);
    assert!(text.ends_with("tpch: 2 passed, 0 failed\n"), "{text}");
    assert_eq!(text, report.to_text());
    let json: serde_json::Value = serde_json::from_str(&report.to_json().expect("JSON")).expect("JSON");
    assert_eq!(json["queries"][1]["number"], 19);
}

#[tokio::test]
async fn wrong_rows_errors_and_changing_counts_fail_the_query() {
    let calls = Calls::default();
    let answers: [fn(usize) -> anyhow::Result<Vec<i64>>; 3] =
        [|_| Ok(vec![2]), |_| Err(anyhow::anyhow!("executor 3 is gone")), |run| Ok(vec![1; run])];
    for (answer, words) in answers.into_iter().zip(["wrong answer", "executor 3", "a later run"]) {
        let mut engines = vec![scripted("ancho", &calls, answer), scripted("peer", &calls, |_| Ok(vec![1]))];
        let (report, text) = run(&mut engines, &options(&[6])).await;
        assert_eq!((report.passed(), report.failed()), (0, 1), "{text}");
        assert!(text.contains(words), "{text}");
        assert!(text.ends_with("tpch: 0 passed, 1 failed\n"), "{text}");
    }
}

#[tokio::test]
async fn a_query_is_not_verified_by_a_peer_that_fails() {
    let calls = Calls::default();
    let mut engines = vec![
        scripted("ancho", &calls, |_| Ok(vec![1])),
        scripted("peer", &calls, |_| Err(anyhow::anyhow!("out of memory"))),
    ];
    let (report, text) = run(&mut engines, &options(&[6])).await;
    assert_eq!(report.failed(), 1);
    assert!(text.contains("not verified, since peer failed: out of memory"), "{text}");
    let unverified = SuiteOptions { verify: false, ..options(&[6]) };
    assert_eq!(run(&mut engines, &unverified).await.0.passed(), 1);
}

#[tokio::test]
async fn options_without_sense_are_refused() {
    let calls = Calls::default();
    let mut engines = vec![scripted("ancho", &calls, |_| Ok(vec![1]))];
    let alone = options(&[6]);
    let unknown = SuiteOptions { verify: false, ..options(&[23]) };
    let never = SuiteOptions { verify: false, repeat: 0, ..options(&[6]) };
    for bad in [alone, unknown, never] {
        assert!(run_suite(&mut engines, &bad, &mut Vec::new()).await.is_err());
    }
}

/// All 22 queries at scale 0.01, on DataFusion over both formats and on DuckDB, against the stored answers.
#[tokio::test(flavor = "multi_thread")]
async fn every_engine_gives_the_reference_answers() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = write_parquet(dir.path(), 0.01, 2, &|_| {}).expect("generated");
    let python = PythonEnv::ensure(None).expect("a Python environment");
    let database = dir.path().join("duckdb.db");
    let duckdb = DuckDbEngine::start(&python, &database, &data, 2).await.expect("DuckDB");
    let datafusion = DataFusionEngine::over_parquet(&data, 2).await.expect("DataFusion");
    let roots = [dir.path().join("executor-1"), dir.path().join("executor-2")];
    for root in &roots {
        // The second executor holds replicas.
        write_partitions(root, 0.01, 2).await;
    }
    let cayenne = DataFusionEngine::over_cayenne(&roots, &data, 2).await.expect("Cayenne");
    let mut engines: Vec<Box<dyn SqlEngine>> = vec![Box::new(cayenne), Box::new(datafusion), Box::new(duckdb)];
    let mut options = SuiteOptions::new(0.01, 2);
    options.warmup = 0;
    options.repeat = 1;
    let (report, text) = run(&mut engines, &options).await;
    println!("{text}");
    assert_eq!((report.passed(), report.failed()), (22, 0), "{text}");
    let errors = report.queries.iter().flat_map(|q| &q.results).filter(|r| r.error.is_some());
    assert_eq!(errors.count(), 0, "{text}");

    // The same engines against each other, as at a scale without stored answers.
    options.scale = 0.5;
    let (report, text) = run(&mut engines, &options).await;
    assert_eq!((report.passed(), report.failed()), (22, 0), "{text}");
}

/// The engines against each other at scale 1, where no answers are stored.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "generates scale 1, which takes minutes in a debug build"]
async fn datafusion_agrees_with_duckdb_at_scale_1() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = write_parquet(dir.path(), 1.0, 4, &|_| {}).expect("generated");
    let python = PythonEnv::ensure(None).expect("a Python environment");
    let database = dir.path().join("duckdb.db");
    let duckdb = DuckDbEngine::start(&python, &database, &data, 2).await.expect("DuckDB");
    let datafusion = DataFusionEngine::over_parquet(&data, 2).await.expect("DataFusion");
    let mut options = SuiteOptions::new(1.0, 2);
    options.warmup = 0;
    options.repeat = 1;
    let (report, text) = run(&mut [Box::new(datafusion), Box::new(duckdb)], &options).await;
    println!("{text}");
    assert_eq!((report.passed(), report.failed()), (22, 0), "{text}");
}

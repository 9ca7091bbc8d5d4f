//! The differential gate: the same SQL in one process and on clusters gives the same rows.
//!
//! The whole corpus runs on 2 executors with 16 streams. The core cases run on all six topologies, beside half of the others
//! on 3 executors with 1 stream and a sample on the other four, unless `ANCHO_GATE=full` is set. TPC-H runs on all six. `ANCHO_GATE_ONLY=part` runs only queries whose
//! id has that part.
mod report;
mod tpch;

use std::{
    collections::BTreeMap,
    env,
    time::{Duration, Instant},
};

use ancho_integration::{
    Answer, Client,
    cluster::in_process::ClusterBuilder,
    corpus::{Corpus, CorpusFile, QueryCase},
    judge::{compare, judge_cluster, judge_reference},
    reference::Reference,
    run, turns,
};
use anyhow::Context;
use futures::{StreamExt, stream};
use tokio::{sync::Mutex, time::timeout};

use self::report::Report;

/// Statements under way at once.
const CONCURRENCY: usize = 4;

/// Longest time of one statement.
const STATEMENT_LIMIT: Duration = Duration::from_secs(60);

/// Streams of the single process; none of the clusters'.
const REFERENCE_STREAMS: usize = 4;

/// Beside the core cases one of this many others runs on 3 executors with 1 stream.
const HALF: Scope = Scope::Sample(2);
/// The same on the other topologies.
const FEW: Scope = Scope::Sample(12);

/// Which part of the corpus a topology runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Scope {
    All,
    /// The core cases, and one of so many of the others.
    Sample(u64),
}

impl Scope {
    fn contains(self, case: &QueryCase) -> bool {
        let wanted = env::var("ANCHO_GATE_ONLY").map_or(true, |part| case.id.contains(&part));
        let full = env::var("ANCHO_GATE").is_ok_and(|v| v == "full");
        let scope = match self {
            Self::All => true,
            Self::Sample(one_in) => full || case.is_core() || case.in_sample(one_in),
        };
        wanted && scope
    }
}

#[test]
fn one_executor() {
    run(gate(1, [(16, FEW), (1, FEW)]));
}

#[test]
fn two_executors() {
    run(gate(2, [(16, Scope::All), (1, FEW)]));
}

#[test]
fn three_executors() {
    run(gate(3, [(1, HALF), (16, FEW)]));
}

/// Loads all tables once into a cluster and runs the corpus with each number of streams.
async fn gate(executors: usize, plan: [(usize, Scope); 2]) -> anyhow::Result<()> {
    let _turn = turns::shared().await?;
    let corpus = Corpus::load(&Corpus::dir())?;
    let mut cluster = ClusterBuilder::default().executors(executors).streams(plan[0].0).start().await?;
    let references = References::load(&corpus).await?;
    let mut report = Report::new(&format!("differential-{executors}-executors"));
    let broken = load_tables(&corpus, &cluster.client()?, &mut report).await;
    let mut streams_now = plan[0].0;
    for (streams, scope) in plan {
        if streams != streams_now {
            cluster.restart_schedulers(streams).await?;
            streams_now = streams;
        }
        let topology = format!("{executors} executors, {streams} streams");
        let client = cluster.client()?;
        let thorough = scope == Scope::All && executors == 2;
        let mut runs = Vec::new();
        for (file, reference) in corpus.files.iter().zip(&references.files) {
            for case in file.queries.iter().filter(|case| scope.contains(case)) {
                let (client, broken) = (&client, broken.get(&file.name));
                // Expected rows are compared with the single process once; asking it again shows nothing new.
                let reference = (thorough || case.expected.is_none()).then_some(reference);
                runs.push(async move { (case, check(case, client, reference, broken).await) });
            }
        }
        let start = Instant::now();
        let results = stream::iter(runs).buffered(CONCURRENCY).collect().await;
        report.add_topology(&topology, start.elapsed(), results);
    }
    cluster.stop().await?;
    report.finish()
}

/// A table that could not be loaded, by file: its queries are not worth a message each.
type Broken = BTreeMap<String, Vec<String>>;

async fn load_tables(corpus: &Corpus, client: &Client, report: &mut Report) -> Broken {
    let start = Instant::now();
    let loads: Vec<_> = corpus.files.iter().map(|file| async move { (file, load_file(file, client).await) }).collect();
    let loads: Vec<_> = stream::iter(loads).buffered(CONCURRENCY).collect().await;
    let mut broken = Broken::new();
    for (file, problems) in loads {
        for (table, sql, problem) in problems {
            report.add_failure("loading", &table, &file.name, &sql, &problem);
            broken.entry(file.name.clone()).or_default().push(table);
        }
    }
    report.note(&format!("tables loaded in {:.1} s", start.elapsed().as_secs_f64()));
    broken
}

/// Table, statement and problem of what could not be loaded.
async fn load_file(file: &CorpusFile, client: &Client) -> Vec<(String, String, String)> {
    let mut problems = Vec::new();
    for table in &file.tables {
        for sql in table.cluster_statements() {
            let problem = match timeout(STATEMENT_LIMIT, client.update(&sql)).await {
                Ok(Ok(_)) => continue,
                Ok(Err(failure)) => failure.to_string(),
                Err(_) => format!("no end within {STATEMENT_LIMIT:?}"),
            };
            problems.push((table.name.clone(), sql, problem));
            break;
        }
    }
    problems
}

/// Runs one query on the cluster, and in the single process if that is to be asked.
async fn check(
    case: &QueryCase,
    client: &Client,
    reference: Option<&FileReference>,
    broken: Option<&Vec<String>>,
) -> Result<(), String> {
    let uses = |table: &String| case.sql.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == table);
    if let Some(table) = broken.into_iter().flatten().find(|table| uses(table)) {
        return Err(format!("not run: the table {table} could not be loaded"));
    }
    let expected = match reference {
        Some(reference) => reference.outcome(case).await,
        None => None,
    };
    if let Some(outcome) = &expected {
        judge_reference(case, outcome).map_err(|problem| format!("in one process: {problem}"))?;
    }
    for round in 1..=case.repeat {
        let outcome = match timeout(STATEMENT_LIMIT, client.query(&case.sql)).await {
            Ok(outcome) => outcome,
            Err(_) => return Err(format!("no end within {STATEMENT_LIMIT:?}")),
        };
        let judged = judge_cluster(case, &outcome).and_then(|()| match (&outcome, &expected) {
            (Ok(answer), Some(Ok(reference))) => compare(case, reference, answer),
            _ => Ok(()),
        });
        judged.map_err(|problem| match case.repeat {
            1 => problem,
            n => format!("run {round} of {n}: {problem}"),
        })?;
    }
    Ok(())
}

/// One single process per file, so that the queries of several files run side by side.
struct References {
    files: Vec<FileReference>,
}

/// The answers of one file's single process, each asked for once.
struct FileReference {
    process: Reference,
    known: Mutex<BTreeMap<String, Result<Answer, String>>>,
}

impl References {
    async fn load(corpus: &Corpus) -> anyhow::Result<Self> {
        let mut files = Vec::new();
        for file in &corpus.files {
            let process = Reference::new(REFERENCE_STREAMS);
            for table in &file.tables {
                process.load(table).await.with_context(|| format!("table {} in one process", table.name))?;
            }
            files.push(FileReference { process, known: Mutex::default() });
        }
        Ok(Self { files })
    }
}

impl FileReference {
    async fn outcome(&self, case: &QueryCase) -> Option<Result<Answer, String>> {
        if case.expect_only {
            return None;
        }
        if let Some(outcome) = self.known.lock().await.get(&case.id) {
            return Some(outcome.clone());
        }
        let outcome = self.process.run(case).await.map_err(|e| e.strip_backtrace());
        self.known.lock().await.insert(case.id.clone(), outcome.clone());
        Some(outcome)
    }
}

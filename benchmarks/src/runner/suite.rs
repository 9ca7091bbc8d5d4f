//! Runs the queries on all engines in turn and judges the answers.

use super::engine::SqlEngine;
use super::report::{EngineResult, QueryReport, Report};
use crate::compare::{RowSet, diff_with};
use crate::tpch::{AnswerKey, Query, check_answer, query};
use anyhow::{Context, bail, ensure};
use arrow::record_batch::RecordBatch;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

/// Called after every query with its report, the number of queries done, and the number in all.
pub type OnQuery = Arc<dyn Fn(&QueryReport, usize, usize) + Send + Sync>;

/// How to run the suite.
#[derive(Clone)]
pub struct SuiteOptions {
    /// Scale factor of the loaded data: decides which stored answers apply.
    pub scale: f64,
    /// Timed runs per query and engine; at least 1.
    pub repeat: usize,
    /// Runs per query and engine before the timed ones.
    pub warmup: usize,
    /// Whether to compare the rows with the stored answers, or, at a scale that has none, with those
    /// of the first independent peer, or of the last peer when none is independent.
    pub verify: bool,
    /// Numbers of the queries to run, in this order.
    pub queries: Vec<usize>,
    /// Cores that each engine was given; for the report only.
    pub cores: usize,
    /// Longest time of one run; then it counts as failed.
    pub timeout: Duration,
    /// Told of every finished query.
    pub on_query: Option<OnQuery>,
}

impl SuiteOptions {
    /// All queries once cold and three times timed, verified.
    pub fn new(scale: f64, cores: usize) -> Self {
        Self {
            scale,
            repeat: 3,
            warmup: 1,
            verify: true,
            queries: (1..=22).collect(),
            cores,
            timeout: Duration::from_secs(600),
            on_query: None,
        }
    }
}

/// Runs the suite. The first engine is the one under test; the others are peers.
///
/// For every query each round runs all engines one after the other, so that a slow phase of the machine
/// meets them all. A query passes when the engine under test ran it every time without an error, with
/// the same number of rows, and, with [`SuiteOptions::verify`], gave the right rows. A peer that fails or
/// disagrees with the stored answer is reported and changes no verdict; when the answers are a peer's
/// (no stored ones at this scale) and that peer fails, the query fails as not verifiable.
///
/// Writes one line per query, a line of totals, and last `tpch: P passed, F failed`.
///
/// # Errors
/// When the options make no sense or `out` cannot be written; a failing query is no error here.
pub async fn run_suite(
    engines: &mut [Box<dyn SqlEngine>],
    options: &SuiteOptions,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Report> {
    let queries = options
        .queries
        .iter()
        .map(|number| query(*number).with_context(|| format!("there is no TPC-H query {number}")))
        .collect::<anyhow::Result<Vec<_>>>()?;
    ensure!(options.repeat > 0, "the number of timed runs must be above zero");
    let judge = Judge::new(engines, options)?;
    let names = engines.iter().map(|engine| engine.name().to_owned()).collect();
    let mut report = Report::new(names, options, judge.description());
    writeln!(out, "{}", report.header())?;
    for query in &queries {
        let mut runs = Vec::with_capacity(engines.len());
        runs.resize_with(engines.len(), EngineRuns::default);
        for round in 0..options.warmup + options.repeat {
            for (engine, runs) in engines.iter_mut().zip(&mut runs) {
                run_once(engine.as_mut(), query, round >= options.warmup, options, runs).await;
            }
        }
        // Only the engine under test: what it spends before the first row is computed.
        if let (Some(engine), Some(runs)) = (engines.first_mut(), runs.first_mut()) {
            for _ in 0..options.repeat {
                measure_planning(engine.as_mut(), query, options, runs).await;
            }
        }
        let line = judge.verdict(query, &report.engines, runs);
        writeln!(out, "{}", report.line(&line))?;
        report.queries.push(line);
        if let (Some(on_query), Some(last)) = (&options.on_query, report.queries.last()) {
            on_query(last, report.queries.len(), queries.len());
        }
    }
    write!(out, "{}", report.footer())?;
    out.flush()?;
    Ok(report)
}

/// What one engine made of one query.
#[derive(Default)]
struct EngineRuns {
    milliseconds: Vec<f64>,
    /// Rows of the first run.
    first: Option<Vec<RecordBatch>>,
    rows: usize,
    error: Option<String>,
    planning: Vec<f64>,
}

async fn run_once(
    engine: &mut dyn SqlEngine,
    query: &Query,
    timed: bool,
    options: &SuiteOptions,
    runs: &mut EngineRuns,
) {
    if runs.error.is_some() {
        return;
    }
    let result = match tokio::time::timeout(options.timeout, engine.run_timed(query.sql)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            runs.error = Some(format!("{error:#}"));
            return;
        }
        Err(_) => {
            runs.error = Some(format!("no answer within {:?}", options.timeout));
            return;
        }
    };
    let rows = result.row_count();
    if runs.first.is_none() {
        runs.rows = rows;
        runs.first = Some(result.batches);
    } else if rows != runs.rows {
        runs.error = Some(format!("{} rows at first, {rows} in a later run", runs.rows));
        return;
    }
    if timed {
        runs.milliseconds.push(result.elapsed.as_secs_f64() * 1000.0);
    }
}

async fn measure_planning(engine: &mut dyn SqlEngine, query: &Query, options: &SuiteOptions, runs: &mut EngineRuns) {
    if runs.error.is_some() {
        return;
    }
    match tokio::time::timeout(options.timeout, engine.planning(query.sql)).await {
        Ok(Ok(planning)) => runs.planning.extend(planning.map(|time| time.as_secs_f64() * 1000.0)),
        Ok(Err(error)) => runs.error = Some(format!("EXPLAIN ANALYZE failed: {error:#}")),
        Err(_) => runs.error = Some(format!("EXPLAIN ANALYZE gave no answer within {:?}", options.timeout)),
    }
}

/// Where the right answers come from.
enum Judge {
    Unverified,
    Stored(AnswerKey),
    /// The engine at this position.
    Peer(usize, String),
}

impl Judge {
    fn new(engines: &[Box<dyn SqlEngine>], options: &SuiteOptions) -> anyhow::Result<Self> {
        ensure!(!engines.is_empty(), "the suite needs an engine to run on");
        if !options.verify {
            return Ok(Judge::Unverified);
        }
        if let Some(key) = AnswerKey::for_scale(options.scale) {
            return Ok(Judge::Stored(key));
        }
        let peers = engines.iter().enumerate().skip(1);
        let independent = peers.clone().find(|(_, peer)| peer.is_independent());
        match independent.or_else(|| peers.last()) {
            Some((at, peer)) => Ok(Judge::Peer(at, peer.name().to_owned())),
            None => bail!(
                "there are no stored answers at scale {}: verify at scale 0.01, or add a peer \
                 to compare with",
                options.scale
            ),
        }
    }

    fn description(&self) -> Option<String> {
        match self {
            Judge::Unverified => None,
            Judge::Stored(key) => Some(key.to_string()),
            Judge::Peer(_, name) => Some(format!("answers of {name}")),
        }
    }

    fn verdict(&self, query: &Query, names: &[String], mut runs: Vec<EngineRuns>) -> QueryReport {
        let reference = match self {
            Judge::Peer(at, _) => Some((*at, runs[*at].first.take(), runs[*at].error.clone())),
            _ => None,
        };
        for (position, runs) in runs.iter_mut().enumerate() {
            if runs.error.is_some() {
                continue;
            }
            let rows = runs.first.take().unwrap_or_default();
            let wrong = match (self, &reference) {
                (Judge::Stored(key), _) => check_answer(*key, query, &rows).err().map(Into::into),
                (Judge::Peer(at, name), Some((_, answer, error))) if position != *at => {
                    check_against(query, name, answer.as_deref(), error.as_deref(), &rows).err()
                }
                _ => None,
            };
            runs.error = wrong.map(|error: anyhow::Error| format!("wrong answer: {error:#}"));
        }
        let results = names
            .iter()
            .zip(runs)
            .map(|(name, runs)| {
                EngineResult::new(name, runs.milliseconds, runs.rows, runs.error).planned_in(runs.planning)
            })
            .collect();
        QueryReport::new(query, results)
    }
}

fn check_against(
    query: &Query,
    name: &str,
    answer: Option<&[RecordBatch]>,
    error: Option<&str>,
    actual: &[RecordBatch],
) -> anyhow::Result<()> {
    let answer = match (answer, error) {
        (Some(answer), None) => answer,
        (_, error) => bail!("not verified, since {name} failed: {}", error.unwrap_or("no rows came")),
    };
    let expected = RowSet::from_batches(answer)?;
    let actual = RowSet::from_batches(actual)?;
    Ok(diff_with(&expected, &actual, &query.diff_options())?)
}

#[cfg(test)]
#[path = "suite_tests.rs"]
mod tests;

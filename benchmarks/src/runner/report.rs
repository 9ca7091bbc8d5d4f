//! What a run of the suite found, as text and as JSON.

use super::suite::SuiteOptions;
use crate::tpch::Query;
use serde::Serialize;
use std::fmt::Write;

/// Width of an engine's pair of times.
const TIMES_WIDTH: usize = 28;

/// Width of a ratio.
const RATIO_WIDTH: usize = 22;

/// Width of the time of planning.
const PLANNING_WIDTH: usize = 12;

/// A whole run.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// TPC-H scale factor.
    pub scale: f64,
    /// Cores given to each engine.
    pub cores: usize,
    /// Runs before the timed ones, per query and engine.
    pub warmup: usize,
    /// Timed runs, per query and engine.
    pub repeat: usize,
    /// What the rows were compared with; `None` when they were not.
    pub verified_against: Option<String>,
    /// Names, the engine under test first.
    pub engines: Vec<String>,
    /// One entry a query, in the order in which they ran.
    pub queries: Vec<QueryReport>,
}

/// One query on all engines.
#[derive(Debug, Clone, Serialize)]
pub struct QueryReport {
    /// 1 to 22.
    pub number: usize,
    /// The specification's name for it.
    pub title: String,
    /// Whether the engine under test passed.
    pub passed: bool,
    /// One entry an engine, in the order of [`Report::engines`].
    pub results: Vec<EngineResult>,
}

/// One query on one engine.
#[derive(Debug, Clone, Serialize)]
pub struct EngineResult {
    /// The engine's name.
    pub engine: String,
    /// Rows of the answer.
    pub rows: usize,
    /// Times of the timed runs in milliseconds, in the order in which they ran.
    pub runs_ms: Vec<f64>,
    /// Shortest time; `None` when no run ended well.
    pub min_ms: Option<f64>,
    /// Median time; `None` when no run ended well.
    pub median_ms: Option<f64>,
    /// Median of the time before the first operator runs, of the engine under test.
    pub planning_ms: Option<f64>,
    /// Why the query failed here, or how its rows differ from the right ones.
    pub error: Option<String>,
}

impl EngineResult {
    pub(super) fn new(engine: &str, runs_ms: Vec<f64>, rows: usize, error: Option<String>) -> Self {
        let mut sorted = runs_ms.clone();
        sorted.sort_by(f64::total_cmp);
        Self {
            engine: engine.to_owned(),
            rows,
            min_ms: sorted.first().copied(),
            median_ms: median(&sorted),
            runs_ms,
            planning_ms: None,
            error,
        }
    }

    pub(super) fn planned_in(mut self, mut milliseconds: Vec<f64>) -> Self {
        milliseconds.sort_by(f64::total_cmp);
        self.planning_ms = median(&milliseconds);
        self
    }
}

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some((lower + upper) / 2.0)
}

impl QueryReport {
    pub(super) fn new(query: &Query, results: Vec<EngineResult>) -> Self {
        Self {
            number: query.number,
            title: query.title.to_owned(),
            passed: results.first().is_some_and(|result| result.error.is_none()),
            results,
        }
    }

    /// The result of the engine under test.
    pub fn subject(&self) -> Option<&EngineResult> {
        self.results.first()
    }
}

impl Report {
    pub(super) fn new(engines: Vec<String>, options: &SuiteOptions, verified_against: Option<String>) -> Self {
        Self {
            scale: options.scale,
            cores: options.cores,
            warmup: options.warmup,
            repeat: options.repeat,
            verified_against,
            engines,
            queries: Vec::new(),
        }
    }

    /// Queries that the engine under test passed.
    pub fn passed(&self) -> usize {
        self.queries.iter().filter(|query| query.passed).count()
    }

    /// Queries that the engine under test failed.
    pub fn failed(&self) -> usize {
        self.queries.len() - self.passed()
    }

    /// Sum of the medians per engine, in milliseconds, over the queries that every engine ended well:
    /// only so do the sums compare.
    pub fn totals_ms(&self) -> Vec<f64> {
        let mut totals = vec![0.0; self.engines.len()];
        for query in self.comparable() {
            for (total, result) in totals.iter_mut().zip(&query.results) {
                *total += result.median_ms.unwrap_or_default();
            }
        }
        totals
    }

    fn comparable(&self) -> impl Iterator<Item = &QueryReport> {
        self.queries.iter().filter(|query| {
            let mut results = query.results.iter();
            results.all(|result| result.error.is_none() && result.median_ms.is_some())
        })
    }

    /// The report as JSON.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)?)
    }

    /// The whole report as the text that the run printed.
    pub fn to_text(&self) -> String {
        let mut text = self.header() + "\n";
        for query in &self.queries {
            text += &self.line(query);
            text.push('\n');
        }
        text + &self.footer()
    }

    pub(super) fn header(&self) -> String {
        let mut text = format!(
            "TPC-H at scale {}, {} per engine, {} warm-up and {} timed runs; {}\n",
            self.scale,
            counted(self.cores, "core"),
            self.warmup,
            self.repeat,
            match &self.verified_against {
                Some(source) => format!("rows compared with the {source}"),
                None => "rows not verified".to_owned(),
            }
        );
        text += &format!("{:<5}{:>8}", "query", "rows");
        for engine in &self.engines {
            text += &format!("{:>TIMES_WIDTH$}", format!("{engine} min/med"));
        }
        for peer in self.engines.iter().skip(1) {
            text += &format!("{:>RATIO_WIDTH$}", format!("÷ {peer}"));
        }
        text + &format!("{:>PLANNING_WIDTH$}", "planning")
    }

    pub(super) fn line(&self, query: &QueryReport) -> String {
        let rows = query.subject().map_or(0, |subject| subject.rows);
        let mut text = format!("{:<5}{rows:>8}", format!("Q{}", query.number));
        for result in &query.results {
            let times = match (result.min_ms, result.median_ms) {
                (Some(min), Some(median)) => format!("{min:.1} / {median:.1} ms"),
                _ => "-".to_owned(),
            };
            text += &format!("{times:>TIMES_WIDTH$}");
        }
        let medians: Vec<Option<f64>> = query.results.iter().map(|r| r.median_ms).collect();
        text += &ratios(&medians);
        let planning = query.subject().and_then(|subject| subject.planning_ms);
        text += &format!("{:>PLANNING_WIDTH$}", planning.map_or("-".to_owned(), |ms| format!("{ms:.1} ms")));
        text += if query.passed { "  ok" } else { "  FAILED" };
        for result in &query.results {
            if let Some(error) = &result.error {
                // Writing to a string cannot fail.
                let _ = write!(text, "\n     {}: {error}", result.engine);
            }
        }
        text
    }

    pub(super) fn footer(&self) -> String {
        let totals = self.totals_ms();
        let mut text = format!("{:<5}{:>8}", "total", self.comparable().count());
        for total in &totals {
            text += &format!("{:>TIMES_WIDTH$}", format!("{total:.1} ms"));
        }
        text += &ratios(&totals.iter().map(|total| Some(*total)).collect::<Vec<_>>());
        let planning = self.queries.iter().filter_map(|query| query.subject()?.planning_ms);
        if let Some(longest) = planning.max_by(f64::total_cmp) {
            text += &format!("{:>PLANNING_WIDTH$}", format!("≤ {longest:.1} ms"));
        }
        text +=
            &format!("  (medians of the {} that every engine answered)\n", counted(self.comparable().count(), "query"));
        text + &format!("tpch: {} passed, {} failed\n", self.passed(), self.failed())
    }
}

/// The first time as a multiple of each other one: above 1, the engine under test is the slower one.
fn ratios(times: &[Option<f64>]) -> String {
    let subject = times.first().copied().flatten();
    let peers = times.iter().skip(1);
    peers
        .map(|peer| match (subject, *peer) {
            (Some(subject), Some(peer)) if peer > 0.0 => {
                format!("{:>RATIO_WIDTH$}", format!("{:.2}", subject / peer))
            }
            _ => format!("{:>RATIO_WIDTH$}", "-"),
        })
        .collect()
}

fn counted(number: usize, noun: &str) -> String {
    match (number, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "query") => format!("{number} queries"),
        _ => format!("{number} {noun}s"),
    }
}

//! The 22 queries of the demonstration and what became of them.
use std::time::Duration;

use ancho_benchmarks::{
    compare::{RowSet, diff_with},
    runner::{DataFusionEngine, FlightSqlEngine, SqlEngine},
    tpch::{AnswerKey, GeneratedData, QUERIES, Query, check_answer},
};
use arrow::record_batch::RecordBatch;
use comfy_table::{Cell, Color, Table};

use crate::{connection, output, tpch::bar};

/// Longest time of one query.
const TIMEOUT: Duration = Duration::from_secs(300);

/// One query and what became of it.
struct Line {
    query: &'static Query,
    time: Option<Duration>,
    rows: usize,
    /// Why it is wrong; `None` if it is right.
    trouble: Option<String>,
}

/// What became of all queries.
pub(super) struct Verdict {
    lines: Vec<Line>,
    /// What the rows were compared with.
    against: String,
}

/// Where the right answers come from: stored ones, or the same files read by DataFusion in this process.
enum Reference {
    Stored(AnswerKey),
    SingleProcess(Box<DataFusionEngine>),
}

/// Runs the queries one after the other over Flight SQL and checks each answer.
pub(super) async fn run(url: &str, data: &GeneratedData) -> anyhow::Result<Verdict> {
    let mut engine = FlightSqlEngine::from_channel("ancho", connection::channel(url).await?);
    let mut reference = match AnswerKey::for_scale(data.scale) {
        Some(key) => Reference::Stored(key),
        None => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            Reference::SingleProcess(Box::new(DataFusionEngine::over_parquet(data, cores).await?))
        }
    };
    let progress = bar(QUERIES.len() as u64, "running the queries");
    let mut lines = Vec::with_capacity(QUERIES.len());
    for query in &QUERIES {
        progress.set_message(format!("{} {}", query.label(), query.title));
        lines.push(run_one(&mut engine, query, &mut reference).await);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let against = match reference {
        Reference::Stored(key) => key.to_string(),
        Reference::SingleProcess(_) => "answers of single-process DataFusion over the same Parquet files".to_owned(),
    };
    Ok(Verdict { lines, against })
}

async fn run_one(engine: &mut FlightSqlEngine, query: &'static Query, reference: &mut Reference) -> Line {
    let mut line = Line { query, time: None, rows: 0, trouble: None };
    let result = match tokio::time::timeout(TIMEOUT, engine.run_timed(query.sql)).await {
        Ok(Ok(result)) => result,
        Ok(Err(error)) => {
            line.trouble = Some(output::one_line(&error));
            return line;
        }
        Err(_) => {
            line.trouble = Some(format!("no answer within {} s", TIMEOUT.as_secs()));
            return line;
        }
    };
    line.time = Some(result.elapsed);
    line.rows = result.row_count();
    line.trouble = check(query, &result.batches, reference).await.err().map(|error| format!("{error:#}"));
    line
}

async fn check(query: &Query, actual: &[RecordBatch], reference: &mut Reference) -> anyhow::Result<()> {
    match reference {
        Reference::Stored(key) => Ok(check_answer(*key, query, actual)?),
        Reference::SingleProcess(engine) => {
            let expected = RowSet::from_batches(&engine.run(query.sql).await?)?;
            Ok(diff_with(&expected, &RowSet::from_batches(actual)?, &query.diff_options())?)
        }
    }
}

impl Verdict {
    pub(super) fn total(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn wrong(&self) -> usize {
        self.lines.iter().filter(|line| line.trouble.is_some()).count()
    }

    /// The table to show.
    pub(super) fn table(&self) -> Table {
        let mut table = output::table(&["query", "what it asks", "time", "rows", "check"]);
        for line in &self.lines {
            let check = match &line.trouble {
                None => Cell::new("correct").fg(Color::Green),
                Some(_) => Cell::new("WRONG").fg(Color::Red),
            };
            table.add_row([
                Cell::new(line.query.label()),
                Cell::new(line.query.title),
                Cell::new(line.time.map_or("-".to_owned(), output::time)),
                Cell::new(line.rows),
                check,
            ]);
        }
        output::align_right(&mut table, &[2, 3]);
        table
    }

    /// What went wrong, query by query, and the count as the last line.
    pub(super) fn summary(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            if let Some(trouble) = &line.trouble {
                text += &format!("{}: {trouble}\n", line.query.label());
            }
        }
        let total: Duration = self.lines.iter().filter_map(|line| line.time).sum();
        text += &format!("checked against the {}; {} in all\n", self.against, output::time(total));
        text + &format!("{} correct, {} wrong", self.total() - self.wrong(), self.wrong())
    }
}

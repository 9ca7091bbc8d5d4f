//! One statement from its text to its output.
use std::{io::Write, time::Instant};

use ancho_common::error::Error;
use arrow::datatypes::{Schema, SchemaRef};
use futures::StreamExt;

use super::render::{Expanded, Format, Renderer};
use crate::{
    connection::{Connection, Outcome, Rows},
    output::{counted, time},
};

/// How results are shown.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Form of rows.
    pub format: Format,
    /// Blocks instead of table lines.
    pub expanded: Expanded,
    /// Whether the time is told.
    pub timing: bool,
    /// Whether the number of rows is told.
    pub counts: bool,
    /// Width to fit tables into.
    pub width: Option<usize>,
}

/// Runs a statement and writes what it gives. Dropping the future ends the statement on the cluster.
///
/// # Errors
/// What the cluster answers, or that the output cannot be written. Rows that came before are written.
pub async fn run(
    connection: &mut Connection,
    sql: &str,
    settings: &Settings,
    out: &mut (dyn Write + Send),
) -> anyhow::Result<Ran> {
    let start = Instant::now();
    let (line, changed) = match connection.run(sql).await? {
        Outcome::Changed(rows) => (format!("OK, {}", counted(u64::try_from(rows).unwrap_or(0), "row")), true),
        Outcome::Rows(rows) => (counted(show(rows, settings, out).await?, "row"), false),
    };
    let timing = if settings.timing { format!(" ({})", time(start.elapsed())) } else { String::new() };
    let rows_only = settings.format != Format::Table;
    if changed && rows_only {
        // Standard output is for rows.
        eprintln!("{line}{timing}");
    } else if (changed || settings.counts) && !rows_only {
        writeln!(out, "{line}{timing}")?;
    } else if settings.timing {
        eprintln!("{line}{timing}");
    }
    out.flush()?;
    Ok(Ran { changed })
}

/// What a statement was.
#[derive(Debug, Clone, Copy)]
pub struct Ran {
    /// It gave no rows, so it may have changed tables.
    pub changed: bool,
}

async fn show(mut rows: Rows, settings: &Settings, out: &mut (dyn Write + Send)) -> anyhow::Result<u64> {
    let schema = std::sync::Arc::clone(&rows.schema);
    let mut renderer =
        Renderer::new(out, settings.format, settings.expanded, settings.width, std::sync::Arc::clone(&schema))?;
    let mut count = 0;
    while let Some(batch) = rows.batches.next().await {
        let batch = match batch {
            Ok(batch) => batch,
            Err(error) => {
                // What came is shown; the error says that it is not all.
                renderer.finish()?;
                return Err(error.into());
            }
        };
        check_schema(&schema, &batch.schema())?;
        count += batch.num_rows() as u64;
        renderer.add(&batch)?;
    }
    renderer.finish()?;
    Ok(count)
}

/// The names were taken from the announced schema, so rows of another one would stand under wrong names.
fn check_schema(announced: &SchemaRef, streamed: &Schema) -> Result<(), Error> {
    let same = announced.fields().len() == streamed.fields().len()
        && announced.fields().iter().zip(streamed.fields()).all(|(a, b)| a.name() == b.name());
    if same {
        return Ok(());
    }
    Err(Error::internal(format!("the server announced the columns {announced} and sent {streamed}")))
}

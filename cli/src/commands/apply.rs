//! `ancho apply`: brings the datasets of a cluster spec into the cluster.
use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use ancho_common::spec::ClusterSpec;
use anyhow::Context;
use serde::Deserialize;

use crate::{
    connection::{Connection, Target},
    output::{Reported, counted},
};

/// What to apply.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The cluster spec; `-` reads standard input
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// The reply of the action `ancho.apply`.
#[derive(Debug, Deserialize)]
pub struct ApplyReply {
    /// One entry per dataset.
    pub changes: Vec<Change>,
}

/// What happened to one table.
#[derive(Debug, Deserialize)]
pub struct Change {
    /// The table.
    pub table: String,
    /// `created`, `refreshed`, `replaced`, `altered` or `unchanged`.
    pub action: String,
    /// More about it; may be empty.
    #[serde(default)]
    pub detail: String,
    /// Rows that the table has now, where rows were loaded.
    #[serde(default)]
    pub rows: Option<u64>,
}

/// Checks the spec here, sends it, and tells what changed.
///
/// # Errors
/// The spec is wrong (all problems are listed), or the cluster cannot do it.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let text = read(&args.file)?;
    check(&text, &args.file)?;
    let mut connection = Connection::open(&args.target.url).await?;
    let reply = send(&mut connection, &text).await?;
    let mut out = io::stdout().lock();
    let changed = reply.changes.iter().filter(|change| change.action != "unchanged");
    let mut any = false;
    for change in changed {
        any = true;
        let rows = change.rows.map(|rows| counted(rows, "row"));
        let more: Vec<&str> =
            [change.detail.as_str(), rows.as_deref().unwrap_or("")].into_iter().filter(|t| !t.is_empty()).collect();
        writeln!(out, "{:<10} {}  {}", change.action, change.table, more.join(", "))?;
    }
    if !any {
        writeln!(out, "nothing to change")?;
    }
    Ok(())
}

/// Sends a spec to the cluster.
///
/// # Errors
/// What the cluster answers.
pub async fn send(connection: &mut Connection, yaml: &str) -> anyhow::Result<ApplyReply> {
    let reply = connection.act("ancho.apply", yaml).await?;
    serde_json::from_slice(&reply).context("read the cluster's answer")
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(file).with_context(|| format!("read {}", file.display()))
}

fn check(text: &str, file: &Path) -> anyhow::Result<()> {
    let Err(problems) = ClusterSpec::parse(text) else { return Ok(()) };
    let name = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    eprintln!("error: {name} has {}, nothing was applied:", counted(problems.len() as u64, "problem"));
    for problem in problems {
        eprintln!("  {problem}");
    }
    Err(Reported.into())
}

//! `ancho apply`: brings the datasets of a cluster spec into the cluster.
use std::{
    fs,
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use ancho_common::{
    error::{Error, ErrorKind},
    spec::ClusterSpec,
};
use anyhow::Context;
use serde::Deserialize;

use crate::{
    connection::{Connection, Target},
    output::{Reported, counted, one_line},
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
    /// `created`, `refreshed`, `replaced`, `unchanged` or `failed`.
    pub action: String,
    /// Where its rows come from, or why it failed; may be empty.
    #[serde(default)]
    pub detail: String,
    /// The kind of the error, where it failed.
    #[serde(default)]
    pub error: Option<ErrorKind>,
    /// Rows that the table has now, where rows were loaded.
    #[serde(default)]
    pub rows: Option<u64>,
}

impl Change {
    /// Why it failed, if it did.
    fn failure(&self) -> Option<Error> {
        let error = Error::new(self.error?, self.detail.as_str());
        Some(error.context(&format!("dataset {}", self.table)))
    }
}

impl ApplyReply {
    /// The failures, in the order of the datasets.
    pub fn failures(&self) -> impl Iterator<Item = Error> {
        self.changes.iter().filter_map(Change::failure)
    }
}

/// Checks the spec here, sends it, and tells what changed and which datasets failed.
///
/// # Errors
/// The spec is wrong (all problems are listed), the cluster cannot do it, or a dataset failed.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let text = read(&args.file)?;
    check(&text, &args.file)?;
    let mut connection = Connection::open(&args.target.url).await?;
    let reply = send(&mut connection, &text).await?;
    let mut out = io::stdout().lock();
    let changed = reply.changes.iter().filter(|change| change.action != "unchanged" && change.error.is_none());
    let mut any = false;
    for change in changed {
        any = true;
        let rows = change.rows.map(|rows| counted(rows, "row"));
        let more: Vec<&str> =
            [change.detail.as_str(), rows.as_deref().unwrap_or("")].into_iter().filter(|t| !t.is_empty()).collect();
        writeln!(out, "{:<10} {}  {}", change.action, change.table, more.join(", "))?;
    }
    let failures: Vec<Error> = reply.failures().collect();
    if !any && failures.is_empty() {
        writeln!(out, "nothing to change")?;
    }
    if failures.is_empty() {
        return Ok(());
    }
    for failure in failures {
        eprintln!("error: {}", one_line(&failure.into()));
    }
    Err(Reported.into())
}

/// Sends a spec to the cluster.
///
/// # Errors
/// What the cluster answers to the spec as a whole; datasets that failed are in the reply.
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

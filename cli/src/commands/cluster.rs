//! `ancho cluster status`: schedulers, executors and tables at a moment.
use std::io::{self, Write};

use anyhow::Context;
use clap::Subcommand;

use crate::{
    cluster_status::ClusterStatus,
    connection::{Connection, Target},
    output::{align_right, grouped, size, table},
};

/// What to look at.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show schedulers, executors and tables; without a majority of schedulers, as the one that is asked knew them last
    Status(StatusArgs),
}

/// How to show it.
#[derive(Debug, clap::Args)]
pub struct StatusArgs {
    /// Print the server's JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    target: Target,
}

/// Shows it.
///
/// # Errors
/// No scheduler answers.
pub async fn run(command: ClusterCommand) -> anyhow::Result<()> {
    let ClusterCommand::Status(args) = command;
    let mut connection = Connection::open(&args.target.url).await?;
    let mut out = io::stdout().lock();
    if args.json {
        let reply = connection.act("ancho.cluster_status", Vec::new()).await?;
        // Written anew, so that newer servers' keys stay in and the text is easy to read.
        let value: serde_json::Value = serde_json::from_slice(&reply).context("read the cluster's answer")?;
        writeln!(out, "{}", serde_json::to_string_pretty(&value)?)?;
        return Ok(());
    }
    let status = connection.cluster_status_as_known().await?;
    print(&status, &mut out)
}

fn print(status: &ClusterStatus, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "cluster {}", if status.cluster_id.is_empty() { "(not formed yet)" } else { &status.cluster_id })?;
    if let Some(problem) = &status.problem {
        writeln!(out, "NO LEADER: {problem}")?;
    }
    let number = |value: Option<u64>| value.map_or("-".to_owned(), grouped);

    let mut schedulers = table(&["scheduler", "url", "role", "term", "applied", "reachable"]);
    for s in &status.schedulers {
        schedulers.add_row([
            s.node_id.to_string(),
            s.url.clone(),
            s.role.clone().unwrap_or_else(|| "-".into()),
            number(s.term),
            number(s.applied_index),
            if s.reachable { "yes".into() } else { "NO".to_owned() },
        ]);
    }
    align_right(&mut schedulers, &[0, 3, 4]);
    writeln!(out, "{schedulers}")?;

    let mut executors = table(&["executor", "url", "state", "partitions", "size", "streams", "version"]);
    for e in &status.executors {
        let state = if e.state.eq_ignore_ascii_case("up") { "up".to_owned() } else { e.state.to_uppercase() };
        executors.add_row([
            e.id.clone(),
            e.url.clone(),
            state,
            grouped(e.partitions),
            size(e.bytes),
            e.streams.to_string(),
            e.version.clone(),
        ]);
    }
    align_right(&mut executors, &[3, 4, 5]);
    if status.executors.is_empty() {
        writeln!(out, "no executor has joined yet: start one with `ancho executor --scheduler-address …`")?;
    } else {
        writeln!(out, "{executors}")?;
    }

    if status.tables.is_empty() {
        writeln!(out, "no tables yet")?;
        return Ok(());
    }
    let mut tables = table(&["table", "partitions", "unassigned", "rows", "size", "version"]);
    for t in &status.tables {
        tables.add_row([
            t.name.clone(),
            grouped(t.partitions),
            grouped(t.unassigned),
            grouped(t.rows),
            size(t.bytes),
            t.version.to_string(),
        ]);
    }
    align_right(&mut tables, &[1, 2, 3, 4, 5]);
    writeln!(out, "{tables}")?;
    Ok(())
}

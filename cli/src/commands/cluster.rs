//! `ancho cluster …`: schedulers, executors, tables and moves at a moment; executors emptied and forgotten, partitions moved.
use std::io::{self, Write};

use anyhow::Context;
use clap::Subcommand;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    cluster_status::ClusterStatus,
    connection::{Connection, Target},
    output::{align_right, grouped, size, table},
};

/// What to do.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Show schedulers, executors, tables and moves; without a majority of schedulers, as the one that is asked knew them last
    Status(StatusArgs),
    /// Move all partitions of an executor to others, and give it no new ones
    Drain(ExecutorArgs),
    /// Let an executor take partitions again
    Undrain(ExecutorArgs),
    /// Forget an executor that was drained and stopped
    Remove(ExecutorArgs),
    /// Move partitions until all executors have the same share
    Rebalance(RebalanceArgs),
}

/// Which executor.
#[derive(Debug, clap::Args)]
pub struct ExecutorArgs {
    /// Its id, the beginning of its id, or its URL
    #[arg(value_name = "EXECUTOR")]
    executor: String,
    #[command(flatten)]
    target: Target,
}

/// How to move.
#[derive(Debug, clap::Args)]
pub struct RebalanceArgs {
    /// Only show what would be moved
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    target: Target,
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

/// Does it.
///
/// # Errors
/// No scheduler answers, or the cluster refuses.
pub async fn run(command: ClusterCommand) -> anyhow::Result<()> {
    match command {
        ClusterCommand::Status(args) => status(args).await,
        ClusterCommand::Drain(args) => {
            let drained: Drained = act(&args, "ancho.drain").await?;
            let Drained { executor, partitions } = drained;
            say(&format!(
                "executor {executor} is being emptied of {} partitions; `ancho cluster status` shows how far it is",
                grouped(partitions)
            ))
        }
        ClusterCommand::Undrain(args) => {
            let Drained { executor, .. } = act(&args, "ancho.undrain").await?;
            say(&format!("executor {executor} takes partitions again"))
        }
        ClusterCommand::Remove(args) => {
            let Removed { executor } = act(&args, "ancho.remove_executor").await?;
            say(&format!("executor {executor} is forgotten"))
        }
        ClusterCommand::Rebalance(args) => rebalance(args).await,
    }
}

#[derive(Debug, Deserialize)]
struct Drained {
    executor: String,
    partitions: u64,
}

#[derive(Debug, Deserialize)]
struct Removed {
    executor: String,
}

#[derive(Debug, Deserialize)]
struct Rebalanced {
    bytes: u64,
    moves: Vec<PlannedMove>,
}

#[derive(Debug, Deserialize)]
struct PlannedMove {
    table: String,
    partition: u64,
    key: String,
    from: String,
    to: String,
    bytes: u64,
}

async fn act<T: DeserializeOwned>(args: &ExecutorArgs, action: &str) -> anyhow::Result<T> {
    let mut connection = Connection::open(&args.target.url).await?;
    let body = serde_json::json!({ "executor": args.executor }).to_string();
    let reply = connection.act(action, body.into_bytes()).await?;
    serde_json::from_slice(&reply).context("read the cluster's answer")
}

fn say(text: &str) -> anyhow::Result<()> {
    Ok(writeln!(io::stdout().lock(), "{text}")?)
}

async fn rebalance(args: RebalanceArgs) -> anyhow::Result<()> {
    let mut connection = Connection::open(&args.target.url).await?;
    let body = serde_json::json!({ "dry_run": args.dry_run }).to_string();
    let reply = connection.act("ancho.rebalance", body.into_bytes()).await?;
    let plan: Rebalanced = serde_json::from_slice(&reply).context("read the cluster's answer")?;
    let mut out = io::stdout().lock();
    if plan.moves.is_empty() {
        writeln!(out, "nothing to move: executors are as even as whole partitions allow")?;
        return Ok(());
    }
    let mut rows = table(&["table", "partition", "id", "from", "to", "size"]);
    for m in &plan.moves {
        let id = m.partition.to_string();
        rows.add_row([m.table.clone(), m.key.clone(), id, m.from.clone(), m.to.clone(), size(m.bytes)]);
    }
    align_right(&mut rows, &[2, 5]);
    writeln!(out, "{rows}")?;
    let verb = if args.dry_run { "would be moved" } else { "are being moved" };
    writeln!(out, "{} partitions of {} {verb}", plan.moves.len(), size(plan.bytes))?;
    Ok(())
}

async fn status(args: StatusArgs) -> anyhow::Result<()> {
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
        let state = match e.state.to_ascii_lowercase().as_str() {
            "up" if e.draining => "draining".to_owned(),
            "up" => "up".to_owned(),
            other => other.to_uppercase(),
        };
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

    if !status.moves.is_empty() {
        let mut moves = table(&["moving", "partition", "from", "to", "phase", "size"]);
        for m in &status.moves {
            let id = m.partition.to_string();
            moves.add_row([m.table.clone(), id, m.from.clone(), m.to.clone(), m.phase.clone(), size(m.bytes)]);
        }
        align_right(&mut moves, &[1, 5]);
        writeln!(out, "{moves}")?;
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

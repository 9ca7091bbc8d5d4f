//! `ancho partition …`: what executors hold is read again, and rows that are lost are given up.
use std::{
    io::{self, Write},
    path::PathBuf,
};

use ancho_executor::verify_directory;
use anyhow::Context;
use clap::Subcommand;
use serde::Deserialize;

use crate::{
    connection::{Connection, Target},
    output::{align_right, grouped, size, table},
};

/// What to do with partitions.
#[derive(Debug, Subcommand)]
pub enum PartitionCommand {
    /// Read partitions again, and name what is damaged
    Verify(VerifyArgs),
    /// Make a partition that nobody can serve an empty one
    Recover(RecoverArgs),
}

/// Which.
#[derive(Debug, clap::Args)]
pub struct VerifyArgs {
    /// Only partitions of this table
    #[arg(long, value_name = "NAME", conflicts_with = "dir")]
    table: Option<String>,
    /// Directory of one partition, or of an executor, to read without the cluster
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
}

/// Which, and at what price.
#[derive(Debug, clap::Args)]
pub struct RecoverArgs {
    /// Id of the partition, as in system.partitions
    #[arg(value_name = "ID")]
    partition: u64,
    /// Its rows are given up for good, also if the executor that has them comes back
    #[arg(long, required = true)]
    accept_loss: bool,
    #[command(flatten)]
    target: Target,
}

/// What a scheduler answers to that.
#[derive(Debug, Deserialize)]
struct Recovered {
    table: String,
    key: String,
    rows: u64,
}

/// What a scheduler answers.
#[derive(Debug, Deserialize)]
struct Answer {
    partitions: Vec<Verified>,
    unreached: Vec<Unreached>,
}

#[derive(Debug, Deserialize)]
struct Verified {
    #[serde(default)]
    executor: String,
    partition_id: u64,
    table: String,
    partition: String,
    files: u64,
    bytes: u64,
    deletion_vectors: u64,
    problems: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Unreached {
    executor: String,
    error: String,
}

/// Does it.
///
/// # Errors
/// Something is damaged, an executor did not answer, or nothing could be asked.
pub async fn run(command: PartitionCommand) -> anyhow::Result<()> {
    let args = match command {
        PartitionCommand::Verify(args) => args,
        PartitionCommand::Recover(args) => return recover(args).await,
    };
    let answer = match &args.dir {
        Some(dir) => {
            let verified = verify_directory(dir).await?;
            let partitions = verified
                .into_iter()
                .map(|p| Verified {
                    executor: String::new(),
                    partition_id: p.partition_id,
                    table: p.table,
                    partition: p.partition,
                    files: p.files,
                    bytes: p.bytes,
                    deletion_vectors: p.deletion_vectors,
                    problems: p.problems,
                })
                .collect();
            Answer { partitions, unreached: Vec::new() }
        }
        None => {
            let mut connection = Connection::open(&args.target.url).await?;
            let body = serde_json::json!({ "table": args.table }).to_string();
            let reply = connection.act("ancho.verify", body.into_bytes()).await?;
            serde_json::from_slice(&reply).context("read the cluster's answer")?
        }
    };
    print(&answer, &mut io::stdout().lock())
}

async fn recover(args: RecoverArgs) -> anyhow::Result<()> {
    let mut connection = Connection::open(&args.target.url).await?;
    let body = serde_json::json!({ "partition": args.partition, "accept_loss": args.accept_loss }).to_string();
    let reply = connection.act("ancho.recover", body.into_bytes()).await?;
    let Recovered { table, key, rows } = serde_json::from_slice(&reply).context("read the cluster's answer")?;
    let mut out = io::stdout().lock();
    writeln!(out, "table {table}: partition {key} is empty now; {} rows were given up", grouped(rows))?;
    Ok(())
}

fn print(answer: &Answer, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut rows = table(&["table", "partition", "id", "executor", "files", "vectors", "size", "state"]);
    for p in &answer.partitions {
        let state = if p.problems.is_empty() { "sound".to_owned() } else { "DAMAGED".to_owned() };
        let numbers = [grouped(p.files), grouped(p.deletion_vectors), size(p.bytes)];
        let [files, vectors, bytes] = numbers;
        let id = p.partition_id.to_string();
        rows.add_row([p.table.clone(), p.partition.clone(), id, p.executor.clone(), files, vectors, bytes, state]);
    }
    align_right(&mut rows, &[2, 4, 5, 6]);
    writeln!(out, "{rows}")?;
    let damaged = answer.partitions.iter().filter(|p| !p.problems.is_empty()).count();
    for problem in answer.partitions.iter().flat_map(|p| &p.problems) {
        writeln!(out, "damaged: {problem}")?;
    }
    for silent in &answer.unreached {
        writeln!(out, "not verified: executor {}: {}", silent.executor, silent.error)?;
    }
    match (damaged, answer.unreached.len()) {
        (0, 0) => Ok(()),
        (0, silent) => anyhow::bail!("{silent} executors did not answer; what they hold was not verified"),
        (damaged, _) => anyhow::bail!("{damaged} of {} partitions are damaged", answer.partitions.len()),
    }
}

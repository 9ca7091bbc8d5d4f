//! The one binary `ancho`: server roles, local clusters, the SQL shell and the benchmarks.
//!
//! * [`commands`] – one module per command
//! * [`local`] – clusters of processes on this machine, as `ancho up` and `ancho bench` start them
//! * [`connection`] – the Flight SQL connection that all client commands use
//! * [`cluster_status`] – the reply of the action `ancho.cluster_status`
//! * [`shell`] – the parts of `ancho sql`: splitting statements, running them, writing rows, the interactive loop
//! * [`tpch`] – TPC-H data as files and as tables of a cluster, with progress bars
//! * [`values`] – texts of options: sizes, durations, lists of peers
//! * [`output`] – tables, numbers and errors for people
//!
//! Exit codes: 0 done, 1 failed, 2 wrong usage.
pub mod cluster_status;
pub mod commands;
pub mod connection;
pub mod local;
mod logging;
pub mod output;
pub mod shell;
pub mod tpch;
pub mod values;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::{commands::Command, logging::LogFormat};

/// Stack of every thread that may plan a query: planning recurses with the depth of the statement.
const STACK_BYTES: usize = 16 * 1024 * 1024;

/// Distributed SQL over partitions that executors hold.
#[derive(Debug, Parser)]
#[command(name = "ancho", version, about, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    /// Form of log lines on standard error
    #[arg(long, global = true, value_enum, default_value = "text", env = "ANCHO_LOG_FORMAT", display_order = 900)]
    log_format: LogFormat,
    /// What to log, as `info` or `ancho_scheduler=debug,warn` (servers: info, clients: warn)
    #[arg(long, global = true, value_name = "FILTER", env = "RUST_LOG", display_order = 901)]
    log: Option<String>,
    #[command(subcommand)]
    command: Command,
}

/// Reads the command line, does what it says, and gives the exit code.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match on_large_stack(move || run(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if output::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            if !error.is::<output::Reported>() {
                eprintln!("error: {}", output::one_line(&error));
            }
            ExitCode::FAILURE
        }
    }
}

fn worker_threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get).max(2)
}

fn run(cli: Cli) -> anyhow::Result<()> {
    logging::start(cli.log_format, cli.log.as_deref(), cli.command.default_log())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // These serve the network; queries compute on threads of their own.
        .worker_threads(worker_threads())
        .thread_stack_size(STACK_BYTES)
        .thread_name("ancho")
        .build()
        .context("start the runtime")?;
    let result = runtime.block_on(cli.command.run());
    // A blocking read of the terminal or of a pipe must not hold up the end.
    runtime.shutdown_background();
    result
}

/// The main thread's stack is as large as the system says, so the work is done on one of ours.
fn on_large_stack(work: impl FnOnce() -> anyhow::Result<()> + Send + 'static) -> anyhow::Result<()> {
    let thread = std::thread::Builder::new().name("ancho-main".into()).stack_size(STACK_BYTES).spawn(work);
    match thread.context("start a thread")?.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

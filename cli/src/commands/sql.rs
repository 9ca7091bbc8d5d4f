//! `ancho sql`: statements from the command line, a file, a pipe or the prompt.
use std::{
    fs,
    io::{self, BufWriter, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use ancho_common::error::Error;
use anyhow::Context;

use crate::{
    connection::{Connection, Target, TransactionWord},
    output,
    shell::{
        render::{Expanded, Format},
        repl::{Repl, terminal_width},
        runner::{self, Settings},
        split::{Statement, split},
    },
};

/// Where statements come from and how rows are written.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Statements to run, separated by `;`; those behind a failed one are left out
    #[arg(short = 'c', long, value_name = "SQL", conflicts_with = "file", allow_hyphen_values = true)]
    command: Option<String>,
    /// File with statements; `-` reads standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// How rows are written
    #[arg(long, value_enum, default_value = "table")]
    format: Format,
    /// Tell how long each statement takes
    #[arg(long)]
    timing: bool,
    #[command(flatten)]
    target: Target,
}

/// Runs the statements, or the prompt where standard input is a terminal.
///
/// # Errors
/// The first statement that fails.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let interactive = args.command.is_none() && args.file.is_none() && io::stdin().is_terminal();
    let text = match (&args.command, &args.file) {
        (Some(command), _) => Some(command.clone()),
        (None, Some(file)) => Some(read(file)?),
        (None, None) if !interactive => Some(read(Path::new("-"))?),
        (None, None) => None,
    };
    let mut connection = Connection::open(&args.target.url).await?;
    let on_terminal = io::stdout().is_terminal();
    let settings = Settings {
        format: args.format,
        expanded: if on_terminal { Expanded::Auto } else { Expanded::Off },
        timing: args.timing || interactive,
        counts: true,
        width: on_terminal.then(terminal_width),
    };
    match text {
        Some(text) => run_all(&mut connection, &text, &settings).await,
        None => {
            let repl = Repl::new(connection, settings, tokio::runtime::Handle::current());
            tokio::task::spawn_blocking(|| repl.run()).await.context("the prompt ended early")?
        }
    }
}

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        io::stdin().read_to_string(&mut text).context("read standard input")?;
        return Ok(text);
    }
    fs::read_to_string(file).with_context(|| format!("read {}", file.display()))
}

/// Runs statement after statement and stops at the first that fails.
async fn run_all(connection: &mut Connection, text: &str, settings: &Settings) -> anyhow::Result<()> {
    let found = split(text);
    anyhow::ensure!(!found.open, "the last statement ends inside quotes or a comment");
    let statements: Vec<Statement> = found.statements.into_iter().chain(found.rest).collect();
    let mut out = BufWriter::new(io::stdout());
    for (position, statement) in statements.iter().enumerate() {
        let ran = tokio::select! {
            ran = runner::run(connection, &statement.sql, settings, &mut out) => ran,
            signal = tokio::signal::ctrl_c() => {
                signal.context("listen for Ctrl-C")?;
                Err(Error::new(ancho_common::error::ErrorKind::Cancelled, "cancelled by Ctrl-C").into())
            }
        };
        out.flush()?;
        let Err(error) = ran else { continue };
        leave_transaction(connection).await;
        if output::is_broken_pipe(&error) || statements.len() == 1 {
            return Err(error);
        }
        return Err(error.context(format!("statement {} in line {}", position + 1, statement.line)));
    }
    anyhow::ensure!(
        !leave_transaction(connection).await,
        "the statements end inside a transaction, which was rolled back: end it by COMMIT"
    );
    Ok(())
}

/// Rolls an open transaction back. Whether there was one.
async fn leave_transaction(connection: &mut Connection) -> bool {
    let open = connection.in_transaction();
    if open {
        // Without an answer the cluster ends it by itself.
        let _ = connection.transaction(TransactionWord::RollBack).await;
    }
    open
}

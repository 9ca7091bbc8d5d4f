//! Log lines on standard error.
use std::io::{self, IsTerminal};

use anyhow::Context;
use clap::ValueEnum;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Installs the subscriber of this process.
pub(crate) fn start(format: LogFormat, filter: Option<&str>, default: &str) -> anyhow::Result<()> {
    let filter = filter.filter(|text| !text.trim().is_empty()).unwrap_or(default);
    let filter = EnvFilter::try_new(filter).with_context(|| format!("`{filter}` is not a log filter"))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
    let installed = match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    installed.map_err(|error| anyhow::anyhow!("start logging: {error}"))
}

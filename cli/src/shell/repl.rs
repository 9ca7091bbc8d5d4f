//! The interactive loop: reads statements over several lines, runs them, and keeps going after errors.
use std::{
    fs,
    io::{self, Write},
    path::PathBuf,
};

use arrow::{
    array::{ArrayRef, BooleanArray, RecordBatch, StringArray},
    datatypes::Schema,
};
use rustyline::{CompletionType, Config, Editor, error::ReadlineError, history::FileHistory};
use tokio::runtime::Handle;

use super::{
    catalog,
    complete::{Names, PromptHelper},
    render::{Expanded, Format, Renderer},
    runner::{self, Settings},
    split::split,
};
use crate::{connection::Connection, output::one_line};

/// The shell's own commands: name, arguments, what it does.
pub const COMMANDS: [(&str, &str, &str); 7] = [
    ("\\d", "[NAME]", "list tables, or describe one"),
    ("\\timing", "[on|off]", "tell how long statements take"),
    ("\\x", "[on|off|auto]", "write rows as blocks of name and value"),
    ("\\format", "table|csv|json", "how rows are written"),
    ("\\refresh", "", "read the names for completion again"),
    ("\\?", "", "this list"),
    ("\\q", "", "leave (also Ctrl-D)"),
];

const PROMPT: &str = "ancho> ";
const IN_TRANSACTION: &str = "ancho*> ";
const CONTINUED: &str = "   ... ";
const HISTORY_ENTRIES: usize = 5000;

/// A session at the prompt.
pub struct Repl {
    connection: Connection,
    settings: Settings,
    names: Names,
    handle: Handle,
}

/// Whether the loop goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Prompt,
    Leave,
}

impl Repl {
    /// A session over a connection. `handle` is the runtime that runs the statements.
    #[must_use]
    pub fn new(connection: Connection, settings: Settings, handle: Handle) -> Self {
        Self { connection, settings, names: Names::default(), handle }
    }

    /// Reads and runs until the end. Blocks, so it has a thread of its own.
    ///
    /// # Errors
    /// The terminal cannot be read or written.
    pub fn run(mut self) -> anyhow::Result<()> {
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .max_history_size(HISTORY_ENTRIES)?
            .history_ignore_space(true)
            .build();
        let mut editor: Editor<PromptHelper, FileHistory> = Editor::with_config(config)?;
        editor.set_helper(Some(PromptHelper::new(self.names.clone())));
        let history = history_path();
        if let Some(path) = history.as_ref().filter(|path| path.exists())
            && let Err(error) = editor.load_history(path)
        {
            eprintln!("the history in {} cannot be read: {error}", path.display());
        }
        println!("ancho {}, connected to {}", env!("CARGO_PKG_VERSION"), self.connection.url());
        println!("End statements with `;`. \\? lists commands, \\q leaves.");
        self.refresh_names();
        let mut pending = String::new();
        loop {
            let prompt = if self.connection.in_transaction() { IN_TRANSACTION } else { PROMPT };
            match editor.readline(if pending.is_empty() { prompt } else { CONTINUED }) {
                Ok(line) => {
                    let text = std::mem::take(&mut pending) + &line;
                    let (next, rest, complete) = self.take(&text);
                    if complete && !text.trim().is_empty() {
                        editor.add_history_entry(text.trim_end())?;
                        if let Some(path) = &history {
                            // A history that cannot be kept is no reason to stop.
                            let _ = editor.append_history(path);
                        }
                    }
                    if next == Next::Leave {
                        return Ok(());
                    }
                    pending = rest;
                }
                Err(ReadlineError::Interrupted) => pending.clear(),
                Err(ReadlineError::Eof) => {
                    println!();
                    return Ok(());
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Runs what is complete in a text. Gives the rest to be continued, and whether everything was taken.
    fn take(&mut self, text: &str) -> (Next, String, bool) {
        if text.trim_start().starts_with('\\') {
            let next = self.command(text.trim().trim_end_matches(';')).unwrap_or_else(|error| {
                eprintln!("error: {}", one_line(&error));
                Next::Prompt
            });
            return (next, String::new(), true);
        }
        let found = split(text);
        if matches!(text.trim().trim_end_matches(';').to_ascii_lowercase().as_str(), "quit" | "exit") {
            return (Next::Leave, String::new(), true);
        }
        for statement in &found.statements {
            if !self.statement(&statement.sql) {
                return (Next::Prompt, String::new(), true);
            }
        }
        match found.rest {
            Some(rest) => (Next::Prompt, rest.sql + "\n", false),
            None if found.open => (Next::Prompt, text.to_owned() + "\n", false),
            None => (Next::Prompt, String::new(), true),
        }
    }

    /// Runs one statement; Ctrl-C ends it. Tells errors itself; `false` means that those behind it are left out.
    fn statement(&mut self, sql: &str) -> bool {
        self.settings.width = Some(terminal_width());
        let handle = self.handle.clone();
        let ran = handle.block_on(async {
            let mut out = io::stdout();
            tokio::select! {
                ran = runner::run(&mut self.connection, sql, &self.settings, &mut out) => Some(ran),
                _ = tokio::signal::ctrl_c() => None,
            }
        });
        match ran {
            Some(Ok(ran)) => {
                if ran.changed {
                    self.refresh_names();
                }
                true
            }
            Some(Err(error)) => {
                eprintln!("error: {}", one_line(&error));
                false
            }
            None => {
                eprintln!("cancelled");
                false
            }
        }
    }

    fn command(&mut self, line: &str) -> anyhow::Result<Next> {
        let (name, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let argument = argument.trim();
        match name {
            "\\q" => return Ok(Next::Leave),
            "\\?" | "\\h" => {
                for (name, arguments, what) in COMMANDS {
                    println!("{:<26} {what}", format!("{name} {arguments}"));
                }
                println!("{:<26} cancels the running statement", "Ctrl-C");
            }
            "\\d" | "\\dt" if argument.is_empty() => self.list_tables()?,
            "\\d" => self.describe(argument)?,
            "\\timing" => {
                self.settings.timing = on_or_off(argument, !self.settings.timing)?;
                println!("timing is {}", if self.settings.timing { "on" } else { "off" });
            }
            "\\x" => {
                self.settings.expanded = match argument {
                    "on" => Expanded::On,
                    "off" => Expanded::Off,
                    "auto" => Expanded::Auto,
                    "" if self.settings.expanded == Expanded::On => Expanded::Auto,
                    "" => Expanded::On,
                    other => anyhow::bail!("\\x takes on, off or auto, not `{other}`"),
                };
                println!("blocks are {}", format!("{:?}", self.settings.expanded).to_lowercase());
            }
            "\\format" => {
                self.settings.format = match argument {
                    "table" => Format::Table,
                    "csv" => Format::Csv,
                    "json" => Format::Json,
                    other => anyhow::bail!("\\format takes table, csv or json, not `{other}`"),
                };
            }
            "\\refresh" => self.refresh_names(),
            other => anyhow::bail!("`{other}` is no command; \\? lists them"),
        }
        Ok(Next::Prompt)
    }

    fn list_tables(&mut self) -> anyhow::Result<()> {
        let handle = self.handle.clone();
        let tables = handle.block_on(catalog::tables(&mut self.connection, None))?;
        let tables: Vec<_> = tables.iter().filter(|t| !t.is_system()).collect();
        if tables.is_empty() {
            println!("there are no tables yet");
            return Ok(());
        }
        let column = |text: fn(&catalog::TableEntry) -> String| -> ArrayRef {
            std::sync::Arc::new(StringArray::from_iter_values(tables.iter().map(|t| text(t))))
        };
        show(RecordBatch::try_from_iter([
            ("schema", column(|t| t.schema.clone())),
            ("name", column(|t| t.name.clone())),
            ("type", column(|t| t.kind.to_lowercase())),
            ("columns", column(|t| t.columns.fields().len().to_string())),
        ])?)
    }

    fn describe(&mut self, name: &str) -> anyhow::Result<()> {
        let (schema, name) = match name.rsplit_once('.') {
            Some((schema, name)) => (Some(folded(schema)), folded(name)),
            None => (None, folded(name)),
        };
        let handle = self.handle.clone();
        let tables = handle.block_on(catalog::tables(&mut self.connection, Some(&name)))?;
        let mut tables: Vec<_> =
            tables.into_iter().filter(|t| t.name == name && schema.as_ref().is_none_or(|s| *s == t.schema)).collect();
        // `public` first.
        tables.sort_by_key(|t| (t.schema != "public", t.schema.clone()));
        let Some(table) = tables.first() else {
            anyhow::bail!("there is no table {name}; \\d lists those there are");
        };
        let key = handle.block_on(catalog::primary_key(&mut self.connection, table)).unwrap_or_default();
        println!("{} {}.{}", table.kind.to_lowercase(), table.schema, table.name);
        show(columns_of(&table.columns)?)?;
        if !key.is_empty() {
            println!("primary key: {}", key.join(", "));
        }
        let status = handle.block_on(self.connection.cluster_status());
        if let Some(found) = status.ok().and_then(|s| s.tables.into_iter().find(|t| t.name == table.name)) {
            println!(
                "{} in {}, {}",
                crate::output::counted(found.rows, "row"),
                crate::output::counted(found.partitions, "partition"),
                crate::output::size(found.bytes)
            );
        }
        Ok(())
    }

    /// Completion without names is no failure, so errors are kept silent.
    fn refresh_names(&mut self) {
        let handle = self.handle.clone();
        if let Ok(tables) = handle.block_on(catalog::tables(&mut self.connection, None)) {
            self.names.set(&tables);
        }
    }
}

fn columns_of(schema: &Schema) -> anyhow::Result<RecordBatch> {
    let fields = schema.fields();
    let names: ArrayRef = std::sync::Arc::new(StringArray::from_iter_values(fields.iter().map(|f| f.name().as_str())));
    let types: ArrayRef =
        std::sync::Arc::new(StringArray::from_iter_values(fields.iter().map(|f| catalog::sql_type(f.data_type()))));
    let nullable: ArrayRef =
        std::sync::Arc::new(fields.iter().map(|f| Some(f.is_nullable())).collect::<BooleanArray>());
    Ok(RecordBatch::try_from_iter([("column", names), ("type", types), ("nullable", nullable)])?)
}

fn show(batch: RecordBatch) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let mut renderer = Renderer::new(&mut out, Format::Table, Expanded::Off, Some(terminal_width()), batch.schema())?;
    renderer.add(&batch)?;
    renderer.finish()?;
    Ok(out.flush()?)
}

/// As a statement would read the name: folded unless it is quoted.
fn folded(name: &str) -> String {
    match name.strip_prefix('"').and_then(|n| n.strip_suffix('"')) {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_lowercase(),
    }
}

fn on_or_off(argument: &str, otherwise: bool) -> anyhow::Result<bool> {
    match argument {
        "" => Ok(otherwise),
        "on" => Ok(true),
        "off" => Ok(false),
        other => anyhow::bail!("write on or off, not `{other}`"),
    }
}

/// Width of the terminal in columns.
#[must_use]
pub fn terminal_width() -> usize {
    comfy_table::Table::new().width().map_or(120, usize::from)
}

/// `$XDG_STATE_HOME/ancho/sql_history`, or the same under `~/.local/state`; its folder is made.
fn history_path() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = set("XDG_STATE_HOME").or_else(|| set("HOME").map(|home| home.join(".local/state")))?;
    let folder = state.join("ancho");
    fs::create_dir_all(&folder).ok()?;
    Some(folder.join("sql_history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded_unless_quoted() {
        assert_eq!(folded("Orders"), "orders");
        assert_eq!(folded("\"Odd\"\"Name\""), "Odd\"Name");
        assert!(on_or_off("maybe", true).is_err());
    }
}

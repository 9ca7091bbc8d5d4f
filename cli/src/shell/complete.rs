//! Completion at the prompt: keywords, tables, columns and the shell's own commands.
use std::sync::{Arc, Mutex, PoisonError};

use rustyline::{Context, Helper, completion::Completer, highlight::Highlighter, hint::Hinter, validate::Validator};

use super::catalog::TableEntry;

/// Words of SQL worth completing.
const KEYWORDS: [&str; 88] = [
    "all",
    "and",
    "as",
    "asc",
    "avg",
    "between",
    "bigint",
    "boolean",
    "bucket",
    "by",
    "case",
    "cast",
    "coalesce",
    "count",
    "create",
    "cross",
    "cube",
    "current_date",
    "date",
    "decimal",
    "default",
    "desc",
    "describe",
    "distinct",
    "double",
    "drop",
    "else",
    "end",
    "except",
    "exists",
    "explain",
    "extract",
    "false",
    "filter",
    "first",
    "from",
    "full",
    "group",
    "having",
    "if",
    "in",
    "inner",
    "insert",
    "int",
    "intersect",
    "interval",
    "into",
    "is",
    "join",
    "key",
    "last",
    "left",
    "like",
    "limit",
    "max",
    "min",
    "not",
    "null",
    "nulls",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "primary",
    "recursive",
    "replace",
    "right",
    "rollup",
    "row_number",
    "select",
    "show",
    "sum",
    "table",
    "tables",
    "then",
    "timestamp",
    "true",
    "union",
    "using",
    "values",
    "varchar",
    "when",
    "where",
    "with",
    "year",
];

/// Names that completion offers besides keywords. Shared between the prompt and whoever refreshes them.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<Mutex<Vec<String>>>);

impl Names {
    /// Replaces the names with those of these tables and of their columns.
    pub fn set(&self, tables: &[TableEntry]) {
        let mut names: Vec<String> = Vec::new();
        for table in tables {
            let name = quoted(&table.name);
            names.push(if table.is_system() { format!("{}.{name}", table.schema) } else { name });
            if !table.is_system() {
                names.extend(table.columns.fields().iter().map(|f| quoted(f.name())));
            }
        }
        names.sort_unstable();
        names.dedup();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    fn with_prefix(&self, prefix: &str) -> Vec<String> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().filter(|name| starts_with_folded(name, prefix)).cloned().collect()
    }
}

/// A name as a statement has to write it: what is not lower case would be folded.
#[must_use]
pub fn quoted(name: &str) -> String {
    let plain = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

fn starts_with_folded(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// What the prompt asks for completions.
pub struct PromptHelper {
    names: Names,
}

impl PromptHelper {
    /// Completes these names.
    #[must_use]
    pub fn new(names: Names) -> Self {
        Self { names }
    }
}

/// Where the word under the cursor starts, and what can follow it.
fn complete(names: &Names, line: &str, position: usize) -> (usize, Vec<String>) {
    let before = &line[..position];
    let start = before
        .char_indices()
        .rev()
        .take_while(|(_, c)| c.is_alphanumeric() || matches!(c, '_' | '"' | '.' | '\\'))
        .last()
        .map_or(position, |(at, _)| at);
    let word = &before[start..];
    if word.starts_with('\\') {
        let commands = super::repl::COMMANDS.iter().map(|(name, _, _)| (*name).to_owned());
        return (start, commands.filter(|name| name.starts_with(word)).collect());
    }
    let after_command = before.trim_start().starts_with('\\');
    // A column after its table's name: `orders.o_`.
    let (start, word) = match word.rsplit_once('.') {
        Some((_, column)) if names.with_prefix(word).is_empty() => (position - column.len(), column),
        _ => (start, word),
    };
    let mut found = names.with_prefix(word);
    if !word.is_empty() && !after_command {
        let upper = word.chars().all(|c| !c.is_lowercase());
        let keywords = KEYWORDS.iter().filter(|keyword| starts_with_folded(keyword, word));
        found.extend(keywords.map(|keyword| if upper { keyword.to_uppercase() } else { (*keyword).to_owned() }));
    }
    (start, found)
}

impl Completer for PromptHelper {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(complete(&self.names, line, pos))
    }
}

impl Hinter for PromptHelper {
    type Hint = String;
}

impl Highlighter for PromptHelper {}
impl Validator for PromptHelper {}
impl Helper for PromptHelper {}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, Schema};

    fn names() -> Names {
        let names = Names::default();
        let table = |schema: &str, name: &str, column: &str| TableEntry {
            catalog: None,
            schema: schema.into(),
            name: name.into(),
            kind: "TABLE".into(),
            columns: Schema::new(vec![Field::new(column, DataType::Int64, true)]),
        };
        names.set(&[
            table("public", "orders", "o_orderkey"),
            table("public", "Odd", "x"),
            table("information_schema", "tables", "t"),
        ]);
        names
    }

    #[test]
    fn tables_columns_and_keywords_are_offered() {
        let names = names();
        let at_end = |line: &str| complete(&names, line, line.len());
        assert_eq!(at_end("select * from ord"), (14, vec!["orders".to_owned(), "order".to_owned()]));
        assert_eq!(at_end("SEL"), (0, vec!["SELECT".to_owned()]));
        assert_eq!(at_end("select orders.o_"), (14, vec!["o_orderkey".to_owned()]));
        assert_eq!(at_end("select * from information_schema.ta").1, ["information_schema.tables"]);
        assert_eq!(at_end("\\ti").1, ["\\timing"]);
        assert_eq!(at_end("\\d ord").1, ["orders"]);
        assert_eq!(at_end("select \"O").1, ["\"Odd\""]);
    }
}

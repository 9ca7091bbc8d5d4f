//! How the rows of a dataset are stored and spread over executors.
use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use datafusion::sql::sqlparser::{
    ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, visit_expressions},
    dialect::GenericDialect,
    parser::Parser,
    tokenizer::Token,
};
use serde::{Deserialize, Serialize};
use serde_norway::Value;

use super::{
    fields::{Fields, KeyPath, Problems, kind, scalar},
    settings, snapshots,
};
use crate::{
    duration,
    partition::{PartitionSpec, hash::MAX_BUCKETS},
};

/// A checked `acceleration` section. The engine is always Cayenne, its mode `file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccelerationSpec {
    /// Partition expressions in declared order; empty keeps the table whole.
    pub partition_by: Vec<String>,
    /// Columns of the primary key; empty without one.
    pub primary_key: Vec<String>,
    /// `full`: each refresh replaces all rows. `snapshot`: the rows are always those of a snapshot that another cluster published.
    pub refresh_mode: String,
    /// How often it is looked for a newer snapshot, as `30s`; the default is [`CHECK_INTERVAL`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_check_interval: Option<String>,
    /// Engine parameters as written; their values are checked.
    pub params: BTreeMap<String, String>,
    /// What is to be done about snapshots, as options of the table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub snapshots: BTreeMap<String, String>,
}

/// The refresh mode of datasets that mirror what another cluster publishes.
pub const SNAPSHOT_MODE: &str = "snapshot";
/// How often those look for a newer snapshot by default.
pub const CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// How often they may look at most: each look asks the store.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Keys that the format knows and Ancho does not offer yet.
const NOT_YET: &[&str] = &[
    "maintained_aggregates",
    "on_conflict",
    "on_zero_results",
    "ready_state",
    "refresh_append_overlap",
    "refresh_check_interval",
    "refresh_cron",
    "refresh_data_window",
    "refresh_jitter_enabled",
    "refresh_jitter_max",
    "refresh_on_startup",
    "refresh_retry_enabled",
    "refresh_retry_max_attempts",
    "refresh_sql",
    "retention_check_enabled",
    "retention_check_interval",
    "retention_period",
    "retention_sql",
    "snapshots_bootstrap_on_failure_behavior",
    "snapshots_reset_expiry_on_load",
    "write_mode",
];

impl AccelerationSpec {
    /// The partitioning with the newest hash.
    #[must_use]
    pub fn partition_spec(&self) -> PartitionSpec {
        PartitionSpec::new(self.partition_by.clone())
    }

    /// How often it is looked for a newer snapshot.
    #[must_use]
    pub fn check_interval(&self) -> Duration {
        self.refresh_check_interval.as_deref().and_then(duration::parse).unwrap_or(CHECK_INTERVAL)
    }

    /// Of a dataset that mirrors what another cluster publishes and says nothing more.
    pub(super) fn published() -> Self {
        Self {
            partition_by: Vec::new(),
            primary_key: Vec::new(),
            refresh_mode: SNAPSHOT_MODE.to_owned(),
            refresh_check_interval: None,
            params: BTreeMap::new(),
            snapshots: BTreeMap::new(),
        }
    }

    /// `published`: the source is what another cluster publishes.
    pub(super) fn read(path: &KeyPath, value: &Value, published: bool, problems: &mut Problems) -> Option<Self> {
        let mut fields = Fields::open(path.clone(), value, "`acceleration`", problems)?;
        if let Some((path, false)) = fields.boolean("enabled", problems) {
            problems.add(&path, "Ancho serves the rows it holds: write true, or remove the dataset");
        }
        check_engine(&mut fields, problems);
        let partition_by = read_partition_by(&mut fields, problems);
        let primary_key = read_primary_key(&mut fields, problems);
        check_mode(&mut fields, !partition_by.is_empty(), problems);
        check_refresh_mode(&mut fields, published, problems);
        let refresh_check_interval = if published { read_check_interval(&mut fields, problems) } else { None };
        if published && fields.get("primary_key").is_some() {
            problems.add(&fields.path("primary_key"), "the key is that of the snapshot: remove it");
        }
        check_key_covers_partitions(&fields, &partition_by, &primary_key, problems);
        let mut params = match fields.get("params") {
            Some((path, value)) => settings::read(&path, value, problems),
            None => BTreeMap::new(),
        };
        let indexes = read_indexes(&mut fields, problems);
        if !indexes.is_empty() {
            params.insert(settings::INDEXES.to_owned(), settings::index_list(&indexes));
        }
        let snapshots = snapshots::read_options(&mut fields, problems);
        fields.finish(NOT_YET, problems);
        let partition_by = partition_by.into_iter().map(|e| e.sql).collect();
        let refresh_mode = if published { SNAPSHOT_MODE } else { "full" }.to_owned();
        Some(Self { partition_by, primary_key, refresh_mode, refresh_check_interval, params, snapshots })
    }
}

fn check_engine(fields: &mut Fields<'_>, problems: &mut Problems) {
    match fields.text("engine", problems) {
        None | Some((_, "cayenne")) => {}
        Some((path, engine)) => {
            problems
                .add(&path, format!("the engine `{engine}` is not part of Ancho: write `cayenne`, or remove the key"));
        }
    }
}

fn check_mode(fields: &mut Fields<'_>, partitioned: bool, problems: &mut Problems) {
    let Some((path, mode)) = fields.text("mode", problems) else { return };
    match mode {
        "file" => {}
        "memory" if partitioned => {
            problems
                .add(&path, "`memory` cannot be combined with `partition_by`: write `file`, or remove `partition_by`");
        }
        "memory" | "file_create" | "file_update" => {
            problems.add(&path, format!("the mode `{mode}` is known but not offered by this version: write `file`"));
        }
        other => problems.add(&path, format!("`{other}` is not a mode: write `file`")),
    }
}

fn check_refresh_mode(fields: &mut Fields<'_>, published: bool, problems: &mut Problems) {
    let Some((path, mode)) = fields.text("refresh_mode", problems) else { return };
    match mode {
        SNAPSHOT_MODE if published => {}
        "full" if !published => {}
        "full" | "append" | "changes" | "caching" | "disabled" if published => {
            problems
                .add(&path, "the source is a snapshot, which is served as it is: write `snapshot`, or remove the key");
        }
        SNAPSHOT_MODE => problems.add(
            &path,
            "`snapshot` serves what another cluster publishes: name the place of its snapshots in `from`, and write \
             `file_format: snapshot` in `params` of the dataset",
        ),
        "append" | "changes" | "caching" | "disabled" => {
            problems.add(
                &path,
                format!("the refresh mode `{mode}` is known but not offered by this version: write `full`"),
            );
        }
        other => problems.add(&path, format!("`{other}` is not a refresh mode: write `full`")),
    }
}

fn read_check_interval(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<String> {
    let (path, text) = fields.scalar("refresh_check_interval", problems)?;
    let valid = duration::parse(&text).is_some_and(|time| time >= SHORTEST_INTERVAL);
    if !valid {
        problems.add(&path, format!("`{text}` is not a time of at least 1s: write for example 30s or 5m"));
    }
    valid.then_some(text)
}

/// A partition expression whose syntax is right, with the columns it reads.
struct PartitionBy {
    sql: String,
    path: KeyPath,
    columns: Vec<String>,
}

fn read_partition_by(fields: &mut Fields<'_>, problems: &mut Problems) -> Vec<PartitionBy> {
    let items = match fields.get("partition_by") {
        None => return Vec::new(),
        Some((path, Value::Sequence(items))) => items.iter().enumerate().map(|(i, v)| (path.index(i), v)).collect(),
        Some((path, other)) => {
            problems.add(&path, format!("a list of expressions is needed here, not {}: write `- region`", kind(other)));
            Vec::new()
        }
    };
    let mut expressions: Vec<PartitionBy> = Vec::new();
    for (path, item) in items {
        let Some((path, sql)) = partition_text(&path, item, problems) else { continue };
        match parse_expression(&sql) {
            Err(message) => problems.add(&path, message),
            Ok(_) if expressions.iter().any(|e| e.sql == sql) => {
                problems.add(&path, format!("`{sql}` is listed twice"));
            }
            Ok(columns) => expressions.push(PartitionBy { sql, path, columns }),
        }
    }
    expressions
}

/// The expression of an entry: a text, or a map of one name to one expression (the name is for people).
fn partition_text(path: &KeyPath, item: &Value, problems: &mut Problems) -> Option<(KeyPath, String)> {
    let (path, value) = match item {
        Value::Mapping(map) => match map.iter().next() {
            Some((name, value)) if map.len() == 1 => (path.key(&scalar(name).unwrap_or_default()), value),
            _ => {
                problems.add(path, "a map here has exactly one entry, `name: expression`: start each with its own `-`");
                return None;
            }
        },
        other => (path.clone(), other),
    };
    match value {
        Value::String(text) if !text.trim().is_empty() => Some((path, text.trim().to_owned())),
        Value::String(_) | Value::Null => {
            problems.add(&path, "empty: write a column or an expression over columns");
            None
        }
        other => {
            problems.add(&path, format!("an expression is a text, not {}", kind(other)));
            None
        }
    }
}

/// Checks what can be checked without the schema, and gives the names of the columns.
fn parse_expression(sql: &str) -> Result<Vec<String>, String> {
    let mut parser =
        Parser::new(&GenericDialect {}).try_with_sql(sql).map_err(|e| format!("`{sql}` is not an expression: {e}"))?;
    let expr = parser.parse_expr().map_err(|e| format!("`{sql}` is not an expression: {e}"))?;
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        return Err(format!("`{sql}` is not one expression: `{}` is left over", rest.token));
    }
    check_bucket(&expr)?;
    let mut columns: Vec<String> = Vec::new();
    let _ = visit_expressions(&expr, |inner| {
        let name = match inner {
            // Unquoted names are folded, as in a query.
            Expr::Identifier(name) if name.quote_style.is_none() => Some(name.value.to_lowercase()),
            Expr::Identifier(name) => Some(name.value.clone()),
            _ => None,
        };
        columns.extend(name.filter(|n| !columns.contains(n)).as_slice().iter().cloned());
        ControlFlow::<()>::Continue(())
    });
    if columns.is_empty() {
        return Err(format!("`{sql}` reads no column, so all rows would share one partition: name a column"));
    }
    Ok(columns)
}

fn check_bucket(expr: &Expr) -> Result<(), String> {
    let Expr::Function(function) = expr else { return Ok(()) };
    if !function.name.to_string().eq_ignore_ascii_case("bucket") {
        return Ok(());
    }
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(number)), FunctionArg::Unnamed(FunctionArgExpr::Expr(_))] =
        list.args.as_slice()
    else {
        return Err("bucket takes a number and a column: write bucket(16, column)".to_owned());
    };
    let number = number.to_string();
    match number.parse::<u32>() {
        Ok(n) if (1..=MAX_BUCKETS).contains(&n) => Ok(()),
        _ => Err(format!("the number of buckets is `{number}`: it must be between 1 and {MAX_BUCKETS}")),
    }
}

fn read_primary_key(fields: &mut Fields<'_>, problems: &mut Problems) -> Vec<String> {
    let Some((path, value)) = fields.get("primary_key") else { return Vec::new() };
    let listed: Vec<(KeyPath, String)> = match value {
        Value::Sequence(items) if items.is_empty() => {
            problems.add(&path, "empty: name the key's columns, or remove the key");
            Vec::new()
        }
        Value::Sequence(items) => {
            let texts =
                items.iter().enumerate().map(|(i, v)| (path.index(i), v.as_str().unwrap_or_default().to_owned()));
            texts.collect()
        }
        // A text is one column, or several as `(a, b)`.
        Value::String(text) => match text.trim().strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
            Some(inner) => inner.split(',').map(|column| (path.clone(), column.to_owned())).collect(),
            None => vec![(path, text.clone())],
        },
        other => {
            problems.add(&path, format!("name a column, or a list of columns, not {}", kind(other)));
            Vec::new()
        }
    };
    let mut columns: Vec<String> = Vec::new();
    for (path, column) in listed {
        let column = column.trim().to_owned();
        if column.is_empty() {
            problems.add(&path, "empty: write the name of a column");
        } else if columns.contains(&column) {
            problems.add(&path, format!("the column `{column}` is listed twice"));
        } else {
            columns.push(column);
        }
    }
    columns
}

/// The columns of each index: a map of columns, several as `(a, b)`, to `enabled` or `unique`.
fn read_indexes(fields: &mut Fields<'_>, problems: &mut Problems) -> Vec<Vec<String>> {
    let Some((path, value)) = fields.get("indexes") else { return Vec::new() };
    let Value::Mapping(map) = value else {
        problems.add(&path, format!("a map of columns is needed here, not {}: write `region: enabled`", kind(value)));
        return Vec::new();
    };
    let mut indexes: Vec<Vec<String>> = Vec::new();
    for (key, value) in map {
        let key = scalar(key).unwrap_or_default();
        let path = path.key(&key);
        match value.as_str() {
            Some("enabled") => {}
            Some("unique") => tracing::warn!(
                "{path}: a unique index rejects no row that repeats a value; declare a primary_key if one is to replace the other"
            ),
            _ => {
                problems.add(&path, "write `enabled` or `unique`");
                continue;
            }
        }
        match settings::parse_indexes(&key) {
            Ok(parsed) if parsed.len() == 1 && !indexes.contains(&parsed[0]) => indexes.extend(parsed),
            Ok(parsed) if parsed.len() == 1 => problems.add(&path, "this index is listed twice"),
            Ok(_) => problems.add(&path, "one index is needed here: write columns of one in parentheses, `(a, b)`"),
            Err(message) => problems.add(&path, message),
        }
    }
    indexes
}

/// Rows of one key must meet in one partition, or they cannot replace one another.
fn check_key_covers_partitions(
    fields: &Fields<'_>,
    partition_by: &[PartitionBy],
    primary_key: &[String],
    problems: &mut Problems,
) {
    if primary_key.is_empty() {
        return;
    }
    for expression in partition_by {
        for column in expression.columns.iter().filter(|c| !primary_key.contains(c)) {
            problems.add(
                &expression.path,
                format!(
                    "`{}` reads the column `{column}`, which is not part of {}: rows of one key could lie in two \
                     partitions; add it to the key, or partition by the key's columns",
                    expression.sql,
                    fields.path("primary_key"),
                ),
            );
        }
    }
}

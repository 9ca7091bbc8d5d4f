//! The engine's parameters under `acceleration.params`: which exist, and which values they take.
use std::collections::BTreeMap;

use serde_norway::Value;

use super::fields::{KeyPath, Problems, alternatives, kind, nearest, scalar};
use crate::snapshot::{
    SnapshotLocation,
    policy::{self, SnapshotPolicy},
};

/// What a parameter's value must look like.
enum Rule {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A whole number of at least this, or one of these words.
    Number(u64, &'static [&'static str]),
    /// A whole number of at most this, or one of these words.
    AtMost(u64, &'static [&'static str]),
    /// Names separated by commas.
    Columns,
    /// Not possible here, for this reason.
    Refused(&'static str),
}

const NOT_OFFERED: &str = "this parameter is known but not offered by this version: remove it";
const BOOLEAN: &[&str] = &["true", "false"];
const AUTO: &[&str] = &["auto"];
const PLACED_BY_EXECUTORS: &str = "executors keep partitions below their own data directory: remove it";
const ENGINE_WIDE: &str = "this is a setting of the whole engine, not of one dataset: remove it";
const FOOTER_CACHE: &str = "executors have one cache for all tables: remove it, and start them with --footer-cache";
const SEGMENT_CACHE: &str = "columns are kept by the system's page cache and by no cache of the engine: remove it";
const COMPACTION_SHARE: &str = "compaction has one share of an executor's memory: remove it, and start executors with --compaction-memory-fraction";
const RENAMED_CLUSTERING: &str = "this parameter is withdrawn: write `cayenne_cluster_by`";

const RULES: &[(&str, Rule)] = &[
    ("cayenne_bake_deletion_index_trigger", Rule::Number(1, &[])),
    ("cayenne_cluster_by", Rule::Columns),
    ("cayenne_compaction_background_interval_ms", Rule::Number(0, &[])),
    ("cayenne_compaction_max_files_per_pick", Rule::Number(1, &[])),
    ("cayenne_compaction_max_levels", Rule::Number(1, &[])),
    ("cayenne_compaction_memory_fraction", Rule::Refused(COMPACTION_SHARE)),
    ("cayenne_compaction_trigger_files", Rule::Number(1, &[])),
    ("cayenne_compaction_trigger_protected_snapshots", Rule::Number(1, &[])),
    ("cayenne_compaction_trigger_snapshot_age_ms", Rule::Number(0, &[])),
    ("cayenne_compression_strategy", Rule::Word(&["btrblocks", "zstd"])),
    ("cayenne_datalake_clustering_columns", Rule::Refused(RENAMED_CLUSTERING)),
    ("cayenne_deletion_mode", Rule::Word(&["auto", "key", "position"])),
    ("cayenne_delta_encoding", Rule::AtMost(10, AUTO)),
    ("cayenne_file_path", Rule::Refused(PLACED_BY_EXECUTORS)),
    ("cayenne_filter_propagation", Rule::Refused(ENGINE_WIDE)),
    ("cayenne_footer_cache_mb", Rule::Refused(FOOTER_CACHE)),
    ("cayenne_force_view_types", Rule::Word(BOOLEAN)),
    ("cayenne_metadata_dir", Rule::Refused(PLACED_BY_EXECUTORS)),
    ("cayenne_metastore", Rule::Word(&["sqlite"])),
    ("cayenne_optimizer_rules", Rule::Refused(ENGINE_WIDE)),
    ("cayenne_pk_conflict_detection", Rule::Word(&["auto", "none"])),
    ("cayenne_pk_keyset_cache_mb", Rule::Number(0, AUTO)),
    ("cayenne_scan_concurrency", Rule::Number(0, &["auto", "off", "disabled", "none"])),
    ("cayenne_segment_cache_mb", Rule::Refused(SEGMENT_CACHE)),
    ("cayenne_shard_key_columns", Rule::Columns),
    ("cayenne_sort_columns", Rule::Columns),
    ("cayenne_target_file_size_mb", Rule::Number(1, AUTO)),
    ("cayenne_unsupported_type_action", Rule::Word(&["error", "string", "warn", "ignore"])),
    ("cayenne_upload_concurrency", Rule::Number(1, AUTO)),
    ("cayenne_write_concurrency", Rule::Number(1, AUTO)),
    ("pk_conflict_detection", Rule::Word(&["auto", "none"])),
    ("sort_columns", Rule::Columns),
    ("unsupported_type_action", Rule::Word(&["error", "string", "warn", "ignore"])),
];

/// Parameters with two spellings; both with different values contradict each other.
const SPELLINGS: [(&str, &str); 3] = [
    ("cayenne_sort_columns", "sort_columns"),
    ("cayenne_pk_conflict_detection", "pk_conflict_detection"),
    ("cayenne_unsupported_type_action", "unsupported_type_action"),
];

/// Families of parameters that the format knows and Ancho does not offer yet.
const NOT_YET: [&str; 5] = ["cayenne_s3_", "cayenne_datalake_", "cayenne_cdc_", "cayenne_metastore_", "cayenne_sort_"];

/// The parameters that change what the engine does. The others are understood, and refused rather than ignored.
const IN_EFFECT: [&str; 18] = [
    "cayenne_cluster_by",
    "cayenne_compaction_background_interval_ms",
    "cayenne_compaction_max_files_per_pick",
    "cayenne_compaction_max_levels",
    "cayenne_compaction_trigger_files",
    "cayenne_compaction_trigger_protected_snapshots",
    "cayenne_compaction_trigger_snapshot_age_ms",
    "cayenne_compression_strategy",
    "cayenne_deletion_mode",
    "cayenne_metastore",
    "cayenne_pk_conflict_detection",
    "cayenne_pk_keyset_cache_mb",
    "cayenne_sort_columns",
    "cayenne_target_file_size_mb",
    "cayenne_unsupported_type_action",
    "pk_conflict_detection",
    "sort_columns",
    "unsupported_type_action",
];

/// The table option that datasets have as a key of their own.
pub const TIME_COLUMN: &str = "time_column";

/// The table option that lists secondary indexes, which datasets have as a map of their own.
pub const INDEXES: &str = "indexes";

/// The table options that say where snapshots of the table go; datasets have them as keys of their acceleration.
pub const SNAPSHOTS_LOCATION: &str = "snapshots_location";
/// How that place is reached: a JSON object of texts, by the names that datasets have for them.
pub const SNAPSHOTS_PARAMS: &str = "snapshots_params";

/// Whether a table option is about snapshots. These may change at any time, and are no concern of the engine.
#[must_use]
pub fn is_of_snapshots(name: &str) -> bool {
    name.starts_with("snapshots")
}

/// Where a table's own options have its snapshots go, if they say so.
///
/// # Errors
/// Says which option is wrong, and what to write.
pub fn snapshot_location(
    params: &BTreeMap<String, String>,
) -> Result<Option<SnapshotLocation>, (&'static str, String)> {
    let reached: BTreeMap<String, String> = match params.get(SNAPSHOTS_PARAMS) {
        None => BTreeMap::new(),
        Some(text) => serde_json::from_str(text).map_err(|e| {
            (SNAPSHOTS_PARAMS, format!("write a JSON object of texts, as {{\"s3_region\": \"eu-central-1\"}}: {e}"))
        })?,
    };
    match params.get(SNAPSHOTS_LOCATION) {
        Some(url) => SnapshotLocation::parse(url, &reached).map(Some).map_err(|problem| (SNAPSHOTS_LOCATION, problem)),
        None if params.contains_key(SNAPSHOTS_PARAMS) => Err((
            SNAPSHOTS_PARAMS,
            "it says how `snapshots_location` is reached, which is missing: add that".to_owned(),
        )),
        None => Ok(None),
    }
}

/// What is wrong with what a table's options say about snapshots: the option to change, and why. `has_source` tells datasets from
/// tables that statements write to.
#[must_use]
pub fn snapshot_problem(params: &BTreeMap<String, String>, has_source: bool) -> Option<(&'static str, String)> {
    SnapshotPolicy::of(params, has_source).err()
}

/// Largest number that a parameter takes: it fits every integer type that reads it.
const LARGEST: u64 = i64::MAX as u64;

/// Whether a table may have this engine parameter with this value.
///
/// # Errors
/// Says why not, and what to write.
pub fn check_param(name: &str, value: &str) -> Result<(), String> {
    match RULES.iter().find(|(known, _)| *known == name) {
        Some((_, rule)) => check(rule, value.trim()).and_then(|()| check_offered(name)),
        None => Err(unknown(name)),
    }
}

fn check_offered(name: &str) -> Result<(), String> {
    if IN_EFFECT.contains(&name) { Ok(()) } else { Err(NOT_OFFERED.to_owned()) }
}

/// As [`check_param`], of an option in `CREATE TABLE … WITH (…)`, which are these parameters, the time column and what
/// is to be done about snapshots.
///
/// # Errors
/// Says why not, and what to write.
pub fn check_table_option(name: &str, value: &str) -> Result<(), String> {
    match name {
        TIME_COLUMN if value.trim().is_empty() => Err("write the name of a column".to_owned()),
        TIME_COLUMN => Ok(()),
        INDEXES => parse_indexes(value).map(drop),
        // Checked together, see `contradictions` and `snapshot_problem`.
        SNAPSHOTS_LOCATION | SNAPSHOTS_PARAMS => Ok(()),
        known if policy::OPTIONS.contains(&known) => Ok(()),
        other => check_param(other, value),
    }
}

/// What is wrong with parameters that are each in order: the parameter to change, and why.
#[must_use]
pub fn contradictions(params: &BTreeMap<String, String>) -> Vec<(&'static str, String)> {
    let twice = SPELLINGS.iter().filter_map(|(long, short)| match (params.get(*long), params.get(*short)) {
        (Some(a), Some(b)) if a != b => {
            Some((*short, format!("`{b}` contradicts `{long}: {a}`, which is the same setting: keep one of them")))
        }
        _ => None,
    });
    let both = (!sort_columns(params).is_empty() && !cluster_columns(params).is_empty())
        .then(|| ("cayenne_cluster_by", "it cannot be combined with `sort_columns`: remove one of them".to_owned()));
    twice.chain(both).chain(snapshot_location(params).err()).collect()
}

/// The columns that compaction sorts rows by.
#[must_use]
pub fn sort_columns(params: &BTreeMap<String, String>) -> Vec<String> {
    columns(params.get("cayenne_sort_columns").or_else(|| params.get("sort_columns")))
}

/// The columns that compaction clusters rows by.
#[must_use]
pub fn cluster_columns(params: &BTreeMap<String, String>) -> Vec<String> {
    columns(params.get("cayenne_cluster_by"))
}

/// The columns of each secondary index.
#[must_use]
pub fn indexes(params: &BTreeMap<String, String>) -> Vec<Vec<String>> {
    params.get(INDEXES).and_then(|list| parse_indexes(list).ok()).unwrap_or_default()
}

/// Indexes as the option has them.
#[must_use]
pub fn index_list(indexes: &[Vec<String>]) -> String {
    let entry = |columns: &Vec<String>| match columns.as_slice() {
        [one] => one.clone(),
        several => format!("({})", several.join(", ")),
    };
    indexes.iter().map(entry).collect::<Vec<_>>().join(", ")
}

/// Reads a list of indexes: `a, (b, c)`.
///
/// # Errors
/// Says what to write.
pub fn parse_indexes(list: &str) -> Result<Vec<Vec<String>>, String> {
    let wrong =
        || format!("`{list}` is no list of indexes: write columns, several of one index in parentheses: a, (b, c)");
    let mut indexes: Vec<Vec<String>> = Vec::new();
    let mut rest = list.trim();
    while !rest.is_empty() {
        let (entry, after) = match rest.strip_prefix('(') {
            Some(inner) => inner.split_once(')').ok_or_else(wrong)?,
            None => rest.split_at(rest.find(',').unwrap_or(rest.len())),
        };
        let columns: Vec<String> = entry.split(',').map(|name| name.trim().to_owned()).collect();
        if columns.iter().any(|name| name.is_empty() || name.contains(['(', ')'])) {
            return Err(wrong());
        }
        if let Some(twice) = columns.iter().enumerate().find(|(at, name)| columns[..*at].contains(name)) {
            return Err(format!("an index names the column `{}` twice: name it once", twice.1));
        }
        if indexes.contains(&columns) {
            return Err(format!("the index over `{}` is listed twice: remove one of them", columns.join(", ")));
        }
        indexes.push(columns);
        rest = match after.trim_start().strip_prefix(',') {
            Some(more) if !more.trim().is_empty() => more.trim_start(),
            None if after.trim().is_empty() => "",
            _ => return Err(wrong()),
        };
    }
    if indexes.is_empty() { Err(wrong()) } else { Ok(indexes) }
}

fn columns(list: Option<&String>) -> Vec<String> {
    list.map(|list| list.split(',').map(|name| name.trim().to_owned()).collect()).unwrap_or_default()
}

/// What becomes of columns whose type cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnsupportedTypeAction {
    /// The table is refused.
    Error,
    /// Their values are stored as text.
    String,
    /// They are left out, and the log says so.
    Warn,
    /// They are left out.
    Ignore,
}

impl UnsupportedTypeAction {
    /// What the parameters ask for.
    #[must_use]
    pub fn of(params: &BTreeMap<String, String>) -> Self {
        let given = params.get("cayenne_unsupported_type_action").or_else(|| params.get("unsupported_type_action"));
        match given.map(String::as_str) {
            Some("string") => Self::String,
            Some("warn") => Self::Warn,
            Some("ignore") => Self::Ignore,
            _ => Self::Error,
        }
    }
}

pub(super) fn read(path: &KeyPath, value: &Value, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut params = BTreeMap::new();
    let mut given: BTreeMap<String, String> = BTreeMap::new();
    let Value::Mapping(map) = value else {
        problems.add(path, format!("`params` must be a map of names and values, not {}", kind(value)));
        return params;
    };
    for (key, value) in map {
        let key = scalar(key).unwrap_or_default();
        let path = path.key(&key);
        let Some(text) = scalar(value) else {
            problems.add(&path, format!("a single value is needed here, not {}", kind(value)));
            continue;
        };
        match check_param(&key, &text) {
            Ok(()) => {
                params.insert(key.clone(), text.trim().to_owned());
            }
            Err(message) => problems.add(&path, message),
        }
        given.insert(key, text.trim().to_owned());
    }
    for (name, message) in contradictions(&given) {
        problems.add(&path.key(name), message);
    }
    params
}

fn unknown(key: &str) -> String {
    if NOT_YET.iter().any(|family| key.starts_with(family)) {
        return NOT_OFFERED.to_owned();
    }
    if key == TIME_COLUMN {
        return "it belongs to the dataset itself: write it beside `name`".to_owned();
    }
    if key == INDEXES {
        return "it belongs to the acceleration itself: write it beside `params`".to_owned();
    }
    match nearest(key, RULES.iter().map(|(name, _)| *name)) {
        Some(near) => format!("unknown parameter; did you mean `{near}`?"),
        None => "unknown parameter: the engine's parameters start with `cayenne_`".to_owned(),
    }
}

fn check(rule: &Rule, text: &str) -> Result<(), String> {
    let number = text.parse::<u64>().ok().filter(|n| *n <= LARGEST);
    let or = |words: &[&str]| if words.is_empty() { String::new() } else { format!(", or {}", alternatives(words)) };
    match rule {
        Rule::Word(words) if words.contains(&text) => Ok(()),
        Rule::Word(words) => Err(format!("`{text}` is not possible here: write {}", alternatives(words))),
        Rule::Number(_, words) | Rule::AtMost(_, words) if words.contains(&text) => Ok(()),
        Rule::Number(least, _) if number.is_some_and(|n| n >= *least) => Ok(()),
        Rule::Number(least, words) => {
            Err(format!("`{text}` is not possible here: write a whole number of at least {least}{}", or(words)))
        }
        Rule::AtMost(most, _) if number.is_some_and(|n| n <= *most) => Ok(()),
        Rule::AtMost(most, words) => {
            Err(format!("`{text}` is not possible here: write a whole number from 0 to {most}{}", or(words)))
        }
        Rule::Columns if text.split(',').all(|name| !name.trim().is_empty()) => Ok(()),
        Rule::Columns => Err("write the names of columns, separated by commas".to_owned()),
        Rule::Refused(reason) => Err((*reason).to_owned()),
    }
}

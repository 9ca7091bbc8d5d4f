//! Where snapshots of tables go: one place for the cluster, another for a dataset that names one.
use std::collections::BTreeMap;

use serde_norway::Value;

use super::{
    fields::{Fields, KeyPath, Problems, kind, scalar},
    settings::{SNAPSHOTS_LOCATION, SNAPSHOTS_PARAMS, snapshot_location, snapshot_problem},
};
use crate::snapshot::{SnapshotLocation, policy::OPTIONS};

/// The folder for snapshots in the place where a cluster keeps its state.
const FOLDER: &str = "snapshots";

/// Keys that the format knows and Ancho does not offer yet.
const NOT_YET_OF_RUNTIME: &[&str] = &[
    "auth",
    "caching",
    "cors",
    "dataset_load_parallelism",
    "flight",
    "params",
    "results_cache",
    "scheduler",
    "secrets",
    "shutdown_timeout",
    "task_history",
    "telemetry",
    "tls",
    "tracing",
];

/// `runtime.state`, or the older section `snapshots`, which wins where both name a place.
pub(super) fn read_location(top: &mut Fields<'_>, problems: &mut Problems) -> Option<SnapshotLocation> {
    let state = match top.get("runtime") {
        Some((path, value)) => {
            let mut runtime = Fields::open(path, value, "`runtime`", problems)?;
            let state = runtime.get("state").and_then(|(path, value)| place(&path, value, problems));
            runtime.finish(NOT_YET_OF_RUNTIME, problems);
            state.map(|location| location.below(FOLDER))
        }
        None => None,
    };
    let section = top.get("snapshots").and_then(|(path, value)| place(&path, value, problems));
    section.or(state)
}

fn place(path: &KeyPath, value: &Value, problems: &mut Problems) -> Option<SnapshotLocation> {
    let mut fields = Fields::open(path.clone(), value, &format!("`{path}`"), problems)?;
    let params = params(&mut fields, "params", problems);
    let location = match fields.text("location", problems) {
        Some((path, url)) => SnapshotLocation::parse(url, &params).map_err(|problem| problems.add(&path, problem)).ok(),
        None => {
            problems.add(&fields.path("location"), "missing: write file:///absolute/path or s3://bucket/prefix/");
            None
        }
    };
    fields.finish(&["bootstrap_on_failure_behavior", "enabled"], problems);
    location
}

/// The keys of an acceleration that are about snapshots, as options of its table.
pub(super) fn read_options(fields: &mut Fields<'_>, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    if let Some((_, url)) = fields.text(SNAPSHOTS_LOCATION, problems) {
        options.insert(SNAPSHOTS_LOCATION.to_owned(), url.trim().to_owned());
    }
    if fields.get(SNAPSHOTS_PARAMS).is_some() {
        let params = params(fields, SNAPSHOTS_PARAMS, problems);
        // Texts always have a JSON form.
        options.insert(SNAPSHOTS_PARAMS.to_owned(), serde_json::to_string(&params).unwrap_or_default());
    }
    for key in OPTIONS {
        if let Some((_, value)) = fields.scalar(key, problems) {
            options.insert(key.to_owned(), value.trim().to_owned());
        }
    }
    for (key, problem) in snapshot_location(&options).err().into_iter().chain(snapshot_problem(&options, true)) {
        problems.add(&fields.path(key), problem);
    }
    options
}

fn params(fields: &mut Fields<'_>, key: &'static str, problems: &mut Problems) -> BTreeMap<String, String> {
    let mut params = BTreeMap::new();
    let Some((path, value)) = fields.get(key) else { return params };
    let Value::Mapping(map) = value else {
        problems.add(&path, format!("a map of names and values is needed here, not {}", kind(value)));
        return params;
    };
    for (name, value) in map {
        let name = scalar(name).unwrap_or_default();
        match scalar(value) {
            Some(text) => drop(params.insert(name, text)),
            None => problems.add(&path.key(&name), format!("a single value is needed here, not {}", kind(value))),
        }
    }
    params
}

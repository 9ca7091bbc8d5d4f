//! The cluster spec: datasets declared in YAML, as `ancho apply` takes them.
//!
//! ```yaml
//! version: v1
//! kind: Cluster
//! name: shop
//! datasets:
//!   - from: s3://lake/orders/
//!     name: orders
//!     params:
//!       file_format: parquet
//!       s3_region: eu-central-1
//!       s3_key: ${env:LAKE_KEY}
//!       s3_secret: ${env:LAKE_SECRET}
//!     acceleration:
//!       engine: cayenne
//!       mode: file
//!       refresh_mode: full
//!       partition_by: [ "bucket(16, o_orderkey)" ]
//! ```
//!
//! [`ClusterSpec::parse`] checks everything that can be checked without the source, and reports all problems at once,
//! each with the path of its key. Nothing is ignored: a key that is unknown, or known but not offered yet, is refused.
//!
//! * [`dataset`] – one dataset and its name
//! * [`acceleration`] – how its rows are stored and spread
//! * [`settings`] – the engine's parameters and their values
//! * `snapshots` – where snapshots of tables go
//! * [`source`] – where its rows come from, in which format
//! * [`secret`] – texts that may stand for environment variables
pub mod acceleration;
pub mod dataset;
mod fields;
pub mod secret;
pub mod settings;
mod snapshots;
pub mod source;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, fmt};

use serde_norway::Value;

use self::fields::{Fields, KeyPath, Problems};
pub use self::{
    acceleration::{AccelerationSpec, CHECK_INTERVAL, SNAPSHOT_MODE},
    dataset::DatasetSpec,
    secret::Secret,
    source::{CsvOptions, FileFormat, Location, S3Options, SourceSpec},
};
use crate::snapshot::SnapshotLocation;

/// The declared datasets of a cluster.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterSpec {
    /// What people call it; decides nothing.
    pub name: Option<String>,
    /// Where snapshots go of tables that name no place of their own; nothing is said if `None`.
    pub snapshots: Option<SnapshotLocation>,
    /// In the order of the file; names are unique.
    pub datasets: Vec<DatasetSpec>,
}

/// One thing that is wrong with a spec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecError {
    /// The key, as `datasets[2].acceleration.partition_by[0]`; empty for the document as a whole.
    pub path: String,
    /// What is wrong with it and what to write instead.
    pub message: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

impl std::error::Error for SpecError {}

/// The kinds of document that hold datasets. The second is what the format's origin calls it.
const KINDS: [&str; 2] = ["Cluster", "Spicepod"];

/// The versions of the format.
const VERSIONS: [&str; 2] = ["v1", "1"];

/// Top-level keys that the format knows and Ancho does not offer yet.
const NOT_YET: &[&str] = &["catalogs", "views", "secrets", "dependencies", "metadata"];

impl ClusterSpec {
    /// Reads and checks a YAML document.
    ///
    /// # Errors
    /// Every problem found, in the order of the document; at least one.
    pub fn parse(text: &str) -> Result<Self, Vec<SpecError>> {
        let document: Value = serde_norway::from_str(text).map_err(|e| {
            vec![SpecError { path: String::new(), message: format!("this is not a YAML document: {e}") }]
        })?;
        let mut problems = Problems::default();
        let spec = Self::read(&document, &mut problems);
        match (spec, problems.into_errors()) {
            (Some(spec), errors) if errors.is_empty() => Ok(spec),
            (_, errors) => Err(errors),
        }
    }

    fn read(document: &Value, problems: &mut Problems) -> Option<Self> {
        let mut top = Fields::open(KeyPath::root(), document, "the document", problems)?;
        top.one_of("version", &VERSIONS, problems);
        top.one_of("kind", &KINDS, problems);
        let name = top.text("name", problems).map(|(_, text)| text.to_owned());
        let datasets = match top.get("datasets") {
            Some((path, Value::Sequence(items))) => read_datasets(&path, items, problems),
            Some((path, _)) => {
                problems.add(&path, "a list is needed here: one entry per dataset, each starting with `- from:`");
                Vec::new()
            }
            None => {
                problems.add(&KeyPath::root().key("datasets"), "missing: list the datasets of the cluster");
                Vec::new()
            }
        };
        let snapshots = snapshots::read_location(&mut top, problems);
        top.finish(NOT_YET, problems);
        Some(Self { name, snapshots, datasets })
    }
}

fn read_datasets(path: &KeyPath, items: &[Value], problems: &mut Problems) -> Vec<DatasetSpec> {
    let mut first_with: BTreeMap<&str, usize> = BTreeMap::new();
    let mut datasets = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let path = path.index(position);
        if let Some(name) = item.get("name").and_then(Value::as_str) {
            let first = *first_with.entry(name).or_insert(position);
            if first != position {
                problems.add(
                    &path.key("name"),
                    format!("`{name}` is also the name of datasets[{first}]: names are unique"),
                );
            }
        }
        datasets.extend(DatasetSpec::read(&path, item, problems));
    }
    datasets
}

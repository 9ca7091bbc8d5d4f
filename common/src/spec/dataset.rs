//! One dataset: a table that mirrors a source.
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_norway::Value;

use super::{
    acceleration::AccelerationSpec,
    fields::{Fields, KeyPath, Problems},
    settings::TIME_COLUMN,
    source::SourceSpec,
};

/// A declared dataset. Its serialised form is its definition: two datasets are declared alike when these are equal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DatasetSpec {
    /// Name of the table, as written: it is not folded to lower case.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Where the rows come from.
    pub source: SourceSpec,
    /// The column that says which of several rows of a key is the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_column: Option<String>,
    /// How they are stored and spread.
    pub acceleration: AccelerationSpec,
}

/// Longest name, in bytes.
const MAX_NAME: usize = 200;

/// Keys that the format knows and Ancho does not offer yet.
const NOT_YET: &[&str] = &[
    "access",
    "columns",
    "dependsOn",
    "embeddings",
    "full_text_search",
    "has_metadata_table",
    "invalid_type_action",
    "metadata",
    "on_schema_change",
    "ready_state",
    "replication",
    "time_format",
    "time_partition_column",
    "time_partition_format",
    "unsupported_type_action",
    "vectors",
];

impl DatasetSpec {
    /// The definition as one line of JSON with its keys in a fixed order.
    #[must_use]
    pub fn definition(&self) -> String {
        // A struct of texts, numbers and string-keyed maps always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads [`DatasetSpec::definition`]'s text.
    ///
    /// # Errors
    /// The text is not a definition that this version understands.
    pub fn from_definition(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// The parameters of its table: those of the engine, the time column, and what is to be done about snapshots.
    #[must_use]
    pub fn table_params(&self) -> BTreeMap<String, String> {
        let mut params = self.acceleration.params.clone();
        params.extend(self.acceleration.snapshots.clone());
        params.extend(self.time_column.iter().map(|column| (TIME_COLUMN.to_owned(), column.clone())));
        params
    }

    pub(super) fn read(path: &KeyPath, value: &Value, problems: &mut Problems) -> Option<Self> {
        let mut fields = Fields::open(path.clone(), value, "a dataset", problems)?;
        let name = read_name(&mut fields, problems);
        let description = fields.text("description", problems).map(|(_, text)| text.to_owned());
        let source = SourceSpec::read(&mut fields, problems);
        let published = source.as_ref().is_some_and(SourceSpec::is_published);
        let acceleration = match fields.get("acceleration") {
            Some((path, value)) => AccelerationSpec::read(&path, value, published, problems),
            None if published => Some(AccelerationSpec::published()),
            None => {
                let path = fields.path("acceleration");
                problems.add(
                    &path,
                    "missing: Ancho serves the rows it holds, so every dataset is accelerated; write at least \
                     `acceleration: {enabled: true}`",
                );
                None
            }
        };
        let time_column = fields.text("time_column", problems).map(|(_, column)| column.trim().to_owned());
        if published && time_column.is_some() {
            problems.add(&fields.path("time_column"), "the source is a snapshot, which is served as it is: remove it");
        }
        fields.finish(NOT_YET, problems);
        Some(Self { time_column, name: name?, description, source: source?, acceleration: acceleration? })
    }
}

fn read_name(fields: &mut Fields<'_>, problems: &mut Problems) -> Option<String> {
    let path = fields.path("name");
    if fields.get("name").is_none() {
        problems.add(&path, "missing: give the table a name");
        return None;
    }
    let (path, name) = fields.text("name", problems)?;
    let trouble = if name.len() > MAX_NAME {
        format!("the name is {} bytes long: at most {MAX_NAME} are possible", name.len())
    } else if name.trim() != name {
        "the name starts or ends with blanks".to_owned()
    } else if name.contains('.') {
        format!("`{name}` has a dot: datasets are tables of the schema `public`, named without a schema")
    } else if let Some(odd) = name.chars().find(|c| c.is_control() || matches!(c, '/' | '\\' | '"')) {
        format!("{odd:?} cannot be part of a name")
    } else {
        return Some(name.to_owned());
    };
    problems.add(&path, trouble);
    None
}

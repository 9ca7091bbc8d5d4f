//! Changes of a table's columns and parameters. A change of columns is a version of its own in every partition that holds
//! rows, so that owners make it in its place between two writes; partitions without rows are simply made anew.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    alter::ColumnChange,
    error::Error,
    ids::{TableId, WriteId},
    spec::settings::{INDEXES, TIME_COLUMN, cluster_columns, index_list, indexes, is_of_snapshots, sort_columns},
    storable::is_cluster_type,
};
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use super::{
    apply::Applied,
    cluster::{ClusterState, ColumnSummary, CommitRecord, Schema, Table},
    command::Outcome,
    statistics::empty_columns,
    writes::{KEEP_COMMITS, merged_columns},
};

/// A change of columns that owners may still have to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alteration {
    /// The version of the table that it made.
    pub version: u64,
    /// What the commits of partitions call it.
    pub write_id: WriteId,
    /// What it does.
    pub change: ColumnChange,
    /// The columns before it.
    pub before: Schema,
}

/// Parameters that say how rows are laid down and looked after, not what they are: they may change while a table is there.
const CHANGEABLE: [&str; 13] = [
    "cayenne_cluster_by",
    "cayenne_compaction_background_interval_ms",
    "cayenne_compaction_max_files_per_pick",
    "cayenne_compaction_max_levels",
    "cayenne_compaction_trigger_files",
    "cayenne_compaction_trigger_protected_snapshots",
    "cayenne_compaction_trigger_snapshot_age_ms",
    "cayenne_compression_strategy",
    "cayenne_pk_keyset_cache_mb",
    "cayenne_sort_columns",
    "cayenne_target_file_size_mb",
    INDEXES,
    "sort_columns",
];

/// The first parameter in which two sets differ and that cannot be changed in place.
#[must_use]
pub fn fixed_difference<'a>(a: &'a BTreeMap<String, String>, b: &'a BTreeMap<String, String>) -> Option<&'a str> {
    let differs =
        |name: &&String| a.get(*name) != b.get(*name) && !CHANGEABLE.contains(&name.as_str()) && !is_of_snapshots(name);
    a.keys().chain(b.keys()).find(differs).map(String::as_str)
}

impl Table {
    /// The columns after a change, if the table can have it.
    ///
    /// # Errors
    /// Says which column stands in the way, and why.
    pub fn altered(&self, change: &ColumnChange) -> Result<SchemaRef, Error> {
        let named = |error: Error| error.context(&format!("table {}", self.name));
        let refused = |text: String| Err(named(Error::invalid(text)));
        if self.dataset.is_some() {
            return Err(named(Error::unsupported(
                "its columns are those of its source; change the source, or its declaration",
            )));
        }
        if self.load.is_some() {
            return Err(named(Error::unavailable("it is still being loaded; try again when it is")));
        }
        let name = change.name();
        let is_key = self.primary_key.iter().any(|column| column == name);
        let is_time = self.params.get(TIME_COLUMN).is_some_and(|column| column == name);
        match change {
            ColumnChange::Drop { .. } | ColumnChange::Widen { .. } if is_key || is_time => {
                let what = if is_key { "in the primary key" } else { "the time column" };
                return refused(format!("column {name} is {what} and can only be renamed"));
            }
            ColumnChange::Drop { .. } => {
                let lists =
                    [("sort_columns", sort_columns(&self.params)), ("CLUSTER BY", cluster_columns(&self.params))];
                if let Some((list, _)) = lists.iter().find(|(_, columns)| columns.iter().any(|column| column == name)) {
                    return refused(format!("rows are laid down by column {name} ({list}); change that first"));
                }
                if indexed(self, name) {
                    return refused(format!("column {name} is in an index (indexes); change that first"));
                }
            }
            ColumnChange::Widen { column } => {
                let clustered = cluster_columns(&self.params).iter().any(|clustered| clustered == name);
                if clustered && !is_cluster_type(column.data_type()) {
                    return refused(format!("rows cannot be clustered by column {name} as {}", column.data_type()));
                }
            }
            ColumnChange::Rename { to, .. } if to.is_empty() => return refused("a column's name is empty".into()),
            ColumnChange::Rename { to, .. } if to.contains(',') && lays_down(self, name) => {
                return refused(format!("rows are laid down by column {name}, whose name cannot have a comma"));
            }
            ColumnChange::Rename { to, .. } if to.contains([',', '(', ')']) && indexed(self, name) => {
                return refused(format!(
                    "column {name} is in an index, and its name cannot have a comma or parentheses"
                ));
            }
            ColumnChange::Add { .. } | ColumnChange::Rename { .. } => {}
        }
        change.apply(&self.schema.0).map_err(named)
    }

    /// The change that a commit of this id made.
    #[must_use]
    pub fn alteration(&self, write_id: WriteId) -> Option<&Alteration> {
        self.alterations.iter().find(|alteration| alteration.write_id == write_id)
    }

    /// The columns go by other names everywhere else too.
    fn rename_column(&mut self, name: &str, to: &str) {
        self.primary_key.iter_mut().filter(|column| *column == name).for_each(|column| to.clone_into(column));
        for option in [TIME_COLUMN, "cayenne_sort_columns", "sort_columns", "cayenne_cluster_by"] {
            if let Some(list) = self.params.get_mut(option) {
                let renamed = list.split(',').map(|column| if column.trim() == name { to } else { column.trim() });
                *list = renamed.collect::<Vec<_>>().join(",");
            }
        }
        let mut indexes = indexes(&self.params);
        if !indexes.is_empty() {
            indexes.iter_mut().flatten().filter(|column| *column == name).for_each(|column| to.clone_into(column));
            self.params.insert(INDEXES.to_owned(), index_list(&indexes));
        }
    }
}

fn indexed(table: &Table, name: &str) -> bool {
    indexes(&table.params).iter().flatten().any(|column| column == name)
}

fn lays_down(table: &Table, name: &str) -> bool {
    sort_columns(&table.params).iter().chain(&cluster_columns(&table.params)).any(|column| column == name)
}

impl ClusterState {
    /// Changes a column of a table whose columns have not been changed since `schema_version`.
    pub(super) fn alter_columns(
        &mut self,
        id: TableId,
        schema_version: u64,
        change: ColumnChange,
        write_id: WriteId,
        at_ms: u64,
    ) -> Applied {
        let table = self.existing_table(id)?;
        if table.alteration(write_id).is_some() {
            return Ok(Outcome::Done);
        }
        if table.schema_version != schema_version {
            return Err(Error::conflict(format!(
                "the columns of table {} were changed meanwhile; nothing was changed, try again",
                table.name
            )));
        }
        let schema = table.altered(&change)?;
        let Some(table) = self.tables.get_mut(&id).map(Arc::make_mut) else {
            return Err(Error::internal(format!("table with id {id} vanished while it was altered")));
        };
        let dropped = match &change {
            ColumnChange::Drop { name } => table.schema.0.index_of(name).ok(),
            _ => None,
        };
        let retyped = match &change {
            ColumnChange::Widen { column } => table.schema.0.index_of(column.name()).ok(),
            _ => None,
        };
        if let ColumnChange::Rename { name, to } = &change {
            table.rename_column(name, to);
        }
        for partition in table.partitions.values_mut() {
            if partition.version == 0 {
                partition.columns = empty_columns(&schema);
                continue;
            }
            if let Some(index) = dropped {
                partition.columns.remove(index);
            } else if let Some(column) = retyped.and_then(|index| partition.columns.get_mut(index)) {
                // The texts of another type may be others.
                *column = ColumnSummary { nulls: column.nulls, ..ColumnSummary::default() };
            } else if matches!(change, ColumnChange::Add { .. }) {
                partition.columns.push(ColumnSummary { nulls: Some(partition.rows), ..ColumnSummary::default() });
            }
            partition.version += 1;
            let (version, table_version) = (partition.version, table.version + 1);
            partition.remember(CommitRecord { version, write_id, table_version, at_ms });
        }
        table.version += 1;
        table.schema_version += 1;
        if table.alterations.len() >= KEEP_COMMITS {
            table.alterations.drain(..=table.alterations.len() - KEEP_COMMITS);
        }
        let before = std::mem::replace(&mut table.schema, Schema(schema));
        table.alterations.push(Alteration { version: table.version, write_id, change, before });
        table.columns = merged_columns(table);
        Ok(Outcome::Done)
    }

    /// Gives a table other parameters, as far as these may change, and a dataset the definition that they are from.
    pub(super) fn set_params(
        &mut self,
        id: TableId,
        schema_version: u64,
        params: BTreeMap<String, String>,
        definition: Option<String>,
    ) -> Applied {
        let table = self.existing_table(id)?;
        if table.schema_version != schema_version {
            return Err(Error::conflict(format!(
                "the columns of table {} were changed meanwhile; nothing was changed, try again",
                table.name
            )));
        }
        if let Some(fixed) = fixed_difference(&table.params, &params) {
            return Err(Error::unsupported(format!(
                "table {}: {fixed} is decided when the table is made; make it anew to change it",
                table.name
            )));
        }
        let Some(table) = self.tables.get_mut(&id).map(Arc::make_mut) else {
            return Err(Error::internal(format!("table with id {id} vanished while it was altered")));
        };
        if let (Some(dataset), Some(definition)) = (&mut table.dataset, definition) {
            dataset.definition = definition;
        }
        if table.params != params {
            table.params = params;
            table.params_version += 1;
        }
        Ok(Outcome::Done)
    }
}

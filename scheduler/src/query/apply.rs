//! Datasets: declared tables that mirror files. Applying a spec creates what is missing, loads what is new or changed,
//! and leaves the rest alone; applying it again changes nothing.
use std::sync::Arc;

use ancho_common::{
    error::{Error, Result},
    ids::TableId,
    spec::{ClusterSpec, DatasetSpec},
};
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::{
    catalog::TableProvider,
    datasource::provider_as_source,
    logical_expr::{LogicalPlan, LogicalPlanBuilder},
};
use serde_json::{Value, json};

use super::{alter, assigner::propose, attempt::Attempt, ddl, engine::QueryEngine, source, write::WriteKind};
use crate::{
    frontend::caller::Caller,
    state::{ClusterState, Command, Dataset, NewTable, Table, TableName, fixed_difference},
};

/// Applies specs through one engine.
#[derive(Debug)]
pub struct Applier<'a> {
    engine: &'a QueryEngine,
}

/// What becomes of one dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// It is new.
    Created,
    /// Its source or schedule changed, its columns and partitions did not: its rows are loaded anew.
    Refreshed,
    /// Only parameters changed that say how its rows are laid down and looked after: they are exchanged.
    Adjusted,
    /// Its columns or partitions changed: it is made anew.
    Replaced,
    /// Nothing is to be done.
    Unchanged,
}

impl Change {
    fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Refreshed => "refreshed",
            Self::Adjusted => "adjusted",
            Self::Replaced => "replaced",
            Self::Unchanged => "unchanged",
        }
    }
}

impl<'a> Applier<'a> {
    /// Through this engine.
    #[must_use]
    pub fn new(engine: &'a QueryEngine) -> Self {
        Self { engine }
    }

    pub(super) fn engine(&self) -> &'a QueryEngine {
        self.engine
    }

    /// Applies a YAML spec; the answer lists each dataset with what happened to it. One that cannot be loaded is listed
    /// as `failed`, with the error, and keeps no other from being applied.
    ///
    /// # Errors
    /// `Invalid` with every problem of the spec.
    pub async fn apply(&self, yaml: &str) -> Result<Value> {
        let spec = ClusterSpec::parse(yaml).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Error::invalid(format!("the spec cannot be applied: {}", lines.join("; ")))
        })?;
        if let Some(location) = &spec.snapshots {
            let state = self.engine.node().linearizable().await?;
            if state.snapshots.location.as_ref() != Some(location) {
                propose(self.engine.node(), Command::SetSnapshotLocation { location: location.clone() }).await?;
            }
        }
        let mut changes = Vec::new();
        for dataset in &spec.datasets {
            changes.push(self.dataset(dataset).await.unwrap_or_else(|error| failed(dataset, &error)));
        }
        Ok(json!({ "changes": changes }))
    }

    async fn dataset(&self, spec: &DatasetSpec) -> Result<Value> {
        if spec.source.is_published() {
            return self.mirror(spec).await;
        }
        let name = TableName::public(&spec.name);
        let source_schema =
            self.engine.attempts(|_, attempt| async move { Ok(listing(&attempt, spec).await?.schema()) }).await?;
        let schema = ddl::dataset_schema(&source_schema, &spec.acceleration.params)?;
        let state = self.engine.node().linearizable().await?;
        let former = state.table(&name);
        let change = decide(former, spec, &schema)?;
        let rows = match (change, former) {
            (Change::Unchanged, Some(table)) => table.rows(),
            (Change::Adjusted, Some(table)) => {
                self.adjust(table, spec, Some(spec.definition())).await?;
                table.rows()
            }
            (Change::Refreshed, Some(table)) => {
                self.adjust(table, spec, None).await?;
                self.load(spec, table.id).await?
            }
            _ => {
                let table = table_of(spec, name.clone(), schema, dataset_of(spec))?;
                self.create(table, former.map(|t| t.id), |id| self.load(spec, id)).await?
            }
        };
        Ok(done(spec, change.name(), rows))
    }

    /// Exchanges the parameters of a table, and with them the definition that they are from.
    pub(super) async fn adjust(&self, table: &Table, spec: &DatasetSpec, definition: Option<String>) -> Result<()> {
        if let Some(command) = alter::adjusted(table, spec.table_params(), definition)? {
            propose(self.engine.node(), command).await?;
        }
        Ok(())
    }

    /// Makes the table, beside the former one if there is one, whose place it takes when it is loaded.
    pub(super) async fn create<Fut>(
        &self,
        mut table: NewTable,
        former: Option<TableId>,
        load_rows: impl FnOnce(TableId) -> Fut,
    ) -> Result<u64>
    where
        Fut: Future<Output = Result<u64>>,
    {
        let name = table.name.clone();
        table.or_replace = former.is_some();
        let load = self.engine.begin_load(table).await?;
        let replaces = load.table(&self.engine.node().state())?.load.and_then(|l| l.replaces);
        if replaces.is_some_and(|id| Some(id) != former) {
            return Err(Error::conflict(format!(
                "table {name} was replaced by another statement meanwhile; nothing was changed, try again"
            )));
        }
        let id = load.id();
        load.run(load_rows(id)).await
    }

    /// Replaces the rows of the table by those of its source, in one commit.
    async fn load(&self, spec: &DatasetSpec, table: TableId) -> Result<u64> {
        let dataset = dataset_of(spec);
        let dataset = &dataset;
        self.engine
            .attempts(|state, attempt| async move {
                let attempt = attempt_for(attempt, spec)?;
                let table = loadable(&state, table)?;
                let source = listing(&attempt, spec).await?;
                let plan = matched(source, &table)?;
                let place = &spec.source.from;
                let (writer, caller) = (self.engine.writer(), Caller::default());
                let loaded = writer.write(&attempt, &state, &table, plan, WriteKind::Refresh(dataset), &caller).await;
                loaded.map_err(|e| e.context(&format!("loading {place}")))
            })
            .await
    }
}

/// What is told of a dataset.
pub(super) fn done(spec: &DatasetSpec, action: &str, rows: u64) -> Value {
    json!({
        "table": TableName::public(&spec.name).to_string(), "action": action, "detail": spec.source.from.to_string(),
        "rows": rows,
    })
}

/// The table of a dataset, to be made.
pub(super) fn table_of(spec: &DatasetSpec, name: TableName, schema: SchemaRef, dataset: Dataset) -> Result<NewTable> {
    let acceleration = &spec.acceleration;
    let (partition_by, key) = (acceleration.partition_by.clone(), acceleration.primary_key.clone());
    let table = ddl::new_table(name, schema, partition_by, key, spec.table_params())?;
    Ok(NewTable { dataset: Some(dataset), ..table })
}

fn failed(spec: &DatasetSpec, error: &Error) -> Value {
    json!({
        "table": TableName::public(&spec.name).to_string(), "action": "failed", "detail": error.message,
        "error": error.kind,
    })
}

pub(super) fn loadable(state: &ClusterState, table: TableId) -> Result<Arc<Table>> {
    state.tables.get(&table).cloned().ok_or_else(|| {
        Error::not_found("the table was dropped or replaced by another statement while it was loaded; apply it again")
    })
}

pub(super) fn dataset_of(spec: &DatasetSpec) -> Dataset {
    Dataset {
        definition: spec.definition(),
        from: spec.source.from.to_string(),
        refresh_mode: spec.acceleration.refresh_mode.clone(),
        refreshed_at_ms: None,
        served: None,
    }
}

/// The dataset that a table was made for.
pub(super) fn declared(table: &Table) -> Result<&Dataset> {
    table.dataset.as_ref().ok_or_else(|| {
        Error::already_exists(format!(
            "table {} was made by CREATE TABLE; drop it or name the dataset otherwise",
            table.name
        ))
    })
}

fn decide(former: Option<&Arc<Table>>, spec: &DatasetSpec, schema: &SchemaRef) -> Result<Change> {
    let Some(table) = former else { return Ok(Change::Created) };
    let dataset = declared(table)?;
    if table.load.is_some() {
        // Its load may be broken off, and is not ours to end: it is made anew beside it.
        return Ok(Change::Created);
    }
    let alike = is_made_for(table, spec, schema);
    Ok(match (dataset.definition == spec.definition(), alike) {
        // A source whose columns changed is loaded anew even if its declaration did not change.
        (true, true) if dataset.refreshed_at_ms.is_some() => Change::Unchanged,
        (false, true) if dataset.refreshed_at_ms.is_some() && only_params_differ(dataset, spec) => Change::Adjusted,
        (_, true) => Change::Refreshed,
        (_, false) => Change::Replaced,
    })
}

/// Whether a table is as it would be made for a dataset whose source has these columns.
pub(super) fn is_made_for(table: &Table, spec: &DatasetSpec, schema: &SchemaRef) -> bool {
    takes(&table.schema.0, schema)
        && table.partition_spec == spec.acceleration.partition_spec()
        && table.primary_key == spec.acceleration.primary_key
        && fixed_difference(&table.params, &spec.table_params()).is_none()
}

/// Whether a dataset was declared in the same way, its engine parameters aside.
fn only_params_differ(dataset: &Dataset, spec: &DatasetSpec) -> bool {
    DatasetSpec::from_definition(&dataset.definition).is_ok_and(|mut former| {
        former.acceleration.params.clone_from(&spec.acceleration.params);
        former.acceleration.snapshots.clone_from(&spec.acceleration.snapshots);
        former == *spec
    })
}

/// Whether a table of these columns can take rows with those: a NULL only where it takes one.
fn takes(table: &Schema, rows: &Schema) -> bool {
    table.fields().len() == rows.fields().len()
        && table.fields().iter().zip(rows.fields()).all(|(column, value)| {
            let same = column.as_ref().clone().with_nullable(value.is_nullable()) == **value;
            same && (column.is_nullable() || !value.is_nullable())
        })
}

/// An attempt whose tasks, on every executor, reach the dataset's bucket as the dataset says.
fn attempt_for(attempt: Attempt, spec: &DatasetSpec) -> Result<Attempt> {
    match &spec.source.s3 {
        None => Ok(attempt),
        Some(options) => attempt.reaching(options),
    }
}

/// The files of a dataset as a table.
async fn listing(attempt: &Attempt, spec: &DatasetSpec) -> Result<Arc<dyn TableProvider>> {
    match &spec.source.s3 {
        None => source::table(attempt.session(), &spec.source).await,
        Some(options) => source::table(attempt.reaching(options)?.session(), &spec.source).await,
    }
}

/// The source's columns in the table's order.
pub(super) fn matched(source: Arc<dyn TableProvider>, table: &Table) -> Result<LogicalPlan> {
    let columns: Vec<usize> = table
        .schema
        .0
        .fields()
        .iter()
        .map(|f| {
            source
                .schema()
                .index_of(f.name())
                .map_err(|_| Error::invalid(format!("the source of table {} has no column {}", table.name, f.name())))
        })
        .collect::<Result<_>>()?;
    Ok(LogicalPlanBuilder::scan("source", provider_as_source(source), Some(columns))?.build()?)
}

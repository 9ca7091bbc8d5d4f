//! Datasets: declared tables that mirror files. Applying a spec creates what is missing, loads what is new or changed,
//! and leaves the rest alone; applying it again changes nothing.
use std::sync::Arc;

use ancho_common::{
    error::{Error, ErrorKind, Result},
    spec::{
        ClusterSpec, DatasetSpec,
        source::{FileFormat as SourceFormat, Location, SourceSpec},
    },
};
use arrow::datatypes::SchemaRef;
use datafusion::{
    catalog::TableProvider,
    datasource::{
        file_format::{FileFormat, csv::CsvFormat, parquet::ParquetFormat},
        listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl},
        provider_as_source,
    },
    error::DataFusionError,
    execution::SessionState,
    logical_expr::{LogicalPlan, LogicalPlanBuilder},
    object_store::ObjectMeta,
};
use futures::TryStreamExt;
use serde_json::{Value, json};
use url::Url;

use super::{
    assigner::propose,
    attempt::Attempt,
    ddl,
    engine::{QueryEngine, existing},
    write::WriteKind,
};
use crate::{
    frontend::caller::Caller,
    planner::session,
    state::{ClusterState, Command, Dataset, Table, TableName},
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

    /// Applies a YAML spec; the answer lists each dataset with what happened to it.
    ///
    /// # Errors
    /// `Invalid` with every problem of the spec; otherwise the first dataset that could not be loaded, by name. The
    /// datasets before it stay applied.
    pub async fn apply(&self, yaml: &str) -> Result<Value> {
        let spec = ClusterSpec::parse(yaml).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Error::invalid(format!("the spec cannot be applied: {}", lines.join("; ")))
        })?;
        let mut changes = Vec::new();
        for dataset in &spec.datasets {
            let applied = self.dataset(dataset).await;
            changes.push(applied.map_err(|e| e.context(&format!("dataset {}", dataset.name)))?);
        }
        Ok(json!({ "changes": changes }))
    }

    async fn dataset(&self, spec: &DatasetSpec) -> Result<Value> {
        let name = TableName::public(&spec.name);
        let source_schema =
            self.engine.attempts(|_, attempt| async move { Ok(listing(&attempt, spec).await?.schema()) }).await?;
        let schema = ddl::source_schema(&source_schema);
        let state = self.engine.node().linearizable().await?;
        let change = decide(&state, &name, spec, &schema)?;
        let rows = match change {
            Change::Unchanged => existing(&state, &name)?.rows(),
            Change::Created | Change::Replaced => self.create(spec, &name, schema, change).await?,
            Change::Refreshed => {
                let rows = self.load(spec, &name).await?;
                let table = existing(&state, &name)?;
                let dataset = dataset_of(spec);
                propose(self.engine.node(), Command::AlterDataset { table: table.id, dataset }).await?;
                rows
            }
        };
        Ok(
            json!({"table": name.to_string(), "action": change.name(), "detail": spec.source.from.to_string(), "rows": rows}),
        )
    }

    async fn create(&self, spec: &DatasetSpec, name: &TableName, schema: SchemaRef, change: Change) -> Result<u64> {
        let acceleration = &spec.acceleration;
        let mut table = ddl::new_table(
            name.clone(),
            schema,
            acceleration.partition_by.clone(),
            acceleration.primary_key.clone(),
            acceleration.params.clone(),
        )?;
        table.or_replace = change == Change::Replaced;
        table.dataset = Some(dataset_of(spec));
        table.loading = true;
        propose(self.engine.node(), Command::CreateTable(Box::new(table))).await?;
        let loaded = self.load(spec, name).await;
        if let Err(error) = &loaded
            && error.kind != ErrorKind::Unknown
        {
            // A dataset that never loaded must not answer queries as if it were empty.
            propose(self.engine.node(), ddl::drop_command(name)).await?;
        }
        loaded
    }

    /// Replaces the rows of the table by those of its source, in one commit.
    async fn load(&self, spec: &DatasetSpec, name: &TableName) -> Result<u64> {
        self.engine
            .attempts(|state, attempt| async move {
                let attempt = attempt_for(attempt, spec)?;
                let table = existing(&state, name)?;
                let source = listing(&attempt, spec).await?;
                let plan = matched(source, &table)?;
                let place = &spec.source.from;
                let (writer, caller) = (self.engine.writer(), Caller::default());
                let loaded = writer.write(&attempt, &state, &table, plan, WriteKind::Refresh, &caller).await;
                loaded.map_err(|e| e.context(&format!("loading {place}")))
            })
            .await
    }
}

fn dataset_of(spec: &DatasetSpec) -> Dataset {
    Dataset {
        definition: spec.definition(),
        from: spec.source.from.to_string(),
        refresh_mode: spec.acceleration.refresh_mode.clone(),
        refreshed_at_ms: None,
    }
}

fn decide(state: &ClusterState, name: &TableName, spec: &DatasetSpec, schema: &SchemaRef) -> Result<Change> {
    let Some(table) = state.table(name) else { return Ok(Change::Created) };
    let Some(dataset) = &table.dataset else {
        return Err(Error::already_exists(format!(
            "table {name} was made by CREATE TABLE; drop it or name the dataset otherwise"
        )));
    };
    let alike = table.schema.0 == *schema
        && table.partition_spec == spec.acceleration.partition_spec()
        && table.primary_key == spec.acceleration.primary_key
        && table.params == spec.acceleration.params;
    Ok(match (dataset.definition == spec.definition(), alike) {
        // A source whose columns changed is loaded anew even if its declaration did not change.
        (true, true) if dataset.refreshed_at_ms.is_some() => Change::Unchanged,
        (_, true) => Change::Refreshed,
        (_, false) => Change::Replaced,
    })
}

/// An attempt whose tasks, on every executor, reach the dataset's bucket as the dataset says.
fn attempt_for(attempt: Attempt, spec: &DatasetSpec) -> Result<Attempt> {
    match &spec.source.s3 {
        None => Ok(attempt),
        Some(options) => Ok(Attempt::new(session::with_s3(attempt.session(), options)?)),
    }
}

/// The files of a dataset as a table.
async fn listing(attempt: &Attempt, spec: &DatasetSpec) -> Result<Arc<dyn TableProvider>> {
    let session = match &spec.source.s3 {
        None => attempt.session().clone(),
        Some(options) => session::with_s3(attempt.session(), options)?,
    };
    let place = spec.source.from.to_string();
    let url = listing_url(&spec.source.from)?;
    let options = listing_options(&spec.source);
    let unreadable = |e: DataFusionError| Error::from(e).context(&format!("{place} cannot be read"));
    let files = files(&session, &url, &options).await.map_err(unreadable)?;
    // A typing error in a path must not load as an empty table.
    if files.is_empty() {
        return Err(Error::not_found(format!(
            "{place} holds no file ending in `{}`; check the path, and end a folder with `/`",
            options.file_extension
        )));
    }
    let config = ListingTableConfig::new(url.clone()).with_listing_options(options.clone());
    match config.infer_schema(&session).await {
        Ok(config) => Ok(Arc::new(ListingTable::try_new(config)?)),
        Err(error) => Err(unreadable_file(&session, &url, &options, &files, &place, error).await),
    }
}

/// The files of a place.
async fn files(
    session: &SessionState,
    url: &ListingTableUrl,
    options: &ListingOptions,
) -> Result<Vec<ObjectMeta>, DataFusionError> {
    let store = datafusion::catalog::Session::runtime_env(session).object_store(url.object_store())?;
    url.list_all_files(session, store.as_ref(), &options.file_extension).await?.try_collect().await
}

/// Names the first file whose columns cannot be told; if there is none, the files do not go together.
async fn unreadable_file(
    session: &SessionState,
    url: &ListingTableUrl,
    options: &ListingOptions,
    files: &[ObjectMeta],
    place: &str,
    together: DataFusionError,
) -> Error {
    let Ok(store) = datafusion::catalog::Session::runtime_env(session).object_store(url.object_store()) else {
        return together.into();
    };
    for file in files {
        if let Err(error) = options.format.infer_schema(session, &store, std::slice::from_ref(file)).await {
            // Without its root, as the stores keep it.
            let file = format!("/{}", file.location);
            return Error::from(error)
                .context(&format!("file {file} of {place} is no readable {}", extension(options)));
        }
    }
    Error::from(together).context(&format!("the files of {place} do not go together"))
}

fn extension(options: &ListingOptions) -> String {
    options.format.get_ext().trim_start_matches('.').to_uppercase()
}

/// The place, its glob apart: the library reads globs in local paths only.
fn listing_url(from: &Location) -> Result<ListingTableUrl> {
    let (bucket, key) = match from {
        Location::File(path) => return Ok(ListingTableUrl::parse(path)?),
        Location::S3 { bucket, key } => (bucket, key),
    };
    let folder = match key.find(['*', '?', '[']) {
        Some(glob) => key[..glob].rfind('/').map_or(0, |slash| slash + 1),
        None => key.len(),
    };
    let (prefix, pattern) = key.split_at(folder);
    let url = Url::parse(&format!("s3://{bucket}/{prefix}")).map_err(|e| Error::invalid(format!("{from}: {e}")))?;
    let url = ListingTableUrl::try_new(url, None)?;
    Ok(if pattern.is_empty() { url } else { url.with_glob(pattern)? })
}

fn listing_options(source: &SourceSpec) -> ListingOptions {
    let (format, extension): (Arc<dyn FileFormat>, &str) = match &source.format {
        SourceFormat::Parquet => (Arc::new(ParquetFormat::default().with_enable_pruning(true)), ".parquet"),
        SourceFormat::Csv(csv) => {
            let byte = |c: char| u8::try_from(c).unwrap_or(b',');
            let format = CsvFormat::default()
                .with_has_header(csv.has_header)
                .with_delimiter(byte(csv.delimiter))
                .with_quote(byte(csv.quote))
                .with_escape(csv.escape.map(byte))
                .with_comment(csv.comment.map(byte))
                .with_schema_infer_max_rec(csv.schema_infer_max_records);
            (Arc::new(format), ".csv")
        }
    };
    // A single named file counts whatever its ending is.
    let text = source.from.to_string();
    let last = text.rsplit('/').next().unwrap_or_default();
    let extension =
        if last.is_empty() || last.ends_with(extension) || last.contains(['*', '?', '[']) { extension } else { "" };
    ListingOptions::new(format).with_file_extension(extension)
}

/// The source's columns in the table's order.
fn matched(source: Arc<dyn TableProvider>, table: &Table) -> Result<LogicalPlan> {
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

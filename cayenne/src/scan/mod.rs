//! Reading pinned versions as a DataFusion plan.
//!
//! The plan is `DataSourceExec` over the files that survive pruning, with a `FilterExec` above it for
//! predicates that the file format would not evaluate exactly as DataFusion does:
//!
//! * [`prune`]: files whose statistics exclude every row are dropped before anything is opened;
//! * [`split`]: the rest is cut into streams of about equal row counts;
//! * [`convert`]: decides which predicates run inside the file scan, and keeps the others out;
//! * [`evolve`]: reads files of older schemas as if they had today's columns, [`mixed`] partitions that store them differently;
//! * [`reader`]: reads bytes from the partition directory, holding the pin, and leaves deleted rows out;
//! * [`row_ids`]: names the rows, for those who want to delete some;
//! * [`source`]: the file source that shows all of this in `EXPLAIN`.

pub(crate) mod convert;
pub(crate) mod evolve;
pub(crate) mod mixed;
pub(crate) mod prune;
pub(crate) mod reader;
pub(crate) mod row_ids;
pub(crate) mod source;
pub(crate) mod split;

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, internal_datafusion_err};
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema;
use datafusion::error::Result as DFResult;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::projection::{ProjectionExpr, ProjectionExprs};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{
    DynamicFilterTracking, EquivalenceProperties, PhysicalExpr, PhysicalSortExpr, conjunction, split_conjunction,
};
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::filter_pushdown::PushedDown;
use datafusion::physical_plan::metrics::MetricBuilder;
use datafusion::physical_plan::{ExecutionPlan, Partitioning, SortOrderPushdownResult};
use uuid::Uuid;
use vortex_datafusion::VortexSource;

use crate::error::{Error, Result};
use crate::keyed::lookup::{self, KeyFacts};
use crate::lookup_index::narrow::narrow;
use crate::pin::PinnedVersion;
use crate::row_id::{FILE_COLUMN, ROW_COLUMN};
use crate::schema::TableSchema;
use crate::session::read_session;
use crate::stats::DataSummary;
use convert::ExactConverter;
use evolve::{FileAdapters, over_files, under_table_names};
use reader::{LocalReaderFactory, PinnedFile};
use source::{CayenneSource, Pruning, Stored};

/// What to read.
#[derive(Debug, Clone)]
pub struct ScanRequest {
    /// Columns of the table's schema to return, in this order; `None` for all.
    pub projection: Option<Vec<usize>>,
    /// Conditions, bound to the *whole* table schema (not to the projected one). Exactly the rows are returned that
    /// satisfy all of them. A [`DynamicFilterPhysicalExpr`] at the top of a predicate is different: it is used to skip
    /// what can be skipped cheaply, and rows that it excludes may still be returned.
    pub predicates: Vec<Arc<dyn PhysicalExpr>>,
    /// Return at least this many rows (per stream), or all there are. More may come.
    pub limit: Option<usize>,
    /// Number of output streams, at least 1. A file may be cut over several; surplus streams are empty.
    pub streams: usize,
    /// Return two more columns after those of the projection, [`FILE_COLUMN`] and [`ROW_COLUMN`]. Together they name
    /// a row, as [`StagedWriter::delete_rows`](crate::StagedWriter::delete_rows) wants it.
    pub row_ids: bool,
    /// Return the rows of each stream in the order in which they are stored, which costs some concurrency.
    pub in_order: bool,
    /// Read only these data files of the pinned versions; `None` for all.
    pub files: Option<Arc<HashSet<Uuid>>>,
}

impl Default for ScanRequest {
    fn default() -> Self {
        Self {
            projection: None,
            predicates: Vec::new(),
            limit: None,
            streams: 1,
            row_ids: false,
            in_order: false,
            files: None,
        }
    }
}

/// A plan that reads the pinned versions, which must share one schema. It has exactly `request.streams` output
/// partitions; which rows come out of which is fixed with the plan, and each may be executed again. Its schema is the
/// declared one with the projection applied. The plan keeps the pins.
///
/// # Errors
/// [`Error::NoPartition`], [`Error::MixedSchemas`], and DataFusion's for predicates that do not fit the schema.
pub fn scan(pins: &[PinnedVersion], request: &ScanRequest) -> Result<Arc<dyn ExecutionPlan>> {
    let groups = mixed::by_stored_names(pins);
    if groups.len() > 1 {
        common_columns(pins)?;
        return mixed::scan_groups(&groups, request);
    }
    let table = common_schema(pins)?;
    let first = pins.first().ok_or(Error::NoPartition)?;
    let (files, key) = wanted_files(pins, request)?;
    let total = pins.iter().map(|pin| pin.files().len()).sum();
    scan_narrowed(first, &table, files, key, total, request)
}

/// As [`scan`], of certain files out of `total`. They need not be visible in a version.
pub(crate) fn scan_files(
    pin: &PinnedVersion,
    table: &TableSchema,
    files: Vec<PinnedFile>,
    total: usize,
    request: &ScanRequest,
) -> Result<Arc<dyn ExecutionPlan>> {
    scan_narrowed(pin, table, files, None, total, request)
}

/// As [`scan_files`], of files that the index of keys may have left.
fn scan_narrowed(
    pin: &PinnedVersion,
    table: &TableSchema,
    files: Vec<PinnedFile>,
    key: Option<KeyFacts>,
    total: usize,
    request: &ScanRequest,
) -> Result<Arc<dyn ExecutionPlan>> {
    let predicates = Predicates::split(&request.predicates);
    let keep = prune::prune(&files, &predicates.exact, &table.logical)?;
    let stored = stored(&files, &keep);
    let files: Vec<PinnedFile> = files.into_iter().zip(keep).filter_map(|(file, keep)| keep.then_some(file)).collect();
    let by_key: Option<u64> = files.iter().map(PinnedFile::selected_rows).sum();
    let (files, lookup) = narrow(files, &predicates.exact, table)?;
    let rows_by_key = by_key.filter(|rows| *rows > 0);
    let pruning = Pruning { total, pruned: total - files.len(), rows_by_key, key, stored, lookup };
    // Rows that are missing here would make a wrong answer about the table.
    let partial = pruning.pruned > 0 || files.iter().any(|file| file.selected_rows().is_some());

    let cache = pin.inner().options.cache.footers();
    let vortex = VortexSource::new(table_schema(&table.stored, request.row_ids), read_session().clone())
        .with_expression_converter(Arc::new(ExactConverter::new(read_session())))
        .with_file_metadata_cache(cache);
    let bytes_read = MetricBuilder::new(vortex.metrics()).global_counter("bytes_read");
    let reads = MetricBuilder::new(vortex.metrics()).global_counter("reads");
    let vortex = vortex.with_vortex_reader_factory(Arc::new(LocalReaderFactory { bytes_read, reads }));
    let vortex: Arc<dyn FileSource> = Arc::new(vortex);
    let vortex = if request.in_order { in_order(&vortex)? } else { vortex };
    let source: Arc<dyn FileSource> = Arc::new(CayenneSource::new(vortex, pruning));
    let (source, residual) = push_predicates(source, &predicates, table)?;

    let mut read: Vec<usize> = match &request.projection {
        Some(projection) => projection.clone(),
        None => (0..table.columns()).collect(),
    };
    let wanted = read.len();
    let mut exprs = ProjectionExprs::from_indices(&read, source.table_schema().table_schema()).as_ref().to_vec();
    let extra: Vec<usize> = match &residual {
        Some(residual) => {
            let mut extra: Vec<usize> = collect_columns(residual).iter().map(|column| column.index()).collect();
            extra.retain(|index| !read.contains(index));
            extra.sort_unstable();
            extra
        }
        None => Vec::new(),
    };
    exprs.extend_from_slice(ProjectionExprs::from_indices(&extra, source.table_schema().table_schema()).as_ref());
    read.extend(extra);
    // What is returned: the columns asked for and the row's name, without those that only the predicate needs.
    let mut returned: Vec<usize> = (0..wanted).collect();
    if request.row_ids {
        returned.extend([read.len(), read.len() + 1]);
        exprs.extend(row_id_exprs(table.columns()));
    }

    let streams = request.streams.max(1);
    let mut summary = DataSummary::empty(table.columns());
    files.iter().for_each(|file| summary.merge_without(file.entry.summary(), file.entry.deleted_rows()));
    let mut statistics = summary.statistics();
    if request.row_ids {
        statistics.column_statistics.push(ColumnStatistics::new_unknown());
    }
    if partial {
        statistics = statistics.to_inexact();
    }
    statistics.total_byte_size = Precision::Absent;
    if residual.is_some() {
        // The filter above reckons with bounds, which nobody needs here, and fails where a condition widens them
        // (`ts >= CAST(ts AS DATE)`).
        statistics.column_statistics.fill(ColumnStatistics::new_unknown());
    }
    let source = source.try_pushdown_projection(&ProjectionExprs::new(exprs.clone()))?.unwrap_or(source);
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
        .with_file_groups(file_groups(&files, streams, request.row_ids)?)
        .with_statistics(statistics)
        .with_limit(if residual.is_none() { request.limit } else { None })
        // Declared, so that DataFusion neither cuts the files again nor lets one stream take files of another:
        // a stream must give the same rows whenever it is executed.
        .with_output_partitioning(Some(Partitioning::UnknownPartitioning(streams)))
        .with_expr_adapter(Some(Arc::new(FileAdapters { defaults: table.defaults.clone() })))
        .build();
    let plan = under_table_names(DataSourceExec::from_data_source(config), &read, table)?;
    match residual {
        None => Ok(plan),
        Some(residual) => {
            let residual = reassign_expr_columns(residual, &plan.schema())?;
            let projection = (exprs.len() > returned.len()).then_some(returned);
            let filter = FilterExecBuilder::new(residual, plan)
                .apply_projection(projection)?
                .with_fetch(request.limit)
                .build()?;
            Ok(Arc::new(filter))
        }
    }
}

/// What files hold, by whether they are kept.
fn stored(files: &[PinnedFile], keep: &[bool]) -> Stored {
    let mut stored = Stored::default();
    for (file, keep) in files.iter().zip(keep) {
        let summary = &file.entry.file.summary;
        stored.rows += summary.rows;
        if *keep {
            stored.rows_deleted += file.entry.deleted_rows();
            stored.bytes += summary.bytes;
        } else {
            stored.rows_pruned += summary.rows;
        }
    }
    stored
}

/// Vortex gives rows in their order if it is asked for a sort order that the files are said to have; which one does not matter.
fn in_order(source: &Arc<dyn FileSource>) -> Result<Arc<dyn FileSource>> {
    let schema = Arc::clone(source.table_schema().table_schema());
    let first: Arc<dyn PhysicalExpr> = Arc::new(Column::new(schema.field(0).name(), 0));
    let order = vec![PhysicalSortExpr::new_default(first)];
    let properties = EquivalenceProperties::new_with_orderings(schema, [order.clone()]);
    match source.try_pushdown_sort(&order, &properties)? {
        SortOrderPushdownResult::Exact { inner } => Ok(inner),
        SortOrderPushdownResult::Inexact { .. } | SortOrderPushdownResult::Unsupported => {
            Err(Error::DataFusion(internal_datafusion_err!("the file format gives rows in no order")))
        }
    }
}

/// The columns of all pins, which store them under the same names.
fn common_schema(pins: &[PinnedVersion]) -> Result<Arc<TableSchema>> {
    let mut common = common_columns(pins)?.as_ref().clone();
    for pin in pins {
        // A partition that was created with the column has no value for its absence.
        let defaults = &pin.view().schema.defaults;
        common.defaults.extend(defaults.iter().map(|(name, value)| (name.clone(), value.clone())));
    }
    Ok(Arc::new(common))
}

fn common_columns(pins: &[PinnedVersion]) -> Result<&Arc<TableSchema>> {
    let first = &pins.first().ok_or(Error::NoPartition)?.view().schema;
    match pins.iter().find(|pin| pin.view().schema.logical != first.logical) {
        None => Ok(first),
        Some(other) => Err(Error::MixedSchemas { place: Arc::clone(&other.inner().place) }),
    }
}

/// The files of a scan, or rows of them where the conditions fix the primary key; and what its index did.
fn wanted_files(pins: &[PinnedVersion], request: &ScanRequest) -> Result<(Vec<PinnedFile>, Option<KeyFacts>)> {
    let only = request.files.as_deref();
    let (mut files, mut key) = (Vec::new(), None::<KeyFacts>);
    for pin in pins {
        let by_key = if only.is_none() { lookup::narrow(pin, &request.predicates)? } else { None };
        let narrowed = by_key.and_then(|(files, facts)| {
            key.get_or_insert_default().add(facts);
            files
        });
        match narrowed {
            Some(narrowed) => files.extend(narrowed),
            None => {
                let wanted = pin.files().iter().filter(|entry| only.is_none_or(|only| only.contains(&entry.file.id)));
                files.extend(wanted.map(|entry| PinnedFile::new(pin, entry)));
            }
        }
    }
    Ok((files, key))
}

fn table_schema(schema: &SchemaRef, row_ids: bool) -> table_schema::TableSchema {
    let builder = table_schema::TableSchema::builder(Arc::clone(schema));
    if !row_ids {
        return builder.build();
    }
    builder.with_table_partition_cols(vec![Arc::new(Field::new(FILE_COLUMN, DataType::Utf8View, false))]).build()
}

fn row_id_exprs(columns: usize) -> [ProjectionExpr; 2] {
    let file: Arc<dyn PhysicalExpr> = Arc::new(Column::new(FILE_COLUMN, columns));
    let row: Arc<dyn PhysicalExpr> = Arc::new(row_ids::RowPosition);
    [
        ProjectionExpr { expr: file, alias: FILE_COLUMN.to_owned() },
        ProjectionExpr { expr: row, alias: ROW_COLUMN.to_owned() },
    ]
}

/// The conjuncts of a request, by how binding they are.
struct Predicates {
    /// Rows that fail one of these must not come out.
    exact: Vec<Arc<dyn PhysicalExpr>>,
    /// These only help to skip.
    hints: Vec<Arc<dyn PhysicalExpr>>,
}

impl Predicates {
    fn split(predicates: &[Arc<dyn PhysicalExpr>]) -> Self {
        let parts = predicates.iter().flat_map(split_conjunction).cloned();
        let (hints, exact) = parts.partition(|part| part.downcast_ref::<DynamicFilterPhysicalExpr>().is_some());
        Self { exact, hints }
    }
}

/// Gives the source what it evaluates exactly, and returns the rest as one predicate.
fn push_predicates(
    source: Arc<dyn FileSource>,
    predicates: &Predicates,
    table: &TableSchema,
) -> Result<(Arc<dyn FileSource>, Option<Arc<dyn PhysicalExpr>>)> {
    let config = ConfigOptions::default();
    let mut source = source;
    let mut residual = Vec::new();
    if !predicates.exact.is_empty() {
        let (pushable, rest): (Vec<_>, Vec<_>) = predicates
            .exact
            .iter()
            .cloned()
            .partition(|predicate| !DynamicFilterTracking::classify(predicate).contains_dynamic_filter());
        let over_files = pushable.iter().map(|part| over_files(part, table)).collect::<DFResult<Vec<_>>>()?;
        let pushed = source.try_pushdown_filters(over_files, &config)?;
        if let Some(updated) = pushed.updated_node {
            source = updated;
        }
        residual.extend(
            pushable
                .into_iter()
                .zip(pushed.filters)
                .filter_map(|(predicate, outcome)| matches!(outcome, PushedDown::No).then_some(predicate)),
        );
        residual.extend(rest);
    }
    if !predicates.hints.is_empty() {
        let over_files = predicates.hints.iter().map(|part| over_files(part, table)).collect::<DFResult<Vec<_>>>()?;
        let pushed = source.try_pushdown_filters(over_files, &config)?;
        if let Some(updated) = pushed.updated_node {
            source = updated;
        }
    }
    let residual = (!residual.is_empty()).then(|| conjunction(residual));
    Ok((source, residual))
}

fn file_groups(files: &[PinnedFile], streams: usize, row_ids: bool) -> Result<Vec<FileGroup>> {
    let sizes: Vec<split::FileSize> = files
        .iter()
        .map(|file| {
            let stored = &file.entry.file.summary;
            // Rows that are known by their positions are few: not worth cutting a file for.
            split::FileSize { rows: file.selected_rows().unwrap_or(stored.rows), bytes: stored.bytes }
        })
        .collect();
    let whole = files.iter().map(|file| file.partitioned_file(row_ids)).collect::<Result<Vec<PartitionedFile>>>()?;
    let cut = |piece: split::Piece| {
        let file = whole[piece.file].clone();
        match piece.range {
            Some((start, end)) => file.with_range(start, end),
            None => file,
        }
    };
    let groups = split::split(&sizes, streams).into_iter();
    Ok(groups.map(|pieces| FileGroup::new(pieces.into_iter().map(cut).collect())).collect())
}

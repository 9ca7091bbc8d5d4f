//! Reading pinned versions as a DataFusion plan.
//!
//! The plan is `DataSourceExec` over the files that survive pruning, with a `FilterExec` above it for
//! predicates that the file format would not evaluate exactly as DataFusion does:
//!
//! * [`prune`]: files whose statistics exclude every row are dropped before anything is opened;
//! * [`split`]: the rest is cut into streams of about equal row counts;
//! * [`convert`]: decides which predicates run inside the file scan, and keeps the others out;
//! * [`reader`]: reads bytes from the partition directory, holding the pin;
//! * [`source`]: the file source that shows all of this in `EXPLAIN`.

pub(crate) mod convert;
pub(crate) mod prune;
pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod split;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::ColumnStatistics;
use datafusion::common::stats::Precision;
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, FileSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::filter_pushdown::PushedDown;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use vortex_datafusion::VortexSource;

use crate::error::{Error, Result};
use crate::pin::PinnedVersion;
use crate::session::read_session;
use crate::stats::DataSummary;
use convert::ExactConverter;
use reader::{LocalReaderFactory, PinnedFile};
use source::{CayenneSource, Pruning};

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
}

impl Default for ScanRequest {
    fn default() -> Self {
        Self { projection: None, predicates: Vec::new(), limit: None, streams: 1 }
    }
}

/// A plan that reads the pinned versions, which must share one schema. It has exactly `request.streams` output
/// partitions; which rows come out of which is fixed with the plan, and each may be executed again. Its schema is the
/// declared one with the projection applied. The plan keeps the pins.
///
/// # Errors
/// [`Error::NoPartition`], [`Error::MixedSchemas`], and DataFusion's for predicates that do not fit the schema.
pub fn scan(pins: &[PinnedVersion], request: &ScanRequest) -> Result<Arc<dyn ExecutionPlan>> {
    let schema = common_schema(pins)?;
    let predicates = Predicates::split(&request.predicates);
    let files = all_files(pins);
    let keep = prune::prune(&files, &predicates.exact, &schema)?;
    let pruning = Pruning { total: files.len(), pruned: keep.iter().filter(|keep| !**keep).count() };
    let files: Vec<PinnedFile> = files.into_iter().zip(keep).filter_map(|(file, keep)| keep.then_some(file)).collect();

    let cache = pins.first().ok_or(Error::NoPartition)?.inner().options.cache.footers();
    let vortex = VortexSource::new(TableSchema::from(Arc::clone(&schema)), read_session().clone())
        .with_expression_converter(Arc::new(ExactConverter::new(read_session())))
        .with_vortex_reader_factory(Arc::new(LocalReaderFactory))
        .with_file_metadata_cache(cache);
    let source: Arc<dyn FileSource> = Arc::new(CayenneSource::new(Arc::new(vortex), pruning));
    let (source, residual) = push_predicates(source, &predicates)?;

    let wanted: Vec<usize> = match &request.projection {
        Some(projection) => projection.clone(),
        None => (0..schema.fields().len()).collect(),
    };
    let mut read = wanted.clone();
    if let Some(residual) = &residual {
        let mut extra: Vec<usize> = collect_columns(residual).iter().map(|column| column.index()).collect();
        extra.retain(|index| !wanted.contains(index));
        extra.sort_unstable();
        read.extend(extra);
    }

    let streams = request.streams.max(1);
    let mut summary = DataSummary::empty(schema.fields().len());
    files.iter().for_each(|file| summary.merge(&file.file.summary));
    let mut statistics = summary.statistics();
    if pruning.pruned > 0 {
        // The rows of pruned files are missing here; as an answer about the table this would be wrong.
        statistics = statistics.to_inexact();
    }
    statistics.total_byte_size = Precision::Absent;
    if residual.is_some() {
        // The filter above reckons with bounds, which nobody needs here, and fails where a condition widens them
        // (`ts >= CAST(ts AS DATE)`).
        statistics.column_statistics.fill(ColumnStatistics::new_unknown());
    }
    let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
        .with_file_groups(file_groups(&files, streams))
        .with_statistics(statistics)
        .with_limit(if residual.is_none() { request.limit } else { None })
        // Declared, so that DataFusion neither cuts the files again nor lets one stream take files of another:
        // a stream must give the same rows whenever it is executed.
        .with_output_partitioning(Some(Partitioning::UnknownPartitioning(streams)))
        .with_projection_indices(Some(read.clone()))?
        .build();
    let plan: Arc<dyn ExecutionPlan> = DataSourceExec::from_data_source(config);
    match residual {
        None => Ok(plan),
        Some(residual) => {
            let residual = reassign_expr_columns(residual, &plan.schema())?;
            let projection = (read.len() > wanted.len()).then(|| (0..wanted.len()).collect());
            let filter = FilterExecBuilder::new(residual, plan)
                .apply_projection(projection)?
                .with_fetch(request.limit)
                .build()?;
            Ok(Arc::new(filter))
        }
    }
}

fn common_schema(pins: &[PinnedVersion]) -> Result<SchemaRef> {
    let first = pins.first().ok_or(Error::NoPartition)?;
    let schema = &first.inner().schema;
    match pins.iter().find(|pin| pin.inner().schema != *schema) {
        None => Ok(Arc::clone(schema)),
        Some(other) => Err(Error::MixedSchemas { place: Arc::clone(&other.inner().place) }),
    }
}

fn all_files(pins: &[PinnedVersion]) -> Vec<PinnedFile> {
    pins.iter()
        .flat_map(|pin| pin.files().iter().map(|file| PinnedFile { pin: pin.clone(), file: Arc::clone(file) }))
        .collect()
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
        let pushed = source.try_pushdown_filters(pushable.clone(), &config)?;
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
        let pushed = source.try_pushdown_filters(predicates.hints.clone(), &config)?;
        if let Some(updated) = pushed.updated_node {
            source = updated;
        }
    }
    let residual = (!residual.is_empty()).then(|| conjunction(residual));
    Ok((source, residual))
}

fn file_groups(files: &[PinnedFile], streams: usize) -> Vec<FileGroup> {
    let sizes: Vec<split::FileSize> = files
        .iter()
        .map(|file| split::FileSize { rows: file.file.summary.rows, bytes: file.file.summary.bytes })
        .collect();
    split::split(&sizes, streams)
        .into_iter()
        .map(|pieces| {
            let pieces = pieces
                .into_iter()
                .map(|piece| {
                    let file: PartitionedFile = files[piece.file].partitioned_file();
                    match piece.range {
                        Some((start, end)) => file.with_range(start, end),
                        None => file,
                    }
                })
                .collect();
            FileGroup::new(pieces)
        })
        .collect()
}

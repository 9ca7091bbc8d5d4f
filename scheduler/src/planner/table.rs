//! A table of the replicated state, as the query engine sees it.
use std::{future::ready, pin::Pin, sync::Arc};

use ancho_common::{
    error::Error,
    partition::{PartitionKey, key},
    plan::{
        row_ids,
        scan::{BucketLayout, CayenneScanExec, ScanSource, estimated_width},
    },
};
use arrow::datatypes::{DataType, SchemaRef};
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{ColumnStatistics, Constraints, ScalarValue, Statistics, stats::Precision},
    datasource::{TableProvider, TableType},
    error::{DataFusionError, Result},
    logical_expr::{Expr, TableProviderFilterPushDown},
    physical_plan::ExecutionPlan,
};

use super::{gather::GatherExec, topology::Topology};
use crate::state::{Awaited, ColumnSummary, Partition, Table, TableName};

/// Schema and statistics come from the state; scans go to the owners of the partitions that a filter leaves.
#[derive(Debug)]
pub struct AnchoTable {
    table: Arc<Table>,
    /// The table's columns, or these and the names of its rows.
    schema: SchemaRef,
    constraints: Constraints,
}

impl AnchoTable {
    /// For one version of a table's metadata.
    #[must_use]
    pub fn new(table: Arc<Table>) -> Self {
        // With conflict detection off keys repeat, so the optimizer must not build on a declared key.
        let constraints = Constraints::default();
        Self { schema: Arc::clone(&table.schema.0), table, constraints }
    }

    /// The same, its rows named in columns behind those of the table.
    #[must_use]
    pub fn with_row_ids(table: Arc<Table>) -> Self {
        Self { schema: row_ids::with_row_ids(&table.schema.0), ..Self::new(table) }
    }

    /// Estimates, hidden columns included.
    fn estimates(&self, partitions: &[&Partition]) -> Statistics {
        let mut statistics = statistics(&self.table, partitions);
        statistics.column_statistics.resize(self.schema.fields().len(), ColumnStatistics::new_unknown());
        statistics
    }

    /// The metadata.
    #[must_use]
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The source of a scan of the partitions that may hold rows for `filters`.
    fn source(&self, topology: &Topology, filters: &[Expr]) -> ancho_common::error::Result<ScanSource> {
        let partitioner = topology.partitioners.of(&self.table)?;
        let all: Vec<&Partition> = self.table.partitions.values().collect();
        let keys: Vec<PartitionKey> = all.iter().map(|p| p.key.clone()).collect();
        let keep = partitioner.may_match(filters, &keys)?;
        let kept: Vec<&Partition> = all.iter().zip(keep).filter(|(_, keep)| *keep).map(|(p, _)| *p).collect();
        let partitions = kept
            .iter()
            // An empty partition needs no owner: it has no rows to read.
            .filter(|p| p.version > 0 || topology.staged.contains_key(&p.id))
            .map(|p| topology.place(&self.table, p))
            .collect::<ancho_common::error::Result<_>>()?;
        let layout = partitioner.single_bucket().map(|(buckets, column)| BucketLayout {
            buckets,
            hash_version: self.table.partition_spec.hash_version,
            column,
        });
        let mut estimates = self.estimates(&kept);
        if !topology.bounds {
            estimates.column_statistics.fill(ColumnStatistics::new_unknown());
        }
        Ok(ScanSource {
            table_id: self.table.id,
            table: self.table.name.to_string(),
            schema: Arc::clone(&self.schema),
            partitions,
            total_partitions: all.len(),
            layout,
            statistics: estimates,
        })
    }
}

/// A table whose first rows are on their way.
#[must_use]
pub fn still_loading(table: &Table) -> Error {
    Error::unavailable(format!(
        "table {} has not been loaded yet; try again (if its load was broken off, it is removed within a minute)",
        table.name
    ))
}

/// A dataset that waits for what it mirrors.
#[must_use]
pub fn awaited(name: &TableName, dataset: &Awaited) -> Error {
    Error::unavailable(format!(
        "table {name} waits for the first snapshot to be published in {}; it is served as soon as there is one",
        dataset.from
    ))
}

/// Estimates over some partitions. All inexact: a count must come from the stored rows themselves.
fn statistics(table: &Table, partitions: &[&Partition]) -> Statistics {
    let schema = &table.schema.0;
    let rows: u64 = partitions.iter().map(|p| p.rows).sum();
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    let width: usize = schema.fields().iter().map(|f| estimated_width(f.data_type())).sum();
    let column_statistics = schema
        .fields()
        .iter()
        .enumerate()
        .map(|(i, field)| column_statistics(table.columns.get(i), field.data_type()))
        .collect();
    Statistics {
        num_rows: Precision::Inexact(rows),
        total_byte_size: Precision::Inexact(rows.saturating_mul(width)),
        column_statistics,
    }
}

fn column_statistics(summary: Option<&ColumnSummary>, data_type: &DataType) -> ColumnStatistics {
    let Some(summary) = summary else { return ColumnStatistics::new_unknown() };
    let bound = |text: &Option<String>| -> Precision<ScalarValue> {
        let value = text.as_deref().and_then(|t| {
            let array = key::values(&[Some(t)], data_type).ok()?;
            ScalarValue::try_from_array(&array, 0).ok()
        });
        value.map_or(Precision::Absent, Precision::Inexact)
    };
    ColumnStatistics {
        null_count: summary
            .nulls
            .map_or(Precision::Absent, |n| Precision::Inexact(usize::try_from(n).unwrap_or(usize::MAX))),
        min_value: bound(&summary.min),
        max_value: bound(&summary.max),
        ..ColumnStatistics::new_unknown()
    }
}

#[async_trait]
impl TableProvider for AnchoTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.estimates(&self.table.partitions.values().collect::<Vec<_>>()))
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        // Inexact: the filters prune partitions here; the physical filter is pushed into the scan later.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    // What `async_trait` makes of it, but without an async block: nothing is awaited, and that `Expr` is `Send` takes the compiler
    // seconds to prove in one.
    fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
        &'life0 self,
        state: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        filters: &'life3 [Expr],
        limit: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        'life3: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(ready(self.plan_scan(state, projection, filters, limit)))
    }
}

impl AnchoTable {
    fn plan_scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let topology = state.config().get_extension::<Topology>().ok_or_else(|| {
            DataFusionError::Internal(format!("table {} is planned outside a query", self.table.name))
        })?;
        if self.table.load.is_some() {
            return Err(still_loading(&self.table).into());
        }
        let source = self.source(&topology, filters)?;
        // A limit counts rows after the filter, which only holds for a scan without one.
        let limit = limit.filter(|_| filters.is_empty());
        let scan = CayenneScanExec::try_new(Arc::new(source), projection.cloned(), limit, topology.streams)?;
        let scan: Arc<dyn ExecutionPlan> = Arc::new(scan);
        Ok(if topology.gather { Arc::new(GatherExec::new(scan)) } else { scan })
    }
}

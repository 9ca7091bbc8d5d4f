//! A set of partitions as a DataFusion table, for use in one process.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Statistics};
use datafusion::error::Result as DFResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;

use crate::error::{Error, Result};
use crate::partition::Partition;
use crate::pin::PinnedVersion;
use crate::scan::{ScanRequest, scan};
use crate::stats::DataSummary;

/// A read-only table over partitions with one schema. Each query sees the versions that are current when it is planned.
#[derive(Debug)]
pub struct CayenneTable {
    partitions: Vec<Partition>,
    schema: SchemaRef,
}

impl CayenneTable {
    /// A table over `partitions`.
    ///
    /// # Errors
    /// [`Error::NoPartition`] and [`Error::MixedSchemas`].
    pub fn try_new(partitions: Vec<Partition>) -> Result<Self> {
        let schema = partitions.first().ok_or(Error::NoPartition)?.schema();
        match partitions.iter().find(|partition| partition.schema() != schema) {
            None => Ok(Self { partitions, schema }),
            Some(other) => Err(Error::MixedSchemas { place: Arc::clone(&other.inner.place) }),
        }
    }

    /// The partitions.
    pub fn partitions(&self) -> &[Partition] {
        &self.partitions
    }

    fn pins(&self) -> Result<Vec<PinnedVersion>> {
        self.partitions.iter().map(|partition| partition.pin(None)).collect()
    }
}

#[async_trait]
impl TableProvider for CayenneTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DFResult<Arc<dyn ExecutionPlan>> {
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let predicates = filters
            .iter()
            .map(|filter| state.create_physical_expr(unqualified(filter)?, &schema))
            .collect::<DFResult<Vec<_>>>()?;
        let request = ScanRequest {
            projection: projection.cloned(),
            predicates,
            limit,
            streams: state.config().target_partitions(),
            ..ScanRequest::default()
        };
        let pins = self.pins()?;
        if let Some(changed) = pins.iter().find(|pin| pin.schema() != self.schema) {
            return Err(Error::SchemaChanged { place: Arc::clone(&changed.inner().place) }.into());
        }
        Ok(scan(&pins, &request)?)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DFResult<Vec<TableProviderFilterPushDown>> {
        filters
            .iter()
            .map(|filter| {
                Ok(if depends_on_other_plans(filter)? {
                    TableProviderFilterPushDown::Unsupported
                } else {
                    TableProviderFilterPushDown::Exact
                })
            })
            .collect()
    }

    fn statistics(&self) -> Option<Statistics> {
        let mut summary = DataSummary::empty(self.schema.fields().len());
        for partition in &self.partitions {
            summary.merge(&partition.summary());
        }
        Some(summary.statistics())
    }
}

/// Filters come with the table's name in front of their columns; the schema here has no name.
fn unqualified(filter: &Expr) -> DFResult<Expr> {
    use datafusion::common::Column;
    use datafusion::common::tree_node::Transformed;
    let stripped = filter.clone().transform(|expr| {
        Ok(match expr {
            Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
            other => Transformed::no(other),
        })
    })?;
    Ok(stripped.data)
}

fn depends_on_other_plans(filter: &Expr) -> DFResult<bool> {
    let mut found = false;
    filter.apply(|expr| {
        found |= matches!(
            expr,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        );
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

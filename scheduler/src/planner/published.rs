//! A snapshot in an object store as a table that can be scanned.
use std::{future::ready, pin::Pin, sync::Arc};

use ancho_common::plan::snapshot_scan::{SnapshotScanExec, SnapshotSource};
use arrow::datatypes::SchemaRef;
use datafusion::{
    catalog::Session,
    datasource::{TableProvider, TableType},
    error::Result,
    logical_expr::Expr,
    physical_plan::ExecutionPlan,
};

/// All rows of one snapshot.
#[derive(Debug)]
pub struct PublishedTable {
    source: Arc<SnapshotSource>,
}

impl PublishedTable {
    /// Of what is to be read.
    #[must_use]
    pub fn new(source: SnapshotSource) -> Self {
        Self { source: Arc::new(source) }
    }
}

impl TableProvider for PublishedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.source.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    // As in `AnchoTable`, and for the same reason.
    fn scan<'life0, 'life1, 'life2, 'life3, 'async_trait>(
        &'life0 self,
        session: &'life1 dyn Session,
        projection: Option<&'life2 Vec<usize>>,
        _: &'life3 [Expr],
        _: Option<usize>,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        'life3: 'async_trait,
        Self: 'async_trait,
    {
        let streams = session.config().target_partitions();
        let scan = SnapshotScanExec::try_new(Arc::clone(&self.source), projection.cloned(), streams);
        Box::pin(ready(scan.map(|scan| Arc::new(scan) as Arc<dyn ExecutionPlan>)))
    }
}

//! Reading CSV files so that `""` is an empty text and an empty field is NULL, and values may hold line breaks.
//!
//! The engine's reader takes both for NULL, and files are cut at any line break by whoever spreads a scan. So this source reads
//! whole files only: one task each, several at the same time. Columns are found by the names in each file's first row.
//! Everything but the opening of a file is the engine's.
pub mod compression;
mod empty_texts;
mod header;
mod opener;

use std::{fmt, sync::Arc};

use datafusion::{
    common::tree_node::TreeNodeRecursion,
    datasource::{
        physical_plan::{CsvSource, FileOpener, FileScanConfig, FileSource},
        projection::{ProjectionOpener, SplitProjection},
        source::DataSourceExec,
        table_schema::TableSchema,
    },
    error::Result,
    physical_expr::projection::ProjectionExprs,
    physical_plan::{DisplayFormatType, ExecutionPlan, PhysicalExpr, metrics::ExecutionPlanMetricsSet},
};
use object_store::ObjectStore;

use self::opener::WholeFileOpener;
use crate::error::Error;

/// Rows of CSV files.
#[derive(Debug, Clone)]
pub struct WholeCsvSource {
    inner: CsvSource,
    /// `""` is NULL, too.
    quoted_is_null: bool,
    batch_size: Option<usize>,
}

impl WholeCsvSource {
    /// With the options and columns of `inner`.
    #[must_use]
    pub fn new(inner: CsvSource, quoted_is_null: bool) -> Self {
        Self { inner, quoted_is_null, batch_size: None }
    }

    /// `""` is NULL, too.
    #[must_use]
    pub fn quoted_is_null(&self) -> bool {
        self.quoted_is_null
    }

    /// The source of a scan, if it is this one.
    #[must_use]
    pub fn of(plan: &dyn ExecutionPlan) -> Option<(&FileScanConfig, &Self)> {
        let scan = plan.downcast_ref::<DataSourceExec>()?.data_source().downcast_ref::<FileScanConfig>()?;
        Some((scan, scan.file_source().downcast_ref::<Self>()?))
    }

    /// The same scan by the engine's reader, which can be sent to another process.
    #[must_use]
    pub fn plain(scan: &FileScanConfig, source: &Self) -> Arc<dyn ExecutionPlan> {
        with_source(scan, source.inner.clone())
    }

    /// What [`plain`](Self::plain) was made from.
    ///
    /// # Errors
    /// The plan is no scan of CSV files.
    pub fn restored(plain: &dyn ExecutionPlan, quoted_is_null: bool) -> Result<Arc<dyn ExecutionPlan>> {
        let scan =
            plain.downcast_ref::<DataSourceExec>().and_then(|s| s.data_source().downcast_ref::<FileScanConfig>());
        let csv = scan.and_then(|scan| Some((scan, scan.file_source().downcast_ref::<CsvSource>()?)));
        let Some((scan, csv)) = csv else { return Err(Error::internal("a scan of CSV files is none").into()) };
        Ok(with_source(scan, Self::new(csv.clone(), quoted_is_null)))
    }
}

fn with_source(scan: &FileScanConfig, source: impl FileSource) -> Arc<dyn ExecutionPlan> {
    let mut scan = scan.clone();
    scan.file_source = Arc::new(source);
    DataSourceExec::from_data_source(scan)
}

impl FileSource for WholeCsvSource {
    fn create_file_opener(
        &self,
        store: Arc<dyn ObjectStore>,
        scan: &FileScanConfig,
        _: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let schema = self.inner.table_schema().file_schema();
        let projection = match self.inner.projection() {
            Some(projection) => SplitProjection::new(schema, projection),
            None => SplitProjection::unprojected(self.inner.table_schema()),
        };
        let batch_size = self.batch_size.or(scan.batch_size).unwrap_or(8192);
        let opener = WholeFileOpener::new(self, store, projection.file_indices.clone(), batch_size);
        ProjectionOpener::try_new(projection, Arc::new(opener), schema)
    }

    fn table_schema(&self) -> &TableSchema {
        self.inner.table_schema()
    }

    fn with_batch_size(&self, batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_size: Some(batch_size), ..self.clone() })
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        self.inner.projection()
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let Some(pushed) = self.inner.try_pushdown_projection(projection)? else { return Ok(None) };
        let Some(inner) = pushed.downcast_ref::<CsvSource>().cloned() else { return Ok(None) };
        Ok(Some(Arc::new(Self { inner, ..self.clone() })))
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        self.inner.metrics()
    }

    fn file_type(&self) -> &str {
        "csv"
    }

    fn fmt_extra(&self, form: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_extra(form, f)
    }

    /// A line break may stand inside of a value, so nobody can tell where to cut.
    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }
}

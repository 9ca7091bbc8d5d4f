//! Scans of partitions held here, as plans over pinned versions.
use std::sync::Arc;

use ancho_common::{
    error::{Error, Result},
    plan::host::{LocalScan, ScanHost, ScanPartition},
};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use cayenne::{PinnedVersion, ScanRequest};
use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_plan::{ExecutionPlan, empty::EmptyExec, union::UnionExec},
};

use super::{PartitionHost, from_storage};
use crate::metric;

#[async_trait]
impl ScanHost for PartitionHost {
    fn executor_id(&self) -> &str {
        &self.executor_id.0
    }

    async fn scan(&self, request: LocalScan) -> Result<Arc<dyn ExecutionPlan>> {
        self.check_lease()?;
        if request.streams == 0 {
            return Err(Error::internal(format!("a scan of table {} asks for no stream", request.table)));
        }
        metrics::counter!(metric::SCANS).increment(1);
        let mut pins = Vec::with_capacity(request.partitions.len());
        for ScanPartition { partition, epoch, version, write_id } in &request.partitions {
            let pin = self.pin(*partition, *epoch, *version, *write_id).await?;
            check_columns(&request, &pin)?;
            pins.push(pin);
        }
        let scan = ScanRequest {
            projection: request.projection.clone(),
            predicates: over_table(&request)?,
            limit: request.limit,
            streams: request.streams,
            ..ScanRequest::default()
        };
        match &request.stream_of {
            None => one_plan(&request, &pins, &scan),
            Some(stream_of) => fixed_streams(&request, &pins, &scan, stream_of),
        }
    }
}

/// Files spread freely over all streams.
fn one_plan(request: &LocalScan, pins: &[PinnedVersion], scan: &ScanRequest) -> Result<Arc<dyn ExecutionPlan>> {
    if pins.is_empty() {
        let schema = projected(&request.schema, request.projection.as_deref())?;
        return Ok(Arc::new(EmptyExec::new(schema).with_partitions(scan.streams)));
    }
    cayenne::scan(pins, scan).map_err(|e| from_storage(&format!("reading table {}", request.table), e))
}

/// Every stream reads exactly the partitions that are meant for it.
fn fixed_streams(
    request: &LocalScan,
    pins: &[PinnedVersion],
    scan: &ScanRequest,
    stream_of: &[usize],
) -> Result<Arc<dyn ExecutionPlan>> {
    if stream_of.len() != pins.len() || stream_of.iter().any(|stream| *stream >= scan.streams) {
        return Err(Error::internal(format!(
            "a scan of table {} gives {} partitions the streams {stream_of:?} of {}",
            request.table,
            pins.len(),
            scan.streams
        )));
    }
    let single = ScanRequest { streams: 1, ..scan.clone() };
    let streams: Vec<Arc<dyn ExecutionPlan>> = (0..scan.streams)
        .map(|stream| {
            let mine: Vec<PinnedVersion> =
                pins.iter().zip(stream_of).filter(|(_, of)| **of == stream).map(|(pin, _)| pin.clone()).collect();
            one_plan(request, &mine, &single)
        })
        .collect::<Result<_>>()?;
    Ok(UnionExec::try_new(streams)?)
}

/// The request's predicates are over the projected columns, the storage engine's over the table's.
fn over_table(request: &LocalScan) -> Result<Vec<Arc<dyn PhysicalExpr>>> {
    let Some(projection) = &request.projection else { return Ok(request.predicates.clone()) };
    let rebind = |predicate: &Arc<dyn PhysicalExpr>| {
        Arc::clone(predicate)
            .transform(|expr| {
                let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
                let index = *projection.get(column.index()).ok_or_else(|| {
                    Error::internal(format!("table {}: predicate column {column} is not projected", request.table))
                })?;
                let rebound: Arc<dyn PhysicalExpr> = Arc::new(Column::new(column.name(), index));
                Ok(Transformed::yes(rebound))
            })
            .data()
    };
    Ok(request.predicates.iter().map(rebind).collect::<Result<_, _>>()?)
}

fn projected(schema: &SchemaRef, projection: Option<&[usize]>) -> Result<SchemaRef> {
    let whole = Schema::new(schema.fields().clone());
    match projection {
        None => Ok(Arc::new(whole)),
        Some(indices) => {
            whole.project(indices).map(Arc::new).map_err(|e| Error::internal(format!("projection of a scan: {e}")))
        }
    }
}

/// A plan made for other columns than the stored ones would read the wrong ones by index.
fn check_columns(request: &LocalScan, pin: &PinnedVersion) -> Result<()> {
    let stored = pin.schema();
    let same = stored.fields().len() == request.schema.fields().len()
        && stored
            .fields()
            .iter()
            .zip(request.schema.fields())
            .all(|(a, b)| a.name() == b.name() && a.data_type().equals_datatype(b.data_type()));
    if same {
        return Ok(());
    }
    let identity = pin.partition().identity().clone();
    Err(Error::stale_route(format!(
        "table {}, partition {}: the plan was made for other columns than the stored ones; read the routes again",
        request.table, identity.partition
    )))
}

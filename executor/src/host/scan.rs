//! Scans of partitions held here, as plans over pinned versions.
use std::sync::Arc;

use ancho_common::{
    error::{Error, Result},
    plan::host::{LocalScan, ScanHost, StoredScan},
};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use cayenne::{PinnedVersion, ScanRequest};
use datafusion::{
    error::DataFusionError,
    execution::{SendableRecordBatchStream, TaskContext},
    physical_plan::{ExecutionPlan, empty::EmptyExec, union::UnionExec},
};

use super::{
    PartitionHost, from_storage,
    row_names::{WantedColumns, own_schema},
};
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
        for wanted in &request.partitions {
            let pin = self.pin(wanted).await?;
            check_columns(&request, &pin)?;
            pins.push((wanted.partition, pin));
        }
        let wanted = WantedColumns::of(&request);
        let scan = ScanRequest {
            projection: Some(wanted.own.clone()),
            predicates: request.predicates.clone(),
            limit: request.limit,
            streams: request.streams,
            row_ids: wanted.names_rows(),
            ..ScanRequest::default()
        };
        let versions: Vec<PinnedVersion> = pins.iter().map(|(_, pin)| pin.clone()).collect();
        let scanned = wanted.scanned(&request.schema)?;
        let rows = match &request.stream_of {
            None => one_plan(&request, &versions, &scan, &scanned),
            Some(stream_of) => fixed_streams(&request, &versions, &scan, stream_of, &scanned),
        }?;
        let schema = projected(&request.schema, request.projection.as_deref())?;
        Ok(wanted.complete(rows, schema, &pins))
    }

    async fn read_snapshot(&self, request: StoredScan, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.read_stored(request, context).await
    }

    fn failure(&self, table: &str, error: DataFusionError) -> DataFusionError {
        failure(table, error)
    }
}

/// What went wrong while stored rows were read, in Ancho's kinds.
pub(crate) fn failure(table: &str, error: DataFusionError) -> DataFusionError {
    match error {
        DataFusionError::External(source) => match source.downcast::<cayenne::Error>() {
            Ok(storage) => from_storage(&format!("reading table {table}"), *storage).into(),
            Err(source) => DataFusionError::External(source),
        },
        other => other,
    }
}

/// Files spread freely over all streams.
fn one_plan(
    request: &LocalScan,
    pins: &[PinnedVersion],
    scan: &ScanRequest,
    schema: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    if pins.is_empty() {
        return Ok(Arc::new(EmptyExec::new(Arc::clone(schema)).with_partitions(scan.streams)));
    }
    cayenne::scan(pins, scan).map_err(|e| from_storage(&format!("reading table {}", request.table), e))
}

/// Every stream reads exactly the partitions that are meant for it.
fn fixed_streams(
    request: &LocalScan,
    pins: &[PinnedVersion],
    scan: &ScanRequest,
    stream_of: &[usize],
    schema: &SchemaRef,
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
            one_plan(request, &mine, &single, schema)
        })
        .collect::<Result<_>>()?;
    Ok(UnionExec::try_new(streams)?)
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
    let (stored, wanted) = (pin.schema(), own_schema(&request.schema));
    let same = stored.fields().len() == wanted.fields().len()
        && stored
            .fields()
            .iter()
            .zip(wanted.fields())
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

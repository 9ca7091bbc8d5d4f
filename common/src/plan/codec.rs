//! Ancho's plan nodes as bytes. Exchanged only between processes with the same plan key.
use std::sync::Arc;

use ancho_proto::v1;
use datafusion::{
    error::{DataFusionError, Result},
    execution::TaskContext,
    physical_plan::ExecutionPlan,
};
use datafusion_proto::{
    physical_plan::{
        DefaultPhysicalExtensionCodec, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
        PhysicalProtoConverterExtension,
    },
    protobuf::{PhysicalExprNode, PhysicalPlanNode},
};
use prost::Message;

use super::{
    changes::{KeyRule, WriteForm},
    csv::WholeCsvSource,
    host::{ScanHost, ScanPartition},
    pace::{Pace, PacedExec},
    router::Route,
    scan::{CayenneScanExec, Slot, VariantParts},
    snapshot_scan::{SnapshotPart, SnapshotScanExec, SnapshotSource},
    write::{PartitionWriteExec, WriteTarget},
};
use crate::{
    error::Error,
    ids::{PartitionId, TableId, WriteId},
    partition::PartitionSpec,
    schema,
    snapshot::StoredObject,
};

const SCAN: u8 = 1;
const WRITE: u8 = 2;
const TURNS: u8 = 3;
const SLICES: u8 = 4;
const CSV: u8 = 5;
const CSV_QUOTED_IS_NULL: u8 = 6;
const SNAPSHOT: u8 = 7;

/// What the first byte of a node says.
#[cfg(test)]
pub(super) const TAGS: [(&str, u8); 7] = [
    ("scan", SCAN),
    ("write", WRITE),
    ("turns", TURNS),
    ("slices", SLICES),
    ("csv", CSV),
    ("csv, quoted is null", CSV_QUOTED_IS_NULL),
    ("snapshot", SNAPSHOT),
];

/// Encodes and decodes [`CayenneScanExec`], [`SnapshotScanExec`], [`PartitionWriteExec`], [`PacedExec`] and scans of [`WholeCsvSource`].
#[derive(Debug, Default, Clone)]
pub struct AnchoCodec {
    host: Option<Arc<dyn ScanHost>>,
}

impl AnchoCodec {
    /// For a process without partitions.
    #[must_use]
    pub fn coordinator() -> Self {
        Self { host: None }
    }

    /// For an executor: decoded scans read from `host`.
    #[must_use]
    pub fn executor(host: Arc<dyn ScanHost>) -> Self {
        Self { host: Some(host) }
    }

    fn decode_scan(
        &self,
        bytes: &[u8],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = v1::ScanNode::decode(bytes).map_err(malformed)?;
        let schema = schema::from_ipc(&node.schema)?;
        let projection = to_usize(&node.projection)?;
        let codec = DefaultPhysicalExtensionCodec {};
        let decode = PhysicalPlanDecodeContext::new(context, &codec);
        let predicates = node
            .predicates
            .iter()
            .map(|bytes| {
                let node = PhysicalExprNode::decode(bytes.as_ref()).map_err(malformed)?;
                converter.proto_to_physical_expr(&node, &schema, &decode)
            })
            .collect::<Result<_>>()?;
        let partitions = node.partitions.iter().map(decode_partition).collect::<Result<_>>()?;
        let parts = VariantParts {
            slot: Slot { executor: node.executor_id, url: node.executor_url },
            partitions,
            stream_of: node.by_bucket.then(|| to_usize(&node.stream_of)).transpose()?,
            projection,
            predicates,
            limit: node.limit.map(|n| to_usize(&[n]).map(|v| v[0])).transpose()?,
            streams: to_usize(&[node.streams])?[0],
            bucketed: node.by_bucket.then(|| to_usize(&node.hash_columns)).transpose()?,
        };
        let scan = CayenneScanExec::from_parts(TableId(node.table_id), node.table, schema, parts, self.host.clone())?;
        Ok(Arc::new(scan))
    }
}

fn malformed(error: prost::DecodeError) -> DataFusionError {
    Error::internal(format!("a plan node cannot be decoded: {error}")).into()
}

fn to_usize(numbers: &[u64]) -> Result<Vec<usize>> {
    let convert = |n: &u64| usize::try_from(*n).map_err(|_| Error::internal("a number in a plan is too large").into());
    numbers.iter().map(convert).collect()
}

fn decode_partition(p: &v1::ScanPartition) -> Result<ScanPartition> {
    let write = |text: &str| match text {
        "" => Ok(None),
        text => WriteId::parse(text).map(Some).map_err(|e| DataFusionError::Internal(e.to_string())),
    };
    Ok(ScanPartition {
        partition: PartitionId(p.partition_id),
        epoch: p.epoch,
        version: p.version,
        write_id: write(&p.write_id)?,
        staged: write(&p.staged)?,
    })
}

fn encode_scan(scan: &CayenneScanExec, converter: &dyn PhysicalProtoConverterExtension) -> Result<Vec<u8>> {
    let parts = scan.encode_parts().ok_or_else(|| {
        DataFusionError::from(Error::internal(format!(
            "the scan of table {} was not routed to an owner before it was sent",
            scan.source().table
        )))
    })?;
    let codec = DefaultPhysicalExtensionCodec {};
    let predicates = parts
        .predicates
        .iter()
        .map(|e| Ok(converter.physical_expr_to_proto(e, &codec)?.encode_to_vec().into()))
        .collect::<Result<_>>()?;
    let node = v1::ScanNode {
        table_id: scan.source().table_id.0,
        table: scan.source().table.clone(),
        schema: schema::to_ipc(&scan.source().schema).into(),
        projection: parts.projection.iter().map(|i| *i as u64).collect(),
        predicates,
        limit: parts.limit.map(|n| n as u64),
        streams: parts.streams as u64,
        executor_id: parts.slot.executor,
        executor_url: parts.slot.url,
        partitions: parts
            .partitions
            .iter()
            .map(|p| v1::ScanPartition {
                partition_id: p.partition.0,
                epoch: p.epoch,
                version: p.version,
                write_id: p.write_id.map(|w| w.to_string()).unwrap_or_default(),
                staged: p.staged.map(|w| w.to_string()).unwrap_or_default(),
            })
            .collect(),
        by_bucket: parts.stream_of.is_some(),
        stream_of: parts.stream_of.unwrap_or_default().iter().map(|s| *s as u64).collect(),
        hash_columns: parts.bucketed.unwrap_or_default().iter().map(|c| *c as u64).collect(),
    };
    Ok(node.encode_to_vec())
}

fn encode_snapshot(scan: &SnapshotScanExec) -> Result<Vec<u8>> {
    let source = scan.source();
    if !scan.is_variant() {
        return Err(Error::internal(format!(
            "the snapshot of table {} was not spread before it was sent",
            source.table
        ))
        .into());
    }
    let part = |part: &SnapshotPart| v1::SnapshotScanPart {
        partition_id: part.partition.0,
        version: part.version,
        rows: part.rows,
        manifest: Some(v1::StoredObject {
            key: part.manifest.key.clone(),
            bytes: part.manifest.bytes,
            sha256: part.manifest.sha256.clone(),
        }),
    };
    let node = v1::SnapshotScanNode {
        table: source.table.clone(),
        location: source.location.clone(),
        folder: source.folder.clone(),
        schema: schema::to_ipc(&source.schema).into(),
        projection: scan.projection().iter().map(|i| *i as u64).collect(),
        streams: scan.streams() as u64,
        parts: source.parts.iter().map(part).collect(),
    };
    Ok(node.encode_to_vec())
}

fn decode_snapshot(bytes: &[u8]) -> Result<Arc<dyn ExecutionPlan>> {
    let node = v1::SnapshotScanNode::decode(bytes).map_err(malformed)?;
    let part = |part: &v1::SnapshotScanPart| {
        let manifest =
            part.manifest.as_ref().ok_or_else(|| Error::internal("a part of a snapshot without a manifest"))?;
        Ok(SnapshotPart {
            partition: PartitionId(part.partition_id),
            version: part.version,
            rows: part.rows,
            manifest: StoredObject {
                key: manifest.key.clone(),
                bytes: manifest.bytes,
                sha256: manifest.sha256.clone(),
            },
        })
    };
    let parts = node.parts.iter().map(part).collect::<crate::error::Result<Vec<_>>>()?;
    let source = SnapshotSource {
        table: node.table,
        location: node.location,
        folder: node.folder,
        schema: schema::from_ipc(&node.schema)?,
        parts: Vec::new(),
    };
    let (projection, streams) = (to_usize(&node.projection)?, to_usize(&[node.streams])?[0]);
    Ok(Arc::new(SnapshotScanExec::try_new(Arc::new(source), Some(projection), streams)?.variant_of(parts)))
}

fn encode_write(write: &PartitionWriteExec) -> Vec<u8> {
    let target = write.target();
    v1::WriteNode {
        write_id: target.write_id.to_string(),
        table_id: target.table_id.0,
        table: target.table.clone(),
        schema: schema::to_ipc(&target.schema).into(),
        partition_by: target.partition_spec.expressions.clone(),
        hash_version: target.partition_spec.hash_version,
        overwrite: target.overwrite,
        routes: target.routes.iter().map(Route::to_proto).collect(),
        form: target.form.number(),
        key_rule: target.key_rule.number(),
        schema_version: target.schema_version,
    }
    .encode_to_vec()
}

fn decode_write(bytes: &[u8], inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    let node = v1::WriteNode::decode(bytes).map_err(malformed)?;
    let [input] = inputs else {
        return Err(Error::internal(format!("a write node has {} inputs, not one", inputs.len())).into());
    };
    let target = WriteTarget {
        write_id: WriteId::parse(&node.write_id).map_err(|e| DataFusionError::Internal(e.to_string()))?,
        table_id: TableId(node.table_id),
        table: node.table,
        schema: schema::from_ipc(&node.schema)?,
        schema_version: node.schema_version,
        partition_spec: PartitionSpec { expressions: node.partition_by, hash_version: node.hash_version },
        overwrite: node.overwrite,
        form: WriteForm::from_number(node.form)?,
        key_rule: KeyRule::from_number(node.key_rule)?,
        routes: node.routes.iter().map(Route::from_proto).collect::<crate::error::Result<_>>()?,
    };
    Ok(Arc::new(PartitionWriteExec::try_new(Arc::clone(input), Arc::new(target))?))
}

fn decode_pace(pace: Pace, inputs: &[Arc<dyn ExecutionPlan>]) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else {
        return Err(Error::internal(format!("a pace has {} inputs, not one", inputs.len())).into());
    };
    Ok(Arc::new(PacedExec::new(Arc::clone(input), pace)))
}

fn decode_csv(
    bytes: &[u8],
    quoted_is_null: bool,
    context: &TaskContext,
    converter: &dyn PhysicalProtoConverterExtension,
) -> Result<Arc<dyn ExecutionPlan>> {
    let node = PhysicalPlanNode::decode(bytes).map_err(malformed)?;
    let codec = DefaultPhysicalExtensionCodec {};
    let plain = converter.proto_to_execution_plan(&node, &PhysicalPlanDecodeContext::new(context, &codec))?;
    WholeCsvSource::restored(plain.as_ref(), quoted_is_null)
}

impl PhysicalExtensionCodec for AnchoCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match bytes.split_first() {
            Some((&SCAN, rest)) => self.decode_scan(rest, context, converter),
            Some((&SNAPSHOT, rest)) => decode_snapshot(rest),
            Some((&WRITE, rest)) => decode_write(rest, inputs),
            Some((&TURNS, _)) => decode_pace(Pace::Turns, inputs),
            Some((&SLICES, _)) => decode_pace(Pace::Slices, inputs),
            Some((&CSV, rest)) => decode_csv(rest, false, context, converter),
            Some((&CSV_QUOTED_IS_NULL, rest)) => decode_csv(rest, true, context, converter),
            _ => Err(Error::internal("an unknown plan node arrived; are all processes of one release?").into()),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        out: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(scan) = node.downcast_ref::<CayenneScanExec>() {
            out.push(SCAN);
            out.extend(encode_scan(scan, converter)?);
        } else if let Some(scan) = node.downcast_ref::<SnapshotScanExec>() {
            out.push(SNAPSHOT);
            out.extend(encode_snapshot(scan)?);
        } else if let Some(write) = node.downcast_ref::<PartitionWriteExec>() {
            out.push(WRITE);
            out.extend(encode_write(write));
        } else if let Some(paced) = node.downcast_ref::<PacedExec>() {
            out.push(match paced.pace() {
                Pace::Turns => TURNS,
                Pace::Slices => SLICES,
            });
        } else if let Some((scan, source)) = WholeCsvSource::of(node.as_ref()) {
            out.push(if source.quoted_is_null() { CSV_QUOTED_IS_NULL } else { CSV });
            let plain = WholeCsvSource::plain(scan, source);
            out.extend(converter.execution_plan_to_proto(&plain, &DefaultPhysicalExtensionCodec {})?.encode_to_vec());
        } else {
            // The list of codecs is tried in order; this one knows only its own nodes.
            return Err(DataFusionError::NotImplemented(format!("{} cannot be sent to another process", node.name())));
        }
        Ok(())
    }
}

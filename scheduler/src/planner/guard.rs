//! Refuses a distributed plan that would not read each partition exactly once, on its owner.
//!
//! The distribution library does not check its plans; a leaf in the wrong place would give a short answer. The guard
//! checks the finished plan: a plan that reads tables is distributed; no scan is in the coordinator's own stage; every
//! scan is split into as many variants as its stage has tasks; the scans of one stage agree on their executors; the
//! variants together read each partition once, also of a snapshot; nothing below relies on an order across a shuffle or on range
//! partitioning; no rows between stages are of a type that the library announces as another one.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{
    error::Error,
    ids::PartitionId,
    plan::{
        scan::{CayenneScanExec, ScanSource},
        snapshot_scan::SnapshotScanExec,
    },
};
use arrow::datatypes::DataType;
use datafusion::{
    physical_expr::Partitioning,
    physical_plan::{ExecutionPlan, ExecutionPlanProperties, repartition::RepartitionExec},
};
use datafusion_distributed::{DistributedExec, DistributedLeafExec, NetworkBoundaryExt};

use super::refusal::{PlanError, PlanResult, Replan};

/// Checks a plan before it runs.
///
/// # Errors
/// `Internal`, with what is unsafe.
pub fn check(plan: &Arc<dyn ExecutionPlan>) -> PlanResult<()> {
    let Some(distributed) = plan.downcast_ref::<DistributedExec>() else {
        return walk(plan, None);
    };
    for child in distributed.children() {
        walk(child, None)?;
    }
    Ok(())
}

/// What the scans of a plan read, in no particular order.
#[must_use]
pub fn scans(plan: &Arc<dyn ExecutionPlan>) -> Vec<Arc<ScanSource>> {
    let mut found = Vec::new();
    let mut open: Vec<Arc<dyn ExecutionPlan>> = vec![Arc::clone(plan)];
    while let Some(node) = open.pop() {
        let stage = node.as_network_boundary().and_then(|b| b.input_stage().local_plan().cloned());
        if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() {
            found.extend(leaf.original().downcast_ref::<CayenneScanExec>().map(|s| Arc::clone(s.source())));
        } else if let Some(stage) = stage {
            open.push(stage);
        } else {
            open.extend(node.children().into_iter().cloned());
        }
    }
    found
}

/// `tasks` is the task count of the stage, `None` in the coordinator's own.
fn walk(node: &Arc<dyn ExecutionPlan>, tasks: Option<usize>) -> PlanResult<()> {
    if let Some(boundary) = node.as_network_boundary() {
        let stage = boundary.input_stage();
        let plan = stage.local_plan().ok_or_else(|| unsafe_plan("a stage has no plan"))?;
        if let Some(field) = plan.schema().fields().iter().find(|field| holds_large_lists(field.data_type())) {
            let text = format!(
                "column {} is of type {}, which cannot be sent between nodes; cast it to a List",
                field.name(),
                field.data_type()
            );
            return Err(Error::unsupported(text).into());
        }
        return walk(plan, Some(stage.task_count()));
    }
    if let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() {
        if let Some(snapshot) = leaf.original().downcast_ref::<SnapshotScanExec>() {
            return check_snapshot(leaf, snapshot, tasks);
        }
        return match leaf.original().downcast_ref::<CayenneScanExec>() {
            Some(scan) => check_leaf(leaf, scan, tasks),
            None => Ok(()),
        };
    }
    if let Some(snapshot) = node.downcast_ref::<SnapshotScanExec>() {
        let table = &snapshot.source().table;
        return Err(unsafe_plan(&format!("the snapshot of table {table} is not spread over executors")));
    }
    if let Some(scan) = node.downcast_ref::<CayenneScanExec>() {
        return Err(unsafe_plan(&format!("the scan of table {} is not spread over its owners", scan.source().table)));
    }
    if matches!(node.output_partitioning(), Partitioning::Range(_)) {
        return Err(unsafe_plan("it relies on range partitioning"));
    }
    if let Some(repartition) = node.downcast_ref::<RepartitionExec>()
        && repartition.preserve_order()
    {
        return Err(PlanError::refused(Replan::InOnePiece, "it relies on the order of rows across a shuffle"));
    }
    node.children().into_iter().try_for_each(|child| walk(child, tasks))
}

fn holds_large_lists(data_type: &DataType) -> bool {
    match data_type {
        DataType::LargeList(_) | DataType::LargeListView(_) => true,
        DataType::List(item) | DataType::FixedSizeList(item, _) => holds_large_lists(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_large_lists(field.data_type())),
        DataType::Dictionary(_, values) => holds_large_lists(values),
        _ => false,
    }
}

fn check_leaf(leaf: &DistributedLeafExec, scan: &CayenneScanExec, tasks: Option<usize>) -> PlanResult<()> {
    let table = &scan.source().table;
    let Some(tasks) = tasks else {
        return Err(unsafe_plan(&format!("the scan of table {table} is in the coordinator's own stage")));
    };
    if leaf.variants().len() != tasks {
        return Err(unsafe_plan(&format!(
            "the scan of table {table} has {} parts for {tasks} tasks",
            leaf.variants().len()
        )));
    }
    let mut read: BTreeMap<PartitionId, usize> = BTreeMap::new();
    for variant in leaf.variants() {
        let parts = variant.downcast_ref::<CayenneScanExec>().and_then(CayenneScanExec::encode_parts);
        let parts = parts.ok_or_else(|| unsafe_plan(&format!("a part of the scan of table {table} has no owner")))?;
        for partition in parts.partitions {
            *read.entry(partition.partition).or_default() += 1;
        }
    }
    let wanted = &scan.source().partitions;
    if read.len() != wanted.len() || wanted.iter().any(|p| read.get(&p.scan.partition) != Some(&1)) {
        return Err(unsafe_plan(&format!("table {table} would not be read exactly once")));
    }
    Ok(())
}

/// A partition of a snapshot may be read anywhere but in the coordinator, and is read once.
fn check_snapshot(leaf: &DistributedLeafExec, snapshot: &SnapshotScanExec, tasks: Option<usize>) -> PlanResult<()> {
    let source = snapshot.source();
    let read = leaf.variants().iter().filter_map(|variant| variant.downcast_ref::<SnapshotScanExec>());
    let mut read: Vec<_> = read.filter(|variant| variant.is_variant()).flat_map(|v| &v.source().parts).collect();
    let mut wanted: Vec<_> = source.parts.iter().collect();
    read.sort_by_key(|part| part.partition);
    wanted.sort_by_key(|part| part.partition);
    if tasks == Some(leaf.variants().len()) && read == wanted {
        return Ok(());
    }
    Err(unsafe_plan(&format!("the snapshot of table {} would not be read exactly once", source.table)))
}

fn unsafe_plan(why: &str) -> PlanError {
    Error::internal(format!("the plan of this statement is unsafe to run and was refused: {why}")).into()
}

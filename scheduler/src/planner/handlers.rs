//! What the distribution library asks about Ancho's leaves: how many tasks, what each task reads, and where it runs.
use std::sync::Arc;

use ancho_common::{
    error::Error,
    plan::{csv::WholeCsvSource, scan::CayenneScanExec, snapshot_scan::SnapshotScanExec},
};
use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    datasource::{listing::PartitionedFile, physical_plan::FileGroup, source::DataSourceExec},
    error::{DataFusionError, Result},
    physical_plan::{ExecutionPlan, ExecutionPlanProperties},
};
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedGetterExt, DistributedLeafExec,
    NetworkCoalesceExec, RouteTasksEvent, RouteTasksEventResponse, ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
    WorkerResolver,
};
use url::Url;

use super::refusal::{PlanError, Replan};

/// A scan wants one task for each slot; a snapshot one for each partition, and two at least, since the coordinator reads none.
#[must_use]
pub fn desired_task_count(event: DesiredTaskCountEvent<'_>) -> Option<Result<DesiredTaskCountEventResponse>> {
    if let Some(snapshot) = event.plan.downcast_ref::<SnapshotScanExec>() {
        return Some(Ok(DesiredTaskCountEventResponse::desired(snapshot.source().parts.len().max(2))));
    }
    let scan = event.plan.downcast_ref::<CayenneScanExec>()?;
    Some(slots_of(scan).map(|slots| DesiredTaskCountEventResponse::desired(slots.len())))
}

fn slots_of(scan: &CayenneScanExec) -> Result<&Arc<[ancho_common::plan::scan::Slot]>> {
    scan.slots().ok_or_else(|| {
        DataFusionError::from(Error::internal(format!("the scan of table {} has no slot list", scan.source().table)))
    })
}

/// One variant per slot. A stage that the library made narrower than the slot list (a join it does not spread, a union
/// with a single row) reads through one more stage that scans on every owner and gathers.
#[must_use]
pub fn scale_up(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<CayenneScanExec>()?;
    Some(scaled(scan, event.plan, event.task_count).map(ScaleUpLeafNodeEventResponse::new))
}

fn scaled(scan: &CayenneScanExec, plan: &Arc<dyn ExecutionPlan>, width: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let slots = slots_of(scan)?.len();
    let fan_out = width.max(slots);
    let variants = (0..fan_out)
        .map(|i| scan.variant_for(i).map(|v| Arc::new(v) as Arc<dyn ExecutionPlan>))
        .collect::<Result<Vec<_>>>()?;
    let leaf: Arc<dyn ExecutionPlan> = Arc::new(DistributedLeafExec::try_new(Arc::clone(plan), variants)?);
    if width >= slots {
        return Ok(leaf);
    }
    if scan.bucketed_columns().is_some() {
        // Gathering would break the claim that equal keys meet in equal streams.
        let why = "a bucketed scan is in a stage narrower than the slot list";
        return Err(PlanError::refused(Replan::WithoutColocation, why).into());
    }
    Ok(Arc::new(NetworkCoalesceExec::try_new(leaf, slots, width)?))
}

/// Files of text go to the tasks whole and in turn, the largest ones first.
#[must_use]
pub fn scale_up_files(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let (scan, _) = WholeCsvSource::of(event.plan.as_ref())?;
    let mut files: Vec<PartitionedFile> = scan.file_groups.iter().flat_map(|group| group.iter().cloned()).collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.object_meta.size));
    let streams = event.plan.output_partitioning().partition_count();
    let mut tasks = vec![vec![Vec::new(); streams]; event.task_count];
    for (number, file) in files.into_iter().enumerate() {
        let group = number % (event.task_count * streams);
        tasks[group % event.task_count][group / event.task_count].push(file);
    }
    let variants = tasks.into_iter().map(|groups| {
        let mut scan = scan.clone();
        scan.file_groups = groups.into_iter().map(FileGroup::new).collect();
        DataSourceExec::from_data_source(scan) as Arc<dyn ExecutionPlan>
    });
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), variants);
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// Partitions of a snapshot go to the tasks whole.
#[must_use]
pub fn scale_up_snapshot(event: ScaleUpLeafNodeEvent<'_>) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<SnapshotScanExec>()?;
    let variants = scan.spread(event.task_count).into_iter();
    let variants = variants.map(|parts| Arc::new(scan.variant_of(parts)) as Arc<dyn ExecutionPlan>);
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), variants);
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// Sends each task to the executor its variants were made for.
#[must_use]
pub fn route_tasks(event: RouteTasksEvent<'_>) -> Option<Result<RouteTasksEventResponse>> {
    match leaf_urls(event.plan, event.task_count) {
        Err(error) => Some(Err(error)),
        Ok(Some(urls)) => Some(Ok(RouteTasksEventResponse::new(urls))),
        // Stages without a leaf of ours: in slot order, so that part of each shuffle stays in its process.
        Ok(None) if event.task_count > 1 => {
            let resolver = event.task_ctx.session_config().get_distributed_worker_resolver();
            Some(resolver.and_then(|r| r.get_urls()).and_then(|urls| cycle(&urls, event.task_count)))
        }
        Ok(None) => None,
    }
}

fn cycle(urls: &[Url], count: usize) -> Result<RouteTasksEventResponse> {
    if urls.is_empty() {
        return Err(Error::unavailable("no executor is up; start one or wait for one to come back").into());
    }
    Ok(RouteTasksEventResponse::new(urls.iter().cycle().take(count).cloned().collect()))
}

fn leaf_urls(plan: &Arc<dyn ExecutionPlan>, task_count: usize) -> Result<Option<Vec<Url>>> {
    let mut found: Option<Vec<Url>> = None;
    plan.apply(|node| {
        let Some(leaf) = node.downcast_ref::<DistributedLeafExec>() else { return Ok(TreeNodeRecursion::Continue) };
        if leaf.original().downcast_ref::<CayenneScanExec>().is_none() {
            return Ok(TreeNodeRecursion::Continue);
        }
        let urls = leaf.variants().iter().map(variant_url).collect::<Result<Vec<_>>>()?;
        if urls.len() != task_count || found.as_ref().is_some_and(|f| *f != urls) {
            return Err(Error::internal("the scans of one stage have different slot lists").into());
        }
        found = Some(urls);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn variant_url(variant: &Arc<dyn ExecutionPlan>) -> Result<Url> {
    let slot = variant.downcast_ref::<CayenneScanExec>().and_then(CayenneScanExec::variant_slot);
    let slot = slot.ok_or_else(|| DataFusionError::from(Error::internal("a scan was not routed to an owner")))?;
    Url::parse(&slot.url).map_err(|e| DataFusionError::External(Box::new(e)))
}

/// Executors that a query may use, in slot order.
#[derive(Debug, Clone)]
pub struct Workers(pub Vec<Url>);

impl WorkerResolver for Workers {
    fn get_urls(&self) -> Result<Vec<Url>> {
        Ok(self.0.clone())
    }
}

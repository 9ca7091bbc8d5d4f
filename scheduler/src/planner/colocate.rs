//! Joins and aggregates on the bucket column need no shuffle: equal keys already meet on one executor.
//!
//! The rule runs after all others and after the slot list is stamped. It looks for a partitioned hash join, or a final
//! aggregate, whose inputs are hash repartitions above row-wise nodes above scans, where the keys include the bucket
//! column of every scan, the scans' buckets are made alike, and every bucket lies on one executor in all of them. It
//! then drops the repartitions and makes each scan's streams out of whole buckets: bucket `b` is read by the same
//! stream of the same slot in every scan.
//!
//! The streams then follow the stored bucket hash, not the engine's own. Both are called "hash partitioning" by the
//! engine, so the rule must never leave a node that pairs the one with the other: it rewrites a node only where nothing
//! above relies on how its output is spread until the next exchange ([`Spread`]), and rewrites everything below that
//! belongs together or nothing.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::plan::scan::{BucketLayout, CayenneScanExec};
use arrow::datatypes::DataType;
use datafusion::{
    common::JoinType,
    config::ConfigOptions,
    error::Result,
    physical_expr::{Partitioning, PhysicalExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions,
        aggregates::{AggregateExec, AggregateMode},
        coalesce_partitions::CoalescePartitionsExec,
        filter::FilterExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PartitionMode},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::sort_preserving_merge::SortPreservingMergeExec,
        union::UnionExec,
    },
};

/// See the module.
#[derive(Debug)]
pub struct ColocateBuckets;

impl PhysicalOptimizerRule for ColocateBuckets {
    fn name(&self) -> &'static str {
        "ancho_colocate_buckets"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        rewrite(plan, Spread::Free)
    }
}

/// Whether a node above relies on how a node's output is spread over streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// Nothing does, up to the next exchange.
    Free,
    /// Something may.
    Fixed,
}

fn rewrite(plan: Arc<dyn ExecutionPlan>, spread: Spread) -> Result<Arc<dyn ExecutionPlan>> {
    if spread == Spread::Free
        && let Some(colocated) = colocated(&plan)?
    {
        // Below, only what ends in an exchange of its own (build sides) is still open.
        return rewrite_children(colocated, Spread::Fixed);
    }
    rewrite_children(plan, spread)
}

fn rewrite_children(plan: Arc<dyn ExecutionPlan>, spread: Spread) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children();
    if children.is_empty() {
        return Ok(plan);
    }
    let mut changed = false;
    let mut rewritten = Vec::with_capacity(children.len());
    for (index, child) in children.into_iter().enumerate() {
        let new = rewrite(Arc::clone(child), below(&plan, index, spread))?;
        changed |= !Arc::ptr_eq(child, &new);
        rewritten.push(new);
    }
    if changed { with_children(plan, rewritten) } else { Ok(plan) }
}

fn with_children(
    plan: Arc<dyn ExecutionPlan>,
    children: Vec<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    plan.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// What the children of a node may assume.
fn below(plan: &Arc<dyn ExecutionPlan>, child: usize, spread: Spread) -> Spread {
    if plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>() {
        return Spread::Free;
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return match (join.partition_mode(), child) {
            // The build side of a broadcast join ends in a gather.
            (PartitionMode::CollectLeft, 0) => Spread::Free,
            (PartitionMode::CollectLeft, _) => spread,
            _ => Spread::Fixed,
        };
    }
    if plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>() {
        return if child == 0 { Spread::Free } else { spread };
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return match aggregate.mode() {
            AggregateMode::Partial => spread,
            _ => Spread::Fixed,
        };
    }
    if plan.is::<UnionExec>() || is_row_wise(plan) { spread } else { Spread::Fixed }
}

/// Nodes that handle each row, or each stream, on its own.
fn is_row_wise(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<FilterExec>()
        || plan.is::<ProjectionExec>()
        || matches!(
            plan.name(),
            "CooperativeExec" | "CoalesceBatchesExec" | "SortExec" | "LocalLimitExec" | "GlobalLimitExec"
        )
}

/// How the streams of a rewritten subtree are made. Two subtrees may be joined without a shuffle if these agree.
#[derive(Debug, Clone)]
pub struct Buckets {
    count: u32,
    hash_version: u32,
    data_type: DataType,
    streams: usize,
    placement: BTreeMap<u32, String>,
}

impl Buckets {
    fn agrees(&self, other: &Self) -> bool {
        self.count == other.count
            && self.hash_version == other.hash_version
            && self.data_type == other.data_type
            && self.streams == other.streams
            && self.placement.iter().all(|(bucket, owner)| other.placement.get(bucket).is_none_or(|o| o == owner))
    }

    fn merged(mut self, other: Self) -> Self {
        self.placement.extend(other.placement);
        self
    }
}

/// A subtree without its shuffles, and how its streams are made.
pub type Rewritten = (Arc<dyn ExecutionPlan>, Buckets);

/// The node without its shuffles, if that is possible.
fn colocated(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if plan.downcast_ref::<HashJoinExec>().is_some_and(|j| *j.partition_mode() == PartitionMode::Partitioned) {
        return Ok(join(plan, None)?.map(|(plan, _)| plan));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && matches!(aggregate.mode(), AggregateMode::FinalPartitioned | AggregateMode::SinglePartitioned)
    {
        let groups: Vec<usize> = (0..aggregate.group_expr().expr().len()).collect();
        return Ok(bucketed(plan, &groups)?.map(|(plan, _)| plan));
    }
    Ok(None)
}

fn column_index(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

fn column_indices<'a>(exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> Option<Vec<usize>> {
    exprs.into_iter().map(column_index).collect()
}

/// `plan` with streams made of whole buckets, where `keys` (output columns of `plan`) hold the bucket column.
fn bucketed(plan: &Arc<dyn ExecutionPlan>, keys: &[usize]) -> Result<Option<Rewritten>> {
    if let Some(scan) = plan.downcast_ref::<CayenneScanExec>() {
        return Ok(scan_buckets(scan, keys));
    }
    if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        let Partitioning::Hash(exprs, _) = repartition.partitioning() else { return Ok(None) };
        let Some(columns) = column_indices(exprs) else { return Ok(None) };
        // Rows that are equal in the columns of this exchange must be equal in the bucket column.
        if !keys.iter().all(|k| columns.contains(k)) {
            return Ok(None);
        }
        return bucketed(repartition.input(), keys);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let mapped = match filter.projection() {
            Some(projection) => keys.iter().map(|k| projection.get(*k).copied()).collect(),
            None => Some(keys.to_vec()),
        };
        return through(plan, filter.input(), mapped);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let mapped = keys.iter().map(|k| projection.expr().get(*k).and_then(|p| column_index(&p.expr))).collect();
        return through(plan, projection.input(), mapped);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return aggregate_buckets(plan, aggregate, keys);
    }
    if let Some(hash_join) = plan.downcast_ref::<HashJoinExec>() {
        return match hash_join.partition_mode() {
            PartitionMode::Partitioned => join(plan, Some(keys)),
            PartitionMode::CollectLeft => probe_buckets(plan, hash_join, keys),
            PartitionMode::Auto => Ok(None),
        };
    }
    if matches!(plan.name(), "CooperativeExec" | "CoalesceBatchesExec")
        && let [child] = plan.children().as_slice()
    {
        return through(plan, child, Some(keys.to_vec()));
    }
    Ok(None)
}

fn through(
    plan: &Arc<dyn ExecutionPlan>,
    child: &Arc<dyn ExecutionPlan>,
    keys: Option<Vec<usize>>,
) -> Result<Option<Rewritten>> {
    let Some(keys) = keys else { return Ok(None) };
    let Some((child, buckets)) = bucketed(child, &keys)? else { return Ok(None) };
    Ok(Some((with_children(Arc::clone(plan), vec![child])?, buckets)))
}

fn scan_buckets(scan: &CayenneScanExec, keys: &[usize]) -> Option<Rewritten> {
    let BucketLayout { buckets, hash_version, column } = scan.source().layout.clone()?;
    if scan.bucketed_columns().is_some() || !keys.iter().any(|k| scan.projection().get(*k) == Some(&column)) {
        return None;
    }
    let mut placement = BTreeMap::new();
    for partition in &scan.source().partitions {
        placement.insert(partition.bucket?, partition.owner.executor.clone());
    }
    let data_type = scan.source().schema.field(column).data_type().clone();
    let streams = scan.streams();
    let plan = Arc::new(scan.with_buckets(keys.to_vec()));
    Some((plan, Buckets { count: buckets, hash_version, data_type, streams, placement }))
}

fn aggregate_buckets(
    plan: &Arc<dyn ExecutionPlan>,
    aggregate: &AggregateExec,
    keys: &[usize],
) -> Result<Option<Rewritten>> {
    // Grouping sets put rows of one bucket under several keys, some of them NULL.
    if !aggregate.group_expr().is_single()
        || !matches!(
            aggregate.mode(),
            AggregateMode::Partial | AggregateMode::FinalPartitioned | AggregateMode::SinglePartitioned
        )
    {
        return Ok(None);
    }
    let groups = aggregate.group_expr().expr();
    let mapped = keys.iter().map(|k| groups.get(*k).and_then(|(expr, _)| column_index(expr))).collect();
    through(plan, aggregate.input(), mapped)
}

/// A broadcast join keeps the spread of its probe side.
fn probe_buckets(plan: &Arc<dyn ExecutionPlan>, join: &HashJoinExec, keys: &[usize]) -> Result<Option<Rewritten>> {
    let offset = match join.join_type() {
        JoinType::Inner | JoinType::Right => join.left().schema().fields().len(),
        JoinType::RightSemi | JoinType::RightAnti => 0,
        _ => return Ok(None),
    };
    let Some(keys) = keys.iter().map(|k| join_column(join, *k).and_then(|c| c.checked_sub(offset))).collect() else {
        return Ok(None);
    };
    let keys: Vec<usize> = keys;
    let Some((probe, buckets)) = bucketed(join.right(), &keys)? else { return Ok(None) };
    Ok(Some((with_children(Arc::clone(plan), vec![Arc::clone(join.left()), probe])?, buckets)))
}

/// Column of the join's unprojected output that an output column shows.
fn join_column(join: &HashJoinExec, output: usize) -> Option<usize> {
    match join.projection.as_ref() {
        Some(projection) => projection.get(output).copied(),
        None => Some(output),
    }
}

/// A partitioned join without its shuffles; `None` if it needs them. `keys`, if something above relies on them, are output columns that must
/// then still hold the bucket column.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn join(plan: &Arc<dyn ExecutionPlan>, keys: Option<&[usize]>) -> Result<Option<Rewritten>> {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return Ok(None) };
    // NULL anywhere in the other side matters to these, wherever it is stored.
    if join.null_aware {
        return Ok(None);
    }
    let (Some(left_keys), Some(right_keys)) =
        (column_indices(join.on().iter().map(|(l, _)| l)), column_indices(join.on().iter().map(|(_, r)| r)))
    else {
        return Ok(None);
    };
    if let Some(keys) = keys
        && !keeps_bucket(join, keys, &left_keys, &right_keys)
    {
        return Ok(None);
    }
    let Some((left, left_buckets)) = bucketed(join.left(), &left_keys)? else { return Ok(None) };
    let Some((right, right_buckets)) = bucketed(join.right(), &right_keys)? else { return Ok(None) };
    if !left_buckets.agrees(&right_buckets) || !same_position(&left, &left_keys, &right, &right_keys) {
        return Ok(None);
    }
    // Without its dynamic filter, which would route rows by the engine's own hash.
    let rebuilt =
        join.builder().reset_state().with_new_children(vec![left, right])?.recompute_properties().build_exec()?;
    Ok(Some((rebuilt, left_buckets.merged(right_buckets))))
}

/// The bucket columns of both sides are compared with each other, not each with some other key.
fn same_position(
    left: &Arc<dyn ExecutionPlan>,
    left_keys: &[usize],
    right: &Arc<dyn ExecutionPlan>,
    right_keys: &[usize],
) -> bool {
    let position = |plan: &Arc<dyn ExecutionPlan>, keys: &[usize]| -> Option<usize> {
        let bucket = bucket_output(plan)?;
        keys.iter().position(|k| bucket.contains(k))
    };
    match (position(left, left_keys), position(right, right_keys)) {
        (Some(l), Some(r)) => l == r,
        _ => false,
    }
}

/// Output columns of a rewritten subtree that hold its bucket column.
fn bucket_output(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<usize>> {
    if let Some(scan) = plan.downcast_ref::<CayenneScanExec>() {
        let column = scan.source().layout.as_ref()?.column;
        return Some(positions(scan.projection().iter().copied(), &[column]));
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let inner = bucket_output(filter.input())?;
        return Some(match filter.projection() {
            Some(projection) => positions(projection.iter().copied(), &inner),
            None => inner,
        });
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let inner = bucket_output(projection.input())?;
        let shown = projection.expr().iter().map(|p| column_index(&p.expr).unwrap_or(usize::MAX));
        return Some(positions(shown, &inner));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let inner = bucket_output(aggregate.input())?;
        let shown = aggregate.group_expr().expr().iter().map(|(e, _)| column_index(e).unwrap_or(usize::MAX));
        return Some(positions(shown, &inner));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let left_width = match join.join_type() {
            JoinType::RightSemi | JoinType::RightAnti => 0,
            _ => join.left().schema().fields().len(),
        };
        let mut inner = Vec::new();
        if *join.partition_mode() == PartitionMode::Partitioned && preserves_left(*join.join_type()) {
            inner.extend(bucket_output(join.left())?);
        }
        if preserves_right(*join.join_type()) {
            inner.extend(bucket_output(join.right())?.into_iter().map(|c| c + left_width));
        }
        let width = join.schema().fields().len();
        let shown = (0..width).map(|i| join_column(join, i).unwrap_or(usize::MAX));
        return Some(positions(shown, &inner));
    }
    match plan.children().as_slice() {
        [child] => bucket_output(child),
        _ => None,
    }
}

fn positions(shown: impl Iterator<Item = usize>, wanted: &[usize]) -> Vec<usize> {
    shown.enumerate().filter(|(_, column)| wanted.contains(column)).map(|(output, _)| output).collect()
}

/// Every output row lies where its left side's key is stored.
fn preserves_left(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti)
}

/// Every output row lies where its right side's key is stored.
fn preserves_right(join_type: JoinType) -> bool {
    matches!(join_type, JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti)
}

/// The output columns `keys` include, on a side that the join preserves, every join key: then they include the bucket
/// column, whichever of the join keys that is.
fn keeps_bucket(join: &HashJoinExec, keys: &[usize], left_keys: &[usize], right_keys: &[usize]) -> bool {
    let shown: Option<Vec<usize>> = keys.iter().map(|k| join_column(join, *k)).collect();
    let Some(shown) = shown else { return false };
    let offset = match join.join_type() {
        JoinType::RightSemi | JoinType::RightAnti => 0,
        _ => join.left().schema().fields().len(),
    };
    let left = preserves_left(*join.join_type()) && left_keys.iter().all(|k| shown.contains(k));
    let right = preserves_right(*join.join_type()) && right_keys.iter().all(|k| shown.contains(&(k + offset)));
    left || right
}

//! How a join is spread over executors, where the engine's choice fits one process only.
//!
//! The engine collects a small build side and gives it to all streams of the process. Between processes that is a
//! broadcast, which is wrong for joins that emit rows of the build side: the distribution library turns those into joins
//! of shuffled inputs, after all rules have run. This rule does so right after the engine has chosen, so that the rules
//! behind it see the exchanges: those that the inputs' spread makes needless are never planned, and those between
//! tables that are bucketed alike are dropped again ([`super::colocate`]).
//!
//! A large build side is not broadcast either where both inputs are bucketed on the key, so that they meet without any
//! exchange, or where it is not small beside the other side: its hash table would be built once on every executor.
use std::sync::Arc;

use datafusion::{
    common::{
        JoinType,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        joins::{HashJoinExec, PartitionMode},
        statistics::{StatisticsArgs, StatisticsContext},
    },
};

use datafusion_distributed::DistributedConfig;

use super::colocate;

/// A build side of fewer rows is broadcast in any case: then the scan on the other side can skip by its keys.
const FEW_ROWS: usize = 1 << 17;

/// See the module.
#[derive(Debug)]
pub struct SpreadJoins {
    /// Joins may rely on where buckets lie.
    pub colocate: bool,
}

impl PhysicalOptimizerRule for SpreadJoins {
    fn name(&self) -> &'static str {
        "ancho_spread_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if config.execution.target_partitions < 2 {
            // In one piece.
            return Ok(plan);
        }
        let tasks = DistributedConfig::from_config_options(config)?.max_tasks_per_stage;
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
            // NULL anywhere in the other side matters to a null-aware join: it runs in one task.
            if *join.partition_mode() != PartitionMode::CollectLeft || join.null_aware || is_whole(join) {
                return Ok(Transformed::no(node));
            }
            let shuffle = emits_build_side(*join.join_type()) || self.is_costly_broadcast(join, tasks)?;
            if shuffle { shuffled(join).map(Transformed::yes) } else { Ok(Transformed::no(node)) }
        })
        .data()
    }
}

impl SpreadJoins {
    fn is_costly_broadcast(&self, join: &HashJoinExec, tasks: usize) -> Result<bool> {
        let Some(build) = rows(join.left()).filter(|rows| *rows >= FEW_ROWS) else { return Ok(false) };
        // The other executors' copies cost about as much as shuffling twice as many rows.
        let copies = build.saturating_mul(2).saturating_mul(tasks.saturating_sub(1));
        Ok(rows(join.right()).is_some_and(|probe| copies > probe) || (self.colocate && meets(join)?))
    }
}

fn shuffled(join: &HashJoinExec) -> Result<Arc<dyn ExecutionPlan>> {
    join.builder().with_partition_mode(PartitionMode::Partitioned).build_exec()
}

fn emits_build_side(join_type: JoinType) -> bool {
    !matches!(
        join_type,
        JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark
    )
}

/// Both sides come in one stream: there is nothing to spread.
fn is_whole(join: &HashJoinExec) -> bool {
    let streams = |side: &Arc<dyn ExecutionPlan>| side.properties().partitioning.partition_count();
    streams(join.left()) == 1 && streams(join.right()) == 1
}

fn rows(side: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    let statistics = StatisticsContext::new().compute(side.as_ref(), &StatisticsArgs::new());
    statistics.ok()?.num_rows.get_value().copied()
}

fn meets(join: &HashJoinExec) -> Result<bool> {
    Ok(colocate::join(&shuffled(join)?, None)?.is_some())
}

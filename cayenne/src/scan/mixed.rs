//! One scan over partitions that store the same columns under different names: those that were there before a column
//! was renamed, and those that came later.

use std::sync::Arc;

use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::union::UnionExec;

use crate::error::Result;
use crate::pin::PinnedVersion;
use crate::scan::{ScanRequest, scan};

/// The pins in groups of one form each. The order inside a group is kept.
pub(crate) fn by_stored_names(pins: &[PinnedVersion]) -> Vec<Vec<PinnedVersion>> {
    let mut groups: Vec<Vec<PinnedVersion>> = Vec::new();
    for pin in pins {
        let stored = &pin.view().schema.stored;
        match groups.iter_mut().find(|group| group[0].view().schema.stored == *stored) {
            Some(group) => group.push(pin.clone()),
            None => groups.push(vec![pin.clone()]),
        }
    }
    groups
}

/// Reads each group by a scan of its own. Together they have as many streams as were asked for.
pub(crate) fn scan_groups(groups: &[Vec<PinnedVersion>], request: &ScanRequest) -> Result<Arc<dyn ExecutionPlan>> {
    let streams = request.streams.max(1);
    let bins = streams.min(groups.len());
    let mut plans: Vec<Vec<Arc<dyn ExecutionPlan>>> = vec![Vec::new(); bins];
    for (index, group) in groups.iter().enumerate() {
        let bin = index % bins;
        // A bin of several groups is one stream; what is left over of the streams goes to the first bins.
        let share = if groups.len() > bins { 1 } else { streams / bins + usize::from(bin < streams % bins) };
        plans[bin].push(scan(group, &ScanRequest { streams: share, ..request.clone() })?);
    }
    let one_stream = |plans: Vec<Arc<dyn ExecutionPlan>>| -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match plans.len() {
            1 => union(plans)?,
            _ => Arc::new(CoalescePartitionsExec::new(union(plans)?)),
        })
    };
    union(plans.into_iter().map(one_stream).collect::<Result<_>>()?)
}

fn union(mut plans: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    match (plans.pop(), plans.is_empty()) {
        (Some(only), true) => Ok(only),
        (last, _) => {
            plans.extend(last);
            Ok(UnionExec::try_new(plans)?)
        }
    }
}

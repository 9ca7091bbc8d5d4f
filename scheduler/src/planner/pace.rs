//! Puts paces into a finished plan: see [`ancho_common::plan::pace`].
//!
//! It comes after the distribution library, which looks for joins and what is directly below them.
use std::sync::Arc;

use ancho_common::plan::{
    pace::{Pace, PacedExec},
    scan::CayenneScanExec,
};
use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode},
    error::Result,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        unnest::UnnestExec,
    },
};
use datafusion_distributed::{DistributedLeafExec, NetworkBoundaryExt};

/// The plan, with returns to the runtime above everything that makes many rows, and joins fed in slices.
///
/// # Errors
/// Never; the library's signature allows it.
pub fn pace(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let node = if works_per_pair(&node) { with_sliced_probe(node)? } else { node };
        if makes_rows(&node) {
            return Ok(Transformed::yes(Arc::new(PacedExec::new(node, Pace::Turns)) as _));
        }
        Ok(Transformed::no(node))
    })
    .data()
}

/// One batch of the probe side, which is the right one, can mean any amount of work without a row coming out.
fn works_per_pair(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<HashJoinExec>() || node.is::<NestedLoopJoinExec>()
}

fn with_sliced_probe(join: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut children: Vec<Arc<dyn ExecutionPlan>> = join.children().into_iter().cloned().collect();
    if let Some(probe) = children.pop() {
        children.push(Arc::new(PacedExec::new(probe, Pace::Slices)));
    }
    join.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// Joins, and leaves other than those of tables, which keep their pace themselves.
fn makes_rows(node: &Arc<dyn ExecutionPlan>) -> bool {
    let joins = works_per_pair(node)
        || node.is::<CrossJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<UnnestExec>();
    let of_a_table = match node.downcast_ref::<DistributedLeafExec>() {
        Some(leaf) => leaf.original().is::<CayenneScanExec>(),
        None => node.is::<CayenneScanExec>(),
    };
    let leaf = node.children().is_empty() && !node.is_network_boundary() && !of_a_table;
    joins || leaf
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int64Array, RecordBatch},
        datatypes::{DataType, Field, Schema},
    };
    use datafusion::{
        datasource::MemTable,
        execution::SessionStateBuilder,
        physical_plan::{collect, displayable},
        prelude::{SessionConfig, SessionContext},
    };

    use super::*;

    #[tokio::test]
    async fn joins_of_every_type_give_the_same_rows_at_a_pace() {
        let config = SessionConfig::new().with_target_partitions(2).with_batch_size(128);
        let context = SessionContext::new_with_state(
            SessionStateBuilder::new().with_default_features().with_config(config).build(),
        );
        for (name, rows) in [("a", 300), ("b", 500)] {
            let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, true)]));
            let numbers = Int64Array::from_iter((0..rows).map(|n| (n % 7 != 0).then_some(n % 100)));
            let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)]).unwrap();
            let table = MemTable::try_new(schema, vec![vec![batch]]).unwrap();
            context.register_table(name, Arc::new(table)).unwrap();
        }
        let mut sliced = 0;
        for kind in ["INNER JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"] {
            for on in ["a.n = b.n", "a.n = b.n AND a.n + b.n < 90", "a.n < b.n", "a.n + b.n = 1000"] {
                let sql = format!("SELECT count(*), sum(n) FROM (SELECT a.n FROM a {kind} b ON {on})");
                let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
                let paced = pace(Arc::clone(&plan)).unwrap();
                sliced += displayable(paced.as_ref()).indent(false).to_string().matches("slices").count();
                let expected = collect(plan, context.task_ctx()).await.unwrap();
                assert_eq!(collect(paced, context.task_ctx()).await.unwrap(), expected, "{sql}");
            }
        }
        assert_eq!(sliced, 24, "every one of these is a join by hash or by nested loops");
    }
}

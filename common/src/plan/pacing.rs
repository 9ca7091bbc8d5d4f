//! Puts paces into a finished plan: see [`pace`](mod@super::pace).
//!
//! For the plan of a query this comes after the distribution library, which looks for joins and what is directly below
//! them; for the plan inside a table's scan, where it is opened.
use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    error::Result,
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{BinaryExpr, LikeExpr},
    },
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions,
        aggregates::{AggregateExec, AggregateInputMode},
        filter::FilterExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::sort::SortExec,
        unnest::UnnestExec,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};
use datafusion_distributed::{BroadcastExec, DistributedLeafExec, NetworkBoundaryExt, NetworkCoalesceExec};

use super::{
    pace::{Pace, PacedExec},
    scan::CayenneScanExec,
};

/// The plan, with returns to the runtime above everything that works long or makes many rows, and slices below what
/// works long on a row.
///
/// # Errors
/// Never; the library's signature allows it.
pub fn pace(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|node| {
        let slow = works_per_pair(&node) || computes(&node)?;
        let node = if slow { with_sliced_input(node)? } else { node };
        let node = if node.is_network_boundary() { with_paced_stage(node)? } else { node };
        if slow || makes_rows(&node) {
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

/// It computes what can take long on a single row, such as a regular expression over a long text.
fn computes(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let polls_its_input = node.is::<FilterExec>()
        || node.is::<ProjectionExec>()
        || node.downcast_ref::<AggregateExec>().is_some_and(|a| a.mode().input_mode() == AggregateInputMode::Raw)
        || node.is::<SortExec>()
        || node.is::<WindowAggExec>()
        || node.is::<BoundedWindowAggExec>();
    let mut found = false;
    if polls_its_input {
        node.apply_expressions(&mut |root| {
            found |= root.exists(|expr| Ok(may_take_long(expr)))?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(found)
}

fn may_take_long(expr: &Arc<dyn PhysicalExpr>) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch, StringConcat};
    let texts = |op: &Operator| matches!(op, RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch | StringConcat);
    expr.is::<ScalarFunctionExpr>()
        || expr.is::<LikeExpr>()
        || expr.downcast_ref::<BinaryExpr>().is_some_and(|binary| texts(binary.op()))
}

/// The last input in slices: the only one, or the probe side of a join.
fn with_sliced_input(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut children: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
    if let Some(input) = children.pop() {
        children.push(Arc::new(PacedExec::new(input, Pace::Slices)));
    }
    node.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The stage that a boundary reads, with a pace at its head, or just below a head that deals rows out to consumers: such
/// a one is made anew where the stage runs, in place of the one that is at the very top, if there is one. Below a pace
/// it would stay, and deal rows out twice. It reads its input in tasks of its own, for which the pace below it counts.
fn with_paced_stage(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let deals = !node.is::<NetworkCoalesceExec>();
    let paced = |head: &Arc<dyn ExecutionPlan>| {
        if deals && (head.is::<RepartitionExec>() || head.is::<BroadcastExec>()) {
            let inputs = head.children().into_iter().map(with_turns).collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Arc::clone(head).replace_children(inputs, options)
        } else {
            Ok(with_turns(head))
        }
    };
    let heads = node.children().into_iter().map(paced).collect::<Result<Vec<_>>>()?;
    node.replace_children(heads, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

fn with_turns(node: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    if node.downcast_ref::<PacedExec>().is_some_and(|paced| paced.pace() == Pace::Turns) {
        return Arc::clone(node);
    }
    Arc::new(PacedExec::new(Arc::clone(node), Pace::Turns))
}

/// Joins, and the leaves of a stage, which are what other stages send, too; scans of tables are paced where they are
/// opened.
fn makes_rows(node: &Arc<dyn ExecutionPlan>) -> bool {
    let joins = node.is::<CrossJoinExec>() || node.is::<SortMergeJoinExec>() || node.is::<UnnestExec>();
    let of_a_table = match node.downcast_ref::<DistributedLeafExec>() {
        Some(leaf) => leaf.original().is::<CayenneScanExec>(),
        None => node.is::<CayenneScanExec>(),
    };
    let leaf = (node.children().is_empty() && !of_a_table) || node.is_network_boundary();
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
                // Planned twice: parts of a plan give their rows only once.
                let plan = context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap();
                let paced = pace(context.sql(&sql).await.unwrap().create_physical_plan().await.unwrap()).unwrap();
                sliced += displayable(paced.as_ref()).indent(false).to_string().matches("slices").count();
                let expected = collect(plan, context.task_ctx()).await.unwrap();
                assert_eq!(collect(paced, context.task_ctx()).await.unwrap(), expected, "{sql}");
            }
        }
        assert_eq!(sliced, 24, "every one of these is a join by hash or by nested loops");
    }

    #[tokio::test]
    async fn what_computes_on_text_is_fed_in_slices_and_plain_arithmetic_is_not() {
        let context = SessionContext::new();
        for (sql, sliced) in [
            ("SELECT value FROM generate_series(1, 9) WHERE value % 2 = 0", 0),
            ("SELECT sum(value + 1) FROM generate_series(1, 9)", 0),
            ("SELECT value FROM generate_series(1, 9) WHERE CAST(value AS VARCHAR) LIKE '%1%2%'", 1),
            ("SELECT max(md5(CAST(value AS VARCHAR))) FROM generate_series(1, 9)", 1),
        ] {
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let paced = pace(context.sql(sql).await.unwrap().create_physical_plan().await.unwrap()).unwrap();
            let text = displayable(paced.as_ref()).indent(false).to_string();
            assert_eq!(text.matches("slices").count(), sliced, "{text}");
            let expected = collect(plan, context.task_ctx()).await.unwrap();
            assert_eq!(collect(paced, context.task_ctx()).await.unwrap(), expected, "{sql}");
        }
    }
}

//! Pushing projections down, but nothing out of a CASE.
//!
//! The engine's rule also takes parts of a nested loop join's filter that concern one side, and computes them for all rows of
//! that side, also what stands in a branch of a CASE for the sake of the rows it is for (`CASE WHEN d <> 0 THEN n / d …`).
use std::sync::Arc;

use datafusion::{
    common::tree_node::{TransformedResult, TreeNode},
    config::ConfigOptions,
    error::Result,
    physical_expr::expressions::CaseExpr,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, PhysicalExpr, joins::NestedLoopJoinExec, projection::remove_unnecessary_projections,
    },
};

/// In place of the engine's rule, which it holds.
#[derive(Debug)]
pub struct PushProjections(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for PushProjections {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let has_branches = plan.exists(|node| {
            let filter = node.downcast_ref::<NestedLoopJoinExec>().and_then(NestedLoopJoinExec::filter);
            Ok(filter.is_some_and(|filter| chooses(filter.expression())))
        })?;
        match has_branches {
            true => plan.transform_down(remove_unnecessary_projections).data(),
            false => self.0.optimize(plan, config),
        }
    }

    fn name(&self) -> &'static str {
        "ancho_push_projections"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn chooses(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<CaseExpr>().is_some() || expr.children().into_iter().any(chooses)
}

//! Keeps the engine's push-down of filters away from plans in which it could hit the wrong column.
//!
//! On its way down a physical filter is matched to each node's columns by name. Where a node has two columns of one name
//! (a join of tables that share column names), the filter can end up on the other table's column, and rows that should
//! come out are dropped. So filters are pushed down only in plans whose nodes have no such columns; elsewhere they stay
//! above the scans, where the optimizer put them.
use std::{collections::HashSet, sync::Arc};

use datafusion::{
    common::tree_node::{TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    error::Result,
    physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule, optimizer::PhysicalOptimizer},
    physical_plan::ExecutionPlan,
};

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// The engine's rules, with the push-down of filters guarded.
#[must_use]
pub fn guarded_rules() -> Vec<Rule> {
    let guarded = |rule: Rule| -> Rule {
        if rule.name().starts_with("FilterPushdown") { Arc::new(WithoutAmbiguity(rule)) } else { rule }
    };
    PhysicalOptimizer::new().rules.into_iter().map(guarded).collect()
}

/// Applies a rule only to plans without two columns of one name.
#[derive(Debug)]
struct WithoutAmbiguity(Rule);

impl PhysicalOptimizerRule for WithoutAmbiguity {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        if is_ambiguous(&plan)? { Ok(plan) } else { self.0.optimize(plan, config) }
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if is_ambiguous(&plan)? { Ok(plan) } else { self.0.optimize_with_context(plan, context) }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

fn is_ambiguous(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut ambiguous = false;
    plan.apply(|node| {
        let schema = node.schema();
        let mut names = HashSet::with_capacity(schema.fields().len());
        ambiguous |= !schema.fields().iter().all(|field| names.insert(field.name().as_str()));
        Ok(if ambiguous { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(ambiguous)
}

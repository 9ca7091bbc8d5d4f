//! The rules of the physical optimizer: the engine's, in its order, with ours between, instead of, and after them.
use std::sync::Arc;

use datafusion::{
    physical_optimizer::{
        PhysicalOptimizerRule, combine_partial_final_agg::CombinePartialFinalAggregate, optimizer::PhysicalOptimizer,
    },
    physical_plan::filter_pushdown::FilterPushdownPhase,
};

use super::{
    colocate::ColocateBuckets, projections::PushProjections, pushdown::PushFilters, slots::StampSlots,
    spread::SpreadJoins,
};

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// All rules; `colocate` says whether shuffles may be dropped where buckets meet.
#[must_use]
pub fn rules(colocate: bool) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    for rule in PhysicalOptimizer::new().rules {
        match rule.name() {
            "join_selection" => {
                rules.push(rule);
                rules.push(Arc::new(SpreadJoins { colocate }));
            }
            "FilterPushdown" => rules.push(Arc::new(PushFilters(FilterPushdownPhase::Pre))),
            "FilterPushdown(Post)" => rules.push(Arc::new(PushFilters(FilterPushdownPhase::Post))),
            "ProjectionPushdown" => rules.push(Arc::new(PushProjections(rule))),
            _ => rules.push(rule),
        }
    }
    rules.push(Arc::new(StampSlots));
    if colocate {
        rules.push(Arc::new(ColocateBuckets));
        // Where the exchange between the two steps of an aggregate is gone, one step does.
        rules.push(Arc::new(CombinePartialFinalAggregate::new()));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules that are replaced are found by their names, which another release may change.
    #[test]
    fn the_rules_that_ours_build_on_are_there_once() {
        let names = |colocate| rules(colocate).iter().map(|rule| rule.name().to_owned()).collect::<Vec<_>>();
        let engine = PhysicalOptimizer::new().rules.len();
        assert_eq!(names(true).len(), engine + 4);
        assert_eq!(names(false).len(), engine + 2);
        for ours in ["ancho_push_filters", "ancho_push_dynamic_filters", "ancho_spread_joins"] {
            assert_eq!(names(true).iter().filter(|name| *name == ours).count(), 1, "{ours}");
        }
        assert!(names(true).iter().any(|name| name == "ancho_push_projections"));
        assert!(!names(true).iter().any(|name| name.starts_with("FilterPushdown") || name == "ProjectionPushdown"));
    }
}

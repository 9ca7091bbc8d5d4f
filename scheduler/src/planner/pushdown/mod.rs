//! Filters are pushed towards the scans by the positions of their columns.
//!
//! The engine's own rule follows a filter down by the names of its columns. Where a node has two columns of one name (a
//! join of tables that share column names), or where an input has another column of the name (the inner side of a semi
//! join), the filter ends up on the wrong column, and rows that should come out are dropped. This rule asks the nodes
//! the same questions as the engine's, except for the way of a column through a node, which it knows itself
//! ([`routes`]), by index.
mod routes;

use std::sync::Arc;

use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    config::ConfigOptions,
    error::{DataFusionError, Result},
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_expr_common::physical_expr::is_volatile,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        execution_plan::replace_children_if_necessary,
        filter::FilterExec,
        filter_pushdown::{
            ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
        },
    },
};

use self::routes::Route;

type Filter = Arc<dyn PhysicalExpr>;
type Pushed = FilterPushdownPropagation<Arc<dyn ExecutionPlan>>;

/// See the module. Filters of the statement move in the first phase; those that joins and top-k make while they run are
/// tied to the finished plan in the second.
#[derive(Debug)]
pub struct PushFilters(pub FilterPushdownPhase);

impl PhysicalOptimizerRule for PushFilters {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let pushed = push(&plan, &[], config, self.0)?;
        Ok(pushed.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &'static str {
        match self.0 {
            FilterPushdownPhase::Pre => "ancho_push_filters",
            FilterPushdownPhase::Post => "ancho_push_dynamic_filters",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// What one child was given of a node's filters, and what it made of it.
struct Answers {
    /// One for each filter from above.
    parents: Vec<PushedDown>,
    /// One for each filter of the node itself.
    own: Vec<PushedDown>,
}

/// Pushes `parents`, filters over the output of `node`, and the filters that the node has itself, as far down as they
/// go. The answer says of each of `parents` whether it still has to be applied above.
fn push(
    node: &Arc<dyn ExecutionPlan>,
    parents: &[Filter],
    config: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<Pushed> {
    let own_filters = node.gather_filters_for_pushdown(phase, Vec::new(), config)?.self_filters();
    let routes = routes::of(node, phase)?;
    let mut children = Vec::with_capacity(routes.len());
    let mut answers = Vec::with_capacity(routes.len());
    for (index, child) in node.children().into_iter().enumerate() {
        let own = own_filters.get(index).map_or(&[][..], Vec::as_slice);
        let (new, answer) = push_into(child, parents, own, routes.get(index).and_then(Option::as_ref), config, phase)?;
        children.push(new);
        answers.push(answer);
    }
    let updated = replace_children_if_necessary(Arc::clone(node), children)?;

    // A filter with a projection would look up by name what it takes over from above; it is not given any.
    let takes_over = updated.downcast_ref::<FilterExec>().is_none_or(|f| f.projection().is_none());
    let asked: Vec<usize> = (0..parents.len())
        .filter(|parent| takes_over || answers.iter().all(|a| matches!(a.parents[*parent], PushedDown::Yes)))
        .collect();
    let result = ChildPushdownResult {
        parent_filters: asked
            .iter()
            .map(|parent| ChildFilterPushdownResult {
                filter: Arc::clone(&parents[*parent]),
                child_results: answers.iter().map(|a| a.parents[*parent]).collect(),
            })
            .collect(),
        self_filters: answers
            .iter()
            .zip(own_filters)
            .map(|(a, filters)| a.own.iter().zip(filters).map(|(answer, f)| answer.wrap_expression(f)).collect())
            .collect(),
    };
    let mut pushed = updated.handle_child_pushdown_result(phase, result, config)?;
    if pushed.updated_node.is_none() && !Arc::ptr_eq(&updated, node) {
        pushed.updated_node = Some(updated);
    }
    let mut filters = vec![PushedDown::No; parents.len()];
    for (parent, answer) in asked.into_iter().zip(&pushed.filters) {
        filters[parent] = *answer;
    }
    Ok(FilterPushdownPropagation { filters, ..pushed })
}

fn push_into(
    child: &Arc<dyn ExecutionPlan>,
    parents: &[Filter],
    own: &[Filter],
    route: Option<&Route>,
    config: &ConfigOptions,
    phase: FilterPushdownPhase,
) -> Result<(Arc<dyn ExecutionPlan>, Answers)> {
    let mut given = Vec::new();
    let mut own_positions = Vec::new();
    for (position, filter) in own.iter().enumerate() {
        if !is_volatile(filter) {
            given.push(Arc::clone(filter));
            own_positions.push(position);
        }
    }
    let mut parent_positions = Vec::new();
    for (position, filter) in parents.iter().enumerate() {
        if is_volatile(filter) {
            continue;
        }
        if let Some(routed) = route.map(|route| through(filter, route)).transpose()?.flatten() {
            given.push(routed);
            parent_positions.push(position);
        }
    }
    let pushed = push(child, &given, config, phase)?;
    if pushed.filters.len() != given.len() {
        return Err(DataFusionError::Internal(format!(
            "{} answered {} of {} filters",
            child.name(),
            pushed.filters.len(),
            given.len()
        )));
    }
    let mut answers = Answers { parents: vec![PushedDown::No; parents.len()], own: vec![PushedDown::No; own.len()] };
    let (for_own, for_parents) = pushed.filters.split_at(own_positions.len());
    for (position, answer) in own_positions.into_iter().zip(for_own) {
        answers.own[position] = *answer;
    }
    for (position, answer) in parent_positions.into_iter().zip(for_parents) {
        answers.parents[position] = *answer;
    }
    Ok((pushed.updated_node.unwrap_or_else(|| Arc::clone(child)), answers))
}

/// A filter over a node's output as one over a child's, if the child has all that it reads.
fn through(filter: &Filter, route: &Route) -> Result<Option<Filter>> {
    let mut complete = true;
    let routed = Arc::clone(filter).transform_down(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        match route.get(column.index()).and_then(Option::as_ref) {
            // Its columns are those of the child already.
            Some(below) => Ok(Transformed::new(Arc::clone(below), true, TreeNodeRecursion::Jump)),
            None => {
                complete = false;
                Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop))
            }
        }
    });
    routed.data().map(|routed| complete.then_some(routed))
}

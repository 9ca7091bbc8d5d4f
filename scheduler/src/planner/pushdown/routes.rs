//! The way of columns through the nodes of a physical plan, from a node's output to its children, by index.
use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::{JoinSide, JoinType},
    error::Result,
    physical_expr::{PhysicalExpr, expressions::Column},
    physical_expr_common::physical_expr::is_volatile,
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        buffer::BufferExec,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        filter::FilterExec,
        filter_pushdown::FilterPushdownPhase,
        joins::{HashJoinExec, utils::build_join_schema},
        projection::ProjectionExec,
        repartition::RepartitionExec,
        sorts::sort::SortExec,
        union::UnionExec,
    },
};

use crate::planner::gather::GatherExec;

/// For each output column of a node the expression over one child's columns that it shows; `None` where a filter over
/// the column must not be moved to that child.
pub type Route = Vec<Option<Arc<dyn PhysicalExpr>>>;

/// One route for each child of a node; `None` for a child to which no filter from above may move.
///
/// A filter may move to a child if applying it there, too, changes no row that passes it above. A node that is not
/// known here keeps its filters above itself.
pub fn of(node: &Arc<dyn ExecutionPlan>, phase: FilterPushdownPhase) -> Result<Vec<Option<Route>>> {
    let children = node.children();
    // A limit counts the rows that come before the filter.
    if node.fetch().is_some() {
        return Ok(vec![None; children.len()]);
    }
    if let Some(filter) = node.downcast_ref::<FilterExec>() {
        let schema = filter.input().schema();
        let shown = match filter.projection() {
            Some(projection) => projection.to_vec(),
            None => (0..schema.fields().len()).collect(),
        };
        return Ok(vec![Some(shown.into_iter().map(|i| column(filter.input(), i)).collect())]);
    }
    if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        // What is not the same twice is computed once, where the plan put it.
        let shown = |expr: &Arc<dyn PhysicalExpr>| (!is_volatile(expr)).then(|| Arc::clone(expr));
        return Ok(vec![Some(projection.expr().iter().map(|p| shown(&p.expr)).collect())]);
    }
    if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        return Ok(vec![groups(aggregate)]);
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Ok(sides(join, phase));
    }
    let same_columns = node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<CooperativeExec>()
        || node.is::<BufferExec>()
        || node.is::<SortExec>()
        || node.is::<UnionExec>()
        // What is found out above while the plan runs is not known in the processes below.
        || (node.is::<GatherExec>() && matches!(phase, FilterPushdownPhase::Pre));
    if same_columns {
        let width = node.schema().fields().len();
        return Ok(children.into_iter().map(|child| Some((0..width).map(|i| column(child, i)).collect())).collect());
    }
    Ok(vec![None; children.len()])
}

fn column(child: &Arc<dyn ExecutionPlan>, index: usize) -> Option<Arc<dyn PhysicalExpr>> {
    let schema = child.schema();
    let field = schema.fields().get(index)?;
    Some(Arc::new(Column::new(field.name(), index)))
}

/// A filter over columns that are grouped by removes whole groups, before the aggregate as well as after it.
fn groups(aggregate: &AggregateExec) -> Option<Route> {
    let group_by = aggregate.group_expr();
    let sets = group_by.groups();
    // A set of no columns gives a row for no row, which a filter below could not remove.
    if group_by.is_true_no_grouping() || sets.iter().any(|set| set.iter().all(|is_null| *is_null)) {
        return None;
    }
    let mut route: Route = vec![None; aggregate.schema().fields().len()];
    for (index, (expr, _)) in group_by.expr().iter().enumerate() {
        // In a grouping set without the column its value is NULL, whatever the row below has.
        let in_all_sets = sets.iter().all(|set| set.get(index) != Some(&true));
        if in_all_sets && expr.is::<Column>() {
            route[index] = Some(Arc::clone(expr));
        }
    }
    Some(route)
}

/// A filter may move to the side whose rows come out unchanged. In the second phase, in which filters are only hints,
/// one over the keys of a semi join may also move to the other side, where every matching row has equal values.
fn sides(join: &HashJoinExec, phase: FilterPushdownPhase) -> Vec<Option<Route>> {
    let (schema_left, schema_right) = (join.left().schema(), join.right().schema());
    let (_, origins) = build_join_schema(&schema_left, &schema_right, join.join_type());
    let shown: Vec<usize> = match join.projection.as_ref() {
        Some(projection) => projection.to_vec(),
        None => (0..origins.len()).collect(),
    };
    let of_side = |side: JoinSide, child: &Arc<dyn ExecutionPlan>| -> Route {
        let shown = shown.iter().map(|i| origins.get(*i).filter(|origin| origin.side == side));
        shown.map(|origin| origin.and_then(|origin| column(child, origin.index))).collect()
    };
    let keys_of = |side: JoinSide| -> Route {
        let partners: HashMap<usize, &Arc<dyn PhysicalExpr>> = join
            .on()
            .iter()
            .filter_map(|(left, right)| {
                let (from, to) = if side == JoinSide::Left { (left, right) } else { (right, left) };
                from.downcast_ref::<Column>().map(|key| (key.index(), to))
            })
            .collect();
        let shown = shown.iter().map(|i| origins.get(*i).filter(|origin| origin.side == side));
        shown.map(|origin| origin.and_then(|o| partners.get(&o.index).map(|to| Arc::clone(to)))).collect()
    };
    let hints = matches!(phase, FilterPushdownPhase::Post);
    let (left, right) = match join.join_type() {
        JoinType::Inner => (true, true),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
        JoinType::Full => (false, false),
    };
    let mut routes =
        vec![left.then(|| of_side(JoinSide::Left, join.left())), right.then(|| of_side(JoinSide::Right, join.right()))];
    match join.join_type() {
        JoinType::LeftSemi if hints => routes[1] = Some(keys_of(JoinSide::Left)),
        JoinType::RightSemi if hints => routes[0] = Some(keys_of(JoinSide::Right)),
        _ => {}
    }
    routes
}

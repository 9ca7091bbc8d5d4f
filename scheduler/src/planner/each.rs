//! Subqueries that are tied to the outer query otherwise than by `=`, where a value is wanted.
//!
//! The engine plans a subquery once, for all outer rows, and joins it by the columns that tie it by `=`. One that is tied by
//! `<`, say, is run here for each distinct row of the outer columns that it refers to: these rows are joined to what it reads,
//! all operators above keep them apart, and its values are joined to the outer query by them. An outer row of which an aggregate
//! sees nothing still has the aggregate's value of nothing.
use std::collections::HashMap;

use datafusion::{
    common::{
        Column, DFSchema, JoinType, NullEquality,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    error::Result,
    functions::core::expr_fn::coalesce,
    logical_expr::{
        Aggregate, BinaryExpr, Distinct, Expr, FetchType, Join, Limit, LogicalPlan, LogicalPlanBuilder, Operator,
        SkipType, Sort, Subquery, Union,
        expr_rewriter::NamePreserver,
        lit,
        utils::{conjunction, split_conjunction},
    },
};

use super::{
    limits::{Ordered, numbering, ordered},
    ties::has_subquery,
};

/// The plan with such subqueries as joins. Output names stay.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn rewrite(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut names = Names::default();
    plan.transform_up_with_subqueries(|node| match &node {
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) => {
            Ok(joined(&node, &mut names)?.map_or_else(|| Transformed::no(node), Transformed::yes))
        }
        _ => Ok(Transformed::no(node)),
    })
    .data()
}

/// Names that nothing else has.
#[derive(Default)]
struct Names(usize);

impl Names {
    fn next(&mut self) -> String {
        self.0 += 1;
        format!("__ancho_each_{}", self.0)
    }
}

/// The node over its input joined with the values of its subqueries.
fn joined(node: &LogicalPlan, names: &mut Names) -> Result<Option<LogicalPlan>> {
    let mut subqueries: Vec<Subquery> = Vec::new();
    for expr in node.expressions() {
        expr.apply(|e| {
            if let Expr::ScalarSubquery(subquery) = e
                && !subquery.outer_ref_columns.is_empty()
                && !subqueries.contains(subquery)
                && !is_tied_by_equality(&subquery.subquery)?
            {
                subqueries.push(subquery.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    let inputs = node.inputs();
    let [outer] = inputs.as_slice() else { return Ok(None) };
    // The outer rows are read twice, and must be the same.
    if subqueries.is_empty() || is_volatile(outer)? || !outer.all_out_ref_exprs().is_empty() {
        return Ok(None);
    }
    let mut plan = (*outer).clone();
    let mut values: HashMap<Subquery, Column> = HashMap::new();
    for subquery in subqueries {
        let Some((with_value, value)) = with_value(plan.clone(), outer, &subquery, names)? else { continue };
        plan = with_value;
        values.insert(subquery, value);
    }
    if values.is_empty() {
        return Ok(None);
    }
    let saved = NamePreserver::new(node);
    let expressions = node.expressions().into_iter().map(|expr| {
        let name = saved.save(&expr);
        let replaced = expr.transform_up(|e| match &e {
            Expr::ScalarSubquery(subquery) => Ok(match values.get(subquery) {
                Some(value) => Transformed::yes(Expr::Column(value.clone())),
                None => Transformed::no(e),
            }),
            _ => Ok(Transformed::no(e)),
        })?;
        Ok(if replaced.transformed { name.restore(replaced.data) } else { replaced.data })
    });
    let above = node.with_new_exprs(expressions.collect::<Result<Vec<_>>>()?, vec![plan])?;
    if let LogicalPlan::Projection(_) = node {
        return Ok(Some(above));
    }
    let shown = node.schema().columns().into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(above).project(shown)?.build().map(Some)
}

/// The outer rows with the value of a subquery as a column.
fn with_value(
    plan: LogicalPlan,
    outer: &LogicalPlan,
    subquery: &Subquery,
    names: &mut Names,
) -> Result<Option<(LogicalPlan, Column)>> {
    let mut keys: Vec<Column> = Vec::new();
    for reference in &subquery.outer_ref_columns {
        let Expr::OuterReferenceColumn(_, column) = reference else { return Ok(None) };
        // A column of a query further out cannot be told here.
        if !outer.schema().has_column(column) {
            return Ok(None);
        }
        if !keys.contains(column) {
            keys.push(column.clone());
        }
    }
    let rows =
        LogicalPlanBuilder::from(outer.clone()).project(keys.iter().cloned().map(Expr::Column))?.distinct()?.build()?;
    let Some(Each { plan: each, own }) = each(&subquery.subquery, &OuterRows { rows, keys: &keys }, names)? else {
        return Ok(None);
    };
    let value = names.next();
    let first = Expr::Column(Column::from(each.schema().qualified_field(0))).alias(&value);
    let renamed: Vec<String> = own.iter().map(|_| names.next()).collect();
    let own = own.into_iter().zip(&renamed).map(|(column, name)| Expr::Column(column).alias(name));
    let values = LogicalPlanBuilder::from(each).project(std::iter::once(first).chain(own))?.build()?;
    let on = (keys, renamed.iter().map(Column::from_name).collect());
    let plan = LogicalPlanBuilder::from(plan)
        .join_detailed(values, JoinType::Left, on, None, NullEquality::NullEqualsNull)?
        .build()?;
    Ok(Some((plan, Column::from_name(value))))
}

/// The distinct rows of the columns that a subquery refers to.
struct OuterRows<'a> {
    rows: LogicalPlan,
    keys: &'a [Column],
}

impl OuterRows<'_> {
    /// The rows under names of their own, and these.
    fn named(&self, names: &mut Names) -> Result<(LogicalPlan, Vec<Column>)> {
        let own: Vec<String> = self.keys.iter().map(|_| names.next()).collect();
        let columns = self.keys.iter().zip(&own).map(|(key, name)| Expr::Column(key.clone()).alias(name));
        let rows = LogicalPlanBuilder::from(self.rows.clone()).project(columns)?.build()?;
        Ok((rows, own.iter().map(Column::from_name).collect()))
    }

    /// An expression of the subquery where the outer row is at hand in these columns.
    fn inside(&self, expr: Expr, own: &[Column]) -> Result<Expr> {
        expr.transform_up(|e| match &e {
            Expr::OuterReferenceColumn(_, column) => Ok(match self.keys.iter().position(|key| key == column) {
                Some(index) => Transformed::yes(Expr::Column(own[index].clone())),
                None => Transformed::no(e),
            }),
            _ => Ok(Transformed::no(e)),
        })
        .data()
    }
}

/// A plan of a subquery for each outer row, and its columns that say which.
struct Each {
    plan: LogicalPlan,
    own: Vec<Column>,
}

/// The rows of a subquery for each outer row; `None` for forms that this does not know.
fn each(plan: &LogicalPlan, outer: &OuterRows<'_>, names: &mut Names) -> Result<Option<Each>> {
    if plan.all_out_ref_exprs().is_empty() {
        let (rows, own) = outer.named(names)?;
        return Ok(Some(Each { plan: LogicalPlanBuilder::from(plan.clone()).cross_join(rows)?.build()?, own }));
    }
    for expr in plan.expressions() {
        if has_subquery(&expr)? || expr.is_volatile() {
            return Ok(None);
        }
    }
    match plan {
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate, outer, names),
        LogicalPlan::Limit(limit) => of_limit(limit, outer, names),
        LogicalPlan::Join(join) => of_join(join, outer, names),
        LogicalPlan::Union(union) => of_union(union, outer, names),
        LogicalPlan::Sort(Sort { fetch: None, input, .. }) => each(input, outer, names),
        LogicalPlan::Projection(projection) => {
            let Some(Each { plan, own }) = each(&projection.input, outer, names)? else { return Ok(None) };
            let inside = projection.expr.iter().map(|e| outer.inside(e.clone(), &own)).collect::<Result<Vec<_>>>()?;
            let all = inside.into_iter().chain(own.iter().cloned().map(Expr::Column));
            Ok(Some(Each { plan: LogicalPlanBuilder::from(plan).project(all)?.build()?, own }))
        }
        LogicalPlan::Filter(filter) => {
            let Some(Each { plan, own }) = each(&filter.input, outer, names)? else { return Ok(None) };
            let predicate = outer.inside(filter.predicate.clone(), &own)?;
            Ok(Some(Each { plan: LogicalPlanBuilder::from(plan).filter(predicate)?.build()?, own }))
        }
        LogicalPlan::SubqueryAlias(node) => {
            let Some(Each { plan, own }) = each(&node.input, outer, names)? else { return Ok(None) };
            let plan = LogicalPlanBuilder::from(plan).alias(node.alias.clone())?.build()?;
            let own = own.into_iter().map(|column| Column::new(Some(node.alias.clone()), column.name)).collect();
            Ok(Some(Each { plan, own }))
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let Some(Each { plan, own }) = each(input, outer, names)? else { return Ok(None) };
            Ok(Some(Each { plan: LogicalPlanBuilder::from(plan).distinct()?.build()?, own }))
        }
        _ => Ok(None),
    }
}

fn of_aggregate(aggregate: &Aggregate, outer: &OuterRows<'_>, names: &mut Names) -> Result<Option<Each>> {
    if aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_))) {
        return Ok(None);
    }
    let Some(Each { plan, own }) = each(&aggregate.input, outer, names)? else { return Ok(None) };
    let inside = |expressions: &[Expr]| -> Result<Vec<Expr>> {
        let inside = expressions.iter().map(|e| {
            let name = e.schema_name().to_string();
            let inside = outer.inside(e.clone(), &own)?;
            Ok(if inside == *e { inside } else { inside.alias(name) })
        });
        inside.collect()
    };
    let groups = inside(&aggregate.group_expr)?.into_iter().chain(own.iter().cloned().map(Expr::Column));
    let grouped = LogicalPlanBuilder::from(plan).aggregate(groups, inside(&aggregate.aggr_expr)?)?.build()?;
    if !aggregate.group_expr.is_empty() {
        return Ok(Some(Each { plan: grouped, own }));
    }
    // Outer rows for which there was nothing to aggregate.
    let (rows, all) = outer.named(names)?;
    let values = aggregate.aggr_expr.iter().zip(aggregate.schema.iter());
    let values = values.map(|(expr, (table, field))| {
        let value = Expr::Column(Column::from((table, field)));
        let Expr::AggregateFunction(function) = expr.clone().unalias() else { return Ok(value) };
        let of_nothing = function.func.default_value(field.data_type())?;
        Ok(match of_nothing.is_null() {
            true => value,
            false => coalesce(vec![value, lit(of_nothing)]).alias_qualified(table.cloned(), field.name()),
        })
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    let plan = LogicalPlanBuilder::from(rows)
        .join_detailed(grouped, JoinType::Left, (all.clone(), own), None, NullEquality::NullEqualsNull)?
        .project(values.into_iter().chain(all.iter().cloned().map(Expr::Column)))?
        .build()?;
    Ok(Some(Each { plan, own: all }))
}

fn of_limit(limit: &Limit, outer: &OuterRows<'_>, names: &mut Names) -> Result<Option<Each>> {
    let (Ok(SkipType::Literal(skipped)), Ok(FetchType::Literal(fetched))) =
        (limit.get_skip_type(), limit.get_fetch_type())
    else {
        return Ok(None);
    };
    let Ordered { rows, order, above } = ordered(&limit.input);
    let Some(Each { plan, own }) = each(rows, outer, names)? else { return Ok(None) };
    let order = order.into_iter().map(|mut by| {
        by.expr = outer.inside(by.expr, &own)?;
        Ok(by)
    });
    let order = order.collect::<Result<Vec<_>>>()?;
    let keys: Vec<Expr> = own.iter().cloned().map(Expr::Column).collect();
    let number = numbering(keys.clone(), order)?;
    let numbers = Expr::Column(Column::from_name(number.schema_name().to_string()));
    let passed = |rows: usize| lit(u64::try_from(rows).unwrap_or(u64::MAX));
    let mut conditions = vec![numbers.clone().gt(passed(skipped))];
    if let Some(fetched) = fetched {
        conditions.push(numbers.lt_eq(passed(skipped.saturating_add(fetched))));
    }
    let Some(condition) = conjunction(conditions) else { return Ok(None) };
    let shown = rows.schema().columns().into_iter().map(Expr::Column).chain(keys.clone());
    let mut plan = LogicalPlanBuilder::from(plan).window([number])?.filter(condition)?.project(shown)?;
    for projection in above.into_iter().rev() {
        let inside = projection.expr.iter().map(|e| outer.inside(e.clone(), &own)).collect::<Result<Vec<_>>>()?;
        plan = plan.project(inside.into_iter().chain(keys.clone()))?;
    }
    Ok(Some(Each { plan: plan.build()?, own }))
}

fn of_join(join: &Join, outer: &OuterRows<'_>, names: &mut Names) -> Result<Option<Each>> {
    if !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
        return Ok(None);
    }
    let Some(Each { plan: left, own }) = each(&join.left, outer, names)? else { return Ok(None) };
    let mut on: Vec<Expr> = join.on.iter().map(|(l, r)| l.clone().eq(r.clone())).chain(join.filter.clone()).collect();
    let right = if join.right.all_out_ref_exprs().is_empty() {
        join.right.as_ref().clone()
    } else {
        let Some(Each { plan: right, own: others }) = each(&join.right, outer, names)? else { return Ok(None) };
        let same = own.iter().cloned().zip(others).map(|(l, r)| same(l, r));
        on.extend(same);
        right
    };
    let on = on.into_iter().map(|e| outer.inside(e, &own)).collect::<Result<Vec<_>>>()?;
    let shown = join.schema.columns().into_iter().map(Expr::Column).chain(own.iter().cloned().map(Expr::Column));
    let plan = LogicalPlanBuilder::from(left).join_on(right, join.join_type, on)?.project(shown)?.build()?;
    Ok(Some(Each { plan, own }))
}

fn of_union(union: &Union, outer: &OuterRows<'_>, names: &mut Names) -> Result<Option<Each>> {
    let mut all: Option<LogicalPlan> = None;
    for input in &union.inputs {
        let Some(Each { plan, own }) = each(input, outer, names)? else { return Ok(None) };
        let columns = input.schema().columns().into_iter().chain(own).map(Expr::Column);
        let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        all = Some(match all {
            Some(others) => LogicalPlanBuilder::from(others).union(plan)?.build()?,
            None => plan,
        });
    }
    let Some(plan) = all else { return Ok(None) };
    let own = plan.schema().columns().split_off(union.schema.fields().len());
    Ok(Some(Each { plan, own }))
}

fn same(left: Column, right: Column) -> Expr {
    let (left, right) = (Box::new(Expr::Column(left)), Box::new(Expr::Column(right)));
    Expr::BinaryExpr(BinaryExpr::new(left, Operator::IsNotDistinctFrom, right))
}

/// Whether the engine finds the columns to join a subquery by.
fn is_tied_by_equality(plan: &LogicalPlan) -> Result<bool> {
    let mut by_equality = true;
    plan.apply(|node| {
        by_equality &= match node {
            LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate)
                .into_iter()
                .filter(|condition| condition.contains_outer())
                .all(|condition| is_equality(condition, filter.input.schema())),
            LogicalPlan::Limit(_) | LogicalPlan::Sort(_) | LogicalPlan::Union(_) | LogicalPlan::Join(_) => {
                node.all_out_ref_exprs().is_empty()
            }
            other => !other.expressions().iter().any(Expr::contains_outer),
        };
        Ok(if by_equality { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(by_equality)
}

/// A column, or one that is cast, that equals something of the outer query.
fn is_equality(condition: &Expr, inner: &DFSchema) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return false };
    let is_tie = |column: &Expr, other: &Expr| {
        let column = match column {
            Expr::Cast(cast) => cast.expr.as_ref(),
            column => column,
        };
        matches!(column, Expr::Column(column) if inner.has_column(column)) && other.column_refs().is_empty()
    };
    is_tie(left, right) || is_tie(right, left)
}

fn is_volatile(plan: &LogicalPlan) -> Result<bool> {
    let mut volatile = false;
    plan.apply_with_subqueries(|node| {
        volatile |= node.expressions().iter().any(Expr::is_volatile);
        Ok(if volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(volatile)
}

//! Which predicates run inside the file scan.
//!
//! Vortex evaluates expressions on compressed data, which is fast, but a few of its operators differ
//! from DataFusion's: integer arithmetic fails where DataFusion wraps, a field of a NULL struct is
//! NULL, floats are compared by another order of NaN and the zeros. So this is a list of what is known to be
//! the same: comparisons, `IN`, `LIKE`, NULL tests and their boolean combinations, over columns,
//! literals and widening casts of non-float types. The rest stays in DataFusion.
//!
//! Dynamic filters (of joins and top-k) are hints: what they say when a file is opened is used as far
//! as it is on the list. They only ever get stricter, so an early state keeps too much, never too little.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::error::Result as DFResult;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NotExpr,
};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{DynamicFilterTracking, PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use vortex::dtype::Nullability;
use vortex::expr::{Expression, and_collect, get_item, lit, pack, root};
use vortex::layout::layouts::row_idx::row_idx;
use vortex::session::VortexSession;
use vortex_datafusion::convert::{DefaultExpressionConverter, ExpressionConverter, ProcessedProjection};

use crate::row_id::ROW_COLUMN;
use crate::scan::row_ids;

/// A list in a dynamic filter longer than this is left to the join it comes from.
const MAX_DYNAMIC_LIST: usize = 1024;

/// Converts only what means the same on both sides.
pub(crate) struct ExactConverter {
    inner: DefaultExpressionConverter,
}

impl ExactConverter {
    pub(crate) fn new(session: &VortexSession) -> Self {
        Self { inner: DefaultExpressionConverter::new(session.clone()) }
    }

    fn convert_hint(&self, hint: &Arc<dyn PhysicalExpr>, schema: &Schema) -> DFResult<Expression> {
        let now = snapshot_physical_expr(Arc::clone(hint))?;
        let mut parts = Vec::new();
        for part in split_conjunction(&now) {
            let too_long = part.downcast_ref::<InListExpr>().is_some_and(|list| list.list().len() > MAX_DYNAMIC_LIST);
            if too_long || !is_exact(part, schema) {
                continue;
            }
            // A hint that cannot be converted is no reason to fail.
            parts.extend(self.inner.try_convert(part, schema).ok().flatten());
        }
        Ok(and_collect(parts).unwrap_or_else(|| lit(true)))
    }
}

impl ExpressionConverter for ExactConverter {
    fn try_convert(&self, expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> DFResult<Option<Expression>> {
        if expr.downcast_ref::<DynamicFilterPhysicalExpr>().is_some() {
            return self.convert_hint(expr, schema).map(Some);
        }
        if !is_exact(expr, schema) || DynamicFilterTracking::classify(expr).contains_dynamic_filter() {
            return Ok(None);
        }
        self.inner.try_convert(expr, schema)
    }

    fn no_pushdown_projection(&self, projection: ProjectionExprs, schema: &Schema) -> DFResult<ProcessedProjection> {
        let columns = projection.column_indices();
        let Some(with_positions) = row_ids::take_positions(&projection, schema.fields().len())? else {
            return self.inner.no_pushdown_projection(projection, schema);
        };
        let read = schema.project(&columns)?;
        let raw = read.fields().iter().map(|field| (field.name().clone(), get_item(field.name().as_str(), root())));
        let raw: Vec<(String, Expression)> = raw.chain([(ROW_COLUMN.to_owned(), row_idx())]).collect();
        let mut fields: Vec<FieldRef> = read.fields().iter().cloned().collect();
        fields.push(row_ids::row_field());
        Ok(ProcessedProjection {
            scan_projection: pack(raw, Nullability::NonNullable),
            scan_reference_schema: Schema::new(fields),
            leftover_projection: with_positions,
        })
    }
}

fn is_exact(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            Operator::And | Operator::Or => is_exact(binary.left(), schema) && is_exact(binary.right(), schema),
            Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq => {
                is_value(binary.left(), schema) && is_value(binary.right(), schema)
            }
            _ => false,
        };
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return is_exact(not.arg(), schema);
    }
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        return is_column(is_null.arg());
    }
    if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
        return is_column(is_not_null.arg());
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return is_value(list.expr(), schema)
            && list.list().iter().all(|item| item.downcast_ref::<Literal>().is_some());
    }
    if let Some(like) = expr.downcast_ref::<LikeExpr>() {
        return !like.case_insensitive() && is_value(like.expr(), schema) && is_text_literal(like.pattern());
    }
    is_boolean(expr, schema)
}

fn is_column(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Column>().is_some()
}

fn is_boolean(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    is_value(expr, schema) && matches!(expr.data_type(schema), Ok(DataType::Boolean))
}

fn is_text_literal(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Literal>().is_some_and(|literal| matches!(literal.value().try_as_str(), Some(Some(_))))
}

/// A column, a literal that is not NULL, or a cast of a column, of a type that both sides compare alike.
fn is_value(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let known = match expr.downcast_ref::<Literal>() {
        Some(literal) => !literal.value().is_null(),
        None => match expr.downcast_ref::<CastExpr>() {
            Some(cast) => is_column(cast.expr()) && is_value(cast.expr(), schema) && casts_alike(cast, schema),
            None => is_column(expr),
        },
    };
    known && expr.data_type(schema).is_ok_and(|data_type| compares_alike(&data_type))
}

/// Other casts change digits or units, which is not for the file format to do.
fn casts_alike(cast: &CastExpr, schema: &Schema) -> bool {
    let (Ok(from), to) = (cast.expr().data_type(schema), cast.cast_type()) else { return false };
    from.is_integer() && to.is_integer() || from.is_string() && to.is_string() || from.is_binary() && to.is_binary()
}

fn compares_alike(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => compares_alike(value),
        other => {
            other.is_integer()
                || other.is_decimal()
                || other.is_string()
                || other.is_binary()
                || matches!(
                    other,
                    DataType::Boolean
                        | DataType::Date32
                        | DataType::Date64
                        | DataType::Time32(_)
                        | DataType::Time64(_)
                        | DataType::Timestamp(_, _)
                )
        }
    }
}

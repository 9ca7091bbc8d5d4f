//! What the rules over single expressions share: the walk over a plan node's expressions.
use datafusion::{
    common::{DFSchema, tree_node::Transformed, tree_node::TreeNode},
    error::Result,
    logical_expr::{Expr, LogicalPlan, expr_rewriter::NamePreserver, utils::merge_schema},
};

/// The columns that the expressions of a node may refer to, those of a table for the filters of its scan.
///
/// # Errors
/// The columns of a scanned table do not make a schema.
pub(super) fn columns_of(node: &LogicalPlan) -> Result<DFSchema> {
    let mut schema = merge_schema(&node.inputs());
    if let LogicalPlan::TableScan(scan) = node {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    Ok(schema)
}

/// The node with `change` made to each part of its expressions, inner ones first. They keep their names.
///
/// # Errors
/// Those of the library's walk.
pub(super) fn changed(
    node: LogicalPlan,
    mut change: impl FnMut(Expr) -> Transformed<Expr>,
) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&node);
    node.map_expressions(|expr| {
        let name = names.save(&expr);
        let changed = expr.transform_up(|part| Ok(change(part)))?;
        Ok(if changed.transformed { changed.update_data(|expr| name.restore(expr)) } else { changed })
    })
}

//! Tables inside the recursive term of a recursive query.
//!
//! The term runs once per round, but rows that cross between processes can be read only once. So every table that a
//! recursive query reads is gathered first, with the filters and columns that the optimizer pushed to it, and the
//! rounds read the gathered rows in the scheduler.
use std::{collections::HashMap, sync::Arc};

use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::{
    common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion},
    datasource::{MemTable, provider_as_source, source_as_provider},
    error::Result,
    logical_expr::{LogicalPlan, LogicalPlanBuilder, TableScan},
};

use super::table::AnchoTable;

/// The scans of Ancho tables inside recursive queries, each once. `plan` must be optimized.
///
/// # Errors
/// Only what walking a plan can raise.
pub fn find(plan: &LogicalPlan) -> Result<Vec<TableScan>> {
    let mut found: Vec<TableScan> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::RecursiveQuery(_) = node {
            node.apply_with_subqueries(|inner| {
                if let LogicalPlan::TableScan(scan) = inner
                    && is_ancho(scan)
                    && !found.contains(scan)
                {
                    found.push(scan.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

fn is_ancho(scan: &TableScan) -> bool {
    source_as_provider(&scan.source).is_ok_and(|p| p.is::<AnchoTable>())
}

/// The plan with those scans inside recursive queries reading the gathered rows instead.
///
/// # Errors
/// Only what rewriting a plan can raise.
pub fn replace(plan: LogicalPlan, gathered: &HashMap<TableScan, Vec<RecordBatch>>) -> Result<LogicalPlan> {
    if gathered.is_empty() {
        return Ok(plan);
    }
    plan.transform_down_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::RecursiveQuery(_)) {
            return Ok(Transformed::no(node));
        }
        let inside = node.transform_up_with_subqueries(|inner| match &inner {
            LogicalPlan::TableScan(scan) => match gathered.get(scan) {
                Some(batches) => Ok(Transformed::yes(in_memory(scan, batches)?)),
                None => Ok(Transformed::no(inner)),
            },
            _ => Ok(Transformed::no(inner)),
        })?;
        Ok(Transformed::new(inside.data, inside.transformed, TreeNodeRecursion::Jump))
    })
    .data()
}

fn in_memory(scan: &TableScan, batches: &[RecordBatch]) -> Result<LogicalPlan> {
    let schema = Arc::new(scan.projected_schema.as_arrow().clone());
    let batches = batches
        .iter()
        .map(|b| {
            // Of a table that is counted only, rows without columns are left.
            let rows = RecordBatchOptions::new().with_row_count(Some(b.num_rows()));
            RecordBatch::try_new_with_options(Arc::clone(&schema), b.columns().to_vec(), &rows).map_err(Into::into)
        })
        .collect::<Result<Vec<_>>>()?;
    let table = MemTable::try_new(schema, vec![batches])?;
    // The gathered rows already passed the scan's filters and limit.
    LogicalPlanBuilder::scan(scan.table_name.clone(), provider_as_source(Arc::new(table)), None)?.build()
}

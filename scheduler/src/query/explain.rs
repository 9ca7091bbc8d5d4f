//! The distributed plan as text, with or without what it took.
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::error::{Error, Result};
use arrow::{
    array::{ArrayRef, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    logical_expr::LogicalPlan,
    physical_plan::{ExecutionPlan, displayable, execute_stream},
};
use datafusion_distributed::{
    DistributedExec, DistributedMetricsFormat, display_plan_ascii, rewrite_distributed_plan_with_metrics,
};
use futures::TryStreamExt;

use super::{attempt::Attempt, figures::filled};
use crate::planner::refusal::PlanResult;

/// Metrics arrive after the last row, of all tasks. An executor may be lost before it has sent its own, so the wait must
/// end.
const METRICS_WAIT: Duration = Duration::from_secs(5);

/// Columns of `EXPLAIN`.
#[must_use]
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("plan_type", DataType::Utf8, false),
        Field::new("plan", DataType::Utf8, false),
    ]))
}

fn rows(parts: &[(&str, String)]) -> Result<RecordBatch> {
    let kinds: ArrayRef = Arc::new(StringArray::from_iter_values(parts.iter().map(|p| p.0)));
    let plans: ArrayRef = Arc::new(StringArray::from_iter_values(parts.iter().map(|p| p.1.as_str())));
    RecordBatch::try_new(schema(), vec![kinds, plans]).map_err(|e| Error::internal(e.to_string()))
}

/// `EXPLAIN`: the optimized logical plan and the distributed plan with its stages, tasks and owners; as a tree only with
/// its nodes.
///
/// # Errors
/// The statement cannot be planned.
pub async fn explain(attempt: &Attempt, plan: LogicalPlan, tree: bool) -> PlanResult<RecordBatch> {
    let logical = attempt.session().optimize(&plan)?.display_indent().to_string();
    let physical = attempt.physical(plan).await?;
    let text = if tree {
        displayable(physical.as_ref()).tree_render().to_string()
    } else {
        display_plan_ascii(physical.as_ref(), false)
    };
    Ok(rows(&[("logical_plan", logical), ("distributed_plan", text)])?)
}

/// `EXPLAIN` of a statement that needs no plan.
///
/// # Errors
/// None that a text could raise.
pub fn without_plan(what: &str) -> Result<RecordBatch> {
    rows(&[("distributed_plan", what.to_owned())])
}

/// `EXPLAIN ANALYZE`: runs the query, discards its rows, and shows rows, bytes and time of each stage. `started` is when
/// the statement came: planning counts from then, without the scalar subqueries, which are queries of their own.
///
/// # Errors
/// The statement cannot be planned, or fails when run.
pub async fn analyze(
    attempt: &Attempt,
    plan: LogicalPlan,
    per_task: bool,
    started: Instant,
) -> PlanResult<RecordBatch> {
    let physical = attempt.physical(plan).await?;
    let subqueries = attempt.subqueries_took();
    let planned = started.elapsed().saturating_sub(subqueries);
    let mut stream = execute_stream(Arc::clone(&physical), attempt.session().task_ctx())?;
    let (mut count, mut bytes) = (0usize, 0usize);
    while let Some(batch) = stream.try_next().await? {
        count += batch.num_rows();
        bytes += batch.get_array_memory_size();
    }
    drop(stream);
    let summary = format!(
        "rows={count}, bytes={bytes}, planning={:.3} ms, subqueries={:.3} ms, total={:.3} ms",
        planned.as_secs_f64() * 1e3,
        subqueries.as_secs_f64() * 1e3,
        started.elapsed().as_secs_f64() * 1e3
    );
    let text = with_metrics(&physical, per_task).await?;
    Ok(rows(&[("summary", summary), ("distributed_plan_with_metrics", text)])?)
}

async fn with_metrics(plan: &Arc<dyn ExecutionPlan>, per_task: bool) -> Result<String> {
    if !plan.is::<DistributedExec>() {
        return Ok(display_plan_ascii(filled(plan)?.as_ref(), true));
    }
    let format = if per_task { DistributedMetricsFormat::PerTask } else { DistributedMetricsFormat::Aggregated };
    let rewritten = rewrite_distributed_plan_with_metrics(Arc::clone(plan), format);
    match tokio::time::timeout(METRICS_WAIT, rewritten).await {
        Ok(rewritten) => Ok(display_plan_ascii(filled(&rewritten?)?.as_ref(), true)),
        Err(_) => {
            let text = display_plan_ascii(plan.as_ref(), true);
            Ok(format!("{text}\n(not all tasks sent their metrics within {METRICS_WAIT:?}, so none are shown)"))
        }
    }
}

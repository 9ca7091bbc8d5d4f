//! Makes every task of a query report what it took, also one that was never started.
//!
//! A task whose rows nobody asked for sends no metrics, and whoever waits for those of all tasks would wait for ever. So
//! where the call that set the task up ends without them, an empty report takes their place. A report that does not fit
//! the task's plan is replaced, too: metrics come without names, in the order of the nodes, and would be shown at others.
use std::{future::ready, sync::Arc};

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::{
    error::Result,
    execution::TaskContext,
    physical_plan::{
        ExecutionPlan,
        metrics::{ExecutionPlanMetricsSet, MetricsSet},
    },
};
use datafusion_distributed::{
    CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse, MaybeEncoded,
    NetworkBoundaryExt, SetPlanRequest, TaskMetrics, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::HeaderMap;
use parking_lot::Mutex;

/// A connection to a worker whose tasks all report.
pub struct Reporting(pub Box<dyn WorkerChannel>);

#[async_trait]
impl WorkerChannel for Reporting {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        to_worker: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let nodes = match &request.plan {
            MaybeEncoded::Decoded(plan) => Some(nodes(plan)),
            MaybeEncoded::Encoded(_) => None,
        };
        let messages = self.0.coordinator_channel(headers, request, to_worker, metrics, context).await?;
        Ok(match nodes {
            Some(nodes) => reported(messages, nodes),
            None => messages,
        })
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        self.0.execute_task(headers, request, metrics, context).await
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> Result<GetWorkerInfoResponse> {
        self.0.get_worker_info(request).await
    }
}

/// Nodes of one stage.
fn nodes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    if plan.is_network_boundary() {
        return 1;
    }
    1 + plan.children().into_iter().map(nodes).sum::<usize>()
}

/// The messages, with one report of a plan of so many nodes before they end without an error.
fn reported(
    messages: BoxStream<'static, Result<WorkerToCoordinatorMsg>>,
    nodes: usize,
) -> BoxStream<'static, Result<WorkerToCoordinatorMsg>> {
    let missing = Arc::new(Mutex::new(true));
    let seen = Arc::clone(&missing);
    let messages = messages.map(move |message| match message {
        Ok(WorkerToCoordinatorMsg::TaskMetrics(mut metrics)) => {
            *seen.lock() = false;
            let sent = metrics.pre_order_plan_metrics.len();
            if sent != nodes {
                tracing::warn!(sent, nodes, "the metrics of a task do not fit its plan and are not shown");
                metrics.pre_order_plan_metrics = vec![MetricsSet::new(); nodes];
            }
            Ok(WorkerToCoordinatorMsg::TaskMetrics(metrics))
        }
        Err(error) => {
            *seen.lock() = false;
            Err(error)
        }
        other => other,
    });
    let last = stream::once(async move {
        let empty =
            || TaskMetrics { pre_order_plan_metrics: vec![MetricsSet::new(); nodes], task_metrics: MetricsSet::new() };
        missing.lock().then(|| Ok(WorkerToCoordinatorMsg::TaskMetrics(empty())))
    });
    messages.chain(last.filter_map(ready)).boxed()
}

#[cfg(test)]
mod tests {
    use datafusion::error::DataFusionError;

    use super::*;

    /// Sizes of the reports that come out, and how many errors.
    async fn reports(messages: Vec<Result<WorkerToCoordinatorMsg>>) -> (Vec<usize>, usize) {
        let all: Vec<_> = reported(stream::iter(messages).boxed(), 3).collect().await;
        let errors = all.iter().filter(|message| message.is_err()).count();
        let sizes = all.into_iter().filter_map(|message| match message {
            Ok(WorkerToCoordinatorMsg::TaskMetrics(metrics)) => Some(metrics.pre_order_plan_metrics.len()),
            _ => None,
        });
        (sizes.collect(), errors)
    }

    fn report(nodes: usize) -> Result<WorkerToCoordinatorMsg> {
        Ok(WorkerToCoordinatorMsg::TaskMetrics(TaskMetrics {
            pre_order_plan_metrics: vec![MetricsSet::new(); nodes],
            task_metrics: MetricsSet::new(),
        }))
    }

    #[tokio::test]
    async fn there_is_one_report_that_fits_unless_the_call_fails() {
        assert_eq!(reports(vec![Ok(WorkerToCoordinatorMsg::LoadInfoEos)]).await, (vec![3], 0));
        assert_eq!(reports(vec![report(3), Ok(WorkerToCoordinatorMsg::LoadInfoEos)]).await, (vec![3], 0));
        assert_eq!(reports(vec![report(4)]).await, (vec![3], 0));
        assert_eq!(reports(vec![Err(DataFusionError::Internal("gone".into()))]).await, (vec![], 1));
    }
}

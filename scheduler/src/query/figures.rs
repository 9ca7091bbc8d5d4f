//! Figures of plan nodes that keep none of their own.
//!
//! Some nodes of the libraries measure nothing: what only hands rows on, and some leaves. A pace above such a node has
//! counted what it gave, and what only hands rows on gives what its input has given.
use std::{fmt, sync::Arc};

use ancho_common::plan::pace::PacedExec;
use datafusion::{
    common::tree_node::TreeNodeRecursion,
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        coop::CooperativeExec,
        metrics::{MetricValue, MetricsSet},
    },
};
use datafusion_distributed::BroadcastExec;

/// An executed plan with figures at every node that ran.
///
/// # Errors
/// Never for a plan that was executed; the library's signature allows it.
pub fn filled(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    fill(plan, None)
}

/// `taken` is what the node above has counted, if it is a pace.
fn fill(node: &Arc<dyn ExecutionPlan>, taken: Option<&MetricsSet>) -> Result<Arc<dyn ExecutionPlan>> {
    let own = node.metrics().filter(|metrics| metrics.iter().next().is_some());
    let below = own.as_ref().filter(|_| node.is::<PacedExec>());
    let inputs = node.children().into_iter().map(|input| fill(input, below)).collect::<Result<Vec<_>>>()?;
    let hands_on = node.is::<CooperativeExec>() || node.is::<BroadcastExec>();
    let given = if hands_on { inputs.first().and_then(|input| input.metrics()) } else { None };
    // A node with other inputs begins anew, so that its own figures are kept here, too.
    let metrics = own.or_else(|| taken.cloned().or(given).as_ref().map(output));
    let node = if inputs.is_empty() {
        Arc::clone(node)
    } else {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Arc::clone(node).replace_children(inputs, options)?
    };
    Ok(match metrics {
        Some(metrics) => Arc::new(Filled { node, metrics }),
        None => node,
    })
}

/// What is said of rows; the time was another node's.
fn output(metrics: &MetricsSet) -> MetricsSet {
    let mut output = MetricsSet::new();
    for metric in metrics.iter() {
        if matches!(
            metric.value(),
            MetricValue::OutputRows(_) | MetricValue::OutputBytes(_) | MetricValue::OutputBatches(_)
        ) {
            output.push(Arc::clone(metric));
        }
    }
    output
}

/// A node of a plan that is only shown, with figures.
#[derive(Debug)]
struct Filled {
    node: Arc<dyn ExecutionPlan>,
    metrics: MetricsSet,
}

impl DisplayAs for Filled {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt_as(format, f)
    }
}

impl ExecutionPlan for Filled {
    fn name(&self) -> &str {
        self.node.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.node.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.node.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.node.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        let node = Arc::clone(&self.node).replace_children(inputs, options)?;
        Ok(Arc::new(Self { node, metrics: self.metrics.clone() }))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(DataFusionError::Internal("a plan that is shown with its figures was to run again".into()))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone())
    }

    fn downcast_delegate(&self) -> Option<&dyn ExecutionPlan> {
        Some(self.node.as_ref())
    }
}

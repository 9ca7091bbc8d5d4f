//! The end of a write's plan: a logical node over the rows to write, and its physical form.
//!
//! The physical node stands below the last gather of the plan, so that rows are routed by the tasks that produce them,
//! on all executors, rather than through the scheduler.
use std::{
    cmp::Ordering,
    fmt::{self, Formatter},
    hash::{Hash, Hasher},
    pin::Pin,
    sync::{Arc, LazyLock},
};

use ancho_common::plan::write::{PartitionWriteExec, WriteTarget, output_schema};
use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::{DFSchema, DFSchemaRef},
    error::{DataFusionError, Result},
    execution::context::QueryPlanner,
    logical_expr::{
        Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_plan::ExecutionPlan,
    physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner},
};

/// Writes the rows of its input.
#[derive(Clone)]
pub struct WriteNode {
    input: LogicalPlan,
    target: Arc<WriteTarget>,
    schema: DFSchemaRef,
}

// Short, because the library puts it into error texts.
impl fmt::Debug for WriteNode {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "write to table {}", self.target.table)
    }
}

impl WriteNode {
    /// The rows of `input` into `target`.
    ///
    /// # Errors
    /// Never; the library's signature allows it.
    pub fn try_new(input: LogicalPlan, target: Arc<WriteTarget>) -> Result<Self> {
        let schema = Arc::new(DFSchema::try_from(output_schema().as_ref().clone())?);
        Ok(Self { input, target, schema })
    }
}

impl PartialEq for WriteNode {
    fn eq(&self, other: &Self) -> bool {
        self.input == other.input && self.target.write_id == other.target.write_id
    }
}

impl Eq for WriteNode {}

impl Hash for WriteNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.target.write_id.hash(state);
    }
}

impl PartialOrd for WriteNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.target.write_id.partial_cmp(&other.target.write_id)
    }
}

impl UserDefinedLogicalNodeCore for WriteNode {
    fn name(&self) -> &'static str {
        "AnchoWrite"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "AnchoWrite: table={}", self.target.table)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let input = inputs.pop().ok_or_else(|| DataFusionError::Internal("a write needs one input".into()))?;
        Ok(Self { input, target: Arc::clone(&self.target), schema: Arc::clone(&self.schema) })
    }
}

#[derive(Debug)]
struct WritePlanner;

#[async_trait]
impl ExtensionPlanner for WritePlanner {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(write), [input]) = (node.as_any().downcast_ref::<WriteNode>(), inputs) else { return Ok(None) };
        Ok(Some(Arc::new(PartitionWriteExec::try_new(Arc::clone(input), Arc::clone(&write.target))?)))
    }
}

/// The default planner plus Ancho's write; the distribution library wraps it.
#[derive(Debug)]
pub struct AnchoQueryPlanner;

#[async_trait]
impl QueryPlanner for AnchoQueryPlanner {
    // Without an async block of its own, as `AnchoTable::scan` and for the same reason.
    fn create_physical_plan<'life0, 'life1, 'life2, 'async_trait>(
        &'life0 self,
        plan: &'life1 LogicalPlan,
        session: &'life2 dyn Session,
    ) -> Pin<Box<dyn Future<Output = Result<Arc<dyn ExecutionPlan>>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        'life1: 'async_trait,
        'life2: 'async_trait,
        Self: 'async_trait,
    {
        static PLANNER: LazyLock<DefaultPhysicalPlanner> =
            LazyLock::new(|| DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(WritePlanner)]));
        PLANNER.create_physical_plan(plan, session)
    }
}

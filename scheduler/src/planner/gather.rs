//! Plans that run in one piece: the scans run on the owners, and everything above them in the scheduler, on one stream.
//!
//! The fallback for what a distributed plan would get wrong: operators whose settings the plan encoding drops, and
//! operators that rely on an order which a shuffle does not keep.
use std::{
    fmt::{self, Formatter},
    sync::Arc,
};

use datafusion::{
    common::{
        Statistics,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, SessionState, TaskContext},
    logical_expr::{Expr, GroupingSet, LogicalPlan, expr::NullTreatment},
    physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements, PlanProperties,
        execution_plan::{Boundedness, EmissionType},
        statistics::{ChildStats, StatisticsArgs},
    },
};

use super::{
    refusal::{PlanError, PlanResult, Replan},
    topology::Topology,
};

/// Refuses to distribute what would come out wrong, so that it is planned again in one piece.
///
/// # Errors
/// The plan has such a part and the session does not gather.
pub fn check(plan: &LogicalPlan, session: &SessionState) -> PlanResult<()> {
    if session.config().get_extension::<Topology>().is_some_and(|t| t.gather) || !needs_one_piece(plan)? {
        return Ok(());
    }
    Err(PlanError::refused(Replan::InOnePiece, "a part of it would come out wrong when it is spread"))
}

fn needs_one_piece(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        for expr in node.expressions() {
            found |= expr.exists(|e| Ok(is_reduced_window(e) || groups_by_nothing(e)))?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The plan encoding drops `IGNORE NULLS` and `FILTER` of window functions.
fn is_reduced_window(expr: &Expr) -> bool {
    let Expr::WindowFunction(window) = expr else { return false };
    window.params.null_treatment == Some(NullTreatment::IgnoreNulls) || window.params.filter.is_some()
}

/// The plan encoding cannot tell `GROUPING SETS (())` from no grouping.
fn groups_by_nothing(expr: &Expr) -> bool {
    matches!(expr, Expr::GroupingSet(GroupingSet::GroupingSets(sets)) if sets.iter().all(Vec::is_empty))
}

/// Passes on one stream; keeps the optimizer from moving anything below it that needs more.
#[derive(Debug)]
pub struct GatherExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl GatherExec {
    /// Above a scan.
    #[must_use]
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { input, properties }
    }
}

impl DisplayAs for GatherExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("GatherExec")
    }
}

impl ExecutionPlan for GatherExec {
    fn name(&self) -> &'static str {
        "GatherExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("a gather needs one input".into()))?;
        Ok(Arc::new(Self::new(input)))
    }

    fn execute(&self, stream: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(stream, context)
    }

    fn child_stats_requests(&self, _: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(None)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(inputs.first().map_or_else(|| Arc::new(Statistics::new_unknown(&self.schema())), Arc::clone))
    }
}

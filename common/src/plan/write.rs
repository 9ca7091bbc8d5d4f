//! The node that ends a write's plan: it runs where its input runs, in as many tasks, and sends every row, and every name
//! of a row to delete, to the owner of its partition. Its output says what was sent where; nothing is visible before the coordinator commits.
use std::{
    fmt::{self, Formatter},
    sync::{Arc, LazyLock},
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, StringArray, UInt64Array},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use datafusion::{
    common::tree_node::TreeNodeRecursion,
    error::{DataFusionError, Result},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::TryStreamExt;

use super::{
    changes::{KeyRule, WriteForm},
    channels::Channels,
    router::{AssignerExtension, Route, RowRouter, SentRows},
};
use crate::{
    error::{Condition, Error},
    ids::{ExecutorId, PartitionId, TableId, WriteId},
    partition::PartitionSpec,
};

/// What is written, and where partitions were when the write began.
#[derive(Debug, Clone)]
pub struct WriteTarget {
    /// The write.
    pub write_id: WriteId,
    /// Table.
    pub table_id: TableId,
    /// Name, for people.
    pub table: String,
    /// Schema of the table; rows to add must have exactly it.
    pub schema: SchemaRef,
    /// How often its columns had changed when the write was planned.
    pub schema_version: u64,
    /// Which columns the input has.
    pub form: WriteForm,
    /// Which row of a key stays.
    pub key_rule: KeyRule,
    /// How rows are spread.
    pub partition_spec: PartitionSpec,
    /// The rows replace the table's.
    pub overwrite: bool,
    /// Known partitions.
    pub routes: Vec<Route>,
}

static OUTPUT: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("partition_id", DataType::UInt64, false),
        Field::new("epoch", DataType::UInt64, false),
        Field::new("executor_id", DataType::Utf8, false),
        Field::new("executor_url", DataType::Utf8, false),
        Field::new("rows", DataType::UInt64, false),
        Field::new("deletes", DataType::UInt64, false),
        Field::new("removed", DataType::UInt64, false),
    ]))
});

/// Columns of the node's output: what was sent where.
#[must_use]
pub fn output_schema() -> SchemaRef {
    Arc::clone(&OUTPUT)
}

/// See the module.
#[derive(Debug)]
pub struct PartitionWriteExec {
    input: Arc<dyn ExecutionPlan>,
    target: Arc<WriteTarget>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl PartitionWriteExec {
    /// A write of the rows of `input`, which must have the column types of the write's form in order.
    ///
    /// # Errors
    /// A column's type differs.
    pub fn try_new(input: Arc<dyn ExecutionPlan>, target: Arc<WriteTarget>) -> Result<Self> {
        let (have, want) = (input.schema(), target.form.input(&target.schema));
        let same = have.fields().len() == want.len()
            && have.fields().iter().zip(&want).all(|(h, w)| h.data_type() == w.data_type());
        if !same {
            return Err(Error::internal(format!(
                "rows for table {} have the columns {have:?}, not {want:?}",
                target.table
            ))
            .into());
        }
        let streams = input.output_partitioning().partition_count();
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&OUTPUT)),
            Partitioning::UnknownPartitioning(streams),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Ok(Self { input, target, properties, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// What is written.
    #[must_use]
    pub fn target(&self) -> &Arc<WriteTarget> {
        &self.target
    }
}

impl DisplayAs for PartitionWriteExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "PartitionWriteExec: table={}, partition_by=[{}], overwrite={}",
            self.target.table,
            self.target.partition_spec.expressions.join(", "),
            self.target.overwrite
        )
    }
}

impl ExecutionPlan for PartitionWriteExec {
    fn name(&self) -> &'static str {
        "PartitionWriteExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("a write needs one input".into()))?;
        Ok(Arc::new(Self::try_new(input, Arc::clone(&self.target))?))
    }

    fn execute(&self, stream: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let config = context.session_config();
        let assigner = config.get_extension::<AssignerExtension>().ok_or_else(|| {
            DataFusionError::from(Error::internal("a write runs in a session that cannot place rows"))
        })?;
        let channels = config.get_extension::<Channels>().map(|c| c.as_ref().clone()).unwrap_or_default();
        let mut rows = self.input.execute(stream, context)?;
        let baseline = BaselineMetrics::new(&self.metrics, stream);
        let target = Arc::clone(&self.target);
        let work = async move {
            let (schema, form, table) = (Arc::clone(&target.schema), target.form, target.table.clone());
            let mut router = RowRouter::try_new(target, Arc::clone(&assigner.0), channels)?;
            while let Some(batch) = rows.try_next().await? {
                baseline.record_output(batch.num_rows());
                let changes = form.split(&batch)?;
                if let Some(rows) = changes.added {
                    refuse_nulls(&rows, &schema, &table)?;
                    let rows = RecordBatch::try_new(Arc::clone(&schema), rows.columns().to_vec()).map_err(|e| {
                        DataFusionError::from(Error::invalid(format!("a row does not fit the table: {e}")))
                    })?;
                    router.push(&rows).await?;
                }
                if let Some(names) = changes.replaced {
                    router.delete(&names, true).await?;
                }
                if let Some(names) = changes.removed {
                    router.delete(&names, false).await?;
                }
            }
            encode_sent(&router.finish().await?)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&OUTPUT), futures::stream::once(work))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Names the first column that must not hold NULL and does.
fn refuse_nulls(batch: &RecordBatch, schema: &Schema, table: &str) -> Result<()> {
    let mut columns = batch.columns().iter().zip(schema.fields());
    match columns.find(|(column, field)| !field.is_nullable() && column.logical_null_count() > 0) {
        None => Ok(()),
        Some((_, field)) => Err(Error::invalid(format!(
            "column {} of table {table} is declared NOT NULL, and a row has NULL there; give it a value",
            field.name()
        ))
        .with(Condition::NotNull)
        .into()),
    }
}

fn encode_sent(sent: &[SentRows]) -> Result<RecordBatch> {
    let text =
        |f: &dyn Fn(&SentRows) -> String| Arc::new(StringArray::from_iter_values(sent.iter().map(f))) as ArrayRef;
    let number = |f: &dyn Fn(&SentRows) -> u64| Arc::new(UInt64Array::from_iter_values(sent.iter().map(f))) as ArrayRef;
    let columns = vec![
        text(&|s| s.route.to_proto().key),
        number(&|s| s.route.partition.0),
        number(&|s| s.route.epoch),
        text(&|s| s.route.executor.0.clone()),
        text(&|s| s.route.url.clone()),
        number(&|s| s.rows),
        number(&|s| s.deletes),
        number(&|s| s.removed),
    ];
    Ok(RecordBatch::try_new(Arc::clone(&OUTPUT), columns)?)
}

/// Reads the output of the node.
///
/// # Errors
/// The batch is not one of this node's.
pub fn decode_sent(batch: &RecordBatch) -> crate::error::Result<Vec<SentRows>> {
    use arrow::{array::AsArray, datatypes::UInt64Type};
    let malformed = || Error::internal("a write's result has other columns than it should");
    if batch.schema().fields().len() != OUTPUT.fields().len() {
        return Err(malformed());
    }
    let text = |i: usize| batch.column(i).as_string_opt::<i32>().ok_or_else(malformed);
    let number = |i: usize| batch.column(i).as_primitive_opt::<UInt64Type>().ok_or_else(malformed);
    let (keys, executors, urls) = (text(0)?, text(3)?, text(4)?);
    let (partitions, epochs) = (number(1)?, number(2)?);
    let (rows, deletes, removed) = (number(5)?, number(6)?, number(7)?);
    (0..batch.num_rows())
        .map(|i| {
            let key = serde_json::from_str(keys.value(i)).map_err(|_| malformed())?;
            let route = Route {
                key,
                partition: PartitionId(partitions.value(i)),
                epoch: epochs.value(i),
                executor: ExecutorId(executors.value(i).to_owned()),
                url: urls.value(i).to_owned(),
            };
            Ok(SentRows { route, rows: rows.value(i), deletes: deletes.value(i), removed: removed.value(i) })
        })
        .collect()
}

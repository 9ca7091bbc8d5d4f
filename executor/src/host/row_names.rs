//! Names of rows in a scan: the storage engine gives file and position, the partition follows from the file.
use std::{
    collections::HashMap,
    fmt::{self, Formatter},
    sync::Arc,
};

use ancho_common::{
    error::{Error, Result},
    ids::PartitionId,
    plan::{host::LocalScan, row_ids},
};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, StringViewArray, UInt64Builder},
    datatypes::{FieldRef, Schema, SchemaRef},
};
use cayenne::PinnedVersion;
use datafusion::{
    common::tree_node::TreeNodeRecursion,
    error::{DataFusionError, Result as DfResult},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        execution_plan::{Boundedness, EmissionType},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::StreamExt;

/// The columns of a scan, sorted by who knows them.
#[derive(Debug)]
pub(super) struct WantedColumns {
    /// Columns of the table, in the order in which they are wanted.
    pub(super) own: Vec<usize>,
    /// Where each wanted column comes from; `None` if none of them names rows.
    names: Option<Vec<Source>>,
}

/// Where an output column comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// This column of the engine's scan.
    Scan(usize),
    /// The partition of the row's file.
    Partition,
}

impl WantedColumns {
    /// What a request asks for.
    pub(super) fn of(request: &LocalScan) -> Self {
        let columns = row_ids::own_columns(&request.schema);
        let all = || (0..request.schema.fields().len()).collect();
        let wanted: Vec<usize> = request.projection.clone().unwrap_or_else(all);
        let own: Vec<usize> = wanted.iter().copied().filter(|column| *column < columns).collect();
        if own.len() == wanted.len() {
            return Self { own, names: None };
        }
        let mut next = 0;
        let names = wanted
            .iter()
            .map(|column| match request.schema.field(*column).name().as_str() {
                row_ids::PARTITION_COLUMN => Source::Partition,
                row_ids::FILE_COLUMN => Source::Scan(own.len()),
                row_ids::ROW_COLUMN => Source::Scan(own.len() + 1),
                _ => {
                    next += 1;
                    Source::Scan(next - 1)
                }
            })
            .collect();
        Self { own, names: Some(names) }
    }

    /// Whether the engine is to name the rows.
    pub(super) fn names_rows(&self) -> bool {
        self.names.is_some()
    }

    /// What the engine's scan gives.
    pub(super) fn scanned(&self, schema: &Schema) -> Result<SchemaRef> {
        let own = schema.project(&self.own).map_err(|e| Error::internal(format!("projection of a scan: {e}")))?;
        // Of what names a row, only the partition is not the engine's.
        let names = if self.names_rows() { &row_ids::fields()[1..] } else { &[] };
        let fields: Vec<FieldRef> = own.fields().iter().chain(names).cloned().collect();
        Ok(Arc::new(Schema::new(fields)))
    }

    /// The engine's scan of the pinned versions with exactly the wanted columns.
    pub(super) fn complete(
        self,
        scan: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        pins: &[(PartitionId, PinnedVersion)],
    ) -> Arc<dyn ExecutionPlan> {
        let Some(columns) = self.names else { return scan };
        let mut partitions = HashMap::new();
        for (partition, pin) in pins {
            partitions.extend(pin.data_files().iter().map(|file| (file.id.simple().to_string(), partition.0)));
        }
        Arc::new(RowNamesExec::new(scan, schema, columns, self.own.len(), partitions))
    }
}

/// Puts the wanted columns in order and adds the partition of each row.
#[derive(Debug)]
struct RowNamesExec {
    input: Arc<dyn ExecutionPlan>,
    naming: Arc<Naming>,
    properties: Arc<PlanProperties>,
}

#[derive(Debug)]
struct Naming {
    schema: SchemaRef,
    columns: Vec<Source>,
    /// Input column with the file of a row.
    file: usize,
    /// Partition of each file.
    partitions: HashMap<String, u64>,
}

impl RowNamesExec {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
        columns: Vec<Source>,
        file: usize,
        partitions: HashMap<String, u64>,
    ) -> Self {
        Self::with(input, Arc::new(Naming { schema, columns, file, partitions }))
    }

    fn with(input: Arc<dyn ExecutionPlan>, naming: Arc<Naming>) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&naming.schema)),
            Partitioning::UnknownPartitioning(input.output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Self { input, naming, properties }
    }
}

impl Naming {
    fn name(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self
            .columns
            .iter()
            .map(|source| match source {
                Source::Scan(column) => Ok(Arc::clone(batch.column(*column))),
                Source::Partition => self.partitions_of(batch),
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Error::internal(format!("named rows of a scan: {e}")))
    }

    fn partitions_of(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        let files: &StringViewArray = batch
            .column(self.file)
            .as_string_view_opt()
            .ok_or_else(|| Error::internal("a scan does not name the files of its rows"))?;
        let mut partitions = UInt64Builder::with_capacity(files.len());
        // Rows of one file mostly stand together.
        let mut last: Option<(&str, u64)> = None;
        for row in 0..files.len() {
            let file = files.value(row);
            let partition = match last {
                Some((known, partition)) if known == file => partition,
                _ => *self
                    .partitions
                    .get(file)
                    .ok_or_else(|| Error::internal(format!("data file {file} is of none of the scanned partitions")))?,
            };
            last = Some((file, partition));
            partitions.append_value(partition);
        }
        Ok(Arc::new(partitions.finish()))
    }
}

impl DisplayAs for RowNamesExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("RowNamesExec")
    }
}

impl ExecutionPlan for RowNamesExec {
    fn name(&self) -> &'static str {
        "RowNamesExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| DataFusionError::Internal("names of rows need one input".into()))?;
        Ok(Arc::new(Self::with(input, Arc::clone(&self.naming))))
    }

    fn execute(&self, stream: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let rows = self.input.execute(stream, context)?;
        let naming = Arc::clone(&self.naming);
        let named = rows.map(move |batch| Ok(naming.name(&batch?)?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.naming.schema), named)))
    }
}

/// The table's own columns of a scanned schema.
pub(super) fn own_schema(schema: &Schema) -> Schema {
    Schema::new(schema.fields()[..row_ids::own_columns(schema)].to_vec())
}

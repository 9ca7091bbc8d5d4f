//! The path of a write: rows are staged on the owners of their partitions, one Raft entry makes them visible in all
//! partitions at once, and the owners are told. A failure before the entry leaves nothing behind.
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use ancho_common::{
    error::{Error, ErrorKind, Result},
    ids::{ExecutorId, PartitionId, TableId, WriteId},
    plan::{
        channels::Channels,
        router::{Route, SentRows},
        write::{WriteTarget, decode_sent},
    },
};
use ancho_proto::v1::{
    DiscardRequest, PublishPartition, PublishRequest, SealPartition, SealReply, SealRequest,
    executor_client::ExecutorClient,
};
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    datasource::source_as_provider,
    logical_expr::{Expr, ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder},
};
use futures::future::{join_all, try_join_all};

use super::{assigner::propose, attempt::Attempt};
use crate::{
    frontend::caller::Caller,
    planner::{
        refusal::PlanResult,
        table::{AnchoTable, still_loading},
        write::WriteNode,
    },
    raft::RaftNode,
    state::{ClusterState, ColumnSummary, Command, CommittedPart, Dataset, Outcome, StagedPart, Table},
};

/// Largest answer of an executor: statistics of many partitions with long bounds.
const MAX_REPLY: usize = 64 << 20;

/// What kind of write it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WriteKind<'a> {
    /// Adds rows.
    Append,
    /// Adds the first rows of a new table, which cannot be read before.
    Fill,
    /// The rows replace all rows of the table.
    Overwrite,
    /// As `Overwrite`, and ends a load of a dataset under this definition.
    Refresh(&'a Dataset),
}

impl WriteKind<'_> {
    fn overwrites(self) -> bool {
        !matches!(self, Self::Append | Self::Fill)
    }

    /// It may be the first write of a table.
    fn fills(self) -> bool {
        matches!(self, Self::Fill | Self::Refresh(_))
    }
}

/// Carries writes out.
#[derive(Debug, Clone)]
pub struct Writer {
    node: RaftNode,
    channels: Channels,
}

impl Writer {
    /// Through this node and these connections.
    #[must_use]
    pub fn new(node: RaftNode, channels: Channels) -> Self {
        Self { node, channels }
    }

    /// Writes the rows of `input`, whose columns are the table's in order, and says how many they were.
    ///
    /// # Errors
    /// `Cancelled` if the caller went away before the commit. Nothing was changed, except for kind `Unknown`: then the request id in the text tells what became of it.
    pub async fn write(
        &self,
        attempt: &Attempt,
        state: &ClusterState,
        table: &Table,
        input: LogicalPlan,
        kind: WriteKind<'_>,
        caller: &Caller,
    ) -> PlanResult<u64> {
        if table.load.is_some() && !kind.fills() {
            return Err(still_loading(table).into());
        }
        let based_on = based_on(state, table, &input, kind)?;
        let target = Arc::new(WriteTarget {
            write_id: WriteId::new(),
            table_id: table.id,
            table: table.name.to_string(),
            schema: Arc::clone(&table.schema.0),
            partition_spec: table.partition_spec.clone(),
            overwrite: kind.overwrites(),
            routes: routes(state, table)?,
        });
        let mut staged = Staged::new(self, &target);
        let node = WriteNode::try_new(fitted(input, table)?, Arc::clone(&target))?;
        let plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
        let results = caller.unless_gone(attempt.collect(plan)).await?;
        let mut sent = merge(results.iter().map(decode_sent).collect::<Result<Vec<_>>>()?)?;
        if kind.overwrites() {
            // Partitions without new rows become empty with the same commit.
            for route in &target.routes {
                sent.entry(route.partition).or_insert_with(|| SentRows { route: route.clone(), rows: 0 });
            }
        }
        let rows = sent.values().map(|s| s.rows).sum();
        staged.touch(sent.values().map(|s| s.route.url.clone()));
        if sent.is_empty() && !kind.fills() {
            staged.settle();
            return Ok(0);
        }
        let parts = caller.unless_gone(self.seal(&target, &sent)).await?;
        let command = Command::CommitWrite {
            table: table.id,
            write_id: target.write_id,
            overwrite: kind.overwrites(),
            parts,
            refreshed: match kind {
                WriteKind::Refresh(dataset) => Some(dataset.clone()),
                _ => None,
            },
            based_on,
        };
        // From here on a caller that goes away must not take back what may be committed.
        staged.settle();
        match propose(&self.node, command).await {
            Ok(Outcome::Committed { parts }) => {
                self.publish(&target, &sent, &parts).await;
                Ok(rows)
            }
            Ok(other) => Err(Error::internal(format!("the answer to a commit is of another kind: {other:?}")).into()),
            Err(error) => {
                // What may have been committed must stay staged: the owners learn the outcome from the state.
                if error.kind != ErrorKind::Unknown {
                    staged.reopen();
                }
                Err(error.into())
            }
        }
    }

    async fn seal(&self, target: &WriteTarget, sent: &BTreeMap<PartitionId, SentRows>) -> Result<Vec<StagedPart>> {
        let mut by_owner: HashMap<(ExecutorId, String), Vec<SealPartition>> = HashMap::new();
        for part in sent.values() {
            by_owner.entry((part.route.executor.clone(), part.route.url.clone())).or_default().push(SealPartition {
                partition_id: part.route.partition.0,
                epoch: part.route.epoch,
                expected_rows: part.rows,
                overwrite: target.overwrite,
            });
        }
        let calls = by_owner.into_iter().map(|((executor, url), partitions)| async move {
            let request =
                SealRequest { write_id: target.write_id.to_string(), table_id: target.table_id.0, partitions };
            let mut client = self.client(&url)?;
            let reply =
                client.seal(request).await.map_err(Error::from).map_err(|e| e.context(&format!("executor {url}")))?;
            staged_parts(&executor, reply.into_inner(), sent)
        });
        Ok(try_join_all(calls).await?.into_iter().flatten().collect())
    }

    /// Tells the owners. A lost message does no harm: a reader that comes first brings the commit along.
    async fn publish(&self, target: &WriteTarget, sent: &BTreeMap<PartitionId, SentRows>, parts: &[CommittedPart]) {
        let mut by_owner: HashMap<String, Vec<PublishPartition>> = HashMap::new();
        for part in parts {
            if let Some(sent) = sent.get(&part.partition) {
                by_owner.entry(sent.route.url.clone()).or_default().push(PublishPartition {
                    partition_id: part.partition.0,
                    epoch: sent.route.epoch,
                    version: part.version,
                });
            }
        }
        let calls = by_owner.into_iter().map(|(url, partitions)| async move {
            let request = PublishRequest { write_id: target.write_id.to_string(), partitions };
            let outcome = async { self.client(&url)?.publish(request).await.map_err(Error::from) }.await;
            if let Err(error) = outcome {
                tracing::warn!(%url, %error, table = %target.table, "an owner was not told of a commit");
            }
        });
        join_all(calls).await;
    }

    fn client(&self, url: &str) -> Result<ExecutorClient<tonic::transport::Channel>> {
        Ok(ExecutorClient::new(self.channels.get(url)?)
            .max_decoding_message_size(MAX_REPLY)
            .max_encoding_message_size(MAX_REPLY))
    }
}

/// The table whose rows this write puts an end to, at the version that the state shows, if its own rows are made from
/// them: rows that others add to it meanwhile must not be lost.
fn based_on(
    state: &ClusterState,
    table: &Table,
    input: &LogicalPlan,
    kind: WriteKind<'_>,
) -> Result<Option<(TableId, u64)>> {
    let ended = match table.load {
        Some(load) => load.replaces,
        None => kind.overwrites().then_some(table.id),
    };
    let Some(ended) = ended.and_then(|id| state.tables.get(&id)) else { return Ok(None) };
    let mut reads = false;
    input.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            reads |= provider.downcast_ref::<AnchoTable>().is_some_and(|t| t.table().id == ended.id);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reads.then_some((ended.id, ended.version)))
}

/// Owners of all partitions of a table; a write needs every one of them.
fn routes(state: &ClusterState, table: &Table) -> Result<Vec<Route>> {
    table
        .partitions
        .values()
        .map(|p| {
            let owner = state.serving_owner(p).ok_or_else(|| crate::sessions::wait::unserved(state, table, p))?;
            Ok(Route {
                key: p.key.clone(),
                partition: p.id,
                epoch: p.epoch,
                executor: owner.id.clone(),
                url: owner.url.clone(),
            })
        })
        .collect()
}

/// The input with exactly the table's column types, in its order.
fn fitted(input: LogicalPlan, table: &Table) -> Result<LogicalPlan> {
    let input = with_nullable_values(input)?;
    let wanted = &table.schema.0;
    let schema = Arc::clone(input.schema());
    if schema.fields().len() != wanted.fields().len() {
        return Err(Error::invalid(format!(
            "table {} has {} columns, but {} values are given",
            table.name,
            wanted.fields().len(),
            schema.fields().len()
        )));
    }
    let mut changed = false;
    let columns = schema
        .columns()
        .into_iter()
        .zip(wanted.fields())
        .map(|(column, field)| {
            let expr = Expr::Column(column);
            let cast = expr.clone().cast_to(field.data_type(), schema.as_ref())?;
            changed |= cast != expr;
            Ok(cast.alias(field.name().clone()))
        })
        .collect::<datafusion::error::Result<Vec<_>>>()?;
    if !changed {
        return Ok(input);
    }
    Ok(LogicalPlanBuilder::from(input).project(columns)?.build()?)
}

/// Lets lists of values hold NULL in any column. The planner gives them the nullability of the table's columns under
/// names of their own, and would refuse a NULL in the name of `column1`.
fn with_nullable_values(plan: LogicalPlan) -> Result<LogicalPlan> {
    let rewritten = plan.transform_up(|node| {
        let LogicalPlan::Values(mut values) = node else { return node.recompute_schema().map(Transformed::yes) };
        let schema = &values.schema;
        let fields = schema
            .iter()
            .map(|(qualifier, field)| (qualifier.cloned(), Arc::new(field.as_ref().clone().with_nullable(true))));
        values.schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())?);
        Ok(Transformed::yes(LogicalPlan::Values(values)))
    });
    Ok(rewritten.data()?)
}

/// Sums what all senders sent to each partition.
fn merge(reports: Vec<Vec<SentRows>>) -> Result<BTreeMap<PartitionId, SentRows>> {
    let mut total: BTreeMap<PartitionId, SentRows> = BTreeMap::new();
    for sent in reports.into_iter().flatten() {
        match total.get_mut(&sent.route.partition) {
            None => {
                total.insert(sent.route.partition, sent);
            }
            Some(known) if known.route.epoch == sent.route.epoch && known.route.executor == sent.route.executor => {
                known.rows += sent.rows;
            }
            Some(known) => {
                return Err(Error::stale_route(format!(
                    "partition {} moved from executor {} to {} during a write",
                    known.route.partition, known.route.executor, sent.route.executor
                )));
            }
        }
    }
    Ok(total)
}

fn staged_parts(
    executor: &ExecutorId,
    reply: SealReply,
    sent: &BTreeMap<PartitionId, SentRows>,
) -> Result<Vec<StagedPart>> {
    let incarnation = reply.incarnation;
    reply
        .partitions
        .into_iter()
        .map(|sealed| {
            let partition = PartitionId(sealed.partition_id);
            let expected = sent.get(&partition).ok_or_else(|| {
                Error::internal(format!("executor {executor} sealed partition {partition}, which was not asked for"))
            })?;
            if sealed.rows != expected.rows {
                return Err(Error::internal(format!(
                    "executor {executor} holds {} of the {} rows sent to partition {partition}",
                    sealed.rows, expected.rows
                )));
            }
            let columns: Vec<ColumnSummary> = serde_json::from_str(&sealed.columns)
                .map_err(|e| Error::internal(format!("statistics of partition {partition} cannot be read: {e}")))?;
            Ok(StagedPart {
                partition,
                epoch: expected.route.epoch,
                executor: executor.clone(),
                incarnation: incarnation.clone(),
                rows: sealed.rows,
                bytes: sealed.bytes,
                columns,
            })
        })
        .collect()
}

/// Discards what was staged if the write ends before its commit, also when the caller is gone.
struct Staged {
    writer: Writer,
    write_id: WriteId,
    urls: Vec<String>,
    settled: bool,
}

impl Staged {
    fn new(writer: &Writer, target: &WriteTarget) -> Self {
        let mut urls: Vec<String> = target.routes.iter().map(|r| r.url.clone()).collect();
        urls.sort();
        urls.dedup();
        Self { writer: writer.clone(), write_id: target.write_id, urls, settled: false }
    }

    fn touch(&mut self, urls: impl Iterator<Item = String>) {
        for url in urls {
            if !self.urls.contains(&url) {
                self.urls.push(url);
            }
        }
    }

    fn settle(&mut self) {
        self.settled = true;
    }

    fn reopen(&mut self) {
        self.settled = false;
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let (writer, write_id, urls) = (self.writer.clone(), self.write_id, std::mem::take(&mut self.urls));
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                for url in urls {
                    let request = DiscardRequest { write_id: write_id.to_string() };
                    // An owner that is gone drops the write when it starts again.
                    if let Ok(mut client) = writer.client(&url) {
                        let _ = client.discard(request).await;
                    }
                }
            });
        }
    }
}

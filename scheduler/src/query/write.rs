//! The path of a write: rows are staged on the owners of their partitions, one Raft entry makes them visible in all
//! partitions at once, and the owners are told. A failure before the entry leaves nothing behind.
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use ancho_common::{
    error::{Error, ErrorKind, Result},
    ids::{ExecutorId, PartitionId, TableId, WriteId},
    plan::{
        changes::{KeyRule, WriteForm},
        channels::Channels,
        router::{Route, RowRouter, SentRows},
        write::{WriteTarget, decode_sent},
    },
};
use ancho_proto::v1::{
    DiscardRequest, PublishPartition, PublishRequest, RebasePartition, RebaseRequest, SealPartition, SealReply,
    SealRequest, TransactionPart, executor_client::ExecutorClient,
};
use datafusion::{
    common::{
        DFSchema,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    datasource::source_as_provider,
    execution::SendableRecordBatchStream,
    logical_expr::{Expr, ExprSchemable, Extension, LogicalPlan, LogicalPlanBuilder},
};
use futures::{
    TryStreamExt,
    future::{join_all, try_join_all},
};
use tokio::time::Instant;

use super::{
    assigner::{RaftAssigner, propose},
    attempt::Attempt,
    ingest::Fitting,
    transaction::{OwnWrite, OwnWrites},
};
use crate::{
    frontend::caller::{Caller, REQUEST_ID_HEADER},
    planner::{
        refusal::PlanResult,
        table::{AnchoTable, still_loading},
        topology::StagedWrites,
        write::WriteNode,
    },
    raft::RaftNode,
    sessions::wait_until,
    state::{
        ClusterState, ColumnSummary, Command, CommittedPart, Dataset, Outcome, StagedPart, Table, WriteRequest,
        read_only,
    },
};

/// Largest answer of an executor: statistics of many partitions with long bounds.
const MAX_REPLY: usize = 64 << 20;

/// How often a commit is tried on a newer version before the statement starts again.
const MOST_REBASES: usize = 16;

/// Longest time to wait in one go for a partition to change hands.
const HAND_OVER_PATIENCE: Duration = Duration::from_secs(10);

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
    /// Rows go, and others may take their place.
    Change(WriteForm),
}

impl WriteKind<'_> {
    fn overwrites(self) -> bool {
        matches!(self, Self::Overwrite | Self::Refresh(_))
    }

    fn form(self) -> WriteForm {
        match self {
            Self::Change(form) => form,
            _ => WriteForm::Rows,
        }
    }

    /// SQL keeps the last arrival; what mirrors a source keeps the newest row of a key; a row that is changed takes no
    /// other one's place.
    fn key_rule(self) -> KeyRule {
        match self {
            Self::Append | Self::Fill | Self::Overwrite => KeyRule::LastArrival,
            Self::Refresh(_) => KeyRule::Newest,
            Self::Change(_) => KeyRule::Unique,
        }
    }

    /// It may be the first write of a table.
    fn fills(self) -> bool {
        matches!(self, Self::Fill | Self::Refresh(_))
    }
}

/// What goes with sealed parts into their commit.
struct Commit<'a> {
    kind: WriteKind<'a>,
    /// The table, and its version, that the rows were made from and that they put an end to.
    based_on: Option<(TableId, u64)>,
    request: WriteRequest,
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

    /// Writes the rows of `input`, whose columns are the table's in order, or those of the kind's form, and says how many
    /// rows of the table it concerned.
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
        let target = target(state, table, kind)?;
        let staged = Staged::new(self, &target);
        let sent = self.send(attempt, input, &target, caller).await?;
        let commit = |rows| Commit { kind, based_on, request: asked_by(caller, rows) };
        Ok(self.end(&target, sent, commit, caller, staged).await?)
    }

    /// As [`write`](Self::write), inside a transaction that has staged `own` so far: the rows are staged on top of it, and
    /// that becomes a part of what is answered. `None` if there were no rows.
    ///
    /// # Errors
    /// As [`write`](Self::write). Once rows were sealed, only such as end the transaction.
    pub(super) async fn write_within(
        &self,
        attempt: &Attempt,
        (state, table): (&ClusterState, &Table),
        input: LogicalPlan,
        kind: WriteKind<'_>,
        caller: &Caller,
        own: &StagedWrites,
    ) -> PlanResult<Option<OwnWrite>> {
        let target = self.target_within(state, table, kind)?;
        let staged = Staged::new(self, &target);
        let sent = self.send(attempt, input, &target, caller).await?;
        Ok(self.end_within(target, sent, (table, own), caller, staged).await?)
    }

    /// A new write of a table inside a transaction, as its snapshot has it.
    fn target_within(&self, state: &ClusterState, table: &Table, kind: WriteKind<'_>) -> Result<Arc<WriteTarget>> {
        if table.load.is_some() {
            return Err(still_loading(table));
        }
        if kind.overwrites() || kind.fills() {
            return Err(Error::unsupported(
                "INSERT OVERWRITE is not offered inside a transaction; DELETE and INSERT are",
            ));
        }
        // Rows of the snapshot's columns could not be committed any more, and their owners would refuse them.
        let since = match self.node.state().tables.get(&table.id) {
            Some(now) if now.schema_version == table.schema_version => return target(state, table, kind),
            Some(_) => "its columns were changed",
            None => "it was dropped",
        };
        Err(Error::conflict(format!(
            "table {}: {since} after the transaction began; nothing of the transaction can be applied, begin a new one",
            table.name
        )))
    }

    /// Stages the rows of a plan; what was sent where.
    async fn send(
        &self,
        attempt: &Attempt,
        input: LogicalPlan,
        target: &Arc<WriteTarget>,
        caller: &Caller,
    ) -> PlanResult<BTreeMap<PartitionId, SentRows>> {
        let plan = staging(input, target)?;
        let results = caller.unless_gone(attempt.collect(plan)).await?;
        Ok(merge(results.iter().map(decode_sent).collect::<Result<Vec<_>>>()?)?)
    }

    /// Whether every partition of a table has an owner that takes rows now.
    ///
    /// # Errors
    /// `Unavailable`, naming the partition.
    pub fn check_owners(&self, state: &ClusterState, table: &Table) -> Result<()> {
        routes(state, table).map(|_| ())
    }

    /// Writes rows that come to this scheduler, and says how many they were.
    ///
    /// # Errors
    /// As [`write`](Self::write), and those of the stream.
    pub async fn ingest(
        &self,
        state: &ClusterState,
        table: &Table,
        rows: SendableRecordBatchStream,
        kind: WriteKind<'_>,
        caller: &Caller,
    ) -> Result<u64> {
        if table.load.is_some() && !kind.fills() {
            return Err(still_loading(table));
        }
        let target = target(state, table, kind)?;
        let staged = Staged::new(self, &target);
        let sent = self.route(rows, &target, caller).await?;
        let commit = |rows| Commit { kind, based_on: None, request: asked_by(caller, rows) };
        self.end(&target, sent, commit, caller, staged).await
    }

    /// As [`ingest`](Self::ingest), inside a transaction; see [`write_within`](Self::write_within).
    ///
    /// # Errors
    /// As these.
    pub(super) async fn ingest_within(
        &self,
        (state, table): (&ClusterState, &Table),
        rows: SendableRecordBatchStream,
        caller: &Caller,
        own: &StagedWrites,
    ) -> Result<Option<OwnWrite>> {
        let target = self.target_within(state, table, WriteKind::Append)?;
        let staged = Staged::new(self, &target);
        let sent = self.route(rows, &target, caller).await?;
        self.end_within(target, sent, (table, own), caller, staged).await
    }

    /// Stages rows that come to this scheduler; what was sent where.
    async fn route(
        &self,
        mut rows: SendableRecordBatchStream,
        target: &Arc<WriteTarget>,
        caller: &Caller,
    ) -> Result<BTreeMap<PartitionId, SentRows>> {
        let fitting = Fitting::new(&target.table, &rows.schema(), &target.schema)?;
        let assigner = Arc::new(RaftAssigner::new(self.node.clone()));
        let mut router = RowRouter::try_new(Arc::clone(target), assigner, self.channels.clone())?;
        let routed = async {
            while let Some(batch) = rows.try_next().await? {
                router.push(&fitting.fit(&batch)?).await?;
            }
            router.finish().await
        };
        merge(vec![caller.unless_gone(routed).await?])
    }

    /// From rows that were sent to a part of a transaction.
    async fn end_within(
        &self,
        target: Arc<WriteTarget>,
        sent: BTreeMap<PartitionId, SentRows>,
        (table, own): (&Table, &StagedWrites),
        caller: &Caller,
        mut staged: Staged,
    ) -> Result<Option<OwnWrite>> {
        staged.touch(sent.values().map(|s| s.route.url.clone()));
        if sent.is_empty() {
            staged.settle();
            return Ok(None);
        }
        let within = |partition: PartitionId| TransactionPart {
            // A partition that came after the snapshot was taken had no rows in it.
            snapshot: table.partitions.get(&partition).map_or(0, |p| p.version),
            over: own.get(&partition).map(ToString::to_string).unwrap_or_default(),
        };
        let parts = caller.unless_gone(self.seal(&target, &sent, Some(&within))).await;
        // Some owners may have sealed: what the transaction had staged there cannot be had back.
        let parts = parts.map_err(super::transaction::given_up)?;
        staged.settle();
        Ok(Some(OwnWrite { target, sent, parts }))
    }

    /// Commits all that a transaction has staged. `rows` is what the request is remembered with.
    ///
    /// # Errors
    /// As [`write`](Self::write). What was not committed is discarded.
    pub(super) async fn commit_transaction(&self, own: &mut OwnWrites, request: WriteRequest) -> Result<()> {
        for _ in 0..MOST_REBASES {
            let command = Command::CommitTransaction { parts: own.parts(), request: Some(request.clone()) };
            let outdated = match propose(&self.node, command).await {
                Ok(Outcome::Committed { parts }) => {
                    join_all(own.iter().map(|write| self.publish(&write.target, &write.sent, &parts))).await;
                    return Ok(());
                }
                Ok(Outcome::Repeated { .. }) => {
                    self.discard_transaction(own).await;
                    return Ok(());
                }
                Ok(Outcome::Outdated { parts }) => parts,
                Ok(Outcome::Closing { partitions }) => {
                    self.wait_for_hand_over(&partitions).await;
                    continue;
                }
                Ok(other) => {
                    return Err(Error::internal(format!("the answer to a commit is of another kind: {other:?}")));
                }
                // What may have been committed must stay staged: the owners learn the outcome from the state.
                Err(error) if error.kind == ErrorKind::Unknown => return Err(unknown(&request, &error)),
                Err(error) => {
                    self.discard_transaction(own).await;
                    return Err(super::transaction::given_up(error));
                }
            };
            if let Err(error) = self.rebase_transaction(own, &outdated).await {
                self.discard_transaction(own).await;
                return Err(super::transaction::given_up(error));
            }
        }
        self.discard_transaction(own).await;
        Err(Error::conflict("other writes came between; the transaction changed nothing, run it again"))
    }

    async fn rebase_transaction(&self, own: &mut OwnWrites, outdated: &[CommittedPart]) -> Result<()> {
        for OwnWrite { target, sent, parts, .. } in own.iter_mut() {
            let mine: Vec<CommittedPart> =
                outdated.iter().filter(|part| sent.contains_key(&part.partition)).copied().collect();
            if !mine.is_empty() {
                self.rebase(target, sent, parts, &mine).await?;
            }
        }
        Ok(())
    }

    /// Drops what a transaction has staged. An owner that is gone drops it when it starts again.
    pub(super) async fn discard_transaction(&self, own: &mut OwnWrites) {
        let calls = own.drain().into_iter().flat_map(|write| {
            let urls: BTreeSet<String> = write.sent.values().map(|sent| sent.route.url.clone()).collect();
            urls.into_iter().map(move |url| (write.target.write_id, url))
        });
        join_all(calls.map(|(write_id, url)| async move { self.discard(write_id, &url).await })).await;
    }

    async fn discard(&self, write_id: WriteId, url: &str) {
        if let Ok(mut client) = self.client(url) {
            // An owner that is gone drops the write when it starts again.
            let _ = client.discard(DiscardRequest { write_id: write_id.to_string() }).await;
        }
    }

    /// From rows that were sent to the commit of the write.
    async fn end<'a>(
        &self,
        target: &WriteTarget,
        mut sent: BTreeMap<PartitionId, SentRows>,
        commit: impl FnOnce(u64) -> Commit<'a>,
        caller: &Caller,
        mut staged: Staged,
    ) -> Result<u64> {
        let rows = sent.values().map(|s| s.rows + s.removed).sum();
        let commit = commit(rows);
        if commit.kind.overwrites() {
            // Partitions without new rows become empty with the same commit.
            for route in &target.routes {
                sent.entry(route.partition).or_insert_with(|| SentRows::none(route.clone()));
            }
        }
        staged.touch(sent.values().map(|s| s.route.url.clone()));
        if sent.is_empty() && !commit.kind.fills() {
            staged.settle();
            return self.found_nothing(target, &commit, caller).await;
        }
        let parts = caller.unless_gone(self.seal(target, &sent, None)).await?;
        self.commit(target, &sent, parts, &commit, &mut staged).await
    }

    /// Empties a table, and says how many rows it had.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Conflict` when another write came between.
    pub async fn clear(&self, state: &ClusterState, table: &Table, caller: &Caller) -> Result<u64> {
        if table.load.is_some() {
            return Err(still_loading(table));
        }
        let target = target(state, table, WriteKind::Overwrite)?;
        let full = |id: PartitionId| table.partitions.get(&id).filter(|p| p.rows > 0);
        let sent: BTreeMap<PartitionId, SentRows> = target
            .routes
            .iter()
            .filter(|route| full(route.partition).is_some())
            .map(|route| (route.partition, SentRows::none(route.clone())))
            .collect();
        let request = asked_by(caller, table.rows());
        let commit = Commit { kind: WriteKind::Overwrite, based_on: None, request };
        if sent.is_empty() {
            return self.found_nothing(&target, &commit, caller).await;
        }
        let mut staged = Staged::new(self, &target);
        let mut parts = caller.unless_gone(self.seal(&target, &sent, None)).await?;
        // The rows that are counted here are those that go.
        for part in &mut parts {
            part.base = full(part.partition).map(|p| p.version);
        }
        self.commit(&target, &sent, parts, &commit, &mut staged).await
    }

    /// A statement that had nothing to do to a table.
    ///
    /// # Errors
    /// Those of the log.
    pub async fn nothing(&self, table: &Table, caller: &Caller) -> Result<u64> {
        let request = asked_by(caller, 0);
        let commit = Commit { kind: WriteKind::Append, based_on: None, request };
        self.found_nothing(&target_with(table, commit.kind, Vec::new()), &commit, caller).await
    }

    /// The end of a write that has no part. A request that the client named is remembered all the same: sent again when
    /// there are rows for it, it must not be applied then.
    async fn found_nothing(&self, target: &WriteTarget, commit: &Commit<'_>, caller: &Caller) -> Result<u64> {
        if !caller.may_repeat() {
            return Ok(0);
        }
        let mut nothing = Staged::new(self, target);
        nothing.settle();
        self.commit(target, &BTreeMap::new(), Vec::new(), commit, &mut nothing).await
    }

    /// Makes sealed parts visible, all at once. Parts that delete rows and that other writes came before are checked
    /// against these first. Answers how many rows the request concerned, now or when it was applied before.
    async fn commit(
        &self,
        target: &WriteTarget,
        sent: &BTreeMap<PartitionId, SentRows>,
        mut parts: Vec<StagedPart>,
        commit: &Commit<'_>,
        staged: &mut Staged,
    ) -> Result<u64> {
        for _ in 0..MOST_REBASES {
            let command = Command::CommitWrite {
                table: target.table_id,
                write_id: target.write_id,
                overwrite: commit.kind.overwrites(),
                parts: parts.clone(),
                refreshed: match commit.kind {
                    WriteKind::Refresh(dataset) => Some(dataset.clone()),
                    _ => None,
                },
                based_on: commit.based_on,
                request: Some(commit.request.clone()),
                schema_version: target.schema_version,
            };
            // From here on a caller that goes away must not take back what may be committed.
            staged.settle();
            let outdated = match propose(&self.node, command).await {
                Ok(Outcome::Committed { parts }) => {
                    self.publish(target, sent, &parts).await;
                    return Ok(commit.request.rows);
                }
                Ok(Outcome::Repeated { rows }) => {
                    staged.reopen();
                    return Ok(rows);
                }
                Ok(Outcome::Outdated { parts }) => parts,
                Ok(Outcome::Closing { partitions }) => {
                    staged.reopen();
                    self.wait_for_hand_over(&partitions).await;
                    continue;
                }
                Ok(other) => {
                    return Err(Error::internal(format!("the answer to a commit is of another kind: {other:?}")));
                }
                Err(error) => {
                    // What may have been committed must stay staged: the owners learn the outcome from the state.
                    if error.kind == ErrorKind::Unknown {
                        return Err(unknown(&commit.request, &error));
                    }
                    staged.reopen();
                    return Err(error);
                }
            };
            staged.reopen();
            if commit.kind.overwrites() {
                break;
            }
            self.rebase(target, sent, &mut parts, &outdated).await?;
        }
        Err(Error::conflict(format!(
            "table {}: other writes came between; nothing was changed, run the statement again",
            target.table
        )))
    }

    /// Waits while partitions are about to change hands. When they have, the commit is refused and the statement runs again;
    /// when they stay, it goes through.
    async fn wait_for_hand_over(&self, partitions: &[PartitionId]) {
        let open = |state: &ClusterState| !partitions.iter().any(|id| state.is_closing(*id));
        // Whatever comes of it, the log has the last word.
        let _ = wait_until(self.node.watch(), open, Instant::now() + HAND_OVER_PATIENCE).await;
    }

    /// Lets the owners check parts against what was committed since they were sealed.
    async fn rebase(
        &self,
        target: &WriteTarget,
        sent: &BTreeMap<PartitionId, SentRows>,
        parts: &mut [StagedPart],
        outdated: &[CommittedPart],
    ) -> Result<()> {
        let state = self.node.state();
        let made_by = |part: &CommittedPart| {
            let partition = state.tables.get(&target.table_id)?.partitions.get(&part.partition)?;
            partition.commits.iter().find(|commit| commit.version == part.version).map(|commit| commit.write_id)
        };
        let mut by_owner: HashMap<String, Vec<RebasePartition>> = HashMap::new();
        for part in outdated {
            let Some(sent) = sent.get(&part.partition) else { continue };
            by_owner.entry(sent.route.url.clone()).or_default().push(RebasePartition {
                partition_id: part.partition.0,
                epoch: sent.route.epoch,
                version: part.version,
                version_write_id: made_by(part).map(|id| id.to_string()).unwrap_or_default(),
            });
        }
        let calls = by_owner.into_iter().map(|(url, partitions)| async move {
            let request = RebaseRequest { write_id: target.write_id.to_string(), partitions };
            let reply = self.client(&url)?.rebase(request).await.map_err(|e| said_by(&url, e.into()))?;
            Ok::<_, Error>(reply.into_inner().partitions)
        });
        for rebased in try_join_all(calls).await?.into_iter().flatten() {
            if let Some(part) = parts.iter_mut().find(|part| part.partition.0 == rebased.partition_id) {
                part.base = Some(rebased.base_version);
                (part.rows, part.deleted) = (rebased.added, rebased.removed);
            }
        }
        Ok(())
    }

    /// `within` says where a statement stands in its transaction.
    async fn seal(
        &self,
        target: &WriteTarget,
        sent: &BTreeMap<PartitionId, SentRows>,
        within: Option<&(dyn Fn(PartitionId) -> TransactionPart + Sync)>,
    ) -> Result<Vec<StagedPart>> {
        let mut by_owner: HashMap<(ExecutorId, String), Vec<SealPartition>> = HashMap::new();
        for part in sent.values() {
            by_owner.entry((part.route.executor.clone(), part.route.url.clone())).or_default().push(SealPartition {
                partition_id: part.route.partition.0,
                epoch: part.route.epoch,
                expected_rows: part.rows,
                expected_deletes: part.deletes,
                overwrite: target.overwrite,
                within: within.map(|within| within(part.route.partition)),
            });
        }
        let calls = by_owner.into_iter().map(|((executor, url), partitions)| async move {
            let request = SealRequest {
                write_id: target.write_id.to_string(),
                table_id: target.table_id.0,
                partitions,
                schema_version: target.schema_version,
            };
            let mut client = self.client(&url)?;
            let reply = client.seal(request).await.map_err(|e| said_by(&url, e.into()))?;
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

    pub(super) fn client(&self, url: &str) -> Result<ExecutorClient<tonic::transport::Channel>> {
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
    if matches!(kind, WriteKind::Refresh(dataset) if dataset.served.is_some()) && table.load.is_none() {
        // Of two who bring snapshots, the one that comes later must not put an older one in the place of a newer one.
        return Ok(Some((table.id, table.version)));
    }
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

/// Names the executor that an error comes from, unless the rows themselves are at fault.
fn said_by(url: &str, error: Error) -> Error {
    if error.condition.is_some() { error } else { error.context(&format!("executor {url}")) }
}

/// The request behind a write, and the rows that it is told.
pub(super) fn asked_by(caller: &Caller, rows: u64) -> WriteRequest {
    WriteRequest { id: caller.request().to_owned(), rows, statement: caller.statement() }
}

/// What a client is told who is to find out by itself.
fn unknown(request: &WriteRequest, error: &Error) -> Error {
    let id = &request.id;
    Error::unknown(format!(
        "it is not known whether the write was applied; SELECT * FROM system.writes WHERE request_id = '{id}' tells, and \
         the same statement sent again with the header {REQUEST_ID_HEADER}: {id} is applied once ({})",
        error.message
    ))
}

/// The plan that stages the rows of a new write of a table, which need not be made.
///
/// # Errors
/// The rows do not fit the table, or a partition has no serving owner.
pub(super) fn planned(
    state: &ClusterState,
    table: &Table,
    input: LogicalPlan,
    kind: WriteKind<'_>,
) -> Result<LogicalPlan> {
    staging(input, &target(state, table, kind)?)
}

fn staging(input: LogicalPlan, target: &Arc<WriteTarget>) -> Result<LogicalPlan> {
    let node = WriteNode::try_new(fitted(input, target)?, Arc::clone(target))?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// A new write of a table.
fn target(state: &ClusterState, table: &Table, kind: WriteKind<'_>) -> Result<Arc<WriteTarget>> {
    if table.is_published_elsewhere() && !matches!(kind, WriteKind::Refresh(_)) {
        return Err(read_only(table));
    }
    Ok(Arc::new(target_with(table, kind, routes(state, table)?)))
}

fn target_with(table: &Table, kind: WriteKind<'_>, routes: Vec<Route>) -> WriteTarget {
    WriteTarget {
        write_id: WriteId::new(),
        table_id: table.id,
        table: table.name.to_string(),
        schema: Arc::clone(&table.schema.0),
        schema_version: table.schema_version,
        form: kind.form(),
        key_rule: kind.key_rule(),
        partition_spec: table.partition_spec.clone(),
        overwrite: kind.overwrites(),
        routes,
    }
}

/// Owners of all partitions of a table; a write needs every one of them.
pub(crate) fn routes(state: &ClusterState, table: &Table) -> Result<Vec<Route>> {
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

/// The input with exactly the column types of the write's form, in its order.
fn fitted(input: LogicalPlan, target: &WriteTarget) -> Result<LogicalPlan> {
    let input = with_nullable_values(input)?;
    let wanted = target.form.input(&target.schema);
    let schema = Arc::clone(input.schema());
    if schema.fields().len() != wanted.len() {
        return Err(Error::invalid(format!(
            "table {} has {} columns, but {} values are given",
            target.table,
            wanted.len(),
            schema.fields().len()
        )));
    }
    let mut changed = false;
    let columns = schema
        .columns()
        .into_iter()
        .zip(&wanted)
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
                known.deletes += sent.deletes;
                known.removed += sent.removed;
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
            if (sealed.rows, sealed.deletes) != (expected.rows, expected.deletes) {
                return Err(Error::internal(format!(
                    "executor {executor} holds {} rows and {} deletes of the {} and {} sent to partition {partition}",
                    sealed.rows, sealed.deletes, expected.rows, expected.deletes
                )));
            }
            let columns: Vec<ColumnSummary> = serde_json::from_str(&sealed.columns)
                .map_err(|e| Error::internal(format!("statistics of partition {partition} cannot be read: {e}")))?;
            Ok(StagedPart {
                partition,
                epoch: expected.route.epoch,
                executor: executor.clone(),
                incarnation: incarnation.clone(),
                rows: sealed.added,
                bytes: sealed.bytes,
                columns,
                deleted: sealed.removed,
                base: sealed.base_version,
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
                    writer.discard(write_id, &url).await;
                }
            });
        }
    }
}

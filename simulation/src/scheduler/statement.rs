//! Statements of clients: tables, reads, and writes from their plan to their commit, step by step as the write path does it.
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ancho_common::{
    error::ErrorKind,
    ids::{ExecutorId, PartitionId, TableId, WriteId},
    partition::{PartitionKey, PartitionSpec},
};
use ancho_scheduler::state::{
    ClusterState, Command, CommittedPart, NewPartition, NewTable, Outcome as Applied, Partition, Schema, Table,
    TableName,
};
use arrow::datatypes::{DataType, Field, Schema as ArrowSchema};
use rand::Rng;

use super::{
    AfterIndex, Scheduler, Then, Waiting,
    propose::Outcome,
    write::{Write, request_id},
};
use crate::{
    context::{Context, Timer},
    disk::Operation,
    message::{Answer, Ask, Call, Message, Node, Read, Shape, Stage, Told},
    settings::{EXECUTOR_LIMIT, INDEX_LIMIT},
};

const MOST_REBASES: u32 = 16;

/// A statement under way.
#[derive(Debug)]
pub(super) struct Statement {
    client: Node,
    call: u64,
    work: Work,
}

#[derive(Debug)]
enum Work {
    Definition,
    Read { table: TableName, open: BTreeMap<PartitionId, u64>, rows: BTreeMap<PartitionId, (u64, BTreeSet<Operation>)> },
    Write(Box<Write>),
}

impl Scheduler {
    /// A client asks.
    pub(super) fn begin(&mut self, client: Node, call: u64, ask: Ask, context: &mut Context<'_>) {
        let id = context.number();
        let (work, command) = match ask {
            Ask::Create { table, buckets, replace } => {
                (Work::Definition, Some(Command::CreateTable(Box::new(new_table(table, buckets, replace)))))
            }
            Ask::Drop { table } => (Work::Definition, Some(Command::DropTable { name: table, if_exists: true })),
            Ask::Rename { table, to } => {
                (Work::Definition, Some(Command::RenameTable { name: table, to, if_exists: true }))
            }
            Ask::Ensure { table, values } => {
                // A scheduler that lags behind names a table that may be gone; then the state refuses.
                let table = self.state.table(&table).map_or(TableId(0), |table| table.id);
                let partitions = (0..values).map(unplaced).collect();
                (Work::Definition, Some(Command::EnsurePartitions { table, partitions }))
            }
            Ask::Read { table } => (Work::Read { table, open: BTreeMap::new(), rows: BTreeMap::new() }, None),
            Ask::Write { operation, table, shape } => {
                let write = Write {
                    operation,
                    table,
                    id: TableId(0),
                    shape,
                    write: WriteId(context.uuid()),
                    parts: BTreeMap::new(),
                    open: BTreeSet::new(),
                    staged: false,
                    rebases: 0,
                };
                (Work::Write(Box::new(write)), None)
            }
        };
        self.statements.insert(id, Statement { client, call, work });
        match command {
            Some(command) => self.propose(command, Then::Statement(id), context),
            None => self.linearize(AfterIndex::Statement(id), INDEX_LIMIT, context),
        }
    }

    fn tell_client(&mut self, id: u64, told: Told, context: &mut Context<'_>) {
        if let Some(statement) = self.statements.remove(&id) {
            context.answer(statement.client, statement.call, Answer::Told(told));
        }
    }

    /// Ends a statement without effect; what it staged is dropped.
    fn fail(&mut self, id: u64, kind: ErrorKind, text: &str, context: &mut Context<'_>) {
        self.discard(id, context);
        self.tell_client(id, Told::Failed(kind, text.to_owned()), context);
    }

    fn discard(&mut self, id: u64, context: &mut Context<'_>) {
        let Some(Statement { work: Work::Write(write), .. }) = self.statements.get(&id) else { return };
        let nodes: BTreeSet<usize> = write.parts.values().map(|part| part.node).collect();
        for node in nodes {
            let call = context.number();
            context.send(Node::Executor(node), Message::Call(call, Call::Discard { write: write.write }));
        }
    }

    /// The state now includes everything acknowledged before the statement, or no leader could be asked.
    pub(super) fn statement_indexed(&mut self, id: u64, known: bool, context: &mut Context<'_>) {
        if !known {
            return self.fail(id, ErrorKind::Unavailable, "no leader", context);
        }
        let state = Arc::clone(&self.state);
        let Some(statement) = self.statements.get_mut(&id) else { return };
        let Some(name) = statement.work.table() else { return };
        let Some(table) = state.table(name).cloned() else {
            return self.fail(id, ErrorKind::NotFound, "no such table", context);
        };
        if table.load.is_some() {
            return self.fail(id, ErrorKind::Unavailable, "still being loaded", context);
        }
        let Some(routes) = routes(&state, &table) else {
            return self.fail(id, ErrorKind::Unavailable, "a partition is not served", context);
        };
        if routes.is_empty() {
            return self.fail(id, ErrorKind::NotFound, "no partition yet", context);
        }
        match &mut statement.work {
            Work::Definition => {}
            Work::Read { open, .. } => {
                open.extend(table.partitions.values().map(|p| (p.id, p.version)));
                for (partition, (node, _)) in routes {
                    if let Some(partition) = table.partitions.get(&partition) {
                        self.read(id, node, partition, context);
                    }
                }
            }
            Work::Write(write) => {
                write.id = table.id;
                let repeated = state.written.find(&request_id(write.operation)).is_some();
                if repeated {
                    return self.tell_client(id, Told::Done, context);
                }
                write.plan(&table, &routes);
                match write.victim_in(&table) {
                    Some(partition) => {
                        let Some((node, _)) = routes.get(&partition.id) else { return };
                        let node = *node;
                        self.read(id, node, partition, context);
                    }
                    None => self.stage(id, context),
                }
            }
        }
    }

    fn read(&mut self, id: u64, node: usize, partition: &Partition, context: &mut Context<'_>) {
        let made_by = partition.commits.last().map(|c| c.write_id);
        let read = Read { partition: partition.id, epoch: partition.epoch, version: partition.version, made_by };
        let call = context.call(Node::Executor(node), Call::Read(read), EXECUTOR_LIMIT);
        self.calls.insert(call, Waiting::Statement(id, partition.id));
    }

    fn stage(&mut self, id: u64, context: &mut Context<'_>) {
        let Some(Statement { work: Work::Write(write), .. }) = self.statements.get_mut(&id) else { return };
        write.staged = true;
        write.open = write.parts.keys().copied().collect();
        let changes = write.parts.iter().map(|(id, part)| (*id, part.change.clone())).collect();
        context.oracle.intends(write.write, write.operation, changes);
        for (partition, part) in &write.parts {
            let (epoch, change) = (part.epoch, part.change.clone());
            let stage = Stage { write: write.write, partition: *partition, epoch, change };
            let call = context.call(Node::Executor(part.node), Call::Stage(stage), EXECUTOR_LIMIT);
            self.calls.insert(call, Waiting::Statement(id, *partition));
        }
    }

    /// An executor answered a call of a statement, or did not in time.
    pub(super) fn statement_answered(
        &mut self,
        id: u64,
        partition: PartitionId,
        answer: Option<Answer>,
        context: &mut Context<'_>,
    ) {
        let Some(statement) = self.statements.get_mut(&id) else { return };
        match (&mut statement.work, answer) {
            (Work::Read { open, rows, .. }, Some(Answer::Rows(found))) => {
                let Some(version) = open.remove(&partition) else { return };
                rows.insert(partition, (version, found));
                if open.is_empty() {
                    let rows = std::mem::take(rows);
                    self.tell_client(id, Told::Rows(rows), context);
                }
            }
            (Work::Write(write), Some(Answer::Rows(found))) if !write.staged => {
                write.choose_victim(partition, &found);
                self.stage(id, context);
            }
            (Work::Write(write), Some(Answer::Sealed { incarnation })) => {
                if let Some(part) = write.parts.get_mut(&partition) {
                    part.incarnation = incarnation;
                }
                self.part_ready(id, partition, context);
            }
            (Work::Write(write), Some(Answer::Rebased { base })) => {
                if let Some(part) = write.parts.get_mut(&partition) {
                    part.base = Some(base);
                }
                self.part_ready(id, partition, context);
            }
            (_, Some(Answer::Refused(kind, text))) => self.fail(id, kind, &text, context),
            _ => self.fail(id, ErrorKind::Unavailable, "an executor did not answer", context),
        }
    }

    fn part_ready(&mut self, id: u64, partition: PartitionId, context: &mut Context<'_>) {
        let Some(Statement { work: Work::Write(write), .. }) = self.statements.get_mut(&id) else { return };
        write.open.remove(&partition);
        if !write.open.is_empty() {
            return;
        }
        // Now and then the scheduler is busy with other things; much can happen meanwhile.
        if context.rng.random_ratio(1, 8) {
            let stall = context.between(100, 4_000);
            context.after(stall, Timer::Commit(id));
        } else {
            self.commit(id, context);
        }
    }

    /// Proposes the commit of a sealed write.
    pub(super) fn commit(&mut self, id: u64, context: &mut Context<'_>) {
        let Some(Statement { work: Work::Write(write), .. }) = self.statements.get(&id) else { return };
        let command = write.commit();
        self.propose(command, Then::Statement(id), context);
    }

    /// A command of a statement has its outcome.
    pub(super) fn proposed(&mut self, id: u64, outcome: Outcome, context: &mut Context<'_>) {
        let response = match outcome {
            // What may be committed stays staged.
            Outcome::Unknown => return self.tell_client(id, Told::Unknown, context),
            Outcome::NotApplied => return self.fail(id, ErrorKind::Unavailable, "no leader took it", context),
            Outcome::Applied(response) => response,
        };
        match response.outcome {
            Err(refusal) => self.fail(id, refusal.kind, &refusal.message, context),
            Ok(Applied::Committed { parts }) => {
                self.tell_owners(id, &parts, context);
                self.tell_client(id, Told::Done, context);
            }
            Ok(Applied::Repeated { .. }) => {
                self.discard(id, context);
                self.tell_client(id, Told::Done, context);
            }
            Ok(Applied::Outdated { parts }) => self.rebase(id, &parts, context),
            // A partition is about to change hands; the same commit is asked for again until it has, or stays.
            Ok(Applied::Closing { .. }) => {
                let pause = context.between(50, 500);
                context.after(pause, Timer::Commit(id));
            }
            Ok(_) => self.tell_client(id, Told::Done, context),
        }
    }

    fn tell_owners(&mut self, id: u64, parts: &[CommittedPart], context: &mut Context<'_>) {
        let Some(Statement { work: Work::Write(write), .. }) = self.statements.get(&id) else { return };
        for committed in parts {
            if let Some(part) = write.parts.get(&committed.partition) {
                let (partition, version, write) = (committed.partition, committed.version, write.write);
                let call = context.number();
                let publish = Call::Publish { partition, version, write };
                context.send(Node::Executor(part.node), Message::Call(call, publish));
            }
        }
    }

    fn rebase(&mut self, id: u64, outdated: &[CommittedPart], context: &mut Context<'_>) {
        let state = Arc::clone(&self.state);
        let Some(Statement { work: Work::Write(write), .. }) = self.statements.get_mut(&id) else { return };
        write.rebases += 1;
        if write.rebases > MOST_REBASES || matches!(write.shape, Shape::Overwrite { .. }) {
            return self.fail(id, ErrorKind::Conflict, "other writes came between", context);
        }
        write.open = outdated.iter().map(|part| part.partition).collect();
        for CommittedPart { partition, version } in outdated.iter().copied() {
            let Some(part) = write.parts.get(&partition) else { continue };
            let made_by = state.find_partition(partition).and_then(|(_, p)| {
                p.commits.iter().find(|commit| commit.version == version).map(|commit| commit.write_id)
            });
            let read = Read { partition, epoch: part.epoch, version, made_by };
            let rebase = Call::Rebase { write: write.write, read };
            let call = context.call(Node::Executor(part.node), rebase, EXECUTOR_LIMIT);
            self.calls.insert(call, Waiting::Statement(id, partition));
        }
    }
}

impl Work {
    fn table(&self) -> Option<&TableName> {
        match self {
            Self::Definition => None,
            Self::Read { table, .. } => Some(table),
            Self::Write(write) => Some(&write.table),
        }
    }
}

/// Serving owner of each partition; none if one of them has none.
fn routes(state: &ClusterState, table: &Table) -> Option<BTreeMap<PartitionId, (usize, ExecutorId)>> {
    let route = |partition: &Partition| {
        let owner = state.serving_owner(partition)?;
        let node = owner.url.strip_prefix("http://e")?.parse().ok()?;
        Some((partition.id, (node, owner.id.clone())))
    };
    table.partitions.values().map(route).collect()
}

/// A partition whose owner the leader chooses.
fn unplaced(value: u32) -> NewPartition {
    NewPartition { key: PartitionKey(vec![Some(value.to_string())]), owners: Vec::new() }
}

fn new_table(name: TableName, buckets: u32, or_replace: bool) -> NewTable {
    let expression = if buckets == 0 { "k".to_owned() } else { format!("bucket({buckets}, k)") };
    NewTable {
        name,
        if_not_exists: !or_replace,
        or_replace,
        schema: Schema(Arc::new(ArrowSchema::new(vec![Field::new("k", DataType::Int64, false)]))),
        partition_spec: PartitionSpec::new(vec![expression]),
        primary_key: Vec::new(),
        params: BTreeMap::new(),
        dataset: None,
        loading: false,
        partitions: (0..buckets).map(unplaced).collect(),
    }
}

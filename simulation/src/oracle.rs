//! Knows everything that happened, and says when something must not have. The named checks:
//!
//! | id | what must hold |
//! |---|---|
//! | `STATE` | the state machine's own invariants ([`violations`]) hold after every entry; versions and epochs never go back |
//! | `AGREE` | all schedulers apply the same entries and get the same state, also from a stored copy |
//! | `DURABLE` | when a write is committed, every part of it is on the disk of the owner that the state names |
//! | `ONCE` | an operation is applied once, whatever its request goes through, and a row is deleted once |
//! | `ANSWER` | what a client was told is so: done is applied, failed never is |
//! | `READ` | a read shows exactly the rows committed up to its versions, and all that was acknowledged before it began |
//! | `LEASE` | an executor that is given up serves nothing any more, by its own clock |
//! | `FENCE` | partitions are taken only from executors that serve nothing any more, or that hand them over |
//! | `MOVE` | who a partition is handed over to has every committed row of it |
//! | `SETTLE` | once faults stop, everything is up, placed and served again, and nothing is left staged |
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ancho_common::ids::{ExecutorId, PartitionId, RequestId, WriteId};
use ancho_executor::session::Lease;
use ancho_scheduler::state::{
    ClusterState, Command, CommittedPart, Liveness, Outcome, Partition, Request, Response, TableName, violations,
};

use crate::{
    clock::{Clock, Time},
    disk::{Change, ExecutorDisk, Operation, rows},
};

/// States are compared between schedulers at every so many entries.
const COMPARE_EVERY: u64 = 16;

/// What a scheduler set out to write.
#[derive(Debug, Clone)]
struct Intent {
    operation: Operation,
    parts: BTreeMap<PartitionId, Change>,
}

/// A running executor.
#[derive(Debug)]
struct Running {
    incarnation: String,
    lease: Arc<Lease>,
    clock: Clock,
}

/// What has happened, for the report of a run.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// Entries applied.
    pub entries: u64,
    /// Writes committed.
    pub commits: u64,
    /// Reads answered and checked.
    pub reads: u64,
    /// Operations acknowledged.
    pub acknowledged: u64,
    /// Operations whose outcome the client never learned.
    pub unknown: u64,
    /// Operations that failed for certain.
    pub failed: u64,
    /// Executors given up.
    pub given_up: u64,
    /// Partitions that changed hands.
    pub placed: u64,
    /// Partitions with rows that were handed over.
    pub moved: u64,
}

/// See the module's description.
#[derive(Debug, Default)]
pub struct Oracle {
    /// The newest applied state.
    pub state: Arc<ClusterState>,
    /// Partitions whose only copy is gone for good.
    pub lost: BTreeSet<PartitionId>,
    /// Counts.
    pub counts: Counts,
    /// The first thing that must not be.
    pub broken: Option<String>,
    index: u64,
    entries: BTreeMap<u64, (u64, Option<RequestId>)>,
    /// Requests that have been applied.
    requests: BTreeSet<RequestId>,
    intents: BTreeMap<WriteId, Intent>,
    commits: BTreeMap<PartitionId, Vec<WriteId>>,
    done: BTreeMap<Operation, WriteId>,
    never: BTreeSet<Operation>,
    /// Versions that clients were told of.
    floors: BTreeMap<PartitionId, u64>,
    running: BTreeMap<ExecutorId, Running>,
    newest_term: u64,
}

impl Oracle {
    /// Notes what must not be; the first one counts.
    pub fn fail(&mut self, check: &str, what: impl std::fmt::Display) {
        self.broken.get_or_insert_with(|| format!("{check}: {what}"));
    }

    /// An executor has started.
    pub fn started(&mut self, id: ExecutorId, incarnation: String, lease: Arc<Lease>, clock: Clock) {
        self.running.insert(id, Running { incarnation, lease, clock });
    }

    /// An executor is gone.
    pub fn stopped(&mut self, id: &ExecutorId) {
        self.running.remove(id);
    }

    /// A scheduler leads in a term.
    pub fn leads(&mut self, term: u64) {
        self.newest_term = self.newest_term.max(term);
    }

    /// A scheduler sets out to write.
    pub fn intends(&mut self, write: WriteId, operation: Operation, parts: BTreeMap<PartitionId, Change>) {
        self.intents.insert(write, Intent { operation, parts });
    }

    fn serves(&self, id: &ExecutorId, incarnation: Option<&str>, time: Time) -> bool {
        self.running.get(id).is_some_and(|running| {
            incarnation.is_none_or(|i| i == running.incarnation) && running.lease.is_held_at(running.clock.at(time))
        })
    }

    /// The leader of a term gives an executor up.
    pub fn verdict(&mut self, term: u64, id: &ExecutorId, incarnation: &str, time: Time) {
        if term == self.newest_term && self.serves(id, Some(incarnation), time) {
            self.fail("LEASE", format!("the leader of term {term} gives up executor {id}, whose session still lasts"));
        }
    }

    /// A scheduler has taken over a state in place of the entries up to an index.
    pub fn restored(&mut self, index: u64, state: &Arc<ClusterState>) {
        if index > self.index {
            self.fail("AGREE", format!("a state of entry {index} comes before that entry is applied"));
        } else if index == self.index && **state != *self.state {
            self.fail("AGREE", format!("the states after entry {index} differ"));
        }
    }

    /// A scheduler has applied an entry.
    pub fn applied(
        &mut self,
        entry: (u64, u64),
        request: Option<&Request>,
        response: Option<&Response>,
        state: &Arc<ClusterState>,
        disks: &[ExecutorDisk],
        time: Time,
    ) {
        let (index, term) = entry;
        let named = (term, request.map(|r| r.id));
        if index <= self.index {
            if self.entries.get(&index) != Some(&named) {
                self.fail(
                    "AGREE",
                    format!("entry {index} is {named:?} here and {:?} elsewhere", self.entries.get(&index)),
                );
            }
            if index == self.index && index.is_multiple_of(COMPARE_EVERY) && **state != *self.state {
                self.fail("AGREE", format!("the states after entry {index} differ"));
            }
            return;
        }
        if index != self.index + 1 {
            self.fail("AGREE", format!("entry {index} is applied after entry {}", self.index));
        }
        self.index = index;
        self.entries.insert(index, named);
        self.counts.entries += 1;
        let before = std::mem::replace(&mut self.state, Arc::clone(state));
        if let (Some(request), Some(response)) = (request, response)
            && response.revision == state.revision
            && before.revision != state.revision
        {
            if !self.requests.insert(request.id) {
                self.fail("ONCE", format!("request {} is applied again by entry {index}", request.id));
            }
            self.command(&before, request, response, disks, time);
        }
        if let Some(violation) = violations(state).first() {
            self.fail("STATE", format!("after entry {index}: {violation}"));
        }
    }

    fn command(
        &mut self,
        before: &ClusterState,
        request: &Request,
        response: &Response,
        disks: &[ExecutorDisk],
        time: Time,
    ) {
        let state = Arc::clone(&self.state);
        match (&request.command, &response.outcome) {
            (Command::CommitWrite { write_id, .. }, Ok(Outcome::Committed { parts })) => {
                self.committed(&state, *write_id, parts, disks);
            }
            (Command::CommitTransaction { parts: wanted, .. }, Ok(Outcome::Committed { parts })) => {
                for write in wanted.iter().map(|part| part.write_id).collect::<BTreeSet<_>>() {
                    self.committed(&state, write, parts, disks);
                }
            }
            (Command::ExecutorDown { executor, incarnation }, Ok(_)) => {
                let up = |s: &ClusterState| s.executors.get(executor).is_some_and(|e| e.liveness == Liveness::Up);
                if up(before) && !up(&state) {
                    self.counts.given_up += 1;
                    if self.serves(executor, Some(incarnation), time) {
                        self.fail("LEASE", format!("executor {executor} is marked down while its session lasts"));
                    }
                }
            }
            _ => {}
        }
        for (table, partition) in state.tables.values().flat_map(|t| t.partitions.values().map(move |p| (t, p))) {
            let Some(former) = before.tables.get(&table.id).and_then(|t| t.partitions.get(&partition.id)) else {
                continue;
            };
            if partition.epoch < former.epoch || partition.version < former.version {
                self.fail("STATE", format!("partition {} went back", partition.id));
            }
            if partition.owners == former.owners {
                continue;
            }
            self.counts.placed += 1;
            if partition.epoch == former.epoch {
                self.fail("FENCE", format!("partition {} has other owners under the same epoch", partition.id));
            }
            if matches!(request.command, Command::AdvanceMoves { .. }) {
                self.handed_over(partition, disks);
                continue;
            }
            if matches!(request.command, Command::StartMoves { .. }) && partition.version == 0 {
                // Whatever is read or staged there under the former epoch is nothing, and never committed.
                continue;
            }
            for owner in former.owners.iter().filter(|o| !partition.owners.contains(o)) {
                if self.serves(owner, None, time) {
                    self.fail("FENCE", format!("partition {} is taken from {owner}, which may serve it", partition.id));
                }
            }
        }
    }

    fn handed_over(&mut self, partition: &Partition, disks: &[ExecutorDisk]) {
        self.counts.moved += 1;
        let (id, version) = (partition.id, partition.version);
        let owner = partition.owners.first();
        // One that it gets back it has in its place.
        let disk = disks.iter().find(|disk| Some(&disk.id) == owner);
        let copy = disk.and_then(|disk| disk.copies.get(&id).or_else(|| disk.partitions.get(&id)));
        let whole = copy.is_some_and(|copy| copy.version() >= version);
        let upto = usize::try_from(version).unwrap_or(usize::MAX);
        let same = copy.is_some_and(|copy| copy.rows(version) == self.rows_of(id, upto));
        if !(whole && same) && !self.lost.contains(&id) {
            self.fail(
                "MOVE",
                format!("partition {id} is handed over to {owner:?} without the rows of version {version}"),
            );
        }
    }

    fn committed(&mut self, state: &ClusterState, write: WriteId, parts: &[CommittedPart], disks: &[ExecutorDisk]) {
        let Some(intent) = self.intents.get(&write).cloned() else {
            return self.fail("ONCE", format!("nobody wanted write {write}"));
        };
        let fresh = parts.iter().any(|part| {
            let known = self.commits.get(&part.partition);
            known.is_none_or(|known| (known.len() as u64) < part.version)
        });
        if !fresh {
            return;
        }
        self.counts.commits += 1;
        let operation = intent.operation;
        if let Some(former) = self.done.insert(operation, write) {
            self.fail("ONCE", format!("operation {operation} is applied by write {former} and by write {write}"));
        }
        if self.never.contains(&operation) {
            self.fail("ANSWER", format!("operation {operation} is applied after its client was told that it is not"));
        }
        if !parts.iter().map(|p| &p.partition).eq(intent.parts.keys()) {
            self.fail("ONCE", format!("write {write} is committed with other parts than it has"));
        }
        let replaced = parts.first().filter(|_| intent.parts.values().any(|change| change.overwrite));
        if let Some((table, _)) = replaced.and_then(|part| state.find_partition(part.partition)) {
            for id in table.partitions.keys().filter(|id| !intent.parts.contains_key(id)) {
                if !self.rows_of(*id, usize::MAX).is_empty() {
                    self.fail("ONCE", format!("rows of partition {id} outlive write {write}, which replaces all rows"));
                }
            }
        }
        for part in parts {
            let id = part.partition;
            let Some((_, partition)) = state.find_partition(id) else { continue };
            let present = self.rows_of(id, usize::MAX);
            let commits = self.commits.entry(id).or_default();
            let twice = intent.parts.get(&id).and_then(|change| change.deletes.difference(&present).next()).copied();
            commits.push(write);
            let next = commits.len() as u64;
            if part.version != next {
                self.fail(
                    "ONCE",
                    format!("write {write} is version {} of partition {id} and not {next}", part.version),
                );
            }
            if let Some(row) = twice {
                self.fail("ONCE", format!("row {row} of partition {id} is deleted again by write {write}"));
            }
            let owner = partition.owners.first();
            let disk = disks.iter().find(|disk| Some(&disk.id) == owner).and_then(|disk| disk.partitions.get(&id));
            let held = disk.is_some_and(|disk| {
                disk.staged.contains_key(&write) || disk.versions.iter().any(|version| version.write == write)
            });
            if !held && !self.lost.contains(&id) {
                self.fail("DURABLE", format!("write {write} is committed and not on the owner of partition {id}"));
            }
        }
    }

    /// Rows after the first so many commits of a partition.
    fn rows_of(&self, partition: PartitionId, commits: usize) -> BTreeSet<Operation> {
        let writes = self.commits.get(&partition).map_or(&[][..], Vec::as_slice);
        rows(writes.iter().take(commits).filter_map(|write| self.intents.get(write)?.parts.get(&partition)))
    }

    /// Where a read that begins now must at least get to.
    #[must_use]
    pub fn floors(&self) -> BTreeMap<PartitionId, u64> {
        self.floors.clone()
    }

    /// A client was told that its operation is done.
    pub fn told_done(&mut self, operation: Operation) {
        self.counts.acknowledged += 1;
        let Some(write) = self.done.get(&operation) else {
            return self.fail("ANSWER", format!("a client was told that operation {operation} is done, and it is not"));
        };
        for (partition, commits) in &self.commits {
            if let Some(at) = commits.iter().position(|w| w == write) {
                let floor = self.floors.entry(*partition).or_default();
                *floor = (*floor).max(at as u64 + 1);
            }
        }
    }

    /// A client was told that its operation failed for certain.
    pub fn told_failed(&mut self, operation: Operation) {
        self.counts.failed += 1;
        self.never.insert(operation);
        if self.done.contains_key(&operation) {
            self.fail("ANSWER", format!("a client was told that operation {operation} failed, and it is applied"));
        }
    }

    /// Checks the answer to a read against the floors of its begin.
    pub fn told_rows(
        &mut self,
        table: &TableName,
        answer: &BTreeMap<PartitionId, (u64, BTreeSet<Operation>)>,
        floors: &BTreeMap<PartitionId, u64>,
    ) {
        self.counts.reads += 1;
        for (partition, (version, found)) in answer {
            let newest = self.commits.get(partition).map_or(0, Vec::len);
            let upto = usize::try_from(*version).unwrap_or(usize::MAX);
            let expected = self.rows_of(*partition, upto);
            if upto > newest || *found != expected {
                let place = format!("partition {partition} at version {version} of {newest}");
                self.fail("READ", format!("{place} shows {found:?} and not {expected:?}"));
            }
            if floors.get(partition).is_some_and(|floor| floor > version) {
                self.fail(
                    "READ",
                    format!("partition {partition} is read at version {version}, older than acknowledged"),
                );
            }
        }
        let state = Arc::clone(&self.state);
        if let Some(table) = state.table(table) {
            for partition in table.partitions.keys().filter(|p| floors.contains_key(p) && !answer.contains_key(p)) {
                self.fail("READ", format!("partition {partition} is missing in an answer"));
            }
        }
    }
}

//! What an executor is told to hold.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::{ids::ExecutorId, schema::to_ipc, snapshot::StoredObject};
use ancho_proto::v1;
use bytes::Bytes;

use crate::state::{ClusterState, CommitRecord, Move, MovePhase, Partition, Table};

/// How often the files of a table are looked at although nothing was written.
const COMPACTION_INTERVAL: &str = "cayenne_compaction_background_interval_ms";

/// Everything in an executor's assignments that can change while its tables exist: compared to tell whether a message
/// is due, without building it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digest {
    /// Table, with how often its columns and its parameters have changed; partition, epoch, and what is to be done.
    held: Vec<([u64; 3], u64, u64, Duty)>,
    /// Committed version of each, and its version in the newest snapshot.
    versions: Vec<(u64, Option<u64>)>,
}

impl Digest {
    /// The digest of an executor's assignments in a state.
    #[must_use]
    pub fn of(state: &ClusterState, executor: &ExecutorId) -> Self {
        let mut digest = Self::default();
        for (table, partition, duty) in duties(state, executor) {
            let definition = [table.id.0, table.schema_version, table.params_version];
            let snapshot = state.snapshots.part_of(table, partition.id).map(|(_, part)| part.version);
            // What is left does not change any more.
            digest.versions.push(if duty.is_leaving() { (0, None) } else { (partition.version, snapshot) });
            digest.held.push((definition, partition.id.0, partition.epoch, duty));
        }
        digest
    }

    /// Partitions came, went or changed hands, or a table its definition. Otherwise only versions differ, which the executor
    /// also learns when a write is published.
    #[must_use]
    pub fn holds_others_than(&self, former: &Self) -> bool {
        self.held != former.held
    }
}

/// The message for an executor, as of this state.
#[must_use]
pub fn assignments(state: &ClusterState, executor: &ExecutorId) -> v1::Assignments {
    let mut of_table: BTreeMap<u64, (Bytes, String)> = BTreeMap::new();
    let partitions = duties(state, executor)
        .map(|(table, partition, duty)| {
            let (epoch, version) = duty.tenure(partition);
            let (schema, params) = of_table
                .entry(table.id.0)
                .or_insert_with(|| (Bytes::from(to_ipc(&table.schema.0)), params_json(table)))
                .clone();
            v1::Assignment {
                partition_id: partition.id.0,
                table_id: table.id.0,
                table: table.name.to_string(),
                partition: partition.key.display(),
                epoch,
                version,
                schema,
                commits: partition.commits.iter().filter(|c| c.version <= version).map(|c| commit(table, c)).collect(),
                params,
                primary_key: table.primary_key.clone(),
                snapshot: snapshot(state, table, partition),
                schema_version: table.schema_version,
                duty: duty.to_proto().into(),
                source: duty.source(),
            }
        })
        .collect();
    v1::Assignments { state_index: state.revision, partitions }
}

fn snapshot(state: &ClusterState, table: &Table, partition: &Partition) -> Option<v1::PartitionSnapshot> {
    let (snapshot, part) = state.snapshots.part_of(table, partition.id)?;
    Some(v1::PartitionSnapshot {
        // A location has no part that JSON cannot hold.
        location: serde_json::to_string(&snapshot.location).unwrap_or_default(),
        folder: snapshot.folder.clone(),
        version: part.version,
        manifest: Some(stored_object(&part.manifest)),
    })
}

/// As messages have it.
#[must_use]
pub(crate) fn stored_object(object: &StoredObject) -> v1::StoredObject {
    v1::StoredObject { key: object.key.clone(), bytes: object.bytes, sha256: object.sha256.clone() }
}

/// What an executor has to do with a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Duty {
    /// It owns it; the former owner, at this URL, still has it as it was under an epoch and at a version.
    Hold { former: Option<(String, u64, u64)> },
    /// It copies it from the owner at this URL, the sooner the better if commits wait for it.
    Copy { from: String, epoch: u64, closing: bool },
    /// It was the owner under this epoch, up to this version.
    Leave { epoch: u64, version: u64 },
}

impl Duty {
    fn of(state: &ClusterState, executor: &ExecutorId, partition: &Partition) -> Option<Self> {
        let moving: Option<&Move> = state.moves.get(&partition.id);
        let url = |id: &ExecutorId| state.executors.get(id).map(|e| e.url.clone());
        if partition.owners.contains(executor) {
            let former = moving
                .filter(|m| m.phase == MovePhase::Leaving)
                .and_then(|m| Some((url(&m.from)?, m.epoch.saturating_sub(1), m.version)));
            return Some(Self::Hold { former });
        }
        let moving = moving?;
        match moving.phase {
            MovePhase::Copying | MovePhase::Closing if moving.to == *executor => Some(Self::Copy {
                from: url(&moving.from)?,
                epoch: moving.epoch,
                closing: moving.phase == MovePhase::Closing,
            }),
            MovePhase::Leaving if moving.from == *executor => {
                Some(Self::Leave { epoch: moving.epoch.saturating_sub(1), version: moving.version })
            }
            _ => None,
        }
    }

    fn is_leaving(&self) -> bool {
        matches!(self, Self::Leave { .. })
    }

    /// Epoch and version that the executor has to do with.
    fn tenure(&self, partition: &Partition) -> (u64, u64) {
        match self {
            Self::Leave { epoch, version } => (*epoch, *version),
            Self::Hold { .. } | Self::Copy { .. } => (partition.epoch, partition.version),
        }
    }

    fn source(&self) -> Option<v1::CopySource> {
        match self {
            Self::Hold { former } => former.clone().map(|(url, epoch, version)| v1::CopySource { url, epoch, version }),
            Self::Copy { from, epoch, .. } => Some(v1::CopySource { url: from.clone(), epoch: *epoch, version: 0 }),
            Self::Leave { .. } => None,
        }
    }

    fn to_proto(&self) -> v1::Duty {
        match self {
            Self::Hold { .. } => v1::Duty::Hold,
            Self::Copy { .. } => v1::Duty::Copy,
            Self::Leave { .. } => v1::Duty::Leave,
        }
    }
}

fn duties<'a>(
    state: &'a ClusterState,
    executor: &'a ExecutorId,
) -> impl Iterator<Item = (&'a Arc<Table>, &'a Partition, Duty)> {
    state
        .tables
        .values()
        .flat_map(|table| table.partitions.values().map(move |partition| (table, partition)))
        .filter_map(move |(table, partition)| Some((table, partition, Duty::of(state, executor, partition)?)))
}

fn commit(table: &Table, commit: &CommitRecord) -> v1::Commit {
    let change = table.alteration(commit.write_id).map(|alteration| {
        // A change of columns has no part that JSON cannot hold.
        serde_json::to_string(&alteration.change).unwrap_or_default()
    });
    v1::Commit {
        version: commit.version,
        write_id: commit.write_id.to_string(),
        column_change: change.unwrap_or_default(),
    }
}

fn params_json(table: &Table) -> String {
    let mut params: serde_json::Map<String, serde_json::Value> =
        table.params.iter().map(|(name, value)| (name.clone(), value.clone().into())).collect();
    if table.dataset.is_some() {
        // Its rows are replaced as a whole; nothing piles up between two loads.
        params.entry(COMPACTION_INTERVAL).or_insert_with(|| "0".into());
    }
    serde_json::Value::Object(params).to_string()
}

#[cfg(test)]
mod tests {
    use ancho_common::{
        ids::{RequestId, WriteId},
        schema::from_ipc,
    };

    use super::*;
    use crate::state::{
        Command, Request, StagedPart,
        tests::{id, new_table, register, schema},
    };

    #[test]
    fn an_executor_is_told_of_its_own_partitions_and_of_what_became_of_writes() {
        let mut state = ClusterState::default();
        let mut apply = |command: Command| {
            let request = Request { id: RequestId::new(), now_ms: 0, command };
            state.apply(request).outcome.unwrap();
            state.clone()
        };
        for name in ["a", "b"] {
            apply(register(name, "1"));
        }
        let before = apply(Command::CreateTable(Box::new(new_table("t", 3, &["a", "b"]))));
        let table = *before.tables.keys().next().unwrap();
        let partition = before.tables[&table].partitions.values().nth(2).unwrap().id;
        let write_id = WriteId::new();
        let part = StagedPart {
            partition,
            epoch: 1,
            executor: id("a"),
            incarnation: "1".into(),
            rows: 5,
            bytes: 50,
            columns: vec![],
            deleted: 0,
            base: None,
        };
        let parts = vec![part];
        let after = apply(Command::CommitWrite {
            table,
            write_id,
            overwrite: false,
            parts,
            refreshed: None,
            based_on: None,
            request: None,
            schema_version: 0,
        });

        assert_eq!(Digest::of(&before, &id("b")), Digest::of(&after, &id("b")));
        assert!(!Digest::of(&after, &id("a")).holds_others_than(&Digest::of(&before, &id("a"))));
        assert_ne!(Digest::of(&before, &id("a")), Digest::of(&after, &id("a")));
        let told = assignments(&after, &id("a"));
        assert_eq!(told.state_index, after.revision);
        assert_eq!(told.partitions.iter().map(|p| p.partition.as_str()).collect::<Vec<_>>(), ["0", "2"]);
        let last = &told.partitions[1];
        assert_eq!((last.partition_id, last.epoch, last.version, last.table.as_str()), (partition.0, 1, 1, "t"));
        assert_eq!(
            last.commits,
            [v1::Commit { version: 1, write_id: write_id.to_string(), column_change: String::new() }]
        );
        assert_eq!(from_ipc(&last.schema).unwrap(), schema().0);
        assert_eq!(last.params, r#"{"cayenne_compression":"on"}"#);
        assert!(assignments(&after, &id("c")).partitions.is_empty());
    }
}

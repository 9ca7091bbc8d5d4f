//! What the schedulers want this executor to hold, checked on receipt.
use std::collections::{BTreeMap, HashMap};

use ancho_common::{
    alter::ColumnChange,
    error::{Error, Result},
    ids::{PartitionId, TableId, WriteId},
    schema,
};
use ancho_proto::v1 as proto;
use arrow::datatypes::SchemaRef;
use cayenne::{TableSettings, WriteOptions};

use super::table_params::{self, TableTuning};
use crate::copy::CopyWanted;

/// One partition to hold.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Which.
    pub partition: PartitionId,
    /// Its table.
    pub table_id: TableId,
    /// Name of the table, for people.
    pub table: String,
    /// The partition's key, for people.
    pub key: String,
    /// Epoch of the ownership.
    pub epoch: u64,
    /// Committed version; 0 for a partition that never held rows.
    pub version: u64,
    /// Columns of the table.
    pub schema: SchemaRef,
    /// How often they have changed.
    pub schema_version: u64,
    /// The latest commits by version: what became of staged writes.
    pub commits: BTreeMap<u64, WriteId>,
    /// What those of them do that are changes of columns.
    pub changes: HashMap<WriteId, ColumnChange>,
    /// The primary key, and what the engine parameters of the table say about it.
    pub settings: TableSettings,
    /// How rows are written, after the engine parameters of the table.
    pub write_options: WriteOptions,
    /// What else these parameters say.
    pub tuning: TableTuning,
    /// Where it is in the newest snapshot of its table; looked at only when it is needed.
    pub snapshot: Option<proto::PartitionSnapshot>,
    /// What is to be done with it.
    pub duty: Duty,
    /// Who has its rows, if that is not (only) this executor.
    pub source: Option<CopySource>,
}

/// What is to be done with a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duty {
    /// It is this executor's.
    Hold,
    /// It is another one's, to be copied.
    Copy,
    /// It is another one's, who took it over: what was planned before is still read here.
    Leave,
}

/// An executor that has a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopySource {
    /// Where it is reached.
    pub url: String,
    /// The epoch under which it has it.
    pub epoch: u64,
    /// The version that it has at least.
    pub version: u64,
}

/// One entry of a set.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    /// Epoch of the ownership.
    pub epoch: u64,
    /// What to hold, or why its message cannot be understood.
    pub assignment: Result<Assignment>,
}

impl Assignment {
    /// What to copy, if there is anybody to copy from.
    #[must_use]
    pub fn to_copy(&self) -> Option<CopyWanted> {
        let source = self.source.as_ref()?;
        // A former owner goes no further than it was.
        let version = if self.duty == Duty::Copy { self.version } else { source.version };
        Some(CopyWanted {
            epoch: self.epoch,
            url: source.url.clone(),
            source_epoch: source.epoch,
            version,
            write: self.commits.get(&version).copied(),
        })
    }

    /// The partition as errors name it.
    #[must_use]
    pub fn place(&self) -> String {
        format!("table {}, partition {} (id {})", self.table, self.key, self.partition)
    }
}

/// The whole set, as of a revision of the replicated state.
#[derive(Debug, Clone, Default)]
pub struct Assignments {
    /// Grows with the replicated state; an older set is ignored.
    pub state_index: u64,
    /// What to hold. A partition whose message cannot be understood is here too, with the reason: it is assigned, so
    /// its directory must stay.
    pub partitions: BTreeMap<PartitionId, Wanted>,
}

impl Assignments {
    /// Whether a newer set has been applied already. `applied` is `None` before the first set.
    #[must_use]
    pub fn is_older_than(&self, applied: Option<u64>) -> bool {
        applied.is_some_and(|applied| self.state_index < applied)
    }

    /// Checks a message. Faults stay with the partition that has them.
    #[must_use]
    pub fn from_proto(message: &proto::Assignments) -> Self {
        // All partitions of a table carry the same schema; it is decoded once.
        let mut schemas = HashMap::new();
        let partitions = message
            .partitions
            .iter()
            .map(|p| {
                let wanted = Wanted { epoch: p.epoch, assignment: assignment(p, &mut schemas) };
                (PartitionId(p.partition_id), wanted)
            })
            .collect();
        Self { state_index: message.state_index, partitions }
    }
}

fn assignment<'a>(
    message: &'a proto::Assignment,
    schemas: &mut HashMap<&'a [u8], Result<SchemaRef>>,
) -> Result<Assignment> {
    let place = || format!("table {}, partition {} (id {})", message.table, message.partition, message.partition_id);
    let bad = |what: String| Error::internal(format!("assignment of {} cannot be used: {what}", place()));
    let schema = schemas
        .entry(&message.schema)
        .or_insert_with(|| schema::from_ipc(&message.schema))
        .clone()
        .map_err(|e| bad(e.message))?;
    let mut changes = HashMap::new();
    let commits = message
        .commits
        .iter()
        .map(|commit| {
            let id =
                WriteId::parse(&commit.write_id).map_err(|e| bad(format!("write id {:?}: {e}", commit.write_id)))?;
            if !commit.column_change.is_empty() {
                let change = serde_json::from_str(&commit.column_change)
                    .map_err(|e| bad(format!("change of columns by {id}: {e}")))?;
                changes.insert(id, change);
            }
            Ok((commit.version, id))
        })
        .collect::<Result<_>>()?;
    if message.epoch == 0 {
        return Err(bad("epochs start at 1".into()));
    }
    let params = table_params::parse(&message.params).map_err(bad)?;
    let settings = table_params::settings(&message.primary_key, &params).map_err(bad)?;
    Ok(Assignment {
        partition: PartitionId(message.partition_id),
        table_id: TableId(message.table_id),
        table: message.table.clone(),
        key: message.partition.clone(),
        epoch: message.epoch,
        version: message.version,
        schema,
        schema_version: message.schema_version,
        commits,
        changes,
        settings,
        write_options: table_params::write_options(&params).map_err(bad)?,
        tuning: table_params::tuning(&params).map_err(bad)?,
        snapshot: message.snapshot.clone(),
        duty: match message.duty() {
            proto::Duty::Hold => Duty::Hold,
            proto::Duty::Copy => Duty::Copy,
            proto::Duty::Leave => Duty::Leave,
        },
        source: message.source.as_ref().map(|source| CopySource {
            url: source.url.clone(),
            epoch: source.epoch,
            version: source.version,
        }),
    })
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};

    use cayenne::{Compression, ConflictDetection, DeletionMode};

    use super::*;

    #[test]
    fn a_fault_stays_with_its_partition() {
        let good = proto::Assignment {
            partition_id: 1,
            table_id: 2,
            table: "orders".into(),
            partition: "3".into(),
            epoch: 1,
            version: 0,
            schema: schema::to_ipc(&Schema::new(vec![Field::new("k", DataType::Int64, false)])).into(),
            commits: vec![],
            params: r#"{"cayenne_target_file_size_mb":"64","cayenne_compression_strategy":"zstd"}"#.into(),
            primary_key: vec![],
            snapshot: None,
            schema_version: 0,
            ..Default::default()
        };
        let bad_schema = proto::Assignment { partition_id: 2, schema: vec![1, 2].into(), ..good.clone() };
        let bad_params = proto::Assignment { partition_id: 3, params: "[]".into(), ..good.clone() };
        let of = |params: &str| proto::Assignment { partition_id: 4, params: params.into(), ..good.clone() };
        let bad_value = of(r#"{"cayenne_compression_strategy":"gzip"}"#);
        let automatic = proto::Assignment { partition_id: 5, ..of(r#"{"cayenne_target_file_size_mb":"auto"}"#) };
        let of_keys = good.clone();
        let partitions = vec![good, bad_schema, bad_params, bad_value, automatic];
        let set = Assignments::from_proto(&proto::Assignments { state_index: 9, partitions });
        let outcome = |id| set.partitions[&PartitionId(id)].assignment.clone();
        assert_eq!(
            outcome(1).unwrap().write_options,
            WriteOptions {
                target_file_bytes: Some(64 << 20),
                compression: Compression::Zstd,
                ..WriteOptions::default()
            }
        );
        let keyed = proto::Assignment {
            primary_key: vec!["k".into()],
            params: r#"{"pk_conflict_detection":"none","cayenne_deletion_mode":"key"}"#.into(),
            ..of_keys
        };
        let set_of_keyed = Assignments::from_proto(&proto::Assignments { state_index: 1, partitions: vec![keyed] });
        let keyed = set_of_keyed.partitions[&PartitionId(1)].assignment.clone().unwrap().settings;
        assert_eq!(keyed.primary_key, ["k"]);
        assert_eq!((keyed.conflict_detection, keyed.deletion_mode), (ConflictDetection::None, DeletionMode::Key));
        let error = outcome(2).unwrap_err().message;
        assert!(error.contains("table orders, partition 3 (id 2)"), "{error}");
        assert!(outcome(3).is_err());
        assert!(outcome(4).unwrap_err().message.contains("cayenne_compression_strategy has the value \"gzip\""));
        assert_eq!(outcome(5).unwrap().write_options, WriteOptions::default());
    }
}

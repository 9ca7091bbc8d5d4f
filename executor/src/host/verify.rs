//! Partitions are read again, to see whether they still hold what was written to them.
use std::path::{Path, PathBuf};

use ancho_common::{
    error::{Error, Result},
    ids::PartitionId,
};
use ancho_proto::v1 as proto;
use cayenne::{Partition, PartitionOptions};

use super::{PartitionHost, slot::Slot};

impl PartitionHost {
    /// Reads these partitions, or all that are here. They are read and written meanwhile as ever.
    ///
    /// # Errors
    /// `NotFound` for a partition that is not here. Damage is no error but what was looked for.
    pub async fn verify(&self, wanted: &[PartitionId]) -> Result<Vec<proto::VerifiedPartition>> {
        let slots = self.all_slots();
        if let Some(missing) = wanted.iter().find(|id| !slots.iter().any(|slot| slot.id == **id)) {
            return Err(Error::not_found(format!("partition id {missing} is not on executor {}", self.executor_id)));
        }
        let mut verified = Vec::new();
        // One after the other: the disk has others to serve.
        for slot in slots.iter().filter(|slot| wanted.is_empty() || wanted.contains(&slot.id)) {
            verified.push(verify_slot(slot).await);
        }
        Ok(verified)
    }
}

async fn verify_slot(slot: &Slot) -> proto::VerifiedPartition {
    match slot.partition() {
        Ok(partition) => verify_one(&partition).await,
        Err(error) => {
            let assignment = slot.assignment();
            proto::VerifiedPartition {
                partition_id: slot.id.0,
                table: assignment.as_ref().map(|a| a.table.clone()).unwrap_or_default(),
                partition: assignment.map(|a| a.key).unwrap_or_default(),
                problems: vec![error.message],
                ..proto::VerifiedPartition::default()
            }
        }
    }
}

async fn verify_one(partition: &Partition) -> proto::VerifiedPartition {
    let identity = partition.identity();
    let of_identity = proto::VerifiedPartition {
        partition_id: identity.partition_id,
        table: identity.table.clone(),
        partition: identity.partition.clone(),
        ..proto::VerifiedPartition::default()
    };
    match partition.verify().await {
        Ok(report) => proto::VerifiedPartition {
            files: report.files,
            bytes: report.bytes,
            deletion_vectors: report.vectors,
            problems: report.damaged.into_iter().map(|damaged| damaged.problem).collect(),
            ..of_identity
        },
        Err(error) => proto::VerifiedPartition { problems: vec![error.to_string()], ..of_identity },
    }
}

/// Reads a partition's directory, or all partitions of an executor's data directory, whether or not a process works there.
///
/// # Errors
/// `NotFound` when the directory is neither. Damage is no error but what was looked for.
pub async fn verify_directory(dir: &Path) -> Result<Vec<proto::VerifiedPartition>> {
    let mut verified = Vec::new();
    for path in partition_directories(dir)? {
        let opening = path.clone();
        let opened =
            tokio::task::spawn_blocking(move || Partition::open_read_only(&opening, PartitionOptions::default()))
                .await
                .map_err(|e| Error::internal(format!("opening {}: {e}", path.display())))?;
        verified.push(match opened {
            Ok(partition) => verify_one(&partition).await,
            Err(error) => proto::VerifiedPartition {
                partition_id: path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse().ok()).unwrap_or(0),
                problems: vec![format!("{}: {error}", path.display())],
                ..proto::VerifiedPartition::default()
            },
        });
    }
    Ok(verified)
}

fn partition_directories(dir: &Path) -> Result<Vec<PathBuf>> {
    if dir.join("partition.db").exists() {
        return Ok(vec![dir.to_owned()]);
    }
    let all = dir.join("partitions");
    let entries = std::fs::read_dir(&all).map_err(|_| {
        Error::not_found(format!(
            "{} is neither a partition nor the data directory of an executor: it has no partition.db and no partitions/",
            dir.display()
        ))
    })?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::internal(format!("reading {}: {e}", all.display())))?.path();
        // What a creation that did not end left behind holds nothing.
        if path.join("partition.db").exists() {
            found.push(path);
        }
    }
    found.sort_by_key(|path| path.file_name().and_then(|n| n.to_str()).and_then(|n| n.parse::<u64>().ok()));
    Ok(found)
}

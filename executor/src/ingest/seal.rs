//! `Seal`: the end of a write's rows. What is held must be exactly what was sent.
use std::sync::Arc;

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, TableId},
    plan::changes::KeyRule,
};
use ancho_proto::v1 as proto;
use cayenne::{TransactionPart, WriteSummary};
use futures::future::join_all;

use super::{
    Ingest, columns,
    effect::Effect,
    open_write::{OpenWrite, Received, SealStep, WriteScope},
    part_writer::Staged,
    write_id,
};
use crate::metric;

impl Ingest {
    /// Seals the named partitions of a write, or drops the whole write on this executor.
    pub(super) async fn seal_write(&self, request: proto::SealRequest) -> Result<proto::SealReply> {
        let id = write_id(&request.write_id)?;
        self.host.check_lease()?;
        let overwrite = request.partitions.first().is_some_and(|p| p.overwrite);
        if request.partitions.iter().any(|p| p.overwrite != overwrite) {
            return Err(Error::invalid(format!("write {id}: some partitions are sealed to be overwritten, some not")));
        }
        if !self.registry.knows(id) && self.host.is_staged(id) {
            // Not ours to drop: its commit may be under way.
            return Err(Error::conflict(format!("write {id} was sealed before and its answer is not known any more")));
        }
        // A write that no sender came for has no rows, so no rule matters.
        let scope = WriteScope { table: TableId(request.table_id), schema_version: request.schema_version, overwrite };
        let write = self.registry.open(id, scope, KeyRule::LastArrival)?;
        match self.seal_parts(&write, &request.partitions).await {
            Ok(partitions) => Ok(proto::SealReply { incarnation: self.incarnation.to_string(), partitions }),
            Err(error) => {
                self.drop_write(id, &error.message).await;
                Err(error)
            }
        }
    }

    async fn seal_parts(
        &self,
        write: &Arc<OpenWrite>,
        parts: &[proto::SealPartition],
    ) -> Result<Vec<proto::SealedPartition>> {
        let _sealing = write.sealing.lock().await;
        let named: Vec<PartitionId> = parts.iter().map(|p| PartitionId(p.partition_id)).collect();
        write.check_sealable(&named)?;
        let mut steps = Vec::with_capacity(parts.len());
        for part in parts {
            steps.push((part, self.seal_step(write, part).await?));
        }
        // All writers are told to finish before the first one is waited for; they work side by side.
        let finished = join_all(steps.into_iter().map(|(part, step)| self.finish(write, part, step))).await;
        let sealed = finished.into_iter().collect::<Result<_>>()?;
        // Discarded meanwhile: the answer must not invite a commit.
        write.check()?;
        Ok(sealed)
    }

    async fn seal_step(&self, write: &Arc<OpenWrite>, part: &proto::SealPartition) -> Result<SealStep> {
        let partition = PartitionId(part.partition_id);
        let step = match write.take_for_seal(partition, part.epoch)? {
            Some(step) => step,
            // No sender had rows for it: an empty part, which matters when it overwrites.
            None => {
                self.feed(write, partition, part.epoch).await?;
                write
                    .take_for_seal(partition, part.epoch)?
                    .ok_or_else(|| Error::internal(format!("partition id {partition} lost its writer")))?
            }
        };
        let (place, _) = self.host.writable(partition, part.epoch, None).await?;
        let held = match &step {
            SealStep::Already(sealed) => Received { rows: sealed.rows, deletes: sealed.deletes },
            SealStep::Finish { received, .. } => *received,
        };
        check_rows(&place.place(), write, held, expected(part))?;
        Ok(step)
    }

    async fn finish(
        &self,
        write: &Arc<OpenWrite>,
        part: &proto::SealPartition,
        step: SealStep,
    ) -> Result<proto::SealedPartition> {
        let partition = PartitionId(part.partition_id);
        let feed = match step {
            SealStep::Already(sealed) => return Ok(sealed),
            SealStep::Finish { feed, .. } => feed,
        };
        let Staged { summary: written, whole, base_version } = feed.finish(transaction_part(part)?).await?;
        let effect = if write.scope.overwrite { Effect::of_overwrite(&whole) } else { Effect::of(&whole) };
        let WriteSummary { data: summary, deleted_rows, .. } = written;
        metrics::counter!(metric::STAGED_ROWS).increment(summary.rows);
        metrics::counter!(metric::STAGED_BYTES).increment(summary.bytes);
        self.host.note_staged(partition, write.id, part.epoch);
        // Rows that repeat a key of the write are stored, too.
        let held = Received { rows: summary.rows + summary.deleted_rows, deletes: deleted_rows };
        check_rows(&format!("partition id {partition}, as stored"), write, held, expected(part))?;
        // Under another epoch or without a session the commit would be refused anyway; say so now.
        self.host.check_held(partition, part.epoch)?;
        let builds_on_version = whole.deleted_rows > 0 || (whole.keys.is_some() && !write.scope.overwrite);
        let sealed = proto::SealedPartition {
            partition_id: part.partition_id,
            rows: held.rows,
            bytes: whole.data.bytes,
            columns: columns::to_json(&whole.data)?,
            deletes: deleted_rows,
            base_version: builds_on_version.then_some(base_version),
            added: effect.added,
            removed: effect.removed,
        };
        write.sealed(partition, sealed.clone());
        Ok(sealed)
    }
}

fn transaction_part(part: &proto::SealPartition) -> Result<Option<TransactionPart>> {
    let Some(within) = &part.within else { return Ok(None) };
    let over = if within.over.is_empty() { None } else { Some(write_id(&within.over)?.0) };
    Ok(Some(TransactionPart { snapshot: within.snapshot, over }))
}

fn expected(part: &proto::SealPartition) -> Received {
    Received { rows: part.expected_rows, deletes: part.expected_deletes }
}

fn check_rows(place: &str, write: &OpenWrite, held: Received, expected: Received) -> Result<()> {
    if held == expected {
        return Ok(());
    }
    Err(Error::internal(format!(
        "{place}: write {} holds {} rows and {} deletes, and its senders sent {} and {}; nothing was written, start it \
         again",
        write.id, held.rows, held.deletes, expected.rows, expected.deletes
    )))
}

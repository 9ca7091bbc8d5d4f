//! Rows of writes: received from any number of senders, staged per partition (durable and invisible), sealed when all
//! senders are done, made visible when the schedulers have committed the write.
//!
//! ```text
//!   sender ─ Stage ─┐  decode   bounded channel   one task per (write, partition)
//!   sender ─ Stage ─┼─► batches ───────────────►  held back, then files ─┐
//!                   │                                                   Seal: counts compared, files durable
//!   scheduler ──────┴── Seal … commit … Publish | Discard ◄──────────────┘
//! ```
//!
//! Rows to delete come as batches of their names, on the same way. If another write is committed between a seal and its
//! commit, `Rebase` says whether it changed one of these rows.
//!
//! A write that goes wrong anywhere goes wrong as a whole: the first fault poisons it, and sealing it then fails with
//! that fault.
mod columns;
mod decode;
pub(crate) mod effect;
mod encoders;
mod feed;
mod open_write;
mod part_writer;
mod registry;
mod seal;
mod stage;

use std::{sync::Arc, time::Duration};

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, WriteId},
};
use ancho_proto::v1::{
    self as proto,
    executor_server::{Executor as ExecutorService, ExecutorServer},
};
use futures::future::try_join_all;
use tonic::{Request, Response, Status, Streaming};
use tracing::{info, warn};

use self::{effect::Effect, encoders::Encoders, registry::Registry};
use crate::host::PartitionHost;

/// Largest message taken in: one batch, or several small ones.
pub const MAX_MESSAGE: usize = 64 << 20;

/// An open write that no sender is connected for is given up after this long.
const IDLE_LIMIT: Duration = Duration::from_secs(600);
/// A sealed write is remembered in memory for this long, so that sealing it again answers the same.
const SETTLED_LIMIT: Duration = Duration::from_secs(3600);

/// The gRPC service for writes. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Ingest {
    host: Arc<PartitionHost>,
    incarnation: Arc<str>,
    registry: Arc<Registry>,
    encoders: Arc<Encoders>,
}

impl Ingest {
    /// A service over a host; `incarnation` names this start of the process. Of `memory_bytes` (0 for 4 GiB) an eighth
    /// may be taken by rows that wait for their file and a quarter by encoders of open files; both come from the host's
    /// pool if it has one.
    #[must_use]
    pub fn new(host: Arc<PartitionHost>, incarnation: &str, memory_bytes: u64) -> Self {
        let encoders = Encoders::new(memory_bytes, host.memory_pool());
        Self { host, incarnation: incarnation.into(), registry: Arc::default(), encoders }
    }

    /// As a tonic service.
    #[must_use]
    pub fn into_server(self) -> ExecutorServer<Self> {
        ExecutorServer::new(self).max_decoding_message_size(MAX_MESSAGE)
    }

    /// From now on no rows are taken in.
    pub(crate) fn stop(&self) {
        self.registry.close();
    }

    /// Whether senders are connected.
    pub(crate) fn is_busy(&self) -> bool {
        self.registry.all().iter().any(|write| write.is_receiving())
    }

    /// Gives up writes that nobody works on any more.
    pub(crate) async fn reap(&self) {
        for write in self.registry.all() {
            if write.give_up(IDLE_LIMIT) {
                warn!(write = %write.id, "gave up a write that nobody went on with");
                self.drop_write(write.id, "no sender and no scheduler went on with it").await;
            } else if write.is_settled(SETTLED_LIMIT) {
                // What it staged is on disk and known to the host; only this entry goes.
                self.registry.forget(write.id);
            }
        }
    }

    /// Ends a write that will not be committed, wherever it has got to.
    async fn drop_write(&self, id: WriteId, reason: &str) {
        if let Err(error) = self.discard_write(id, reason).await {
            warn!(write = %id, %error, "cannot drop a write; the next start will");
        }
    }

    async fn discard_write(&self, id: WriteId, reason: &str) -> Result<()> {
        let open = self.registry.drop_write(id, reason);
        if let Some(write) = open {
            write.abort(Error::conflict(format!("write {id} was dropped: {reason}"))).await;
        }
        self.host.discard(id).await
    }

    /// Checks sealed parts of a write against what was committed meanwhile.
    async fn rebase_all(&self, request: &proto::RebaseRequest) -> Result<Vec<proto::RebasedPartition>> {
        let write = write_id(&request.write_id)?;
        self.host.check_lease()?;
        let rebasing = request.partitions.iter().map(|p| async move {
            let made_by = if p.version_write_id.is_empty() { None } else { Some(write_id(&p.version_write_id)?) };
            let partition = PartitionId(p.partition_id);
            let (base_version, Effect { added, removed }) =
                self.host.rebase(partition, p.epoch, p.version, made_by, write).await?;
            Ok(proto::RebasedPartition { partition_id: p.partition_id, base_version, added, removed })
        });
        try_join_all(rebasing).await
    }

    async fn compact_all(&self, request: &proto::CompactRequest) -> Result<proto::CompactReply> {
        let mut reply = proto::CompactReply::default();
        // One after the other: more threads than one are for the passes in the background.
        for part in &request.partitions {
            let report = self.host.compact(PartitionId(part.partition_id), part.epoch).await?;
            reply.rows += report.rows;
            reply.files_in += report.files_in;
            reply.files_out += report.files_out;
            reply.bytes_in += report.bytes_in;
            reply.bytes_out += report.bytes_out;
        }
        Ok(reply)
    }

    async fn publish_all(&self, request: &proto::PublishRequest) -> Result<()> {
        let id = write_id(&request.write_id)?;
        let publishing =
            request.partitions.iter().map(|p| self.host.publish(PartitionId(p.partition_id), p.version, id));
        try_join_all(publishing).await?;
        self.registry.forget(id);
        Ok(())
    }
}

#[tonic::async_trait]
impl ExecutorService for Ingest {
    async fn stage(
        &self,
        request: Request<Streaming<proto::StageRequest>>,
    ) -> Result<Response<proto::StageReply>, Status> {
        Ok(Response::new(self.stage_stream(request.into_inner()).await?))
    }

    async fn seal(&self, request: Request<proto::SealRequest>) -> Result<Response<proto::SealReply>, Status> {
        let this = self.clone();
        // On its own task: a caller that goes away must not leave a partition half sealed.
        let sealing = tokio::spawn(async move { this.seal_write(request.into_inner()).await });
        let sealed = sealing.await.map_err(|e| Error::internal(format!("sealing stopped: {e}")))?;
        Ok(Response::new(sealed?))
    }

    async fn rebase(&self, request: Request<proto::RebaseRequest>) -> Result<Response<proto::RebaseReply>, Status> {
        let partitions = self.rebase_all(&request.into_inner()).await?;
        Ok(Response::new(proto::RebaseReply { partitions }))
    }

    async fn publish(&self, request: Request<proto::PublishRequest>) -> Result<Response<proto::PublishReply>, Status> {
        self.publish_all(&request.into_inner()).await?;
        Ok(Response::new(proto::PublishReply {}))
    }

    async fn compact(&self, request: Request<proto::CompactRequest>) -> Result<Response<proto::CompactReply>, Status> {
        Ok(Response::new(self.compact_all(&request.into_inner()).await?))
    }

    async fn verify(&self, request: Request<proto::VerifyRequest>) -> Result<Response<proto::VerifyReply>, Status> {
        let wanted: Vec<PartitionId> = request.into_inner().partition_ids.into_iter().map(PartitionId).collect();
        Ok(Response::new(proto::VerifyReply { partitions: self.host.verify(&wanted).await? }))
    }

    async fn upload_snapshot(
        &self,
        request: Request<proto::UploadSnapshotRequest>,
    ) -> Result<Response<proto::UploadSnapshotReply>, Status> {
        Ok(Response::new(self.host.upload_snapshot(&request.into_inner()).await?))
    }

    async fn discard(&self, request: Request<proto::DiscardRequest>) -> Result<Response<proto::DiscardReply>, Status> {
        let id = write_id(&request.into_inner().write_id)?;
        let this = self.clone();
        let discarding = tokio::spawn(async move { this.discard_write(id, "the scheduler gave it up").await });
        discarding.await.map_err(|e| Error::internal(format!("discarding stopped: {e}")))??;
        info!(write = %id, "dropped a write");
        Ok(Response::new(proto::DiscardReply {}))
    }
}

fn write_id(text: &str) -> Result<WriteId> {
    WriteId::parse(text).map_err(|e| Error::invalid(format!("write id {text:?}: {e}")))
}

//! Versions of partitions for other executors: a manifest, and ranges of the files that it names. A version stays for as
//! long as somebody reads from it.
use std::{
    collections::HashMap,
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, WriteId},
};
use ancho_proto::v1::{
    self as proto,
    transfer_server::{Transfer, TransferServer},
};
use bytes::Bytes;
use cayenne::{FileSource, ManifestFile, PinnedVersion};
use futures::{StreamExt, stream, stream::BoxStream};
use parking_lot::Mutex;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use crate::host::{PartitionHost, from_storage};

/// Longest range that is given at a time.
pub(super) const MAX_RANGE: u64 = 8 << 20;
/// Largest piece of a manifest.
const PIECE: usize = 1 << 20;
/// A version that nobody has read from for so long is let go.
const IDLE_LIMIT: Duration = Duration::from_secs(120);

/// The gRPC service for copies. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TransferService {
    host: Arc<PartitionHost>,
    exports: Arc<Mutex<HashMap<Uuid, Export>>>,
}

#[derive(Debug, Clone)]
struct Export {
    pin: PinnedVersion,
    files: Arc<HashMap<String, ManifestFile>>,
    used: Instant,
}

impl TransferService {
    /// Over a host.
    #[must_use]
    pub fn new(host: Arc<PartitionHost>) -> Self {
        Self { host, exports: Arc::default() }
    }

    /// As a tonic service.
    #[must_use]
    pub fn into_server(self) -> TransferServer<Self> {
        TransferServer::new(self).max_encoding_message_size(2 * MAX_RANGE as usize)
    }

    /// Lets go of versions that nobody reads from any more.
    pub(crate) fn reap(&self) {
        self.exports.lock().retain(|_, export| export.used.elapsed() < IDLE_LIMIT);
    }

    async fn export_version(&self, request: proto::ExportRequest) -> Result<(Uuid, Bytes)> {
        let write = match request.write_id.as_str() {
            "" => None,
            id => Some(WriteId::parse(id).map_err(|e| Error::invalid(format!("write id {id:?}: {e}")))?),
        };
        let partition = PartitionId(request.partition_id);
        let pin = self.host.pin_to_copy(partition, request.epoch, request.version, write).await?;
        let exported = |e| from_storage(&format!("copying partition id {partition}"), e);
        let manifest = pin.export().await.map_err(exported)?;
        let json = manifest.encode().map_err(exported)?;
        let files = manifest.files.into_iter().map(|file| (file.name(), file)).collect();
        let id = Uuid::new_v4();
        self.exports.lock().insert(id, Export { pin, files: Arc::new(files), used: Instant::now() });
        Ok((id, json.into()))
    }

    async fn read_range(&self, request: proto::ReadRequest) -> Result<Bytes> {
        self.host.check_lease()?;
        let proto::ReadRequest { export_id, file, start, end } = request;
        let gone = || Error::not_found(format!("export {export_id} is not kept any more; ask for a new one"));
        let id = Uuid::parse_str(&export_id).map_err(|_| gone())?;
        let export = {
            let mut exports = self.exports.lock();
            let export = exports.get_mut(&id).ok_or_else(gone)?;
            export.used = Instant::now();
            export.clone()
        };
        let known =
            export.files.get(&file).ok_or_else(|| Error::not_found(format!("export {id} has no file {file}")))?;
        if start > end || end > known.bytes || end - start > MAX_RANGE {
            return Err(Error::invalid(format!(
                "bytes {start} to {end} of file {file} cannot be read: it has {} bytes, of which {MAX_RANGE} are given at a \
                 time",
                known.bytes
            )));
        }
        export.pin.read(known, start..end).await.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::corrupt(format!("file {file}: {error}")),
            _ => Error::internal(format!("reading file {file}: {error}")),
        })
    }
}

#[tonic::async_trait]
impl Transfer for TransferService {
    type ExportStream = BoxStream<'static, Result<proto::ExportChunk, Status>>;

    async fn export(&self, request: Request<proto::ExportRequest>) -> Result<Response<Self::ExportStream>, Status> {
        let (id, manifest) = self.export_version(request.into_inner()).await?;
        let pieces = (0..manifest.len().div_ceil(PIECE)).map(move |number| {
            let piece = manifest.slice(number * PIECE..((number + 1) * PIECE).min(manifest.len()));
            Ok(proto::ExportChunk { export_id: id.to_string(), manifest: piece })
        });
        Ok(Response::new(stream::iter(pieces).boxed()))
    }

    async fn read(&self, request: Request<proto::ReadRequest>) -> Result<Response<proto::ReadReply>, Status> {
        Ok(Response::new(proto::ReadReply { bytes: self.read_range(request.into_inner()).await? }))
    }
}

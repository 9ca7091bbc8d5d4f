//! Another executor as the source of a copy, and how fast all copies together may be fetched.
use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, WriteId},
    plan::channels::Channels,
};
use ancho_proto::v1::{ExportRequest, ReadRequest, transfer_client::TransferClient};
use async_trait::async_trait;
use bytes::Bytes;
use cayenne::{FileSource, ManifestFile, PartitionManifest};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};
use tonic::{Code, transport::Channel};

use super::{copies::CopyWanted, service::MAX_RANGE};
use crate::{host::from_storage, metric};

/// How long a peer may take to answer with the next message.
const PATIENCE: Duration = Duration::from_secs(30);

/// Files of one version on another executor.
#[derive(Debug)]
pub(super) struct Peer {
    client: TransferClient<Channel>,
    export_id: String,
    throttle: Arc<Throttle>,
    fetched: AtomicU64,
}

impl Peer {
    /// Asks the source for its newest version: what it is, and where its files come from.
    pub(super) async fn export(
        channels: &Channels,
        throttle: &Arc<Throttle>,
        partition: PartitionId,
        wanted: &CopyWanted,
    ) -> Result<(PartitionManifest, Self)> {
        let limit = 2 * MAX_RANGE as usize;
        let mut client = TransferClient::new(channels.get(&wanted.url)?).max_decoding_message_size(limit);
        let request = ExportRequest {
            partition_id: partition.0,
            epoch: wanted.source_epoch,
            version: wanted.version,
            write_id: wanted.write.map(|id: WriteId| id.to_string()).unwrap_or_default(),
        };
        let silent = |_| Error::unavailable(format!("executor {} does not answer", wanted.url));
        let mut pieces = timeout(PATIENCE, client.export(request)).await.map_err(silent)??.into_inner();
        let (mut json, mut export_id) = (Vec::new(), String::new());
        while let Some(piece) = timeout(PATIENCE, pieces.message()).await.map_err(silent)?? {
            json.extend_from_slice(&piece.manifest);
            export_id = piece.export_id;
        }
        let manifest = PartitionManifest::decode(&json)
            .map_err(|e| from_storage(&format!("copying partition id {partition} from {}", wanted.url), e))?;
        if manifest.partition_id != partition.0 {
            return Err(Error::corrupt(format!(
                "executor {} answered with partition id {} instead of {partition}",
                wanted.url, manifest.partition_id
            )));
        }
        let (throttle, fetched) = (Arc::clone(throttle), AtomicU64::new(0));
        Ok((manifest, Self { client, export_id, throttle, fetched }))
    }

    /// Bytes that came.
    pub(super) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl FileSource for Peer {
    async fn read(&self, file: &ManifestFile, range: Range<u64>) -> io::Result<Bytes> {
        self.throttle.take(range.end - range.start).await;
        let request =
            ReadRequest { export_id: self.export_id.clone(), file: file.name(), start: range.start, end: range.end };
        let mut client = self.client.clone();
        let reply =
            timeout(PATIENCE, client.read(request)).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?;
        let reply = reply.map_err(|status| {
            let kind = if status.code() == Code::NotFound { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
            io::Error::new(kind, status.message().to_owned())
        })?;
        let bytes = reply.into_inner().bytes;
        metrics::counter!(metric::COPIED_BYTES).increment(bytes.len() as u64);
        self.fetched.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.throttle.count(bytes.len() as u64);
        Ok(bytes)
    }
}

/// Keeps all copies of a process together below a number of bytes a second.
#[derive(Debug)]
pub(super) struct Throttle {
    rate: Option<u64>,
    inner: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    /// When the next bytes may be asked for.
    next: Instant,
    /// Bytes that came.
    bytes: u64,
}

impl Throttle {
    /// No limit if `None`.
    pub(super) fn new(rate: Option<u64>) -> Self {
        Self { rate: rate.map(|rate| rate.max(1)), inner: Mutex::new(Taken { next: Instant::now(), bytes: 0 }) }
    }

    /// Waits until so many bytes may be asked for.
    async fn take(&self, bytes: u64) {
        let Some(rate) = self.rate else { return };
        let turn = {
            let mut taken = self.inner.lock();
            let turn = taken.next.max(Instant::now());
            taken.next = turn + Duration::from_secs_f64(bytes as f64 / rate as f64);
            turn
        };
        sleep_until(turn).await;
    }

    fn count(&self, bytes: u64) {
        self.inner.lock().bytes += bytes;
    }

    /// Bytes that came so far.
    pub(super) fn bytes(&self) -> u64 {
        self.inner.lock().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_come_no_faster_than_allowed() {
        let (free, bound) = (Throttle::new(None), Throttle::new(Some(1_000_000)));
        free.take(1 << 60).await;
        let start = Instant::now();
        bound.take(200_000).await;
        bound.take(1).await;
        assert!(start.elapsed() >= Duration::from_millis(200), "{:?}", start.elapsed());
    }
}

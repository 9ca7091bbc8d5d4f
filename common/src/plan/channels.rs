//! Connections between processes: one lazily connected, self-healing HTTP/2 channel per address.
//!
//! A connection attempt ends after two seconds and a silent peer is noticed by keep-alive within fifteen, so that no
//! query waits for a host that is gone.
use std::{collections::HashMap, sync::Arc, time::Duration};

use async_trait::async_trait;
use datafusion::error::DataFusionError;
use datafusion_distributed::{
    ChannelResolver, WorkerChannel,
    grpc::{BoxCloneSyncChannel, create_worker_client},
};
use parking_lot::Mutex;
use tonic::transport::{Channel, Endpoint};
use url::Url;

use super::reports::Reporting;
use crate::{
    compute::network,
    error::{Error, Result},
};

/// Longest time to wait for a TCP connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// A silent peer is asked for a sign of life this often; servers and clients alike.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// How long that sign may take.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Error texts travel in trailers.
pub const MAX_HEADER_LIST: u32 = 256 * 1024;
/// Flow-control windows: shuffles between two processes must not wait for acknowledgements.
pub const STREAM_WINDOW: u32 = 4 * 1024 * 1024;
/// The same for all streams of a connection together.
pub const CONNECTION_WINDOW: u32 = 32 * 1024 * 1024;
/// Largest frame to be sent here: a batch of rows is not to be cut into the 16 KiB pieces of the default.
pub const MAX_FRAME: u32 = 256 * 1024;

/// Channels by address; cheap to clone, shared by everything in a process.
#[derive(Debug, Clone, Default)]
pub struct Channels {
    open: Arc<Mutex<HashMap<String, Channel>>>,
}

impl Channels {
    /// The channel to an address such as `http://10.0.0.1:50052`. Connects with the first use.
    ///
    /// # Errors
    /// The address is not a URL.
    pub fn get(&self, url: &str) -> Result<Channel> {
        let mut open = self.open.lock();
        if let Some(channel) = open.get(url) {
            return Ok(channel.clone());
        }
        let endpoint = endpoint(url)?;
        // The connection's tasks belong to the network runtime, also when a query needs it first.
        let network = network();
        let _entered = network.as_ref().map(tokio::runtime::Handle::enter);
        let channel = endpoint.connect_lazy();
        open.insert(url.to_owned(), channel.clone());
        Ok(channel)
    }
}

/// An endpoint with Ancho's time limits.
///
/// # Errors
/// The address is not a URL.
pub fn endpoint(url: &str) -> Result<Endpoint> {
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(|e| Error::invalid(format!("{url:?} is not an address such as http://10.0.0.1:50052: {e}")))?;
    Ok(endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(MAX_FRAME)
        .http2_max_header_list_size(MAX_HEADER_LIST))
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        // `Url` adds a slash to a bare authority; the same address must be the same channel.
        let channel = self.get(url.as_str().trim_end_matches('/'))?;
        Ok(Box::new(Reporting(create_worker_client(BoxCloneSyncChannel::new(channel)))))
    }
}

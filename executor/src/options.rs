//! What an executor is started with.
use std::{net::SocketAddr, path::PathBuf};

/// Settings of one executor process.
#[derive(Debug, Clone)]
pub struct ExecutorOptions {
    /// Its directory: identity, lock and partitions. Created if it is missing; one process at a time.
    pub data_dir: PathBuf,
    /// Internal URLs of the schedulers it may start with; one is enough, the others are learned.
    pub scheduler_urls: Vec<String>,
    /// Where it listens. Port 0 takes a free one.
    pub bind: SocketAddr,
    /// URL at which schedulers and other executors reach it. Needed when `bind` is an unspecified address
    /// (`0.0.0.0`, `[::]`); otherwise the bound address is used.
    pub advertise_url: Option<String>,
    /// Streams per task that it wants planned; by default its cores.
    pub streams: u32,
    /// Memory in bytes, as told to the schedulers; 0 says nothing. Queries may take all of it; what writes may take on
    /// top is a share of it (of 4 GiB where it is 0).
    pub memory_bytes: u64,
    /// Failure domain it stands in, for people and later for placement.
    pub zone: Option<String>,
    /// Where Prometheus finds `/metrics`; nowhere if `None`.
    pub metrics: Option<SocketAddr>,
}

impl ExecutorOptions {
    /// Defaults: a free port of the loopback address, one stream per core.
    pub fn new(data_dir: impl Into<PathBuf>, scheduler_urls: Vec<String>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            data_dir: data_dir.into(),
            scheduler_urls,
            bind: SocketAddr::from(([127, 0, 0, 1], 0)),
            advertise_url: None,
            streams: u32::try_from(cores).unwrap_or(u32::MAX),
            memory_bytes: 0,
            zone: None,
            metrics: None,
        }
    }
}

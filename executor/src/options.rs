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
    /// Memory in bytes for queries, writes and compaction together, as told to the schedulers; 0 says nothing to them and
    /// stands for 4 GiB.
    pub memory_bytes: u64,
    /// Share of the memory that is compaction's, between 0.05 and 0.5.
    pub compaction_memory_fraction: f64,
    /// Partitions that are compacted at the same time.
    pub compaction_threads: usize,
    /// Memory in bytes for footers of data files, beside the other memory.
    pub footer_cache_bytes: u64,
    /// Bytes that writes leave free on the disk of the data directory; `None` for a twentieth of it, at most 1 GiB. With
    /// fewer free no rows are taken in, while reads go on.
    pub disk_reserve_bytes: Option<u64>,
    /// Bytes that copies of partitions from other executors may fetch in a second, all together; no limit if `None`.
    pub copy_bytes_per_second: Option<u64>,
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
            compaction_memory_fraction: cayenne::DEFAULT_MEMORY_FRACTION,
            compaction_threads: 1,
            footer_cache_bytes: 128 << 20,
            disk_reserve_bytes: None,
            copy_bytes_per_second: None,
            zone: None,
            metrics: None,
        }
    }
}

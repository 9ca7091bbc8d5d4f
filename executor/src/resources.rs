//! Memory and disk of an executor, and what each of its parts may take.
//!
//! | of the memory | for |
//! |---|---|
//! | a fraction (0.2) | compaction: sorting, and the file that it writes |
//! | an eighth | a pool of its own for primary keys: their indexes, and the keys of writes |
//! | the rest | one pool of queries and writes; queries spill beyond their part |
//!
//! What finds no room fails alone, with `RESOURCE_EXHAUSTED`. Spilled rows go to the disk of the data directory.
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ancho_common::object_stores::ObjectStores;
use cayenne::{CompactionResources, CompactionRunnerOptions, DiskLimit, PartitionOptions, ReadCache};
use datafusion::execution::{
    memory_pool::{FairSpillPool, GreedyMemoryPool, MemoryPool},
    runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
};

use crate::{
    disk::DiskSpace,
    error::{Error, Result},
    host::HostOptions,
    identity::DataDir,
    options::ExecutorOptions,
};

/// Memory where none is set: what most machines can spare.
const DEFAULT_MEMORY: usize = 4 << 30;
/// Share of the memory that indexes of keys may take.
const KEY_SHARE: usize = 8;
/// Where what does not fit into memory goes, below the data directory. Emptied at each start.
const SPILL: &str = "spill";
/// Below it, for queries and for compaction.
const QUERIES: &str = "queries";
const COMPACTION: &str = "compaction";
/// What is left free of a disk unless it is said: this share of it …
const RESERVE_SHARE: u64 = 20;
/// … and no more than this.
const LARGEST_RESERVE: u64 = 1 << 30;

/// See the module.
#[derive(Debug)]
pub(crate) struct Resources {
    pool: Arc<dyn MemoryPool>,
    compaction: usize,
    keys: usize,
    key_pool: Arc<dyn MemoryPool>,
    threads: usize,
    footers: usize,
    /// `None` where the disk has no room for a directory: then the system's temporary one is used.
    spill: Option<PathBuf>,
    reserve: u64,
}

impl Resources {
    /// Divides what the options give, and empties the directory for spilled rows.
    ///
    /// # Errors
    /// The directory cannot be emptied, or the disk cannot be looked at.
    pub(crate) fn new(options: &ExecutorOptions, data_dir: &DataDir) -> Result<Self> {
        let memory = match usize::try_from(options.memory_bytes) {
            Ok(0) | Err(_) => DEFAULT_MEMORY,
            Ok(bytes) => bytes,
        };
        let compaction = CompactionResources::share(memory, options.compaction_memory_fraction);
        let keys = memory / KEY_SHARE;
        let reserve = match options.disk_reserve_bytes {
            Some(bytes) => bytes,
            None => (DiskSpace::of(data_dir.path())?.total / RESERVE_SHARE).min(LARGEST_RESERVE),
        };
        Ok(Self {
            pool: Arc::new(FairSpillPool::new(memory.saturating_sub(compaction + keys))),
            compaction,
            keys,
            key_pool: Arc::new(GreedyMemoryPool::new(keys)),
            threads: options.compaction_threads,
            footers: usize::try_from(options.footer_cache_bytes).unwrap_or(usize::MAX),
            spill: emptied(data_dir.path().join(SPILL))?,
            reserve,
        })
    }

    /// The host's options with the shares of its parts.
    pub(crate) fn of_host(&self, options: HostOptions) -> HostOptions {
        HostOptions {
            partitions: PartitionOptions {
                memory_pool: Some(Arc::clone(&self.pool)),
                key_pool: Some(Arc::clone(&self.key_pool)),
                disk: DiskLimit::keep_free(self.reserve),
                cache: ReadCache::new(self.footers),
                ..options.partitions
            },
            key_memory_bytes: self.keys,
            compaction: CompactionRunnerOptions {
                threads: self.threads,
                memory_bytes: self.compaction,
                spill_directory: self.spill.as_ref().map(|dir| dir.join(COMPACTION)),
            },
            ..options
        }
    }

    /// What queries run in.
    ///
    /// # Errors
    /// The spill directory cannot be used.
    pub(crate) fn of_queries(&self) -> Result<Arc<RuntimeEnv>> {
        let mut builder = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::clone(&self.pool))
            .with_object_store_registry(Arc::new(ObjectStores::default()));
        if let Some(dir) = &self.spill {
            builder = builder.with_temp_file_path(dir.join(QUERIES));
        }
        builder.build_arc().map_err(|e| Error::Options(format!("the directory for spilled rows cannot be used: {e}")))
    }

    /// The pool of queries and writes.
    pub(crate) fn pool(&self) -> &Arc<dyn MemoryPool> {
        &self.pool
    }

    /// For the log.
    pub(crate) fn report(&self) {
        tracing::info!(
            compaction_mib = self.compaction >> 20,
            keys_mib = self.keys >> 20,
            footers_mib = self.footers >> 20,
            disk_reserve_mib = self.reserve >> 20,
            spill = %self.spill.as_deref().unwrap_or(Path::new("(temporary directory of the system)")).display(),
            "memory and disk"
        );
    }
}

/// The directory for spilled rows, without those of an earlier start. None where the disk is too full even for that: an
/// executor starts on it, and serves reads.
fn emptied(dir: PathBuf) -> Result<Option<PathBuf>> {
    match fs::remove_dir_all(&dir) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::io("emptying", &dir)(e)),
        _ => {}
    }
    for part in [QUERIES, COMPACTION] {
        let path = dir.join(part);
        match fs::create_dir_all(&path) {
            Ok(()) => {}
            Err(e) if e.kind() == io::ErrorKind::StorageFull => {
                tracing::warn!(dir = %path.display(), "no room on the disk to spill rows");
                return Ok(None);
            }
            Err(e) => return Err(Error::io("creating", &path)(e)),
        }
    }
    Ok(Some(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_spilled_before_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let spill = dir.path().join("spill");
        fs::create_dir_all(spill.join("queries/old")).unwrap();
        fs::write(spill.join("queries/old/rows"), "x").unwrap();
        assert_eq!(emptied(spill.clone()).unwrap(), Some(spill.clone()));
        assert_eq!(fs::read_dir(spill.join(QUERIES)).unwrap().count(), 0);
    }

    #[test]
    fn the_memory_is_shared_out_once() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(dir.path()).unwrap();
        let mut options = ExecutorOptions::new(dir.path(), Vec::new());
        options.memory_bytes = 1 << 30;
        options.disk_reserve_bytes = Some(7);
        let resources = Resources::new(&options, &data_dir).unwrap();
        let host = resources.of_host(HostOptions::default());
        assert_eq!(host.key_memory_bytes, 128 << 20);
        assert_eq!(host.compaction.memory_bytes, CompactionResources::share(1 << 30, 0.2));
        let pool = host.partitions.memory_pool.unwrap();
        let all = pool.memory_limit();
        let left = (1 << 30) - host.key_memory_bytes - host.compaction.memory_bytes;
        assert!(matches!(all, datafusion::execution::memory_pool::MemoryLimit::Finite(n) if n == left));
        // Tables that ask for more than there is for keys do not get it.
        let keys = host.partitions.key_pool.unwrap();
        assert!(
            matches!(keys.memory_limit(), datafusion::execution::memory_pool::MemoryLimit::Finite(n) if n == 128 << 20)
        );
        // Queries draw on the same pool as writes.
        assert!(Arc::ptr_eq(&pool, &resources.of_queries().unwrap().memory_pool));
    }
}

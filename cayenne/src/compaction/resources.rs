//! Memory and disk space that compaction may use for sorting, apart from those of queries.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};

use crate::error::Result;

/// The share of a process's memory that compaction gets unless it is told otherwise (`cayenne_compaction_memory_fraction`).
pub const DEFAULT_MEMORY_FRACTION: f64 = 0.2;
/// What a share is limited to: less cannot sort, more starves queries.
const FRACTIONS: std::ops::RangeInclusive<f64> = 0.05..=0.5;
/// Sorting keeps this much back for merging what it has spilled.
const MERGE_BYTES: usize = 8 << 20;

/// A bounded pool of memory, and a directory for what does not fit. Shared by all who are given a clone.
#[derive(Clone)]
pub struct CompactionResources {
    runtime: Arc<RuntimeEnv>,
    bytes: usize,
}

impl CompactionResources {
    /// A pool of `bytes` that spills into `directory`, or into the system's temporary directory.
    ///
    /// # Errors
    /// DataFusion's when it cannot use the directory.
    pub fn new(bytes: usize, directory: Option<PathBuf>) -> Result<Self> {
        let mut builder = RuntimeEnvBuilder::new().with_memory_pool(Arc::new(FairSpillPool::new(bytes)));
        if let Some(directory) = directory {
            builder = builder.with_temp_file_path(directory);
        }
        Ok(Self { runtime: builder.build_arc()?, bytes })
    }

    /// How many bytes of `total` a share of `fraction` is. It is at least a twentieth and at most half.
    pub fn share(total: usize, fraction: f64) -> usize {
        let fraction = if fraction.is_nan() { DEFAULT_MEMORY_FRACTION } else { fraction };
        (total as f64 * fraction.clamp(*FRACTIONS.start(), *FRACTIONS.end())) as usize
    }

    /// The pool.
    pub fn memory_pool(&self) -> &Arc<dyn MemoryPool> {
        &self.runtime.memory_pool
    }

    /// The bound in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn task_context(&self) -> Arc<TaskContext> {
        self.context(SessionConfig::new())
    }

    /// For plans whose batches have at most so many rows.
    pub(crate) fn batches_of(&self, rows: usize) -> Arc<TaskContext> {
        self.context(SessionConfig::new().with_batch_size(rows))
    }

    fn context(&self, config: SessionConfig) -> Arc<TaskContext> {
        let mut config = config.with_target_partitions(1);
        let merge = MERGE_BYTES.min(self.bytes / 4);
        config.options_mut().execution.sort_spill_reservation_bytes = merge;
        SessionContext::new_with_config_rt(config, Arc::clone(&self.runtime)).task_ctx()
    }
}

impl fmt::Debug for CompactionResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactionResources")
            .field("limit_bytes", &self.bytes)
            .field("reserved_bytes", &self.runtime.memory_pool.reserved())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_stays_within_reason() {
        assert_eq!(CompactionResources::share(1_000, 0.2), 200);
        assert_eq!(CompactionResources::share(1_000, 0.0), 50);
        assert_eq!(CompactionResources::share(1_000, 7.0), 500);
        assert_eq!(CompactionResources::share(1_000, f64::NAN), 200);
    }
}

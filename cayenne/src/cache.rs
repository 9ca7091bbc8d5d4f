//! The cache of parsed file footers. A footer holds a file's layout tree and the position of every
//! segment; with it at hand a warm scan reads column data only.
//!
//! Column segments themselves are not cached here: they are read from local files, which the
//! operating system's page cache already keeps, bounded and shared, in the same form.

use std::fmt;
use std::sync::{Arc, LazyLock};

use datafusion::execution::cache::cache_manager::FileMetadataCache;
use datafusion::execution::cache::default_cache::DefaultCache;

const SHARED_BYTES: usize = 128 << 20;

static SHARED: LazyLock<ReadCache> = LazyLock::new(|| ReadCache::new(SHARED_BYTES));

/// A bounded, shareable cache of file footers. Cloning gives another handle to the same cache.
#[derive(Clone)]
pub struct ReadCache {
    footers: Arc<FileMetadataCache>,
}

impl ReadCache {
    /// A cache that keeps at most `bytes` of footers, least recently used ones go first.
    pub fn new(bytes: usize) -> Self {
        Self { footers: Arc::new(DefaultCache::new(bytes)) }
    }

    /// The cache of this process (128 MiB), used unless the options name another one.
    pub fn shared() -> Self {
        SHARED.clone()
    }

    /// How many footers are cached.
    pub fn len(&self) -> usize {
        self.footers.len()
    }

    /// Whether nothing is cached.
    pub fn is_empty(&self) -> bool {
        self.footers.is_empty()
    }

    /// The upper bound in bytes.
    pub fn limit_bytes(&self) -> usize {
        self.footers.cache_limit()
    }

    pub(crate) fn footers(&self) -> Arc<FileMetadataCache> {
        Arc::clone(&self.footers)
    }
}

impl fmt::Debug for ReadCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadCache").field("footers", &self.len()).field("limit_bytes", &self.limit_bytes()).finish()
    }
}

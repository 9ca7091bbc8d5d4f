//! A limit on how full the disk may become. Above it writes are refused while there is still room to clean up and to
//! commit what is staged; reads, publishing, discarding and garbage collection go on.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, Place, Result};
use crate::partition::Inner;

/// The state of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// All of its bytes.
    pub total: u64,
    /// Bytes that this process may still use.
    pub free: u64,
}

/// How much of the disk writes leave free.
#[derive(Clone, Default)]
pub struct DiskLimit {
    min_free_bytes: u64,
    probe: Option<Arc<Probe>>,
}

type Probe = dyn Fn(&Path) -> io::Result<DiskSpace> + Send + Sync;

impl DiskLimit {
    /// New rows are refused when fewer than this many bytes are free.
    pub fn keep_free(bytes: u64) -> Self {
        Self { min_free_bytes: bytes, probe: None }
    }

    /// The same with another way to learn about the disk, which is given a directory on it.
    pub fn with_probe(self, probe: impl Fn(&Path) -> io::Result<DiskSpace> + Send + Sync + 'static) -> Self {
        Self { probe: Some(Arc::new(probe)), ..self }
    }

    /// Refuses a copy that would leave less free than writes do, or that does not fit at all.
    pub(crate) fn check_copy(&self, dir: &Path, place: &Arc<Place>, needed: u64) -> Result<()> {
        let free = self.look(dir).map_err(|source| Error::io("look at the disk of", dir, source))?.free;
        let limit = self.min_free_bytes;
        if needed == 0 || free >= needed.saturating_add(limit) {
            return Ok(());
        }
        Err(Error::NoRoomForCopy { place: Arc::clone(place), path: dir.to_path_buf(), needed, free, limit })
    }

    fn look(&self, dir: &Path) -> io::Result<DiskSpace> {
        match &self.probe {
            Some(probe) => probe(dir),
            None => {
                let found = nix::sys::statvfs::statvfs(dir)?;
                let block = found.fragment_size();
                Ok(DiskSpace { total: found.blocks() * block, free: found.blocks_available() * block })
            }
        }
    }
}

impl fmt::Debug for DiskLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DiskLimit").field("min_free_bytes", &self.min_free_bytes).finish()
    }
}

impl Inner {
    /// Refuses to begin anything that needs space when little is left. Looks at the disk, which does not wait for it.
    pub(crate) fn check_space(&self) -> Result<()> {
        let limit = &self.options.disk;
        if limit.min_free_bytes == 0 {
            return Ok(());
        }
        let space = limit.look(&self.dir).map_err(|source| Error::io("look at the disk of", &self.dir, source))?;
        if space.free >= limit.min_free_bytes {
            return Ok(());
        }
        Err(Error::DiskAlmostFull {
            place: Arc::clone(&self.place),
            path: self.dir.clone(),
            free: space.free,
            total: space.total,
            limit: limit.min_free_bytes,
        })
    }
}

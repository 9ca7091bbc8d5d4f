//! How much room the disk of the data directory has.
use std::path::Path;

use crate::error::{Error, Result};

/// Below this share of the disk an executor warns.
const LOW_SHARE: f64 = 0.10;
/// Below this many bytes it warns whatever the share.
const LOW_BYTES: u64 = 2 << 30;

/// Bytes of the file system that holds a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Size.
    pub total: u64,
    /// What an ordinary user may still write.
    pub free: u64,
}

impl DiskSpace {
    /// Asks the system.
    ///
    /// # Errors
    /// The directory cannot be looked at.
    pub fn of(dir: &Path) -> Result<Self> {
        let stat = nix::sys::statvfs::statvfs(dir)
            .map_err(|e| Error::io("asking for the free space of", dir)(std::io::Error::from(e)))?;
        let block = stat.fragment_size();
        Ok(Self { total: stat.blocks().saturating_mul(block), free: stat.blocks_available().saturating_mul(block) })
    }

    /// Whether an operator should look.
    #[must_use]
    pub fn is_low(self) -> bool {
        #[expect(clippy::cast_precision_loss, reason = "a share needs no exact bytes")]
        let share = self.free as f64 / self.total.max(1) as f64;
        share < LOW_SHARE || self.free < LOW_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_is_a_tenth_or_two_gibibytes() {
        let space = |total: u64, free: u64| DiskSpace { total: total << 30, free: free << 30 };
        assert!(space(1000, 99).is_low() && space(10, 1).is_low());
        assert!(!space(1000, 101).is_low() && !space(10, 3).is_low());
        assert!(DiskSpace::of(Path::new(".")).unwrap().total > 0);
    }
}

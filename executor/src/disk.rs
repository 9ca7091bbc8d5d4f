//! The disk of the data directory: how much room it has, and whether it is one.
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

/// The network file system that holds a directory, if it is one: SQLite's locks cannot be relied on there, and each commit waits
/// for the network.
#[cfg(target_os = "linux")]
#[must_use]
pub fn network_file_system(dir: &Path) -> Option<&'static str> {
    let found = nix::sys::statfs::statfs(dir).ok()?.filesystem_type().0;
    // The numbers have 32 bits, which the kernel gives in a signed word.
    u32::try_from(found & 0xffff_ffff).ok().and_then(network_name)
}

/// As on Linux; elsewhere it is not known.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn network_file_system(_: &Path) -> Option<&'static str> {
    None
}

/// The name of a network file system by the number that Linux gives it.
fn network_name(number: u32) -> Option<&'static str> {
    Some(match number {
        0x6969 => "NFS",
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => "SMB",
        0x5346_414f | 0x6b41_4653 => "AFS",
        0x00c3_6400 => "Ceph",
        0x0102_1997 => "9P",
        0x7375_7245 => "Coda",
        0x0bd0_0bd0 => "Lustre",
        0x4750_4653 => "GPFS",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        for (number, name) in [(0x6969, "NFS"), (0xff53_4d42, "SMB"), (0x00c3_6400, "Ceph")] {
            assert_eq!(network_name(number), Some(name));
        }
        // ext4, XFS, btrfs, tmpfs, overlayfs.
        for local in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630] {
            assert_eq!(network_name(local), None);
        }
        assert_eq!(network_file_system(Path::new("/proc")), None);
        assert_eq!(network_file_system(Path::new("/there/is/nothing")), None);
    }

    #[test]
    fn low_is_a_tenth_or_two_gibibytes() {
        let space = |total: u64, free: u64| DiskSpace { total: total << 30, free: free << 30 };
        assert!(space(1000, 99).is_low() && space(10, 1).is_low());
        assert!(!space(1000, 101).is_low() && !space(10, 3).is_low());
        assert!(DiskSpace::of(Path::new(".")).unwrap().total > 0);
    }
}

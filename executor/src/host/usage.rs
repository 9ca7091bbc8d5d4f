//! Bytes on disk, by what they are for.
use std::{fs, path::Path};

use super::PartitionHost;

/// Bytes of the partitions' directories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct DirBytes {
    /// Data files: current, superseded and staged.
    pub(crate) data: u64,
    /// Metastores with their logs.
    pub(crate) metastore: u64,
    /// Directories kept aside.
    pub(crate) aside: u64,
}

impl PartitionHost {
    /// Measures the directories. Blocks; what vanishes meanwhile does not count.
    pub(crate) fn dir_bytes(&self) -> DirBytes {
        let mut bytes = DirBytes { aside: tree(&self.aside), ..DirBytes::default() };
        for partition in entries(&self.dir) {
            for entry in entries(&partition.path()) {
                let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if is_dir {
                    bytes.data += tree(&entry.path());
                } else {
                    bytes.metastore += entry.metadata().map_or(0, |meta| meta.len());
                }
            }
        }
        bytes
    }
}

fn entries(dir: &Path) -> impl Iterator<Item = fs::DirEntry> {
    fs::read_dir(dir).into_iter().flatten().flatten()
}

fn tree(dir: &Path) -> u64 {
    entries(dir)
        .map(|entry| match entry.file_type() {
            Ok(kind) if kind.is_dir() => tree(&entry.path()),
            _ => entry.metadata().map_or(0, |meta| meta.len()),
        })
        .sum()
}

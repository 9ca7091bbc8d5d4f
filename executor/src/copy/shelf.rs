//! The directories of copies: `copies/<partition id>/v<version>`. One that has a metastore is whole; of the others the files
//! are of use to the next one.
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use ancho_common::ids::PartitionId;

/// The file that is written last.
const METASTORE: &str = "partition.db";

/// A whole copy, which nobody has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WholeCopy {
    pub(crate) dir: PathBuf,
    pub(crate) version: u64,
}

/// Where the copies are.
#[derive(Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
}

impl Shelf {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub(super) fn of_version(&self, id: PartitionId, version: u64) -> PathBuf {
        self.dir.join(id.to_string()).join(format!("v{version}"))
    }

    /// Whether there is anything of a partition.
    pub(super) fn has(&self, id: PartitionId) -> bool {
        self.dir.join(id.to_string()).exists()
    }

    /// Partitions of which there is something.
    pub(super) fn partitions(&self) -> io::Result<Vec<PartitionId>> {
        let entries = match fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = Vec::new();
        for entry in entries {
            found.extend(entry?.file_name().to_str().and_then(|name| name.parse().ok()).map(PartitionId));
        }
        Ok(found)
    }

    /// The newest whole copy of a partition, and the directory that has most of its files: that one, or one that was begun.
    pub(super) fn newest(&self, id: PartitionId) -> (Option<WholeCopy>, Option<PathBuf>) {
        let mut versions = self.versions(id);
        versions.sort_unstable();
        let begun = versions.last().map(|version| self.of_version(id, *version));
        let whole = versions
            .into_iter()
            .rev()
            .map(|version| WholeCopy { dir: self.of_version(id, version), version })
            .find(|copy| is_whole(&copy.dir));
        let older = whole.as_ref().map(|copy| copy.dir.clone()).or(begun);
        (whole, older)
    }

    /// Removes all directories of a partition but one.
    pub(super) fn keep_only(&self, id: PartitionId, version: u64) -> io::Result<()> {
        for other in self.versions(id).into_iter().filter(|other| *other != version) {
            fs::remove_dir_all(self.of_version(id, other))?;
        }
        Ok(())
    }

    /// Removes what there is of a partition.
    pub(super) fn clear(&self, id: PartitionId) -> io::Result<()> {
        match fs::remove_dir_all(self.dir.join(id.to_string())) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn versions(&self, id: PartitionId) -> Vec<u64> {
        let Ok(entries) = fs::read_dir(self.dir.join(id.to_string())) else { return Vec::new() };
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix('v')?.parse().ok()).collect()
    }
}

/// Whether a directory has become a partition.
pub(super) fn is_whole(dir: &Path) -> bool {
    dir.join(METASTORE).exists()
}

/// Puts a directory in its place, durably.
pub(crate) fn put_in_place(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    for parent in [from.parent(), to.parent()].into_iter().flatten() {
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_copy_counts_and_what_was_begun_is_of_use() {
        let home = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(home.path().join("copies"));
        let id = PartitionId(7);
        assert_eq!(shelf.newest(id), (None, None));
        assert!(shelf.partitions().unwrap().is_empty() && !shelf.has(id));
        for version in [2, 10] {
            fs::create_dir_all(shelf.of_version(id, version)).unwrap();
        }
        assert_eq!(shelf.newest(id), (None, Some(shelf.of_version(id, 10))));
        fs::write(shelf.of_version(id, 2).join(METASTORE), "").unwrap();
        let whole = WholeCopy { dir: shelf.of_version(id, 2), version: 2 };
        assert_eq!(shelf.newest(id), (Some(whole.clone()), Some(whole.dir.clone())));
        shelf.keep_only(id, 2).unwrap();
        assert!(!shelf.of_version(id, 10).exists());
        assert_eq!(shelf.partitions().unwrap(), [id]);
        let place = home.path().join("7");
        put_in_place(&whole.dir, &place).unwrap();
        assert!(is_whole(&place) && shelf.newest(id) == (None, None));
        shelf.clear(id).unwrap();
        shelf.clear(id).unwrap();
        assert!(!shelf.has(id));
    }
}

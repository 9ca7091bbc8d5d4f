//! What is on an executor's disk: files against what the metastores name, and disks that are small enough to fill.
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail, ensure};
use rusqlite::{Connection, OpenFlags};

/// The data files of each partition are exactly those that its metastore names, and no write is staged.
///
/// # Errors
/// Names what is left over or missing.
pub(super) fn check_tidy(partitions: &Path) -> anyhow::Result<()> {
    let mut seen = 0;
    for partition in fs::read_dir(partitions).with_context(|| partitions.display().to_string())? {
        let dir = partition?.path();
        let there: BTreeSet<String> = fs::read_dir(dir.join("files"))?
            .map(|entry| Ok(format!("files/{}", entry?.file_name().to_string_lossy())))
            .collect::<std::io::Result<_>>()?;
        let metastore = Connection::open_with_flags(dir.join("partition.db"), OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut named = metastore.prepare("SELECT path FROM files")?;
        let named = named.query_map([], |row| row.get(0))?.collect::<Result<BTreeSet<String>, _>>()?;
        let staged: i64 =
            metastore.query_row("SELECT count(*) FROM writes WHERE version IS NULL", [], |row| row.get(0))?;
        if named != there {
            let left: Vec<_> = there.difference(&named).collect();
            let missing: Vec<_> = named.difference(&there).collect();
            bail!("{}: {left:?} are left over, {missing:?} are missing", dir.display());
        }
        ensure!(staged == 0, "{}: {staged} writes are still staged", dir.display());
        seen += there.len();
    }
    ensure!(seen > 0, "{} holds no file at all", partitions.display());
    Ok(())
}

/// A disk of its own for a folder.
#[derive(Debug)]
pub(super) struct SmallDisk {
    dir: PathBuf,
}

impl SmallDisk {
    /// Mounts an empty disk in memory over a folder and copies there what the folder holds. None without the right to.
    pub(super) fn mount_over(dir: &Path, bytes: u64) -> anyhow::Result<Option<Self>> {
        let aside = dir.with_extension("aside");
        fs::rename(dir, &aside)?;
        fs::create_dir(dir)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(dir);
        if !mount.output().is_ok_and(|output| output.status.success()) {
            fs::remove_dir(dir)?;
            fs::rename(&aside, dir)?;
            return Ok(None);
        }
        let disk = Self { dir: dir.to_owned() };
        let copied = Command::new("cp").arg("-a").arg(aside.join(".")).arg(dir).status()?;
        ensure!(copied.success(), "cannot copy {}", aside.display());
        Ok(Some(disk))
    }

    fn ballast(&self) -> PathBuf {
        self.dir.join("ballast")
    }

    /// Whether the failpoint has filled it.
    pub(super) fn is_full(&self) -> bool {
        self.ballast().exists()
    }

    /// Takes away what fills it.
    pub(super) fn make_room(&self) -> anyhow::Result<()> {
        fs::remove_file(self.ballast()).context("take the ballast away")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The test may have failed with processes on it: they keep it until they end.
        let _ = Command::new("umount").arg("-l").arg(&self.dir).status();
    }
}

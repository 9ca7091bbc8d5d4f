//! Removes the directory of a partition, and nothing that is not its own.

use std::fs;
use std::path::Path;

use crate::error::{Error, Result};
use crate::layout;

/// Removes the directory of a partition that nobody has open. It is moved to `aside` first, a path on the same disk: what a
/// crash leaves half removed is not found under its name. Fine if there is none. Blocks.
///
/// # Errors
/// [`Error::NotRemoved`] when the directory is a link, holds one, or holds the metastore of another partition; nothing was removed then.
/// [`Error::Io`] when the directory cannot be read whole, moved or removed.
pub fn remove_partition(dir: &Path, aside: &Path) -> Result<()> {
    match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(Error::io("look at", dir, source)),
        Ok(found) if found.file_type().is_symlink() => return Err(refused(dir, dir, "is a link")),
        Ok(_) => check(dir, dir)?,
    }
    fs::rename(dir, aside).map_err(|source| Error::io("move aside", dir, source))?;
    fs::remove_dir_all(aside).map_err(|source| Error::io("remove", aside, source))
}

/// Looks at all that is in `folder`, of the partition in `dir`.
fn check(dir: &Path, folder: &Path) -> Result<()> {
    let unread = |source| Error::io("look at, before it is removed,", folder, source);
    for entry in fs::read_dir(folder).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let kind = entry.file_type().map_err(unread)?;
        let path = entry.path();
        if kind.is_symlink() {
            return Err(refused(dir, &path, "is a link"));
        }
        if kind.is_dir() {
            check(dir, &path)?;
        } else if folder != dir && entry.file_name().to_string_lossy().starts_with(layout::METASTORE) {
            return Err(refused(dir, &path, "is of the metastore of another partition"));
        }
    }
    Ok(())
}

fn refused(dir: &Path, entry: &Path, detail: &'static str) -> Error {
    Error::NotRemoved { path: dir.to_path_buf(), entry: entry.to_path_buf(), detail }
}

//! A folder as a store of objects. What is written is on the disk before it has its name. Conditional writes hold a lock beside
//! the object, so that of two writers, in whichever process, one sees what the other has written.
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use bytes::Bytes;
use object_store::UpdateVersion;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{
    probe::PROBE,
    set::sha256_hex,
    store::{Conditional, Listed, ObjectVersion},
};

/// What the names of files that are being written begin with.
const UNFINISHED: &str = ".unfinished-";
/// What the names of lock files end in.
const LOCK: &str = ".lock";
/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;

/// See the module. All of it blocks.
#[derive(Debug)]
pub(super) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    pub(super) fn read(&self, key: &str) -> io::Result<Bytes> {
        fs::read(self.path(key)).map(Bytes::from)
    }

    pub(super) fn read_range(&self, key: &str, range: Range<u64>) -> io::Result<Bytes> {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).map_err(io::Error::other)?];
        File::open(self.path(key))?.read_exact_at(&mut bytes, range.start)?;
        Ok(Bytes::from(bytes))
    }

    pub(super) fn look(&self, key: &str) -> io::Result<Listed> {
        let metadata = fs::metadata(self.path(key))?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified_ms = u64::try_from(modified.as_millis()).unwrap_or(u64::MAX);
        Ok(Listed { key: key.to_owned(), bytes: metadata.len(), modified_ms })
    }

    pub(super) fn list(&self, key: &str) -> io::Result<Vec<Listed>> {
        let mut found = Vec::new();
        let mut folders = vec![key.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.path(&folder)) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                // Other names were not written by this.
                let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
                let key = format!("{folder}/{name}");
                match entry.file_type()? {
                    kind if kind.is_dir() => folders.push(key),
                    _ if name.ends_with(LOCK) => {}
                    _ => match self.look(&key) {
                        // Renamed or removed meanwhile.
                        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                        listed => found.push(listed?),
                    },
                }
            }
        }
        Ok(found)
    }

    pub(super) fn remove(&self, key: &str) -> io::Result<()> {
        let path = self.path(key);
        if key.starts_with(PROBE) {
            // Each probe has a name of its own, so nobody else waits for its lock.
            let _ = fs::remove_file(path.with_added_extension("lock"));
        }
        fs::remove_file(path)
    }

    pub(super) fn write(&self, key: &str, bytes: &[u8]) -> io::Result<()> {
        self.put(key, |file| file.write_all(bytes))
    }

    /// Copies a file in, and answers the SHA-256 of what was copied. If that is wrong, it is the caller's to say so.
    pub(super) fn copy_in(&self, key: &str, from: &Path) -> io::Result<String> {
        let mut source = File::open(from)?;
        let mut hasher = Sha256::new();
        self.put(key, |file| {
            let mut buffer = vec![0; COPY_BYTES];
            loop {
                let length = source.read(&mut buffer)?;
                if length == 0 {
                    return Ok(());
                }
                hasher.update(&buffer[..length]);
                file.write_all(&buffer[..length])?;
            }
        })?;
        Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(super) fn read_versioned(&self, key: &str) -> io::Result<(Bytes, ObjectVersion)> {
        let bytes = self.read(key)?;
        let version = version_of(&bytes);
        Ok((bytes, version))
    }

    pub(super) fn write_if(&self, key: &str, bytes: &[u8], there: Option<&ObjectVersion>) -> io::Result<Conditional> {
        let path = self.path(key);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        // It stays: whoever removed it would let in one that waits for it and one that makes it anew.
        let lock = File::options().create(true).truncate(false).write(true).open(path.with_added_extension("lock"))?;
        lock.lock()?;
        let found = match self.read_versioned(key) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?.1),
        };
        if found.as_ref() != there {
            return Ok(Conditional::Refused);
        }
        self.write(key, bytes)?;
        Ok(Conditional::Written)
    }

    fn put(&self, key: &str, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let path = self.path(key);
        let parent = path.parent().ok_or_else(|| io::Error::other("an object without a name"))?;
        fs::create_dir_all(parent)?;
        let unfinished = parent.join(format!("{UNFINISHED}{}", Uuid::new_v4()));
        let written = (|| {
            let mut file = File::create(&unfinished)?;
            fill(&mut file)?;
            file.sync_all()?;
            fs::rename(&unfinished, &path)?;
            File::open(parent)?.sync_all()
        })();
        if written.is_err() {
            // What is left of it goes with the clean-up.
            let _ = fs::remove_file(&unfinished);
        }
        written
    }
}

/// The content is the version: two heads are never the same.
fn version_of(bytes: &[u8]) -> ObjectVersion {
    ObjectVersion(UpdateVersion { e_tag: Some(sha256_hex(bytes)), version: None })
}

//! Where the bytes of data files come from.

use std::fmt::Debug;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use async_trait::async_trait;
use bytes::Bytes;

use super::manifest::ManifestFile;
use crate::pin::PinnedVersion;

/// Gives the bytes of the data files of a manifest. What it gives is verified by whoever asks.
#[async_trait]
pub trait FileSource: Debug + Send + Sync {
    /// The bytes of a file from `range.start` up to `range.end`, which is at most its length.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is no such file, which is not asked for again; any other error may pass.
    async fn read(&self, file: &ManifestFile, range: Range<u64>) -> io::Result<Bytes>;
}

/// The files of the partition itself, as long as the pin lives.
#[async_trait]
impl FileSource for PinnedVersion {
    async fn read(&self, file: &ManifestFile, range: Range<u64>) -> io::Result<Bytes> {
        let known = self.files().iter().find(|known| known.file.id == file.id);
        let Some(path) = known.map(|known| known.file.path.clone()) else {
            let message = format!("data file '{}' is not part of version {}", file.name(), self.version());
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        };
        read_file(path, range).await
    }
}

/// Bytes of a file on this disk.
pub(super) async fn read_file(path: PathBuf, range: Range<u64>) -> io::Result<Bytes> {
    let length = usize::try_from(range.end.saturating_sub(range.start)).map_err(io::Error::other)?;
    let read = move || -> io::Result<Bytes> {
        let mut bytes = vec![0; length];
        File::open(path)?.read_exact_at(&mut bytes, range.start)?;
        Ok(Bytes::from(bytes))
    };
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

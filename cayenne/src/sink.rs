//! The file a Vortex writer appends to: counts and hashes what passes through.

use std::fs::File;
use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use vortex::io::{IoBuf, VortexWrite};

/// A closed file's length and hash, as they were handed to the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileDigest {
    pub(crate) bytes: u64,
    pub(crate) sha256: [u8; 32],
}

struct Inner {
    file: File,
    hasher: Sha256,
    bytes: u64,
}

type BeforeWrite = dyn Fn() -> io::Result<()> + Send + Sync;

/// Appends to a file on blocking threads.
pub(crate) struct HashingSink {
    inner: Arc<Mutex<Inner>>,
    written: Arc<AtomicU64>,
    before_write: Arc<BeforeWrite>,
}

impl HashingSink {
    /// `written` follows the number of bytes written so far; `before_write` runs before each write and can fail it.
    pub(crate) fn new(
        file: File,
        written: Arc<AtomicU64>,
        before_write: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner { file, hasher: Sha256::new(), bytes: 0 })),
            written,
            before_write: Arc::new(before_write),
        }
    }

    /// Makes the content durable. Blocks.
    pub(crate) fn sync(&self) -> io::Result<FileDigest> {
        let inner = self.inner.lock();
        inner.file.sync_all()?;
        Ok(FileDigest { bytes: inner.bytes, sha256: inner.hasher.clone().finalize().into() })
    }
}

async fn on_blocking_thread<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}

impl VortexWrite for HashingSink {
    fn write_all<B: IoBuf>(&mut self, buffer: B) -> impl Future<Output = io::Result<B>> + Send {
        let inner = Arc::clone(&self.inner);
        let written = Arc::clone(&self.written);
        let before_write = Arc::clone(&self.before_write);
        on_blocking_thread(move || {
            before_write()?;
            let mut inner = inner.lock();
            let bytes = buffer.as_slice();
            inner.file.write_all(bytes)?;
            inner.hasher.update(bytes);
            inner.bytes += bytes.len() as u64;
            written.store(inner.bytes, Ordering::Relaxed);
            drop(inner);
            Ok(buffer)
        })
    }

    fn flush(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        let inner = Arc::clone(&self.inner);
        on_blocking_thread(move || inner.lock().file.flush())
    }

    fn shutdown(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        self.flush()
    }
}

/// Length and SHA-256 of a file on disk. Blocks.
pub(crate) fn hash_file(path: &std::path::Path) -> io::Result<FileDigest> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let count = io::Read::read(&mut file, &mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        bytes += count as u64;
    }
    Ok(FileDigest { bytes, sha256: hasher.finalize().into() })
}

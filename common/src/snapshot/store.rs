//! The objects of a location. On S3 by the store's own conditional writes; in a folder see `folder`.
use std::{fs::File, future::Future, ops::Range, os::unix::fs::FileExt, path::PathBuf, sync::Arc};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::{
    Error as StoreError, GetOptions, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode, PutPayload, UpdateVersion,
    path::Path,
};
use sha2::{Digest, Sha256};

use super::{folder::Folder, set::StoredObject};
use crate::error::{Error, Result};

/// Files are uploaded in parts of so many bytes.
const PART_BYTES: u64 = 8 << 20;
/// Parts of one file that are on their way at a time.
const PARTS_IN_FLIGHT: usize = 3;

/// The version of an object as its store tells it; only good for a conditional write.
#[derive(Debug, Clone, PartialEq)]
pub struct ObjectVersion(pub(super) UpdateVersion);

/// What a conditional write did.
#[derive(Debug, Clone, PartialEq)]
pub enum Conditional {
    /// It was made.
    Written,
    /// The condition did not hold.
    Refused,
}

/// What a look at an object found that was read before.
#[derive(Debug, Clone, PartialEq)]
pub enum Look {
    /// There is none.
    Missing,
    /// It is as it was.
    Same,
    /// It is another one.
    Other(Bytes, ObjectVersion),
}

/// An object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Below the location.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written by the store's clock, milliseconds since 1970.
    pub modified_ms: u64,
}

/// See the module. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SnapshotStore {
    backend: Backend,
    place: Arc<str>,
}

#[derive(Debug, Clone)]
enum Backend {
    Folder(Arc<Folder>),
    Bucket { store: Arc<dyn ObjectStore>, prefix: Path },
}

impl SnapshotStore {
    pub(super) fn folder(path: PathBuf, place: String) -> Self {
        Self { backend: Backend::Folder(Arc::new(Folder::new(path))), place: place.into() }
    }

    /// Of a bucket, or anything like one; `place` names it in errors.
    #[must_use]
    pub fn bucket(store: Arc<dyn ObjectStore>, prefix: Path, place: String) -> Self {
        Self { backend: Backend::Bucket { store, prefix }, place: place.into() }
    }

    /// The location as people know it.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// A whole object.
    ///
    /// # Errors
    /// `NotFound`; `Unavailable` where the store does not answer.
    pub async fn read(&self, key: &str) -> Result<Bytes> {
        match &self.backend {
            Backend::Folder(folder) => self.on_disk(folder, key, |folder, key| folder.read(key)).await,
            Backend::Bucket { store, .. } => {
                let found = async { store.get(&self.path(key)?).await?.bytes().await };
                found.await.map_err(|e| self.failed("reading", key, e))
            }
        }
    }

    /// A whole object that is known.
    ///
    /// # Errors
    /// As [`read`](Self::read); `Corrupt` where it is another one.
    pub async fn read_checked(&self, object: &StoredObject) -> Result<Bytes> {
        let bytes = self.read(&object.key).await?;
        object.check(&bytes).map_err(|e| e.context(&self.place))?;
        Ok(bytes)
    }

    /// A part of an object.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        match &self.backend {
            Backend::Folder(folder) => {
                self.on_disk(folder, key, move |folder, key| folder.read_range(key, range)).await
            }
            Backend::Bucket { store, .. } => {
                let found = async { store.get_range(&self.path(key)?, range).await };
                found.await.map_err(|e| self.failed("reading", key, e))
            }
        }
    }

    /// Writes an object that nobody else writes.
    ///
    /// # Errors
    /// `Unavailable` where the store does not answer; the object may be there.
    pub async fn write(&self, key: &str, bytes: Bytes) -> Result<()> {
        match &self.backend {
            Backend::Folder(folder) => self.on_disk(folder, key, move |folder, key| folder.write(key, &bytes)).await,
            Backend::Bucket { store, .. } => {
                let written = async { store.put(&self.path(key)?, PutPayload::from_bytes(bytes)).await };
                written.await.map(|_| ()).map_err(|e| self.failed("writing", key, e))
            }
        }
    }

    /// Writes a file of a disk as an object that nobody else writes. Its bytes are checked on the way.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Corrupt` where the file is not what `object` says: then there is no such object, or its
    /// name is in no list.
    pub async fn write_file(&self, object: &StoredObject, path: PathBuf) -> Result<()> {
        let local = |e: std::io::Error| Error::internal(format!("reading {}: {e}", path.display()));
        let file = Arc::new(File::open(&path).map_err(local)?);
        let length = file.metadata().map_err(local)?.len();
        if length != object.bytes {
            return Err(Error::corrupt(format!("{} has {length} bytes instead of {}", path.display(), object.bytes)));
        }
        let digest = match &self.backend {
            Backend::Folder(folder) => {
                let path = path.clone();
                self.on_disk(folder, &object.key, move |folder, key| folder.copy_in(key, &path)).await?
            }
            Backend::Bucket { store, .. } => {
                let uploaded = self.upload(store, object, file);
                uploaded.await.map_err(|e| self.failed("writing", &object.key, e))?
            }
        };
        if digest != object.sha256 {
            return Err(Error::corrupt(format!(
                "the SHA-256 of {} is {digest} instead of {}: the file is damaged",
                path.display(),
                object.sha256
            )));
        }
        Ok(())
    }

    /// Uploads a file in parts, and answers the digest of what was sent.
    async fn upload(
        &self,
        store: &Arc<dyn ObjectStore>,
        object: &StoredObject,
        file: Arc<File>,
    ) -> object_store::Result<String> {
        let target = self.path(&object.key)?;
        if object.bytes <= PART_BYTES {
            let (bytes, hasher) = read_part(file, 0..object.bytes, Sha256::new()).await?;
            store.put(&target, PutPayload::from_bytes(bytes)).await?;
            return Ok(hex(hasher));
        }
        let mut upload = store.put_multipart(&target).await?;
        let sent = send_parts(&mut *upload, file, object.bytes).await;
        match sent {
            Ok(hasher) if hex(hasher.clone()) == object.sha256 => {
                upload.complete().await?;
                Ok(hex(hasher))
            }
            other => {
                // Parts of an upload that does not end are the store's to clean up; this is sooner.
                let _ = upload.abort().await;
                other.map(hex)
            }
        }
    }

    /// What is there below a folder.
    ///
    /// # Errors
    /// `Unavailable` where the store does not answer.
    pub async fn list(&self, folder: &str) -> Result<Vec<Listed>> {
        match &self.backend {
            Backend::Folder(root) => self.on_disk(root, folder, |root, key| root.list(key)).await,
            Backend::Bucket { store, prefix } => {
                let below = self.path(folder).map_err(|e| self.failed("listing", folder, e))?;
                let found: Vec<_> =
                    store.list(Some(&below)).try_collect().await.map_err(|e| self.failed("listing", folder, e))?;
                let relative = |path: &Path| match path.prefix_match(prefix) {
                    Some(parts) => parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"),
                    None => path.to_string(),
                };
                let listed = found.iter().map(|meta| Listed {
                    key: relative(&meta.location),
                    bytes: meta.size,
                    modified_ms: u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0),
                });
                Ok(listed.collect())
            }
        }
    }

    /// An object's length and time, if it is there.
    ///
    /// # Errors
    /// `Unavailable` where the store does not answer.
    pub async fn look(&self, key: &str) -> Result<Option<Listed>> {
        let found = match &self.backend {
            Backend::Folder(folder) => self.on_disk(folder, key, |folder, key| folder.look(key)).await,
            Backend::Bucket { store, .. } => {
                let meta = async { store.head(&self.path(key)?).await };
                let listed = |meta: object_store::ObjectMeta| Listed {
                    key: key.to_owned(),
                    bytes: meta.size,
                    modified_ms: u64::try_from(meta.last_modified.timestamp_millis()).unwrap_or(0),
                };
                meta.await.map(listed).map_err(|e| self.failed("looking at", key, e))
            }
        };
        missing_is_none(found)
    }

    /// Removes an object. Fine if there is none.
    ///
    /// # Errors
    /// `Unavailable` where the store does not answer or does not allow it.
    pub async fn remove(&self, key: &str) -> Result<()> {
        let removed = match &self.backend {
            Backend::Folder(folder) => self.on_disk(folder, key, |folder, key| folder.remove(key)).await,
            Backend::Bucket { store, .. } => {
                let removed = async { store.delete(&self.path(key)?).await };
                removed.await.map_err(|e| self.failed("removing", key, e))
            }
        };
        missing_is_none(removed).map(|_| ())
    }

    /// An object with its version, if it is there.
    ///
    /// # Errors
    /// `Unavailable` where the store does not answer; `Unsupported` where it tells no version: without one, nothing may be
    /// written on top of the object.
    pub async fn read_versioned(&self, key: &str) -> Result<Option<(Bytes, ObjectVersion)>> {
        let found = match &self.backend {
            Backend::Folder(folder) => self.on_disk(folder, key, |folder, key| folder.read_versioned(key)).await,
            Backend::Bucket { store, .. } => {
                let read = async {
                    let got = store.get(&self.path(key)?).await?;
                    let version = UpdateVersion { e_tag: got.meta.e_tag.clone(), version: got.meta.version.clone() };
                    Ok::<_, StoreError>((got.bytes().await?, ObjectVersion(version)))
                };
                read.await.map_err(|e| self.failed("reading", key, e))
            }
        };
        let found = missing_is_none(found)?;
        if let Some((_, ObjectVersion(version))) = &found
            && version.e_tag.is_none()
            && version.version.is_none()
        {
            return Err(Error::unsupported(format!(
                "{}: the store tells no version of {key}, so it cannot be changed safely; use another store",
                self.place
            )));
        }
        Ok(found)
    }

    /// As [`read_versioned`](Self::read_versioned), without its bytes if it still has the version that is known.
    ///
    /// # Errors
    /// As [`read_versioned`](Self::read_versioned).
    pub async fn read_if_changed(&self, key: &str, known: Option<&ObjectVersion>) -> Result<Look> {
        if let (Backend::Bucket { store, .. }, Some(ObjectVersion(UpdateVersion { e_tag: Some(tag), .. }))) =
            (&self.backend, known)
        {
            let options = GetOptions { if_none_match: Some(tag.clone()), ..GetOptions::default() };
            match async { store.get_opts(&self.path(key)?, options).await }.await {
                Err(StoreError::NotModified { .. }) => return Ok(Look::Same),
                Err(StoreError::NotFound { .. }) => return Ok(Look::Missing),
                Err(error) => return Err(self.failed("reading", key, error)),
                // A store that knows no such condition sends the object in any case.
                Ok(found) if found.meta.e_tag.as_ref() == Some(tag) => return Ok(Look::Same),
                Ok(_) => {}
            }
        }
        Ok(match self.read_versioned(key).await? {
            None => Look::Missing,
            Some((_, version)) if known == Some(&version) => Look::Same,
            Some((bytes, version)) => Look::Other(bytes, version),
        })
    }

    /// Writes an object if none is there, or if the one that is there has the version.
    ///
    /// # Errors
    /// Nobody knows whether it was written.
    pub async fn write_if(&self, key: &str, bytes: Bytes, there: Option<&ObjectVersion>) -> Result<Conditional> {
        match &self.backend {
            Backend::Folder(folder) => {
                let there = there.cloned();
                self.on_disk(folder, key, move |folder, key| folder.write_if(key, &bytes, there.as_ref())).await
            }
            Backend::Bucket { store, .. } => {
                let mode = there.map_or(PutMode::Create, |version| PutMode::Update(version.0.clone()));
                let written =
                    async { store.put_opts(&self.path(key)?, PutPayload::from_bytes(bytes), mode.into()).await };
                match written.await {
                    Ok(_) => Ok(Conditional::Written),
                    Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => Ok(Conditional::Refused),
                    Err(error) => Err(self.failed("writing", key, error)),
                }
            }
        }
    }

    fn path(&self, key: &str) -> object_store::Result<Path> {
        let Backend::Bucket { prefix, .. } = &self.backend else { return Ok(Path::default()) };
        let whole = if prefix.as_ref().is_empty() { key.to_owned() } else { format!("{prefix}/{key}") };
        Path::parse(whole).map_err(StoreError::from)
    }

    fn failed(&self, doing: &str, key: &str, error: StoreError) -> Error {
        let what = format!("{}: {doing} {key}", self.place);
        match error {
            StoreError::NotFound { .. } => Error::not_found(format!("{what}: there is no such object")),
            StoreError::NotSupported { .. } | StoreError::NotImplemented { .. } => {
                Error::unsupported(format!("{what}: {error}"))
            }
            StoreError::PermissionDenied { .. } | StoreError::Unauthenticated { .. } => {
                Error::invalid(format!("{what} is not allowed with these credentials: {error}"))
            }
            other => {
                let text = other.to_string();
                // The library has no kind of error for a server that does not know a header.
                if text.contains("501 Not Implemented") || text.contains("NotImplemented") {
                    return Error::unsupported(format!("{what}: {text}"));
                }
                Error::unavailable(format!("{what}: {text}"))
            }
        }
    }

    /// Works on a folder on a thread that may block.
    async fn on_disk<T: Send + 'static>(
        &self,
        folder: &Arc<Folder>,
        key: &str,
        work: impl FnOnce(&Folder, &str) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (folder, key) = (Arc::clone(folder), key.to_owned());
        let what = format!("{}: {key}", self.place);
        let done = tokio::task::spawn_blocking(move || work(&folder, &key)).await;
        match done.map_err(|e| Error::internal(format!("{what}: {e}")))? {
            Ok(value) => Ok(value),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                Err(Error::not_found(format!("{what}: there is no such object")))
            }
            Err(e) => Err(Error::unavailable(format!("{what}: {e}"))),
        }
    }
}

fn missing_is_none<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == crate::error::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn hex(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a part of a file and hashes it, on a thread that may block.
async fn read_part(file: Arc<File>, range: Range<u64>, mut hasher: Sha256) -> object_store::Result<(Bytes, Sha256)> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| StoreError::Generic { store: "disk", source };
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, range.start)?;
        hasher.update(&bytes);
        Ok::<_, std::io::Error>((Bytes::from(bytes), hasher))
    });
    read.await.map_err(|e| failed(e.into()))?.map_err(|e| failed(e.into()))
}

async fn send_parts(upload: &mut dyn MultipartUpload, file: Arc<File>, length: u64) -> object_store::Result<Sha256> {
    let mut hasher = Sha256::new();
    let mut parts = stream::FuturesUnordered::new();
    for number in 0..length.div_ceil(PART_BYTES) {
        let range = number * PART_BYTES..((number + 1) * PART_BYTES).min(length);
        let (bytes, hashed) = read_part(Arc::clone(&file), range, hasher).await?;
        hasher = hashed;
        parts.push(upload.put_part(PutPayload::from_bytes(bytes)));
        while parts.len() >= PARTS_IN_FLIGHT {
            parts.next().await.transpose()?;
        }
    }
    while parts.next().await.transpose()?.is_some() {}
    Ok(hasher)
}

/// What changes of a head need of a store, so that they can be tried on one with faults.
pub trait HeadStore: Send + Sync {
    /// See [`SnapshotStore::read_versioned`].
    fn read(&self, key: &str) -> impl Future<Output = Result<Option<(Bytes, ObjectVersion)>>> + Send;

    /// See [`SnapshotStore::write_if`].
    fn write(
        &self,
        key: &str,
        bytes: Bytes,
        there: Option<&ObjectVersion>,
    ) -> impl Future<Output = Result<Conditional>> + Send;

    /// See [`SnapshotStore::remove`].
    fn remove(&self, key: &str) -> impl Future<Output = Result<()>> + Send;
}

impl HeadStore for SnapshotStore {
    async fn read(&self, key: &str) -> Result<Option<(Bytes, ObjectVersion)>> {
        self.read_versioned(key).await
    }

    async fn write(&self, key: &str, bytes: Bytes, there: Option<&ObjectVersion>) -> Result<Conditional> {
        self.write_if(key, bytes, there).await
    }

    async fn remove(&self, key: &str) -> Result<()> {
        SnapshotStore::remove(self, key).await
    }
}

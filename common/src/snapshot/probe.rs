//! Whether a store keeps the conditions of writes. Without that, two publishers could write over each other unseen.
use bytes::Bytes;
use uuid::Uuid;

use super::store::{Conditional, HeadStore, ObjectVersion};
use crate::error::{Error, ErrorKind, Result};

/// What the name of the object that is tried out begins with.
pub(super) const PROBE: &str = ".ancho-conditional-write-probe-";

/// What a probe found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Conditions are kept.
    Kept,
    /// They are not, for this reason: nothing may be published there.
    NotKept(String),
}

/// Tries conditional writes on an object of its own: at most five requests.
///
/// # Errors
/// Nothing was found out: the store did not answer, or did not let it.
pub async fn probe<S: HeadStore>(store: &S) -> Result<Verdict> {
    let key = format!("{PROBE}{}", Uuid::new_v4().simple());
    let found = tried(store, &key).await;
    // A small object that stays does no harm.
    let _ = store.remove(&key).await;
    match found {
        Err(error) if error.kind == ErrorKind::Unsupported => Ok(Verdict::NotKept(error.message)),
        Err(error) => Err(error.context(&format!(
            "whether the store keeps conditions of writes could not be tried; creating, updating and deleting objects \
             {PROBE}* must be allowed"
        ))),
        found => found,
    }
}

async fn tried<S: HeadStore>(store: &S, key: &str) -> Result<Verdict> {
    let not_kept = |what: &str| Ok(Verdict::NotKept(what.to_owned()));
    if write(store, key, "1", None).await? == Conditional::Refused {
        return not_kept("it refuses to create an object that is not there");
    }
    if write(store, key, "2", None).await? == Conditional::Written {
        return not_kept("it overwrites an object that was only to be created (If-None-Match)");
    }
    let Some((_, version)) = store.read(key).await? else {
        return Err(Error::unavailable("an object that was just written is not there"));
    };
    // The second of these has a version that is past.
    if write(store, key, "3", Some(&version)).await? == Conditional::Refused {
        return not_kept("it refuses to replace an object at the version that it has (If-Match)");
    }
    if write(store, key, "4", Some(&version)).await? == Conditional::Written {
        return not_kept("it replaces an object that has another version by now (If-Match)");
    }
    Ok(Verdict::Kept)
}

async fn write<S: HeadStore>(
    store: &S,
    key: &str,
    text: &'static str,
    there: Option<&ObjectVersion>,
) -> Result<Conditional> {
    store.write(key, Bytes::from_static(text.as_bytes()), there).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use object_store::{UpdateVersion, memory::InMemory, path::Path};
    use std::sync::Arc;

    use super::*;
    use crate::snapshot::store::SnapshotStore;

    /// Ignores one of the two conditions, or says that it knows none.
    struct Careless {
        inner: SnapshotStore,
        ignores_create: bool,
        ignores_update: bool,
        knows_none: bool,
        requests: AtomicU32,
    }

    impl HeadStore for Careless {
        async fn read(&self, key: &str) -> Result<Option<(Bytes, ObjectVersion)>> {
            self.requests.fetch_add(1, Ordering::SeqCst);
            self.inner.read_versioned(key).await
        }

        async fn write(&self, key: &str, bytes: Bytes, there: Option<&ObjectVersion>) -> Result<Conditional> {
            self.requests.fetch_add(1, Ordering::SeqCst);
            if self.knows_none {
                return Err(Error::unsupported("no conditions here"));
            }
            if there.map_or(self.ignores_create, |_| self.ignores_update) {
                self.inner.write(key, bytes).await?;
                return Ok(Conditional::Written);
            }
            self.inner.write_if(key, bytes, there).await
        }

        async fn remove(&self, key: &str) -> Result<()> {
            self.inner.remove(key).await
        }
    }

    fn careless(ignores_create: bool, ignores_update: bool, knows_none: bool) -> Careless {
        let inner = SnapshotStore::bucket(Arc::new(InMemory::new()), Path::default(), "memory".to_owned());
        Careless { inner, ignores_create, ignores_update, knows_none, requests: AtomicU32::new(0) }
    }

    #[tokio::test]
    async fn a_store_that_ignores_conditions_is_found_out() {
        let store = careless(false, false, false);
        assert_eq!(probe(&store).await.unwrap(), Verdict::Kept);
        assert!(store.requests.load(Ordering::SeqCst) <= 5);
        for (store, what) in [
            (careless(true, false, false), "If-None-Match"),
            (careless(false, true, false), "If-Match"),
            (careless(false, false, true), "no conditions here"),
        ] {
            let Verdict::NotKept(reason) = probe(&store).await.unwrap() else { panic!("{what}") };
            assert!(reason.contains(what), "{reason}");
            assert!(store.inner.list("").await.unwrap().is_empty());
        }
    }

    #[tokio::test]
    async fn a_folder_keeps_conditions() {
        let dir = std::env::temp_dir().join(format!("ancho-probe-{}", Uuid::new_v4()));
        let store = SnapshotStore::folder(dir.clone(), "folder".to_owned());
        assert_eq!(probe(&store).await.unwrap(), Verdict::Kept);
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0, "nothing is left of it, the lock neither");
        let old = ObjectVersion(UpdateVersion { e_tag: Some("x".to_owned()), version: None });
        assert_eq!(store.write_if("k", Bytes::from_static(b"1"), Some(&old)).await.unwrap(), Conditional::Refused);
        let source = dir.join("source");
        std::fs::write(&source, b"abc").unwrap();
        let object = crate::snapshot::StoredObject::of("a/b".to_owned(), b"abc");
        store.write_file(&object, source.clone()).await.unwrap();
        assert_eq!(store.read_checked(&object).await.unwrap().as_ref(), b"abc");
        assert_eq!(store.read_range("a/b", 1..3).await.unwrap().as_ref(), b"bc");
        assert_eq!(store.list("a").await.unwrap().len(), 1);
        assert_eq!(store.look("a/c").await.unwrap(), None);
        let other = crate::snapshot::StoredObject::of("a/d".to_owned(), b"abd");
        assert_eq!(store.write_file(&other, source).await.unwrap_err().kind, ErrorKind::Corrupt);
        std::fs::remove_dir_all(dir).unwrap();
    }
}

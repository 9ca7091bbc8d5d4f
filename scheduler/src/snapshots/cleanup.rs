//! What no snapshot names goes: objects of uploads that came to nothing, and of snapshots that are not listed any more. Only what is
//! old enough that no upload counts on it and no reader still reads it.
use std::{collections::BTreeSet, time::Duration};

use ancho_common::{
    error::Result,
    snapshot::{Head, SnapshotSet, SnapshotStore, names, store::Listed},
};

/// Age below which nothing is removed.
pub const GRACE: Duration = Duration::from_secs(24 * 3600);

/// Removes what nobody names of a table's folder, and answers how many objects and bytes that were. `now_ms` is the store's clock.
///
/// # Errors
/// The store does not answer, or a listed snapshot cannot be read: then nothing is removed, since what it names is not known.
pub async fn clean(store: &SnapshotStore, folder: &str, now_ms: u64, grace: Duration) -> Result<(usize, u64)> {
    // The list first: what is listed and written after it is young.
    let found = store.list(folder).await?;
    let head_key = names::head(folder);
    let head = Head::decode(&store.read(&head_key).await?)?;
    let mut named = BTreeSet::from([head_key]);
    for entry in &head.snapshots {
        let set = SnapshotSet::decode(&store.read_checked(&entry.set).await?)?;
        let mut own = BTreeSet::from([entry.set.key.clone()]);
        for partition in set.partitions {
            own.insert(partition.manifest.key);
            own.extend(partition.files.into_iter().map(|id| names::file(folder, id)));
        }
        if head.pinned == Some(entry.id) {
            let gone = missing(&found, &own);
            if let Some(first) = gone.first() {
                tracing::warn!(
                    table = %head.dataset, snapshot = %entry.id, objects = gone.len(), first = %first,
                    "objects of the pinned snapshot are gone: readers cannot load it; pin another or unpin it"
                );
            }
        }
        named.extend(own);
    }
    let (mut objects, mut bytes) = (0, 0);
    for object in unnamed(&found, &named, now_ms, grace) {
        store.remove(&object.key).await?;
        objects += 1;
        bytes += object.bytes;
    }
    Ok((objects, bytes))
}

/// What of `named` was not found. Pure.
fn missing<'a>(found: &[Listed], named: &'a BTreeSet<String>) -> Vec<&'a str> {
    let found: BTreeSet<&str> = found.iter().map(|object| object.key.as_str()).collect();
    named.iter().map(String::as_str).filter(|key| !found.contains(key)).collect()
}

/// What is not named and old. Pure.
fn unnamed<'a>(
    found: &'a [Listed],
    named: &'a BTreeSet<String>,
    now_ms: u64,
    grace: Duration,
) -> impl Iterator<Item = &'a Listed> {
    let before = now_ms.saturating_sub(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
    found.iter().filter(move |object| !named.contains(&object.key) && object.modified_ms <= before)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ancho_common::{
        ids::PartitionId,
        partition::{PartitionKey, PartitionSpec},
        snapshot::{ENGINE, FORMAT, HeadEntry, SetPartition, StoredObject},
    };
    use bytes::Bytes;
    use uuid::Uuid;

    use super::*;

    const FOLDER: &str = "v1/dataset=t";

    /// Publishes a snapshot of one partition with these data files.
    async fn publish(store: &SnapshotStore, head: &mut Head, n: u128, files: &[u128]) {
        let manifest = StoredObject::of(format!("{FOLDER}/layout=1/all/{n}.cayenne"), b"m");
        store.write(&manifest.key, Bytes::from_static(b"m")).await.unwrap();
        let files: Vec<Uuid> = files.iter().map(|id| Uuid::from_u128(*id)).collect();
        for id in &files {
            store.write(&names::file(FOLDER, *id), Bytes::from_static(b"rows")).await.unwrap();
        }
        let id = Uuid::from_u128(n);
        let partition = SetPartition {
            partition: PartitionId(1),
            key: PartitionKey(vec![]),
            version: 1,
            manifest,
            rows: 1,
            bytes: 4,
            files,
        };
        let set = SnapshotSet {
            format: FORMAT,
            id,
            dataset: "t".into(),
            cluster_id: "c".into(),
            table_id: 1,
            table_version: 1,
            epoch: 1,
            engine: ENGINE.into(),
            release: "0".into(),
            schema: String::new(),
            schema_fingerprint: String::new(),
            partition_spec: PartitionSpec::new(vec![]),
            primary_key: vec![],
            params: Default::default(),
            rows: 1,
            bytes: 4,
            partitions: vec![partition],
        };
        let bytes = set.encode().unwrap();
        let object = StoredObject::of(names::set(FOLDER, id), &bytes);
        store.write(&object.key, Bytes::from(bytes)).await.unwrap();
        head.publish(HeadEntry {
            id,
            engine: ENGINE.into(),
            set: object,
            table_id: 1,
            table_version: 1,
            rows: 1,
            bytes: 4,
            epoch: 1,
            published_ms: 0,
            schema_fingerprint: String::new(),
        });
        store.write(&names::head(FOLDER), Bytes::from(head.encode().unwrap())).await.unwrap();
    }

    async fn keys(store: &SnapshotStore) -> BTreeSet<String> {
        store.list(FOLDER).await.unwrap().into_iter().map(|object| object.key).collect()
    }

    #[tokio::test]
    async fn only_what_is_old_and_unnamed_goes() {
        let memory = Arc::new(object_store::memory::InMemory::new());
        let store = SnapshotStore::bucket(memory, object_store::path::Path::from("below"), "memory".into());
        let mut head = Head::new("t", "c");
        publish(&store, &mut head, 1, &[11, 12]).await;
        publish(&store, &mut head, 2, &[12, 13]).await;
        let whole = keys(&store).await;
        // An upload that came to nothing.
        store.write(&names::file(FOLDER, Uuid::from_u128(99)), Bytes::from_static(b"rest")).await.unwrap();
        let now = store.look(&names::head(FOLDER)).await.unwrap().unwrap().modified_ms + 60_000;
        assert_eq!(clean(&store, FOLDER, now, GRACE).await.unwrap(), (0, 0), "it is young");
        let hour = Duration::from_secs(3600);
        assert_eq!(clean(&store, FOLDER, now + 3_600_000, hour).await.unwrap(), (1, 4));
        assert_eq!(keys(&store).await, whole);

        // The first snapshot is not listed any more: what only it named goes.
        head.snapshots.remove(0);
        store.write(&names::head(FOLDER), Bytes::from(head.encode().unwrap())).await.unwrap();
        assert_eq!(clean(&store, FOLDER, now + 3_600_000, hour).await.unwrap().0, 3);
        let left = keys(&store).await;
        assert!(left.contains(&names::file(FOLDER, Uuid::from_u128(12))), "the second one needs it");
        assert!(!left.contains(&names::file(FOLDER, Uuid::from_u128(11))));

        let listed = |key: &str| Listed { key: key.to_owned(), bytes: 0, modified_ms: 0 };
        let wanted = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
        assert_eq!(missing(&[listed("a"), listed("c")], &wanted), ["b"]);

        // With a set that cannot be read nobody knows what is needed.
        store.write(&names::file(FOLDER, Uuid::from_u128(98)), Bytes::from_static(b"rest")).await.unwrap();
        store.write(&head.snapshots[0].set.key, Bytes::from_static(b"{}")).await.unwrap();
        let before = keys(&store).await;
        assert!(clean(&store, FOLDER, now + 7_200_000, hour).await.is_err());
        assert_eq!(keys(&store).await, before);
    }
}

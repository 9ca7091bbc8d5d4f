//! Which snapshot of a table readers are given: the newest, or one that an operator has pinned. The pin is in the head, and
//! changes with the same conditional writes as what is published, so neither loses the other.
use std::collections::BTreeMap;

use ancho_common::{
    error::{Error, Result},
    snapshot::{
        Head, HeadEntry, SnapshotSet, SnapshotStore,
        change::{Change, change_head},
        names,
    },
};
use uuid::Uuid;

use super::{
    contents::{Contents, head_of},
    lease::Lease,
    place::{listed_in, location_of},
    publisher::Publisher,
};
use crate::{
    query::engine::existing,
    state::{ClusterState, Table, TableName},
};

impl Publisher {
    /// Makes a listed snapshot the current one until it is unpinned. Snapshots are published meanwhile as ever, and do not
    /// become current. Answers the head as it is then.
    ///
    /// # Errors
    /// `NotFound` for a table or snapshot that is not there; `Conflict` where objects of the snapshot are gone, or another
    /// cluster publishes there; `Unsupported` where the store keeps no conditions.
    pub async fn pin(&self, name: &TableName, id: Uuid) -> Result<Head> {
        self.choose(name, Some(id)).await
    }

    /// Makes the newest snapshot the current one again.
    ///
    /// # Errors
    /// As [`pin`](Self::pin).
    pub async fn unpin(&self, name: &TableName) -> Result<Head> {
        self.choose(name, None).await
    }

    /// What is listed of a table where its snapshots go now, or where it mirrors them from; `None` if nothing was published there.
    ///
    /// # Errors
    /// `Invalid` where no place is known; `Unavailable` where the store does not answer.
    pub async fn listed(&self, state: &ClusterState, table: &Table) -> Result<Option<Head>> {
        let location = listed_in(state, table)?;
        head_of(&location.open()?, &names::dataset_folder(&table.name.to_string())).await
    }

    /// A listed snapshot of a table, to be read.
    ///
    /// # Errors
    /// As [`listed`](Self::listed); `NotFound` where it is not listed; as [`Contents::open`].
    pub async fn contents(&self, state: &ClusterState, table: &Table, id: Uuid) -> Result<Contents> {
        let location = location_of(state, table)?;
        let (store, folder) = (location.open()?, names::dataset_folder(&table.name.to_string()));
        let head = head_of(&store, &folder).await?.unwrap_or_else(|| Head::new(&table.name.to_string(), ""));
        let entry = head.entry(id).ok_or_else(|| head.unknown(id))?;
        Contents::open(&location, &store, &folder, entry).await
    }

    async fn choose(&self, name: &TableName, pin: Option<Uuid>) -> Result<Head> {
        let state = self.node().linearizable().await?;
        let table = existing(&state, name)?;
        if let Some(dataset) = table.dataset.as_ref().filter(|_| table.is_published_elsewhere()) {
            return Err(Error::invalid(format!(
                "table {name} only shows what is published in {}; pin and unpin it where it is published",
                dataset.from
            )));
        }
        let location = location_of(&state, &table)?;
        let store = self.probed().open_anew(&location).await?;
        let folder = names::dataset_folder(&table.name.to_string());
        let new = Head::new(&table.name.to_string(), &state.cluster_id);
        let doing = |error: Error| error.context(&format!("snapshots of table {name}"));
        let head = head_of(&store, &folder).await?.unwrap_or_else(|| new.clone());
        head.check_cluster(&state.cluster_id).map_err(doing)?;
        if let Some(id) = pin {
            whole(&store, &folder, head.entry(id).ok_or_else(|| head.unknown(id))?).await.map_err(doing)?;
        }
        let change = |head: &mut Head| -> Result<Change> {
            let changed = match pin {
                Some(id) => head.pin(id)?,
                None => head.unpin(),
            };
            Ok(if changed { Change::Made } else { Change::None })
        };
        let head = match state.snapshots.leases.get(&table.id) {
            // Whoever publishes now goes on: pins and snapshots do not undo each other.
            Some(lease) => change_head(&store, &folder, lease.epoch, &new, change).await,
            None => {
                let lease = Lease::take(self.node(), table.id, &self.holder()).await?;
                let changed = change_head(&store, &folder, lease.epoch(), &new, change).await;
                lease.release().await;
                changed
            }
        }
        .map_err(doing)?;
        tracing::info!(table = %name, pinned = ?head.pinned, current = ?head.current, "chose the snapshot for readers");
        Ok(head)
    }
}

/// Whether all objects of a snapshot are there.
async fn whole(store: &SnapshotStore, folder: &str, entry: &HeadEntry) -> Result<()> {
    let gone = |what: &str| {
        Error::conflict(format!(
            "snapshot {} is listed, but {what} is gone from {}: choose another",
            entry.id,
            store.place()
        ))
    };
    let there: BTreeMap<String, u64> =
        store.list(folder).await?.into_iter().map(|object| (object.key, object.bytes)).collect();
    if there.get(&entry.set.key) != Some(&entry.set.bytes) {
        return Err(gone(&entry.set.key));
    }
    let set = SnapshotSet::decode(&store.read_checked(&entry.set).await?)?;
    for part in &set.partitions {
        if there.get(&part.manifest.key) != Some(&part.manifest.bytes) {
            return Err(gone(&part.manifest.key));
        }
        let files = part.files.iter().map(|id| names::file(folder, *id));
        if let Some(key) = files.into_iter().find(|key| !there.contains_key(key)) {
            return Err(gone(&key));
        }
    }
    Ok(())
}

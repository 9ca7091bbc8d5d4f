//! Where snapshots of a table go, and whether that place can be trusted.
use std::{collections::HashMap, sync::Arc};

use ancho_common::{
    error::{Error, Result},
    snapshot::{
        SnapshotLocation, SnapshotStore,
        probe::{Verdict, probe},
    },
    spec::{DatasetSpec, settings},
};
use parking_lot::Mutex;

use crate::state::{ClusterState, Table};

/// Where a table's snapshots go.
///
/// # Errors
/// `Invalid` where nobody said so.
pub fn location_of(state: &ClusterState, table: &Table) -> Result<SnapshotLocation> {
    let own = settings::snapshot_location(&table.params)
        .map_err(|(option, problem)| Error::invalid(format!("table {}: {option}: {problem}", table.name)))?;
    own.or_else(|| state.snapshots.location.clone()).ok_or_else(|| {
        Error::invalid(format!(
            "no place for snapshots of table {} is known; apply a spec with runtime.state.location, or set the table's \
             option snapshots_location",
            table.name
        ))
    })
}

/// Where what is listed of a table is: for one that mirrors what another cluster publishes, there.
///
/// # Errors
/// As [`location_of`].
pub fn listed_in(state: &ClusterState, table: &Table) -> Result<SnapshotLocation> {
    match table.dataset.as_ref().filter(|_| table.is_published_elsewhere()) {
        None => location_of(state, table),
        Some(dataset) => {
            let spec = DatasetSpec::from_definition(&dataset.definition)
                .map_err(|e| Error::internal(format!("the definition of table {} cannot be read: {e}", table.name)))?;
            SnapshotLocation::of(&spec.source).map_err(Error::invalid)
        }
    }
}

/// Stores that were tried out by this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Probed(Arc<Mutex<HashMap<String, Verdict>>>);

impl Probed {
    /// Opens a place to publish in. The first time it is found out whether it keeps the conditions of writes; what was found
    /// holds until the process ends.
    ///
    /// # Errors
    /// `Unsupported` where it does not; `Unavailable` or `Invalid` where that could not be found out.
    pub(super) async fn open(&self, location: &SnapshotLocation) -> Result<SnapshotStore> {
        let known = self.0.lock().get(&key_of(location)?).cloned();
        match known {
            Some(verdict) => trusted(location.open()?, verdict),
            None => self.open_anew(location).await,
        }
    }

    /// As [`open`](Self::open), and finds out anew.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub(super) async fn open_anew(&self, location: &SnapshotLocation) -> Result<SnapshotStore> {
        let store = location.open()?;
        let verdict = probe(&store).await.map_err(|e| e.context(store.place()))?;
        self.0.lock().insert(key_of(location)?, verdict.clone());
        trusted(store, verdict)
    }
}

fn key_of(location: &SnapshotLocation) -> Result<String> {
    serde_json::to_string(location).map_err(|e| Error::internal(e.to_string()))
}

fn trusted(store: SnapshotStore, verdict: Verdict) -> Result<SnapshotStore> {
    match verdict {
        Verdict::Kept => Ok(store),
        Verdict::NotKept(reason) => Err(Error::unsupported(format!(
            "{} does not keep the conditions of writes, so publishers could overwrite each other: {reason}; nothing was \
             uploaded; use another store, and restart the scheduler if this one was mended",
            store.place()
        ))),
    }
}

//! Datasets that mirror what another cluster publishes: the table's rows are always those of one of its snapshots, all
//! partitions at once.
//!
//! Which snapshot that is says [`reader::choose`]; how its rows come here is that of a load. Whatever fails leaves the table with
//! the rows that it has. What waits for its first snapshot is no table yet, so that nobody takes it for an empty one.
use std::sync::Arc;

use ancho_common::{
    error::{Error, ErrorKind, Result},
    ids::TableId,
    snapshot::{
        Head, HeadEntry, Served, SnapshotLocation, SnapshotSet, names,
        reader::{self, Choice},
    },
    spec::DatasetSpec,
};
use futures::future::BoxFuture;
use serde_json::Value;

use super::{
    apply::{Applier, dataset_of, declared, done, is_made_for, loadable, matched, table_of},
    assigner::propose,
    engine::QueryEngine,
    write::WriteKind,
};
use crate::{
    frontend::caller::Caller,
    planner::published::PublishedTable,
    snapshots::contents::{Contents, head_of},
    state::{Awaited, ClusterState, Command, Dataset, TableName},
};

/// [`Applier::mirror`] for whoever is not part of a statement.
pub(crate) fn mirrored<'a>(engine: &'a QueryEngine, spec: &'a DatasetSpec) -> BoxFuture<'a, Result<Value>> {
    Box::pin(mirror(engine, spec))
}

async fn mirror(engine: &QueryEngine, spec: &DatasetSpec) -> Result<Value> {
    Applier::new(engine).mirror(spec).await
}

impl Applier<'_> {
    /// Brings the table of a dataset to the snapshot that it should show, and says what was done.
    ///
    /// # Errors
    /// The store does not answer, or what it has cannot be used; the table has the rows that it had.
    pub async fn mirror(&self, spec: &DatasetSpec) -> Result<Value> {
        let name = TableName::public(&spec.name);
        let location = SnapshotLocation::of(&spec.source).map_err(Error::invalid)?;
        let (store, folder) = (location.open()?, names::dataset_folder(&name.to_string()));
        let state = self.engine().node().linearizable().await?;
        let former = state.table(&name).map(Arc::as_ref);
        let dataset = former.map(declared).transpose()?;
        if former.is_some_and(|table| table.load.is_some()) {
            return Err(Error::conflict(format!("table {name} is being loaded already; it is looked at again")));
        }
        let head = match head_of(&store, &folder).await {
            // It is tried again by whoever looks for newer snapshots.
            Err(error) if error.kind == ErrorKind::Unavailable && former.is_none() => {
                tracing::warn!(table = %name, %error, "what a dataset mirrors cannot be read yet");
                None
            }
            head => head?,
        };
        // What it serves of another place means nothing at this one.
        let served = dataset.filter(|dataset| dataset.from == spec.source.from.to_string());
        let served = served.and_then(|dataset| dataset.served.as_ref());
        let Some((head, entry)) = head.as_ref().and_then(|head| Some((head, wanted(&name, head, served)?))) else {
            return match former {
                None => self.wait_for(&state, spec).await,
                Some(_) => Err(Error::not_found(format!(
                    "no usable head of snapshots of table {name} is in {location}; the table keeps its rows"
                ))),
            };
        };
        let shown = served.is_some_and(|served| served.id == entry.id);
        if let (Some(table), Some(dataset)) = (former, dataset)
            && shown
            && dataset.definition == spec.definition()
        {
            return Ok(done(spec, "unchanged", table.rows()));
        }
        let contents = Contents::open(&location, &store, &folder, entry).await?;
        let taken = Dataset { served: Some(Served::of(head, entry)), ..dataset_of(spec) };
        let layout = completed(spec, &contents.set);
        match former {
            Some(table) if shown && is_made_for(table, &layout, &contents.schema) => {
                self.adjust(table, &layout, Some(spec.definition())).await?;
                Ok(done(spec, "adjusted", table.rows()))
            }
            Some(table) if is_made_for(table, &layout, &contents.schema) => {
                self.adjust(table, &layout, None).await?;
                let rows = self.load_published(&taken, (table.id, table.version), &contents.rows).await?;
                tell(&name, &taken, rows);
                Ok(done(spec, "refreshed", rows))
            }
            _ => {
                let table = table_of(&layout, name.clone(), Arc::clone(&contents.schema), taken.clone())?;
                let load = |id| self.load_published(&taken, (id, 0), &contents.rows);
                let rows = self.create(table, former.map(|table| table.id), load).await?;
                tell(&name, &taken, rows);
                Ok(done(spec, if former.is_some() { "replaced" } else { "created" }, rows))
            }
        }
    }

    /// Declares a dataset that nothing is published of.
    async fn wait_for(&self, state: &ClusterState, spec: &DatasetSpec) -> Result<Value> {
        let dataset = Awaited { definition: spec.definition(), from: spec.source.from.to_string() };
        if state.awaited.get(&spec.name) != Some(&dataset) {
            let command = Command::AwaitDataset { name: TableName::public(&spec.name), dataset };
            propose(self.engine().node(), command).await?;
        }
        Ok(done(spec, "waiting", 0))
    }

    /// Puts the rows of a snapshot in the place of those that the table has at this version, in one commit.
    async fn load_published(
        &self,
        taken: &Dataset,
        (table, version): (TableId, u64),
        rows: &Arc<PublishedTable>,
    ) -> Result<u64> {
        let loaded = self.engine().attempts(|state, attempt| async move {
            let table = loadable(&state, table)?;
            if table.version != version {
                let text =
                    format!("table {} was brought to another snapshot meanwhile; it is looked at again", table.name);
                return Err(Error::conflict(text).into());
            }
            let plan = matched(Arc::clone(rows) as _, &table)?;
            let (writer, caller) = (self.engine().writer(), Caller::default());
            let written = writer.write(&attempt, &state, &table, plan, WriteKind::Refresh(taken), &caller).await;
            Ok(written?)
        });
        loaded.await.map_err(|e| e.context(&format!("loading a snapshot from {}", taken.from)))
    }
}

/// The snapshot that the table is to show; none while nothing is published.
fn wanted<'a>(name: &TableName, head: &'a Head, served: Option<&Served>) -> Option<&'a HeadEntry> {
    let own = || served.and_then(|served| head.entry(served.id)).or_else(|| head.entry(head.current?));
    match reader::choose(head, served) {
        Choice::Wait => None,
        Choice::Take(entry) => Some(entry),
        Choice::Keep => own(),
        Choice::KeepSinceStale => {
            tracing::warn!(table = %name, head_version = head.head_version, "an old head of snapshots was read; it says nothing");
            own()
        }
        Choice::KeepSinceNewer(older) => {
            tracing::warn!(
                table = %name, current = %older.id, served = ?served.map(|served| served.id),
                "the current snapshot is older than the one that is served, and not pinned: the newer one is kept"
            );
            own()
        }
    }
}

/// A dataset with what it leaves to the snapshot: key, partitions, parameters.
fn completed(spec: &DatasetSpec, set: &SnapshotSet) -> DatasetSpec {
    let mut completed = spec.clone();
    let acceleration = &mut completed.acceleration;
    if acceleration.partition_by.is_empty() {
        acceleration.partition_by.clone_from(&set.partition_spec.expressions);
    }
    acceleration.primary_key.clone_from(&set.primary_key);
    let own = std::mem::take(&mut acceleration.params);
    acceleration.params = set.params.clone().into_iter().chain(own).collect();
    completed
}

fn tell(name: &TableName, taken: &Dataset, rows: u64) {
    let snapshot = taken.served.as_ref().map(|served| served.id);
    tracing::info!(table = %name, ?snapshot, rows, from = %taken.from, "a published snapshot is served");
}

#[cfg(test)]
mod tests {
    use ancho_common::{
        partition::PartitionSpec,
        snapshot::{ENGINE, FORMAT},
        spec::ClusterSpec,
    };
    use uuid::Uuid;

    use super::*;

    #[test]
    fn a_dataset_takes_from_the_snapshot_what_it_does_not_say() {
        let spec = |more: &str| {
            let yaml = format!(
                "datasets:\n  - from: file:///published\n    name: t\n    params: {{file_format: snapshot}}\n    acceleration:\n      enabled: true\n{more}"
            );
            ClusterSpec::parse(&yaml).unwrap().datasets.remove(0)
        };
        let params = [("cayenne_sort_columns", "id"), ("indexes", "id")];
        let set = SnapshotSet {
            format: FORMAT,
            id: Uuid::nil(),
            dataset: "t".into(),
            cluster_id: "c".into(),
            table_id: 1,
            table_version: 1,
            epoch: 1,
            engine: ENGINE.into(),
            release: "0".into(),
            schema: String::new(),
            schema_fingerprint: String::new(),
            partition_spec: PartitionSpec::new(vec!["bucket(4, id)".into()]),
            primary_key: vec!["id".into()],
            params: params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            rows: 0,
            bytes: 0,
            partitions: vec![],
        };
        let all = completed(&spec(""), &set).acceleration;
        assert_eq!((all.partition_by.len(), all.primary_key.len(), all.params.len()), (1, 1, 2));
        let own = "      partition_by: [id]\n      params:\n        cayenne_sort_columns: at\n";
        let own = completed(&spec(own), &set).acceleration;
        assert_eq!((own.partition_by, own.params["cayenne_sort_columns"].as_str()), (vec!["id".to_owned()], "at"));
        assert_eq!(own.primary_key, ["id"]);
    }
}

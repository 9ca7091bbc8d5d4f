//! Makes a snapshot of a table.
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, TableId},
    plan::{channels::Channels, router::Route},
    schema,
    snapshot::{
        ENGINE, FORMAT, Head, HeadEntry, SetPartition, SnapshotLocation, SnapshotSet, SnapshotStore, StoredObject,
        change::{Change, change_head},
        names,
        policy::SnapshotPolicy,
        set::sha256_hex,
    },
    spec::settings::is_of_snapshots,
};
use ancho_proto::v1::{self, executor_client::ExecutorClient};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use uuid::Uuid;

use super::{
    cleanup::{GRACE, clean},
    lease::Lease,
    metrics,
    place::{Probed, location_of},
};
use crate::{
    planner::table::still_loading,
    query::{
        assigner::propose,
        engine::existing,
        optimize::optimize,
        retry::until_served,
        write::{Writer, routes},
    },
    raft::RaftNode,
    sessions::assignments::stored_object,
    state::{ClusterState, Command, Partition, PublishedSnapshot, SnapshotPart, Table, TableName},
};

/// Partitions of a table that are uploaded at a time.
const UPLOADS: usize = 16;
/// How often what is left over of a table's snapshots is looked for.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);
/// Largest answer of an executor: the ids of many data files.
const MAX_REPLY: usize = 64 << 20;
/// Longest upload of a partition.
const UPLOAD_LIMIT: Duration = Duration::from_secs(4 * 3600);

/// Makes snapshots through one scheduler. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Publisher {
    node: RaftNode,
    channels: Channels,
    writer: Writer,
    probed: Probed,
    /// One snapshot of a table at a time in this process: its lease would not keep two of them apart. With when what is left
    /// over of the table's snapshots was last looked for.
    tables: Arc<Mutex<HashMap<TableId, Arc<tokio::sync::Mutex<Option<Instant>>>>>>,
    partition_wait: Duration,
}

/// A snapshot that holds what a table holds now.
#[derive(Debug, Clone)]
pub struct Made {
    /// The snapshot.
    pub snapshot: Arc<PublishedSnapshot>,
    /// It was made now; otherwise nothing had changed since it was made.
    pub new: bool,
}

/// What of a snapshot is in the store before its set is.
struct Parts {
    table: Arc<Table>,
    partitions: Vec<SetPartition>,
    uploaded_bytes: u64,
}

impl Publisher {
    /// Through this node and these connections; `partition_wait` is how long it waits for owners.
    #[must_use]
    pub fn new(node: RaftNode, channels: Channels, partition_wait: Duration) -> Self {
        let writer = Writer::new(node.clone(), channels.clone());
        Self { node, channels, writer, probed: Probed::default(), tables: Arc::default(), partition_wait }
    }

    /// Makes a snapshot of a table as it is now, unless the newest one already is that.
    ///
    /// # Errors
    /// `NotFound`; `Invalid` where no place is known; `Unsupported` where the table wants none, or the store cannot be trusted;
    /// `Conflict` while another scheduler makes one, or where it took over; `Unavailable` where an owner or the store does not
    /// answer. What was uploaded by then is named by no snapshot.
    pub async fn snapshot(&self, name: &TableName) -> Result<Made> {
        self.counted(name, false).await
    }

    /// As [`snapshot`](Self::snapshot), unasked: also if nothing has changed, where the table wants that.
    ///
    /// # Errors
    /// As [`snapshot`](Self::snapshot).
    pub async fn automatic(&self, name: &TableName) -> Result<Made> {
        self.counted(name, true).await
    }

    pub(super) fn node(&self) -> &RaftNode {
        &self.node
    }

    pub(super) fn probed(&self) -> &Probed {
        &self.probed
    }

    /// Whose the leases are that it takes.
    pub(super) fn holder(&self) -> String {
        format!("scheduler {}", self.node.node_id())
    }

    async fn counted(&self, name: &TableName, unasked: bool) -> Result<Made> {
        let made = self.make(name, unasked).await;
        match &made {
            Ok(made) if made.new => metrics::published(name, made.snapshot.published_ms),
            Ok(_) => {}
            Err(_) => metrics::failed(name),
        }
        made
    }

    async fn make(&self, name: &TableName, unasked: bool) -> Result<Made> {
        let state = self.node.linearizable().await?;
        let table = existing(&state, name)?;
        let own = Arc::clone(self.tables.lock().entry(table.id).or_default());
        let mut cleaned = own.lock().await;
        let state = self.node.linearizable().await?;
        let table = existing(&state, name)?;
        if table.load.is_some() {
            return Err(still_loading(&table));
        }
        let policy = SnapshotPolicy::of(&table.params, table.dataset.is_some())
            .map_err(|(option, problem)| Error::invalid(format!("table {name}: {option}: {problem}")))?;
        if !policy.creates {
            return Err(Error::unsupported(format!(
                "table {name} has no snapshots made of it; change its option `snapshots`"
            )));
        }
        let location = location_of(&state, &table)?;
        let folder = names::dataset_folder(&table.name.to_string());
        if let Some(newest) = former(&state, &table, &location, &folder)
            && newest.table_version == table.version
            && !(unasked && policy.always)
        {
            return Ok(Made { snapshot: Arc::clone(newest), new: false });
        }
        let store = self.probed.open(&location).await?;
        if policy.compacts {
            optimize(&self.writer, &state, &table).await?;
        }
        let lease = Lease::take(&self.node, table.id, &self.holder()).await?;
        let made = self.publish(&lease, table.id, &location, &folder, &store, &policy).await;
        lease.release().await;
        let snapshot = made.map_err(|e| e.context(&format!("snapshot of table {name}")))?;
        tracing::info!(
            table = %name, snapshot = %snapshot.id, version = snapshot.table_version, rows = snapshot.rows,
            bytes = snapshot.bytes, uploaded_bytes = snapshot.uploaded_bytes, place = store.place(), "published a snapshot"
        );
        if cleaned.is_none_or(|at| at.elapsed() >= CLEAN_EVERY) {
            *cleaned = Some(Instant::now());
            self.clean(name, &store, &folder, snapshot.published_ms).await;
        }
        Ok(Made { snapshot: Arc::new(snapshot), new: true })
    }

    async fn clean(&self, name: &TableName, store: &SnapshotStore, folder: &str, now_ms: u64) {
        match clean(store, folder, now_ms, GRACE).await {
            Ok((0, _)) => {}
            Ok((objects, bytes)) => {
                tracing::info!(table = %name, place = store.place(), objects, bytes, "removed what no snapshot names");
            }
            Err(error) => {
                tracing::warn!(table = %name, place = store.place(), %error, "what no snapshot names stays for now");
            }
        }
    }

    async fn publish(
        &self,
        lease: &Lease,
        id: TableId,
        location: &SnapshotLocation,
        folder: &str,
        store: &SnapshotStore,
        policy: &SnapshotPolicy,
    ) -> Result<PublishedSnapshot> {
        let snapshot_id = Uuid::now_v7();
        let uploaded = until_served(&self.node, self.partition_wait, |state, _| async move {
            Ok(self.upload(&state, id, location, folder, store).await?)
        });
        let Parts { table, partitions, mut uploaded_bytes } = Box::pin(uploaded).await?;
        let cluster_id = self.node.state().cluster_id.clone();
        let set = set_of(snapshot_id, &cluster_id, &table, partitions, lease.epoch());
        let bytes = Bytes::from(set.encode()?);
        let object = StoredObject::of(names::set(folder, snapshot_id), &bytes);
        uploaded_bytes += object.bytes;
        store.write(&object.key, bytes).await?;
        let written = store.look(&object.key).await?.filter(|found| found.bytes == object.bytes);
        // The store's clock is the same for all who publish there.
        let published_ms = written.map(|found| found.modified_ms).ok_or_else(|| {
            Error::unavailable(format!("{}: {} was written and is not there", store.place(), object.key))
        })?;
        let newest = self.node.state().snapshots.newest(id).map(|newest| newest.id);
        let before_ms = published_ms.saturating_sub(u64::try_from(policy.retention.as_millis()).unwrap_or(u64::MAX));
        let entry = HeadEntry {
            id: snapshot_id,
            engine: ENGINE.to_owned(),
            set: object.clone(),
            table_id: table.id.0,
            table_version: table.version,
            rows: set.rows,
            bytes: set.bytes,
            epoch: lease.epoch(),
            published_ms,
            schema_fingerprint: set.schema_fingerprint.clone(),
        };
        let new = Head::new(&table.name.to_string(), &cluster_id);
        let publish = |head: &mut Head| -> Result<Change> {
            if head.entry(entry.id).is_some() {
                return Ok(Change::None);
            }
            head.publish(entry.clone());
            let dropped = head.prune(before_ms, policy.min_keep, newest.as_slice());
            tracing::debug!(table = %table.name, dropped, "snapshots that are not listed any more");
            Ok(Change::Made)
        };
        let head = change_head(store, folder, lease.epoch(), &new, publish).await?;
        if let Some(pinned) = head.pinned {
            tracing::warn!(
                table = %table.name, snapshot = %snapshot_id, %pinned,
                "a snapshot was published and does not become current while another is pinned"
            );
        }
        let snapshot = PublishedSnapshot {
            id: snapshot_id,
            location: location.clone(),
            folder: folder.to_owned(),
            set: object,
            epoch: lease.epoch(),
            table_version: table.version,
            rows: set.rows,
            bytes: set.bytes,
            uploaded_bytes,
            published_ms,
            partitions: set.partitions.iter().map(part_of).collect(),
        };
        propose(&self.node, Command::RecordSnapshot { table: id, snapshot: Box::new(snapshot.clone()) }).await?;
        Ok(snapshot)
    }

    /// Has the owners upload what is new of a table as a state shows it.
    async fn upload(
        &self,
        state: &ClusterState,
        id: TableId,
        location: &SnapshotLocation,
        folder: &str,
        store: &SnapshotStore,
    ) -> Result<Parts> {
        let table = state
            .tables
            .get(&id)
            .ok_or_else(|| Error::not_found("the table was dropped or replaced while its snapshot was made"))?;
        let listed = match former(state, table, location, folder) {
            Some(newest) => partitions_of(store, &newest.set).await,
            None => HashMap::new(),
        };
        let (same, changed): (Vec<_>, Vec<_>) = table
            .partitions
            .values()
            .filter(|partition| partition.version > 0)
            .partition(|partition| listed.get(&partition.id).is_some_and(|part| part.version == partition.version));
        let mut partitions: Vec<SetPartition> =
            same.iter().filter_map(|partition| listed.get(&partition.id).cloned()).collect();
        let by_id: HashMap<PartitionId, Route> =
            routes(state, table)?.into_iter().map(|route| (route.partition, route)).collect();
        let location = serde_json::to_string(location).map_err(|e| Error::internal(e.to_string()))?;
        let calls = changed.into_iter().map(|partition| {
            let request = request(table, partition, folder, &location, listed.get(&partition.id));
            let route = by_id.get(&partition.id);
            async move {
                let route = route.ok_or_else(|| Error::internal("a partition without a route"))?;
                let uploaded = self.upload_part(route, request?).await;
                uploaded.map_err(|e| e.context(&format!("partition {} on executor {}", route.key, route.executor)))
            }
        });
        let calls: Vec<_> = calls.collect();
        let done: Vec<_> = stream::iter(calls).buffer_unordered(UPLOADS).try_collect().await?;
        let mut uploaded_bytes = 0;
        for (partition, bytes) in done {
            partitions.push(partition);
            uploaded_bytes += bytes;
        }
        partitions.sort_by_key(|partition| partition.partition);
        Ok(Parts { table: Arc::clone(table), partitions, uploaded_bytes })
    }

    async fn upload_part(&self, route: &Route, request: v1::UploadSnapshotRequest) -> Result<(SetPartition, u64)> {
        let (partition, version) = (PartitionId(request.partition_id), request.version);
        let mut call = tonic::Request::new(request);
        call.set_timeout(UPLOAD_LIMIT);
        let reply = ExecutorClient::new(self.channels.get(&route.url)?)
            .max_decoding_message_size(MAX_REPLY)
            .upload_snapshot(call)
            .await;
        let reply = reply.map_err(Error::from)?.into_inner();
        let object = reply.manifest.ok_or_else(|| Error::internal("an uploaded partition without a manifest"))?;
        let manifest = StoredObject { key: object.key, bytes: object.bytes, sha256: object.sha256 };
        let ids = reply.files.iter().map(|id| Uuid::parse_str(id));
        let files = ids.collect::<Result<_, _>>().map_err(|e| Error::internal(format!("an id of a data file: {e}")))?;
        let (key, rows, bytes) = (route.key.clone(), reply.rows, reply.bytes);
        Ok((SetPartition { partition, key, version, manifest, rows, bytes, files }, reply.uploaded_bytes))
    }
}

/// The partitions of a set that is listed. None if it cannot be had: then all are uploaded again.
async fn partitions_of(store: &SnapshotStore, set: &StoredObject) -> HashMap<PartitionId, SetPartition> {
    let read = async { SnapshotSet::decode(&store.read_checked(set).await?) };
    match read.await {
        Ok(set) => set.partitions.into_iter().map(|partition| (partition.partition, partition)).collect(),
        Err(error) => {
            tracing::warn!(key = %set.key, %error, "the newest snapshot cannot be read; the next one shares nothing with it");
            HashMap::new()
        }
    }
}

fn part_of(partition: &SetPartition) -> (PartitionId, SnapshotPart) {
    let part = SnapshotPart { version: partition.version, manifest: partition.manifest.clone() };
    (partition.partition, part)
}

/// The newest snapshot of a table, if it is where the next one goes: then they share what has not changed.
fn former<'a>(
    state: &'a ClusterState,
    table: &Table,
    location: &SnapshotLocation,
    folder: &str,
) -> Option<&'a Arc<PublishedSnapshot>> {
    state.snapshots.newest(table.id).filter(|newest| newest.location == *location && newest.folder == folder)
}

fn request(
    table: &Table,
    partition: &Partition,
    folder: &str,
    location: &str,
    former: Option<&SetPartition>,
) -> Result<v1::UploadSnapshotRequest> {
    let made_by = partition.commits.last().ok_or_else(|| Error::internal("a version that nothing made"))?;
    let place = (table.partition_spec.expressions.as_slice(), &partition.key);
    Ok(v1::UploadSnapshotRequest {
        location: location.to_owned(),
        folder: folder.to_owned(),
        partition_id: partition.id.0,
        epoch: partition.epoch,
        version: partition.version,
        version_write_id: made_by.write_id.to_string(),
        manifest_key: names::manifest(folder, &table.name.to_string(), table.id, place, now_ms(), Uuid::now_v7()),
        former_manifest: former.map(|part| stored_object(&part.manifest)),
    })
}

fn set_of(id: Uuid, cluster_id: &str, table: &Table, partitions: Vec<SetPartition>, epoch: u64) -> SnapshotSet {
    let ipc = schema::to_ipc(&table.schema.0);
    let params = table.params.iter().filter(|(name, _)| !is_of_snapshots(name));
    SnapshotSet {
        format: FORMAT,
        id,
        dataset: table.name.to_string(),
        cluster_id: cluster_id.to_owned(),
        table_id: table.id.0,
        table_version: table.version,
        epoch,
        engine: ENGINE.to_owned(),
        release: env!("CARGO_PKG_VERSION").to_owned(),
        schema: schema::to_hex(&ipc),
        schema_fingerprint: sha256_hex(&ipc),
        partition_spec: table.partition_spec.clone(),
        primary_key: table.primary_key.clone(),
        params: params.map(|(name, value)| (name.clone(), value.clone())).collect(),
        rows: partitions.iter().map(|p| p.rows).sum(),
        bytes: partitions.iter().map(|p| p.bytes).sum(),
        partitions,
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

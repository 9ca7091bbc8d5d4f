//! The sending side of a write: splits rows by partition key, finds or asks for the owner of each key, and streams each
//! part to its owner. Names of rows to delete go to the owner of the partition that the row was read from. Every row
//! and every name is counted on both sides; a difference fails the write.
use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    sync::Arc,
};

use ancho_proto::v1::{
    self, StageBatch, StageEnd, StageHeader, StageReply, StageRequest, executor_client::ExecutorClient,
    stage_request::Body,
};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array},
    compute::take_record_batch,
    datatypes::{DataType, UInt64Type},
    ipc::writer::StreamWriter,
};
use async_trait::async_trait;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_stream::wrappers::ReceiverStream;

use super::{channels::Channels, row_ids, write::WriteTarget};
use crate::{
    error::{Error, Result},
    ids::{ExecutorId, PartitionId, TableId},
    partition::{PartitionKey, Partitioner},
};

/// A partition and the executor that takes its writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Key of the partition.
    pub key: PartitionKey,
    /// Its id.
    pub partition: PartitionId,
    /// Epoch of the owner.
    pub epoch: u64,
    /// Owner.
    pub executor: ExecutorId,
    /// Where it is reached.
    pub url: String,
}

impl Route {
    /// As a message.
    #[must_use]
    pub fn to_proto(&self) -> v1::Route {
        v1::Route {
            // A list of optional strings always serialises.
            key: serde_json::to_string(&self.key).unwrap_or_default(),
            partition_id: self.partition.0,
            epoch: self.epoch,
            executor_id: self.executor.0.clone(),
            executor_url: self.url.clone(),
        }
    }

    /// From a message.
    ///
    /// # Errors
    /// The key is malformed.
    pub fn from_proto(route: &v1::Route) -> Result<Self> {
        Ok(Self {
            key: serde_json::from_str(&route.key)
                .map_err(|e| Error::internal(format!("a route has the malformed key {:?}: {e}", route.key)))?,
            partition: PartitionId(route.partition_id),
            epoch: route.epoch,
            executor: ExecutorId(route.executor_id.clone()),
            url: route.executor_url.clone(),
        })
    }
}

/// Creates partitions for keys that a write meets for the first time.
#[async_trait]
pub trait PartitionAssigner: Debug + Send + Sync {
    /// The routes of these keys, in their order; missing partitions are created and placed.
    async fn ensure(&self, table: TableId, keys: &[PartitionKey]) -> Result<Vec<Route>>;
}

/// The assigner in a session, for write nodes that run there.
#[derive(Debug, Clone)]
pub struct AssignerExtension(pub Arc<dyn PartitionAssigner>);

/// Rows of one partition are sent when they are this many …
const FLUSH_ROWS: usize = 65_536;
/// … or this large …
const FLUSH_BYTES: usize = 8 << 20;
/// … or when everything held back is this large.
const HELD_BYTES: usize = 64 << 20;
/// Batches in flight to one executor.
const IN_FLIGHT: usize = 4;

/// What a sender sent to one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentRows {
    /// Where to.
    pub route: Route,
    /// Rows to add.
    pub rows: u64,
    /// Names of rows to delete.
    pub deletes: u64,
    /// Those of the deleted rows that no new row takes the place of.
    pub removed: u64,
}

impl SentRows {
    /// Nothing so far.
    #[must_use]
    pub fn none(route: Route) -> Self {
        Self { route, rows: 0, deletes: 0, removed: 0 }
    }
}

/// What the rows of a batch are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Content {
    /// Rows to add.
    Rows,
    /// Names of rows to delete.
    Deletes,
}

#[derive(Debug, Default)]
struct Held {
    batches: Vec<RecordBatch>,
    rows: usize,
    bytes: usize,
}

struct Connection {
    sender: mpsc::Sender<StageRequest>,
    call: JoinHandle<Result<StageReply>>,
    /// Rows handed to it.
    rows: u64,
}

/// Sends the rows of one stream of a write.
pub struct RowRouter {
    target: Arc<WriteTarget>,
    partitioner: Partitioner,
    assigner: Arc<dyn PartitionAssigner>,
    channels: Channels,
    sender_id: String,
    routes: HashMap<PartitionKey, Route>,
    /// Routes of the partitions that rows were read from.
    sources: HashMap<PartitionId, Route>,
    held: HashMap<(PartitionId, Content), Held>,
    held_bytes: usize,
    sent: BTreeMap<PartitionId, SentRows>,
    connections: HashMap<ExecutorId, Connection>,
}

impl RowRouter {
    /// A router for one stream.
    ///
    /// # Errors
    /// The partition expressions do not fit the schema.
    pub fn try_new(target: Arc<WriteTarget>, assigner: Arc<dyn PartitionAssigner>, channels: Channels) -> Result<Self> {
        let partitioner = Partitioner::try_new(Arc::clone(&target.schema), &target.partition_spec)?;
        let routes = target.routes.iter().map(|r| (r.key.clone(), r.clone())).collect();
        let sources = target.routes.iter().map(|r| (r.partition, r.clone())).collect();
        Ok(Self {
            partitioner,
            assigner,
            channels,
            sender_id: uuid::Uuid::now_v7().to_string(),
            routes,
            sources,
            held: HashMap::new(),
            held_bytes: 0,
            sent: BTreeMap::new(),
            connections: HashMap::new(),
            target,
        })
    }

    /// Takes the rows of a batch. Waits while owners are slower than the source.
    ///
    /// # Errors
    /// A partition expression fails, a key has no owner, or an owner refuses rows.
    pub async fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let parts = self.partitioner.split(batch)?;
        self.ensure_routes(&parts).await?;
        for (key, rows) in parts {
            let Some(route) = self.routes.get(&key).cloned() else {
                return Err(Error::internal(format!("table {}: key {key} has no route", self.target.table)));
            };
            self.hold(route, Content::Rows, own_texts(rows)?).await?;
        }
        self.relieve().await
    }

    /// Takes names of rows to delete, as [`row_ids`] has them. `replaced`: new rows take their place.
    ///
    /// # Errors
    /// A row is of a partition that the write does not know, or an owner refuses names.
    pub async fn delete(&mut self, names: &RecordBatch, replaced: bool) -> Result<()> {
        for (partition, names) in by_partition(names)? {
            let Some(route) = self.sources.get(&partition).cloned() else {
                return Err(Error::internal(format!(
                    "table {}: a row to delete is of partition {partition}, which the write does not know",
                    self.target.table
                )));
            };
            let sent = self.sent.entry(partition).or_insert_with(|| SentRows::none(route.clone()));
            if !replaced {
                sent.removed += names.num_rows() as u64;
            }
            self.hold(route, Content::Deletes, own_texts(row_ids::in_partition(&names)?)?).await?;
        }
        self.relieve().await
    }

    async fn hold(&mut self, route: Route, content: Content, rows: RecordBatch) -> Result<()> {
        let partition = route.partition;
        let bytes = rows.get_array_memory_size();
        let held = self.held.entry((partition, content)).or_default();
        held.rows += rows.num_rows();
        held.bytes += bytes;
        held.batches.push(rows);
        let full = held.rows >= FLUSH_ROWS || held.bytes >= FLUSH_BYTES;
        self.held_bytes += bytes;
        self.sent.entry(partition).or_insert_with(|| SentRows::none(route));
        if full { self.flush(partition, content).await } else { Ok(()) }
    }

    /// Sends the largest parts until what is held back is small enough.
    async fn relieve(&mut self) -> Result<()> {
        while self.held_bytes > HELD_BYTES {
            let Some((partition, content)) = self.held.iter().max_by_key(|(_, h)| h.bytes).map(|(id, _)| *id) else {
                break;
            };
            self.flush(partition, content).await?;
        }
        Ok(())
    }

    /// Sends what is held back, ends all streams and checks that the owners received what was sent.
    ///
    /// # Errors
    /// An owner failed, or received another number of rows.
    pub async fn finish(mut self) -> Result<Vec<SentRows>> {
        let waiting: Vec<(PartitionId, Content)> = self.held.keys().copied().collect();
        for (partition, content) in waiting {
            self.flush(partition, content).await?;
        }
        let mut calls = Vec::with_capacity(self.connections.len());
        for (executor, connection) in self.connections.drain() {
            let end = StageEnd { rows: connection.rows };
            // If the call has ended already, its answer says why.
            let _ = connection.sender.send(StageRequest { body: Some(Body::End(end)) }).await;
            calls.push((executor, connection.call));
        }
        for (executor, call) in calls {
            let reply = ended(call).await?;
            let received: HashMap<u64, (u64, u64)> =
                reply.partitions.iter().map(|p| (p.partition_id, (p.rows, p.deletes))).collect();
            for sent in self.sent.values().filter(|s| s.route.executor == executor) {
                let got = received.get(&sent.route.partition.0).copied().unwrap_or_default();
                if got != (sent.rows, sent.deletes) {
                    return Err(Error::internal(format!(
                        "table {}: executor {executor} received {} rows and {} deletes of the {} and {} sent to \
                         partition {}",
                        self.target.table, got.0, got.1, sent.rows, sent.deletes, sent.route.partition
                    )));
                }
            }
        }
        Ok(std::mem::take(&mut self.sent).into_values().collect())
    }

    async fn ensure_routes(&mut self, parts: &[(PartitionKey, RecordBatch)]) -> Result<()> {
        let missing: Vec<PartitionKey> =
            parts.iter().map(|(k, _)| k).filter(|k| !self.routes.contains_key(*k)).cloned().collect();
        if missing.is_empty() {
            return Ok(());
        }
        for route in self.assigner.ensure(self.target.table_id, &missing).await? {
            self.routes.insert(route.key.clone(), route);
        }
        Ok(())
    }

    async fn flush(&mut self, partition: PartitionId, content: Content) -> Result<()> {
        let Some(held) = self.held.remove(&(partition, content)) else { return Ok(()) };
        self.held_bytes = self.held_bytes.saturating_sub(held.bytes);
        let Some(sent) = self.sent.get_mut(&partition) else {
            return Err(Error::internal(format!("partition {partition} has rows but no route")));
        };
        match content {
            Content::Rows => sent.rows += held.rows as u64,
            Content::Deletes => sent.deletes += held.rows as u64,
        }
        let route = sent.route.clone();
        for (rows, ipc) in encode(&held.batches)? {
            let batch = StageBatch {
                partition_id: partition.0,
                epoch: route.epoch,
                ipc: ipc.into(),
                deletes: content == Content::Deletes,
            };
            self.send(&route, batch, rows as u64).await?;
        }
        Ok(())
    }

    async fn send(&mut self, route: &Route, batch: StageBatch, rows: u64) -> Result<()> {
        if !self.connections.contains_key(&route.executor) {
            let connection = self.open(route).await?;
            self.connections.insert(route.executor.clone(), connection);
        }
        let Some(connection) = self.connections.get_mut(&route.executor) else {
            return Err(Error::internal(format!("executor {} has no connection", route.url)));
        };
        connection.rows += rows;
        if connection.sender.send(StageRequest { body: Some(Body::Batch(batch)) }).await.is_err() {
            // The owner ended the call early; its answer says why.
            if let Some(connection) = self.connections.remove(&route.executor) {
                ended(connection.call).await?;
            }
            return Err(Error::unavailable(format!("executor {} stopped taking rows", route.url)));
        }
        Ok(())
    }

    async fn open(&self, route: &Route) -> Result<Connection> {
        let (sender, receiver) = mpsc::channel(IN_FLIGHT);
        let mut client = ExecutorClient::new(self.channels.get(&route.url)?)
            .max_encoding_message_size(usize::MAX)
            .max_decoding_message_size(usize::MAX);
        let header = StageHeader {
            write_id: self.target.write_id.to_string(),
            sender_id: self.sender_id.clone(),
            table_id: self.target.table_id.0,
            overwrite: self.target.overwrite,
            key_rule: self.target.key_rule.number(),
            schema_version: self.target.schema_version,
        };
        let first = StageRequest { body: Some(Body::Header(header)) };
        sender.send(first).await.map_err(|_| Error::internal("a new channel is closed"))?;
        let call = tokio::spawn(async move {
            let reply = client.stage(ReceiverStream::new(receiver)).await?;
            Ok(reply.into_inner())
        });
        Ok(Connection { sender, call, rows: 0 })
    }
}

/// Names of rows by the partition that they are of.
fn by_partition(names: &RecordBatch) -> Result<Vec<(PartitionId, RecordBatch)>> {
    let malformed = || Error::internal("rows to delete come without the ids of their partitions");
    let column = names.column_by_name(row_ids::PARTITION_COLUMN).ok_or_else(malformed)?;
    let partitions = column.as_primitive_opt::<UInt64Type>().ok_or_else(malformed)?;
    let mut rows: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (row, partition) in (0..).zip(partitions.values()) {
        rows.entry(*partition).or_default().push(row);
    }
    let part = |(partition, rows): (u64, Vec<u32>)| {
        let part = if rows.len() == names.num_rows() {
            names.clone()
        } else {
            take_record_batch(names, &UInt32Array::from(rows)).map_err(|e| Error::internal(e.to_string()))?
        };
        Ok((PartitionId(partition), part))
    };
    rows.into_iter().map(part).collect()
}

/// The rows of one partition with texts of their own. Views share the texts of the whole batch, which would otherwise
/// go to every partition.
fn own_texts(batch: RecordBatch) -> Result<RecordBatch> {
    let is_view = |column: &ArrayRef| matches!(column.data_type(), DataType::Utf8View | DataType::BinaryView);
    if !batch.columns().iter().any(is_view) {
        return Ok(batch);
    }
    let columns = batch
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()) as ArrayRef,
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()) as ArrayRef,
            _ => Arc::clone(column),
        })
        .collect();
    RecordBatch::try_new(batch.schema(), columns)
        .map_err(|e| Error::internal(format!("rows cannot be made compact: {e}")))
}

async fn ended(call: JoinHandle<Result<StageReply>>) -> Result<StageReply> {
    call.await.map_err(|e| Error::internal(format!("a call that sends rows was aborted: {e}")))?
}

/// Largest encoded message; a batch above it is halved until it fits or has one row.
const MAX_MESSAGE: usize = 32 << 20;

/// Messages with their numbers of rows.
fn encode(batches: &[RecordBatch]) -> Result<Vec<(usize, Vec<u8>)>> {
    let failed = |e: arrow::error::ArrowError| Error::internal(format!("rows cannot be encoded: {e}"));
    let Some(first) = batches.first() else { return Ok(Vec::new()) };
    let mut pending = vec![arrow::compute::concat_batches(&first.schema(), batches).map_err(failed)?];
    let mut out = Vec::new();
    while let Some(batch) = pending.pop() {
        let mut bytes = Vec::with_capacity(batch.get_array_memory_size() + 1024);
        let mut writer = StreamWriter::try_new(&mut bytes, &batch.schema()).map_err(failed)?;
        writer.write(&batch).and_then(|()| writer.finish()).map_err(failed)?;
        drop(writer);
        if bytes.len() > MAX_MESSAGE && batch.num_rows() > 1 {
            let half = batch.num_rows() / 2;
            pending.push(batch.slice(half, batch.num_rows() - half));
            pending.push(batch.slice(0, half));
        } else {
            out.push((batch.num_rows(), bytes));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int64Array, StringViewArray, UInt64Array},
        datatypes::{Field, Schema},
    };

    use super::*;

    #[test]
    fn a_part_of_a_batch_takes_only_its_own_texts_along() {
        let schema =
            Schema::new(vec![Field::new("k", DataType::Int64, false), Field::new("s", DataType::Utf8View, true)]);
        let texts: StringViewArray =
            (0..1000).map(|i| (i % 3 != 0).then(|| format!("a rather long text {i}"))).collect();
        let keys = Int64Array::from_iter_values(0..1000);
        let whole = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(keys), Arc::new(texts)]).unwrap();
        let part = take_record_batch(&whole, &UInt32Array::from(vec![1, 2, 3])).unwrap();
        let own = own_texts(part.clone()).unwrap();
        assert_eq!(own, part);
        let messages = |batch| encode(std::slice::from_ref(batch)).unwrap();
        let (shared, compact) = (messages(&part), messages(&own));
        assert_eq!((compact[0].0, shared[0].0), (3, 3));
        assert!(compact[0].1.len() * 10 < shared[0].1.len(), "{} of {}", compact[0].1.len(), shared[0].1.len());
    }

    #[test]
    fn names_of_rows_go_where_the_rows_were_read() {
        let schema = Schema::new(row_ids::fields().to_vec());
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(vec![7, 3, 7, 3, 7])),
            Arc::new(StringViewArray::from(vec!["a", "b", "a", "c", "a"])),
            Arc::new(UInt64Array::from(vec![0, 0, 5, 1, 2])),
        ];
        let names = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
        let parts = by_partition(&names).unwrap();
        let rows = |batch: &RecordBatch| batch.column(2).as_primitive::<UInt64Type>().values().to_vec();
        let found: Vec<_> = parts.iter().map(|(id, batch)| (id.0, rows(batch))).collect();
        assert_eq!(found, [(3, vec![0, 1]), (7, vec![0, 5, 2])]);
        let inside = row_ids::in_partition(&parts[0].1).unwrap();
        assert_eq!(inside.schema().fields().len(), 2);
        assert!(by_partition(&inside).is_err());
    }
}

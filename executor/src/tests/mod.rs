//! Host and ingest over real directories and the real gRPC service. Where the schedulers would speak, the tests do.
mod changes;
mod copying;
mod hosting;
mod sessions;
mod upkeep;
mod writes;

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::{
    error::Error,
    ids::{PartitionId, WriteId},
    plan::host::{LocalScan, ScanHost, ScanPartition},
    schema,
};
use ancho_proto::v1::{self as proto, executor_client::ExecutorClient, stage_request::Body};
use arrow::{
    array::{Int64Array, RecordBatch, StringArray},
    datatypes::{DataType, Field, Schema, SchemaRef},
    ipc::writer::StreamWriter,
};
use datafusion::{
    execution::TaskContext,
    physical_plan::{ExecutionPlan, common},
};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use tonic::{service::Routes, transport::Channel};

use crate::{
    copy::TransferService,
    host::{Assignments, HostOptions, PartitionHost, PartitionInfo},
    identity::DataDir,
    ingest::Ingest,
    server,
    session::Lease,
};

const TABLE: u64 = 7;

fn table_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false), Field::new("s", DataType::Utf8, true)]))
}

fn rows(keys: std::ops::Range<i64>) -> RecordBatch {
    let texts: StringArray = keys.clone().map(|k| (k % 3 != 0).then(|| format!("v{k}"))).collect();
    let keys = Int64Array::from_iter_values(keys);
    RecordBatch::try_new(table_schema(), vec![Arc::new(keys), Arc::new(texts)]).unwrap()
}

fn ipc(batch: &RecordBatch) -> bytes::Bytes {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap().into()
}

fn end(rows: u64) -> proto::StageRequest {
    proto::StageRequest { body: Some(Body::End(proto::StageEnd { rows })) }
}

fn assignment(id: u64, epoch: u64, version: u64, commits: &[(u64, WriteId)]) -> proto::Assignment {
    proto::Assignment {
        partition_id: id,
        table_id: TABLE,
        table: "orders".into(),
        partition: format!("bucket {id}"),
        epoch,
        version,
        schema: schema::to_ipc(&table_schema()).into(),
        commits: commits
            .iter()
            .map(|(v, w)| proto::Commit { version: *v, write_id: w.to_string(), column_change: String::new() })
            .collect(),
        params: String::new(),
        primary_key: vec![],
        snapshot: None,
        schema_version: 0,
        ..proto::Assignment::default()
    }
}

/// Host and ingest of one start of a process, with the gRPC service on a free port.
struct Node {
    host: Arc<PartitionHost>,
    lease: Arc<Lease>,
    client: ExecutorClient<Channel>,
    ingest: Ingest,
    url: String,
    stop: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    _data_dir: DataDir,
}

impl Node {
    async fn start(dir: &Path) -> Self {
        Self::start_with_memory(dir, 0).await
    }

    async fn start_with_memory(dir: &Path, memory_bytes: u64) -> Self {
        let options = HostOptions {
            unassigned_grace: Duration::ZERO,
            assignment_wait: Duration::from_millis(500),
            version_wait: Duration::from_millis(500),
            ..HostOptions::default()
        };
        let data_dir = DataDir::open(dir).unwrap();
        let lease = Arc::new(Lease::default());
        lease.renew(Instant::now(), Duration::from_secs(600));
        let host = PartitionHost::open(&data_dir, Arc::clone(&lease), options).await.unwrap();
        let ingest = Ingest::new(Arc::clone(&host), "start-1", memory_bytes);
        let (listener, address) = server::listen(([127, 0, 0, 1], 0).into()).await.unwrap();
        let stop = CancellationToken::new();
        let transfer = TransferService::new(Arc::clone(&host)).into_server();
        let routes = Routes::new(ingest.clone().into_server()).add_service(transfer);
        let serve = server::serve(listener, routes, stop.clone());
        let serving = tokio::spawn(async move { serve.await.unwrap() });
        let url = format!("http://{address}");
        let client = ExecutorClient::connect(url.clone()).await.unwrap();
        Self { host, lease, client, ingest, url, stop, serving, _data_dir: data_dir }
    }

    /// Ends this start of the process and begins another one over the same directory.
    async fn restart(self, dir: &Path) -> Self {
        let Self { host, client, ingest, stop, serving, _data_dir, .. } = self;
        drop((client, ingest));
        stop.cancel();
        serving.await.unwrap();
        host.stop_compaction().await;
        host.close();
        drop((host, _data_dir));
        Self::start(dir).await
    }

    async fn assign(&self, index: u64, partitions: Vec<proto::Assignment>) {
        self.host.reconcile(Assignments::from_proto(&proto::Assignments { state_index: index, partitions })).await;
    }

    async fn stage(
        &self,
        write: WriteId,
        sender: &str,
        overwrite: bool,
        parts: &[(u64, u64, RecordBatch)],
    ) -> Result<BTreeMap<u64, u64>, Error> {
        self.stage_knowing(0, write, sender, overwrite, parts).await
    }

    /// Stages rows that know of so many changes of columns.
    async fn stage_knowing(
        &self,
        schema_version: u64,
        write: WriteId,
        sender: &str,
        overwrite: bool,
        parts: &[(u64, u64, RecordBatch)],
    ) -> Result<BTreeMap<u64, u64>, Error> {
        let header = proto::StageHeader {
            write_id: write.to_string(),
            sender_id: sender.into(),
            table_id: TABLE,
            overwrite,
            key_rule: 0,
            schema_version,
        };
        let mut messages = vec![proto::StageRequest { body: Some(Body::Header(header)) }];
        messages.extend(parts.iter().map(|(partition_id, epoch, batch)| proto::StageRequest {
            body: Some(Body::Batch(proto::StageBatch {
                partition_id: *partition_id,
                epoch: *epoch,
                ipc: ipc(batch),
                deletes: false,
            })),
        }));
        messages.push(end(parts.iter().map(|(_, _, batch)| batch.num_rows() as u64).sum()));
        let reply = self.client.clone().stage(futures::stream::iter(messages)).await?.into_inner();
        Ok(reply.partitions.into_iter().map(|p| (p.partition_id, p.rows)).collect())
    }

    /// Seals with (partition, epoch, expected rows).
    async fn seal(
        &self,
        write: WriteId,
        overwrite: bool,
        parts: &[(u64, u64, u64)],
    ) -> Result<Vec<proto::SealedPartition>, Error> {
        self.seal_knowing(0, write, overwrite, parts).await
    }

    async fn seal_knowing(
        &self,
        schema_version: u64,
        write: WriteId,
        overwrite: bool,
        parts: &[(u64, u64, u64)],
    ) -> Result<Vec<proto::SealedPartition>, Error> {
        let partitions = parts
            .iter()
            .map(|(partition_id, epoch, expected_rows)| proto::SealPartition {
                partition_id: *partition_id,
                epoch: *epoch,
                expected_rows: *expected_rows,
                overwrite,
                expected_deletes: 0,
                within: None,
            })
            .collect();
        let request = proto::SealRequest { write_id: write.to_string(), table_id: TABLE, partitions, schema_version };
        let reply = self.client.clone().seal(request).await?.into_inner();
        assert_eq!(reply.incarnation, "start-1");
        Ok(reply.partitions)
    }

    async fn publish(&self, write: WriteId, parts: &[(u64, u64, u64)]) -> Result<(), Error> {
        let partitions = parts
            .iter()
            .map(|(partition_id, epoch, version)| proto::PublishPartition {
                partition_id: *partition_id,
                epoch: *epoch,
                version: *version,
            })
            .collect();
        let request = proto::PublishRequest { write_id: write.to_string(), partitions };
        self.client.clone().publish(request).await?;
        Ok(())
    }

    async fn discard(&self, write: WriteId) -> Result<(), Error> {
        self.client.clone().discard(proto::DiscardRequest { write_id: write.to_string() }).await?;
        Ok(())
    }

    fn partition(&self, id: u64) -> PartitionInfo {
        self.host.partitions().into_iter().find(|p| p.partition.0 == id).unwrap()
    }

    fn loaded(&self) -> Vec<(u64, u64, u64)> {
        self.host.loaded().borrow().iter().map(|l| (l.partition.0, l.epoch, l.version)).collect()
    }

    /// Keys at a version of each partition, sorted.
    async fn keys(&self, partitions: &[(u64, u64, u64, Option<WriteId>)]) -> Result<Vec<i64>, Error> {
        let plan = self.host.scan(scan_of(partitions)).await?;
        let mut keys: Vec<i64> = collect(plan).await.iter().flat_map(keys_of).collect();
        keys.sort_unstable();
        Ok(keys)
    }
}

fn scan_of(partitions: &[(u64, u64, u64, Option<WriteId>)]) -> LocalScan {
    LocalScan {
        table: "orders".into(),
        schema: table_schema(),
        partitions: partitions
            .iter()
            .map(|(partition, epoch, version, write_id)| ScanPartition {
                partition: PartitionId(*partition),
                epoch: *epoch,
                version: *version,
                write_id: *write_id,
                staged: None,
            })
            .collect(),
        projection: None,
        predicates: vec![],
        limit: None,
        streams: 3,
        stream_of: None,
    }
}

fn keys_of(batch: &RecordBatch) -> Vec<i64> {
    let column = batch.column_by_name("k").unwrap();
    column.as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec()
}

async fn collect_stream(plan: &Arc<dyn ExecutionPlan>, stream: usize) -> Vec<RecordBatch> {
    common::collect(plan.execute(stream, Arc::new(TaskContext::default())).unwrap()).await.unwrap()
}

async fn collect(plan: Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
    use datafusion::physical_plan::ExecutionPlanProperties;
    let streams = plan.output_partitioning().partition_count();
    let all = futures::stream::iter(0..streams).then(|stream| collect_stream(&plan, stream));
    all.collect::<Vec<_>>().await.concat()
}

async fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !look() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

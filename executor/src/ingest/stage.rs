//! `Stage`: the rows of one sender.
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, TableId},
    plan::changes::KeyRule,
};
use ancho_proto::v1::{self as proto, stage_request::Body};
use tonic::Streaming;

use super::{
    Ingest, decode,
    feed::{Feed, FeedSender},
    open_write::{OpenWrite, Received, WriteScope},
    write_id,
};

/// Where rows of one partition go, found once per stream.
struct Route {
    epoch: u64,
    feed: FeedSender,
    received: Received,
}

impl Ingest {
    pub(super) async fn stage_stream(&self, mut inbound: Streaming<proto::StageRequest>) -> Result<proto::StageReply> {
        let header = match inbound.message().await?.and_then(|m| m.body) {
            Some(Body::Header(header)) => header,
            _ => return Err(Error::invalid("the first message of a stage must be its header")),
        };
        self.host.check_lease()?;
        let key_rule = KeyRule::from_number(header.key_rule)?;
        let scope = WriteScope {
            table: TableId(header.table_id),
            schema_version: header.schema_version,
            overwrite: header.overwrite,
        };
        let write = self.registry.open(write_id(&header.write_id)?, scope, key_rule)?;
        let stream = write.enter(&header.sender_id);
        match self.receive(&write, &header.sender_id, &mut inbound).await {
            Ok(reply) => {
                stream.complete();
                Ok(reply)
            }
            Err(error) => {
                let error = match error.condition {
                    // The rows are at fault, whoever sent them.
                    Some(_) => error,
                    None => error.context(&format!("rows of sender {}", header.sender_id)),
                };
                stream.fail(error.clone());
                Err(error)
            }
        }
    }

    async fn receive(
        &self,
        write: &Arc<OpenWrite>,
        sender: &str,
        inbound: &mut Streaming<proto::StageRequest>,
    ) -> Result<proto::StageReply> {
        let mut routes: HashMap<PartitionId, Route> = HashMap::new();
        loop {
            let message = tokio::select! {
                () = write.cancel.cancelled() => return Err(fault_of(write)),
                message = inbound.message() => message?,
            };
            match message.map(|m| m.body) {
                Some(Some(Body::Batch(batch))) => self.take_in(write, sender, &mut routes, batch).await?,
                Some(Some(Body::End(end))) => {
                    check_end(&routes, end, inbound.message().await?)?;
                    break;
                }
                Some(_) => return Err(Error::invalid("after the header only batches and the end may follow")),
                // A sender that is cancelled closes its stream as properly as one that is done.
                None => {
                    return Err(Error::unavailable("the stream stopped before its end mark; start the write again"));
                }
            }
        }
        write.check()?;
        let received: BTreeMap<PartitionId, Received> =
            routes.into_iter().map(|(id, route)| (id, route.received)).collect();
        let partitions = received
            .into_iter()
            .map(|(id, Received { rows, deletes })| proto::StagedRows { partition_id: id.0, rows, deletes })
            .collect();
        Ok(proto::StageReply { partitions })
    }

    async fn take_in(
        &self,
        write: &Arc<OpenWrite>,
        sender: &str,
        routes: &mut HashMap<PartitionId, Route>,
        batch: proto::StageBatch,
    ) -> Result<()> {
        let partition = PartitionId(batch.partition_id);
        let route = match routes.entry(partition) {
            std::collections::hash_map::Entry::Occupied(known) if known.get().epoch == batch.epoch => {
                self.host.check_held(partition, batch.epoch)?;
                known.into_mut()
            }
            entry => {
                let feed = self.feed(write, partition, batch.epoch).await?;
                entry.insert_entry(Route { epoch: batch.epoch, feed, received: Received::default() }).into_mut()
            }
        };
        let message_bytes = batch.ipc.len();
        let batches = decode::batches(batch.ipc).await?;
        // Buffers of the batches are parts of the message.
        let bytes = message_bytes / batches.len().max(1);
        for rows in batches {
            let count = rows.num_rows() as u64;
            if count == 0 {
                continue;
            }
            let (taken, received) = if batch.deletes {
                (route.feed.delete(rows).await, Received { rows: 0, deletes: count })
            } else {
                (route.feed.send(rows, bytes).await, Received { rows: count, deletes: 0 })
            };
            if !taken {
                return Err(fault_of(write));
            }
            write.count(partition, sender, received);
            route.received.add(received);
        }
        Ok(())
    }

    /// Where rows of a partition of this write go, once it is here under that epoch.
    pub(super) async fn feed(&self, write: &Arc<OpenWrite>, partition: PartitionId, epoch: u64) -> Result<FeedSender> {
        let (assignment, stored) = self.host.writable(partition, epoch, Some(write.scope.schema_version)).await?;
        if assignment.table_id != write.scope.table {
            return Err(Error::invalid(format!(
                "{} belongs to table id {}, write {} is for table id {}",
                assignment.place(),
                assignment.table_id,
                write.id,
                write.scope.table
            )));
        }
        write.feed(partition, epoch, &assignment.place(), assignment.write_options, |write, form| {
            Feed::start(write, stored, form, &self.encoders)
        })
    }
}

/// The end must be the last message and name as many rows as came.
fn check_end(
    routes: &HashMap<PartitionId, Route>,
    end: proto::StageEnd,
    next: Option<proto::StageRequest>,
) -> Result<()> {
    if next.is_some() {
        return Err(Error::invalid("after the end nothing may follow"));
    }
    let held: u64 = routes.values().map(|route| route.received.rows + route.received.deletes).sum();
    if held == end.rows {
        return Ok(());
    }
    Err(Error::internal(format!("{held} rows arrived of the {} that were sent; start the write again", end.rows)))
}

fn fault_of(write: &OpenWrite) -> Error {
    write.check().err().unwrap_or_else(|| Error::internal(format!("write {} lost its writer", write.id)))
}

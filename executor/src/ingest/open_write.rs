//! One write in progress: its senders, its parts, and the first thing that went wrong with it.
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::{
    error::{Error, Result},
    ids::{PartitionId, TableId, WriteId},
    plan::changes::KeyRule,
};
use ancho_proto::v1 as proto;
use cayenne::{WriteMode, WriteOptions};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::feed::{Feed, FeedSender};

/// What all requests of a write say alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WriteScope {
    pub(super) table: TableId,
    /// How often the table's columns had changed when the rows were made.
    pub(super) schema_version: u64,
    pub(super) overwrite: bool,
}

/// A write as far as this executor has a part in it.
#[derive(Debug)]
pub(super) struct OpenWrite {
    pub(super) id: WriteId,
    pub(super) scope: WriteScope,
    /// Which row of a key stays.
    pub(super) key_rule: KeyRule,
    /// Tells writers and receivers that the write is over.
    pub(super) cancel: CancellationToken,
    /// Held while parts are being sealed or taken apart.
    pub(super) sealing: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    poison: Option<Error>,
    /// Streams in progress by sender.
    receiving: BTreeMap<String, usize>,
    touched: Instant,
    parts: BTreeMap<PartitionId, Part>,
}

#[derive(Debug)]
struct Part {
    epoch: u64,
    place: String,
    received: BTreeMap<String, Received>,
    feed: Option<Feed>,
    sealed: Option<proto::SealedPartition>,
}

/// What came of a sender, or is held of a part: rows to add, and names of rows to delete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Received {
    pub(super) rows: u64,
    pub(super) deletes: u64,
}

impl Received {
    pub(super) fn add(&mut self, other: Self) {
        self.rows += other.rows;
        self.deletes += other.deletes;
    }
}

/// How a part of a write is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct WriteForm {
    pub(super) id: WriteId,
    pub(super) mode: WriteMode,
    pub(super) options: WriteOptions,
}

/// What sealing takes out of a part.
pub(super) enum SealStep {
    /// It was sealed before, with this answer.
    Already(proto::SealedPartition),
    /// The writer, to be finished, and the rows that went into it.
    Finish {
        /// The writer.
        feed: Feed,
        /// What all senders sent.
        received: Received,
    },
}

impl Part {
    fn received(&self) -> Received {
        self.received.values().fold(Received::default(), |mut all, one| {
            all.add(*one);
            all
        })
    }
}

impl OpenWrite {
    pub(super) fn new(id: WriteId, scope: WriteScope, key_rule: KeyRule) -> Self {
        Self {
            id,
            scope,
            key_rule,
            cancel: CancellationToken::new(),
            sealing: tokio::sync::Mutex::new(()),
            state: Mutex::new(State {
                poison: None,
                receiving: BTreeMap::new(),
                touched: Instant::now(),
                parts: BTreeMap::new(),
            }),
        }
    }

    /// The first fault stays; later ones follow from it.
    pub(super) fn poison(&self, error: Error) {
        let mut state = self.state.lock();
        state.touched = Instant::now();
        state.poison.get_or_insert(error);
    }

    pub(super) fn check(&self) -> Result<()> {
        self.state.lock().poison.clone().map_or(Ok(()), Err)
    }

    /// A sender's stream begins. Until it is completed, its end is a fault of the write.
    pub(super) fn enter(self: &Arc<Self>, sender: &str) -> SenderStream {
        let mut state = self.state.lock();
        state.touched = Instant::now();
        *state.receiving.entry(sender.to_owned()).or_default() += 1;
        SenderStream { write: Arc::clone(self), sender: sender.to_owned(), fault: Some(None) }
    }

    pub(super) fn is_receiving(&self) -> bool {
        !self.state.lock().receiving.is_empty()
    }

    /// Poisons it if it is not sealed and nobody has done anything with it for `idle`. Looking and poisoning are one
    /// step: a seal that comes at the same time either is seen here or sees the poison.
    pub(super) fn give_up(&self, idle: Duration) -> bool {
        let mut state = self.state.lock();
        let open = state.parts.is_empty() || state.parts.values().any(|p| p.sealed.is_none());
        let over = open && state.receiving.is_empty() && state.touched.elapsed() > idle;
        if over {
            let error = Error::conflict(format!("write {} was given up: nobody went on with it", self.id));
            state.poison.get_or_insert(error);
        }
        over
    }

    /// Sealed, and nobody has done anything with it for `idle`.
    pub(super) fn is_settled(&self, idle: Duration) -> bool {
        let state = self.state.lock();
        state.parts.values().all(|p| p.sealed.is_some()) && state.touched.elapsed() > idle
    }

    /// Where rows of a partition go; the writer is made by `start` with the first ones.
    pub(super) fn feed(
        self: &Arc<Self>,
        partition: PartitionId,
        epoch: u64,
        place: &str,
        options: WriteOptions,
        start: impl FnOnce(&Arc<Self>, WriteForm) -> Feed,
    ) -> Result<FeedSender> {
        let mut state = self.state.lock();
        if let Some(poison) = &state.poison {
            return Err(poison.clone());
        }
        state.touched = Instant::now();
        let mode = if self.scope.overwrite { WriteMode::Overwrite } else { WriteMode::Append };
        let key_rule = match self.key_rule {
            KeyRule::LastArrival => Some(cayenne::KeyRule::LastArrival),
            KeyRule::Newest => None,
            KeyRule::Unique => Some(cayenne::KeyRule::Unique),
        };
        let form = WriteForm { id: self.id, mode, options: WriteOptions { key_rule, ..options } };
        let part = state.parts.entry(partition).or_insert_with(|| Part {
            epoch,
            place: place.to_owned(),
            received: BTreeMap::new(),
            feed: Some(start(self, form)),
            sealed: None,
        });
        if part.epoch != epoch {
            return Err(Error::stale_route(format!(
                "{place}: write {} began under epoch {}, rows came under epoch {epoch}; start the statement again",
                self.id, part.epoch
            )));
        }
        let feed = part
            .feed
            .as_ref()
            .ok_or_else(|| Error::conflict(format!("{place}: write {} is sealed and takes no more rows", self.id)))?;
        Ok(feed.sender())
    }

    /// Rows of a sender, or names of rows, went into a partition's writer.
    pub(super) fn count(&self, partition: PartitionId, sender: &str, more: Received) {
        let mut state = self.state.lock();
        state.touched = Instant::now();
        if let Some(part) = state.parts.get_mut(&partition) {
            part.received.entry(sender.to_owned()).or_default().add(more);
        }
    }

    /// Refuses to seal what is not complete: a fault, senders still connected, or partitions with rows that the request
    /// leaves out.
    pub(super) fn check_sealable(&self, named: &[PartitionId]) -> Result<()> {
        self.check()?;
        let state = self.state.lock();
        if let Some(sender) = state.receiving.keys().next() {
            return Err(Error::conflict(format!("write {}: sender {sender} is still sending rows", self.id)));
        }
        for (id, part) in &state.parts {
            if part.sealed.is_none() && !named.contains(id) {
                let Received { rows, deletes } = part.received();
                return Err(Error::internal(format!(
                    "{}: write {} has {rows} rows and {deletes} deletes here and the seal leaves the partition out",
                    part.place, self.id
                )));
            }
        }
        Ok(())
    }

    /// Takes the writer of a part. Under the sealing lock.
    pub(super) fn take_for_seal(&self, partition: PartitionId, epoch: u64) -> Result<Option<SealStep>> {
        let mut state = self.state.lock();
        if let Some(poison) = &state.poison {
            return Err(poison.clone());
        }
        state.touched = Instant::now();
        let Some(part) = state.parts.get_mut(&partition) else { return Ok(None) };
        if part.epoch != epoch {
            return Err(Error::stale_route(format!(
                "{}: write {} was staged under epoch {}, the seal names epoch {epoch}",
                part.place, self.id, part.epoch
            )));
        }
        if let Some(sealed) = &part.sealed {
            return Ok(Some(SealStep::Already(sealed.clone())));
        }
        let received = part.received();
        match part.feed.take() {
            Some(feed) => Ok(Some(SealStep::Finish { feed, received })),
            None => Err(Error::internal(format!("{}: write {} lost its writer", part.place, self.id))),
        }
    }

    pub(super) fn sealed(&self, partition: PartitionId, answer: proto::SealedPartition) {
        let mut state = self.state.lock();
        state.touched = Instant::now();
        if let Some(part) = state.parts.get_mut(&partition) {
            part.sealed = Some(answer);
        }
    }

    /// Ends it: receivers fail with `error`, writers stop and remove their files. Returns when they have.
    pub(super) async fn abort(&self, error: Error) {
        self.poison(error);
        self.cancel.cancel();
        let _sealing = self.sealing.lock().await;
        let feeds: Vec<Feed> = self.state.lock().parts.values_mut().filter_map(|part| part.feed.take()).collect();
        for feed in feeds {
            feed.stopped().await;
        }
    }
}

/// One stream of one sender. Dropped before it is completed, it poisons the write: rows may be missing.
pub(super) struct SenderStream {
    write: Arc<OpenWrite>,
    sender: String,
    /// `None` once completed; inside, the fault if it is known.
    fault: Option<Option<Error>>,
}

impl SenderStream {
    /// All rows arrived.
    pub(super) fn complete(mut self) {
        self.fault = None;
    }

    /// It ended for this reason.
    pub(super) fn fail(mut self, error: Error) {
        self.fault = Some(Some(error));
    }
}

impl Drop for SenderStream {
    fn drop(&mut self) {
        if let Some(fault) = self.fault.take() {
            let id = self.write.id;
            self.write.poison(fault.unwrap_or_else(|| {
                Error::unavailable(format!("write {id}: sender {} went away before its end", self.sender))
            }));
        }
        let mut state = self.write.state.lock();
        state.touched = Instant::now();
        if let Some(streams) = state.receiving.get_mut(&self.sender) {
            *streams -= 1;
            if *streams == 0 {
                state.receiving.remove(&self.sender);
            }
        }
    }
}

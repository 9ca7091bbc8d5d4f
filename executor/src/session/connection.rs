//! One connection of the session, from connecting to its end.
use std::{
    collections::BTreeSet,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use ancho_common::error::Error as CommonError;
use ancho_proto::v1::{
    self as proto, scheduler_client::SchedulerClient, session_down::Body as Down, session_up::Body as Up,
};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, timeout},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Streaming, transport::Endpoint};
use tracing::{debug, warn};

use super::{Session, Unacknowledged};
use crate::{copy::CopyReport, error::Error, host::HinderedPartition};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Registration is a Raft commit; a leader that cannot commit within this is no leader.
const WELCOME_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a leader may take to write that this executor has stopped.
const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(4);
/// Assignments of tens of thousands of partitions, each with its schema.
const MAX_MESSAGE: usize = 256 << 20;

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    Stopping,
    NotLeader(String),
    Lost(String),
    Refused(Error),
}

impl Ended {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::Refused(error) => error,
            other => Error::Stopped(other.to_string()),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopping => f.write_str("the executor is stopping"),
            Self::NotLeader(leader) if leader.is_empty() => f.write_str("not the leader, and no leader is known there"),
            Self::NotLeader(leader) => write!(f, "not the leader, which is {leader}"),
            Self::Lost(reason) => f.write_str(reason),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

fn lost(what: &str, error: impl Into<CommonError>) -> Ended {
    Ended::Lost(format!("{what}: {}", error.into().message))
}

/// A session that the leader has welcomed.
struct Opened {
    inbound: Streaming<proto::SessionDown>,
    beats: Beats,
    ttl: Duration,
}

/// What is sent during one connection.
struct Beats {
    outbound: mpsc::Sender<proto::SessionUp>,
    sequence: u64,
    unacknowledged: Unacknowledged,
    /// Served pairs and hindrances of the last beat.
    reported: Option<(BTreeSet<(u64, u64)>, Arc<Vec<HinderedPartition>>)>,
}

impl Session {
    pub(super) async fn connect_and_hold(&mut self, url: &str) -> Ended {
        let mut stop = self.stop.clone();
        let opened = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return Ended::Stopping,
            opened = self.open(url) => opened,
        };
        let Opened { mut inbound, mut beats, ttl } = match opened {
            Ok(opened) => opened,
            Err(ended) => return ended,
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => {}
            ended = self.exchange(&mut inbound, &mut beats, ttl) => return ended,
        }
        self.take_leave(inbound, beats).await;
        Ended::Stopping
    }

    async fn open(&mut self, url: &str) -> Result<Opened, Ended> {
        let (outbound, receiver) = mpsc::channel(64);
        let sent = Instant::now();
        let hello = proto::SessionUp { body: Some(Up::Hello(self.hello.clone())) };
        if outbound.try_send(hello).is_err() {
            return Err(Ended::Lost("the outgoing queue is closed".into()));
        }
        let mut inbound = open(url, receiver).await?;
        let welcome = timeout(WELCOME_TIMEOUT, first_welcome(&mut inbound))
            .await
            .unwrap_or_else(|_| Err(Ended::Lost("no welcome came in time".into())))?;
        let ttl = self.welcomed(url, &welcome, sent).map_err(Ended::Refused)?;
        let beats = Beats { outbound, sequence: 0, unacknowledged: Unacknowledged::default(), reported: None };
        Ok(Opened { inbound, beats, ttl })
    }

    /// Gives up the right to serve and says so, that nobody waits for the lease to run out. A leader that does not hear
    /// it waits all the same.
    async fn take_leave(&self, mut inbound: Streaming<proto::SessionDown>, beats: Beats) {
        self.links.lease.end();
        let goodbye = proto::SessionUp { body: Some(Up::Goodbye(proto::Goodbye {})) };
        let left = async {
            beats.outbound.send(goodbye).await.ok()?;
            // The leader ends the session when it has written that; what else it says does not matter any more.
            while let Ok(Some(_)) = inbound.message().await {}
            Some(())
        };
        if !matches!(timeout(GOODBYE_TIMEOUT, left).await, Ok(Some(()))) {
            warn!("the scheduler did not hear that this executor stops; it will find out by its silence");
        }
    }

    async fn exchange(
        &mut self,
        inbound: &mut Streaming<proto::SessionDown>,
        beats: &mut Beats,
        ttl: Duration,
    ) -> Ended {
        let mut ticker = tokio::time::interval(ttl / 5);
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // A leader that stays silent for half the TTL is left while there is time to find another one.
        let patience = ttl / 2;
        let mut loaded = self.links.loaded.clone();
        let mut hindered = self.links.hindered.clone();
        let mut copies = self.links.copies.changes();
        loop {
            let silent_for = beats.unacknowledged.oldest().map(|at| at.elapsed());
            if silent_for.is_some_and(|silent| silent > patience) {
                return Ended::Lost("beats are not acknowledged".into());
            }
            tokio::select! {
                message = inbound.message() => match message {
                    Ok(Some(message)) => {
                        if let Some(ended) = self.receive(message, beats, ttl) {
                            return ended;
                        }
                    }
                    Ok(None) => return Ended::Lost("the scheduler closed the session".into()),
                    Err(status) => return lost("the session broke", status),
                },
                _ = ticker.tick() => {
                    if let Some(ended) = self.beat(beats, true) {
                        return ended;
                    }
                }
                changed = loaded.changed() => {
                    if changed.is_err() {
                        return Ended::Stopping;
                    }
                    if let Some(ended) = self.beat(beats, false) {
                        return ended;
                    }
                }
                changed = hindered.changed() => {
                    if changed.is_err() {
                        return Ended::Stopping;
                    }
                    if let Some(ended) = self.beat(beats, false) {
                        return ended;
                    }
                }
                changed = copies.changed() => {
                    if changed.is_err() {
                        return Ended::Stopping;
                    }
                    if let Some(ended) = self.beat(beats, true) {
                        return ended;
                    }
                }
            }
        }
    }

    fn receive(&self, message: proto::SessionDown, beats: &mut Beats, ttl: Duration) -> Option<Ended> {
        match message.body {
            Some(Down::Ack(ack)) => {
                if let Some(sent) = beats.unacknowledged.acknowledged(ack.sequence) {
                    self.links.lease.renew(sent, ttl);
                }
                None
            }
            Some(Down::Assignments(assignments)) => {
                debug!(
                    index = assignments.state_index,
                    partitions = assignments.partitions.len(),
                    "assignments received"
                );
                self.links.assignments.send_replace(Some(Arc::new(assignments)));
                None
            }
            Some(Down::NotLeader(other)) => Some(Ended::NotLeader(other.leader_url)),
            Some(Down::Refused(reason)) => Some(Ended::Refused(Error::Refused(reason))),
            // A second welcome or a message of a newer release changes nothing here.
            Some(Down::Welcome(_)) | None => None,
        }
    }

    /// Sends a beat: always when `due`, otherwise only if the served (partition, epoch) pairs or the hindrances changed.
    fn beat(&self, beats: &mut Beats, due: bool) -> Option<Ended> {
        let loaded = Arc::clone(&self.links.loaded.borrow());
        let pairs: BTreeSet<(u64, u64)> = loaded.iter().map(|l| (l.partition.0, l.epoch)).collect();
        let hindered = Arc::clone(&self.links.hindered.borrow());
        let report = (pairs, hindered);
        if !due && beats.reported.as_ref() == Some(&report) {
            return None;
        }
        let (disk_used_bytes, disk_free_bytes) = self.links.disk.get();
        beats.sequence += 1;
        let beat = proto::Beat {
            sequence: beats.sequence,
            loaded: loaded
                .iter()
                .map(|l| proto::Loaded { partition_id: l.partition.0, epoch: l.epoch, version: l.version })
                .collect(),
            disk_used_bytes,
            disk_free_bytes,
            hindered: report
                .1
                .iter()
                .map(|h| proto::Hindrance { partition_id: h.partition.0, epoch: h.epoch, reason: h.reason.clone() })
                .collect(),
            copies: self.links.copies.reports().into_iter().map(copied).collect(),
        };
        beats.unacknowledged.sent(beats.sequence, Instant::now());
        beats.reported = Some(report);
        let message = proto::SessionUp { body: Some(Up::Beat(beat)) };
        beats.outbound.try_send(message).is_err().then(|| Ended::Lost("beats cannot be sent".into()))
    }
}

fn copied(report: CopyReport) -> proto::Copied {
    proto::Copied {
        partition_id: report.partition.0,
        epoch: report.epoch,
        version: report.version,
        rounds: report.rounds,
        done_bytes: report.bytes.0,
        total_bytes: report.bytes.1,
        fetched_bytes: report.fetched,
        fault: report.fault,
    }
}

async fn open(url: &str, outbound: mpsc::Receiver<proto::SessionUp>) -> Result<Streaming<proto::SessionDown>, Ended> {
    let endpoint = Endpoint::from_shared(url.to_owned())
        .map_err(|e| lost("the address is not a URL", e))?
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
        .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
        .keep_alive_while_idle(true);
    let channel = match timeout(CONNECT_TIMEOUT * 2, endpoint.connect()).await {
        Err(_) => return Err(Ended::Lost("connecting took too long".into())),
        Ok(Err(error)) => return Err(lost("cannot connect", error)),
        Ok(Ok(channel)) => channel,
    };
    let mut client = SchedulerClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
    match timeout(WELCOME_TIMEOUT, client.session(ReceiverStream::new(outbound))).await {
        Err(_) => Err(Ended::Lost("opening the session took too long".into())),
        Ok(Err(status)) => Err(lost("cannot open a session", status)),
        Ok(Ok(response)) => Ok(response.into_inner()),
    }
}

async fn first_welcome(inbound: &mut Streaming<proto::SessionDown>) -> Result<proto::Welcome, Ended> {
    match inbound.message().await {
        Ok(Some(message)) => match message.body {
            Some(Down::Welcome(welcome)) => Ok(welcome),
            Some(Down::NotLeader(other)) => Err(Ended::NotLeader(other.leader_url)),
            Some(Down::Refused(reason)) => Err(Ended::Refused(Error::Refused(reason))),
            _ => Err(Ended::Lost("the first message was no welcome".into())),
        },
        Ok(None) => Err(Ended::Lost("the scheduler closed the session at once".into())),
        Err(status) => Err(lost("the session broke", status)),
    }
}

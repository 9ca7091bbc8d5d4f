//! The session with the leading scheduler: who this executor is and what it can serve upwards, what it is to hold
//! downwards.
//!
//! It runs on a thread and a runtime of its own, because a machine whose cores are all busy with queries must not look
//! dead. Whatever takes time (opening, publishing, removing partitions) happens elsewhere; this thread only hands
//! messages on.
//!
//! ```text
//!   connect ─► Hello ─► Welcome ─► Assignments … ─┐
//!      ▲                  │  Beat ──────► Ack     │  lease = time of sending + TTL
//!      └── lost, silent, not the leader ◄─────────┘
//! ```
mod connection;
mod lease;
mod unacknowledged;
mod urls;

use std::{
    sync::{Arc, atomic::AtomicU64, atomic::Ordering},
    time::Duration,
};

use ancho_proto::v1 as proto;
use tokio::sync::watch;
use tracing::{info, warn};

pub use self::{lease::Lease, unacknowledged::Unacknowledged};

use self::{connection::Ended, urls::SchedulerUrls};
use crate::{
    copy::Copies,
    error::{Error, Result},
    host::{HinderedPartition, LoadedPartition},
    identity::DataDir,
};

/// What the rest of the process shares with its session.
#[derive(Debug, Clone)]
pub(crate) struct SessionLinks {
    /// Renewed by acknowledged beats.
    pub(crate) lease: Arc<Lease>,
    /// What can be served now.
    pub(crate) loaded: watch::Receiver<Arc<Vec<LoadedPartition>>>,
    /// What is assigned and cannot be served.
    pub(crate) hindered: watch::Receiver<Arc<Vec<HinderedPartition>>>,
    /// What is being copied from other executors.
    pub(crate) copies: Copies,
    /// The newest assignments. Each message is the whole set, so only the last one matters.
    pub(crate) assignments: watch::Sender<Option<Arc<proto::Assignments>>>,
    /// How the session stands, for people and tests.
    pub(crate) status: watch::Sender<SessionStatus>,
    /// Sizes that ride on beats.
    pub(crate) disk: Arc<DiskGauge>,
}

/// Bytes on the disk of the data directory, measured elsewhere: asking a sick disk can hang.
#[derive(Debug, Default)]
pub(crate) struct DiskGauge {
    used: AtomicU64,
    free: AtomicU64,
}

impl DiskGauge {
    pub(crate) fn set(&self, used: u64, free: u64) {
        self.used.store(used, Ordering::Relaxed);
        self.free.store(free, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> (u64, u64) {
        (self.used.load(Ordering::Relaxed), self.free.load(Ordering::Relaxed))
    }
}

/// How the session stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionStatus {
    /// The leader it is held with; `None` while it is looked for.
    pub scheduler: Option<String>,
    /// Why the last attempt ended, if one did since the last success.
    pub last_error: Option<String>,
}

/// The session's own thread.
pub(crate) struct Session {
    data_dir: Arc<DataDir>,
    hello: proto::Hello,
    urls: SchedulerUrls,
    links: SessionLinks,
    stop: watch::Receiver<bool>,
}

impl Session {
    /// Starts the thread. The result arrives when the session ends: cleanly after `stop`, or with what forbids this
    /// executor to go on.
    pub(crate) fn spawn(
        data_dir: Arc<DataDir>,
        hello: proto::Hello,
        scheduler_urls: Vec<String>,
        links: SessionLinks,
        stop: watch::Receiver<bool>,
    ) -> Result<tokio::sync::oneshot::Receiver<Result<()>>> {
        if scheduler_urls.is_empty() {
            return Err(Error::Options("at least one scheduler address is needed".into()));
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::io("creating the session's runtime for", data_dir.path()))?;
        let (done, ended) = tokio::sync::oneshot::channel();
        let dir = data_dir.path().to_owned();
        let session = Self { data_dir, hello, urls: SchedulerUrls::new(scheduler_urls), links, stop };
        std::thread::Builder::new()
            .name("ancho-session".into())
            .spawn(move || {
                let lease = Arc::clone(&session.links.lease);
                let result = runtime.block_on(session.run());
                lease.end();
                // Nobody listens any more only when the whole executor is gone.
                let _ = done.send(result);
            })
            .map_err(Error::io("starting the session's thread for", &dir))?;
        Ok(ended)
    }

    async fn run(mut self) -> Result<()> {
        while !*self.stop.borrow() {
            let url = self.urls.pick();
            let ended = self.connect_and_hold(&url).await;
            let pause = match &ended {
                Ended::Stopping => return Ok(()),
                Ended::Refused(error) => {
                    self.report(None, Some(error.to_string()));
                    return Err(ended.into_error());
                }
                Ended::NotLeader(leader) if self.urls.redirect(leader) => Duration::ZERO,
                Ended::NotLeader(_) | Ended::Lost(_) => self.urls.pause(rand::random()),
            };
            let reason = format!("{url}: {ended}");
            if self.links.status.borrow().scheduler.is_some() {
                warn!(scheduler = %url, reason = %ended, "session with the scheduler ended");
            }
            self.report(None, Some(reason));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = self.stop.wait_for(|stop| *stop) => return Ok(()),
            }
        }
        Ok(())
    }

    fn report(&self, scheduler: Option<String>, last_error: Option<String>) {
        self.links.status.send_if_modified(|status| {
            let next = SessionStatus { scheduler, last_error };
            let changed = *status != next;
            *status = next;
            changed
        });
    }

    /// The leader took this executor in: remember the cluster, the members, and the lease from the Hello on.
    fn welcomed(&mut self, url: &str, welcome: &proto::Welcome, sent: std::time::Instant) -> Result<Duration> {
        if welcome.cluster_id.is_empty() || welcome.ttl_millis == 0 {
            return Err(Error::Refused(format!("scheduler {url} sent a welcome without cluster id or TTL")));
        }
        self.data_dir.join(&welcome.cluster_id)?;
        self.hello.cluster_id.clone_from(&welcome.cluster_id);
        self.urls.learn(&welcome.scheduler_urls);
        self.urls.welcomed();
        let ttl = Duration::from_millis(welcome.ttl_millis);
        self.links.lease.renew(sent, ttl);
        self.report(Some(url.to_owned()), None);
        info!(scheduler = %url, cluster = %welcome.cluster_id, ttl_ms = welcome.ttl_millis, "session with the scheduler");
        Ok(ttl)
    }
}

//! Sessions of executors: who is alive, upwards; what to hold, downwards.
//!
//! ```text
//!   executor                         leader
//!     Hello ───────────────────────►  RegisterExecutor through the log
//!         ◄──────────────────────── Welcome (length of the session), Assignments
//!     Beat (what is loaded) ───────►  renewed; ReportLoaded through the log if it changed
//!         ◄──────────────────────── Ack, once a majority confirms that this is still the leader
//!         ◄──────────────────────── Assignments, whenever they change
//!     … silence …                     ExecutorDown through the log, a session's length and a margin later
//! ```
//!
//! Only the leader keeps sessions; a follower names the leader and hangs up. A session belongs to one term: when the
//! leader loses its office, all its sessions end and the executors turn to the next leader, which waits a full session
//! before it gives anyone up. An acknowledgement lets an executor serve on, so it is given only by a leader that a
//! majority confirms after the beat arrived: a leader that is cut off cannot keep executors serving.
//!
//! [`SessionManager::run`] also drives the background duties: the leader marks silent executors down, places
//! partitions that have no owner ([`crate::placement`]), moves others and gives up loads of tables that nobody carries on,
//! every scheduler checks its state's invariants.
//!
//! What is decided here stands in modules without clock and I/O, which the simulation of the control plane runs, too:
//! [`ledger`], [`claims`], [`assignments`], [`loads`], [`moving`], [`absence`].
pub mod absence;
pub mod assignments;
mod background;
pub mod claims;
pub mod ledger;
pub mod loads;
pub mod moving;
mod session;
pub mod wait;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use ancho_common::ids::RequestId;
use ancho_proto::v1::SessionUp;
use async_trait::async_trait;
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::{Response, Status, Streaming};

pub use self::wait::{WaitError, hindrance, unserved, wait_served, wait_until};
use self::{
    ledger::Ledger,
    moving::{Copies, MovingOptions},
    session::Session,
};
use crate::{
    placement::PlacementPolicy,
    raft::{RaftNode, SessionHandler, SessionStream},
    state::{Command, Request},
};

/// Settings of the sessions.
#[derive(Debug, Clone)]
pub struct SessionOptions {
    /// How long an executor may serve after the last acknowledged beat was sent.
    pub ttl: Duration,
    /// How much longer than `ttl` the leader waits before it gives an executor up: for clocks of different speed.
    pub margin: Duration,
    /// Internal services of all schedulers, told to executors.
    pub scheduler_urls: Vec<String>,
    /// How long the state must be still before partitions are placed; bundles the changes of one moment.
    pub placement_debounce: Duration,
    /// How long an executor must be down before its partitions are given to others where a snapshot has their rows.
    pub failover_after: Duration,
    /// Limits of placement.
    pub placement: PlacementPolicy,
    /// Limits of moves.
    pub moving: MovingOptions,
    /// How long an executor must have been there, and nothing else be moving, before it gets its share.
    pub settle: Duration,
    /// How long a load of a table may go without a renewal before the leader gives it up.
    pub load_patience: Duration,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            ttl: Duration::from_secs(10),
            margin: Duration::from_secs(2),
            scheduler_urls: Vec::new(),
            placement_debounce: Duration::from_millis(200),
            failover_after: Duration::from_secs(60),
            placement: PlacementPolicy::default(),
            moving: MovingOptions::default(),
            settle: Duration::from_secs(2),
            load_patience: Duration::from_secs(30),
        }
    }
}

/// Keeps the sessions of executors while this scheduler leads. Cheap to clone.
#[derive(Clone)]
pub struct SessionManager {
    inner: Arc<Inner>,
}

struct Inner {
    raft: RaftNode,
    options: SessionOptions,
    ledger: Mutex<Ledger>,
    /// What executors said of their copies since this scheduler leads.
    copies: Mutex<Copies>,
    /// They said something new.
    copied: Notify,
    /// Ends all sessions when this scheduler stops.
    stop: CancellationToken,
}

impl SessionManager {
    /// Sessions of this scheduler's part of the group. They end when `stop` is cancelled.
    #[must_use]
    pub fn new(raft: RaftNode, options: SessionOptions, stop: CancellationToken) -> Self {
        let ledger = Mutex::new(Ledger::new(options.ttl + options.margin, sweep_interval(options.ttl)));
        let (copies, copied) = (Mutex::default(), Notify::new());
        Self { inner: Arc::new(Inner { raft, options, ledger, copies, copied, stop }) }
    }

    /// Works off the background duties until the manager's token is cancelled.
    pub async fn run(&self) {
        let inner = &self.inner;
        let duties = async {
            tokio::join!(
                background::mark_down(inner),
                background::place(inner),
                background::move_partitions(inner),
                background::give_up_loads(inner),
                background::check_invariants(inner),
            )
        };
        let _ = inner.stop.run_until_cancelled(duties).await;
    }

    /// Serves one session of messages from anywhere; [`SessionHandler::session`] is this for messages from the network.
    pub fn open(&self, inbound: impl Stream<Item = Result<SessionUp, Status>> + Send + 'static) -> SessionStream {
        let (outbound, receiver) = mpsc::channel(16);
        let session = Session::new(Arc::clone(&self.inner), inbound.boxed(), outbound);
        tokio::spawn(session.run());
        Box::pin(ReceiverStream::new(receiver))
    }
}

impl Inner {
    /// The term in which this scheduler leads now, if it does.
    fn term_led(&self) -> Option<u64> {
        let receiver = self.raft.leadership();
        let leadership = receiver.borrow();
        leadership.is_leader.then_some(leadership.term)
    }

    /// Writes what this scheduler decides as the leader of a term. A later leader must not carry it out: by then it may be wrong.
    async fn propose(&self, term: u64, command: Command) -> Result<(), ancho_common::error::Error> {
        // The leader fills in the time when it writes the entry.
        let request = Request { id: RequestId::new(), now_ms: 0, command };
        self.raft.propose_in_term(term, request).await?.outcome?;
        Ok(())
    }
}

/// How often lapsed sessions are looked for: a tenth of a session, so it lapses that much late at most.
#[must_use]
pub fn sweep_interval(ttl: Duration) -> Duration {
    (ttl / 10).clamp(Duration::from_millis(20), Duration::from_millis(500))
}

#[async_trait]
impl SessionHandler for SessionManager {
    async fn session(&self, inbound: Streaming<SessionUp>) -> Result<Response<SessionStream>, Status> {
        Ok(Response::new(self.open(inbound)))
    }
}

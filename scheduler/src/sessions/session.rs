//! One session of one executor, from its hello to its end.
use std::{pin::Pin, sync::Arc, time::Duration};

use ancho_common::{error::Error, ids::ExecutorId};
use ancho_proto::v1::{
    Ack, Beat, Hello, NotLeader, SessionDown, SessionUp, Welcome, session_down::Body as Down, session_up::Body as Up,
};
use futures::{
    FutureExt, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, FuturesUnordered},
};
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};
use tonic::Status;

use super::{
    Inner,
    assignments::{Digest, assignments},
    claims::{Claims, Correction},
    ledger::{SessionKey, Standing},
    wait::wait_until,
};
use crate::state::{ClusterState, Command};

/// How long a new connection may stay without its hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an executor that arrives before the cluster has an identity is kept waiting.
const NAME_TIMEOUT: Duration = Duration::from_secs(5);
/// Shortest time between two assignments that differ in nothing but versions.
const VERSIONS_INTERVAL: Duration = Duration::from_millis(200);
/// Shortest time between two attempts to correct what the state says of this executor.
const CORRECTION_INTERVAL: Duration = Duration::from_millis(100);

/// Why a session ends.
enum End {
    /// This scheduler does not lead, or no longer.
    NotLeader,
    /// The executor must not be let in; it is told why.
    Refused(String),
    /// Nobody is to be told: the other side is gone, or opens another session by itself.
    Quiet(&'static str),
    /// The call ends with an error; the executor tries again.
    Failed(Error),
}

type Ended<T> = Result<T, End>;

/// Messages of an executor that has not said who it is.
pub(super) struct Session {
    inner: Arc<Inner>,
    inbound: BoxStream<'static, Result<SessionUp, Status>>,
    outbound: mpsc::Sender<Result<SessionDown, Status>>,
}

/// An executor that was let in.
struct Held {
    id: ExecutorId,
    claims: Claims,
    term: u64,
    key: SessionKey,
    told: Digest,
    told_at: Instant,
    /// A correction of the state that is being written.
    correction: Option<Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>>,
    /// When the next correction may start.
    correct_from: Instant,
    /// A correction waits for that moment.
    correction_waits: bool,
    /// Beats whose acknowledgement waits for a majority to confirm this leader.
    acks: FuturesUnordered<BoxFuture<'static, Option<u64>>>,
}

impl Session {
    pub(super) fn new(
        inner: Arc<Inner>,
        inbound: BoxStream<'static, Result<SessionUp, Status>>,
        outbound: mpsc::Sender<Result<SessionDown, Status>>,
    ) -> Self {
        Self { inner, inbound, outbound }
    }

    /// Serves the session until it ends.
    pub(super) async fn run(mut self) {
        let stop = self.inner.stop.clone();
        let Some(Err(end)) = stop.run_until_cancelled(self.serve()).await else { return };
        let last = match end {
            End::NotLeader => Ok(SessionDown { body: Some(Down::NotLeader(self.leader())) }),
            End::Refused(reason) => {
                tracing::warn!(reason, "refused an executor");
                Ok(SessionDown { body: Some(Down::Refused(reason)) })
            }
            End::Quiet(reason) => {
                tracing::debug!(reason, "session ended");
                return;
            }
            End::Failed(error) => {
                tracing::warn!(%error, "session failed");
                Err(error.into())
            }
        };
        // The other side may be gone already; it then finds out by itself.
        let _ = timeout(self.inner.options.ttl, self.outbound.send(last)).await;
    }

    async fn serve(&mut self) -> Ended<()> {
        let hello = self.hello().await?;
        let Some(term) = self.inner.term_led() else { return Err(End::NotLeader) };
        let cluster_id = self.admit(&hello).await?;
        let claims = Claims::new(hello);
        let id = claims.id.clone();
        let opened = self.inner.ledger.lock().open(term, &id, &claims.hello.incarnation, Instant::now());
        let Some(key) = opened else { return Err(End::NotLeader) };
        let mut held = Held {
            id,
            claims,
            term,
            key,
            told: Digest::default(),
            told_at: Instant::now(),
            correction: None,
            correct_from: Instant::now(),
            correction_waits: false,
            acks: FuturesUnordered::new(),
        };
        let ended = self.hold(&mut held, cluster_id).await;
        self.inner.ledger.lock().close(term, &held.id, key);
        ended
    }

    async fn hello(&mut self) -> Ended<Hello> {
        let first = timeout(HELLO_TIMEOUT, self.inbound.next())
            .await
            .map_err(|_| End::Failed(Error::invalid("no hello came in time; send it first")))?;
        match first {
            Some(Ok(SessionUp { body: Some(Up::Hello(hello)) })) => Ok(hello),
            Some(Ok(_)) => Err(End::Failed(Error::invalid("the first message of a session must be the hello"))),
            Some(Err(_)) | None => Err(End::Quiet("no hello")),
        }
    }

    /// Lets the executor in if it is one of this cluster, whose id is returned.
    async fn admit(&mut self, hello: &Hello) -> Ended<String> {
        for (what, value) in
            [("executor id", &hello.executor_id), ("incarnation", &hello.incarnation), ("url", &hello.url)]
        {
            if value.is_empty() {
                return Err(End::Refused(format!("the hello has no {what}; send one")));
            }
        }
        let named = |state: &ClusterState| !state.cluster_id.is_empty();
        let state = wait_until(self.inner.raft.watch(), named, Instant::now() + NAME_TIMEOUT)
            .await
            .map_err(|_| End::Failed(Error::unavailable("the cluster is not formed yet; try again")))?;
        if !hello.cluster_id.is_empty() && hello.cluster_id != state.cluster_id {
            return Err(End::Refused(format!(
                "executor {} belongs to cluster {}, this scheduler to cluster {}: point the executor at a scheduler of \
                 its own cluster, or give it an empty data directory",
                hello.executor_id, hello.cluster_id, state.cluster_id
            )));
        }
        Ok(state.cluster_id.clone())
    }

    async fn hold(&mut self, held: &mut Held, cluster_id: String) -> Ended<()> {
        let inner = Arc::clone(&self.inner);
        let registered = inner.propose(held.term, held.claims.registration()).await;
        self.check_term(held)?;
        registered.map_err(End::Failed)?;
        self.renew(held)?;
        tracing::info!(executor = %held.id, url = held.claims.hello.url, "executor registered");
        self.send(Down::Welcome(Welcome {
            cluster_id,
            ttl_millis: u64::try_from(inner.options.ttl.as_millis()).unwrap_or(u64::MAX),
            scheduler_urls: inner.options.scheduler_urls.clone(),
        }))
        .await?;
        let mut states = inner.raft.watch();
        let mut leadership = inner.raft.leadership();
        let state = Arc::clone(&states.borrow_and_update());
        self.tell(held, &state).await?;
        loop {
            let state = Arc::clone(&states.borrow());
            let mut due = self.tell_changes(held, &state).await?;
            if held.correction_waits {
                due = due.min(held.correct_from);
            }
            tokio::select! {
                message = self.inbound.next() => match message {
                    Some(Ok(SessionUp { body: Some(Up::Beat(beat)) })) => self.beat(held, beat)?,
                    Some(Ok(SessionUp { body: Some(Up::Hello(_)) })) => {
                        return Err(End::Failed(Error::invalid("a session has one hello; open another session")));
                    }
                    Some(Ok(SessionUp { body: Some(Up::Goodbye(_)) })) => {
                        self.let_go(held).await?;
                        return Err(End::Quiet("the executor stopped"));
                    }
                    // A message of a newer release.
                    Some(Ok(SessionUp { body: None })) => {}
                    Some(Err(_)) => return Err(End::Quiet("the stream broke")),
                    None => return Err(End::Quiet("the executor ended the stream")),
                },
                Some(acknowledged) = held.acks.next() => {
                    if let Some(sequence) = acknowledged {
                        // Confirmed, but in which term? And the session may have lapsed meanwhile.
                        self.renew(held)?;
                        self.send(Down::Ack(Ack { sequence })).await?;
                    }
                }
                outcome = pending_or(&mut held.correction) => {
                    held.correction = None;
                    if let Err(error) = outcome {
                        tracing::warn!(executor = %held.id, %error, "what the executor reports could not be written yet");
                    }
                    self.correct(held)?;
                }
                changed = states.changed() => {
                    if changed.is_err() {
                        return Err(End::Quiet("this scheduler is stopping"));
                    }
                    states.borrow_and_update();
                    self.correct(held)?;
                }
                changed = leadership.changed() => {
                    if changed.is_err() {
                        return Err(End::Quiet("this scheduler is stopping"));
                    }
                    leadership.borrow_and_update();
                    self.check_term(held)?;
                }
                () = tokio::time::sleep_until(due) => self.correct(held)?,
            }
        }
    }

    fn beat(&self, held: &mut Held, beat: Beat) -> Ended<()> {
        self.renew(held)?;
        let (raft, limit, sequence) = (self.inner.raft.clone(), self.inner.options.ttl / 2, beat.sequence);
        if self.inner.copies.lock().take(&held.id, &held.claims.hello.incarnation, &beat.copies) {
            self.inner.copied.notify_one();
        }
        held.claims.take(beat);
        held.acks.push(async move { raft.linearizable_within(limit).await.is_ok().then_some(sequence) }.boxed());
        self.correct(held)
    }

    /// Writes that an executor has stopped, which says that it serves nothing any more. If that cannot be written, its
    /// silence will tell.
    async fn let_go(&mut self, held: &mut Held) -> Ended<()> {
        self.check_term(held)?;
        ended_by(self.inner.ledger.lock().standing(held.term, &held.id, held.key))?;
        self.inner.propose(held.term, held.claims.farewell()).await.map_err(End::Failed)?;
        tracing::info!(executor = %held.id, "executor stopped");
        Ok(())
    }

    /// Renews the session, since a sign of life arrived.
    fn renew(&self, held: &Held) -> Ended<()> {
        self.check_term(held)?;
        ended_by(self.inner.ledger.lock().heard(held.term, &held.id, held.key, Instant::now()))
    }

    fn check_term(&self, held: &Held) -> Ended<()> {
        if self.inner.term_led() == Some(held.term) { Ok(()) } else { Err(End::NotLeader) }
    }

    /// Starts writing a correction if the state differs from what this session knows: the executor is alive, and can
    /// serve what its last beat said. One at a time and not too often, so that reports are bundled.
    fn correct(&self, held: &mut Held) -> Ended<()> {
        if held.correction.is_some() {
            return Ok(());
        }
        // A session that has lapsed must not undo the verdict on it.
        ended_by(self.inner.ledger.lock().standing(held.term, &held.id, held.key))?;
        let state = self.inner.raft.state();
        let Some(command) = held.wanted_correction(&state)? else { return Ok(()) };
        let now = Instant::now();
        held.correction_waits = now < held.correct_from;
        if !held.correction_waits {
            held.correct_from = now + CORRECTION_INTERVAL;
            let (inner, term) = (Arc::clone(&self.inner), held.term);
            held.correction = Some(Box::pin(async move { inner.propose(term, command).await }));
        }
        Ok(())
    }

    /// Sends the assignments if they changed. Returns when to look again.
    async fn tell_changes(&mut self, held: &mut Held, state: &ClusterState) -> Ended<Instant> {
        let now = Instant::now();
        let digest = Digest::of(state, &held.id);
        let far = now + self.inner.options.ttl;
        if digest == held.told {
            return Ok(far);
        }
        let due = held.told_at + VERSIONS_INTERVAL;
        if !digest.holds_others_than(&held.told) && now < due {
            return Ok(due);
        }
        self.tell(held, state).await?;
        Ok(far)
    }

    async fn tell(&mut self, held: &mut Held, state: &ClusterState) -> Ended<()> {
        held.told = Digest::of(state, &held.id);
        held.told_at = Instant::now();
        self.send(Down::Assignments(assignments(state, &held.id))).await
    }

    async fn send(&mut self, body: Down) -> Ended<()> {
        match timeout(self.inner.options.ttl, self.outbound.send(Ok(SessionDown { body: Some(body) }))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Quiet("the executor is gone")),
            Err(_) => Err(End::Quiet("the executor does not read its session")),
        }
    }

    fn leader(&self) -> NotLeader {
        let receiver = self.inner.raft.leadership();
        let leadership = receiver.borrow();
        // A scheduler that is being elected is no address to send anyone to.
        let other = leadership.leader_id.filter(|id| *id != self.inner.raft.node_id());
        NotLeader {
            leader_id: other.unwrap_or_default(),
            leader_url: other.and_then(|_| leadership.leader_url.clone()).unwrap_or_default(),
        }
    }
}

impl Held {
    /// The command that brings the state in line with this session, if it is not.
    fn wanted_correction(&self, state: &ClusterState) -> Ended<Option<Command>> {
        match self.claims.correction(state) {
            Correction::None => Ok(None),
            Correction::Write(command) => Ok(Some(command)),
            Correction::Refuse(reason) => Err(End::Refused(reason)),
            Correction::StartedAnew => Err(End::Quiet("the executor was started anew")),
        }
    }
}

fn ended_by(standing: Standing) -> Ended<()> {
    match standing {
        Standing::Held => Ok(()),
        Standing::Lapsed => Err(End::Quiet("the session had lapsed")),
        Standing::Superseded => Err(End::Quiet("the executor has a newer session")),
    }
}

/// The outcome of the future, or never if there is none.
async fn pending_or<T>(future: &mut Option<Pin<Box<dyn Future<Output = T> + Send>>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

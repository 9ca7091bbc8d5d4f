//! Writing: a request goes to the leader, wherever it was made, and is repeated under the same id until its outcome is
//! known or time is up.
use std::time::Duration;

use ancho_common::error::{Error as AnchoError, ErrorKind};
use ancho_proto::v1::{ProposeRequest, propose_reply};
use openraft::{
    errors::{ClientWriteError, Fatal, RaftError},
    impls::ProgressResponder,
    vote::RaftLeaderId,
};
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{
    channels::was_not_sent,
    node::{RaftNode, now_ms},
    types::{LeaderId, Node},
};
use crate::state::{Request, Response};

/// How long [`RaftNode::propose`] keeps trying.
const PROPOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one attempt at one leader may take: a leader that hangs must not use up the whole time.
pub(super) const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause before asking again while no leader is known.
const PAUSE: Duration = Duration::from_millis(50);

/// How one attempt ended.
#[derive(Debug)]
pub(super) enum Attempt {
    /// Applied, now or earlier; the response says what that did.
    Applied(Response),
    /// Certainly not written by this attempt. Maybe someone else leads.
    NotLeader(Option<(u64, String)>),
    /// Certainly not written by this attempt.
    NotSent(String),
    /// Written or not: only asking again tells.
    Unknown(String),
}

impl RaftNode {
    /// Applies a request exactly once and returns its response, which the local state then includes.
    ///
    /// # Errors
    /// `Unavailable`: certainly not applied. `Unknown`: it may have been applied, or may yet be; asking again with the
    /// same request id tells. A command that was refused is no error here: the response says so.
    pub async fn propose(&self, request: Request) -> Result<Response, AnchoError> {
        self.propose_within(request, PROPOSE_TIMEOUT).await
    }

    /// [`RaftNode::propose`] with another limit on the time.
    ///
    /// # Errors
    /// As for [`RaftNode::propose`].
    pub async fn propose_within(&self, request: Request, limit: Duration) -> Result<Response, AnchoError> {
        let deadline = Instant::now() + limit;
        let mut leadership = self.inner.leadership.clone();
        let mut hint: Option<(u64, String)> = None;
        // Once an attempt has left open whether it was written, no later one can rule it out but by an answer.
        let mut open: Option<String> = None;
        let mut last = "no leader is known".to_owned();
        loop {
            match self.attempt(&request, hint.take(), deadline).await {
                Attempt::Applied(response) => {
                    self.wait_for_revision(response.revision, deadline).await;
                    return Ok(response);
                }
                Attempt::NotLeader(leader) => hint = leader.filter(|(id, _)| *id != self.node_id()),
                Attempt::NotSent(reason) => last = reason,
                Attempt::Unknown(reason) => {
                    last.clone_from(&reason);
                    open = Some(reason);
                }
            }
            let stopped = self.stop_reason();
            if stopped.is_some() || Instant::now() + PAUSE >= deadline {
                let last = stopped.map_or(last, |e| e.to_string());
                return Err(give_up(&request, open.is_some(), &last, limit));
            }
            tokio::select! {
                Ok(()) = leadership.changed() => {}
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    /// Applies a request if this node leads in a term when the entry is written, and never otherwise: for decisions that a leader
    /// makes for its own term. One that is held up must not be carried out by a successor, who knows better.
    ///
    /// # Errors
    /// `Unavailable`: certainly not applied. `Unknown`: it may be applied yet, in that term.
    pub async fn propose_in_term(&self, term: u64, request: Request) -> Result<Response, AnchoError> {
        let deadline = Instant::now() + PROPOSE_TIMEOUT;
        let id = request.id;
        match self.write(request, Some(term), deadline).await {
            Attempt::Applied(response) => Ok(response),
            Attempt::NotLeader(_) => Err(AnchoError::unavailable(format!(
                "request {id} was not applied: this scheduler does not lead in term {term} any more"
            ))),
            Attempt::NotSent(reason) => Err(AnchoError::unavailable(format!("request {id} was not applied: {reason}"))),
            Attempt::Unknown(reason) => Err(AnchoError::new(
                ErrorKind::Unknown,
                format!("request {id} may or may not have been applied ({reason})"),
            )),
        }
    }

    async fn attempt(&self, request: &Request, hint: Option<(u64, String)>, deadline: Instant) -> Attempt {
        let deadline = deadline.min(Instant::now() + ATTEMPT_TIMEOUT);
        let known = self.inner.leadership.borrow().clone();
        if known.is_leader {
            return self.propose_as_leader(request.clone(), deadline).await;
        }
        let leader = hint.map(|(_, url)| url).or_else(|| {
            // The leader of record, unless it is this node on its way in or out of office.
            known.leader_url.filter(|_| known.leader_id != Some(self.node_id()))
        });
        match leader {
            Some(url) => self.forward(&url, request, deadline).await,
            None => Attempt::NotLeader(None),
        }
    }

    /// Writes a request to the log of this node, if it leads.
    pub(super) async fn propose_as_leader(&self, request: Request, deadline: Instant) -> Attempt {
        self.write(request, None, deadline).await
    }

    /// Writes an entry as the leader: of whatever term, or of one only.
    async fn write(&self, mut request: Request, term: Option<u64>, deadline: Instant) -> Attempt {
        let leadership = self.inner.leadership.borrow().clone();
        if !leadership.is_leader || term.is_some_and(|term| term != leadership.term) {
            return Attempt::NotLeader(leadership.leader_id.zip(leadership.leader_url));
        }
        if let Some(error) = self.stop_reason() {
            return Attempt::NotSent(error.to_string());
        }
        if request.now_ms == 0 {
            request.now_ms = now_ms();
        }
        let stamper = self.inner.stamper.read().clone();
        if let Some(stamper) = stamper {
            stamper(&self.state(), &mut request);
        }
        let written = async {
            let Some(term) = term else { return self.inner.raft.client_write(request).await };
            let (responder, outcome) = ProgressResponder::complete_only();
            let leader = LeaderId::new(term, self.node_id()).to_committed();
            self.inner.raft.write(request).with_leader(leader).responder(responder).await?;
            outcome.await.map_err(|_| Fatal::Stopped)?.map_err(RaftError::APIError)
        };
        match timeout_at(deadline, written).await {
            Ok(Ok(written)) => Attempt::Applied(written.data),
            Ok(Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward)))) => {
                let url = forward.leader_node.map(|node: Node| node.url);
                Attempt::NotLeader(forward.leader_id.zip(url))
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "an entry was written and not seen to be applied");
                Attempt::Unknown(match error {
                    RaftError::Fatal(_) => "the leader has stopped".into(),
                    RaftError::APIError(_) => "the leader changed before a majority had the entry".into(),
                })
            }
            Err(_) => Attempt::Unknown("the entry was not committed in time: no majority of schedulers answers".into()),
        }
    }

    async fn forward(&self, url: &str, request: &Request, deadline: Instant) -> Attempt {
        let body = match serde_json::to_vec(request) {
            Ok(body) => body,
            Err(error) => return Attempt::NotSent(format!("{request} cannot be encoded: {error}")),
        };
        let mut client = match self.client(url) {
            Ok(client) => client,
            Err(error) => return Attempt::NotSent(error.to_string()),
        };
        let call = client.propose(ProposeRequest { request: body.into(), forwarded: true });
        let reply = match timeout_at(deadline, call).await {
            Err(_) => return Attempt::Unknown(format!("the leader at {url} did not answer in time")),
            Ok(Err(status)) => {
                let reason = format!("the leader at {url}: {}", status.message());
                return if was_not_sent(&status) { Attempt::NotSent(reason) } else { Attempt::Unknown(reason) };
            }
            Ok(Ok(reply)) => reply.into_inner(),
        };
        match reply.outcome {
            Some(propose_reply::Outcome::Response(bytes)) => match serde_json::from_slice(&bytes) {
                Ok(response) => Attempt::Applied(response),
                Err(error) => Attempt::Unknown(format!("the answer of the leader at {url} cannot be read: {error}")),
            },
            Some(propose_reply::Outcome::NotLeader(other)) => {
                let known = !other.leader_url.is_empty() && other.leader_url != url;
                Attempt::NotLeader(known.then_some((other.leader_id, other.leader_url)))
            }
            Some(propose_reply::Outcome::Unknown(reason)) => Attempt::Unknown(reason),
            None => Attempt::Unknown(format!("the leader at {url} sent an empty answer")),
        }
    }

    /// Waits until the local state includes the request, so that the caller reads what it wrote. Gives up quietly at
    /// the deadline: the request was applied all the same.
    async fn wait_for_revision(&self, revision: u64, deadline: Instant) {
        let mut state = self.inner.published.state.clone();
        tokio::select! {
            _ = state.wait_for(|state| state.revision >= revision) => {}
            () = sleep_until(deadline) => {}
        }
    }
}

fn give_up(request: &Request, open: bool, last: &str, limit: Duration) -> AnchoError {
    if open {
        AnchoError::new(
            ErrorKind::Unknown,
            format!(
                "{request} may or may not have been applied (gave up after {limit:?}; {last}); ask again with its id"
            ),
        )
    } else {
        AnchoError::unavailable(format!(
            "{request} was not applied: no leader took it within {limit:?} ({last}); try again"
        ))
    }
}

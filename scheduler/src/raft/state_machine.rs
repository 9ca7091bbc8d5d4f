//! Applies committed requests to the [`ClusterState`] and publishes the outcome.
//!
//! The state lives in memory. It is rebuilt at the start from the last snapshot and the log behind it, which gives
//! the same state on every node, since `ClusterState::apply` is pure.
use std::{io, sync::Arc};

use futures::{Stream, TryStreamExt};
use openraft::{
    EntryPayload, OptionalSend,
    storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine},
};
use rusqlite::{OptionalExtension, params};
use tokio::sync::watch;

use super::{
    database::{Database, key, sql_index},
    identity::Identity,
    log_store::{from_json, to_json},
    types::{LogId, Snapshot, SnapshotData, SnapshotMeta, StoredMembership, TypeConfig},
};
use crate::state::{ClusterState, Outcome, Response};

/// Receivers of what the state machine publishes.
#[derive(Debug, Clone)]
pub(super) struct Published {
    /// The state after each applied batch.
    pub(super) state: watch::Receiver<Arc<ClusterState>>,
    /// Log id of the last entry in that state. Changes after `state`, so a state read later includes it.
    pub(super) applied: watch::Receiver<Option<LogId>>,
}

/// The replicated state of this node.
#[derive(Debug)]
pub struct StateMachine {
    db: Database,
    identity: Identity,
    state: Arc<ClusterState>,
    applied: Option<LogId>,
    membership: StoredMembership,
    state_sender: watch::Sender<Arc<ClusterState>>,
    applied_sender: watch::Sender<Option<LogId>>,
}

impl StateMachine {
    pub(super) fn new(db: Database, identity: Identity) -> (Self, Published) {
        let (state_sender, state) = watch::channel(Arc::new(ClusterState::default()));
        let (applied_sender, applied) = watch::channel(None);
        let machine = Self {
            db,
            identity,
            state: Arc::default(),
            applied: None,
            membership: StoredMembership::default(),
            state_sender,
            applied_sender,
        };
        (machine, Published { state, applied })
    }

    async fn publish(&mut self) -> io::Result<()> {
        let cluster_id = &self.state.cluster_id;
        if !cluster_id.is_empty() && self.identity.cluster_id() != Some(cluster_id) {
            self.identity.set_cluster_id(cluster_id).map_err(|known| {
                io::Error::other(format!("the state belongs to cluster {cluster_id}, this directory to {known}"))
            })?;
            self.db.set(key::CLUSTER_ID, cluster_id.clone()).await?;
        }
        self.state_sender.send_replace(Arc::clone(&self.state));
        self.applied_sender.send_replace(self.applied);
        Ok(())
    }

    fn snapshot_meta(&self) -> SnapshotMeta {
        SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() }
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let mut answers = Vec::new();
        while let Some((entry, responder)) = entries.try_next().await? {
            self.applied = Some(entry.log_id);
            let response = match entry.payload {
                // Cloned at most once per batch: the published state is the only other holder.
                EntryPayload::Normal(request) => Arc::make_mut(&mut self.state).apply(request),
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(entry.log_id), membership);
                    unchanged(&self.state)
                }
                EntryPayload::Blank => unchanged(&self.state),
            };
            if let Some(responder) = responder {
                answers.push((responder, response));
            }
        }
        // Whoever gets an answer finds its effect in the published state.
        self.publish().await?;
        for (responder, response) in answers {
            responder.send(response);
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        SnapshotBuilder { db: self.db.clone(), meta: self.snapshot_meta(), state: Arc::clone(&self.state) }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: SnapshotData) -> Result<(), io::Error> {
        save_snapshot(&self.db, meta, Arc::clone(&snapshot)).await?;
        self.state = snapshot;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.publish().await
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        let stored: Option<(String, String)> = self
            .db
            .run(|c| {
                c.query_row("SELECT meta, state FROM snapshot", [], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .await?;
        let Some((meta, state)) = stored else { return Ok(None) };
        let meta = from_json("snapshot header", &meta)?;
        let state: ClusterState = from_json("snapshot", &state)?;
        Ok(Some(Snapshot { meta, snapshot: Arc::new(state) }))
    }
}

fn unchanged(state: &ClusterState) -> Response {
    Response { outcome: Ok(Outcome::Done), revision: state.revision }
}

/// Writes a snapshot of the state as it was when the builder was made.
#[derive(Debug)]
pub struct SnapshotBuilder {
    db: Database,
    meta: SnapshotMeta,
    state: SnapshotData,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotData;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        save_snapshot(&self.db, &self.meta, Arc::clone(&self.state)).await?;
        Ok(Snapshot { meta: self.meta.clone(), snapshot: Arc::clone(&self.state) })
    }
}

async fn save_snapshot(db: &Database, meta: &SnapshotMeta, state: SnapshotData) -> io::Result<()> {
    let last_index = meta.last_log_id.map_or(-1, |id| sql_index(id.index));
    let meta = to_json("snapshot header", meta)?;
    // A large state takes a while to encode; the network should not wait for it.
    let state = tokio::task::spawn_blocking(move || to_json("snapshot", &*state))
        .await
        .map_err(|e| io::Error::other(format!("encoding the snapshot: {e}")))??;
    db.run(move |c| {
        // A build that was overtaken by a received, newer snapshot must not replace that.
        c.execute(
            "INSERT INTO snapshot (slot, last_index, meta, state) VALUES (1, ?1, ?2, ?3)
             ON CONFLICT (slot) DO UPDATE SET last_index = ?1, meta = ?2, state = ?3 WHERE last_index <= ?1",
            params![last_index, meta, state],
        )
        .map(drop)
    })
    .await
}

//! Starting a node: its directory, its identity, and its way into the group.
use std::{sync::Arc, time::Duration};

use ancho_common::ids::RequestId;
use openraft::storage::RaftLogStorage;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::{
    channels::Channels,
    database::{self, Database, StoredIdentity, key},
    error::{Error, Result},
    forming::{self, Peers, Phase},
    identity::Identity,
    leadership,
    log_store::LogStore,
    network::Network,
    node::{Inner, RaftNode, now_ms},
    options::RaftOptions,
    read::start_reads,
    state_machine::StateMachine,
    types::Raft,
};
use crate::state::{Command, Request};

impl RaftNode {
    /// Opens the data directory and takes part in the group that it belongs to, or forms one.
    ///
    /// Returns before the group is formed or a leader known: the peers reach this node only once the caller serves
    /// [`SchedulerService`](super::SchedulerService). [`RaftNode::wait_ready`] waits for both.
    ///
    /// # Errors
    /// The settings or the directory contradict each other or what a peer reports; the directory was wiped while its
    /// node is a member of a formed group; the directory cannot be used.
    pub async fn start(options: RaftOptions) -> Result<Self> {
        let config = Arc::new(options.raft_config()?);
        let (db, identity) = open(&options).await?;
        let started = Self::start_on(&options, config, db.clone(), identity).await;
        if started.is_err() {
            db.close().await;
        }
        started
    }

    async fn start_on(
        options: &RaftOptions,
        config: Arc<openraft::Config>,
        db: Database,
        identity: Identity,
    ) -> Result<Self> {
        let storage = |e: std::io::Error| Error::Storage { path: db.path().to_owned(), reason: e.to_string() };
        let mut log = LogStore::open(db.clone()).await.map_err(storage)?;
        let had_log = log.get_log_state().await.map_err(storage)?.last_log_id.is_some();

        let channels = Channels::default();
        let urls = Arc::new(options.peers.clone());
        let peers = Peers { identity: identity.clone(), channels: channels.clone(), urls: Arc::clone(&urls) };
        // Peers that are not up yet are judged later; one that answers may rule this start out right away.
        let reached = peers.survey().await?;
        tracing::info!(
            node = identity.node_id, cluster = identity.cluster_id(), restart = had_log,
            peers_reached = ?reached.keys(), "starting the consensus layer"
        );

        let (machine, published) = StateMachine::new(db.clone(), identity.clone());
        let network = Network {
            channels: channels.clone(),
            identity: identity.clone(),
            urls: Arc::clone(&urls),
            append_timeout: options.election_timeout.0,
        };
        let raft = Raft::new(identity.node_id, config, network, log, machine)
            .await
            .map_err(|e| Error::Storage { path: db.path().to_owned(), reason: e.to_string() })?;

        let cancel = CancellationToken::new();
        let leadership = leadership::follow(&raft, Arc::clone(&urls), cancel.clone());
        let phase = join_group(peers, &raft, had_log, cancel.clone()).await?;
        let (leader_reads, reads) = start_reads(&raft, &channels, leadership.clone(), identity.node_id, cancel.clone());
        let stamper = RwLock::new(None);
        let inner = Arc::new(Inner {
            identity,
            raft,
            channels,
            urls,
            published,
            leadership,
            stamper,
            leader_reads,
            reads,
            db,
            had_log,
            phase,
            cancel,
        });
        let node = Self { inner };
        tokio::spawn(node.clone().name_cluster());
        Ok(node)
    }

    /// Gives a new cluster its identity, as soon as this node leads. Ends once there is one.
    async fn name_cluster(self) {
        let cancel = self.inner.cancel.clone();
        let work = async {
            let mut state = self.inner.published.state.clone();
            let mut leadership = self.inner.leadership.clone();
            while state.borrow_and_update().cluster_id.is_empty() {
                if leadership.borrow_and_update().is_leader {
                    let request = Request {
                        id: RequestId::new(),
                        now_ms: now_ms(),
                        command: Command::InitCluster { cluster_id: Uuid::new_v4().to_string() },
                    };
                    if let Err(error) = self.propose(request).await {
                        tracing::warn!(%error, "naming the new cluster");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                    continue;
                }
                tokio::select! {
                    changed = state.changed() => if changed.is_err() { return },
                    changed = leadership.changed() => if changed.is_err() { return },
                }
            }
        };
        cancel.run_until_cancelled(work).await;
    }
}

/// Opens the directory and reads, or makes, its identity.
async fn open(options: &RaftOptions) -> Result<(Database, Identity)> {
    let dir = options.data_dir.clone();
    let (db, stored) = tokio::task::spawn_blocking(move || Database::open(&dir))
        .await
        .map_err(|e| Error::Storage { path: options.data_dir.clone(), reason: e.to_string() })??;
    let identity = identify(options, &db, stored).await;
    if identity.is_err() {
        db.close().await;
    }
    Ok((db, identity?))
}

async fn identify(options: &RaftOptions, db: &Database, stored: Option<StoredIdentity>) -> Result<Identity> {
    let node_id = options.resolve_node_id(stored.as_ref().map(|s| s.node_id))?;
    let stored = match stored {
        Some(stored) => stored,
        None => {
            let new = StoredIdentity { node_id, incarnation: Uuid::new_v4().to_string(), cluster_id: None };
            let row = new.clone();
            db.run(move |c| {
                let transaction = c.transaction()?;
                database::set(&transaction, key::NODE_ID, &row.node_id.to_string())?;
                database::set(&transaction, key::INCARNATION, &row.incarnation)?;
                transaction.commit()
            })
            .await
            .map_err(|e| Error::Storage { path: db.path().to_owned(), reason: e.to_string() })?;
            new
        }
    };
    Ok(Identity::new(node_id, &stored.incarnation, options.data_dir.clone(), stored.cluster_id))
}

/// Starts what leads to a group: at once for a group of one, in the background for a larger new one, nothing for a
/// directory that has one.
async fn join_group(
    peers: Peers,
    raft: &Raft,
    had_log: bool,
    cancel: CancellationToken,
) -> Result<watch::Receiver<Phase>> {
    let (sender, phase) = watch::channel(if had_log { Phase::Formed } else { Phase::Forming });
    let stopped = |reason: String| Error::Stopped { node: peers.identity.node_id, reason };
    let alone = peers.urls.len() == 1;
    if !had_log {
        tokio::spawn(forming::form(peers, raft.clone(), sender, cancel));
    } else if alone {
        // Nobody else can lead, so there is nothing to wait for. (A member of a larger group ignores the call's effect:
        // it needs the votes of a majority like any other candidate.)
        raft.trigger().elect(false).await.map_err(|e| stopped(e.to_string()))?;
    }
    Ok(phase)
}

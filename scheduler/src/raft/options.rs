//! Settings of a node of the group.
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use super::error::{Error, Result};

/// How a scheduler takes part in its group.
#[derive(Debug, Clone)]
pub struct RaftOptions {
    /// This node's number. Without one it is the number stored in the directory, or that of the peer whose URL is
    /// `advertise_url`, or that of the only peer.
    pub node_id: Option<u64>,
    /// URL at which the other schedulers reach this one's internal service.
    pub advertise_url: String,
    /// All members by number, this node included: 1, 3 or 5 of them. A formed group goes by its own member list; the
    /// URLs given here then only say where to find the members.
    pub peers: BTreeMap<u64, String>,
    /// Holds `raft.db`; made if missing.
    pub data_dir: PathBuf,
    /// Time between two signs of life of a leader.
    pub heartbeat: Duration,
    /// Range from which a follower draws how long it waits for a leader, on top of the leader's lease.
    pub election_timeout: (Duration, Duration),
    /// Log entries between two snapshots; the log behind a snapshot is dropped.
    pub snapshot_every: u64,
}

impl RaftOptions {
    /// A group of one, with default timing.
    pub fn single(advertise_url: impl Into<String>, data_dir: impl Into<PathBuf>) -> Self {
        let advertise_url = advertise_url.into();
        Self {
            node_id: None,
            peers: BTreeMap::from([(1, advertise_url.clone())]),
            advertise_url,
            data_dir: data_dir.into(),
            heartbeat: Duration::from_millis(250),
            election_timeout: (Duration::from_millis(1000), Duration::from_millis(2000)),
            snapshot_every: 5000,
        }
    }

    /// A member of a group, with default timing.
    pub fn member(
        node_id: u64,
        advertise_url: impl Into<String>,
        peers: BTreeMap<u64, String>,
        data_dir: impl Into<PathBuf>,
    ) -> Self {
        Self { node_id: Some(node_id), peers, ..Self::single(advertise_url, data_dir) }
    }

    /// The number of this node, given the one stored in its directory.
    ///
    /// # Errors
    /// The settings contradict each other, or the directory.
    pub(super) fn resolve_node_id(&self, stored: Option<u64>) -> Result<u64> {
        if !matches!(self.peers.len(), 1 | 3 | 5) {
            let listed = self.peers.len();
            return Err(Error::Config(format!("{listed} scheduler peers are listed: a group has 1, 3 or 5 members")));
        }
        let by_url = || self.peers.iter().find(|(_, url)| **url == self.advertise_url).map(|(id, _)| *id);
        let only = || (self.peers.len() == 1).then(|| self.peers.keys().next().copied()).flatten();
        let node_id = match (self.node_id, stored) {
            (Some(configured), Some(stored)) if configured != stored => {
                return Err(Error::NodeId { path: self.data_dir.clone(), stored, configured });
            }
            (Some(id), _) | (None, Some(id)) => id,
            (None, None) => by_url().or_else(only).ok_or_else(|| {
                Error::Config(format!(
                    "no peer has the advertised URL {}: set the node id, or list this node among the peers",
                    self.advertise_url
                ))
            })?,
        };
        if !self.peers.contains_key(&node_id) {
            let ids: Vec<_> = self.peers.keys().collect();
            return Err(Error::Config(format!("node {node_id} is not among the scheduler peers {ids:?}: list it")));
        }
        Ok(node_id)
    }

    pub(super) fn raft_config(&self) -> Result<openraft::Config> {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        openraft::Config {
            cluster_name: "ancho".into(),
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: millis(self.election_timeout.0),
            election_timeout_max: millis(self.election_timeout.1),
            // Sending and installing a whole snapshot.
            install_snapshot_timeout: 60_000,
            snapshot_policy: openraft::SnapshotPolicy::LogsSinceLast(self.snapshot_every),
            // A follower that was away for a short while catches up from the log.
            max_in_snapshot_log_to_keep: self.snapshot_every.min(1000),
            replication_lag_threshold: self.snapshot_every.saturating_mul(2),
            // A restarted leader is elected anew: its state may be behind what it once served, and only a blank
            // entry of a new term proves that it has caught up.
            enable_leader_restore: Some(false),
            ..openraft::Config::default()
        }
        .validate()
        .map_err(|e| Error::Config(format!("consensus timing: {e}")))
    }
}

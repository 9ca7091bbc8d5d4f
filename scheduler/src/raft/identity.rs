//! Who this node is: its number, its directory's incarnation, and the cluster it belongs to.
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use super::types::Node;

/// The identity of a node. Cheap to clone; the cluster id becomes known once and is then shared by all clones.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub(super) node_id: u64,
    /// Drawn when the directory was made.
    pub(super) incarnation: Arc<str>,
    /// For messages.
    pub(super) data_dir: Arc<PathBuf>,
    cluster_id: Arc<OnceLock<String>>,
}

impl Identity {
    pub(super) fn new(node_id: u64, incarnation: &str, data_dir: PathBuf, cluster_id: Option<String>) -> Self {
        let known = OnceLock::new();
        if let Some(id) = cluster_id {
            // A fresh cell is empty.
            let _ = known.set(id);
        }
        Self { node_id, incarnation: incarnation.into(), data_dir: Arc::new(data_dir), cluster_id: Arc::new(known) }
    }

    /// The cluster, once known.
    pub(super) fn cluster_id(&self) -> Option<&str> {
        self.cluster_id.get().map(String::as_str)
    }

    /// Remembers the cluster. `Err` with the known one if that is another.
    pub(super) fn set_cluster_id(&self, id: &str) -> Result<(), String> {
        let known = self.cluster_id.get_or_init(|| id.to_owned());
        if known == id { Ok(()) } else { Err(known.clone()) }
    }

    /// This node as a member.
    pub(super) fn as_member(&self, url: &str) -> Node {
        Node { url: url.to_owned(), incarnation: self.incarnation.to_string() }
    }
}

//! What can go wrong in the consensus layer.
use std::path::PathBuf;

use ancho_common::error::{Error as AnchoError, ErrorKind};

/// Result of the consensus layer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of the consensus layer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A setting is wrong.
    #[error("{0}")]
    Config(String),
    /// The store of the log cannot be used.
    #[error("raft store {path}: {reason}")]
    Storage {
        /// File.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The directory belongs to another node.
    #[error(
        "data directory {path} belongs to scheduler node {stored}, but this node is configured as node {configured}: \
         set the node id to {stored}, or give node {configured} its own directory"
    )]
    NodeId {
        /// Directory.
        path: PathBuf,
        /// In the directory.
        stored: u64,
        /// In the configuration.
        configured: u64,
    },
    /// The directory belongs to another cluster.
    #[error(
        "data directory {path} belongs to cluster {stored}, but node {peer} at {url} belongs to cluster {reported}: \
         point this node at the directory of cluster {reported}, or correct the list of peers"
    )]
    ClusterId {
        /// Directory.
        path: PathBuf,
        /// In the directory.
        stored: String,
        /// The peer that reported another one.
        peer: u64,
        /// Where it was reached.
        url: String,
        /// What it reported.
        reported: String,
    },
    /// The group knows this node by another directory, which held acknowledged entries.
    #[error(
        "data directory {path} of node {node} is not the one that the group knows: node {peer} at {url} is in a formed \
         group{of_cluster} whose node {node} has incarnation {known}, this directory has {own}. A wiped or replaced directory must \
         not vote with its old id, or acknowledged changes could be lost: restore the former directory of node {node}; \
         if it is gone, keep this node stopped, since the others serve without it while they are a majority",
        of_cluster = cluster_suffix(.cluster),
        known = none_if_empty(.expected)
    )]
    Incarnation {
        /// Directory.
        path: PathBuf,
        /// This node.
        node: u64,
        /// Incarnation of the directory.
        own: String,
        /// Incarnation in the group's member list; empty if the node is no member.
        expected: String,
        /// The peer that reported it.
        peer: u64,
        /// Where it was reached.
        url: String,
        /// The peer's cluster id; empty if it has none yet.
        cluster: String,
    },
    /// Another node answers at a peer's URL.
    #[error(
        "the scheduler at {url} is node {reported}, but the list of peers names it node {expected}: correct the list of peers"
    )]
    PeerId {
        /// Where.
        url: String,
        /// In the list of peers.
        expected: u64,
        /// What it reported.
        reported: u64,
    },
    /// A message between schedulers was not for this node, or came from a stranger.
    #[error("consensus message refused: {0}")]
    Refused(String),
    /// Nothing was changed; the same call can succeed later.
    #[error("{0}")]
    Unavailable(String),
    /// The command may have been applied, or may yet be.
    #[error("{0}")]
    Unknown(String),
    /// The node was shut down, or ended on a storage error.
    #[error("the consensus layer of node {node} has stopped: {reason}")]
    Stopped {
        /// This node.
        node: u64,
        /// Why.
        reason: String,
    },
    /// Bytes of the log or of a message could not be read.
    #[error("{what} cannot be decoded: {reason}")]
    Decode {
        /// What was read.
        what: String,
        /// Why.
        reason: String,
    },
}

fn cluster_suffix(cluster: &str) -> String {
    if cluster.is_empty() { String::new() } else { format!(" (cluster {cluster})") }
}

fn none_if_empty(text: &str) -> &str {
    if text.is_empty() { "none (it is no member)" } else { text }
}

impl From<Error> for AnchoError {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Config(_)
            | Error::NodeId { .. }
            | Error::ClusterId { .. }
            | Error::Incarnation { .. }
            | Error::PeerId { .. }
            | Error::Refused(_) => ErrorKind::Invalid,
            Error::Storage { .. } | Error::Decode { .. } => ErrorKind::Internal,
            Error::Unavailable(_) | Error::Stopped { .. } => ErrorKind::Unavailable,
            Error::Unknown(_) => ErrorKind::Unknown,
        };
        AnchoError::new(kind, error.to_string())
    }
}

impl From<Error> for tonic::Status {
    fn from(error: Error) -> Self {
        AnchoError::from(error).into()
    }
}

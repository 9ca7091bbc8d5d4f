//! Why an executor could not start or had to stop.
use std::path::PathBuf;

use ancho_common::error::{Error as CommonError, ErrorKind};

/// A fault of the process as a whole. Faults of one partition or request are [`ancho_common::error::Error`]s.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another process works in the directory.
    #[error("data directory {} is in use by another process; stop it or choose another directory", .0.display())]
    InUse(PathBuf),
    /// The directory was made for another cluster.
    #[error(
        "data directory {} belongs to cluster {own}, the schedulers are of cluster {theirs}; \
         use the right scheduler addresses or an empty directory",
        dir.display()
    )]
    OtherCluster {
        /// The directory.
        dir: PathBuf,
        /// Cluster recorded in it.
        own: String,
        /// Cluster of the schedulers.
        theirs: String,
    },
    /// The identity file cannot be understood.
    #[error("{} cannot be read: {reason}; restore it or start with an empty directory", path.display())]
    Identity {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A newer release wrote the directory.
    #[error("{} has format {found}, this release reads up to {supported}; start a newer release", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Format found.
        found: u32,
        /// Newest format known here.
        supported: u32,
    },
    /// A setting cannot be used.
    #[error("{0}")]
    Options(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: std::net::SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file system refused.
    #[error("{doing} {}: {source}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The schedulers do not want this executor.
    #[error("the schedulers refused this executor: {0}")]
    Refused(String),
    /// A part of the process ended that must not.
    #[error("{0}")]
    Stopped(String),
}

/// Result with the executor's error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn io(doing: &'static str, path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { doing, path, source }
    }

    /// What the caller should do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InUse(_) | Self::OtherCluster { .. } | Self::Options(_) | Self::Bind { .. } | Self::Refused(_) => {
                ErrorKind::Invalid
            }
            Self::Identity { .. } => ErrorKind::Corrupt,
            Self::Format { .. } => ErrorKind::Unsupported,
            Self::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => ErrorKind::Exhausted,
            Self::Io { .. } | Self::Stopped(_) => ErrorKind::Internal,
        }
    }
}

impl From<Error> for CommonError {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error.to_string())
    }
}

//! Of which kind an error is: what it means to whoever asked.

use std::path::PathBuf;

use datafusion::error::DataFusionError;

use super::Error;

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        match error {
            Error::DataFusion(inner) => inner,
            other => DataFusionError::External(Box::new(other)),
        }
    }
}

impl Error {
    /// Whether the same request can succeed later without anybody repairing something.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::VersionExpired { .. }
                | Error::VersionNotYetHere { .. }
                | Error::VersionConflict { .. }
                | Error::WriteConflict { .. }
                | Error::FilesChanged { .. }
                | Error::WriteInProgress { .. }
                | Error::InUse { .. }
                | Error::SchemaChanged { .. }
                | Error::DiskAlmostFull { .. }
                | Error::NoRoomForCopy { .. }
                | Error::CopyFailed { .. }
                | Error::OutOfMemory { .. }
        )
    }

    /// Whether the rows or the schema that were given are at fault.
    pub fn is_invalid_input(&self) -> bool {
        matches!(
            self,
            Error::UnsupportedType { .. }
                | Error::BadSchema { .. }
                | Error::BadOption { .. }
                | Error::SchemaChangeRefused { .. }
                | Error::SchemaMismatch { .. }
                | Error::NoKey { .. }
                | Error::BadKey { .. }
                | Error::NullInKey { .. }
                | Error::DuplicateKey { .. }
                | Error::NullInColumn { .. }
                | Error::ValueOutOfRange { .. }
                | Error::InvalidDelete { .. }
                | Error::MixedSchemas { .. }
                | Error::NoPartition
        )
    }

    /// Whether the disk is full, whichever layer noticed.
    pub fn is_disk_full(&self) -> bool {
        if matches!(self, Error::DiskAlmostFull { .. } | Error::NoRoomForCopy { .. }) {
            return true;
        }
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if error.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::StorageFull) {
                return true;
            }
            if let Some(rusqlite::Error::SqliteFailure(failure, _)) = error.downcast_ref()
                && failure.code == rusqlite::ErrorCode::DiskFull
            {
                return true;
            }
            cause = error.source();
        }
        false
    }

    /// Whether data that was acknowledged is gone or wrong.
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Error::FileMissing { .. }
                | Error::FileLength { .. }
                | Error::FileDamaged { .. }
                | Error::VectorDamaged { .. }
                | Error::MetastoreDamaged { .. }
                | Error::ManifestDamaged { .. }
                | Error::CopyDamaged { .. }
        )
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Error::Io { action, path: path.into(), source }
    }
}

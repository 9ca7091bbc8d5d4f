//! The storage engine's errors in Ancho's kinds.
use ancho_common::error::{Error, ErrorKind};

/// Kind and text of an engine error; `doing` says which request met it.
pub(crate) fn from_storage(doing: &str, error: cayenne::Error) -> Error {
    use cayenne::Error as E;
    let kind = match &error {
        full if full.is_disk_full() => ErrorKind::Exhausted,
        E::OutOfMemory { .. } => ErrorKind::Exhausted,
        E::VersionExpired { .. } | E::VersionNotYetHere { .. } | E::SchemaChanged { .. } => ErrorKind::StaleRoute,
        E::UnsupportedType { .. }
        | E::BadSchema { .. }
        | E::BadOption { .. }
        | E::SchemaChangeRefused { .. }
        | E::SchemaMismatch { .. }
        | E::BadKey { .. }
        | E::NullInKey { .. }
        | E::NoKey { .. }
        | E::DuplicateKey { .. }
        | E::NullInColumn { .. }
        | E::ValueOutOfRange { .. } => ErrorKind::Invalid,
        E::Format { .. } | E::ManifestFormat { .. } | E::KeyEncoding { .. } => ErrorKind::Unsupported,
        E::WriteInProgress { .. }
        | E::WriteSealed { .. }
        | E::VersionConflict { .. }
        | E::WriteConflict { .. }
        | E::FilesChanged { .. } => ErrorKind::Conflict,
        E::NoVersionAt { .. } => ErrorKind::NotFound,
        // Nothing of a broken write becomes visible: it can be started again.
        E::InUse { .. } | E::WriterBroken { .. } | E::CopyFailed { .. } => ErrorKind::Unavailable,
        E::DataFusion(_) => {
            let E::DataFusion(inner) = error else { return Error::internal(doing) };
            return Error::from(inner).context(doing);
        }
        damaged if damaged.is_damage() => ErrorKind::Corrupt,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, format!("{doing}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use super::*;

    #[test]
    fn kinds_tell_callers_what_to_do() {
        let place = Arc::new(cayenne::Place { table: "t".into(), partition: "3".into() });
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let kind = |error| from_storage("staging", error).kind;
        let range = cayenne::Error::ValueOutOfRange { place: place.clone(), column: "c".into(), detail: "x".into() };
        assert_eq!(kind(range), ErrorKind::Invalid);
        let broken = cayenne::Error::WriterBroken { place, write_id: uuid::Uuid::new_v4() };
        assert!(kind(broken).retryable());
        let io = cayenne::Error::Io { action: "write", path: "f".into(), source: full() };
        assert_eq!(kind(io), ErrorKind::Exhausted);
        let deep = datafusion::error::DataFusionError::IoError(full());
        assert_eq!(kind(cayenne::Error::DataFusion(deep)), ErrorKind::Exhausted);
    }
}

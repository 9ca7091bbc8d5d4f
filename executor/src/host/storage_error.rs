//! The storage engine's errors in Ancho's kinds.
use ancho_common::error::{Error, ErrorKind};

/// Kind and text of an engine error; `doing` says which request met it.
pub(crate) fn from_storage(doing: &str, error: cayenne::Error) -> Error {
    use cayenne::Error as E;
    let kind = match &error {
        E::VersionExpired { .. } | E::VersionNotYetHere { .. } => ErrorKind::StaleRoute,
        E::UnsupportedType { .. } | E::BadSchema { .. } | E::SchemaMismatch { .. } | E::NullInColumn { .. } => {
            ErrorKind::Invalid
        }
        E::Format { .. } => ErrorKind::Unsupported,
        E::WriteInProgress { .. } | E::WriteSealed { .. } | E::VersionConflict { .. } => ErrorKind::Conflict,
        E::InUse { .. } => ErrorKind::Unavailable,
        E::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => ErrorKind::Exhausted,
        E::DataFusion(_) => {
            let E::DataFusion(inner) = error else { return Error::internal(doing) };
            return Error::from(inner).context(doing);
        }
        damaged if damaged.is_damage() => ErrorKind::Corrupt,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, format!("{doing}: {error}"))
}

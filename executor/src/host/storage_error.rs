//! The storage engine's errors in Ancho's kinds.
use ancho_common::error::{Condition, Error, ErrorKind};

/// Kind and text of an engine error; `doing` says which request met it.
pub(crate) fn from_storage(doing: &str, error: cayenne::Error) -> Error {
    use cayenne::Error as E;
    if let Some(refused) = refused_rows(&error) {
        return refused;
    }
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
        | E::NoKey { .. }
        | E::ValueOutOfRange { .. } => ErrorKind::Invalid,
        E::Format { .. } | E::ManifestFormat { .. } | E::KeyEncoding { .. } => ErrorKind::Unsupported,
        E::WriteInProgress { .. }
        | E::WriteSealed { .. }
        | E::VersionConflict { .. }
        | E::WriteConflict { .. }
        | E::FilesChanged { .. } => ErrorKind::Conflict,
        E::NoVersionAt { .. } => ErrorKind::NotFound,
        // Nothing of a broken write becomes visible: it can be started again.
        E::InUse { .. } | E::Closed { .. } | E::WriterBroken { .. } | E::CopyFailed { .. } => ErrorKind::Unavailable,
        E::DataFusion(_) => {
            let E::DataFusion(inner) = error else { return Error::internal(doing) };
            return Error::from(inner).context(doing);
        }
        damaged if damaged.is_damage() => ErrorKind::Corrupt,
        _ => ErrorKind::Internal,
    };
    Error::new(kind, format!("{doing}: {error}"))
}

/// What the rows of a statement break, told without where they were to be stored.
fn refused_rows(error: &cayenne::Error) -> Option<Error> {
    use cayenne::Error as E;
    let (condition, text) = match error {
        E::DuplicateKey { place, key, within } => {
            let who = if *within { "two rows would get the key" } else { "another row has the key" };
            let text = format!("table {}: {who} {key}; nothing was changed: a key is in one row only", place.table);
            (Condition::DuplicateKey, text)
        }
        E::NullInKey { place, column, .. } => {
            let text = format!(
                "column {column} of table {} is in the primary key, and a row has NULL there; give it a value",
                place.table
            );
            (Condition::NotNull, text)
        }
        E::NullInColumn { place, column, .. } => {
            let text = format!(
                "column {column} of table {} is declared NOT NULL, and a row has NULL there; give it a value",
                place.table
            );
            (Condition::NotNull, text)
        }
        _ => return None,
    };
    Some(Error::invalid(text).with(condition))
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
        let twice = cayenne::Error::DuplicateKey { place: place.clone(), key: "(7)".into(), within: false };
        let null = cayenne::Error::NullInKey { place: place.clone(), column: "k".into(), nulls: 2 };
        for (error, state, text) in [(twice, "23505", "key (7)"), (null, "23502", "column k of table t")] {
            let told = from_storage("staging", error);
            assert!(told.sqlstate() == state && told.message.contains(text), "{told}");
            assert!(!told.message.contains("staging") && !told.message.contains("partition"), "{told}");
        }
        let broken = cayenne::Error::WriterBroken { place, write_id: uuid::Uuid::new_v4() };
        assert!(kind(broken).retryable());
        let io = cayenne::Error::Io { action: "write", path: "f".into(), source: full() };
        assert_eq!(kind(io), ErrorKind::Exhausted);
        let deep = datafusion::error::DataFusionError::IoError(full());
        assert_eq!(kind(cayenne::Error::DataFusion(deep)), ErrorKind::Exhausted);
    }
}

//! What publishing a write does to the number of rows.
use cayenne::{KeyCounts, WriteSummary};

/// Rows that come and go, on the version that the write was last checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Effect {
    /// New rows that will be visible.
    pub(crate) added: u64,
    /// Stored rows that will not be any more.
    pub(crate) removed: u64,
}

impl Effect {
    /// Of a write beside the stored rows.
    pub(crate) fn of(written: &WriteSummary) -> Self {
        match written.keys {
            None => Self { added: written.data.rows, removed: written.deleted_rows },
            Some(KeyCounts { inserted, replaced, deleted, .. }) => {
                Self { added: inserted + replaced, removed: replaced + deleted + written.deleted_rows }
            }
        }
    }

    /// Of a write in place of the stored rows.
    pub(crate) fn of_overwrite(written: &WriteSummary) -> Self {
        Self { added: written.data.rows, removed: 0 }
    }
}

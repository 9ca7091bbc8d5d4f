//! Where a row is, in eight bytes.

/// A row of one of the files that somebody else numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Position {
    /// Number of the file.
    pub(crate) file: u32,
    /// Row in the file, from 0.
    pub(crate) row: u32,
}

impl Position {
    /// No row. No file has this number: it would take 2³² of them.
    pub(crate) const NOWHERE: Self = Self { file: u32::MAX, row: u32::MAX };
}

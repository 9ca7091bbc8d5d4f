//! Rewriting small, old and thinned-out files as few full ones, beside readers and writers.
//!
//! * [`policy`] says which files: a pure function;
//! * [`row_order`] says in which order rows are laid down, with [`scale`] and [`hilbert`] for clustering;
//! * [`options`] holds the triggers and bounds.

pub(crate) mod hilbert;
pub(crate) mod options;
pub(crate) mod policy;
pub(crate) mod row_order;
pub(crate) mod scale;

pub use options::CompactionOptions;
pub use policy::CompactionTrigger;
pub use row_order::RowOrder;

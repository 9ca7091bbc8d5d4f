//! Rewriting small, old and thinned-out files as few full ones, beside readers and writers.
//!
//! * [`policy`] says which files: a pure function;
//! * [`row_order`] says in which order rows are laid down, with [`scale`] and [`hilbert`] for clustering;
//! * [`options`] holds the triggers and bounds, [`resources`] memory and disk space for sorting;
//! * [`pass`] rewrites what was picked;
//! * [`runner`] does so in the background for all partitions of a process.

pub(crate) mod hilbert;
pub(crate) mod options;
pub(crate) mod pass;
pub(crate) mod policy;
pub(crate) mod resources;
pub(crate) mod row_order;
pub(crate) mod runner;
pub(crate) mod scale;

pub use options::CompactionOptions;
pub use pass::CompactionReport;
pub use policy::CompactionTrigger;
pub use resources::{CompactionResources, DEFAULT_MEMORY_FRACTION};
pub use row_order::RowOrder;
pub use runner::{CompactionRunner, CompactionRunnerOptions, CompactionStats};

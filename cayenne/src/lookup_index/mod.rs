//! Secondary indexes: for exact values of some columns, which rows of a data file can have them.
//!
//! ```text
//! rows of a file ─▶ Collector ─▶ sorted (hash of the values, position), in segments ─▶ a run: beside the file, or in the metastore
//!                                                                                     │
//! conditions of a scan ─▶ values of the index's columns ─▶ hashes ─▶ positions ◀──────┘
//! ```
//!
//! An index only says which rows may be read; every condition is still evaluated on them. So two values may share a hash, and
//! a file without a run is read in full. A run holds all rows of its file, deleted or not, and never changes.
//!
//! * [`definition`]: which columns, and what makes two runs of one index;
//! * [`hasher`]: values to hashes;
//! * [`run`]: the bytes of a run, written and searched;
//! * [`collector`]: runs of a data file while it is written;
//! * [`build`]: runs of files that have none;
//! * [`catalog`]: the runs of a partition;
//! * [`values`]: the values that conditions ask for;
//! * [`narrow`]: a scan that reads only the rows that may match.

pub(crate) mod build;
pub(crate) mod catalog;
pub(crate) mod collector;
pub(crate) mod definition;
pub(crate) mod hasher;
pub(crate) mod narrow;
pub(crate) mod run;
pub(crate) mod values;

pub use build::IndexReport;

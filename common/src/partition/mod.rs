//! Partitioning: which rows belong together, under which key, and which partitions a filter can leave out.
//!
//! * [`spec`] – the declared expressions (`bucket(16, k)`, `region`, `year(d)`), checked against a schema
//! * [`functions`] – the SQL functions that partition expressions (and queries) may use: `bucket`, `year`, `month`, …
//! * [`hash`] – the stable hash below `bucket`, part of the stored format
//! * [`key`] – the values of the expressions for one partition, in a canonical textual form
//! * [`split`] – a batch of rows into one batch per key
//! * [`prune`] – partitions that cannot hold a row of a filter
pub mod functions;
pub mod hash;
pub mod key;
pub mod prune;
pub mod spec;
pub mod split;

pub use key::PartitionKey;
pub use spec::{PartitionSpec, Partitioner};

//! What the end-to-end tests stand on: clusters, a client, the SQL corpus, and one DataFusion process to compare with.
//!
//! * [`cluster`] – clusters in this process ([`cluster::in_process`]) and as real processes ([`cluster::processes`])
//! * [`client`] – Flight SQL statements with typed errors
//! * [`corpus`] – the reader of `sql/*.sql`; the format is described in `sql/README.md`
//! * [`reference`](mod@reference) – the same statements in one DataFusion process
//! * [`judge`](mod@judge) – whether a cluster's outcome is the right one
//! * [`object_store`](mod@object_store) – a real S3 server on the loopback address
//! * [`store_proxy`] – the same server, failing in chosen ways
//! * [`wait`], [`ports`], [`turns`], [`runtime`], [`sources`] – the small things
//!
//! The tests themselves are one binary, `tests/suite`, with a module for each subject.
pub mod client;
pub mod cluster;
pub mod corpus;
pub mod history;
pub mod judge;
pub mod object_store;
pub mod ports;
pub mod reference;
pub mod runtime;
pub mod sources;
pub mod store_proxy;
pub mod turns;
pub mod wait;

pub use client::{Answer, Client, Failure};
pub use runtime::run;
pub use wait::wait_until;

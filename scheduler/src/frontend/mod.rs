//! What clients talk to: Flight SQL, HTTP and Prometheus, as thin adapters over one trait.
//!
//! * [`service`] – the trait, implemented by the query side of the scheduler
//! * `boxed` – how a type implements it
//! * [`statements`] – rules that hold for every front end: rows per binding, updates run as queries
//! * [`script`] – a whole transaction in one request
//! * [`caller`] – whether somebody still waits for a statement
//! * [`placeholders`], [`binding`], [`handle`] – parameters numbered, in the types wanted, and carried by the client
//! * [`edge`], [`split`] – Arrow types that leave the cluster, and how much of them at a time
//! * [`flight`] – Flight SQL over gRPC
//! * [`http`] – health, readiness and SQL over HTTP
//! * [`metrics`] – the Prometheus recorder and what is counted
//! * [`server`] – sockets, and an orderly end
pub mod binding;
pub(crate) mod boxed;
pub mod caller;
pub mod edge;
pub mod flight;
pub mod handle;
pub mod http;
pub mod metrics;
pub mod placeholders;
pub mod script;
pub mod server;
pub mod service;
pub mod split;
pub mod statements;
pub mod status;

pub use self::{
    server::{FrontendOptions, Frontends, FrontendsHandle},
    service::{
        CatalogListing, PreparedStatement, QueryStream, Readiness, SharedService, SqlService, StatementKind, TableInfo,
        TableType,
    },
};

#[cfg(test)]
mod tests;

//! What every part of Ancho shares: ids, errors, partitioning, plan nodes, telemetry.
//!
//! This crate knows nothing of Raft, Flight SQL or the storage engine.
pub mod alter;
pub mod assertion;
pub mod compute;
pub mod duration;
pub mod error;
pub mod exact;
pub mod fingerprint;
pub mod ids;
pub mod object_stores;
pub mod partition;
pub mod plan;
pub mod recorder;
pub mod schema;
pub mod snapshot;
pub mod spec;
pub mod storable;

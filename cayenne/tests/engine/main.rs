//! Tests of the engine through its public interface, on real files.

mod alter;
mod any_type;
mod columns;
mod compaction;
mod crash;
mod deletes;
mod format;
mod harness;
mod model;
mod query;
mod resources;
mod roundtrip;
mod types;
mod versions;

//! Tests of the engine through its public interface, on real files.

mod alter;
mod any_type;
mod columns;
mod compaction;
mod crash;
mod deletes;
mod failing_step;
mod file_order;
mod format;
mod harness;
mod key_speed;
mod key_types;
mod keyed;
mod keyed_crash;
mod keyed_model;
mod keyed_rewrites;
mod keys;
mod model;
mod query;
mod resources;
mod roundtrip;
mod small_writes;
mod transactions;
mod transfer;
mod types;
mod versions;

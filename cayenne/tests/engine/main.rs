//! Tests of the engine through its public interface, on real files.

mod crash;
mod deletes;
mod format;
mod harness;
mod key_speed;
mod key_types;
mod keyed;
mod keyed_model;
mod keys;
mod model;
mod query;
mod roundtrip;
mod versions;

//! Tests of the engine through its public interface, on real files.

mod crash;
mod harness;
mod query;
mod roundtrip;
mod versions;

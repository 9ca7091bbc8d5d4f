//! A seeded simulation of the control plane.
//!
//! Schedulers, executors and clients run in one thread, on a simulated clock and a simulated network, and one seed decides
//! everything: delays, losses, repetitions, cut ways, crashes with and without their disk, processes that stop and go on,
//! elections, clocks of different speed and wall clocks that jump. The [`oracle`] checks the named invariants after each step.
//!
//! What decides is the product's own code, called from a thin simulated process around it:
//!
//! | of the product | in the simulation |
//! |---|---|
//! | `ClusterState::apply`, its stored form, `violations`, the memory of requests | applied by each scheduler from its own log |
//! | `placement::{plan, stamp, moves}` | the leader, before it writes |
//! | `sessions::moving` | the leader, who carries moves on |
//! | `sessions::{ledger, claims, assignments}` | the leader's end of a session |
//! | `Lease`, `Unacknowledged`, `Assignments`, `host::tenure` | the executor's end of it, and its partitions |
//!
//! The log under it is a model ([`raft`]) with the rules of the library, as are the steps of a write and of a read between these
//! decisions ([`scheduler`]) and the disk ([`disk`]).
//!
//! `tests/seeds.rs` runs 200 seeds, `ANCHO_SIM_RUNS` sets another number, `ANCHO_SIM_SEED` runs one with its trace.
//!
//! A new command of the state needs a place that proposes it ([`scheduler`]) and, where it promises something, a check in the
//! [`oracle`]; everything it does to assignments and epochs is checked without being named.
pub mod client;
pub mod clock;
pub mod context;
pub mod disk;
pub mod executor;
pub mod fault;
pub mod message;
pub mod network;
pub mod oracle;
pub mod raft;
pub mod run;
pub mod scheduler;
pub mod settings;
pub mod world;

pub use run::{Report, run};

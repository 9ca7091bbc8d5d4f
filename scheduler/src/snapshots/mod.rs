//! Snapshots of tables in object stores, made by whichever scheduler holds the table's lease.
//!
//! ```text
//!   lease through the log ─► owners upload their partitions ─► set ─► head, by a conditional write ─► noted in the log
//! ```
//!
//! A snapshot is one table at one commit. What is uploaded before the head changes is named by nobody; what happens after it
//! changes nothing in the store. So a scheduler may die, or be overtaken, at any point.
//!
//! * [`publisher`] – makes a snapshot
//! * `lease` – the right to, kept while the work goes on
//! * `place` – where snapshots of a table go, and whether that place can be trusted
//! * [`contents`] – what is listed, and the rows of a snapshot; `pins`: which one readers are given
//! * [`automatic`] – snapshots that are made unasked; `due`: when
//! * [`mirroring`] – what other clusters publish is brought here; `mirrors`: when it is looked for
//! * `cleanup` – what no snapshot names goes
//! * `metrics` – what is counted
pub mod automatic;
mod cleanup;
pub mod contents;
mod due;
mod lease;
pub(crate) mod metrics;
pub mod mirroring;
mod mirrors;
mod pins;
mod place;
pub mod publisher;

pub use self::{
    place::location_of,
    publisher::{Made, Publisher},
};

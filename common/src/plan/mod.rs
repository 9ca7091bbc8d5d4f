//! Plan nodes of Ancho's own, and what carries them between processes.
//!
//! * [`scan`] – the leaf of every query: partitions pinned to their owners
//! * [`snapshot_scan`] – the leaf of what reads a snapshot in an object store
//! * [`write`] – routes rows to the owners of their partitions
//! * [`changes`] – what the rows that a write is given stand for
//! * [`row_ids`] – hidden columns that name stored rows
//! * [`pace`], [`pacing`] – what keeps operators from holding a thread for long, and where it goes
//! * [`figures`] – what our nodes tell `EXPLAIN ANALYZE`
//! * [`csv`] – reads CSV files
//! * [`codec`] – all of them, as bytes
//! * [`host`] – what an executor offers to the leaf
//! * [`router`] – the sending side of a write
//! * [`channels`] – connections between processes
//! * [`reports`] – every task reports what it took
//! * [`running`] – queries whose stages run in this process
//! * [`session`] – what every session has in common, on schedulers and executors
pub mod changes;
pub mod channels;
pub mod codec;
pub mod csv;
pub mod figures;
pub mod host;
pub mod pace;
pub mod pacing;
pub mod reports;
pub mod router;
pub mod row_ids;
pub mod running;
pub mod scan;
pub mod session;
pub mod snapshot_scan;
pub mod write;

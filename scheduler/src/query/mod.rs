//! One statement from text to rows or to a count.
//!
//! * [`statement`] – what a text asks for
//! * [`engine`] – the service behind the front ends
//! * [`computed`] – the same, on threads apart from those of the network
//! * [`attempt`] – one try at planning and running a query on one view of the cluster
//! * [`names`] – result columns of one name; `merged`: columns that joins merge
//! * [`rows`] – rows as values, taken apart; [`casts`]: casts that show in names;
//!   [`forms`]: what means the same; `calls`: likewise, of calls and operators
//! * `positions` – numbers of columns in grouping sets
//! * `precedence` – operands that the parser takes too far
//! * [`recent`] – plans of announced queries, kept until they are run
//! * [`retry`] – tries again while a partition has no serving owner, as long as no row was sent
//! * [`change`] – `DELETE`, `UPDATE`, `MERGE`, `TRUNCATE` as queries that name rows
//! * [`copy`] – rows of files into tables, and of queries into files
//! * `ingest` – rows that a client sends
//! * [`explain`] – the distributed plan as text; `explained`: of what; `figures`: of nodes that measure nothing
//! * [`write`] – stage on the owners, one commit, publish
//! * `optimize` – the files of a table are rewritten
//! * [`load`] – the first load of a table, kept alive and taken back
//! * `transaction` – several statements that read one state and commit as one
//! * `as_of` – tables as they were
//! * [`alter`] – `ALTER TABLE`
//! * [`ddl`] – `CREATE TABLE`, and the names of tables
//! * [`apply`] – datasets: declared tables that mirror files
//! * [`mirror`] – datasets that mirror what another cluster publishes
//! * [`source`] – the files of a dataset; [`csv_format`]: how those of text are read
//! * [`assigner`] – changes of the replicated state, and partitions that a write meets for the first time
//! * `snapshots` – `ancho snapshot`; `snapshot_sql`: the statements
//! * `verify` – what executors hold is read again
//! * [`status`] – the cluster at a glance
pub mod alter;
pub mod apply;
mod as_of;
pub mod assigner;
pub mod attempt;
mod calls;
pub mod casts;
pub mod change;
pub mod computed;
pub mod copy;
pub mod csv_format;
pub mod ddl;
pub mod engine;
pub mod explain;
mod explained;
mod figures;
pub mod forms;
mod ingest;
pub mod load;
pub mod members;
mod merged;
pub mod mirror;
pub mod names;
pub(crate) mod optimize;
mod positions;
mod precedence;
pub mod recent;
pub mod retry;
pub mod rows;
mod service;
mod snapshot_sql;
mod snapshots;
pub mod source;
pub mod statement;
pub mod status;
mod transaction;
mod verify;
pub mod write;

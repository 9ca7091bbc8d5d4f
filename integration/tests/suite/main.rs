//! The end-to-end tests: one binary, since each links the whole query engine, with a module for each subject.
//!
//! * `cases` – cases of the collected catalogue that have no other home
//! * `changes` – statements that change rows
//! * `copying` – `COPY` between tables and files
//! * `differential` – the SQL corpus and TPC-H, in one process and on clusters
//! * `engine` – what the storage engine can do, as a cluster's user sees it
//! * `loading` – datasets from files and from S3
//! * `snapshots` – tables in object stores
//! * `transactions` – several statements that commit as one
//! * `flight_sql_adbc` – the ADBC driver as a client
//! * `abandoned` – statements whose client is gone, or whose time is over
//! * `crash_matrix` – an executor that dies, or whose disk is full, exactly at each durable step
//! * `leader_kill`, `executor_kill` – nodes killed while statements run
//! * `without_majority` – what a scheduler that reaches no majority shows
//! * `mistakes` – what users get for statements that are wrong
//! * `replacing` – tables replaced, by datasets and by statements, and what is left when that fails
//! * `corpus_format` – the reader of the corpus
//! * `scaling` – executors that join and leave while statements run
//! * `tidy` – rules for the source tree
mod abandoned;
mod cases;
mod changes;
mod copying;
mod corpus_format;
mod crash_matrix;
mod differential;
mod engine;
mod executor_kill;
mod flight_sql_adbc;
mod leader_kill;
mod loading;
mod mistakes;
mod replacing;
mod scaling;
mod snapshots;
mod tidy;
mod transactions;
mod without_majority;

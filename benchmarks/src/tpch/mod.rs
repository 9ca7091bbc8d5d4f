//! The TPC-H benchmark: its eight tables, generated data, 22 queries and reference answers.

pub mod answers;
pub mod generate;
pub mod parquet;
pub mod queries;
pub mod schema;

pub use answers::{AnswerKey, check_answer};
pub use generate::{BATCH_ROWS, generate};
pub use parquet::{GeneratedData, Progress, write_parquet};
pub use queries::{QUERIES, Query, query};
pub use schema::{DEFAULT_BUCKETS, Table};

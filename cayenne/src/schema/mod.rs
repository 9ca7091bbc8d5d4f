//! The columns of a table over time.
//!
//! A field keeps one **stored name** for life: its name in the data files. Renaming changes only what the table calls it, and
//! a field that is dropped never lends its stored name to another one, so old files cannot be mistaken:
//!
//! ```text
//!   version 1   a INT, b TEXT            stored as  a, b
//!   RENAME a TO c; ADD a DATE; c BIGINT
//!   version 4   c BIGINT, b TEXT, a DATE stored as  a, b, a~3
//!   a file of version 1 read as version 4:  cast(a), b, NULL
//! ```
//!
//! * [`table_schema`]: both names of every field, and what missing columns read as;
//! * [`change`]: one step from a schema to the next, or why not;
//! * [`widen`]: which types can become which without losing a value.

pub(crate) mod change;
pub(crate) mod table_schema;
pub(crate) mod widen;

pub use change::SchemaChange;
pub(crate) use table_schema::TableSchema;

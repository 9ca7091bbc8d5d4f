//! Tables with a primary key: finding the stored rows of keys, and what a write means for them.
//!
//! ```text
//! StagedWriter ─▶ KeyedRows ─▶ finish: repeats of the write itself are hidden, effects are counted
//!                                │
//! publish / rebase ──────────────┴─▶ resolve against the newest version ─▶ rows to hide, then the commit
//! ```
//!
//! What a write leaves of its own rows is fixed when it is finished. What it does to stored rows is worked out anew
//! when it is published, so the later commit wins whatever came between, and no stored file has to stay for a write
//! that is only staged.
//!
//! * [`Keyed`]: the key of an open partition, its index, and the order of commits;
//! * [`reader`]: keys of stored and staged files;
//! * [`rows`]: the keys of a write while it is written;
//! * [`resolve`]: a write against the stored rows;
//! * [`carry`]: deletes of rows that are being rewritten;
//! * [`lookup`]: rows by key.

pub(crate) mod carry;
pub(crate) mod lookup;
pub(crate) mod reader;
pub(crate) mod resolve;
pub(crate) mod rows;
mod state;

pub(crate) use state::{CommitGuard, Indexed, Keyed};

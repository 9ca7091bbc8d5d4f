//! Primary keys: one row per key.
//!
//! ```text
//! batch ─▶ KeyEncoder ─▶ Keys ─▶ WriteKeys            what one write leaves of each key (arrival or time)
//!                                   │
//!                                   ▼
//!                               resolve ◀── KeyIndex   where the stored row of a key is
//!                                   │
//!                                   ▼
//!                   positions to hide: of stored rows, and of rows that came too late
//! ```
//!
//! * [`spec`]: which columns are the key, and what a table may say about it;
//! * [`encoder`]: rows to keys that compare and hash as the values do;
//! * [`store`], [`map`], [`position`] and [`times`]: keys with what is known of each, in few bytes;
//! * [`write_keys`]: repeats inside one write, over any number of batches;
//! * [`bloom`] and [`index`]: the stored keys within a budget of memory, which [`memory`] keeps account of;
//! * [`key_set`]: keys as bytes, for the metastore.
//!
//! Nothing here does I/O; what must be read from files is asked of the caller.

pub(crate) mod bloom;
pub(crate) mod encoder;
pub(crate) mod index;
pub(crate) mod key_set;
pub(crate) mod map;
pub(crate) mod memory;
pub(crate) mod position;
pub(crate) mod spec;
pub(crate) mod store;
pub(crate) mod times;
pub(crate) mod write_keys;

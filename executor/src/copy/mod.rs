//! Copies of partitions that come from other executors, and the files that these come for.
//!
//! ```text
//!   owner                               target
//!     Export ◄─────────────────────────── a manifest of the newest version, pinned for as long as it is read
//!     Read   ◄─────────────────────────── ranges of its files ─► copies/<id>/v<version>/
//!                                         … and again, with the files that are here, until the schedulers make it the owner:
//!                                         then the directory goes to partitions/<id>
//! ```
//!
//! * [`service`] – what an owner gives
//! * `peer` – how it is asked, and how fast
//! * `shelf` – the directories of copies
//! * [`copies`] – the work: which partitions, round after round
pub mod copies;
mod peer;
pub mod service;
mod shelf;

pub(crate) use self::shelf::put_in_place;
pub use self::{
    copies::{Copies, CopyReport, CopyWanted},
    service::TransferService,
};

//! Copies of a partition: a committed version as a manifest, and a manifest with its files as a partition.
//!
//! ```text
//! PinnedVersion::export ─▶ PartitionManifest (JSON)  ─┐
//!                                                     ├─▶ Partition::install ─▶ an open partition at that version
//! FileSource::read(file, range) … ────────────────────┘      files fetched, hashed, synced; partition.db last
//! ```
//!
//! * [`manifest`] – what a manifest says, and the checks before it is used
//! * [`encoding`] – checksums and bytes as JSON has them
//! * `export` – a pinned version as a manifest
//! * [`source`] – where the bytes of data files come from: another directory, a peer, an object store
//! * `fetch` – data files into a directory: by ranges, verified, resumable
//! * `install` – the order of steps, so that a half-made copy is never opened
//!
//! * [`staged`] – the same for a staged write, which a replica stages too
//! * `align` – a replica takes over how the rows of its version lie in files
//!
//! Manifest and files say all that the version's rows need, deleted rows and the last write included. Staged writes and
//! older versions are not part of a copy.

mod align;
pub mod encoding;
mod export;
pub(crate) mod fetch;
mod install;
pub mod manifest;
pub mod source;
pub mod staged;

pub use align::Alignment;
pub use install::{InstallLimit, InstallOptions, InstallProgress};
pub use manifest::{ManifestFile, PartitionManifest};
pub use source::FileSource;
pub use staged::{StagedFiles, StagedManifest};

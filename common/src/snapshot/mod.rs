//! Snapshots of tables in an object store: what lies where, what the documents say, and how they change.
//!
//! ```text
//! <location>/v1/dataset=<name>/metadata.json                           the head: which snapshots there are
//!                              sets/<id>.json                          a set: one snapshot, a manifest per partition
//!                              layout=<table>/<key>/month=…/day=…/<name>_<time>_<id>.cayenne     manifests
//!                              files/<id>.vortex                       data files, shared by all snapshots
//! ```
//!
//! Everything but the head is written once, under a name that nobody else takes. The head changes by conditional writes only
//! and refuses whoever comes with an older epoch, so that the objects it names are complete, and a publisher that was
//! overtaken changes nothing.
//!
//! * [`location`] – where snapshots go, and how the place is reached
//! * [`names`] – keys of objects
//! * [`policy`] – what a table's options say about its snapshots
//! * [`head`], [`set`] – the documents; pure
//! * [`reader`] – which snapshot those take who serve what is published; pure
//! * [`store`] – objects of a location, with conditional writes on S3 and in folders
//! * `folder` – a folder as a store
//! * [`change`] – changes of the head: tried again, recognised when the answer was lost
//! * [`probe`] – whether a store keeps the conditions of writes
pub mod change;
mod folder;
pub mod head;
pub mod location;
pub mod names;
pub mod policy;
pub mod probe;
pub mod reader;
pub mod set;
pub mod store;

pub use self::{
    head::{Fenced, Head, HeadEntry},
    location::SnapshotLocation,
    reader::Served,
    set::{SetPartition, SnapshotSet, StoredObject},
    store::SnapshotStore,
};

/// Version of the documents. Others are not read.
pub const FORMAT: u32 = 1;

/// What wrote the data files.
pub const ENGINE: &str = "cayenne";

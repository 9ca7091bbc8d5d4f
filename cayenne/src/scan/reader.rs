//! Reads data files from the partition directory.

use std::sync::Arc;

use chrono::DateTime;
use datafusion::common::DataFusionError;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::Result as DFResult;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use vortex::array::memory::MemorySessionExt;
use vortex::io::VortexReadAt;
use vortex::io::session::RuntimeSessionExt;
use vortex::io::std_file::FileReadAt;
use vortex::session::VortexSession;
use vortex_datafusion::reader::VortexReaderFactory;

use crate::error::Error;
use crate::pin::PinnedVersion;
use crate::state::DataFile;

/// A data file and the pin that keeps it. Travels inside the plan.
#[derive(Debug, Clone)]
pub(crate) struct PinnedFile {
    pub(crate) pin: PinnedVersion,
    pub(crate) file: Arc<DataFile>,
}

impl PinnedFile {
    /// The same file in DataFusion's form. Its location is for people and caches: table, partition and the
    /// unique name of the file; the bytes are found through the extension.
    pub(crate) fn partitioned_file(&self) -> PartitionedFile {
        let place = &self.pin.inner().place;
        let name = self.file.name.rsplit('/').next().unwrap_or(&self.file.name);
        let meta = ObjectMeta {
            location: ObjectPath::from_iter([place.table.as_str(), place.partition.as_str(), name]),
            last_modified: DateTime::UNIX_EPOCH,
            size: self.file.summary.bytes,
            e_tag: None,
            version: None,
        };
        PartitionedFile::new_from_meta(meta)
            .with_statistics(Arc::clone(&self.file.statistics))
            .with_extension(self.clone())
    }
}

/// Opens the file that the extension names, with positional reads on blocking threads. No object store is involved.
#[derive(Debug)]
pub(crate) struct LocalReaderFactory;

impl VortexReaderFactory for LocalReaderFactory {
    fn create_reader(&self, file: &PartitionedFile, session: &VortexSession) -> DFResult<Arc<dyn VortexReadAt>> {
        let Some(pinned) = file.extension::<PinnedFile>() else {
            return Err(DataFusionError::Internal(format!("file '{}' does not come from a partition", file.path())));
        };
        let inner = pinned.pin.inner();
        // A file that was cut short or replaced behind our back must not look like one with fewer rows.
        inner.check_length(&pinned.file)?;
        let reader = FileReadAt::open_with_allocator(&pinned.file.path, session.handle(), session.allocator())
            .map_err(|source| Error::Vortex {
                place: Arc::clone(&inner.place),
                action: "open",
                file: pinned.file.name.clone(),
                source: Box::new(source),
            })?;
        Ok(Arc::new(reader))
    }
}

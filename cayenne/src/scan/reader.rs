//! Reads data files from the partition directory.

use std::sync::Arc;

use chrono::DateTime;
use datafusion::common::{DataFusionError, ScalarValue};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::Result as DFResult;
use datafusion::physical_plan::metrics::Count;
use futures::future::BoxFuture;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use roaring::RoaringTreemap;
use vortex::array::buffer::BufferHandle;
use vortex::array::memory::MemorySessionExt;
use vortex::buffer::{Alignment, Buffer};
use vortex::error::VortexResult;
use vortex::io::session::RuntimeSessionExt;
use vortex::io::std_file::FileReadAt;
use vortex::io::{CoalesceConfig, VortexReadAt};
use vortex::scan::selection::Selection;
use vortex::scan::strict_sorted_buffer::StrictSortedBuffer;
use vortex::session::VortexSession;
use vortex_datafusion::VortexAccessPlan;
use vortex_datafusion::reader::VortexReaderFactory;

use crate::error::{Error, Result};
use crate::pin::PinnedVersion;
use crate::row_id;
use crate::state::VisibleFile;

/// A data file and the pin that keeps it. Travels inside the plan.
#[derive(Debug, Clone)]
pub(crate) struct PinnedFile {
    pub(crate) pin: PinnedVersion,
    pub(crate) entry: VisibleFile,
    /// Read these rows only, none of which is deleted.
    only: Option<Arc<RoaringTreemap>>,
}

impl PinnedFile {
    pub(crate) fn new(pin: &PinnedVersion, entry: &VisibleFile) -> Self {
        Self { pin: pin.clone(), entry: entry.clone(), only: None }
    }

    /// Rows of a file by their positions.
    pub(crate) fn rows(pin: &PinnedVersion, entry: &VisibleFile, positions: RoaringTreemap) -> Self {
        Self { pin: pin.clone(), entry: entry.clone(), only: Some(Arc::new(positions)) }
    }

    /// How many rows are read, if they are known by their positions.
    pub(crate) fn selected_rows(&self) -> Option<u64> {
        self.only.as_ref().map(|rows| rows.len())
    }

    /// The same file in DataFusion's form. Its location is for people and caches: table, partition and the
    /// unique name of the file; the bytes are found through the extension. Deleted rows are left out. `row_ids` asks for the file's
    /// id as the value of a partition column.
    pub(crate) fn partitioned_file(&self, row_ids: bool) -> Result<PartitionedFile> {
        let place = &self.pin.inner().place;
        let file = &self.entry.file;
        let name = file.name.rsplit('/').next().unwrap_or(&file.name);
        let meta = ObjectMeta {
            location: ObjectPath::from_iter([place.table.as_str(), place.partition.as_str(), name]),
            last_modified: DateTime::UNIX_EPOCH,
            size: file.summary.bytes,
            e_tag: None,
            version: None,
        };
        let mut partitioned = PartitionedFile::new_from_meta(meta);
        if row_ids {
            partitioned.partition_values = vec![ScalarValue::Utf8View(Some(row_id::file_text(file.id)))];
        }
        let partitioned = partitioned.with_statistics(Arc::clone(self.entry.statistics())).with_extension(self.clone());
        let selected = match (&self.only, &self.entry.deleted) {
            (Some(only), _) => positions(only).map(Selection::IncludeByIndex),
            (None, Some(deleted)) => deleted.selection(),
            (None, None) => return Ok(partitioned),
        };
        let selected = selected.map_err(|source| Error::Vortex {
            place: Arc::clone(place),
            action: "select rows of",
            file: file.name.clone(),
            source: Box::new(source),
        })?;
        Ok(partitioned.with_extension(VortexAccessPlan::default().with_selection(selected)))
    }
}

fn positions(rows: &RoaringTreemap) -> VortexResult<StrictSortedBuffer<u64>> {
    StrictSortedBuffer::try_new(rows.iter().collect::<Buffer<u64>>())
}

/// Opens the file that the extension names, with positional reads on blocking threads. No object store is involved.
#[derive(Debug)]
pub(crate) struct LocalReaderFactory {
    /// Counts what is read of files.
    pub(crate) bytes_read: Count,
    /// Counts how often.
    pub(crate) reads: Count,
}

/// Small pieces that lie beside each other are read at once; large ones only when they are wanted, each by itself. The reader would also
/// read what lies near and is wanted perhaps, such as the blocks that a filter turns out to exclude: on a local disk that is dearer
/// than one more read.
const TOGETHER: CoalesceConfig = CoalesceConfig::new(8 << 10, 256 << 10);

/// Counts the bytes that are asked of a reader.
struct CountedReads<R> {
    reader: R,
    bytes: Count,
    reads: Count,
}

impl<R: VortexReadAt> VortexReadAt for CountedReads<R> {
    fn uri(&self) -> Option<&Arc<str>> {
        self.reader.uri()
    }

    fn coalesce_config(&self) -> Option<CoalesceConfig> {
        Some(TOGETHER)
    }

    fn concurrency(&self) -> usize {
        self.reader.concurrency()
    }

    fn size(&self) -> BoxFuture<'static, VortexResult<u64>> {
        self.reader.size()
    }

    fn read_at(
        &self,
        offset: u64,
        length: usize,
        alignment: Alignment,
    ) -> BoxFuture<'static, VortexResult<BufferHandle>> {
        self.bytes.add(length);
        self.reads.add(1);
        self.reader.read_at(offset, length, alignment)
    }
}

impl VortexReaderFactory for LocalReaderFactory {
    fn create_reader(&self, file: &PartitionedFile, session: &VortexSession) -> DFResult<Arc<dyn VortexReadAt>> {
        let Some(pinned) = file.extension::<PinnedFile>() else {
            return Err(DataFusionError::Internal(format!("file '{}' does not come from a partition", file.path())));
        };
        let inner = pinned.pin.inner();
        // A file that was cut short or replaced behind our back must not look like one with fewer rows.
        inner.check_length(&pinned.entry.file)?;
        let reader = FileReadAt::open_with_allocator(&pinned.entry.file.path, session.handle(), session.allocator())
            .map_err(|source| Error::Vortex {
                place: Arc::clone(&inner.place),
                action: "open",
                file: pinned.entry.file.name.clone(),
                source: Box::new(source),
            })?;
        Ok(Arc::new(CountedReads { reader, bytes: self.bytes_read.clone(), reads: self.reads.clone() }))
    }
}

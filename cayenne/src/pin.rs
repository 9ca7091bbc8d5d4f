//! A pinned version: a promise that its files stay.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use uuid::Uuid;

use crate::partition::{Inner, Partition};
use crate::state::{VersionView, VisibleFile};
use crate::stats::DataSummary;

/// A version that stays readable as long as this value or a clone of it lives. Plans made by
/// [`scan`](crate::scan) hold one themselves.
#[derive(Clone)]
pub struct PinnedVersion {
    guard: Arc<Guard>,
}

/// A data file as a pinned version shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct FileInfo {
    /// Its identity, the same wherever the file is copied to.
    pub id: Uuid,
    /// Rows that a reader sees.
    pub rows: u64,
    /// Rows that the file holds besides and that are deleted.
    pub deleted_rows: u64,
    /// The generation whose deletes the file's rows have seen: that in which they were published, or that from which they were
    /// rewritten.
    pub sequence: u64,
    /// What the file holds, deleted or not.
    pub stored: DataSummary,
}

struct Guard {
    inner: Arc<Inner>,
    view: VersionView,
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.inner.state.lock().unpin(&self.view);
    }
}

impl PinnedVersion {
    pub(crate) fn new(inner: Arc<Inner>, view: VersionView) -> Self {
        Self { guard: Arc::new(Guard { inner, view }) }
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.guard.view.version
    }

    /// The partition.
    pub fn partition(&self) -> Partition {
        Partition { inner: Arc::clone(&self.guard.inner) }
    }

    /// The schema of this version.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.guard.view.schema.logical)
    }

    /// What this version holds.
    pub fn summary(&self) -> &DataSummary {
        &self.guard.view.summary
    }

    /// The state of the files that is pinned. Replacing files gives a version another one, with the same rows.
    pub fn generation(&self) -> u64 {
        self.guard.view.generation
    }

    /// The data files, in the order in which they became part of the partition.
    pub fn data_files(&self) -> Vec<FileInfo> {
        let info = |entry: &VisibleFile| FileInfo {
            id: entry.file.id,
            rows: entry.rows(),
            deleted_rows: entry.deleted_rows(),
            sequence: entry.sequence,
            stored: entry.summary().clone(),
        };
        self.view().files.iter().map(info).collect()
    }

    pub(crate) fn view(&self) -> &VersionView {
        &self.guard.view
    }

    pub(crate) fn files(&self) -> &[VisibleFile] {
        &self.guard.view.files
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.guard.inner
    }
}

impl fmt::Debug for PinnedVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedVersion")
            .field("partition", &self.guard.inner.identity)
            .field("version", &self.version())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema};
    use tempfile::TempDir;
    use uuid::Uuid;

    use super::PinnedVersion;
    use crate::{Partition, PartitionIdentity, PartitionOptions, WriteMode, WriteOptions};

    fn created(home: &TempDir) -> Partition {
        let schema = Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)]));
        let identity = PartitionIdentity { table: "t".to_owned(), partition: "0".to_owned(), partition_id: 1 };
        Partition::create(&home.path().join("p"), identity, schema, PartitionOptions::default()).unwrap()
    }

    /// Adds ten rows, and deletes one of the first file if asked for.
    async fn write(partition: &Partition, mode: WriteMode, delete: bool) {
        let (write_id, pin) = (Uuid::new_v4(), partition.pin(None).unwrap());
        let options = WriteOptions { base_version: Some(pin.version()), ..WriteOptions::default() };
        let mut writer = partition.begin_write_with(write_id, mode, options).await.unwrap();
        if delete {
            writer.delete_rows(pin.data_files()[0].id, [3]).unwrap();
        }
        let rows = Arc::new(Int64Array::from_iter_values(0..10));
        writer.write(RecordBatch::try_new(partition.schema(), vec![rows]).unwrap()).await.unwrap();
        writer.finish().await.unwrap();
        partition.publish(write_id, pin.version() + 1).await.unwrap();
    }

    fn share(a: &PinnedVersion, b: &PinnedVersion) -> bool {
        Arc::ptr_eq(&a.view().files, &b.view().files) && Arc::ptr_eq(&a.view().summary, &b.view().summary)
    }

    /// What scans read is made once for each state of the files and shared, and nobody is given that of before a change.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn scans_share_what_they_read_until_it_changes() {
        let home = TempDir::new().unwrap();
        let partition = created(&home);
        let mut before = partition.pin(None).unwrap();
        for (mode, delete, rows) in [
            (WriteMode::Append, false, 10),
            (WriteMode::Append, true, 19),
            (WriteMode::Overwrite, false, 10),
            (WriteMode::Append, false, 20),
        ] {
            write(&partition, mode, delete).await;
            let (first, second) = (partition.pin(None).unwrap(), partition.pin(None).unwrap());
            assert!(share(&first, &second) && !share(&first, &before));
            assert_eq!(first.summary().rows, rows);
            before = first;
        }
        // The same rows in other files.
        let resources = crate::CompactionResources::new(32 << 20, None).unwrap();
        assert_eq!(partition.compact_all(&resources).await.unwrap().passes, 1);
        let after = partition.pin(None).unwrap();
        assert!(!share(&after, &before) && share(&after, &partition.pin(None).unwrap()));
        assert_eq!((after.version(), after.data_files().len()), (before.version(), 1));
    }

    /// Whoever pins beside a writer has one version as a whole, and never one older than what was published before.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_pin_beside_a_writer_is_of_one_version() {
        let home = TempDir::new().unwrap();
        let partition = created(&home);
        let reader = partition.clone();
        let reading = std::thread::spawn(move || {
            let (mut last, mut seen) = (0, 0);
            while last < 12 {
                let oldest = reader.version();
                let pin = reader.pin(None).unwrap();
                assert!(pin.version() >= oldest.max(last), "version {} after {oldest} and {last}", pin.version());
                assert_eq!(pin.summary().rows, 10 * pin.version());
                assert_eq!(pin.data_files().len() as u64, pin.version());
                last = pin.version();
                seen += 1;
            }
            seen
        });
        for version in 1..=12 {
            write(&partition, WriteMode::Append, false).await;
            assert_eq!(partition.pin(None).unwrap().version(), version);
        }
        assert!(reading.join().unwrap() > 0);
    }
}

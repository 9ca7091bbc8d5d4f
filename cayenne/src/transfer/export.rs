//! A pinned version as a manifest.

use std::sync::Arc;

use super::manifest::PartitionManifest;
use crate::error::Result;
use crate::pin::PinnedVersion;

impl PinnedVersion {
    /// Everything about this version but the bytes of its data files, which the pin keeps and
    /// [`FileSource::read`](super::FileSource::read) gives.
    ///
    /// # Errors
    /// Of the metastore.
    pub async fn export(&self) -> Result<PartitionManifest> {
        let pin = self.clone();
        let export = move |inner: &Arc<crate::partition::Inner>| {
            let view = pin.view();
            inner.metastore.lock().export(&inner.identity, view.version, view.generation)
        };
        self.partition().blocking("exporting a version", export).await
    }
}

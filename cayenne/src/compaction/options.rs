//! When files are rewritten, and how much at once.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::options::Compression;

/// Triggers and bounds of compaction. The defaults suit tables that are written now and then.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactionOptions {
    /// This many small files, of less than a quarter of the partition's
    /// [`target_file_bytes`](crate::PartitionOptions::target_file_bytes), start a pass (`cayenne_compaction_trigger_files`).
    pub trigger_files: usize,
    /// As many commits whose files were never rewritten start a pass (`cayenne_compaction_trigger_protected_snapshots`).
    pub trigger_commits: usize,
    /// A file that was never rewritten and is this old starts a pass; `None` for never
    /// (`cayenne_compaction_trigger_snapshot_age_ms`).
    pub trigger_age: Option<Duration>,
    /// This many key tombstones that a file was not rewritten under start a pass (`cayenne_bake_deletion_index_trigger`).
    pub trigger_tombstones: u64,
    /// A file is rewritten when at least this share of its rows is deleted, in (0, 1].
    pub trigger_deleted_share: f64,
    /// How often a [`CompactionRunner`](crate::CompactionRunner) looks at the partition although nothing was written; `None`
    /// for never (`cayenne_compaction_background_interval_ms`).
    pub interval: Option<Duration>,
    /// Passes that may follow each other after one trigger (`cayenne_compaction_max_levels`).
    pub max_levels: usize,
    /// Files that one pass reads (`cayenne_compaction_max_files_per_pick`).
    pub max_files_per_pick: usize,
    /// How rewritten rows are encoded.
    pub compression: Compression,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        Self {
            trigger_files: 8,
            trigger_commits: 8,
            trigger_age: Some(Duration::from_secs(300)),
            trigger_tombstones: 50_000,
            trigger_deleted_share: 0.2,
            interval: Some(Duration::from_secs(30)),
            max_levels: 3,
            max_files_per_pick: 32,
            compression: Compression::default(),
        }
    }
}

impl CompactionOptions {
    /// The defaults for tables that are written all the time.
    pub fn streaming() -> Self {
        let (interval, trigger_age) = (Some(Duration::from_secs(10)), Some(Duration::from_secs(60)));
        Self { trigger_files: 4, trigger_commits: 4, trigger_age, interval, ..Self::default() }
    }

    /// The options with what is too small to work raised: triggers and picks to 2 files, levels to 1; an age or an interval of zero is none.
    ///
    /// # Errors
    /// [`Error::BadOption`] for a tombstone trigger of zero, and for a share outside (0, 1].
    pub fn checked(mut self) -> Result<Self> {
        let refuse = |option: &'static str, detail: &str| Err(Error::BadOption { option, detail: detail.to_owned() });
        if self.trigger_tombstones == 0 {
            return refuse("trigger_tombstones", "it must be at least 1");
        }
        if !(self.trigger_deleted_share > 0.0 && self.trigger_deleted_share <= 1.0) {
            return refuse("trigger_deleted_share", "it must be above 0 and at most 1");
        }
        self.trigger_files = self.trigger_files.max(2);
        self.trigger_commits = self.trigger_commits.max(2);
        self.max_files_per_pick = self.max_files_per_pick.max(2);
        self.max_levels = self.max_levels.max(1);
        self.trigger_age = self.trigger_age.filter(|age| !age.is_zero());
        self.interval = self.interval.filter(|interval| !interval.is_zero());
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_small_values_are_raised_or_refused() {
        let raised = CompactionOptions {
            trigger_files: 1,
            trigger_commits: 0,
            trigger_age: Some(Duration::ZERO),
            interval: Some(Duration::ZERO),
            max_levels: 0,
            max_files_per_pick: 0,
            ..CompactionOptions::default()
        };
        let checked = raised.checked().unwrap();
        assert_eq!((checked.trigger_files, checked.trigger_commits), (2, 2));
        assert_eq!((checked.max_levels, checked.max_files_per_pick), (1, 2));
        assert_eq!((checked.trigger_age, checked.interval), (None, None));
        let refused = [
            CompactionOptions { trigger_tombstones: 0, ..CompactionOptions::default() },
            CompactionOptions { trigger_deleted_share: 0.0, ..CompactionOptions::default() },
            CompactionOptions { trigger_deleted_share: f64::NAN, ..CompactionOptions::default() },
        ];
        for options in refused {
            assert!(matches!(options.checked(), Err(Error::BadOption { .. })));
        }
    }
}

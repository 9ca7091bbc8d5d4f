//! What the parameters of a table mean for the storage engine. Their values were checked when the table was made, so what
//! cannot be read here was written by another release.
use std::{collections::BTreeMap, time::Duration};

use ancho_common::spec::settings::{TIME_COLUMN, cluster_columns, indexes, sort_columns};
use cayenne::{
    CompactionOptions, Compression, ConflictDetection, DeletionMode, PartitionOptions, RowOrder, TableSettings, Tuning,
    WriteOptions,
};

type Params = BTreeMap<String, String>;

/// The parameters that may change while partitions are open.
#[derive(Debug, Clone, PartialEq)]
pub struct TableTuning {
    /// Size of data files; `None` for what suits the disk.
    pub target_file_bytes: Option<u64>,
    /// Memory for the index of keys, over all partitions of the table that are here; `None` for a share of what there is.
    pub key_memory_bytes: Option<usize>,
    /// When files are rewritten.
    pub compaction: CompactionOptions,
    /// In which order.
    pub row_order: RowOrder,
    /// Columns of each secondary index.
    pub indexes: Vec<Vec<String>>,
}

impl TableTuning {
    /// For one partition, where `options` hold for tables that ask for nothing and `partitions` of the table are here.
    /// Without a setting its index of keys gets `key_share` bytes.
    pub(super) fn for_partition(&self, options: &PartitionOptions, partitions: usize, key_share: usize) -> Tuning {
        let own_share = |bytes: usize| bytes / partitions.max(1);
        Tuning {
            target_file_bytes: self.target_file_bytes.unwrap_or(options.target_file_bytes),
            key_memory_bytes: self.key_memory_bytes.map_or(key_share, own_share),
            compaction: self.compaction.clone(),
            row_order: self.row_order.clone(),
            indexes: self.indexes.clone(),
        }
    }
}

/// Reads the parameters of an assignment.
pub(super) fn parse(text: &str) -> Result<Params, String> {
    if text.is_empty() {
        return Ok(BTreeMap::new());
    }
    serde_json::from_str(text).map_err(|e| format!("params are not a JSON object of texts: {e}"))
}

/// The primary key and the parameters about it.
pub(super) fn settings(primary_key: &[String], params: &Params) -> Result<TableSettings, String> {
    let mut settings = TableSettings { primary_key: primary_key.to_vec(), ..TableSettings::default() };
    if settings.primary_key.is_empty() {
        return Ok(settings);
    }
    settings.time_column = params.get(TIME_COLUMN).cloned();
    for (name, value) in params {
        match name.as_str() {
            "cayenne_pk_conflict_detection" | "pk_conflict_detection" => {
                settings.conflict_detection = ConflictDetection::parse(value).ok_or_else(|| wrong(name, value))?;
            }
            "cayenne_deletion_mode" => {
                settings.deletion_mode = DeletionMode::parse(value).ok_or_else(|| wrong(name, value))?;
            }
            _ => {}
        }
    }
    Ok(settings)
}

/// The parameters that say how files are made.
pub(super) fn write_options(params: &Params) -> Result<WriteOptions, String> {
    Ok(WriteOptions {
        target_file_bytes: target_file_bytes(params)?,
        compression: compression(params)?,
        ..WriteOptions::default()
    })
}

/// The parameters that may change while partitions are open.
pub(super) fn tuning(params: &Params) -> Result<TableTuning, String> {
    let default = CompactionOptions::default();
    let count = |name: &str, default: usize| -> Result<usize, String> {
        Ok(number(params, name)?.map_or(default, |n| usize::try_from(n).unwrap_or(usize::MAX)))
    };
    let millis = |name: &str, default: Option<Duration>| -> Result<Option<Duration>, String> {
        let given = number(params, name)?.map(|n| (n > 0).then(|| Duration::from_millis(n)));
        Ok(given.unwrap_or(default))
    };
    let compaction = CompactionOptions {
        trigger_files: count("cayenne_compaction_trigger_files", default.trigger_files)?,
        trigger_commits: count("cayenne_compaction_trigger_protected_snapshots", default.trigger_commits)?,
        trigger_age: millis("cayenne_compaction_trigger_snapshot_age_ms", default.trigger_age)?,
        interval: millis("cayenne_compaction_background_interval_ms", default.interval)?,
        max_levels: count("cayenne_compaction_max_levels", default.max_levels)?,
        max_files_per_pick: count("cayenne_compaction_max_files_per_pick", default.max_files_per_pick)?,
        compression: compression(params)?,
        ..default
    };
    let key_megabytes = number(params, "cayenne_pk_keyset_cache_mb")?;
    let (sorted, clustered) = (sort_columns(params), cluster_columns(params));
    Ok(TableTuning {
        target_file_bytes: target_file_bytes(params)?,
        key_memory_bytes: key_megabytes.map(|n| usize::try_from(megabytes(n.max(1))).unwrap_or(usize::MAX)),
        compaction: compaction.checked().map_err(|e| e.to_string())?,
        row_order: match (sorted.is_empty(), clustered.is_empty()) {
            (true, true) => RowOrder::Arrival,
            (false, _) => RowOrder::Sorted(sorted),
            (true, false) => RowOrder::Clustered(clustered),
        },
        indexes: indexes(params),
    })
}

fn target_file_bytes(params: &Params) -> Result<Option<u64>, String> {
    let name = "cayenne_target_file_size_mb";
    match number(params, name)? {
        Some(0) => Err(wrong(name, "0")),
        given => Ok(given.map(megabytes)),
    }
}

fn compression(params: &Params) -> Result<Compression, String> {
    let name = "cayenne_compression_strategy";
    match params.get(name).map(String::as_str) {
        None | Some("btrblocks") => Ok(Compression::Btrblocks),
        Some("zstd") => Ok(Compression::Zstd),
        Some(other) => Err(wrong(name, other)),
    }
}

/// A whole number; `auto` is as good as no setting.
fn number(params: &Params, name: &str) -> Result<Option<u64>, String> {
    match params.get(name).map(String::as_str) {
        None | Some("auto") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| wrong(name, text)),
    }
}

fn megabytes(n: u64) -> u64 {
    n.saturating_mul(1 << 20)
}

fn wrong(name: &str, value: &str) -> String {
    format!("parameter {name} has the value {value:?}, which means nothing here")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(params: &[(&str, &str)]) -> Params {
        params.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn tables_without_parameters_have_the_defaults() {
        let tuning = tuning(&Params::new()).unwrap();
        assert_eq!(tuning.compaction, CompactionOptions::default());
        assert_eq!((tuning.target_file_bytes, tuning.key_memory_bytes), (None, None));
        assert_eq!(tuning.row_order, RowOrder::Arrival);
        let options = PartitionOptions::default();
        let tuned = tuning.for_partition(&options, 3, 7);
        assert_eq!((tuned.target_file_bytes, tuned.key_memory_bytes), (options.target_file_bytes, 7));
    }

    #[test]
    fn each_parameter_has_its_effect() {
        let params = of(&[
            ("cayenne_compaction_trigger_files", "1"),
            ("cayenne_compaction_trigger_protected_snapshots", "5"),
            ("cayenne_compaction_trigger_snapshot_age_ms", "0"),
            ("cayenne_compaction_background_interval_ms", "250"),
            ("cayenne_compaction_max_levels", "2"),
            ("cayenne_compaction_max_files_per_pick", "9"),
            ("cayenne_compression_strategy", "zstd"),
            ("cayenne_target_file_size_mb", "64"),
            ("cayenne_pk_keyset_cache_mb", "0"),
            ("sort_columns", "b, a"),
            ("indexes", "a, (b, c)"),
        ]);
        let tuning = tuning(&params).unwrap();
        let compaction = &tuning.compaction;
        assert_eq!((compaction.trigger_files, compaction.trigger_commits, compaction.trigger_age), (2, 5, None));
        assert_eq!(compaction.interval, Some(Duration::from_millis(250)));
        assert_eq!((compaction.max_levels, compaction.max_files_per_pick), (2, 9));
        assert_eq!(compaction.compression, Compression::Zstd);
        assert_eq!(tuning.row_order, RowOrder::Sorted(vec!["b".into(), "a".into()]));
        assert_eq!(tuning.indexes, [vec!["a".to_owned()], vec!["b".to_owned(), "c".to_owned()]]);
        let tuned = tuning.for_partition(&PartitionOptions::default(), 4, 7);
        assert_eq!((tuned.target_file_bytes, tuned.key_memory_bytes), (64 << 20, (1 << 20) / 4));
        let clustered = super::tuning(&of(&[("cayenne_cluster_by", "x,y")])).unwrap();
        assert_eq!(clustered.row_order, RowOrder::Clustered(vec!["x".into(), "y".into()]));
        let keyed = settings(&["k".into()], &of(&[("time_column", "at")])).unwrap();
        assert_eq!(keyed.time_column.as_deref(), Some("at"));
        assert!(super::tuning(&of(&[("cayenne_compaction_max_levels", "many")])).is_err());
    }
}

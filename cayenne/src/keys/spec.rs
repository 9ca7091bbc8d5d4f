//! What a table says about its rows when it is created: the primary key and how repeats are handled.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};

use crate::error::{Error, Place, Result};
use crate::schema::{SchemaChange, TableSchema};

/// Whether a write looks for stored rows with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ConflictDetection {
    /// A keyed table keeps one row per key.
    #[default]
    Auto,
    /// Rows are added as they come; repeated keys stay as written.
    None,
}

impl ConflictDetection {
    /// The word in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            ConflictDetection::Auto => "auto",
            ConflictDetection::None => "none",
        }
    }

    /// The inverse of [`as_str`](Self::as_str).
    pub fn parse(text: &str) -> Option<Self> {
        [ConflictDetection::Auto, ConflictDetection::None].into_iter().find(|value| value.as_str() == text)
    }
}

/// By what deleted rows are known where positions in files are not enough. Stored are positions in either mode; what was
/// stored under one is good under the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DeletionMode {
    /// [`Position`](Self::Position) for small tables on machines with cores to spare, and without a primary key;
    /// [`Key`](Self::Key) for the others.
    #[default]
    Auto,
    /// Rewrites of files follow, by key, deletes that come meanwhile.
    Key,
    /// Rewrites of files give way to deletes of their rows: they start again.
    Position,
}

impl DeletionMode {
    /// The word in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            DeletionMode::Auto => "auto",
            DeletionMode::Key => "key",
            DeletionMode::Position => "position",
        }
    }

    /// The inverse of [`as_str`](Self::as_str).
    pub fn parse(text: &str) -> Option<Self> {
        [DeletionMode::Auto, DeletionMode::Key, DeletionMode::Position].into_iter().find(|value| value.as_str() == text)
    }

    /// What `Auto` means for a table: by position only if it is at most a 32nd of the target size of a file, and at
    /// most 8 MiB, on a machine with at least eight physical cores.
    pub(crate) fn goes_by_key(self, keyed: bool, table_bytes: u64, target_file_bytes: u64, cpus: usize) -> bool {
        const MAX_SMALL_BYTES: u64 = 8 << 20;
        const THREADS_PER_CORE: usize = 2;
        const MIN_CORES: usize = 8;
        keyed
            && match self {
                DeletionMode::Key => true,
                DeletionMode::Position => false,
                DeletionMode::Auto => {
                    cpus < MIN_CORES * THREADS_PER_CORE || table_bytes > (target_file_bytes / 32).min(MAX_SMALL_BYTES)
                }
            }
    }
}

/// What a table is besides its columns. Recorded in each of its partitions at creation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableSettings {
    /// Columns of the primary key; empty for a table without one.
    pub primary_key: Vec<String>,
    /// Of several rows with one key a refresh keeps the one with the newest value of this column, and of those the
    /// one that arrived last. NULL is older than any time.
    pub time_column: Option<String>,
    /// Whether writes look for stored rows with the same key.
    pub conflict_detection: ConflictDetection,
    /// By what deleted rows are known.
    pub deletion_mode: DeletionMode,
}

/// The key of a table, bound to its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeySpec {
    /// Indexes of the key columns, in the order of the key.
    pub(crate) columns: Vec<usize>,
    /// Index of the time column.
    pub(crate) time: Option<usize>,
    /// Whether one row per key is kept.
    pub(crate) unique: bool,
}

impl TableSettings {
    /// Whether the settings can be those of a table with this schema.
    ///
    /// # Errors
    /// [`Error::BadKey`], which names the column.
    pub fn check(&self, schema: &Schema) -> Result<()> {
        self.bind(schema).map(|_| ())
    }

    /// Settings that name columns as they are stored, with the names that the table has for them.
    pub(crate) fn renamed(&self, schema: &TableSchema) -> Self {
        let name = |stored: &String| match schema.stored.index_of(stored) {
            Ok(index) => schema.logical.field(index).name().clone(),
            Err(_) => stored.clone(),
        };
        Self {
            primary_key: self.primary_key.iter().map(name).collect(),
            time_column: self.time_column.as_ref().map(name),
            ..self.clone()
        }
    }

    /// Whether a change leaves key and time as they are; otherwise, why not. Encoded keys and times that were compared
    /// outlive the change, so only the name of their columns may be another one.
    pub(crate) fn allow(&self, change: &SchemaChange, schema: &TableSchema) -> std::result::Result<(), &'static str> {
        let (SchemaChange::Drop { path } | SchemaChange::Widen { path, .. }) = change else { return Ok(()) };
        let current = self.renamed(schema);
        let Some(column) = path.first() else { return Ok(()) };
        if current.primary_key.contains(column) {
            return Err("it is in the primary key, whose columns can only be renamed");
        }
        if current.time_column.as_ref() == Some(column) {
            return Err("it is the time column, which can only be renamed");
        }
        Ok(())
    }

    /// The key, or `None` for a table without one.
    pub(crate) fn bind(&self, schema: &Schema) -> Result<Option<KeySpec>> {
        let refused = |column: &str, detail: String| Err(Error::BadKey { column: column.to_owned(), detail });
        let find = |column: &str| schema.index_of(column).ok();
        let time = match &self.time_column {
            None => None,
            Some(column) => match find(column) {
                None => return refused(column, "it is the time column and the table has no such column".to_owned()),
                Some(index) => {
                    let data_type = schema.field(index).data_type();
                    if !is_time_type(data_type) {
                        return refused(
                            column,
                            format!("it is the time column and has type {data_type}; use a timestamp, date or integer"),
                        );
                    }
                    Some(index)
                }
            },
        };
        let mut columns = Vec::new();
        for column in &self.primary_key {
            let Some(index) = find(column) else {
                return refused(column, "it is in the primary key and the table has no such column".to_owned());
            };
            if columns.contains(&index) {
                return refused(column, "it is in the primary key twice".to_owned());
            }
            let data_type = schema.field(index).data_type();
            if !is_key_type(data_type) {
                return refused(
                    column,
                    format!(
                        "it is in the primary key and has type {data_type}; a key may have booleans, integers, \
                         decimals, texts, binaries, dates, times and timestamps"
                    ),
                );
            }
            columns.push(index);
        }
        if columns.is_empty() {
            if self.conflict_detection == ConflictDetection::None || self.deletion_mode == DeletionMode::Key {
                let setting = match self.conflict_detection {
                    ConflictDetection::None => "conflict detection 'none'",
                    ConflictDetection::Auto => "deletion mode 'key'",
                };
                return Err(Error::BadSchema { detail: format!("{setting} needs a primary key") });
            }
            return Ok(None);
        }
        // A time inside the key cannot tell two rows of one key apart.
        let time = time.filter(|time| !columns.contains(time));
        Ok(Some(KeySpec { columns, time, unique: self.conflict_detection == ConflictDetection::Auto }))
    }
}

/// Whether values of a type can be a primary key: those whose equality is the same for SQL and for bytes. Floats have two
/// zeros and many NaN.
#[must_use]
pub fn is_key_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..) => true,
        DataType::Dictionary(_, values) => is_key_type(values),
        other => other.is_integer() || other.is_decimal(),
    }
}

fn is_time_type(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

impl KeySpec {
    /// The columns of the key, in its order.
    pub(crate) fn key_columns(&self, batch: &arrow::record_batch::RecordBatch) -> Vec<arrow::array::ArrayRef> {
        self.columns.iter().map(|&column| Arc::clone(batch.column(column))).collect()
    }

    /// Refuses rows without a whole key.
    pub(crate) fn check_not_null(&self, place: &Arc<Place>, batch: &arrow::record_batch::RecordBatch) -> Result<()> {
        for &column in &self.columns {
            let nulls = arrow::array::Array::logical_null_count(batch.column(column).as_ref());
            if nulls > 0 {
                return Err(Error::NullInKey {
                    place: Arc::clone(place),
                    column: batch.schema_ref().field(column).name().clone(),
                    nulls,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, TimeUnit};

    use super::*;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("region", DataType::Utf8View, true),
            Field::new("price", DataType::Float64, true),
            Field::new("at", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        ])
    }

    fn settings(key: &[&str], time: Option<&str>) -> TableSettings {
        TableSettings {
            primary_key: key.iter().map(|column| (*column).to_owned()).collect(),
            time_column: time.map(str::to_owned),
            ..TableSettings::default()
        }
    }

    #[test]
    fn keys_bind_in_their_own_order_and_a_time_in_the_key_says_nothing() {
        let spec = settings(&["region", "id"], Some("at")).bind(&schema()).unwrap().unwrap();
        assert_eq!(spec, KeySpec { columns: vec![1, 0], time: Some(3), unique: true });
        let spec = settings(&["id", "at"], Some("at")).bind(&schema()).unwrap().unwrap();
        assert_eq!(spec.time, None);
        assert_eq!(TableSettings::default().bind(&schema()).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_a_key_is_refused_by_name() {
        for (settings, column) in [
            (settings(&["nothing"], None), "nothing"),
            (settings(&["id", "id"], None), "id"),
            (settings(&["id", "price"], None), "price"),
            (settings(&["id"], Some("region")), "region"),
            (settings(&["id"], Some("then")), "then"),
        ] {
            match settings.check(&schema()) {
                Err(Error::BadKey { column: named, .. }) => assert_eq!(named, column),
                other => panic!("{other:?}"),
            }
        }
        for keyless in [
            TableSettings { conflict_detection: ConflictDetection::None, ..TableSettings::default() },
            TableSettings { deletion_mode: DeletionMode::Key, ..TableSettings::default() },
        ] {
            assert!(matches!(keyless.check(&schema()), Err(Error::BadSchema { .. })));
        }
    }

    #[test]
    fn auto_goes_by_position_only_for_small_tables_on_large_machines() {
        let records = |mode: DeletionMode, bytes, target, cpus| mode.goes_by_key(true, bytes, target, cpus);
        let mib = 1 << 20;
        assert!(!records(DeletionMode::Auto, 8 * mib, 256 * mib, 16));
        assert!(records(DeletionMode::Auto, 8 * mib + 1, 256 * mib, 16));
        assert!(records(DeletionMode::Auto, 8 * mib + 1, 4096 * mib, 16), "capped");
        assert!(records(DeletionMode::Auto, 2 * mib + 1, 64 * mib, 16));
        assert!(records(DeletionMode::Auto, 0, 256 * mib, 15), "eight threads are four cores");
        assert!(records(DeletionMode::Key, 0, 256 * mib, 64));
        assert!(!records(DeletionMode::Position, 1 << 40, 256 * mib, 1));
        assert!(!DeletionMode::Auto.goes_by_key(false, 1 << 40, 256 * mib, 1), "no key, no key deletes");
    }

    #[test]
    fn words_of_settings_come_back() {
        for mode in [DeletionMode::Auto, DeletionMode::Key, DeletionMode::Position] {
            assert_eq!(DeletionMode::parse(mode.as_str()), Some(mode));
        }
        for detection in [ConflictDetection::Auto, ConflictDetection::None] {
            assert_eq!(ConflictDetection::parse(detection.as_str()), Some(detection));
        }
        assert_eq!(DeletionMode::parse("keys"), None);
    }
}

//! The settings of a table as rows of `settings`. One that is not there has its default.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};

use super::Metastore;
use crate::error::{Error, Result};
use crate::keys::spec::{ConflictDetection, DeletionMode, TableSettings};

pub(super) const KEY_ENCODING: &str = "key_encoding";
const PRIMARY_KEY: &str = "primary_key";
const TIME_COLUMN: &str = "time_column";
const CONFLICT_DETECTION: &str = "conflict_detection";
const DELETION_MODE: &str = "deletion_mode";

/// Keys and values; the columns of the primary key as a JSON array.
pub(super) fn to_rows(settings: &TableSettings) -> Vec<(&'static str, String)> {
    let columns = settings.primary_key.iter().map(|column| serde_json::Value::from(column.as_str())).collect();
    let mut rows = vec![
        (PRIMARY_KEY, serde_json::Value::Array(columns).to_string()),
        (CONFLICT_DETECTION, settings.conflict_detection.as_str().to_owned()),
        (DELETION_MODE, settings.deletion_mode.as_str().to_owned()),
    ];
    rows.extend(settings.time_column.iter().map(|column| (TIME_COLUMN, column.clone())));
    rows
}

impl Metastore {
    /// What the table is besides its columns, and the id of the encoding of its keys.
    pub(crate) fn table_settings(&self) -> Result<(TableSettings, Option<u8>)> {
        let damaged = |key: &str, value: &str| {
            let detail = format!("setting '{key}' has the unknown value '{value}'");
            Error::MetastoreDamaged { place: Arc::clone(&self.place), detail }
        };
        let primary_key = match self.optional_setting::<String>(PRIMARY_KEY)? {
            None => Vec::new(),
            Some(text) => serde_json::from_str(&text).map_err(|_| damaged(PRIMARY_KEY, &text))?,
        };
        let conflict_detection = match self.optional_setting::<String>(CONFLICT_DETECTION)? {
            None => ConflictDetection::default(),
            Some(text) => ConflictDetection::parse(&text).ok_or_else(|| damaged(CONFLICT_DETECTION, &text))?,
        };
        let deletion_mode = match self.optional_setting::<String>(DELETION_MODE)? {
            None => DeletionMode::default(),
            Some(text) => DeletionMode::parse(&text).ok_or_else(|| damaged(DELETION_MODE, &text))?,
        };
        let time_column = self.optional_setting(TIME_COLUMN)?;
        let settings = TableSettings { primary_key, time_column, conflict_detection, deletion_mode };
        Ok((settings, self.optional_setting(KEY_ENCODING)?))
    }

    fn optional_setting<T: rusqlite::types::FromSql>(&self, key: &str) -> Result<Option<T>> {
        self.connection
            .query_row("SELECT value FROM settings WHERE key = ?1", params![key], |row| row.get(0))
            .optional()
            .map_err(self.failed("read the settings of the table"))
    }
}

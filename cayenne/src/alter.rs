//! Changing the columns of a table: staged, published and discarded like a write of rows.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::failpoint::Step;
use crate::options::WriteMode;
use crate::partition::{Inner, Partition};
use crate::schema::change::apply;
use crate::schema::{SchemaChange, TableSchema};
use crate::staged_writer::already_sealed;
use crate::state::{Deletes, Staged};
use crate::stats::{DataSummary, WriteSummary};

impl Partition {
    /// Stages a change of the columns under an id that the caller chooses; [`publish`](Self::publish) puts it in force as a
    /// version of its own, [`discard`](Self::discard) forgets it. No file is rewritten. Staging the same id again does nothing.
    ///
    /// Writes that are sealed before the change is published stay publishable; later ones need the new columns.
    ///
    /// # Errors
    /// [`Error::SchemaChangeRefused`] when the change is not possible or could lose a value, [`Error::UnsupportedType`],
    /// [`Error::WriteConflict`] while another change is staged, [`Error::WriteSealed`] when the id is that of a write of rows,
    /// [`Error::ReadOnly`].
    pub async fn alter(&self, write_id: Uuid, change: SchemaChange) -> Result<()> {
        self.inner.check_writable()?;
        self.blocking("changing the columns", move |inner| stage(inner, write_id, &change)).await
    }

    /// What the columns would be after a change, if it is possible. Nothing is staged.
    ///
    /// # Errors
    /// As [`alter`](Self::alter).
    pub fn check_alter(&self, change: &SchemaChange) -> Result<SchemaRef> {
        let history = [Arc::clone(&self.inner.schema().stored)];
        Ok(changed(&self.inner, change, &history, i64::MAX)?.logical)
    }
}

fn stage(inner: &Arc<Inner>, write_id: Uuid, change: &SchemaChange) -> Result<()> {
    let mut metastore = inner.metastore.lock();
    match metastore.write(write_id)? {
        Some(record) if record.mode == WriteMode::Alter => return Ok(()),
        Some(record) => return Err(already_sealed(inner, record)),
        None => {}
    }
    let (base_version, other) = {
        let state = inner.state.lock();
        let other = state.staged().iter().find(|(_, write)| write.mode == WriteMode::Alter).map(|(id, _)| *id);
        (state.current().version, other)
    };
    if let Some(other) = other {
        let detail = format!("another change of the columns is staged as write {other}");
        return Err(inner.conflict(write_id, base_version, detail));
    }
    let history: Vec<SchemaRef> = metastore.schemas().values().map(|schema| Arc::clone(&schema.stored)).collect();
    let newest = metastore.schemas().keys().next_back().copied().unwrap_or(0);
    let schema = Arc::new(changed(inner, change, &history, newest + 1)?);
    inner.step(Step::Seal)?;
    let sealed_ms = inner.options.clock.now_ms();
    metastore.seal_alter(write_id, &schema, base_version, sealed_ms)?;
    let summary = WriteSummary { data: DataSummary::empty(schema.columns()), deleted_rows: 0, keys: None };
    let staged = Staged {
        mode: WriteMode::Alter,
        schema,
        base_version,
        summary,
        sealed_ms,
        files: Vec::new(),
        deletes: Deletes::new(),
        by_key: None,
    };
    inner.state.lock().seal(write_id, staged);
    inner.step(Step::Sealed)
}

fn changed(inner: &Inner, change: &SchemaChange, history: &[SchemaRef], schema_id: i64) -> Result<TableSchema> {
    let state = inner.state.lock();
    let current = &state.current().schema;
    let refused = |detail: String| Error::SchemaChangeRefused { column: change.path().join("."), detail };
    inner.settings.allow(change, current).map_err(|detail| refused(detail.to_owned()))?;
    let changed = apply(current, change, history, schema_id)?;
    inner
        .tuning()
        .row_order
        .follow(current, &changed.schema)
        .check(&changed.schema.logical)
        .map_err(|error| refused(format!("rows are laid down in its order ({error}); change the order first")))?;
    if let Some(stored) = &changed.check_range {
        for file in state.living_files() {
            file.schema.fits(&changed.schema, stored, &file.summary).map_err(refused)?;
        }
    }
    Ok(changed.schema)
}

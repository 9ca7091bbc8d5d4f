//! Rows that a client sends for a table: brought into the table's columns, and routed to the owners from here.
use std::{collections::BTreeMap, sync::Arc};

use ancho_common::error::{Error, Result};
use arrow::{
    array::{ArrayRef, RecordBatch, new_null_array},
    compute::{CastOptions, cast_with_options},
    datatypes::{Schema, SchemaRef},
};
use datafusion::common::TableReference;

use super::{
    ddl,
    engine::{QueryEngine, existing},
    load::{Begun, TableLoad},
    write::WriteKind,
};
use crate::{
    frontend::{
        caller::Caller,
        service::{Ingest, WhereMissing, WhereThere},
    },
    state::{NewTable, TableName},
};

impl QueryEngine {
    /// Writes the rows as one write. They come once, so a write that other writes come between is not run again.
    pub(super) async fn ingest_rows(&self, ingest: Ingest, caller: &Caller) -> Result<u64> {
        let state = self.state().await?;
        if self.transaction().is_none()
            && caller.may_repeat()
            && let Some(written) = state.written.find(caller.request())
        {
            return Ok(written.rows);
        }
        let name = table_name(&ingest)?;
        match (state.table(&name).is_some(), ingest.there, ingest.missing) {
            (true, WhereThere::Append, _) => self.append_rows(&name, ingest, caller).await,
            (true, WhereThere::Replace, _) | (false, _, WhereMissing::Create) => {
                self.at_once("making a table", |engine| async move { engine.load_rows(name, ingest, caller).await })
                    .await
            }
            (true, WhereThere::Fail, _) => Err(Error::already_exists(format!("table {name} already exists"))),
            (false, _, WhereMissing::Fail) => Err(Error::not_found(format!("table {name} does not exist"))),
        }
    }

    async fn append_rows(&self, name: &TableName, ingest: Ingest, caller: &Caller) -> Result<u64> {
        // The rows are asked for when all owners are there to take them.
        let ready = self.attempts(|state, _| async move {
            let table = existing(&state, name)?;
            self.writer().check_owners(&state, &table)?;
            Ok((state, table))
        });
        let (state, table) = ready.await?;
        let Some(transaction) = self.transaction() else {
            return self.writer().ingest(&state, &table, ingest.rows, WriteKind::Append, caller).await;
        };
        let staged = transaction.staged();
        let write = self.writer().ingest_within((&state, &table), ingest.rows, caller, &staged).await?;
        Ok(write.map_or(0, |write| transaction.staged_more(write)))
    }

    /// A table made for the rows, in place of the former one if there is one.
    async fn load_rows(&self, name: TableName, ingest: Ingest, caller: &Caller) -> Result<u64> {
        let schema = ddl::source_schema(&ingest.rows.schema());
        let table = ddl::new_table(name.clone(), schema, Vec::new(), Vec::new(), BTreeMap::new())?;
        let table = NewTable { or_replace: ingest.there == WhereThere::Replace, ..table };
        let Begun::Load(load) = TableLoad::begin(self.node(), table, self.load_renewal()).await? else {
            return Err(Error::already_exists(format!("table {name} already exists")));
        };
        let id = load.id();
        let filled = async {
            let ready = self.attempts(|state, _| async move {
                let table = state.tables.get(&id).cloned().ok_or_else(|| super::load::given_up(id))?;
                self.writer().check_owners(&state, &table)?;
                Ok((state, table))
            });
            let (state, table) = ready.await?;
            self.writer().ingest(&state, &table, ingest.rows, WriteKind::Fill, caller).await
        };
        load.run(filled).await
    }
}

fn table_name(ingest: &Ingest) -> Result<TableName> {
    let table = ingest.table.clone();
    ddl::table_name(&match (&ingest.catalog, &ingest.schema) {
        (Some(catalog), Some(schema)) => TableReference::full(catalog.clone(), schema.clone(), table),
        (None, Some(schema)) => TableReference::partial(schema.clone(), table),
        _ => TableReference::bare(table),
    })
}

/// Brings batches of other columns into those of a table, by name.
#[derive(Debug)]
pub(super) struct Fitting {
    schema: SchemaRef,
    /// For each column of the table, the column of the batches; none is NULL.
    sources: Vec<Option<usize>>,
}

impl Fitting {
    /// From `given` to `wanted`.
    ///
    /// # Errors
    /// `Invalid` for a column that the table does not have, or that must have a value and is missing.
    pub(super) fn new(table: &str, given: &Schema, wanted: &SchemaRef) -> Result<Self> {
        if let Some(unknown) = given.fields().iter().find(|f| wanted.index_of(f.name()).is_err()) {
            return Err(Error::invalid(format!("table {table} has no column {}", unknown.name())));
        }
        let sources: Vec<Option<usize>> =
            wanted.fields().iter().map(|field| given.index_of(field.name()).ok()).collect();
        match sources.iter().zip(wanted.fields()).find(|(source, field)| source.is_none() && !field.is_nullable()) {
            Some((_, field)) => {
                Err(Error::invalid(format!("column {} of table {table} needs a value and is missing", field.name())))
            }
            None => Ok(Self { schema: Arc::clone(wanted), sources }),
        }
    }

    /// A batch in the table's columns.
    ///
    /// # Errors
    /// `Invalid` for a value that does not fit its column.
    pub(super) fn fit(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let columns = self
            .sources
            .iter()
            .zip(self.schema.fields())
            .map(|(source, field)| match source {
                None => Ok(new_null_array(field.data_type(), batch.num_rows())),
                Some(index) => cast_with_options(batch.column(*index), field.data_type(), &strict)
                    .map_err(|e| Error::invalid(format!("column {}: {e}", field.name()))),
            })
            .collect::<Result<Vec<ArrayRef>>>()?;
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|e| Error::invalid(format!("a row does not fit the table: {e}")))
    }
}

//! The catalog `ancho`: the schema `public` with the tables of the replicated state, and `system`.
use std::sync::Arc;

use ancho_common::error::{Error, Result as CommonResult};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::{
    catalog::{
        CatalogProvider, MemoryCatalogProviderList, SchemaProvider,
        information_schema::{INFORMATION_SCHEMA_TABLES, InformationSchemaProvider},
    },
    common::{TableReference, exec_err},
    datasource::TableProvider,
    error::{DataFusionError, Result},
    logical_expr::TableType,
};

use futures::FutureExt;

use super::{
    system,
    table::{AnchoTable, awaited},
};
use crate::state::{ClusterState, Table, TableName};

/// Name of the catalog.
pub const CATALOG: &str = "ancho";
/// Name of the schema that unqualified tables live in.
pub const DEFAULT_SCHEMA: &str = "public";
/// Name of the schema of `system` tables.
pub const SYSTEM_SCHEMA: &str = "system";

/// Name of a schema that is not listed: the tables of [`DEFAULT_SCHEMA`] with the names of their rows behind their columns.
pub const ROWS_SCHEMA: &str = "__ancho_rows";

/// The schema that describes the catalog.
pub const INFORMATION_SCHEMA: &str = "information_schema";

/// The tables of [`INFORMATION_SCHEMA`] with their columns.
///
/// # Errors
/// Never with the library as it is; its signature allows it.
pub fn information_schema() -> CommonResult<Vec<(&'static str, SchemaRef)>> {
    // Their columns do not depend on what the catalogs hold.
    let provider = InformationSchemaProvider::new(Arc::new(MemoryCatalogProviderList::new()));
    let columns = |name: &&'static str| -> CommonResult<(&'static str, SchemaRef)> {
        // The future waits for nothing: it is one for the sake of catalogs that are elsewhere.
        let table = provider.table(name).now_or_never().transpose()?.flatten();
        let table = table.ok_or_else(|| Error::internal(format!("information_schema.{name} cannot be described")))?;
        Ok((*name, table.schema()))
    };
    INFORMATION_SCHEMA_TABLES.iter().map(columns).collect()
}

/// A name as the state knows it.
///
/// # Errors
/// The catalog or schema is not one that tables can live in.
pub fn table_name(reference: &TableReference) -> CommonResult<TableName> {
    if let Some(catalog) = reference.catalog()
        && catalog != CATALOG
    {
        return Err(Error::not_found(format!("catalog {catalog} does not exist; tables live in catalog {CATALOG}")));
    }
    match reference.schema() {
        None | Some(DEFAULT_SCHEMA) => Ok(TableName::public(reference.table())),
        Some(schema @ (SYSTEM_SCHEMA | INFORMATION_SCHEMA)) => Err(Error::invalid(format!(
            "{schema}.{} is a system table: system tables cannot be created, changed, renamed or dropped",
            reference.table()
        ))),
        Some(schema) => {
            Err(Error::not_found(format!("schema {schema} does not exist; tables live in schema {DEFAULT_SCHEMA}")))
        }
    }
}

/// One revision of the state as a catalog.
#[derive(Debug)]
pub struct AnchoCatalog {
    state: Arc<ClusterState>,
}

impl AnchoCatalog {
    /// Of this revision.
    #[must_use]
    pub fn new(state: Arc<ClusterState>) -> Self {
        Self { state }
    }
}

impl CatalogProvider for AnchoCatalog {
    fn schema_names(&self) -> Vec<String> {
        vec![DEFAULT_SCHEMA.into(), SYSTEM_SCHEMA.into()]
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        match name {
            DEFAULT_SCHEMA => Some(Arc::new(TableSchema { state: Arc::clone(&self.state), row_ids: false })),
            ROWS_SCHEMA => Some(Arc::new(TableSchema { state: Arc::clone(&self.state), row_ids: true })),
            SYSTEM_SCHEMA => Some(Arc::new(SystemSchema { state: Arc::clone(&self.state) })),
            _ => None,
        }
    }
}

#[derive(Debug)]
struct TableSchema {
    state: Arc<ClusterState>,
    /// Tables name their rows.
    row_ids: bool,
}

#[async_trait]
impl SchemaProvider for TableSchema {
    fn table_names(&self) -> Vec<String> {
        self.state.listed().map(|t| t.name.table.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        let name = TableName::public(name);
        let table = self.state.table(&name);
        if let Some(dataset) = self.state.awaited(&name) {
            return Err(awaited(&name, dataset).into());
        }
        let provider = |t: &Arc<Table>| match self.row_ids {
            false => AnchoTable::new(Arc::clone(t)),
            true => AnchoTable::with_row_ids(Arc::clone(t)),
        };
        Ok(table.map(|t| Arc::new(provider(t)) as Arc<dyn TableProvider>))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.state.table(&TableName::public(name)).is_some()
    }

    fn register_table(&self, name: String, _: Arc<dyn TableProvider>) -> Result<Option<Arc<dyn TableProvider>>> {
        exec_err!("table {name} can only be created through the cluster's own CREATE TABLE")
    }
}

#[derive(Debug)]
struct SystemSchema {
    state: Arc<ClusterState>,
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        system::NAMES.iter().map(ToString::to_string).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>, DataFusionError> {
        system::table(name, &self.state)
    }

    /// Computed when read, as Flight SQL calls them too.
    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        Ok(self.table_exist(name).then_some(TableType::View))
    }

    fn table_exist(&self, name: &str) -> bool {
        system::NAMES.contains(&name)
    }
}

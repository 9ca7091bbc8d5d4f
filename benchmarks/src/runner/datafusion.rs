//! DataFusion in this process: the distance between it and a cluster is the cost of distribution.

use super::cayenne_tables::open_tables;
use super::engine::SqlEngine;
use crate::tpch::{GeneratedData, Table};
use anyhow::Context;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use std::path::PathBuf;
use std::sync::Arc;

/// A DataFusion session with the tables registered.
pub struct DataFusionEngine {
    name: String,
    context: SessionContext,
}

impl DataFusionEngine {
    /// Uses a session in which the caller has registered the tables.
    pub fn from_context(name: impl Into<String>, context: SessionContext) -> Self {
        Self { name: name.into(), context }
    }

    /// Reads the generated Parquet files, with `cores` streams per plan.
    pub async fn over_parquet(data: &GeneratedData, cores: usize) -> anyhow::Result<Self> {
        let context = session(cores);
        for table in Table::ALL {
            let folder = data.table_dir(table);
            let folder =
                folder.to_str().with_context(|| format!("the folder {} has no UTF-8 name", folder.display()))?;
            context
                .register_parquet(table.name(), folder, ParquetReadOptions::default())
                .await
                .with_context(|| format!("register the files of table `{table}`"))?;
        }
        Ok(Self::from_context("datafusion-parquet", context))
    }

    /// Reads the Cayenne partitions below `roots` (the data folders of executors that have loaded
    /// `data` and are idle), with `cores` streams per plan.
    ///
    /// # Errors
    /// When the partitions of a table do not hold exactly the rows that were generated for it.
    pub async fn over_cayenne(roots: &[PathBuf], data: &GeneratedData, cores: usize) -> anyhow::Result<Self> {
        let (roots, data) = (roots.to_vec(), data.clone());
        let tables =
            tokio::task::spawn_blocking(move || open_tables(&roots, &data)).await.context("open the partitions")??;
        let context = session(cores);
        for (table, provider) in tables {
            context.register_table(table.name(), Arc::new(provider))?;
        }
        Ok(Self::from_context("datafusion-cayenne", context))
    }
}

fn session(cores: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(cores.max(1)).with_information_schema(true);
    SessionContext::new_with_config(config)
}

#[async_trait]
impl SqlEngine for DataFusionEngine {
    fn name(&self) -> &str {
        &self.name
    }

    async fn run(&mut self, sql: &str) -> anyhow::Result<Vec<RecordBatch>> {
        let frame = self.context.sql(sql).await?;
        let schema = Arc::clone(frame.schema().inner());
        let mut batches = frame.collect().await?;
        if batches.is_empty() {
            batches.push(RecordBatch::new_empty(schema));
        }
        Ok(batches)
    }
}

//! DataFusion in this process: the distance between it and a cluster is the cost of distribution.

use super::engine::SqlEngine;
use crate::tpch::{GeneratedData, Table};
use anyhow::Context;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::datasource::TableProvider;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use std::sync::Arc;

/// A DataFusion session with the tables registered.
pub struct DataFusionEngine {
    name: String,
    context: SessionContext,
}

impl DataFusionEngine {
    /// Uses a session in which the caller has registered the tables.
    pub fn from_context(name: impl Into<String>, context: SessionContext) -> Self {
        Self {
            name: name.into(),
            context,
        }
    }

    /// Reads the generated Parquet files, with `cores` streams per plan.
    pub async fn over_parquet(data: &GeneratedData, cores: usize) -> anyhow::Result<Self> {
        let context = session(cores);
        for table in Table::ALL {
            let folder = data.table_dir(table);
            let folder = folder
                .to_str()
                .with_context(|| format!("the folder {} has no UTF-8 name", folder.display()))?;
            context
                .register_parquet(table.name(), folder, ParquetReadOptions::default())
                .await
                .with_context(|| format!("register the files of table `{table}`"))?;
        }
        Ok(Self::from_context("datafusion-parquet", context))
    }

    /// Reads tables through the given providers (for example one over all Cayenne partitions of a
    /// table), with `cores` streams per plan.
    ///
    /// # Errors
    /// When a TPC-H table is missing.
    pub fn over_providers(
        name: impl Into<String>,
        providers: Vec<(Table, Arc<dyn TableProvider>)>,
        cores: usize,
    ) -> anyhow::Result<Self> {
        let context = session(cores);
        for (table, provider) in providers {
            context.register_table(table.name(), provider)?;
        }
        let engine = Self::from_context(name, context);
        for table in Table::ALL {
            let found = engine.context.table_exist(table.name())?;
            anyhow::ensure!(found, "table `{table}` has no provider in {}", engine.name);
        }
        Ok(engine)
    }
}

fn session(cores: usize) -> SessionContext {
    let config = SessionConfig::new()
        .with_target_partitions(cores.max(1))
        .with_information_schema(true);
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

//! The trait on one DataFusion session in memory, plus results made by hand.
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ancho_common::error::{Error, Result};
use arrow::{
    array::{Int64Array, RecordBatch, UInt64Array},
    datatypes::{DataType, Field, Schema, SchemaRef},
};
use bytes::Bytes;
use datafusion::{
    common::{ParamValues, ScalarValue, metadata::ScalarAndMetadata},
    error::DataFusionError,
    logical_expr::LogicalPlan,
    physical_plan::stream::RecordBatchStreamAdapter,
    prelude::{SessionConfig, SessionContext},
};
use futures::{StreamExt, stream};

use crate::frontend::{
    CatalogListing, PreparedStatement, QueryStream, Readiness, StatementKind, TableInfo, TableType, boxed::sql_service,
    caller::Caller,
};

pub struct Double {
    pub context: SessionContext,
    /// Results of the statements `CANNED <name>`.
    canned: HashMap<String, (SchemaRef, Vec<RecordBatch>)>,
    /// Updates applied so far.
    pub updates: AtomicUsize,
    /// Batches that `ENDLESS` has made.
    pub made: Arc<AtomicUsize>,
    /// The stream of `ENDLESS` was dropped.
    pub dropped: Arc<AtomicBool>,
    pub ready: AtomicBool,
}

/// Says when a stream that holds it goes away.
struct OnDrop(Arc<AtomicBool>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Double {
    pub async fn new() -> Self {
        let context = SessionContext::new_with_config(SessionConfig::new().with_information_schema(true));
        for sql in [
            "CREATE TABLE t (id BIGINT NOT NULL, name TEXT) AS VALUES (1, 'one'), (2, 'two'), (3, 'three')",
            "CREATE TABLE a_b (x INT)",
            "CREATE TABLE \"aXb\" (x INT)",
            "CREATE TABLE \"A\" (x INT)",
            "CREATE VIEW v AS SELECT id FROM t",
        ] {
            context.sql(sql).await.unwrap();
        }
        Self {
            context,
            canned: HashMap::new(),
            updates: AtomicUsize::new(0),
            made: Arc::default(),
            dropped: Arc::default(),
            ready: AtomicBool::new(true),
        }
    }

    pub fn with_result(mut self, name: &str, batches: Vec<RecordBatch>) -> Self {
        self.canned.insert(name.to_string(), (batches[0].schema(), batches));
        self
    }

    pub fn with_schema_and_result(mut self, name: &str, schema: SchemaRef, batches: Vec<RecordBatch>) -> Self {
        self.canned.insert(name.to_string(), (schema, batches));
        self
    }

    async fn plan(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<LogicalPlan> {
        let plan = self.context.state().create_logical_plan(sql).await?;
        let Some(parameters) = parameters else { return Ok(plan) };
        assert_eq!(parameters.num_rows(), 1, "one row per call");
        let values = parameters
            .columns()
            .iter()
            .map(|column| ScalarValue::try_from_array(column, 0).map(ScalarAndMetadata::from))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(plan.with_param_values(ParamValues::List(values))?)
    }

    fn endless(&self) -> QueryStream {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
        let (made, guard, columns) = (self.made.clone(), OnDrop(self.dropped.clone()), schema.clone());
        let batches = stream::repeat(()).map(move |()| {
            let _ = &guard;
            made.fetch_add(1, Ordering::SeqCst);
            Ok(RecordBatch::try_new(columns.clone(), vec![Arc::new(Int64Array::from(vec![7; 8192]))]).unwrap())
        });
        QueryStream { stream: Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches)), schema }
    }

    fn canned(&self, sql: &str) -> Option<(SchemaRef, Vec<RecordBatch>)> {
        self.canned.get(sql.strip_prefix("CANNED ")?).cloned()
    }
}

impl Double {
    async fn prepare(&self, sql: &str, parameters: Option<&RecordBatch>) -> Result<PreparedStatement> {
        let none = Arc::new(Schema::empty());
        if let Some((schema, _)) = self.canned(sql) {
            return Ok(PreparedStatement { schema, parameters: none, kind: StatementKind::Query });
        }
        if sql == "ENDLESS" || sql == "FAIL LATE" {
            let schema = self.endless().schema;
            self.dropped.store(false, Ordering::SeqCst);
            return Ok(PreparedStatement { schema, parameters: none, kind: StatementKind::Query });
        }
        let unbound = self.plan(sql, None).await?;
        let mut found: Vec<(usize, Field)> = unbound
            .get_parameter_fields()?
            .into_iter()
            .map(|(name, field)| {
                let data_type = field.map_or(DataType::Null, |f| f.data_type().clone());
                (name[1..].parse().unwrap(), Field::new(name, data_type, true))
            })
            .collect();
        found.sort_by_key(|(position, _)| *position);
        let plan = if parameters.is_some() { self.plan(sql, parameters).await? } else { unbound };
        let kind = match &plan {
            LogicalPlan::Dml(_) | LogicalPlan::Ddl(_) | LogicalPlan::Copy(_) | LogicalPlan::Statement(_) => {
                StatementKind::Update
            }
            _ => StatementKind::Query,
        };
        let parameters = Arc::new(Schema::new(found.into_iter().map(|(_, field)| field).collect::<Vec<_>>()));
        Ok(PreparedStatement { schema: Arc::new(plan.schema().as_arrow().clone()), parameters, kind })
    }

    async fn query(&self, sql: &str, parameters: Option<RecordBatch>) -> Result<QueryStream> {
        if let Some((schema, batches)) = self.canned(sql) {
            let batches = stream::iter(batches.into_iter().map(Ok));
            return Ok(QueryStream {
                stream: Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches)),
                schema,
            });
        }
        if sql == "ENDLESS" {
            return Ok(self.endless());
        }
        if sql == "FAIL LATE" {
            let QueryStream { schema, stream } = self.endless();
            let failure: DataFusionError = Error::unavailable("table t: partition 3 lost its executor").into();
            let batches = stream.take(3).chain(stream::iter([Err(failure)]));
            return Ok(QueryStream {
                stream: Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches)),
                schema,
            });
        }
        let plan = self.plan(sql, parameters.as_ref()).await?;
        let schema = Arc::new(plan.schema().as_arrow().clone());
        let stream = self.context.execute_logical_plan(plan).await?.execute_stream().await?;
        Ok(QueryStream { schema, stream })
    }

    async fn update(&self, sql: &str, parameters: Option<RecordBatch>, _: &Caller) -> Result<i64> {
        if sql == "SLOW UPDATE" {
            tokio::time::sleep(Duration::from_millis(200)).await;
            self.updates.fetch_add(1, Ordering::SeqCst);
            return Ok(1);
        }
        let plan = self.plan(sql, parameters.as_ref()).await?;
        let batches = self.context.execute_logical_plan(plan).await?.collect().await?;
        self.updates.fetch_add(1, Ordering::SeqCst);
        let counts =
            batches.iter().filter_map(|b| b.columns().first()?.as_any().downcast_ref::<UInt64Array>().cloned());
        Ok(counts.map(|c| c.values().iter().sum::<u64>() as i64).sum())
    }

    fn catalog(&self) -> Result<CatalogListing> {
        let mut listing = CatalogListing { schemas: vec![("datafusion".into(), "empty".into())], tables: Vec::new() };
        let catalog = self.context.catalog("datafusion").unwrap();
        let schema = catalog.schema("public").unwrap();
        for name in schema.table_names() {
            let table = futures::executor::block_on(schema.table(&name)).unwrap().unwrap();
            listing.tables.push(TableInfo {
                catalog: "datafusion".into(),
                schema: "public".into(),
                table_type: if name == "v" { TableType::View } else { TableType::Table },
                columns: table.schema(),
                primary_key: if name == "t" { vec!["name".into(), "id".into()] } else { Vec::new() },
                name,
            });
        }
        Ok(listing)
    }

    async fn action(&self, name: &str, body: Bytes) -> Result<Bytes> {
        match name {
            "ancho.apply" => Ok(format!("{{\"applied\":{}}}", body.len()).into()),
            "ancho.drain" | "ancho.rebalance" => Ok(format!("{{\"asked\":{}}}", String::from_utf8_lossy(&body)).into()),
            "ancho.cluster_status" => Ok(Bytes::from_static(b"{\"schedulers\":[]}")),
            _ => Err(Error::not_found(format!("action {name} does not exist"))),
        }
    }

    fn ready(&self) -> Readiness {
        let ready = self.ready.load(Ordering::SeqCst);
        Readiness { ready, reasons: if ready { Vec::new() } else { vec!["no leader".to_string()] } }
    }
}

sql_service!(Double: prepare, query, update, catalog, action, ready);
